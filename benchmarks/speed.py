"""A CascadeLSB step (recommend + update) against textbook NumPy, single thread, as ratios within one run.

make bench prints the table in docs/performance.md in about a minute; it holds BLAS to one thread, so run it by that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from textbook import TextbookCascadeLSB

import thali

L, D, K, USERS = 1000, 18, 12, 100


def random_sparse(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """1 to 3 topics an item, any weights; people of narrow tastes."""
    weights = np.zeros((L, D))
    for row in weights:
        topics = rng.choice(D, size=rng.integers(1, 4), replace=False)
        row[topics] = rng.uniform(0.0, 0.6, size=topics.size)
    return weights, narrow_tastes(rng)


def narrow_tastes(rng: np.random.Generator) -> np.ndarray:
    """People who like a few topics each, any topics."""
    return rng.dirichlet(np.full(D, 0.3), size=USERS)


# MovieLens 1M, its 1000 most rated films and 1000 most active users: films of each genre (Comedy, Drama, Action, ...),
# and the share of pairs that attract (5 stars).
GENRES = np.array([361, 343, 261, 197, 160, 153, 131, 82, 71, 67, 62, 51, 46, 46, 35, 22, 19, 3])
ATTRACTIVE = 0.0784


def sets_of_genres(rng: np.random.Generator) -> np.ndarray:
    """Which film has which genre (L, d): some 230 different sets, as in MovieLens."""
    sets: set[tuple[int, ...]] = set()
    while len(sets) < 240:
        size = rng.choice([1, 2, 3, 4], p=[0.1, 0.4, 0.35, 0.15])
        sets.add(tuple(sorted(rng.choice(D, size=size, replace=False, p=GENRES / GENRES.sum()).tolist())))
    common_first = sorted(sets, key=lambda genres: (len(genres), genres))
    belongs = np.zeros((L, D))
    for row in belongs:
        row[list(common_first[int(len(sets) * rng.random() ** 1.5)])] = 1.0
    return belongs


def like_movielens(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The paper's w̄ from 500 users, few films attracting many of them; people's tastes follow the genres."""
    belongs = sets_of_genres(rng)
    attracted = np.minimum(np.ceil(rng.exponential(500 * ATTRACTIVE, size=(L, 1))), 400)
    theta = rng.dirichlet(20.0 * GENRES / GENRES.sum(), size=USERS)
    return attracted * belongs / rng.integers(400, 501, size=D), theta


def even_films(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same sets, but films attract evenly (1 to 300 users) and people have narrow tastes: harder to tell apart."""
    belongs = sets_of_genres(rng)
    return rng.integers(1, 300, size=(L, 1)) * belongs / rng.integers(400, 501, size=D), narrow_tastes(rng)


CASES: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "random sparse, 1-3 topics": random_sparse,
    "MovieLens-like": like_movielens,
    "the same sets, even films": even_films,
}


def measure(name: str, alpha: float | str | None, *, warm: int, repeats: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Seconds a user-step, (repeats,): thali's, its part in recommend, and NumPy's, at states reached after warm steps.

    Both start from the same states at each repeat, and their lists are checked to agree.
    """
    rng = np.random.default_rng(seed)
    weights, theta = CASES[name](rng)
    catalog = thali.Catalog(weights)
    model = thali.DiverseCascade(catalog, theta)
    policy = thali.CascadeLSB(catalog, K, alpha=alpha, horizon=20_000)
    state = policy.init(USERS)
    for _ in range(warm):
        lists = policy.recommend(state)
        policy.update(state, lists, model.sample(lists, rng))
    optimism = float(policy.optimism(state)[0])
    times: dict[str, list[float]] = {"thali": [], "recommend": [], "numpy": []}
    for _ in range(repeats):
        plain = []
        for user in range(4):
            learner = TextbookCascadeLSB(weights, K, policy.sigma, optimism)
            learner.M, learner.B = state.M[user].copy(), state.B[user].copy()
            plain.append(learner)
        begin = time.perf_counter()
        lists = policy.recommend(state)
        middle = time.perf_counter()
        clicks = model.sample(lists, rng)
        resumed = time.perf_counter()
        policy.update(state, lists, clicks)
        times["recommend"].append((middle - begin) / USERS)
        times["thali"].append((middle - begin + time.perf_counter() - resumed) / USERS)
        found = []
        begin = time.perf_counter()
        for user, learner in enumerate(plain):
            found.append(learner.recommend())
            learner.update(found[-1], clicks[user])
        times["numpy"].append((time.perf_counter() - begin) / len(plain))
        if not np.array_equal(found, lists[: len(plain)]):
            raise AssertionError(f"lists differ on {name}: {found} and {lists[: len(plain)]}")
    return {who: np.array(values) for who, values in times.items()}


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=60)
    repeats = options.parse_args().repeats
    print(f"L={L}, d={D}, K={K}, {USERS} users a batch; median (lower to upper quartile) of {repeats}\n")
    print(
        "| weights | α | after steps | thali, µs a user-step | of which recommend | NumPy, µs | times faster |\n"
        + "|---" * 7
        + "|"
    )
    for name in CASES:
        for alpha in (None, "theory"):
            for warm in (1, 100, 1000):
                times = measure(name, alpha, warm=warm, repeats=repeats)
                ours, theirs = (np.quantile(times[who] * 1e6, [0.5, 0.25, 0.75]) for who in ("thali", "numpy"))
                ratio = np.quantile(times["numpy"] / times["thali"], [0.5, 0.25, 0.75])
                recommend = np.median(times["recommend"]) * 1e6
                print(
                    f"| {name} | {alpha or 'default'} | {warm} | {ours[0]:.1f} ({ours[1]:.1f}-{ours[2]:.1f}) "
                    f"| {recommend:.1f} | {theirs[0]:.0f} | {ratio[0]:.0f} ({ratio[1]:.0f}-{ratio[2]:.0f}) |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
