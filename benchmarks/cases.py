"""Catalogs and simulated people to measure on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

# Measure the fast code, not the plain code that is used until the fast code is compiled.
os.environ.setdefault("THALI_COMPILE", "first")

import thali


class Case(NamedTuple):
    """The learner's catalog, its weights as a NumPy array, and the people who click."""

    catalog: thali.Catalog
    weights: np.ndarray
    model: thali.DiverseCascade


def case_of(weights: Any, theta: np.ndarray) -> Case:
    """Return a case in which people click by the learner's own weights."""
    catalog = thali.Catalog(weights)
    return Case(catalog, catalog.dense, thali.DiverseCascade(catalog, theta))


def narrow_tastes(rng: np.random.Generator, users: int, d: int) -> np.ndarray:
    """Return the preferences of people who each like a few random topics (users, d)."""
    return rng.dirichlet(np.full(d, 0.3), size=users)


def sparse_weights(rng: np.random.Generator, L: int, d: int) -> sp.csr_array:
    """Return weights up to 0.6 for L items with 1 to 3 topics each.

    At most one item has a given topic as its only topic, so that no two items are parallel.
    """
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
    """Draw three different topics for each item (L, 3)."""
    topics = rng.integers(d, size=(L, 3))
    while True:
        ordered = np.sort(topics, axis=1)
        same = (np.diff(ordered, axis=1) == 0).any(axis=1)
        if not same.any():
            return topics
        topics[same] = rng.integers(d, size=(same.sum(), 3))


def random_sparse(rng: np.random.Generator, users: int = 100, L: int = 1000, d: int = 40) -> Case:
    """Return sparse random weights, and people with narrow tastes."""
    return case_of(sparse_weights(rng, L, d), narrow_tastes(rng, users, d))


# From the 1000 most rated films and 1000 most active users of MovieLens 1M: the number of films in each genre (Comedy,
# Drama, Action, ...), and the share of pairs of user and film that are attractive (5 stars).
GENRES = np.array([361, 343, 261, 197, 160, 153, 131, 82, 71, 67, 62, 51, 46, 46, 35, 22, 19, 3])
ATTRACTIVE = 0.0784


def sets_of_genres(rng: np.random.Generator, L: int = 1000) -> np.ndarray:
    """Return which film has which genre (L, d), with about 230 different sets of genres, as in MovieLens."""
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
    """Return weights like those of MovieLens.

    They are the paper's w̄ for 500 users, where a few films attract many of them. People's tastes follow the sizes of
    the genres.
    """
    belongs = sets_of_genres(rng)
    attracted = np.minimum(np.ceil(rng.exponential(500 * ATTRACTIVE, size=(len(belongs), 1))), 400)
    theta = rng.dirichlet(20.0 * GENRES / GENRES.sum(), size=users)
    return case_of(attracted * belongs / rng.integers(400, 501, size=GENRES.size), theta)


def even_films(rng: np.random.Generator, users: int = 100) -> Case:
    """Return weights with the same sets of genres, but with evenly spread popularity, which is harder to search.

    The number of users that a film attracts is drawn uniformly from 1 to 299, and people have narrow tastes. So more
    films have nearly the same index.
    """
    belongs = sets_of_genres(rng)
    weights = rng.integers(1, 300, size=(len(belongs), 1)) * belongs / rng.integers(400, 501, size=GENRES.size)
    return case_of(weights, narrow_tastes(rng, users, GENRES.size))


def likes(rng: np.random.Generator, people: int = 20_000, items: int = 5_000, each: int = 50) -> Any:
    """Return interactions: each person likes some items of the few groups of items that suit them, mostly popular ones.

    There are 40 groups, and the popularity of items falls off like that of films.
    """
    groups = rng.integers(40, size=items)
    popularity = 1.0 / (10.0 + rng.permutation(items))
    tastes = rng.dirichlet(np.full(40, 0.1), size=people)
    liked = np.empty((people, each), dtype=np.int32)
    for person, taste in enumerate(tastes):
        chance = popularity * (0.005 + taste[groups])
        liked[person] = np.argpartition(rng.exponential(size=items) / chance, each)[:each]
    return thali.datasets.Interactions(
        range(people),
        range(items),
        [],
        user=np.repeat(np.arange(people, dtype=np.int32), each),
        item=liked.ravel(),
        value=np.ones(liked.size),
        membership=sp.csr_array((items, 0), dtype=bool),
    )


def data_folder() -> Path | None:
    """Return the folder that contains MovieLens 1M, or None: $THALI_DATA, or a data folder next to the repository."""
    neighbor = Path(__file__).resolve().parents[2] / "shared" / "data"
    for folder in (Path(os.environ.get("THALI_DATA", neighbor)), neighbor):
        if (folder / "ml-1m").is_dir():
            return folder
    return None


