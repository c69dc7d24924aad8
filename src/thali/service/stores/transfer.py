"""Copies of stores: backups, which fit either kind of store, and exports of users' statistics as lines of JSON."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from thali.service.stores.records import (
    History,
    Key,
    Statistics,
    StoreError,
    Writes,
    different_settings,
    history_numbers,
    pack,
    with_sigma,
)
from thali.service.stores.sql import KEYS, TABLES, VERSION, SqlStore, tables_of
from thali.service.stores.sqlite import SqliteStore
from thali.service.stores.topics import Topics, later_positions, move_statistics, move_sums
from thali.theory import LEAST_SIGMA
from thali.tools import checks
from thali.tools.files import atomic_path
from thali.tools.types import Integers

FORMAT = "thali-export-1"
# How many rows are read, or statistics written, at a time.
PAGE = 1000
# How long to wait while another process is using the store.
PATIENCE_S = 30.0
Progress = Callable[[int], None]


def backup(store: SqlStore, path: str | Path, progress: Progress = lambda rows: None) -> int:
    """Copy a consistent snapshot of a store into a new SQLite file. Returns the number of rows.

    The store may be in use. The file appears only when it is complete. Cost: one pass over the store.
    """
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"path of the backup must be a new file, but {target} already exists")
    with atomic_path(target) as part:
        try:
            copy = SqliteStore(part)
            try:
                with copy.transaction(PATIENCE_S), store.transaction(PATIENCE_S, write=False):
                    copy.migrate()
                    if store.version() == 0:
                        raise ValueError(f"store {store.url} must contain data to back up, but it is empty")
                    rows = _copy(store, copy, progress)
            finally:
                copy.close()
        finally:
            for suffix in ("-wal", "-shm"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)
    return rows


def restore(path: str | Path, store: SqlStore, *, replace: bool = False, progress: Progress = lambda rows: None) -> int:
    """Restore a backup into an empty store or, with replace, in place of everything in the store.

    Everything happens in one transaction. Services that use the store continue with the restored data. Returns the
    number of rows.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path of the backup must be an existing file, found nothing at {source}")
    with tempfile.TemporaryDirectory() as folder:
        # Work on a copy, so that the backup stays unchanged even if its tables are old and have to be migrated.
        copy = Path(folder) / "backup.db"
        shutil.copyfile(source, copy)
        try:
            backed_up = SqliteStore(copy)
        except StoreError as error:
            raise ValueError(
                f"path of the backup must be a file written by 'thali backup', but SQLite cannot open {source}"
            ) from error
        try:
            with backed_up.transaction(PATIENCE_S):
                if backed_up.version() == 0:
                    raise ValueError(
                        f"path of the backup must be a file written by 'thali backup', but {source} has no tables"
                    )
                backed_up.migrate()
            with store.transaction(PATIENCE_S), backed_up.transaction(PATIENCE_S, write=False):
                store.migrate()
                if not replace and store.execute("SELECT 1 FROM topic_sets LIMIT 1"):
                    raise ValueError(
                        f"store {store.url} must be empty, but it contains data. "
                        "Use --replace (replace=True) to replace all of it"
                    )
                for table in reversed(TABLES):
                    store.clear(table)
                rows = _copy(backed_up, store, progress)
                store.set_meta("id", secrets.token_hex(16))  # lets running services notice the replacement
        finally:
            backed_up.close()
    return rows


def _copy(source: SqlStore, target: SqlStore, progress: Progress) -> int:
    """Copy all rows of all tables. Returns the number of rows."""
    total = 0
    tables = tables_of(source.version())  # a store that is only read is not migrated
    for table in tables:  # access each table once, so that no other process can empty one before it is copied
        source.execute(f"SELECT 1 FROM {table} LIMIT 1")
    for table, columns in tables.items():
        if table == "meta":
            target.clear(table)
        placeholders = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})"
        for rows in _pages(source, table, columns):
            target.execute_many(statement, rows)
            total += len(rows)
            progress(len(rows))
    target.set_meta("version", str(VERSION))  # the source may be older, but the tables of the target are not
    return total


