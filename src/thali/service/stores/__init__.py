"""Stores for everything that is learned: a SQLite file, or PostgreSQL for many machines."""

from __future__ import annotations

from thali.service.stores.records import StoreError
from thali.service.stores.sql import SqlStore

__all__ = ["SqlStore", "StoreError", "open_store"]


def open_store(url: str) -> SqlStore:
    """Open the store at a URL: ``sqlite:///taste.db`` or ``postgresql://…``.

    The path of a SQLite file follows the third slash. It is relative, unless a fourth slash makes it absolute.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from thali.service.stores.sqlite import SqliteStore

        return SqliteStore(rest[1:])
    if scheme in ("postgresql", "postgres"):
        from thali.service.stores.postgres import PostgresStore

        return PostgresStore(url)
    given = f"{scheme}://…" if rest else url  # the rest of a URL may contain a password
    raise ValueError(f"store must be a URL of the form sqlite:///FILE or postgresql://…, got {given!r}")
