"""What is known about people, as counts and as the sums M and B, against plain loops."""

import numpy as np
import pytest
from tastes import likes_of_groups

import thali
from thali.datasets import Log
from thali.starting.known import known_of, state_of_likes, state_of_log
from thali.starting.prior import learned_prior
from thali.starting.weight import REVEALED, TOP, hits, weight_of_a_like

D = 4


def catalog(items, seed=0):
    rng = np.random.default_rng(seed)
    return thali.Catalog(rng.uniform(0.1, 0.9, (len(items), D)) * (rng.random((len(items), D)) < 0.6), items)


def some_log(examined="first-click", seed=0, times=True):
    """A log of 12 people and 9 items. Person 3 never clicks."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in range(40):
        items = [f"item {e}" for e in rng.permutation(9)[: rng.integers(2, 6)]]
        clicked = [] if n % 12 == 3 else np.flatnonzero(rng.random(len(items)) < 0.4).tolist()
        rows.append((n % 12, items, clicked, float(rng.integers(100))) if times else (n % 12, items, clicked))
    return Log.of(rows, examined=examined)


def looked(clicked, rule):
    """Which positions were examined, as a loop."""
    clicks = [k for k, c in enumerate(clicked) if c]
    if rule == "all" or not clicks:
        return range(len(clicked))
    return range((min(clicks) if rule == "first-click" else max(clicks)) + 1)


@pytest.mark.parametrize("counts", [None, [1.0, 1.0, 0.25, 0.5, 1.0]])
def test_each_person_has_examined_every_item_once(counts):
    data = likes_of_groups((3, 2), items=4, own=0.6)
    policy = thali.CascadeLSB(catalog(data.items), 1, sigma=0.35)
    likes = data.matrix().astype(np.float64)
    state = state_of_likes(policy, likes, 2.5, None if counts is None else np.array(counts))
    for u in range(5):
        M, B = np.eye(D), np.zeros(D)
        for e in range(len(data.items)):
            x = policy.catalog.dense[e]
            M += 2.5 * (1.0 if counts is None else counts[u]) * np.outer(x, x) / 0.35**2
            B += 2.5 * likes[u, e] * x
        np.testing.assert_allclose(state.M[u], M, rtol=1e-12)
        np.testing.assert_allclose(state.B[u], B, rtol=1e-12)
    np.testing.assert_array_equal(state.M, state.M.transpose(0, 2, 1))
    policy.check(state)


def test_a_prior_from_people_who_share_one_matrix_is_that_from_copies_of_it():
    data = likes_of_groups((30, 40), items=4, own=0.6)
    policy = thali.CascadeLSB(catalog(data.items), 1, sigma=0.35)
    shared = state_of_likes(policy, data.matrix().astype(np.float64), 1.5)
    assert shared.M.strides[0] == 0
    copies = shared.of(shared.M.copy(), shared.B, shared.updates)
    one, other = thali.Prior.learn(policy, shared), thali.Prior.learn(policy, copies)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-8, atol=1e-13)
    # The mean of the prior predicts the share of people who like each item, by least squares.
    share = data.matrix().sum(axis=0) / len(data.users)
    np.testing.assert_allclose(one.mean, np.linalg.lstsq(policy.catalog.dense, share)[0], atol=0.03)


@pytest.mark.parametrize("rule", ["first-click", "last-click", "all"])
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_a_log_counts_examined_positions_only(rule, half_life):
    log = some_log(rule)
    policy = thali.CascadeLSB(catalog(log.items), 1, sigma=0.4)
    known = known_of(log, half_life)
    people = np.array([7, 0, 3, 11])
    state = state_of_log(policy, log, people, known.positions)
    M, B = np.tile(np.eye(D), (12, 1, 1)), np.zeros((12, D))
    met, liked = np.zeros(9), np.zeros(9)
    for shown in log:
        c = 1.0 if half_life is None else 0.5 ** ((log.time.max() - shown.time) / half_life)
        for k in looked(shown.clicked, rule):
            e, x = shown.items[k], policy.catalog.dense[shown.items[k]]
            M[shown.user] += c * np.outer(x, x) / 0.4**2
            B[shown.user] += c * x * shown.clicked[k]
            met[e] += c
            liked[e] += c * shown.clicked[k]
    np.testing.assert_allclose(state.M, M[people], rtol=1e-12)
    np.testing.assert_allclose(state.B, B[people], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(known.met, met, rtol=1e-12)
    np.testing.assert_allclose(known.liked, liked, rtol=1e-12)
    assert (state.B[2] == 0.0).all()  # person 3 has not clicked, but has examined
    assert np.trace(state.M[2]) > D
    if half_life is None:
        np.testing.assert_array_equal(state.M, state_of_log(policy, log, people).M)


def test_the_people_for_whom_the_weight_is_chosen_are_scored_as_in_a_plain_loop(monkeypatch):
    data = likes_of_groups((12, 12), items=16, own=0.5)
    policy = thali.CascadeLSB(catalog(data.items), 1, sigma=0.35)
    prior = thali.Prior(np.linspace(0.1, 0.4, D), 0.05 * np.eye(D))
    likes, weights = data.matrix().astype(np.float64), policy.catalog.dense
    expected = []
    for u in range(24):
        own = np.flatnonzero(likes[[u]].toarray())
        revealed = own[::2][:REVEALED]
        P, h = np.linalg.inv(prior.covariance), np.linalg.inv(prior.covariance) @ prior.mean
        for e in revealed:
            P, h = P + np.outer(weights[e], weights[e]) / 0.35**2, h + weights[e] / 0.35**2
        score = {e: weights[e] @ np.linalg.solve(P, h) for e in range(32) if e not in revealed}
        best = sorted(score, key=lambda e: -score[e])[:TOP]
        expected.append(len(set(best) & set(own)))
    assert sum(expected) > 0
    assert hits(policy, prior, likes).tolist() == expected
    monkeypatch.setattr("thali.starting.weight.MOST_SCORES", 70)  # people are scored two at a time
    assert hits(policy, prior, likes).tolist() == expected


@pytest.mark.parametrize(
    ("quarter", "four_times", "chosen"),
    [
        ([1, -1] * 6, [1, 1, 0, -1] * 3, 1.0),  # 3 more likes, with a standard error of 3
        ([-1] * 12, [1, 0] * 6, 4.0),
        ([1] * 12, [1, 0] * 6, 0.25),  # both are clearly better, and this one is the best
    ],
)
def test_another_weight_than_the_usual_one_must_be_clearly_better(monkeypatch, quarter, four_times, chosen):
    data = likes_of_groups((24, 24), items=16, own=0.5)
    policy = thali.CascadeLSB(catalog(data.items), 1, sigma=0.35)
    results = iter(np.full(12, 3) + np.array([[0] * 12, quarter, four_times]))
    monkeypatch.setattr("thali.starting.weight.hits", lambda policy, prior, likes: next(results))
    assert weight_of_a_like(policy, known_of(data, None), np.arange(48), spread=0.1) == chosen * 0.35**2 / 0.1


@pytest.mark.parametrize("shared", [True, False])
def test_the_units_of_topics_do_not_matter_to_what_is_expected_of_people(shared):
    data = likes_of_groups((8, 8), items=12, own=0.7)
    likes = data.matrix().astype(np.float64)
    people = np.ones(16) if shared else np.linspace(0.5, 1.0, 16)
    units, expected = np.array([1.0, 0.1, 0.02, 0.3]), []
    for scale in (np.ones(D), units):
        policy = thali.CascadeLSB(thali.Catalog(catalog(data.items).dense * scale, items=data.items), 1, sigma=0.4)
        prior = learned_prior(policy, state_of_likes(policy, likes, 1.0, people))
        expected.append((prior.mean * scale, prior.covariance * np.outer(scale, scale)))
    for one, other in zip(*expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    plain = thali.Prior.learn(policy, state_of_likes(policy, likes, 1.0, people))
    assert not np.allclose(plain.mean * units, expected[0][0], rtol=0.1)
