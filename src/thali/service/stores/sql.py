"""A store in SQL: tables, statements and migrations, written once for SQLite and PostgreSQL."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, ClassVar, Self

from thali.service.stores.records import (
    Change,
    Heading,
    History,
    Impression,
    Key,
    Statistics,
    StoredPrior,
    StoreError,
    Writes,
)
from thali.service.stores.waiting import BLOCKING, begin, run_blocking

# Entry i migrates a store from version i to version i + 1. {blob}, {real} and {text} stand for types of the database.
# {text} is for names, which are ordered by code point. Never edit a migration. Add a new one instead.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (name {text} PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE topic_sets (number INTEGER PRIMARY KEY, names TEXT NOT NULL)",
        "CREATE TABLE learners (name {text} PRIMARY KEY, settings TEXT NOT NULL)",
        "CREATE TABLE catalogs (epoch INTEGER PRIMARY KEY, digest TEXT NOT NULL, changes BIGINT NOT NULL)",
        "CREATE TABLE item_changes (epoch INTEGER, seq BIGINT, item TEXT NOT NULL, weights TEXT, at {real} NOT NULL, "
        "PRIMARY KEY (epoch, seq))",
        'CREATE TABLE statistics ("user" {text}, learner {text}, topics INTEGER NOT NULL, updates BIGINT NOT NULL, '
        'sequence BIGINT NOT NULL, numbers {blob} NOT NULL, PRIMARY KEY ("user", learner))',
        'CREATE TABLE impressions (id {blob} PRIMARY KEY, "user" {text} NOT NULL, learner {text} NOT NULL, '
        "topics INTEGER NOT NULL, items TEXT NOT NULL, numbers {blob} NOT NULL, predicted {real} NOT NULL, "
        "clicked TEXT, answer TEXT, answered_at {real}, sequence BIGINT)",
        'CREATE INDEX impressions_of_user ON impressions ("user", id)',
        "CREATE TABLE counters (hour BIGINT, learner {text}, worker {text}, name {text}, value {real} NOT NULL, "
        "PRIMARY KEY (hour, learner, worker, name))",
    ),
    (
        "ALTER TABLE statistics ADD COLUMN seen {blob}",
        "ALTER TABLE impressions ADD COLUMN number BIGINT",
        "ALTER TABLE impressions ADD COLUMN others {blob}",
        "CREATE TABLE priors (learner {text} PRIMARY KEY, version BIGINT NOT NULL, at {real} NOT NULL, "
        "people BIGINT NOT NULL, fell_back INTEGER NOT NULL, prior TEXT)",
        "CREATE TABLE matrices (digest {text} PRIMARY KEY, numbers {blob} NOT NULL)",
        'CREATE TABLE histories ("user" {text}, learner {text}, name {text}, topics INTEGER NOT NULL, matrix {text}, '
        "numbers {blob} NOT NULL, digest TEXT NOT NULL, at {real} NOT NULL, sequence BIGINT NOT NULL, "
        'PRIMARY KEY ("user", learner, name))',
        'CREATE INDEX histories_by_name ON histories (name, "user")',
        "CREATE TABLE examinations (worker {text}, seq BIGINT, items TEXT NOT NULL, PRIMARY KEY (worker, seq))",
        "CREATE TABLE quality (item {text} PRIMARY KEY, examined {real} NOT NULL, clicked {real} NOT NULL)",
    ),
    ("ALTER TABLE impressions ADD COLUMN start {real}",),
    (
        "ALTER TABLE impressions ADD COLUMN expected {blob}",
        "ALTER TABLE quality ADD COLUMN by_topics {real}",
        "ALTER TABLE quality ADD COLUMN care {real}",
    ),
)
VERSION = len(MIGRATIONS)
#: The columns of each table. Tables can be copied in this order.
TABLES: dict[str, tuple[str, ...]] = {
    "meta": ("name", "value"),
    "topic_sets": ("number", "names"),
    "learners": ("name", "settings"),
    "catalogs": ("epoch", "digest", "changes"),
    "item_changes": ("epoch", "seq", "item", "weights", "at"),
    "statistics": ('"user"', "learner", "topics", "updates", "sequence", "numbers", "seen"),
    "impressions": (
        *("id", '"user"', "learner", "topics", "items", "numbers", "predicted"),
        *("clicked", "answer", "answered_at", "sequence", "number", "others", "start", "expected"),
    ),
    "counters": ("hour", "learner", "worker", "name", "value"),
    "priors": ("learner", "version", "at", "people", "fell_back", "prior"),
    "matrices": ("digest", "numbers"),
    "histories": ('"user"', "learner", "name", "topics", "matrix", "numbers", "digest", "at", "sequence"),
    "examinations": ("worker", "seq", "items"),
    "quality": ("item", "examined", "clicked", "by_topics", "care"),
}
#: The primary key of each table.
KEYS: dict[str, tuple[str, ...]] = {
    "meta": ("name",),
    "topic_sets": ("number",),
    "learners": ("name",),
    "catalogs": ("epoch",),
    "item_changes": ("epoch", "seq"),
    "statistics": ('"user"', "learner"),
    "impressions": ("id",),
    "counters": ("hour", "learner", "worker", "name"),
    "priors": ("learner",),
    "matrices": ("digest",),
    "histories": ('"user"', "learner", "name"),
    "examinations": ("worker", "seq"),
    "quality": ("item",),
}
#: The tables and columns that a migration added, by the version that has them.
ADDED: dict[int, dict[str, tuple[str, ...]]] = {
    2: {
        "statistics": ("seen",),
        "impressions": ("number", "others"),
        **{table: TABLES[table] for table in ("priors", "matrices", "histories", "examinations", "quality")},
    },
    3: {"impressions": ("start",)},
    4: {"impressions": ("expected",), "quality": ("by_topics", "care")},
}


def tables_of(version: int) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table in a version. Copies of a store that was not migrated read only these."""
    missing = {(t, c) for later, added in ADDED.items() if later > version for t, names in added.items() for c in names}
    kept = {t: tuple(c for c in columns if (t, c) not in missing) for t, columns in TABLES.items()}
    return {table: columns for table, columns in kept.items() if columns}


