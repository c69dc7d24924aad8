"""Whole stores: backups, between either kind of store; and exports of users' statistics as lines of JSON."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from thali.service.stores.records import Key, Statistics, StoreError, Writes, pack
from thali.service.stores.sql import KEYS, TABLES, SqlStore
from thali.service.stores.sqlite import SqliteStore
from thali.service.stores.topics import Topics, moved, place
from thali.tools import checks
from thali.tools.files import atomic_path

FORMAT = "thali-export-1"
# Rows to read, or statistics to write, at a time.
PAGE = 1000
PATIENCE_S = 30.0
Progress = Callable[[int], None]


def backup(store: SqlStore, path: str | Path, progress: Progress = lambda rows: None) -> int:
    """Copy a consistent snapshot of a store, which may be in use, into a new SQLite file. Returns the number of rows.

    The file is complete or does not exist. Cost: one pass over the store.
    """
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"path of a backup must be a new file, {target} is there already")
    with atomic_path(target) as part:
        try:
            copy = SqliteStore(part)
            try:
                with copy.transaction(PATIENCE_S), store.transaction(PATIENCE_S, write=False):
                    copy.migrate()
                    if store.version() == 0:
                        raise ValueError(f"store {store.url} is empty: there is nothing to back up")
                    rows = _copy(store, copy, progress)
            finally:
                copy.close()
        finally:
            for suffix in ("-wal", "-shm"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)
    return rows


def restore(path: str | Path, store: SqlStore, *, replace: bool = False, progress: Progress = lambda rows: None) -> int:
    """Restore a backup into an empty store, or replace everything in the store. Returns the number of rows.

    Uses one transaction. Services that use the store continue with the restored data.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path of restore must be a backup, found nothing at {source}")
    with tempfile.TemporaryDirectory() as folder:
        # Work on a copy: the backup stays unchanged, even if its tables have an older version and are migrated.
        copy = Path(folder) / "backup.db"
        shutil.copyfile(source, copy)
        try:
            backed_up = SqliteStore(copy)
        except StoreError as error:
            raise ValueError(
                f"path of restore must be a file written by backup, got {source}, which is none"
            ) from error
        try:
            with backed_up.transaction(PATIENCE_S):
                if backed_up.version() == 0:
                    raise ValueError(
                        f"path of restore must be a file written by backup, got {source}, which has no tables"
                    )
                backed_up.migrate()
            with store.transaction(PATIENCE_S), backed_up.transaction(PATIENCE_S, write=False):
                store.migrate()
                if not replace and store.execute("SELECT 1 FROM topic_sets LIMIT 1"):
                    raise ValueError(f"store {store.url} must be empty, or --replace given: it is in use")
                for table in reversed(TABLES):
                    store.clear(table)
                rows = _copy(backed_up, store, progress)
                store.set_meta("id", secrets.token_hex(16))  # tells services that everything is new
        finally:
            backed_up.close()
    return rows


def _copy(source: SqlStore, target: SqlStore, progress: Progress) -> int:
    """Copy all rows of all tables; returns the number of rows."""
    total = 0
    for table in TABLES:  # so that none can be emptied before its turn
        source.execute(f"SELECT 1 FROM {table} LIMIT 1")
    for table, columns in TABLES.items():
        if table == "meta":
            target.clear(table)
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        for rows in _pages(source, table):
            target.execute_many(statement, rows)
            total += len(rows)
            progress(len(rows))
    return total


