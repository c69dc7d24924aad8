"""A CascadeKL-UCB step (recommend + update) against textbook NumPy, single thread, as ratios within one run.

Hold BLAS to one thread (OPENBLAS_NUM_THREADS=1); the table takes about a minute.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from speed import CASES, USERS, K, L
from textbook import TextbookCascadeKLUCB

import thali

STEPS = (1, 100, 1000, 10_000)


def measure(name: str = "MovieLens-like", *, warm: int, repeats: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Seconds a user-step, (repeats,): thali's, its part in recommend, and NumPy's, at states reached after warm steps.

    Both start from the same states at each repeat, and their lists are checked to agree: "swapped" counts lists where
    items changed places whose indices NumPy cannot tell apart, differing by less than 1e-12.
    """
    rng = np.random.default_rng(seed)
    weights, theta = CASES[name](rng)
    catalog = thali.Catalog(weights)
    model = thali.DiverseCascade(catalog, theta)
    policy = thali.CascadeKLUCB(catalog, K)
    state = thali.simulate(policy, model, steps=warm, seed=seed, points=1).state
    times: dict[str, list[float]] = {"thali": [], "recommend": [], "numpy": [], "swapped": []}
    for _ in range(repeats):
        plain = []
        for user in range(4):
            learner = TextbookCascadeKLUCB(L, K)
            learner.shown, learner.clicked = state.shown[user].astype(float), state.clicked[user].astype(float)
            learner.updates = int(state.updates[user])
            plain.append(learner)
        indices = [learner.indices() for learner in plain]
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
        for user, (index, theirs) in enumerate(zip(indices, found, strict=True)):
            if np.abs(index[theirs] - index[lists[user]]).max() >= 1e-12:
                raise AssertionError(f"lists differ on {name}: {theirs} and {lists[user]}")
        times["swapped"].append(sum((a != b).any() for a, b in zip(found, lists, strict=False)))
    return {who: np.array(values) for who, values in times.items()}


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=60)
    repeats = options.parse_args().repeats
    print(f"CascadeKL-UCB, L={L}, K={K}, {USERS} users a batch; median (lower to upper quartile) of {repeats}\n")
    print(
        "| after steps | thali, µs a user-step | of which recommend | NumPy, µs | times faster |\n" + "|---" * 5 + "|"
    )
    for warm in STEPS:
        times = measure(warm=warm, repeats=repeats)
        ours, theirs = (np.quantile(times[who] * 1e6, [0.5, 0.25, 0.75]) for who in ("thali", "numpy"))
        ratio = np.quantile(times["numpy"] / times["thali"], [0.5, 0.25, 0.75])
        print(
            f"| {warm} | {ours[0]:.2f} ({ours[1]:.2f}-{ours[2]:.2f}) | {np.median(times['recommend']) * 1e6:.2f} "
            f"| {theirs[0]:.0f} ({theirs[1]:.0f}-{theirs[2]:.0f}) | {ratio[0]:.0f} ({ratio[1]:.0f}-{ratio[2]:.0f}) |"
            + (f" {times['swapped'].sum():.0f} swaps of equals" if times["swapped"].any() else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
