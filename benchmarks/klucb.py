"""Time steps (recommend and update) of CascadeKL-UCB and of textbook NumPy in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from cases import Case, like_movielens
from numpy_yardstick import NumpyCascadeKLUCB

import thali


def measure(
    make: Callable[[np.random.Generator], Case] = like_movielens,
    K: int = 12,
    *,
    warm: int,
    repeats: int,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return seconds per user and step (repeats,), measured after ``warm`` steps.

    "thali" is the time of a step, "recommend" the part of it that recommend takes, "numpy" NumPy's time, and "ratio"
    NumPy's time divided by thali's. At each repeat both start from the same states, and their lists must agree.
    "swapped" counts the lists in which items have changed places because their indices differ by less than 1e-12.
    """
    rng = np.random.default_rng(seed)
    case = make(rng)
    model, users, L = case.model, case.model.users, case.catalog.L
    policy = thali.CascadeKLUCB(case.catalog, K)
    state = thali.simulate(policy, model, steps=warm, seed=seed, points=1).state
    times: dict[str, list[float]] = {"thali": [], "recommend": [], "numpy": [], "ratio": [], "swapped": []}
    for _ in range(repeats):
        plain = []
        for user in range(4):
            learner = NumpyCascadeKLUCB(L, K)
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
        times["recommend"].append((middle - begin) / users)
        times["thali"].append((middle - begin + time.perf_counter() - resumed) / users)
        numpy_lists = []
        begin = time.perf_counter()
        for user, learner in enumerate(plain):
            numpy_lists.append(learner.recommend())
            learner.update(numpy_lists[-1], clicks[user])
        times["numpy"].append((time.perf_counter() - begin) / len(plain))
        times["ratio"].append(times["numpy"][-1] / times["thali"][-1])
        for user, (index, theirs) in enumerate(zip(indices, numpy_lists, strict=True)):
            if np.abs(index[theirs] - index[lists[user]]).max() >= 1e-12:
                raise AssertionError(f"lists differ: {theirs} and {lists[user]}")
        times["swapped"].append(sum((a != b).any() for a, b in zip(numpy_lists, lists, strict=False)))
    return {who: np.array(values) for who, values in times.items()}
