"""A store in PostgreSQL, for many processes on many machines that learn for the same users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from time import monotonic
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from thali.service.stores.records import Impression, Key, Statistics, StoreError
from thali.service.stores.sql import KEPT, SHOWN, SqlStore, impression

# Time limits in seconds: to connect; to wait for another process's lock; for a statement; until a silent server counts
# as lost; and until the server drops a process that went silent while holding locks.
CONNECT_S, LOCK_S, STATEMENT_S, ANSWER_S, IDLE_S = 5, 5, 10, 15, 60
# Connection settings, unless the URL sets them.
DEFAULTS: dict[str, Any] = {
    "application_name": "thali",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * ANSWER_S,
}
# Set in every transaction, not once per connection: a pooler may give each transaction a different connection.
SETTINGS = (
    f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '{LOCK_S}s'; "
    f"SET LOCAL statement_timeout = '{STATEMENT_S}s'; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s'"
)
BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {SETTINGS}".encode()
BEGIN_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SETTINGS}".encode()
# The number of the advisory lock for setting up.
SETUP = int.from_bytes(b"thali", "big")
# The keys as rows, in the order given.
KEYS = 'unnest(?::text[], ?::text[]) WITH ORDINALITY AS k("user", learner, place)'
T = TypeVar("T")


class PostgresStore(SqlStore):
    """Tables in the current schema of a database. Connects when first used, and reconnects after a lost connection.

    Processes that learn for the same user wait for each other row by row. To avoid deadlocks, all of them lock in the
    same order: impressions before statistics, each in ascending order. After an error the connection is dropped, and
    everything uncommitted with it.
    """

    kind, shared = "postgresql", True
    words: ClassVar[dict[str, str]] = {"blob": "BYTEA", "real": "DOUBLE PRECISION", "text": 'TEXT COLLATE "C"'}

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: _Connection | None = None
        try:
            self._parts = conninfo_to_dict(url)
        except psycopg.Error:  # its message may contain part of the password
            raise ValueError("store must be a url that PostgreSQL understands, got postgresql://…") from None
        self.url = _without_password(self._parts)

    def begin(self, *, write: bool = True) -> bool:
        """One round trip to the server, three if it has to connect. A read-only transaction sees one snapshot."""
        statement = BEGIN_WRITE if write else BEGIN_READ
        if self._connection is not None:
            if self._connection.pgconn.transaction_status == TransactionStatus.INTRANS:
                raise StoreError(f"store {self.url} cannot be used: a transaction is not finished")
            try:
                self._connection.execute(statement, prepare=False)
                return True
            except psycopg.Error:  # the connection was lost in the meantime; nothing had been requested on it
                self._drop()
        with self._wrap_errors():
            self._connection = _Connection.connect(autocommit=True, **DEFAULTS | self._parts)
            self._connection.execute(statement, prepare=False)
        return True

    def commit(self) -> None:
        """Durable when this returns. If the connection is lost during the commit, all of it is stored or none of it."""
        with self._wrap_errors():
            self._open().execute(b"COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        if self._connection is not None:
            try:
                if self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
                    self._connection.execute(b"ROLLBACK")
            except psycopg.Error:
                self._drop()

    def close(self) -> None:
        """Close the connection; uncommitted changes are undone."""
        self._drop()

    def generation(self) -> int | None:
        """None: other processes may write at any time."""
        return None

    def again(self) -> PostgresStore:
        """Another store object, which opens its own connection when used."""
        return PostgresStore(self._url)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; one round trip."""
        with self._wrap_errors(), self._open().cursor(binary=True) as cursor:
            cursor.execute(_statement(statement), values)
            return cursor.fetchall() if cursor.description else []

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for many rows; one round trip for all."""
        with self._wrap_errors(), self._open().cursor() as cursor:
            cursor.executemany(_statement(statement), rows)

    def version(self) -> int:
        """Read from the table meta, if the current schema has one."""
        if not self.execute("SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta'"):
            return 0
        return int(self.meta("version") or 0)

    def size(self) -> int:
        """The whole database, including tables that are not thali's. Cost: the server looks at each of its files."""
        return int(self.execute("SELECT pg_database_size(current_database())")[0][0])

    def lock_setup(self) -> None:
        """Take an advisory lock, released at the end of the transaction."""
        self.execute("SELECT pg_advisory_xact_lock(?)", (SETUP,))

    def impressions(self, ids: Sequence[bytes]) -> dict[bytes, Impression]:
        """One statement; needs a transaction that writes."""
        rows = self.execute(f"SELECT {SHOWN} FROM impressions WHERE id = ANY(?) ORDER BY id FOR UPDATE", (list(ids),))
        return {shown.id: shown for shown in map(impression, rows)}

    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """One statement."""
        return self._select_statistics(
            f'SELECT "user", learner, {KEPT} FROM {KEYS} JOIN statistics USING ("user", learner)', sorted(set(keys))
        )

    def hold(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """Two statements. A missing row cannot be locked, so blank rows are inserted first.

        If two processes meet the same new user, both insert that row: the second waits for the first to commit, and
        then finds what it has learned. It waits in the same way for a process that forgets the user in between.
        """
        ascending, found = sorted(set(keys)), dict[Key, Statistics]()
        while len(found) < len(ascending):
            self.execute(
                f'INSERT INTO statistics ("user", learner, {KEPT}) SELECT "user", learner, ?, ?, ?, ? FROM {KEYS} '
                "ORDER BY place ON CONFLICT DO NOTHING",
                (blank.topics, blank.updates, blank.sequence, blank.numbers, *_columns(ascending)),
            )
            found = self._select_statistics(
                f'SELECT "user", learner, {KEPT} FROM {KEYS} JOIN statistics s USING ("user", learner) '
                "ORDER BY place FOR UPDATE OF s",
                ascending,
            )
        return found

    def forget(self, user: str) -> tuple[int, dict[str, tuple[int, int]]]:
        """Wait for processes that hold the user's statistics, and also remove the impressions they add meanwhile."""
        self.execute('SELECT 1 FROM impressions WHERE "user" = ? ORDER BY id FOR UPDATE', (user,))
        self.execute('SELECT 1 FROM statistics WHERE "user" = ? ORDER BY learner FOR UPDATE', (user,))
        return super().forget(user)

    def prune(self, before: bytes, limit: int) -> int:
        """Wait for processes that are answering these impressions."""
        self.execute("SELECT 1 FROM impressions WHERE id < ? ORDER BY id LIMIT ? FOR UPDATE", (before, limit))
        return super().prune(before, limit)

    def clear(self, table: str) -> None:
        """Immediate, however many rows there are."""
        self.execute(f"TRUNCATE {table}")

    def _select_statistics(self, statement: str, keys: Sequence[Key]) -> dict[Key, Statistics]:
        rows = self.execute(statement, _columns(keys))
        return {(user, learner): Statistics(*rest) for user, learner, *rest in rows}

    def _open(self) -> _Connection:
        """The connection, in a transaction. Outside one, whether a statement is durable would depend on the server."""
        if self._connection is None or self._connection.pgconn.transaction_status != TransactionStatus.INTRANS:
            raise StoreError(f"store {self.url} cannot be used: no transaction was begun, or it was lost")
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        """Turn an error of PostgreSQL into a StoreError with its first sentence only: no statement, no values."""
        try:
            yield
        except psycopg.Error as error:
            self._drop()
            reason = error.diag.message_primary or str(error).partition("\n")[0]
            raise StoreError(f"store {self.url} cannot be used: {reason}") from error


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait forever for a stuck server, which cannot enforce its own time-outs."""

    def wait(self, gen: PQGen[T], *args: Any, **settings: Any) -> T:
        return super().wait(self._with_timeout(gen), *args, **settings)

    def _with_timeout(self, gen: PQGen[T]) -> PQGen[T]:
        """Wrap gen with a time limit. It is sent 0 about ten times a second while the server is silent."""
        try:
            state, heard = next(gen), monotonic()
            while True:
                ready = yield state
                if ready:
                    heard = monotonic()
                elif monotonic() - heard > ANSWER_S:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {ANSWER_S} s")
                state = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


@cache
def _statement(statement: str) -> bytes:
    """Replace ? by psycopg's placeholder %s. Our statements use neither character for anything else."""
    if "%" in statement or any("?" in quoted for quoted in statement.split("'")[1::2]):
        raise AssertionError(f"a statement must have no % and no ? in quotes, got {statement}")
    return statement.replace("?", "%s").encode()


def _columns(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [user for user, _ in keys], [learner for _, learner in keys]


def _without_password(parts: dict[str, Any]) -> str:
    """The URL without password and settings."""
    user, host, port, name = (parts.get(part) or "" for part in ("user", "host", "port", "dbname"))
    at = f"{quote(user)}@" if user else ""
    return f"postgresql://{at}{quote(host, safe=',:[]')}{f':{port}' if port else ''}/{quote(name)}"
