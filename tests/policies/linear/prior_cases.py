"""A catalog, a prior and states for the tests of priors."""

import numpy as np

import thali
from thali.policies import POLICIES
from thali.policies.linear.policy import LinearPolicy

L, D, K = 30, 5, 4
LINEAR = [name for name in POLICIES if issubclass(thali.policies.class_of(name), LinearPolicy)]


def catalog(seed=0, d=D, **rest):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.05, 0.7, (L, d)) * (rng.random((L, d)) < 0.5)
    return thali.Catalog(weights, topics=[f"topic {j}" for j in range(d)], **rest)


def some_prior(seed=0, d=D, scale=0.1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, 2 * d))
    return thali.Prior(rng.uniform(0.0, 0.4, d), scale**2 * (A @ A.T) / (2 * d))


def history(policy, users, steps, seed=0):
    """Return a state after some lists with random clicks, and what was examined: [(user, x, click), ...]."""
    rng = np.random.default_rng(seed)
    state, seen = policy.init(users), []
    for _ in range(steps):
        lists = np.array([rng.permutation(L)[:K] for _ in range(users)])
        clicks = rng.random((users, K)) < 0.15
        gains = policy.gains(lists)
        policy.update(state, lists, clicks)
        for user in range(users):
            last = int(np.argmax(clicks[user])) if clicks[user].any() and policy.examined == "first-click" else K - 1
            seen += [(user, gains[user, k], float(clicks[user, k])) for k in range(last + 1)]
    return state, seen
