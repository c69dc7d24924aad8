"""Stores for everything learned: a SQLite file, or PostgreSQL for many machines."""

from __future__ import annotations

from thali.service.stores.records import StoreError
from thali.service.stores.sql import SqlStore

__all__ = ["SqlStore", "StoreError", "open_store"]


def open_store(url: str) -> SqlStore:
    """Open the store at a URL: ``sqlite:///taste.db`` (a local path follows the third slash) or ``postgresql://…``."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from thali.service.stores.sqlite import SqliteStore

        return SqliteStore(rest[1:])
    if scheme in ("postgresql", "postgres"):
        from thali.service.stores.postgres import PostgresStore

        return PostgresStore(url)
    raise ValueError(f"store must be sqlite:///FILE or postgresql://…, got {scheme + '://…' if rest else url!r}")
