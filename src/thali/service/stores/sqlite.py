"""A durable store in one SQLite file, without a server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from thali.service.stores.records import Impression, Key, Statistics, StoreError
from thali.service.stores.sql import IMPRESSION_COLUMNS, STATISTICS_COLUMNS, SqlStore, impression_from_row

# How long SQLite itself waits for another process. Callers that can wait longer try again.
PATIENCE_S = 0.005
# The write-ahead log is copied back into the file when it is this many pages long. A commit does this at COMMIT_PAGES,
# and maintain() does it at LOG_PAGES. The same pages change repeatedly, so a longer log means fewer writes in total but
# longer waits.
COMMIT_PAGES, LOG_PAGES = 1000, 20_000
PAGE_BYTES = 4096
# How much of the file SQLite keeps in memory at most.
CACHE_KIB = 65_536


class SqliteStore(SqlStore):
    """One file and its write-ahead log, which is flushed to disk at every commit.

    Several processes may open the file, such as a service and a backup or a replay. Each sees what the others have
    committed, and only one at a time can write.
    """

    kind, shared = "sqlite", False
    column_types: ClassVar[dict[str, str]] = {"blob": "BLOB", "real": "REAL", "text": "TEXT"}

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.url = f"sqlite:///{self.path}"
        if not self.path.parent.is_dir():
            raise ValueError(f"store must be a file in an existing folder, got {self.url}")
        with suppress(FileExistsError):  # the data is personal, so other users of the machine cannot read the file
            self.path.touch(mode=0o600, exist_ok=False)
        with self._wrap_errors():
            # Only one thread at a time runs statements, but not always the same one: commits may run in another thread.
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            for setting in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "foreign_keys = ON",
                "secure_delete = ON",  # overwrite the data of forgotten users; not the default everywhere
                f"wal_autocheckpoint = {COMMIT_PAGES}",
                f"cache_size = -{CACHE_KIB}",
                f"journal_size_limit = {LOG_PAGES * PAGE_BYTES}",
            ):
                self._connection.execute(f"PRAGMA {setting}")

    def begin(self, *, write: bool = True) -> bool:
        """Begin a transaction. Only one process at a time can write. Returns False if another process is writing."""
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
        """Commit the transaction. Cost: the write-ahead log is flushed to disk once."""
        with self._wrap_errors():
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back the current transaction, if any."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file. If no other process has it open, first copy the write-ahead log back into it."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def generation(self) -> int | None:
        """Return SQLite's data_version, which changes when another connection commits."""
        return int(self.execute("PRAGMA data_version")[0][0])

    def new_connection(self) -> SqliteStore:
        """Open another connection to the same file."""
        return SqliteStore(self.path)

    def scrub(self) -> None:
        """Empty the write-ahead log, which may still contain the names of removed users."""
        with suppress(StoreError):  # impossible while another process reads; then a later call empties the log
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def disable_checkpoints(self) -> None:
        """Do not copy back the write-ahead log in commits. Call :meth:`maintain` of another connection regularly."""
        self.execute("PRAGMA wal_autocheckpoint = 0")

    def maintain(self) -> None:
        """Copy the write-ahead log back into the file if it is long. Use a connection that is not used for writing."""
        if self._log_size() > LOG_PAGES * PAGE_BYTES:
            self.execute("PRAGMA wal_checkpoint(PASSIVE)")  # copies most of the log without blocking writers
            self.execute("PRAGMA wal_checkpoint(RESTART)")  # copies what remains, so that the log can be reused

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        with self._wrap_errors():
            return self._connection.execute(statement, values).fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for many rows."""
        with self._wrap_errors():
            self._connection.executemany(statement, rows)

    def version(self) -> int:
        """Read the version from the table meta, or return 0 if there is no such table."""
        if not self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"):
            return 0
        return int(self.meta("version") or 0)

    def size(self) -> int:
        """Return the size of the file and its write-ahead log.

        Raises StoreError if the file was removed. SQLite itself does not notice, and would keep writing to it.
        """
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
        """Nothing to do: only one transaction at a time can write."""

    def impressions(self, ids: Sequence[bytes]) -> dict[bytes, Impression]:
        """Read impressions one by one. There are no round trips that a single statement could save."""
        statement = f"SELECT {IMPRESSION_COLUMNS} FROM impressions WHERE id = ?"
        return {id: impression_from_row(row) for id in ids for row in self.execute(statement, (id,))}

    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """Read statistics one by one."""
        statement = f'SELECT {STATISTICS_COLUMNS} FROM statistics WHERE "user" = ? AND learner = ?'
        return {key: Statistics(*row) for key in keys for row in self.execute(statement, key)}

    def lock_statistics(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """Read statistics, with ``blank`` for missing ones. No lock is needed, since no other process can write now."""
        return dict.fromkeys(keys, blank) | self.statistics(keys)

    def lock_user(self, user: str, learners: Iterable[str], blank: Statistics) -> None:
        """Nothing to do: only one transaction at a time can write."""

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"store {self.url} cannot be used: {error}")
