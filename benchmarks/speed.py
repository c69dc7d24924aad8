"""Time steps (recommend and update) of CascadeLSB and of textbook NumPy, and steps of any policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from cases import Case
from numpy_yardstick import NumpyCascadeLSB

import thali
from thali.lists import plain


def measure(
    make: Callable[[np.random.Generator], Case],
    K: int,
    *,
    alpha: float | str | None = None,
    warm: int,
    repeats: int,
    slow: int = 4,
    every: int = 1,
    in_a_row: int = 5,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return seconds per user and step, measured after ``warm`` steps.

    "thali" (repeats,) is the time of a step, and "recommend" the part of it that recommend takes. "numpy" is NumPy's
    time, and "ratio" is NumPy's time divided by thali's.

    Each repeat runs ``in_a_row`` steps of thali, and takes their mean. At every ``every``-th repeat, NumPy then repeats
    the last of these steps from the same state, for the first ``slow`` users. (NumPy's wide products lower the clock
    rate of the processor for a while. If thali and NumPy alternated step by step, thali would run at that lower rate.)
    The lists of these users are compared with :func:`thali.lists.plain.build`, which defines the correct lists.
    """
    rng = np.random.default_rng(seed)
    case = make(rng)
    users = case.model.users
    policy = thali.CascadeLSB(case.catalog, K, alpha=alpha, horizon=20_000)
    state = policy.init(users)
    for _ in range(warm):
        lists = policy.recommend(state)
        policy.update(state, lists, case.model.sample(lists, rng))
    policy.recommend(state)  # compiles, and builds the search index
    alpha_used = float(policy.optimism(state)[0])
    times: dict[str, list[float]] = {"thali": [], "recommend": [], "numpy": [], "ratio": []}
    for repeat in range(repeats):
        row: dict[str, list[float]] = {"thali": [], "recommend": []}
        for n in range(in_a_row):
            if n == in_a_row - 1:
                before = state.take(np.arange(min(slow, users)))
            begin = time.perf_counter()
            lists = policy.recommend(state)
            middle = time.perf_counter()
            clicks = case.model.sample(lists, rng)
            resumed = time.perf_counter()
            policy.update(state, lists, clicks)
            row["recommend"].append((middle - begin) / users)
            row["thali"].append((middle - begin + time.perf_counter() - resumed) / users)
        for who, taken in row.items():
            times[who].append(float(np.mean(taken)))
        learners = []
        for user in range(before.users if repeat % every == 0 else 0):
            learner = NumpyCascadeLSB(case.weights, K, policy.sigma, alpha_used)
            learner.M, learner.B = before.M[user].copy(), before.B[user].copy()
            learners.append(learner)
        if not learners:
            continue
        begin = time.perf_counter()
        for user, learner in enumerate(learners):
            learner.update(learner.recommend(), clicks[user])
        times["numpy"].append((time.perf_counter() - begin) / len(learners))
        times["ratio"].append(times["numpy"][-1] / times["thali"][-1])
        exact = plain.build(
            case.catalog, policy.estimate(before), policy.posterior(before).inverse, policy.optimism(before), K=K
        )
        if not np.array_equal(exact, lists[: before.users]):
            raise AssertionError(f"lists differ: {exact} and {lists[: before.users]}")
    return {who: np.array(values) for who, values in times.items()}


def recommend(
    makes: dict[str, Callable[[np.random.Generator], Case]],
    K: int,
    *,
    alpha: float | str | None = None,
    warm: int,
    repeats: int,
) -> dict[str, np.ndarray]:
    """Return seconds per list (repeats,) of CascadeLSB for several cases, measured in turn after ``warm`` steps.

    The lists of the first users are compared with :func:`thali.lists.plain.build`, which defines the correct lists.
    """
    learned = {}
    for name, make in makes.items():
        rng = np.random.default_rng(0)
        case = make(rng)
        policy = thali.CascadeLSB(case.catalog, K, alpha=alpha, horizon=20_000)
        state = policy.init(case.model.users)
        for _ in range(warm):
            lists = policy.recommend(state)
            policy.update(state, lists, case.model.sample(lists, rng))
        few = state.take(np.arange(min(8, state.users)))
        exact = plain.build(
            case.catalog, policy.estimate(few), policy.posterior(few).inverse, policy.optimism(few), K=K
        )
        if not np.array_equal(exact, policy.recommend(few)):
            raise AssertionError(f"lists differ: {exact} and {policy.recommend(few)}")
        learned[name] = policy, state
    taken: dict[str, list[float]] = {name: [] for name in makes}
    for _ in range(repeats):
        for name, (policy, state) in learned.items():
            begin = time.perf_counter()
            policy.recommend(state)
            taken[name].append((time.perf_counter() - begin) / state.users)
    return {name: np.array(values) for name, values in taken.items()}


