"""Helpers for the tests of the recommender."""

from typing import Any

import numpy as np
from storing import transaction

import thali
from thali.service.recommender import Recommender
from thali.service.stores import SqlStore
from thali.service.stores.sql import TABLES

TOPICS = ("crime", "comedy", "drama", "music")
K, SIGMA = 3, 0.2


class Clock:
    """A clock that advances only when a test calls :meth:`tick`."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds


def weights(L: int = 20, d: int = len(TOPICS), seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random((L, d)) * (rng.random((L, d)) < 0.5)


def films(L: int = 20, topics: Any = TOPICS, **rest: Any) -> thali.Catalog:
    """Return a new catalog, equal in every call: like the catalog of another process."""
    return thali.Catalog(weights(L, len(topics)), items=[f"film {e}" for e in range(L)], topics=topics, **rest)


def recommender(url: str, catalog: thali.Catalog | None = None, *, policy: Any = thali.CascadeLSB, **rest: Any) -> Any:
    return Recommender(policy(catalog or films(), K=K, sigma=SIGMA), store=url, **rest)


def rated(L: int = 20) -> tuple[thali.Catalog, thali.Quality]:
    """Return a catalog with a quality column, and the counts behind it."""
    plain = films(L)
    quality = thali.Quality.from_counts(np.full(L, 60.0), 19.0 * np.arange(L) / (L - 1))
    weights = np.column_stack([plain.dense, np.clip(quality.mean, 1e-6, 1.0)])
    fading = [True] * plain.d + [False]
    return thali.Catalog(weights, plain.items, [*plain.topics, "quality"], fading=fading), quality


def names(shown: Any) -> list[Any]:
    return [item.item for item in shown.items]


def learned(rec: Any, user: str, learner: str = "default") -> tuple[int, np.ndarray, np.ndarray]:
    """Return updates, M and B. If nothing was learned, return those of a new user."""
    try:
        kept = rec.export(user)["learners"].get(learner)
    except thali.service.recommender.Unknown:
        kept = None
    if kept is None:
        return 0, np.eye(rec.catalog.d), np.zeros(rec.catalog.d)
    return kept.updates, np.array(kept.M), np.array(kept.B)


def assert_same(one: tuple[int, np.ndarray, np.ndarray], other: tuple[int, Any, Any], *, rtol: float = 0.0) -> None:
    """Check that two statistics are the same: exactly, or up to rounding if rtol is given."""
    assert one[0] == other[0]
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=rtol * scale)


def everything(store: SqlStore) -> dict[str, list[Any]]:
    """Return all rows of a store, except blank statistics, which contain nothing about a user."""
    with transaction(store, write=False):
        rows = {table: store.execute(f"SELECT {', '.join(TABLES[table])} FROM {table}") for table in TABLES}
    rows["statistics"] = [row for row in rows["statistics"] if row[4]]
    return {table: sorted(its, key=repr) for table, its in rows.items()}
