"""Helpers for the tests of stores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, sleep
from typing import Any

from thali.service.stores import SqlStore, open_store
from thali.service.stores.records import Impression, Key, Statistics, Writes, new_id

BLANK = Statistics(0, 0, 0, bytes(16))


@contextmanager
def opened(url: str) -> Iterator[SqlStore]:
    """Open a store, and create its tables."""
    store = open_store(url)
    try:
        with transaction(store):
            store.migrate()
        yield store
    finally:
        store.close()


@contextmanager
def transaction(store: SqlStore, *, write: bool = True) -> Iterator[SqlStore]:
    until = monotonic() + 30
    while not store.begin(write=write):
        assert monotonic() < until, "the store was held for 30 s"
        sleep(0.002)
    try:
        yield store
        store.commit()
    except BaseException:
        store.rollback()
        raise


def shown(user: str, at: float = 1000.0, *, learner: str = "l", **rest: Any) -> Impression:
    return Impression(new_id(at), user, learner, 0, ["x"], b"", 0.5, **rest)


def learn(store: SqlStore, keys: Iterable[Key]) -> None:
    """Add one update to each of the statistics, in one transaction."""
    with transaction(store):
        held = store.lock_statistics(list(keys), BLANK)
        store.write(
            Writes(
                statistics={
                    key: replace(kept, updates=kept.updates + 1, sequence=kept.sequence + 1)
                    for key, kept in held.items()
                }
            ),
            "",
        )


def all_at_once(jobs: Iterable[Callable[[], Any]]) -> list[Any]:
    """Run each job in its own thread, and return the results. Raises the first error."""
    jobs = list(jobs)
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [done.result(60) for done in [pool.submit(job) for job in jobs]]
