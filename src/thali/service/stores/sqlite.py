"""A store in one SQLite file: durable, with no other server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from thali.service.stores.records import Impression, Key, Statistics, StoreError
from thali.service.stores.sql import KEPT, SHOWN, SqlStore, impression

# How long SQLite itself waits for another process; who can wait longer asks again.
PATIENCE_S = 0.005
# Pages of the log after which it is written back into the file: by the commit that reaches them, or elsewhere. Pages
# change again and again, so a longer log is less to write; but whoever waits for it waits longer.
COMMIT_PAGES, LOG_PAGES = 1000, 20_000
PAGE_BYTES = 4096
# SQLite keeps at most this much of the file in memory, in KiB.
PAGES_KIB = 65_536


class SqliteStore(SqlStore):
    """One file, with a write-ahead log beside it that is synchronised with the disk at every commit.

    Several processes may open it (the service, and beside it a backup or a replay); each sees what the others wrote,
    and they write in turn.
    """

    kind, shared = "sqlite", False
    words: ClassVar[dict[str, str]] = {"blob": "BLOB", "real": "REAL", "text": "TEXT"}

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.url = f"sqlite:///{self.path}"
        if not self.path.parent.is_dir():
            raise ValueError(f"store must be a file in a folder that exists, got {self.url}")
        with suppress(FileExistsError):  # what is learned of people is nobody else's business
            self.path.touch(mode=0o600, exist_ok=False)
        with self._failing():
            # Statements come from one thread at a time, not always the same: commits may be given to another.
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            for setting in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "foreign_keys = ON",
                "secure_delete = ON",  # a forgotten person is not left in free pages; not every SQLite does it unasked
                f"wal_autocheckpoint = {COMMIT_PAGES}",
                f"cache_size = -{PAGES_KIB}",
                f"journal_size_limit = {LOG_PAGES * PAGE_BYTES}",
            ):
                self._connection.execute(f"PRAGMA {setting}")

    def begin(self, *, write: bool = True) -> bool:
        """Start a transaction: one that writes is alone in that, if nobody else is at it."""
        try:
            self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise self._failure(error) from error
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return True

    def commit(self) -> None:
        """One synchronisation of the log with the disk."""
        with self._failing():
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file, the log written back into it where nobody else has it open."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def generation(self) -> int | None:
        """SQLite's own number, which another connection's commit changes."""
        return int(self.execute("PRAGMA data_version")[0][0])

    def again(self) -> SqliteStore:
        """Another connection."""
        return SqliteStore(self.path)

    def scrub(self) -> None:
        """Empty the log, in which names that were removed still are."""
        with suppress(StoreError):  # who reads now keeps it: it will be emptied with the next
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def maintained_elsewhere(self) -> None:
        """Leave it to another connection's :meth:`maintain` to write the log back, off the road of a commit."""
        self.execute("PRAGMA wal_autocheckpoint = 0")

    def maintain(self) -> None:
        """Write the log back into the file, if it is long; from a connection of its own, while another one writes."""
        if self._log_size() > LOG_PAGES * PAGE_BYTES:
            self.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of it, and nobody waits
            self.execute("PRAGMA wal_checkpoint(RESTART)")  # the rest, so that the log begins anew

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        with self._failing():
            return self._connection.execute(statement, values).fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """A statement for many rows."""
        with self._failing():
            self._connection.executemany(statement, rows)

    def version(self) -> int:
        """From meta, if there is such a table."""
        if not self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"):
            return 0
        return int(self.meta("version") or 0)

    def size(self) -> int:
        """The file and the log beside it. SQLite would go on writing to a file that was removed: that is an error."""
        try:
            return self.path.stat().st_size + self._log_size()
        except OSError as error:
            raise StoreError(f"store {self.url} cannot be used: {error.strerror}") from error

    def _log_size(self) -> int:
        try:
            return self.path.with_name(self.path.name + "-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def lock_setup(self) -> None:
        """A transaction that writes is alone anyway."""

    def impressions(self, ids: Sequence[bytes]) -> dict[bytes, Impression]:
        """One look-up each: there is no way to a server to save."""
        statement = f"SELECT {SHOWN} FROM impressions WHERE id = ?"
        return {id: impression(row) for id in ids for row in self.execute(statement, (id,))}

    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """One look-up each."""
        statement = f'SELECT {KEPT} FROM statistics WHERE "user" = ? AND learner = ?'
        return {key: Statistics(*row) for key in keys for row in self.execute(statement, key)}

    def hold(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """The same: the transaction is alone."""
        return dict.fromkeys(keys, blank) | self.statistics(keys)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"store {self.url} cannot be used: {error}")