def compared_with_plain(
    make: Callable[[np.random.Generator], Case], K: int, *, warm: int = 20, repeats: int = 30, slow: int = 4
) -> dict[str, np.ndarray]:
    """Return seconds per list of CascadeLSB and of the plain loop, and their ratio (repeats,), measured in turns.

    The policy has a prior in which people are indifferent to every topic on average, and like quality, the last column.
    The plain loop builds the lists of the first ``slow`` users. They are compared with those of thali.
    """
    rng = np.random.default_rng(0)
    case = make(rng)
    d, users = case.catalog.d, case.model.users
    some = 0.15 * rng.normal(size=(d, d))
    prior = thali.Prior(np.append(np.zeros(d - 1), 1.0), np.diag(np.append(np.ones(d - 1), 0.3)) + some @ some.T)
    policy = thali.CascadeLSB(case.catalog, K, prior=prior, sigma=0.5, alpha=0.2)
    state = policy.init(users)
    for _ in range(warm):
        lists = policy.recommend(state)
        policy.update(state, lists, case.model.sample(lists, rng))
    few = state.take(np.arange(min(slow, users)))
    beliefs = policy.estimate(few), policy.posterior(few).inverse, policy.optimism(few)
    times: dict[str, list[float]] = {"thali": [], "plain": [], "ratio": []}
    for _ in range(repeats):
        begin = time.perf_counter()
        lists = policy.recommend(state)
        middle = time.perf_counter()
        exact = plain.build(case.catalog, *beliefs, K=K)
        times["plain"].append((time.perf_counter() - middle) / few.users)
        times["thali"].append((middle - begin) / users)
        times["ratio"].append(times["plain"][-1] / times["thali"][-1])
        if not np.array_equal(exact, lists[: few.users]):
            raise AssertionError(f"lists differ: {exact} and {lists[: few.users]}")
    return {who: np.array(values) for who, values in times.items()}


def step(policy: thali.Policy, model: thali.ClickModel, *, warm: int = 100, in_a_row: int = 20) -> np.ndarray:
    """Return seconds per user and step (10,) of any policy, measured after ``warm`` steps.

    Includes the time to simulate clicks. Each of the ten values is the mean of ``in_a_row`` steps.
    """
    state = thali.simulate(policy, model, steps=warm, seed=0).state
    taken = []
    for seed in range(1, 11):
        begin = time.perf_counter()
        state = thali.simulate(policy, model, steps=in_a_row, seed=seed, state=state, points=1).state
        taken.append((time.perf_counter() - begin) / in_a_row / model.users)
    return np.array(taken)


def compared(policies: Sequence[thali.Policy], model: thali.ClickModel, *, warm: int, repeats: int = 60) -> np.ndarray:
    """Return seconds per user and step (policies, repeats), with policies that are measured in turns.

    Each policy first learns from ``warm`` lists per person. Each value is the mean of five steps of recommend and
    update. Clicks are simulated in between, and not counted.
    """
    rng = np.random.default_rng(0)
    states = [thali.simulate(policy, model, steps=warm, seed=0).state for policy in policies]
    taken = np.zeros((len(policies), repeats))
    for repeat in range(repeats):
        for n, (policy, state) in enumerate(zip(policies, states, strict=True)):
            for _ in range(5):
                begin = time.perf_counter()
                lists = policy.recommend(state, rng=rng)
                middle = time.perf_counter()
                clicks = model.sample(lists, rng)
                resumed = time.perf_counter()
                policy.update(state, lists, clicks)
                taken[n, repeat] += (middle - begin + time.perf_counter() - resumed) / 5 / model.users
    return taken