def _pages(store: SqlStore, table: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table in the order of its key, at most PAGE at a time."""
    columns, keys = TABLES[table], KEYS[table]
    order, chosen = ", ".join(keys), ", ".join(columns)
    after, marks = "", ", ".join("?" * len(keys))
    values: tuple[Any, ...] = ()
    at = [columns.index(key) for key in keys]
    while rows := store.execute(f"SELECT {chosen} FROM {table} {after} ORDER BY {order} LIMIT {PAGE}", values):
        yield rows
        after, values = f"WHERE ({order}) > ({marks})", tuple(rows[-1][column] for column in at)


def export_learned(store: SqlStore, path: str | Path, progress: Progress = lambda rows: None) -> int:
    """Write the statistics of each user and learner, over the current topics, as lines of JSON. Returns how many.

    The first line holds topics and learners. Numbers are written so that reading them back is exact to the last bit.
    """
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"path of an export must be a new file, {target} is there already")
    count = 0
    with atomic_path(target) as part:
        part.touch(mode=0o600, exist_ok=False)
        with store.transaction(PATIENCE_S, write=False), open(part, "w", encoding="utf-8") as file:
            if store.version() == 0:
                raise ValueError(f"store {store.url} is empty: there is nothing to export")
            topics = Topics(store.topic_sets())
            head = {"format": FORMAT, "topics": topics.sets[-1], "learners": store.learners()}
            file.write(json.dumps(head) + "\n")
            for rows in _pages(store, "statistics"):
                for user, learner, *rest in rows:
                    kept = Statistics(*rest)
                    if kept.sequence:
                        M, B = topics.read(kept)
                        line = {
                            "user": user,
                            "learner": learner,
                            "updates": kept.updates,
                            "B": B.tolist(),
                            "M": M.tolist(),
                        }
                        file.write(json.dumps(line) + "\n")
                        count += 1
                progress(len(rows))
    return count


def import_learned(
    path: str | Path, store: SqlStore, *, replace: bool = False, progress: Progress = lambda rows: None
) -> int:
    """Import what :func:`export_learned` wrote into a store, matching topics by name. Returns how many.

    The whole file is checked before anything is written. Users that the store already has statistics of are an error,
    unless replace is set; feedback on lists that a replaced user was shown before no longer counts. Topics that the
    store does not know are dropped; topics missing in the file start blank. An empty store takes the file's topics and
    learners.
    """
    source = Path(path)
    head, _ = _checked(source)
    with store.transaction(PATIENCE_S):
        store.migrate()
        sets, known = store.topic_sets(), store.learners()
        if not sets:
            store.add_topics(0, head["topics"])
            sets = [head["topics"]]
            store.set_meta("id", secrets.token_hex(16))
        for name, settings in head["learners"].items():
            if name not in known:
                store.add_learner(name, settings)
            elif known[name] != settings:
                raise ValueError(
                    f"{source}: learner {name!r} must be as the store has it, {known[name]}, got {settings}"
                )
    topics = Topics(sets)
    blank = Statistics(topics.now, 0, 0, pack(np.eye(topics.d), np.zeros(topics.d)))
    at = place(head["topics"], sets[-1])
    if not replace:
        _, there = _checked(source, store)
        if there:
            raise ValueError(f"{source}: of {there} people the store has learned already, and --replace was not given")
    count = 0
    for page in _lines(source, head, PAGE):
        written: dict[Key, Statistics] = {}
        for line in page:
            M, B = moved(np.array(line["M"]), np.array(line["B"]), at, topics.d)
            written[line["user"], line["learner"]] = Statistics(topics.now, line["updates"], 1, pack(M, B))
        with store.transaction(PATIENCE_S):
            store.unlearn(written)
            held = store.hold(sorted(written), blank)
            store.unlearn(written)  # again: for what was learned before the lock was taken
            for key, kept in held.items():
                written[key].sequence = kept.sequence + 1
            writes = Writes(statistics=written)
            for _, learner in written.keys() - {key for key, kept in held.items() if kept.sequence}:
                writes.count(0, learner, users=1.0)
            store.write(writes, "import")
        count += len(page)
        progress(len(page))
    return count


def _checked(path: Path, store: SqlStore | None = None) -> tuple[dict[str, Any], int]:
    """Check every line of an export. Returns its first line, and how many of the others are already in the store."""
    if not path.is_file():
        raise FileNotFoundError(f"path of import must be a file written by 'thali export', found nothing at {path}")
    with open(path, encoding="utf-8") as file:
        try:
            head = json.loads(file.readline())
            if head["format"] != FORMAT:
                raise ValueError(f"its format is {head['format']!r}")
            if len(set(head["topics"])) != len(head["topics"]) or not isinstance(head["learners"], dict):
                raise ValueError("its topics or learners are not as they are written")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} must be a file written by 'thali export', line 1: {error}") from None
    there = 0
    for page in _lines(path, head, PAGE):
        if store is not None:
            with store.transaction(PATIENCE_S, write=False):
                held = store.statistics([(line["user"], line["learner"]) for line in page])
            there += sum(kept.sequence > 0 for kept in held.values())
    return head, there


def _lines(path: Path, head: dict[str, Any], size: int) -> Iterator[list[dict[str, Any]]]:
    """The checked lines after the first, size at a time."""
    d = len(head["topics"])
    page = []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if number > 1 and text.strip():
                try:
                    page.append(_line(json.loads(text), head, d))
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
            if len(page) == size:
                yield page
                page = []
    if page:
        yield page


def _line(line: Any, head: dict[str, Any], d: int) -> dict[str, Any]:
    checks.text_name("user", line["user"])
    if line["learner"] not in head["learners"]:
        raise ValueError(f"learner must be one of the first line's, got {line['learner']!r}")
    checks.integer("updates", line["updates"], low=0)
    checks.floats("B", line["B"], (d,), "(d,)")
    M = checks.floats("M", line["M"], (d, d), "(d, d)")
    if (M != M.T).any() or np.linalg.eigvalsh(M)[0] < 1.0 - 1e-9 * abs(M).max():
        raise ValueError("M must be symmetric, the identity and more")
    return dict(line)