def _pages(store: SqlStore, table: str, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield these columns of a table, which contain its key, in the order of the key, at most PAGE rows at a time."""
    keys = KEYS[table]
    order, selected = ", ".join(keys), ", ".join(columns)
    where, placeholders = "", ", ".join("?" * len(keys))
    values: tuple[Any, ...] = ()
    key_columns = [columns.index(key) for key in keys]
    while rows := store.execute(f"SELECT {selected} FROM {table} {where} ORDER BY {order} LIMIT {PAGE}", values):
        yield rows
        where, values = f"WHERE ({order}) > ({placeholders})", tuple(rows[-1][column] for column in key_columns)


def export_learned(store: SqlStore, path: str | Path, progress: Progress = lambda rows: None) -> int:
    """Write the statistics of each user and learner, over the current topics, as lines of JSON.

    The first line contains the topics and learners. Numbers are written so that they can be read back exactly. Returns
    the number of exported statistics.
    """
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"path of the export must be a new file, but {target} already exists")
    count = 0
    with atomic_path(target) as part:
        part.touch(mode=0o600, exist_ok=False)
        with store.transaction(PATIENCE_S, write=False), open(part, "w", encoding="utf-8") as file:
            if store.version() == 0 or not store.topic_sets():
                raise ValueError(f"store {store.url} must contain data to export, but it is empty")
            topics = Topics(store.topic_sets())
            header = {"format": FORMAT, "topics": topics.sets[-1], "learners": store.learners()}
            file.write(json.dumps(header) + "\n")
            tables = tables_of(store.version())
            for rows in _pages(store, "statistics", tables["statistics"]):
                for user, learner, *columns in rows:
                    statistics = Statistics(*columns)
                    if statistics.sequence:
                        M, B = topics.read(statistics)
                        line = {
                            "user": user,
                            "learner": learner,
                            "updates": statistics.updates,
                            "B": B.tolist(),
                            "M": M.tolist(),
                        }
                        known = store.histories(user, learner) if "histories" in tables else []
                        if known:
                            line["histories"] = [_history_line(history, store, topics) for history in known]
                        file.write(json.dumps(line) + "\n")
                        count += 1
                progress(len(rows))
    return count


def import_learned(
    path: str | Path, store: SqlStore, *, replace: bool = False, progress: Progress = lambda rows: None
) -> int:
    """Import what :func:`export_learned` wrote into a store. Returns the number of imported statistics.

    The whole file is checked before anything is written. If the store already has statistics of a user and learner in
    the file, that is an error, unless replace is true. In that case the imported statistics replace the stored ones,
    and undoing feedback from before the import no longer changes them. Histories are imported with the statistics, so
    that they are not learned again and can still be undone. What people have seen stays as it is in the store.

    If a learner's σ differs from that in the store, its M is converted. Topics are matched by name. Topics that the
    store does not have are dropped, and topics that the file does not have start blank. An empty store takes over the
    file's topics and learners.
    """
    source = Path(path)
    header, _ = _check_file(source)
    with store.transaction(PATIENCE_S):
        store.migrate()
        sets, known = store.topic_sets(), store.learners()
        if not sets:
            store.add_topics(0, header["topics"])
            sets = [header["topics"]]
            store.set_meta("id", secrets.token_hex(16))
        learners = header["learners"]
        for name, settings in learners.items():
            if name not in known:
                store.add_learner(name, settings)
            elif different_settings(known[name], settings):
                raise ValueError(
                    f"{source}: learner {name!r} must have the same settings as in the store, {known[name]}, "
                    f"got {settings}"
                )
        stored = {name: known.get(name, settings).get("sigma") for name, settings in learners.items()}
    topics = Topics(sets)
    blank = Statistics(topics.current, 0, 0, pack(np.eye(topics.d), np.zeros(topics.d)))
    positions = later_positions(header["topics"], sets[-1])
    if not replace:
        _, existing = _check_file(source, store)
        if existing:
            raise ValueError(
                f"{source} must not contain statistics that the store already has, but {existing} of its lines do. "
                "Use --replace (replace=True) to replace those in the store"
            )
    count = 0
    for page in _lines(source, header, PAGE):
        imported: dict[Key, Statistics] = {}
        for line in page:
            own = stored[line["learner"]]
            M = with_sigma(np.array(line["M"]), learners[line["learner"]].get("sigma", own), own)
            M, B = move_statistics(M, np.array(line["B"]), positions, topics.d)
            imported[line["user"], line["learner"]] = Statistics(topics.current, line["updates"], 1, pack(M, B))
        with store.transaction(PATIENCE_S):
            store.unlearn(imported)
            previous = store.lock_statistics(sorted(imported), blank)
            store.unlearn(imported)  # once more, for impressions that were learned before the lock was acquired
            replaced = {(*key, old.name): old.sequence for key in imported for old in store.histories(*key)}
            store.drop_histories(imported)
            for key, statistics in previous.items():
                imported[key].sequence, imported[key].seen = statistics.sequence + 1, statistics.seen
            for line in page:
                key = line["user"], line["learner"]
                for history in line.get("histories", ()):
                    # What people have seen refers to histories by their sequences, so those keep theirs.
                    sequence = replaced.get((*key, history["name"]))
                    if sequence is None:
                        imported[key].sequence += 1
                        sequence = imported[key].sequence
                    _add_history(store, key, history, positions, topics, sequence)
            writes = Writes(statistics=imported)
            for _, learner in imported.keys() - {key for key, old in previous.items() if old.sequence}:
                writes.count(0, learner, users=1.0)
            store.write(writes, "import")
        count += len(page)
        progress(len(page))
    return count


def _history_line(history: History, store: SqlStore, topics: Topics) -> dict[str, Any]:
    """Return a history as it is exported, over the current topics."""
    S, B = topics.read_history(history, None if history.matrix is None else store.matrix(history.matrix))
    known = {"name": history.name, "digest": history.digest, "at": history.at, "shared": history.matrix is not None}
    return {**known, "B": B.tolist(), "S": S.tolist()}


def _add_history(
    store: SqlStore, key: Key, known: dict[str, Any], positions: Integers, topics: Topics, sequence: int
) -> None:
    """Add an exported history to a store. positions: of the topics of the file among those of the store."""
    S, B = move_sums(np.array(known["S"]), np.array(known["B"]), positions, topics.d)
    numbers, shared = history_numbers(S, B, shared=known["shared"])
    digest = None if shared is None else sha256(shared).hexdigest()
    store.add_history(
        History(*key, known["name"], topics.current, digest, numbers, known["digest"], known["at"], sequence), shared
    )


def _check_file(path: Path, store: SqlStore | None = None) -> tuple[dict[str, Any], int]:
    """Check every line of an export.

    Returns its first line, and for how many of the other lines the store already has statistics.
    """
    if not path.is_file():
        raise FileNotFoundError(f"path of the import must be a file written by 'thali export', found nothing at {path}")
    with open(path, encoding="utf-8") as file:
        try:
            header = json.loads(file.readline())
            if header["format"] != FORMAT:
                raise ValueError(f"format must be {FORMAT!r}, got {header['format']!r}")
            if len(set(header["topics"])) != len(header["topics"]):
                raise ValueError("topics must be different from one another")
            if not isinstance(header["learners"], dict):
                raise ValueError("learners must be an object that maps the name of each learner to its settings")
            for name, settings in header["learners"].items():
                if not isinstance(settings, dict):
                    raise ValueError(f"settings of learner {name!r} must be an object, got {settings!r}")
                if "sigma" in settings:
                    checks.number(f"sigma of learner {name!r}", settings["sigma"], low=LEAST_SIGMA)
        except (ValueError, KeyError, TypeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(
                f"path of the import must be a file written by 'thali export', got {path} with invalid line 1: {reason}"
            ) from None
    existing = 0
    for page in _lines(path, header, PAGE):
        if store is not None:
            with store.transaction(PATIENCE_S, write=False):
                stored = store.statistics([(line["user"], line["learner"]) for line in page])
            existing += sum(statistics.sequence > 0 for statistics in stored.values())
    return header, existing


def _lines(path: Path, header: dict[str, Any], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the lines after the first, checked, ``size`` lines at a time."""
    d = len(header["topics"])
    page, before = [], set[int]()  # hashes take less memory than the names
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if number > 1 and text.strip():
                try:
                    line = _check_line(json.loads(text), header, d)
                    key = hash((line["user"], line["learner"]))
                    if key in before:
                        raise ValueError(
                            f"user {line['user']!r:.80} and learner {line['learner']!r} must not appear twice"
                        )
                    before.add(key)
                    page.append(line)
                except (ValueError, KeyError, TypeError) as error:
                    reason = f"{error} is missing" if isinstance(error, KeyError) else error
                    raise ValueError(f"{path}, line {number}: {reason}") from None
            if len(page) == size:
                yield page
                page = []
    if page:
        yield page


def _check_line(line: Any, header: dict[str, Any], d: int) -> dict[str, Any]:
    checks.path_name("user", line["user"])
    if line["learner"] not in header["learners"]:
        raise ValueError(f"learner must be one of those that line 1 lists, got {line['learner']!r}")
    checks.integer("updates", line["updates"], low=0)
    checks.floats("B", line["B"], (d,), "(d,)")
    M = checks.floats("M", line["M"], (d, d), "(d, d)")
    if (M != M.T).any() or np.linalg.eigvalsh(M)[0] < 1.0 - 1e-9 * abs(M).max():
        raise ValueError("M must be a symmetric matrix with all eigenvalues at least 1")
    histories = line.get("histories", [])
    if not isinstance(histories, list) or not all(isinstance(known, dict) for known in histories):
        raise ValueError(f"histories must be a list of objects, got {histories!r:.80}")
    learned = np.eye(d)
    for known in histories:
        checks.path_name("name of a history", known["name"])
        checks.text_name("digest of a history", known["digest"])
        checks.number("at of a history", known["at"], low=0.0)
        if not isinstance(known["shared"], bool):
            raise ValueError(f"shared of a history must be true or false, got {known['shared']!r:.80}")
        checks.floats("B of a history", known["B"], (d,), "(d,)")
        S = checks.floats("S of a history", known["S"], (d, d), "(d, d)")
        if (S != S.T).any():
            raise ValueError("S of a history must be a symmetric matrix")
        learned += S / header["learners"][line["learner"]].get("sigma", np.inf) ** 2
    names = [known["name"] for known in histories]
    if len(set(names)) < len(names):
        raise ValueError(f"histories must have different names, got {names}")
    # Otherwise an undo would leave a matrix that says less than nothing.
    if histories and np.linalg.eigvalsh(M - learned)[0] < -1e-6 * abs(M).max():
        raise ValueError(
            "M must contain what S of the histories says: M - I - S/sigma² must have no negative eigenvalue"
        )
    return dict(line)
