"""A store in PostgreSQL, which many processes on many machines can share."""

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
from thali.service.stores.sql import IMPRESSION_COLUMNS, STATISTICS_COLUMNS, SqlStore, impression_from_row

# Time limits in seconds.
CONNECT_S = 5  # to connect
LOCK_S = 5  # to wait for a lock that another process holds
STATEMENT_S = 10  # for a statement
RESPONSE_S = 15  # until a server that does not respond counts as lost
IDLE_S = 60  # until the server disconnects a process that stopped responding while it held locks
# Connection settings, unless the URL sets them.
DEFAULTS: dict[str, Any] = {
    "application_name": "thali",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * RESPONSE_S,
}
# Set in every transaction, not once per connection: a pooler may give each transaction a different connection.
SETTINGS = (
    f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '{LOCK_S}s'; "
    f"SET LOCAL statement_timeout = '{STATEMENT_S}s'; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s'"
)
BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {SETTINGS}".encode()
BEGIN_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SETTINGS}".encode()
# The number of the advisory lock that a process holds while it sets up the store.
SETUP = int.from_bytes(b"thali", "big")
# A table of the requested keys, in the given order.
KEYS = 'unnest(?::text[], ?::text[]) WITH ORDINALITY AS k("user", learner, place)'
T = TypeVar("T")


