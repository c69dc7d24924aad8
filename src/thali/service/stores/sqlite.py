"""A store in one SQLite file: durable, without a server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from thali.service.stores.records import Impression, Key, Statistics, StoreError
from thali.service.stores.sql import KEPT, SHOWN, SqlStore, impression

# How long SQLite itself waits for another process; callers that can wait longer retry.
PATIENCE_S = 0.005
# The log is written back into the file after this many pages: by the commit that reaches the first number, or by
# maintain() after the second. Pages change repeatedly, so a longer log means fewer writes but longer waits.
COMMIT_PAGES, LOG_PAGES = 1000, 20_000
PAGE_BYTES = 4096
# SQLite keeps at most this much of the file in memory, in KiB.
PAGES_KIB = 65_536


class SqliteStore(SqlStore):
    """One file and its write-ahead log, which is synchronised with the disk at every commit.

    Several processes may open it, such as the service and a backup or a replay. Each sees what the others wrote, and
    they take turns writing.
    """

    kind, shared = "sqlite", False
    words: ClassVar[dict[str, str]] = {"blob": "BLOB", "real": "REAL", "text": "TEXT"}

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.url = f"sqlite:///{self.path}"
        if not self.path.parent.is_dir():
            raise ValueError(f"store must be a file in a folder that exists, got {self.url}")
        with suppress(FileExistsError):  # private: what is learned about people is for this user only
            self.path.touch(mode=0o600, exist_ok=False)
        with self._wrap_errors():
            # Only one thread at a time runs statements, but not always the same one: another may do the commits.
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            for setting in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "foreign_keys = ON",
                "secure_delete = ON",  # leave no forgotten user in free pages; not the default everywhere
                f"wal_autocheckpoint = {COMMIT_PAGES}",
                f"cache_size = -{PAGES_KIB}",
                f"journal_size_limit = {LOG_PAGES * PAGE_BYTES}",
            ):
                self._connection.execute(f"PRAGMA {setting}")

    def begin(self, *, write: bool = True) -> bool:
        """Start a transaction. Only one at a time can write: False if another process is writing."""
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
        """Costs one synchronisation of the log with the disk."""
        with self._wrap_errors():
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file, after writing the log back into it if nobody else has it open."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def generation(self) -> int | None:
        """SQLite's data_version, which changes when another connection commits."""
        return int(self.execute("PRAGMA data_version")[0][0])

    def again(self) -> SqliteStore:
        """Another connection."""
        return SqliteStore(self.path)

    def scrub(self) -> None:
        """Empty the log, which still contains removed names."""
        with suppress(StoreError):  # a current reader prevents it; the next call will empty it
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def maintained_elsewhere(self) -> None:
        """Leave writing back the log to another connection's :meth:`maintain`, so that commits do not wait for it."""
        self.execute("PRAGMA wal_autocheckpoint = 0")

    def maintain(self) -> None:
        """Write the log back into the file if it is long. Use a separate connection while another one writes."""
        if self._log_size() > LOG_PAGES * PAGE_BYTES:
            self.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of it, without making anyone wait
            self.execute("PRAGMA wal_checkpoint(RESTART)")  # the rest, so that the log starts again from its beginning

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self._wrap_errors():
            return self._connection.execute(statement, values).fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for many rows."""
        with self._wrap_errors():
            self._connection.executemany(statement, rows)

    def version(self) -> int:
        """Read from the table meta, if there is one."""
        if not self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"):
            return 0
        return int(self.meta("version") or 0)

    def size(self) -> int:
        """The size of the file and its log. A removed file is an error, because SQLite would keep writing to it."""
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
        """One look-up each: there are no round trips to save."""
        statement = f"SELECT {SHOWN} FROM impressions WHERE id = ?"
        return {id: impression(row) for id in ids for row in self.execute(statement, (id,))}

    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """One look-up each."""
        statement = f'SELECT {KEPT} FROM statistics WHERE "user" = ? AND learner = ?'
        return {key: Statistics(*row) for key in keys for row in self.execute(statement, key)}

    def hold(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """Like :meth:`statistics`, with blank ones added: the transaction is the only one that writes."""
        return dict.fromkeys(keys, blank) | self.statistics(keys)

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"store {self.url} cannot be used: {error}")
