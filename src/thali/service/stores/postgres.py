"""A store in PostgreSQL: for many processes on many machines, which all learn for the same people."""

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

# Seconds: to connect; for a lock of another process; for a statement; until a silent server counts as lost; and until
# the server gives up a process that has gone silent with locks in its hands.
CONNECT_S, LOCK_S, STATEMENT_S, ANSWER_S, IDLE_S = 5, 5, 10, 15, 60
# Of a connection, where the url says nothing else.
DEFAULTS: dict[str, Any] = {
    "application_name": "thali",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * ANSWER_S,
}
# With every transaction, not once for a connection: a pooler may give each transaction another connection.
SETTINGS = (
    f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '{LOCK_S}s'; "
    f"SET LOCAL statement_timeout = '{STATEMENT_S}s'; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s'"
)
BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {SETTINGS}".encode()
BEGIN_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SETTINGS}".encode()
# The advisory lock of setting up, by a number that is ours.
SETUP = int.from_bytes(b"thali", "big")
# The keys as rows, in the order in which they are given.
KEYS = 'unnest(?::text[], ?::text[]) WITH ORDINALITY AS k("user", learner, place)'
T = TypeVar("T")


class PostgresStore(SqlStore):
    """Tables in the current schema of a database; connects when first used, and again whenever that was lost.

    Processes that learn for the same person wait for each other row by row. All of them lock in the same order,
    impressions before statistics and each in ascending order, so that none waits for one that waits for it.
    After an error the connection is given up, and with it what was not committed.
    """

    kind, shared = "postgresql", True
    words: ClassVar[dict[str, str]] = {"blob": "BYTEA", "real": "DOUBLE PRECISION", "text": 'TEXT COLLATE "C"'}

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: _Connection | None = None
        try:
            self._parts = conninfo_to_dict(url)
        except psycopg.Error:  # its words may have a part of the password
            raise ValueError("store must be a url that PostgreSQL understands, got postgresql://…") from None
        self.url = _shown(self._parts)

    def begin(self, *, write: bool = True) -> bool:
        """One way to the server, three when it has to connect. One that only reads sees the store of one moment."""
        statement = BEGIN_WRITE if write else BEGIN_READ
        if self._connection is not None:
            if self._connection.pgconn.transaction_status == TransactionStatus.INTRANS:
                raise StoreError(f"store {self.url} cannot be used: a transaction is not finished")
            try:
                self._connection.execute(statement, prepare=False)
                return True
            except psycopg.Error:  # lost since; nothing was asked for on it
                self._drop()
        with self._failing():
            self._connection = _Connection.connect(autocommit=True, **DEFAULTS | self._parts)
            self._connection.execute(statement, prepare=False)
        return True

    def commit(self) -> None:
        """On disk when this returns. If the connection is lost meanwhile, it may be there or not, but never in part."""
        with self._failing():
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
        """Close the connection; what was not committed is undone."""
        self._drop()

    def generation(self) -> int | None:
        """Others write at any time."""
        return None

    def again(self) -> PostgresStore:
        """Another connection, when it is used."""
        return PostgresStore(self._url)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement; one way to the server."""
        with self._failing(), self._open().cursor(binary=True) as cursor:
            cursor.execute(_statement(statement), values)
            return cursor.fetchall() if cursor.description else []

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """A statement for many rows; one way to the server for all."""
        with self._failing(), self._open().cursor() as cursor:
            cursor.executemany(_statement(statement), rows)

    def version(self) -> int:
        """From meta, if there is such a table in the current schema."""
        if not self.execute("SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta'"):
            return 0
        return int(self.meta("version") or 0)

    def size(self) -> int:
        """All of the database, also what is not ours. Cost: a look at each of its files, at the server."""
        return int(self.execute("SELECT pg_database_size(current_database())")[0][0])

    def lock_setup(self) -> None:
        """A lock of the database, given back at the end of the transaction."""
        self.execute("SELECT pg_advisory_xact_lock(?)", (SETUP,))

    def impressions(self, ids: Sequence[bytes]) -> dict[bytes, Impression]:
        """One statement; in a transaction that writes."""
        rows = self.execute(f"SELECT {SHOWN} FROM impressions WHERE id = ANY(?) ORDER BY id FOR UPDATE", (list(ids),))
        return {shown.id: shown for shown in map(impression, rows)}

    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """One statement."""
        return self._found(
            f'SELECT "user", learner, {KEPT} FROM {KEYS} JOIN statistics USING ("user", learner)', sorted(set(keys))
        )

    def hold(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """Two statements. A row that is not there cannot be held: blank ones are put first.

        Two processes that both meet a new user both put that row: the second waits for the first to commit, and then
        finds what it has learned. A process that forgets the user in between is waited for in the same way.
        """
        ascending, found = sorted(set(keys)), dict[Key, Statistics]()
        while len(found) < len(ascending):
            self.execute(
                f'INSERT INTO statistics ("user", learner, {KEPT}) SELECT "user", learner, ?, ?, ?, ? FROM {KEYS} '
                "ORDER BY place ON CONFLICT DO NOTHING",
                (blank.topics, blank.updates, blank.sequence, blank.numbers, *_columns(ascending)),
            )
            found = self._found(
                f'SELECT "user", learner, {KEPT} FROM {KEYS} JOIN statistics s USING ("user", learner) '
                "ORDER BY place FOR UPDATE OF s",
                ascending,
            )
        return found

    def forget(self, user: str) -> tuple[int, dict[str, tuple[int, int]]]:
        """Waits for those who hold the user's statistics, and removes what they showed meanwhile too."""
        self.execute('SELECT 1 FROM impressions WHERE "user" = ? ORDER BY id FOR UPDATE', (user,))
        self.execute('SELECT 1 FROM statistics WHERE "user" = ? ORDER BY learner FOR UPDATE', (user,))
        return super().forget(user)

    def prune(self, before: bytes, limit: int) -> int:
        """Waits for those who answer them."""
        self.execute("SELECT 1 FROM impressions WHERE id < ? ORDER BY id LIMIT ? FOR UPDATE", (before, limit))
        return super().prune(before, limit)

    def clear(self, table: str) -> None:
        """At once, however many there are."""
        self.execute(f"TRUNCATE {table}")

    def _found(self, statement: str, keys: Sequence[Key]) -> dict[Key, Statistics]:
        rows = self.execute(statement, _columns(keys))
        return {(user, learner): Statistics(*rest) for user, learner, *rest in rows}

    def _open(self) -> _Connection:
        """The connection, in a transaction: outside of one, a statement would be durable or not as the server likes."""
        if self._connection is None or self._connection.pgconn.transaction_status != TransactionStatus.INTRANS:
            raise StoreError(f"store {self.url} cannot be used: no transaction was begun, or it was lost")
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """An error of PostgreSQL is a store that cannot be used, said in its first sentence: no statement or value."""
        try:
            yield
        except psycopg.Error as error:
            self._drop()
            reason = error.diag.message_primary or str(error).partition("\n")[0]
            raise StoreError(f"store {self.url} cannot be used: {reason}") from error


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Does not wait for ever for a server that is there but stuck: that one keeps no time-out of its own either."""

    def wait(self, gen: PQGen[T], *args: Any, **settings: Any) -> T:
        return super().wait(self._patient(gen), *args, **settings)

    def _patient(self, gen: PQGen[T]) -> PQGen[T]:
        """The same, given nothing (0) about ten times a second while the server is silent."""
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
    """A statement of ours with psycopg's mark for values in the place of ?; none of ours has either mark otherwise."""
    if "%" in statement or any("?" in quoted for quoted in statement.split("'")[1::2]):
        raise AssertionError(f"a statement must have no % and no ? in quotes, got {statement}")
    return statement.replace("?", "%s").encode()


def _columns(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [user for user, _ in keys], [learner for _, learner in keys]


def _shown(parts: dict[str, Any]) -> str:
    """A url without its password and settings."""
    user, host, port, name = (parts.get(part) or "" for part in ("user", "host", "port", "dbname"))
    at = f"{quote(user)}@" if user else ""
    return f"postgresql://{at}{quote(host, safe=',:[]')}{f':{port}' if port else ''}/{quote(name)}"