IMPRESSION_COLUMNS = ", ".join(TABLES["impressions"])
#: The columns of the table statistics without its key.
STATISTICS_COLUMNS = "topics, updates, sequence, numbers, seen"
HISTORY_COLUMNS = ", ".join(TABLES["histories"])
#: The value in the table meta that changes whenever a prior is put into use.
PRIOR_VERSION = "prior_version"
#: The value in the table meta that changes whenever the prior or the counts of the catalog file do.
START = "start"
#: The value in the table meta that changes whenever a user is forgotten.
FORGETS = "forgets"


class SqlStore(ABC):
    """A durable store of statistics, impressions, catalog changes and counters.

    Use a store from one thread at a time. Call its methods in a transaction: after :meth:`begin`, and before
    :meth:`commit` or :meth:`rollback`. A failure raises :class:`StoreError` and leaves the store unchanged. Values are
    always bound as parameters, never formatted into a statement.
    """

    #: The kind of database: "sqlite" or "postgresql".
    kind: ClassVar[str]
    #: Whether other processes may write at any time. If so, nothing that was read may be cached.
    shared: ClassVar[bool]
    #: The database's types for the placeholders {blob}, {real} and {text} in migrations.
    column_types: ClassVar[dict[str, str]]
    #: The URL without its password, to show to users.
    url: str
    # Together with the name of the worker, these numbers are unique.
    _examination_numbers: ClassVar[Iterator[int]] = count()

    @abstractmethod
    def begin(self, *, write: bool = True) -> bool:
        """Begin a transaction, and reconnect if necessary. A read-only transaction sees a consistent snapshot.

        Returns False if another process is using the store. Try again a little later.
        """

    @contextmanager
    def transaction(self, patience: float, *, write: bool = True) -> Iterator[None]:
        """Run a block in a transaction, which is rolled back if the block raises an exception.

        Waits up to patience seconds while another process is using the store. This is for set-up and for commands on
        whole stores. Operations use ``perform`` in service/recommender/transaction.py instead.
        """
        run_blocking(begin(self, BLOCKING, patience, write=write))
        try:
            yield
            self.commit()
        except BaseException:
            self.rollback()
            raise

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction. Everything is on disk when this returns."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll back the transaction. Never raises an exception."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def generation(self) -> int | None:
        """Return a number that changes whenever another process writes, or None if that can happen at any time."""

    @abstractmethod
    def new_connection(self) -> SqlStore:
        """Open another connection to the same store, for use in parallel with this one."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement, with ? in place of values, and return its rows."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once per row of values."""

    @abstractmethod
    def version(self) -> int:
        """Return the version of the tables, or 0 if there are none."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of bytes used on disk."""

    @abstractmethod
    def lock_setup(self) -> None:
        """Keep other processes from setting up the same store until this transaction ends."""

    @abstractmethod
    def impressions(self, ids: Sequence[bytes]) -> dict[bytes, Impression]:
        """Return the impressions with these ids. Ids that do not exist are left out.

        The impressions are locked against other processes until this transaction ends.
        """

    @abstractmethod
    def statistics(self, keys: Sequence[Key]) -> dict[Key, Statistics]:
        """Return the statistics for these keys, without locking them. Keys that do not exist are left out."""

    @abstractmethod
    def lock_statistics(self, keys: Sequence[Key], blank: Statistics) -> dict[Key, Statistics]:
        """Return the statistics for all of these keys, with ``blank`` for those that do not exist.

        They are locked against other processes until this transaction ends.
        """

    @abstractmethod
    def lock_user(self, user: str, learners: Iterable[str], blank: Statistics) -> None:
        """Keep other processes from learning anything about a user until this transaction ends.

        learners: all learners in the store. Statistics that do not exist are added, with ``blank``, to lock them.
        """

    # Set-up

    def migrate(self) -> int:
        """Migrate the tables to the current version, and return their old version."""
        self.lock_setup()
        old = self.version()
        if old > VERSION:
            raise ValueError(
                f"store {self.url} must have tables of version {VERSION} or lower, got {old}. "
                "It was written by a newer version of thali: upgrade thali to use it"
            )
        for number in range(old, VERSION):
            for statement in MIGRATIONS[number]:
                self.execute(statement.format_map(self.column_types))
        if old < VERSION:
            self.set_meta("version", str(VERSION))
        return old

    def meta(self, name: str) -> str | None:
        """Return the value stored under a name, such as "timed_out_until", or None if there is none."""
        rows = self.execute("SELECT value FROM meta WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def set_meta(self, name: str, value: str) -> None:
        """Store a value under a name."""
        self.execute(
            "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def drop_meta(self, name: str) -> None:
        """Delete the value stored under a name."""
        self.execute("DELETE FROM meta WHERE name = ?", (name,))

    def meta_with_prefix(self, prefix: str) -> dict[str, str]:
        """Return all values that are stored under names that begin with prefix, by name."""
        return dict(self.execute("SELECT name, value FROM meta WHERE substr(name, 1, ?) = ?", (len(prefix), prefix)))

    def topic_sets(self) -> list[list[str]]:
        """Return all sets of topics so far, ordered by number. The last one is current."""
        return [json.loads(names) for (names,) in self.execute("SELECT names FROM topic_sets ORDER BY number")]

    def add_topics(self, number: int, names: Sequence[Any]) -> None:
        """Add a set of topics."""
        self.execute("INSERT INTO topic_sets (number, names) VALUES (?, ?)", (number, json.dumps(list(names))))

    def learners(self) -> dict[str, dict[str, Any]]:
        """Return the settings of each learner, by name."""
        return {name: json.loads(settings) for name, settings in self.execute("SELECT name, settings FROM learners")}

    def add_learner(self, name: str, settings: dict[str, Any]) -> None:
        """Add a learner."""
        self.execute("INSERT INTO learners (name, settings) VALUES (?, ?)", (name, json.dumps(settings)))

    # The catalog

    def heading(self) -> Heading | None:
        """Return the record of the current catalog, if any."""
        rows = self.execute("SELECT epoch, digest, changes FROM catalogs ORDER BY epoch DESC LIMIT 1")
        return Heading(*rows[0]) if rows else None

    def add_catalog(self, epoch: int, digest: str) -> None:
        """Add the record of a catalog, which becomes the current one."""
        self.execute("INSERT INTO catalogs (epoch, digest, changes) VALUES (?, ?, 0)", (epoch, digest))

    def versions(self) -> tuple[int, int, int]:
        """Return the epoch of the current catalog, the number of its changes, and the version of the priors.

        Every transaction of a shared store begins with this statement.
        """
        rows = self.execute(
            f"SELECT epoch, changes, (SELECT value FROM meta WHERE name = '{PRIOR_VERSION}') FROM catalogs "
            "ORDER BY epoch DESC LIMIT 1"
        )
        if not rows:
            raise StoreError(f"store {self.url} cannot be used: it has lost the record of its catalog")
        epoch, changes, priors = rows[0]
        return int(epoch), int(changes), int(priors or 0)

    def lock_catalog(self, epoch: int) -> None:
        """Keep other processes from recording changes to a catalog until this transaction ends."""
        self.execute("UPDATE catalogs SET changes = changes WHERE epoch = ?", (epoch,))

    def item_change_count(self, epoch: int) -> int:
        """Return how many items of a catalog were added, changed or removed, without refreshes of their quality."""
        return int(self.execute("SELECT count(*) FROM item_changes WHERE epoch = ? AND item <> 'null'", (epoch,))[0][0])

    def changes(self, epoch: int, after: int) -> list[Change]:
        """Return the changes to a catalog whose numbers are greater than ``after``, in order."""
        rows = self.execute(
            "SELECT seq, item, weights, at FROM item_changes WHERE epoch = ? AND seq > ? ORDER BY seq", (epoch, after)
        )
        return [Change(seq, json.loads(item), weights and json.loads(weights), at) for seq, item, weights, at in rows]

    def next_change(self, epoch: int) -> int:
        """Allocate the number of the next change. Other processes wait for theirs until this transaction ends."""
        return self.next_changes(epoch, 1)

    def next_changes(self, epoch: int, count: int) -> int:
        """Allocate the numbers of so many changes, and return the first."""
        rows = self.execute(
            "UPDATE catalogs SET changes = changes + ? WHERE epoch = ? RETURNING changes", (count, epoch)
        )
        return int(rows[0][0]) - count + 1

    def add_changes(self, epoch: int, changes: Sequence[Change]) -> None:
        """Record that items were added, changed or removed, or that their quality was refreshed."""
        self.execute_many(
            "INSERT INTO item_changes (epoch, seq, item, weights, at) VALUES (?, ?, ?, ?, ?)",
            [
                (epoch, c.seq, json.dumps(c.item), None if c.weights is None else json.dumps(c.weights), c.at)
                for c in changes
            ],
        )

    # The quality of items

    def count_examinations(self, limit: int) -> int:
        """Add the counts of at most so many transactions to the table quality. Returns of how many."""
        rows = self.execute(
            "DELETE FROM examinations WHERE (worker, seq) IN (SELECT worker, seq FROM examinations LIMIT ?) "
            "RETURNING items",
            (limit,),
        )
        totals: dict[str, list[float]] = {}
        for (items,) in rows:
            examined, hits, *expected = json.loads(items)
            # Versions before 4 did not record what was expected. Then as many clicks as there were count as expected.
            for column, counts in enumerate((examined, hits, *(expected or [hits]))):
                for item, times in counts.items():
                    totals.setdefault(item, [0.0, 0.0, 0.0, 0.0])[column] += times
        self.execute_many(
            "INSERT INTO quality (item, examined, clicked, by_topics, care) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (item) DO UPDATE SET "
            "examined = quality.examined + excluded.examined, clicked = quality.clicked + excluded.clicked, "
            "by_topics = coalesce(quality.by_topics, quality.clicked) + excluded.by_topics, "
            "care = coalesce(quality.care, 0) + excluded.care",
            [(item, *counts) for item, counts in sorted(totals.items()) if any(counts)],
        )
        return len(rows)

    def quality(self) -> list[tuple[str, float, float, float, float]]:
        """Return the sums for each item, by its name as text: examinations, clicks, and the two of what was expected.

        They are the rows of ``since`` of :class:`thali.RelativeQuality`.
        """
        columns = "item, examined, clicked, coalesce(by_topics, clicked), coalesce(care, 0)"
        return [
            (item, float(n), float(c), float(by_topics), float(care))
            for item, n, c, by_topics, care in self.execute(f"SELECT {columns} FROM quality ORDER BY item")
        ]

    def drop_refreshes(self, epoch: int) -> None:
        """Remove the records of earlier refreshes of the quality. Only the latest one matters."""
        self.execute("DELETE FROM item_changes WHERE epoch = ? AND item = 'null'", (epoch,))

    # Priors

    def priors(self) -> dict[str, StoredPrior]:
        """Return the priors that learners use instead of those that they started with, by learner."""
        rows = self.execute("SELECT learner, version, at, people, fell_back, prior FROM priors ORDER BY learner")
        return {name: StoredPrior(v, at, people, bool(back), prior) for name, v, at, people, back, prior in rows}

    def set_prior(self, learner: str, prior: StoredPrior) -> None:
        """Put a prior into use. Call :meth:`lock_setup` first, and take the version from :meth:`versions`."""
        self.execute(
            "INSERT INTO priors (learner, version, at, people, fell_back, prior) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (learner) DO UPDATE SET version = excluded.version, at = excluded.at, "
            "people = excluded.people, fell_back = excluded.fell_back, prior = excluded.prior",
            (learner, prior.version, prior.at, prior.people, int(prior.fell_back), prior.prior),
        )
        self.set_meta(PRIOR_VERSION, str(prior.version))

    def random_users(self, learner: str, most: int) -> list[str]:
        """Return the names of at most so many users about whom a learner knows something, drawn at random."""
        history = 'SELECT 1 FROM histories h WHERE h."user" = s."user" AND h.learner = s.learner'
        rows = self.execute(
            f'SELECT "user" FROM statistics s WHERE learner = ? AND (updates > 0 OR EXISTS ({history})) '
            "ORDER BY random() LIMIT ?",
            (learner, most),
        )
        return [name for (name,) in rows]

    # Histories

    def histories(self, user: str, learner: str | None = None) -> list[History]:
        """Return what is known about a user from elsewhere, for one or all learners, in the order of learning."""
        where, values = '"user" = ?', [user]
        if learner is not None:
            where, values = f"{where} AND learner = ?", [user, learner]
        rows = self.execute(f"SELECT {HISTORY_COLUMNS} FROM histories WHERE {where} ORDER BY learner, sequence", values)
        return [_history_from_row(row) for row in rows]

    def add_history(self, history: History, shared: bytes | None) -> None:
        """Record a history. shared: S as :func:`pack` writes it, if several people share it."""
        if shared is not None:
            self.execute(
                "INSERT INTO matrices (digest, numbers) VALUES (?, ?) ON CONFLICT DO NOTHING", (history.matrix, shared)
            )
        h = history
        self.execute(
            f"INSERT INTO histories ({HISTORY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (h.user, h.learner, h.name, h.topics, h.matrix, h.numbers, h.digest, h.at, h.sequence),
        )

    def drop_history(self, history: History) -> None:
        """Remove a history."""
        self.execute(
            'DELETE FROM histories WHERE "user" = ? AND learner = ? AND name = ?',
            (history.user, history.learner, history.name),
        )

    def matrix(self, digest: str) -> bytes:
        """Return a matrix that several histories share."""
        rows = self.execute("SELECT numbers FROM matrices WHERE digest = ?", (digest,))
        if not rows:
            raise StoreError(f"store {self.url} cannot be used: a matrix of histories is missing")
        return bytes(rows[0][0])

    def users_with_history(self, name: str, after: str, limit: int) -> list[str]:
        """Return the names of users with a history of this name that come after a user's name, in ascending order."""
        rows = self.execute(
            'SELECT DISTINCT "user" FROM histories WHERE name = ? AND "user" > ? ORDER BY "user" LIMIT ?',
            (name, after, limit),
        )
        return [user for (user,) in rows]

    # Writing

    def write(self, writes: Writes, worker: str) -> None:
        """Write everything in ``writes``. worker: the process under whose name the counters are stored."""
        if writes.shown:
            placeholders = ", ".join("?" * len(TABLES["impressions"]))
            self.execute_many(
                f"INSERT INTO impressions ({IMPRESSION_COLUMNS}) VALUES ({placeholders})",
                map(_row_of_impression, writes.shown),
            )
        if writes.answered:
            self.execute_many(
                "UPDATE impressions SET clicked = ?, answer = ?, answered_at = ?, sequence = ? WHERE id = ?",
                [
                    (_clicked_json(i), i.answer, i.answered_at, i.sequence, i.id)
                    for _, i in sorted(writes.answered.items())
                ],
            )
        if writes.statistics:
            self.execute_many(
                f'INSERT INTO statistics ("user", learner, {STATISTICS_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) '
                'ON CONFLICT ("user", learner) DO UPDATE SET topics = excluded.topics, updates = excluded.updates, '
                "sequence = excluded.sequence, numbers = excluded.numbers, seen = excluded.seen",
                [
                    (*key, s.topics, s.updates, s.sequence, s.numbers, s.seen)
                    for key, s in sorted(writes.statistics.items())
                ],
            )
        if writes.examined:
            sums = writes.examined, writes.hits, writes.by_topics, writes.care
            self.execute(
                "INSERT INTO examinations (worker, seq, items) VALUES (?, ?, ?)",
                (worker, next(self._examination_numbers), json.dumps(sums)),
            )
        if writes.counts:
            self.execute_many(
                "INSERT INTO counters (hour, learner, worker, name, value) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (hour, learner, worker, name) DO UPDATE SET value = counters.value + excluded.value",
                [
                    (hour, learner, worker, name, value)
                    for (hour, learner, name), value in sorted(writes.counts.items())
                    if value
                ],
            )

    # Reading

    def statistics_of_user(self, user: str) -> dict[str, Statistics]:
        """Return a user's statistics, by learner."""
        rows = self.execute(
            f'SELECT learner, {STATISTICS_COLUMNS} FROM statistics WHERE "user" = ? ORDER BY learner', (user,)
        )
        return {learner: Statistics(*columns) for learner, *columns in rows}

    def history(self, user: str, before: bytes, limit: int) -> list[Impression]:
        """Return a user's impressions before an id, latest first."""
        return self._impressions('"user" = ? AND id < ? ORDER BY id DESC LIMIT ?', (user, before, limit))

    def counts_of_user(self, user: str) -> dict[str, tuple[int, int, int]]:
        """Return the numbers of a user's impressions, answered impressions and impressions with a click, by learner."""
        rows = self.execute(
            "SELECT learner, count(*), count(clicked), sum(CASE WHEN clicked <> '[]' THEN 1 ELSE 0 END) "
            'FROM impressions WHERE "user" = ? GROUP BY learner',
            (user,),
        )
        return {learner: (shown, answered, int(clicked or 0)) for learner, shown, answered, clicked in rows}

    def learned_impressions(self, user: str, learner: str) -> list[Impression]:
        """Return the stored impressions that a user's statistics were learned from, in the order of learning."""
        return self._impressions(
            '"user" = ? AND learner = ? AND sequence IS NOT NULL ORDER BY sequence', (user, learner)
        )

    def answered_impressions(self, user: str) -> list[Impression]:
        """Return the stored impressions of a user that have an answer, without damaged ones."""
        found = []
        where = f'SELECT {IMPRESSION_COLUMNS} FROM impressions WHERE "user" = ? AND clicked IS NOT NULL ORDER BY id'
        for row in self.execute(where, (user,)):
            with suppress(StoreError):
                found.append(impression_from_row(row))
        return found

    def latest_answered(self, learner: str, since: bytes, limit: int) -> list[Impression]:
        """Return the latest answered impressions of a learner from an id on, whose list number is known."""
        return self._impressions(
            "id >= ? AND learner = ? AND clicked IS NOT NULL AND number IS NOT NULL ORDER BY id DESC LIMIT ?",
            (since, learner, limit),
        )

    def unanswered(self, since: bytes, before: bytes, limit: int) -> list[bytes]:
        """Return the ids of unanswered impressions with since ≤ id < before, oldest first."""
        rows = self.execute(
            "SELECT id FROM impressions WHERE id >= ? AND id < ? AND clicked IS NULL ORDER BY id LIMIT ?",
            (since, before, limit),
        )
        return [bytes(id) for (id,) in rows]

    def users(self, after: str, limit: int) -> list[str]:
        """Return the names of users with statistics that come after a name, in ascending order."""
        rows = self.execute(
            'SELECT DISTINCT "user" FROM statistics WHERE "user" > ? AND sequence > 0 ORDER BY "user" LIMIT ?',
            (after, limit),
        )
        return [name for (name,) in rows]

    def counters(self, since: int) -> list[tuple[int, str, str, float]]:
        """Return the hour, learner, name and value of all counters, summed over workers.

        Includes the counters from hour ``since`` on and those of hour 0.
        """
        return [
            (hour, learner, name, float(value))
            for hour, learner, name, value in self.execute(
                "SELECT hour, learner, name, sum(value) FROM counters WHERE hour >= ? OR hour = 0 "
                "GROUP BY hour, learner, name ORDER BY hour, learner, name",
                (since,),
            )
        ]

    # Removing

    def forget(self, user: str) -> tuple[int, dict[str, tuple[int, int]]]:
        """Remove everything about a user. Call :meth:`lock_user` first.

        Returns the number of removed impressions, and the removed (updates, sequence) by learner.
        """
        removed = len(self.execute('DELETE FROM impressions WHERE "user" = ? RETURNING 1', (user,)))
        self.execute('DELETE FROM histories WHERE "user" = ?', (user,))
        rows = self.execute('DELETE FROM statistics WHERE "user" = ? RETURNING learner, updates, sequence', (user,))
        return removed, {learner: (updates, sequence) for learner, updates, sequence in rows}

    def prune(self, before: bytes, limit: int) -> int:
        """Remove at most ``limit`` impressions before an id, oldest first. Returns how many were removed."""
        return len(
            self.execute(
                "DELETE FROM impressions WHERE id IN (SELECT id FROM impressions WHERE id < ? ORDER BY id LIMIT ?) "
                "RETURNING 1",
                (before, limit),
            )
        )

    def unlearn(self, keys: Iterable[Key]) -> None:
        """Mark the impressions of these users and learners as no longer included in any statistics."""
        self.execute_many(
            'UPDATE impressions SET sequence = NULL WHERE "user" = ? AND learner = ? AND sequence IS NOT NULL',
            sorted(keys),
        )

    def drop_histories(self, keys: Iterable[Key]) -> None:
        """Remove all histories of these users and learners."""
        self.execute_many('DELETE FROM histories WHERE "user" = ? AND learner = ?', sorted(keys))

    def scrub(self) -> None:  # noqa: B027 (PostgreSQL needs nothing of the kind)
        """Erase removed data that is still on disk outside the tables, if possible. Call after a commit."""

    def clear(self, table: str) -> None:
        """Remove all rows of a table."""
        self.execute(f"DELETE FROM {table}")

    def _impressions(self, where: str, values: Sequence[Any]) -> list[Impression]:
        rows = self.execute(f"SELECT {IMPRESSION_COLUMNS} FROM impressions WHERE {where}", values)
        return [impression_from_row(row) for row in rows]


def impression_from_row(row: Sequence[Any]) -> Impression:
    """Return the impression in a row with IMPRESSION_COLUMNS."""
    id, user, learner, topics, items, numbers, predicted, clicked, answer, at, sequence, *more = row
    number, others, start, expected = more
    try:
        names, positions = json.loads(items), None if clicked is None else json.loads(clicked)
    except ValueError as error:
        raise StoreError(f"impression {bytes(id).hex()} is damaged in the store: {error}") from error
    shown = bytes(id), user, learner, topics, names, bytes(numbers), predicted
    rates_items = number is not None and number > 0
    return Impression(
        *(*shown, positions, answer, at, sequence, None if number is None else abs(number)),
        *(None if others is None else bytes(others), rates_items, start, None if expected is None else bytes(expected)),
    )


def _history_from_row(row: Sequence[Any]) -> History:
    user, learner, name, topics, matrix, numbers, digest, at, sequence = row
    return History(user, learner, name, topics, matrix, bytes(numbers), digest, at, sequence)


def _row_of_impression(shown: Impression) -> tuple[Any, ...]:
    # The column of the number also tells whether the clicks are counted for the quality: if not, it is negative.
    number = shown.number if shown.number is None or shown.rates_items else -shown.number
    return (
        *(shown.id, shown.user, shown.learner, shown.topics, json.dumps(shown.items), shown.numbers, shown.predicted),
        *(_clicked_json(shown), shown.answer, shown.answered_at, shown.sequence, number, shown.others, shown.start),
        shown.expected,
    )


def _clicked_json(shown: Impression) -> str | None:
    return None if shown.clicked is None else json.dumps(shown.clicked)
