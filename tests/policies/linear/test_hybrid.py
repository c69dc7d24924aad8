"""CascadeHybrid against the algorithm of Li et al. (2020), written with block matrices; and its special cases."""

import numpy as np
import pytest
from instances import weights

import thali
from thali.lists import plain

L, K, USERS = 40, 4, 3


class Blocks:
    """One user of CascadeHybrid as Li et al. write it: θ for the d gains ω, β for the m relevance features z."""

    def __init__(self, d, m, gamma):
        self.H, self.M, self.B = np.eye(d), np.eye(m), np.zeros((d, m))
        self.u, self.y, self.gamma = np.zeros(d), np.zeros(m), gamma

    def solve(self):
        M_inverse = np.linalg.inv(self.M)
        P = np.linalg.inv(self.H - self.B @ M_inverse @ self.B.T)
        theta = P @ (self.u - self.B @ M_inverse @ self.y)
        beta = M_inverse @ (self.y - self.B.T @ theta)
        return M_inverse, P, theta, beta

    def recommend(self, topics, relevance):
        M_inverse, P, theta, beta = self.solve()
        left, chosen = np.ones(topics.shape[1]), []
        for _ in range(K):
            scores = np.full(len(topics), -np.inf)
            for e in set(range(len(topics))) - set(chosen):
                omega, z = topics[e] * left, relevance[e]
                across = M_inverse @ self.B.T @ P @ omega
                s = omega @ P @ omega - 2 * z @ across + z @ M_inverse @ z
                s += z @ M_inverse @ self.B.T @ P @ self.B @ M_inverse @ z
                scores[e] = omega @ theta + z @ beta + self.gamma * np.sqrt(s)
            chosen.append(int(np.argmax(scores)))
            left = left * (1 - topics[chosen[-1]])
        return chosen

    def update(self, topics, relevance, chosen, clicks):
        left = np.ones(topics.shape[1])
        for e, click in zip(chosen, clicks, strict=True):
            omega, z = topics[e] * left, relevance[e]
            self.H += np.outer(omega, omega)
            self.B += np.outer(omega, z)
            self.M += np.outer(z, z)
            self.u += omega * click
            self.y += z * click
            if click:
                return
            left = left * (1 - topics[e])


@pytest.mark.parametrize(("d", "m"), [(4, 1), (3, 3), (1, 5)])
def test_it_is_the_algorithm_of_li_et_al(d, m):
    rng = np.random.default_rng([d, m])
    topics, relevance = weights("dense", L, d, rng) * 0.6, rng.random((L, m))
    fading = np.arange(d + m) < d
    catalog = thali.Catalog(np.hstack([topics, relevance]), fading=fading)
    policy = thali.CascadeHybrid(catalog, K, sigma=1.0, alpha=0.7)
    people = thali.DiverseCascade(catalog, rng.dirichlet(np.ones(d + m), size=USERS))
    state, blocks = policy.init(USERS), [Blocks(d, m, 0.7) for _ in range(USERS)]
    for _ in range(60):
        lists = policy.recommend(state)
        assert lists.tolist() == [one.recommend(topics, relevance) for one in blocks]
        clicks = people.sample(lists, rng)
        policy.update(state, lists, clicks)
        for user, one in enumerate(blocks):
            one.update(topics, relevance, lists[user], clicks[user])
    for user, one in enumerate(blocks):
        _, _, theta, beta = one.solve()
        np.testing.assert_allclose(policy.estimate(state)[user], [*theta, *beta], rtol=1e-9, atol=1e-12)


def session(policy, people, users, steps=150, seed=3):
    """Return all lists of a session, and the final state."""
    state, shown = policy.init(users), []
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        shown.append(policy.recommend(state))
        policy.update(state, shown[-1], people.sample(shown[-1], rng))
    return np.array(shown), state


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
def test_special_cases(kind):
    """With all topics steady, it is CascadeLinUCB; with none, it is CascadeLSB: the same lists, M and B, to the bit."""
    rng = np.random.default_rng(4)
    W = weights("sparse", 200, 5, rng)
    people = thali.DiverseCascade(thali.Catalog(W, coverage=kind), rng.dirichlet(np.ones(5), size=USERS))
    for fading, other in ((False, thali.CascadeLinUCB), (True, thali.CascadeLSB)):
        for make in (thali.CascadeHybrid, thali.CascadeLSB):
            policy = make(thali.Catalog(W, coverage=kind, fading=np.full(5, fading)), K, alpha=3.0)
            lists, state = session(policy, people, USERS)
            expected, same = session(other(thali.Catalog(W, coverage=kind), K, alpha=3.0), people, USERS)
            np.testing.assert_array_equal(lists, expected)
            np.testing.assert_array_equal(state.M, same.M)
            np.testing.assert_array_equal(state.B, same.B)


@pytest.mark.parametrize("settings", [{}, {"examined": "last-click"}, {"window": 20}, {"build": plain.build}])
def test_batches_equal_singles_and_stored_gains_equal_computed_ones(settings):
    rng = np.random.default_rng(5)
    W = np.hstack([weights("counts", 200, 5, rng), rng.random((200, 1))])
    catalog = thali.Catalog(W, fading=np.arange(6) < 5)
    theta = rng.dirichlet(np.ones(6), size=USERS)
    policy, fast = thali.CascadeHybrid(catalog, K, **settings), thali.CascadeHybrid(catalog, K, **settings)
    batch, singles = policy.init(USERS), [policy.init(1) for _ in range(USERS)]
    people = thali.DiverseCascade(catalog, theta)
    for _ in range(60):
        lists = policy.recommend(batch)
        clicks = people.sample(lists, rng)
        for user, single in enumerate(singles):
            np.testing.assert_array_equal(policy.recommend(single)[0], lists[user])
            fast.update(single, lists[[user]], clicks[[user]])
        policy.update(batch, lists, clicks, gains=policy.gains(lists))
    np.testing.assert_array_equal(batch.M, np.concatenate([single.M for single in singles]))
    np.testing.assert_array_equal(batch.B, np.concatenate([single.B for single in singles]))