def movielens(d: int, users: int = 100) -> Callable[[np.random.Generator], Case]:
    """Return a function that creates the paper's case: w̄ from one half of MovieLens' users, people from the other."""

    def make(rng: np.random.Generator) -> Case:
        data = thali.datasets.movielens_1m(data_folder())
        data = data.most_active(users=1000, items=1000).attracted(at_least=5).top_topics(d)
        train, test = data.split_users(seed=0)
        catalog = thali.Catalog.estimate(train)
        people = thali.DiverseCascade(thali.Catalog.estimate(test), thali.preferences(test)[:users])
        return Case(catalog, catalog.dense, people)

    return make


def movielens_with_quality(kind: str, d: int = 18, users: int = 100) -> Callable[[np.random.Generator], Case]:
    """Return a function that creates the paper's case with one more column, the quality of each film, which is steady.

    kind: "share" is the share of the users to whom the film is attractive, among those of the same half. It is
    parallel to the other weights. "stars" is the mean rating of the film divided by 5, and "random" is drawn uniformly.
    A fifth of what people like is quality.
    """

    def make(rng: np.random.Generator) -> Case:
        rated = thali.datasets.movielens_1m(data_folder()).most_active(users=1000, items=1000)
        halves = rated.attracted(at_least=5).top_topics(d).split_users(seed=0)
        if kind == "share":
            columns = [np.bincount(half.item, minlength=len(half.items)) / len(half.users) for half in halves]
        elif kind == "stars":
            count = np.bincount(rated.item, minlength=len(rated.items))
            columns = [np.bincount(rated.item, weights=rated.value) / count / 5.0] * 2
        else:
            columns = [rng.random(len(rated.items))] * 2
        catalogs = [
            thali.Catalog(
                sp.hstack([estimated.csr, sp.csr_array(column[:, None])]),
                estimated.items, [*estimated.topics, "quality"], fading=np.arange(d + 1) < d,
            )
            for estimated, column in zip(map(thali.Catalog.estimate, halves), columns, strict=True)
        ]  # fmt: skip
        theta = np.column_stack([0.8 * thali.preferences(halves[1])[:users], np.full(users, 0.2)])
        return Case(catalogs[0], catalogs[0].dense, thali.DiverseCascade(catalogs[1], theta))

    return make


def learned_weights(rng: np.random.Generator, L: int, d: int, s: int) -> np.ndarray:
    """Return weights (L, d + 1) like those of topics that were learned from clicks. The last column is quality.

    Each item has s of d topics, with weights up to 0.1. Some topics are more frequent than others, but nearly every
    item has its own set of topics if s is not small.
    """
    frequency = np.log(rng.dirichlet(np.full(d, 2.0)))
    topics = np.argpartition(-frequency - rng.gumbel(size=(L, d)), s, axis=1)[:, :s]
    share = rng.dirichlet(np.full(s, 0.8), size=L) * np.minimum(0.25, rng.gamma(2.0, 0.045, size=(L, 1)))
    weights = np.zeros((L, d + 1))
    np.put_along_axis(weights, topics, np.minimum(share, 0.1), axis=1)
    weights[:, d] = 0.6 * rng.beta(2.0, 6.0, size=L)
    return weights


def learned(s: int, L: int = 1000, users: int = 100, d: int = 30) -> Callable[[np.random.Generator], Case]:
    """Return a function that creates items with s of d learned topics and a quality, which is steady.

    Half of what people like is quality.
    """

    def make(rng: np.random.Generator) -> Case:
        catalog = thali.Catalog(learned_weights(rng, L, d, s), fading=np.arange(d + 1) < d)
        theta = np.column_stack([0.5 * narrow_tastes(rng, users, d), np.full(users, 0.5)])
        return Case(catalog, catalog.dense, thali.DiverseCascade(catalog, theta))

    return make


def dense(kind: str, L: int = 100_000, d: int = 20) -> Callable[[np.random.Generator], Case]:
    """Return a function that creates one user, and items with weights on all topics.

    Each row of weights is drawn from a Dirichlet distribution, or uniformly.
    """

    def make(rng: np.random.Generator) -> Case:
        concentration = {"Dirichlet(0.1)": 0.1, "Dirichlet(1)": 1.0}.get(kind)
        weights = rng.random((L, d)) if concentration is None else rng.dirichlet(np.full(d, concentration), size=L)
        return case_of(weights, narrow_tastes(rng, 1, d))

    return make
