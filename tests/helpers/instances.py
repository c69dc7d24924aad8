"""Random weights of the kinds that have broken implementations: sparse, dense, parallel, duplicate and zero rows."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import thali

STYLES = ("sparse", "dense", "parallel", "counts", "duplicates", "extremes")


def weights(style, L, d, rng):
    support = rng.random((L, d)) < 0.4
    if style == "sparse":
        return rng.random((L, d)) * support
    if style == "dense":
        return rng.random((L, d))
    if style == "parallel":  # a few directions, any scale, some rows zero
        directions = rng.random((4, d)) * (rng.random((4, d)) < 0.6)
        return rng.random((L, 1)) * directions[rng.integers(4, size=L)]
    if style == "counts":  # the paper's w̄: clicks of the item over users of the topic, parallel only up to rounding
        return rng.integers(0, 20, size=(L, 1)) * support / rng.integers(20, 60, size=d)
    if style == "duplicates":
        return (rng.random((5, d)) * (rng.random((5, d)) < 0.6))[rng.integers(5, size=L)]
    return rng.choice([0.0, 0.0, 0.5, 1.0], size=(L, d))


def covers(d, *, least=1):
    """Weights (n, d) in [0, 1], zeros and ones included, n from least to 8."""
    return st.integers(least, 8).flatmap(lambda n: hnp.arrays(np.float64, (n, d), elements=st.floats(0, 1, width=32)))


class Saturating:
    """A user-defined coverage: c_j(S) = 1 - exp(-Σ_{e∈S} w̄(e, j))."""

    def coverage(self, items, weights):
        return 1.0 - np.exp(-weights.sum(axis=0))


class Noisy:
    """The paper's coverage, written as a user-defined coverage."""

    def coverage(self, items, weights):
        return 1.0 - np.prod(1.0 - weights, axis=0)


class OwnEpsilonGreedy(thali.Policy):
    """A user-defined policy that samples: the best click rates so far or, with probability 0.1, a random list."""

    samples = True

    def start(self, users):
        shape = (users, self.catalog.L)
        return self.new_state(shown=np.ones(shape), clicked=np.zeros(shape))

    def choose(self, state, rng):
        lists = np.argsort(-state.clicked / state.shown, axis=1, kind="stable")[:, : self.K]
        for user, generator in enumerate(rng):
            if generator.random() < 0.1:
                lists[user] = generator.permutation(self.catalog.L)[: self.K]
        return lists

    def learn(self, state, lists, clicks, gains):
        people = np.arange(state.users)[:, None]
        state.shown[people, lists] += 1
        state.clicked[people, lists] += clicks


def policies(catalog, K):
    """Every registered policy on this catalog, with default settings."""
    return [policy(catalog, K) for policy in thali.POLICIES.values()]
