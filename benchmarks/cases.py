"""Catalogues and people to measure on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import thali


class Case(NamedTuple):
    """A learner's catalog, its weights as NumPy would hold them, and people to serve."""

    catalog: thali.Catalog
    weights: np.ndarray
    model: thali.DiverseCascade


def case_of(weights: Any, theta: np.ndarray) -> Case:
    """People who click by the learner's own weights."""
    catalog = thali.Catalog(weights)
    return Case(catalog, catalog.dense, thali.DiverseCascade(catalog, theta))


def narrow_tastes(rng: np.random.Generator, users: int, d: int) -> np.ndarray:
    """People who like a few topics each, any topics (users, d)."""
    return rng.dirichlet(np.full(d, 0.3), size=users)


def sparse_weights(rng: np.random.Generator, L: int, d: int) -> sp.csr_array:
    """1 to 3 topics an item, weights up to 0.6, no two items parallel: one item of a single topic for each at most."""
    topics = np.argsort(rng.random((L, d)), axis=1)[:, :3] if L * d <= 10**7 else _three_of(rng, L, d)
    size = rng.integers(1, 4, size=L)
    single = np.flatnonzero(size == 1)
    first = single[np.unique(topics[single, 0], return_index=True)[1]]
    again = np.setdiff1d(single, first)
    size[again] = rng.integers(2, 4, size=again.size)
    has = np.arange(3) < size[:, None]
    rows = np.repeat(np.arange(L), size)
    return sp.csr_array((rng.uniform(0.0, 0.6, size=rows.size), (rows, topics[has])), shape=(L, d))


def _three_of(rng: np.random.Generator, L: int, d: int) -> np.ndarray:
    """Three different topics for each item."""
    topics = rng.integers(d, size=(L, 3))
    while True:
        ordered = np.sort(topics, axis=1)
        same = (np.diff(ordered, axis=1) == 0).any(axis=1)
        if not same.any():
            return topics
        topics[same] = rng.integers(d, size=(same.sum(), 3))


def random_sparse(rng: np.random.Generator, users: int = 100, L: int = 1000, d: int = 40) -> Case:
    """Sparse weights, and people of narrow tastes."""
    return case_of(sparse_weights(rng, L, d), narrow_tastes(rng, users, d))


# MovieLens 1M, its 1000 most rated films and 1000 most active users: films of each genre (Comedy, Drama, Action, ...),
# and the share of pairs that attract (5 stars).
GENRES = np.array([361, 343, 261, 197, 160, 153, 131, 82, 71, 67, 62, 51, 46, 46, 35, 22, 19, 3])
ATTRACTIVE = 0.0784


def sets_of_genres(rng: np.random.Generator, L: int = 1000) -> np.ndarray:
    """Which film has which genre (L, d): some 230 different sets, as in MovieLens."""
    d = GENRES.size
    sets: set[tuple[int, ...]] = set()
    while len(sets) < 240:
        size = rng.choice([1, 2, 3, 4], p=[0.1, 0.4, 0.35, 0.15])
        sets.add(tuple(sorted(rng.choice(d, size=size, replace=False, p=GENRES / GENRES.sum()).tolist())))
    common_first = sorted(sets, key=lambda genres: (len(genres), genres))
    belongs = np.zeros((L, d))
    for row in belongs:
        row[list(common_first[int(len(sets) * rng.random() ** 1.5)])] = 1.0
    return belongs


def like_movielens(rng: np.random.Generator, users: int = 100) -> Case:
    """The paper's w̄ from 500 users, few films attracting many of them; people's tastes follow the genres."""
    belongs = sets_of_genres(rng)
    attracted = np.minimum(np.ceil(rng.exponential(500 * ATTRACTIVE, size=(len(belongs), 1))), 400)
    theta = rng.dirichlet(20.0 * GENRES / GENRES.sum(), size=users)
    return case_of(attracted * belongs / rng.integers(400, 501, size=GENRES.size), theta)


def even_films(rng: np.random.Generator, users: int = 100) -> Case:
    """The same sets, but films attract evenly (1 to 300 users) and people have narrow tastes: harder to tell apart."""
    belongs = sets_of_genres(rng)
    weights = rng.integers(1, 300, size=(len(belongs), 1)) * belongs / rng.integers(400, 501, size=GENRES.size)
    return case_of(weights, narrow_tastes(rng, users, GENRES.size))


def data_folder() -> Path | None:
    """Where MovieLens 1M is, if it is here: $THALI_DATA, or shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    for folder in (Path(os.environ.get("THALI_DATA", beside)), beside):
        if (folder / "ml-1m").is_dir():
            return folder
    return None


def movielens(d: int, users: int = 100) -> Callable[[np.random.Generator], Case]:
    """The paper's MovieLens set-up: w̄ from one half of the users, people from the other."""

    def make(rng: np.random.Generator) -> Case:
        data = thali.datasets.movielens_1m(data_folder())
        data = data.most_active(users=1000, items=1000).attracted(at_least=5).top_topics(d)
        train, test = data.split_users(seed=0)
        catalog = thali.Catalog.estimate(train)
        people = thali.DiverseCascade(thali.Catalog.estimate(test), thali.preferences(test)[:users])
        return Case(catalog, catalog.dense, people)

    return make


def dense(kind: str, L: int = 100_000, d: int = 20) -> Callable[[np.random.Generator], Case]:
    """All topics for all items: rows drawn from a Dirichlet distribution, or uniform; one user."""

    def make(rng: np.random.Generator) -> Case:
        concentration = {"Dirichlet(0.1)": 0.1, "Dirichlet(1)": 1.0}.get(kind)
        weights = rng.random((L, d)) if concentration is None else rng.dirichlet(np.full(d, concentration), size=L)
        return case_of(weights, narrow_tastes(rng, 1, d))

    return make