class PostgresStore(SqlStore):
    """Tables in the current schema of a database. Connects when first used, and reconnects after a lost connection.

    Processes that learn for the same user lock that user's rows, and wait for each other's locks. To avoid deadlocks,
    all of them lock rows in the same order: impressions before statistics, and each in ascending order. After an error
    the connection is closed, which discards everything uncommitted.
    """

    kind, shared = "postgresql", True
    column_types: ClassVar[dict[str, str]] = {"blob": "BYTEA", "real": "DOUBLE PRECISION", "text": 'TEXT COLLATE "C"'}

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: _Connection | None = None
        try:
            self._parts = conninfo_to_dict(url)
        except psycopg.Error:  # its message may contain part of the password
            raise ValueError("store must be a valid PostgreSQL URL, got one that cannot be parsed") from None
        self.url = _without_password(self._parts)

    def begin(self, *, write: bool = True) -> bool:
        """Begin a transaction. Takes one round trip to the server, or three if it has to connect first."""
        statement = BEGIN_WRITE if write else BEGIN_READ
        if self._connection is not None:
            if self._connection.pgconn.transaction_status == TransactionStatus.INTRANS:
                raise StoreError(f"store {self.url} cannot be used: the previous transaction has not ended")
            try:
                self._connection.execute(statement, prepare=False)
                return True
            except psycopg.Error:  # the connection was lost between transactions, so nothing is lost with it
                self._drop()
        with self._wrap_errors():
            self._connection = _Connection.connect(autocommit=True, **DEFAULTS | self._parts)
            self._connection.execute(statement, prepare=False)
        return True

    def commit(self) -> None:
        """Commit the transaction. If the connection is lost meanwhile, either everything was stored or nothing was."""
        with self._wrap_errors():
            self._open().execute(b"COMMIT")

    def rollback(self) -> None:
        """Roll back the current transaction, if any."""
        if self._connection is not None:
            try:
                if self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
                    self._connection.execute(b"ROLLBACK")
            except psycopg.Error:
                self._drop()

    def close(self) -> None:
        """Close the connection. Uncommitted changes are discarded."""
        self._drop()

    def generation(self) -> int | None:
        """Return None, because other processes may write at any time."""
        return None

    def new_connection(self) -> PostgresStore:
        """Return another store object for the same database. It connects when first used."""
        return PostgresStore(self._url)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows. Takes one round trip."""
        with self._wrap_errors(), self._open().cursor(binary=True) as cursor:
            cursor.execute(_statement(statement), values)
            return cursor.fetchall() if cursor.description else []

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for many rows. Takes one round trip in total."""
        with self._wrap_errors(), self._open().cursor() as cursor:
            cursor.executemany(_statement(statement), rows)

    def version(self) -> int:
        """Read the version from the table meta, or return 0 if the current schema has no such table."""
        if not self.execute("SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta'"):
            return 0
        return int(self.meta("version") or 0)

    def size(self) -> int:
        """Return the size of the whole database, including other applications' tables.

        Cost: the server has to read the size of each of its files.
        """
        return int(self.execute("SELECT pg_database_size(current_database())")[0][0])

    def lock_setup(self) -> None:
        """Take an advisory lock, which is released at the end of the transaction."""
        self.execute("SELECT pg_advisory_xact_lock(?)", (SETUP,))

    def impressions(self, ids: Sequence[bytes]) -> dict[bytes, Impression]:
        """Read and lock impressions, with one statement. Needs a transaction that can write."""
        rows = self.execute(
            f"SELECT {IMPRESSION_COLUMNS} FROM impressions WHERE id = ANY(?) ORDER BY id FOR UPDATE", (list(ids),)
        )
        return {shown.id: shown for shown in map(impression_from_row, rows)}

    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """Read statistics, with one statement."""
        return self._select_statistics(
            f'SELECT "user", learner, {STATISTICS_COLUMNS} FROM {KEYS} JOIN statistics USING ("user", learner)',
            sorted(set(keys)),
        )

    def lock_statistics(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """Read and lock statistics, with two statements. A missing row cannot be locked, so it is inserted first.

        If two processes see the same new user, both try to insert the row. The second waits until the first commits,
        and then reads what the first has learned. A process that forgets the user at the same time may delete the row
        after it was inserted, so both statements are repeated until all rows are locked.
        """
        ascending, rows = sorted(set(keys)), dict[Key, Statistics]()
        while len(rows) < len(ascending):
            self.execute(
                'INSERT INTO statistics ("user", learner, topics, updates, sequence, numbers) '
                f'SELECT "user", learner, ?, ?, ?, ? FROM {KEYS} ORDER BY place ON CONFLICT DO NOTHING',
                (blank.topics, blank.updates, blank.sequence, blank.numbers, *_columns(ascending)),
            )
            rows = self._select_statistics(
                f'SELECT "user", learner, {STATISTICS_COLUMNS} FROM {KEYS} JOIN statistics s USING ("user", learner) '
                "ORDER BY place FOR UPDATE OF s",
                ascending,
            )
        return rows

    def lock_user(self, user: str, learners: Iterable[str], blank: Statistics) -> None:
        """Lock a user's impressions, and then the statistics, which is the order of all operations.

        Waits for processes that have locked any of them.
        """
        self.execute('SELECT 1 FROM impressions WHERE "user" = ? ORDER BY id FOR UPDATE', (user,))
        self.lock_statistics([(user, learner) for learner in learners], blank)

    def prune(self, before: bytes, limit: int) -> int:
        """Remove old impressions, after waiting for processes that have locked them to record an answer."""
        self.execute("SELECT 1 FROM impressions WHERE id < ? ORDER BY id LIMIT ? FOR UPDATE", (before, limit))
        return super().prune(before, limit)

    def clear(self, table: str) -> None:
        """Remove all rows of a table. Takes the same time however many rows there are."""
        self.execute(f"TRUNCATE {table}")

    def _select_statistics(self, statement: str, keys: Sequence[Key]) -> dict[Key, Statistics]:
        rows = self.execute(statement, _columns(keys))
        return {(user, learner): Statistics(*columns) for user, learner, *columns in rows}

    def _open(self) -> _Connection:
        """Return the connection, which must be in a transaction.

        Outside a transaction, the server's own settings would decide whether a statement is durable.
        """
        if self._connection is None or self._connection.pgconn.transaction_status != TransactionStatus.INTRANS:
            raise StoreError(f"store {self.url} cannot be used: no transaction has begun, or its connection was lost")
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        """Turn an error of PostgreSQL into a StoreError with the first sentence only, without statements or values."""
        try:
            yield
        except psycopg.Error as error:
            self._drop()
            reason = error.diag.message_primary or str(error).partition("\n")[0]
            raise StoreError(f"store {self.url} cannot be used: {reason}") from error


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that hangs. Such a server cannot enforce its own time-outs."""

    def wait(self, gen: PQGen[T], *args: Any, **settings: Any) -> T:
        return super().wait(self._with_timeout(gen), *args, **settings)

    def _with_timeout(self, gen: PQGen[T]) -> PQGen[T]:
        """Add a time limit to gen. While the server does not respond, psycopg sends it 0 about ten times per second."""
        try:
            state, last_response = next(gen), monotonic()
            while True:
                ready = yield state
                if ready:
                    last_response = monotonic()
                elif monotonic() - last_response > RESPONSE_S:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server did not respond for {RESPONSE_S} s")
                state = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


@cache
def _statement(statement: str) -> bytes:
    """Replace ? by psycopg's placeholder %s. Our statements use neither ? nor % for anything else."""
    if "%" in statement or any("?" in quoted for quoted in statement.split("'")[1::2]):
        raise AssertionError(f"a statement must not contain %, or ? in quotes, got {statement}")
    return statement.replace("?", "%s").encode()


def _columns(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [user for user, _ in keys], [learner for _, learner in keys]


def _without_password(parts: dict[str, Any]) -> str:
    """Return the URL without its password and settings."""
    user, host, port, name = (parts.get(part) or "" for part in ("user", "host", "port", "dbname"))
    at = f"{quote(user)}@" if user else ""
    return f"postgresql://{at}{quote(host, safe=',:[]')}{f':{port}' if port else ''}/{quote(name)}"
