"""Measure how long CascadeLSB.update and its parts take, on a single thread and in states reached by learning.

OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/learning.py measures the current version for docs/learning-cost.md.
The numbers are in µs per user: the minimum, and the median (lower to upper quartile).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np

import thali
from thali.policies.linear.state import LinearState

#: d, K, users per batch.
CASES = [(5, 4, 100), (10, 8, 100), (18, 12, 100), (40, 8, 100), (5, 4, 1), (18, 12, 1), (40, 8, 1)]
L = 1000


def quartiles(calls: Mapping[str, Callable[[], object]], repeats: int, users: int) -> dict[str, np.ndarray]:
    """Return minimum, lower quartile, median and upper quartile (4,) of µs per user for each call. Calls alternate."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: np.quantile(taken, [0.0, 0.25, 0.5, 0.75]) * 1e6 / users for name, taken in times.items()}


def measure(d: int, K: int, users: int, *, repeats: int, warm: int = 100) -> dict[str, np.ndarray]:
    """Return the quartiles of update after recommend, of refresh alone, and of inv, solve and slogdet of M in NumPy."""
    rng = np.random.default_rng(0)
    weights = np.zeros((L, d))
    for row in weights:
        topics = rng.choice(d, size=rng.integers(1, 4), replace=False)
        row[topics] = rng.uniform(0.0, 0.6, size=topics.size)
    catalog = thali.Catalog(weights)
    model = thali.DiverseCascade(catalog, rng.dirichlet(np.full(d, 0.3), size=users))
    policy = thali.CascadeLSB(catalog, K)
    state = policy.init(users)
    assert isinstance(state, LinearState)
    for _ in range(warm):
        lists = policy.recommend(state)
        policy.update(state, lists, model.sample(lists, rng))
    lists = policy.recommend(state)
    clicks = model.sample(lists, rng)

    def plain() -> object:
        return np.linalg.inv(state.M), np.linalg.solve(state.M, state.B[:, :, None]), np.linalg.slogdet(state.M)

    step = {"recommend": lambda: policy.recommend(state), "update": lambda: policy.update(state, lists, clicks)}
    parts = quartiles(step, repeats, users) | quartiles({"refresh": state.refresh}, repeats, users)
    return {name: parts[name] for name in ("update", "refresh")} | quartiles({"numpy": plain}, repeats // 4, users)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--repeats", type=int, default=300, help="Number of repetitions of each measurement (default: 300)."
    )
    repeats = options.parse_args().repeats
    print("| d | K | users per batch | update | refresh alone | inv, solve, slogdet in NumPy |\n" + "|---" * 6 + "|")
    for d, K, users in CASES:
        measured = measure(d, K, users, repeats=repeats)
        cells = (f"{a:.2f}, {c:.2f} ({b:.2f}-{e:.2f})" for a, b, c, e in measured.values())
        print(f"| {d} | {K} | {users} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
