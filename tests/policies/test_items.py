"""Policies that learn per item or per position, against plain transcriptions; and settings that are refused."""

import math
from functools import partial

import numpy as np
import pytest
import reference_neighbours as plain
from scipy import stats

import thali

SIZES = ((12, 3), (5, 5), (8, 1), (30, 4))  # L and K


def catalog_of(L):
    return thali.Catalog(np.ones((L, 1)))


def session(policy, transcribed, choose, *, steps=250, seed=0):
    """Serve one randomly clicking person with the policy and its transcription, and require the same lists.

    choose(rng) returns the list of the transcription.
    """
    rng, state = np.random.default_rng(seed), policy.init(1)
    rates = rng.random(policy.catalog.L) ** 2
    for step in range(steps):
        lists = policy.recommend(state, [np.random.default_rng([seed, step])])
        assert lists[0].tolist() == choose(np.random.default_rng([seed, step])), step
        clicks = plain.some_clicks(rng, policy.K) if step % 2 else rng.random(policy.K) < rates[lists[0]]
        policy.update(state, lists, clicks[None])
        transcribed.update(lists[0].tolist(), clicks.tolist())
    return state


ITEM_POLICIES = {
    "CascadeUCB1": (thali.CascadeUCB1, "first-click", lambda counts, rng: counts.ucb1()),
    "CombCascade": (thali.CombCascade, "first-click", lambda counts, rng: counts.ucb1(cap=1.0)),
    "DcmKLUCB": (thali.DcmKLUCB, "last-click", lambda counts, rng: counts.kl_ucb()),
    "CascadeTS": (thali.CascadeTS, "first-click", lambda counts, rng: counts.thompson(rng)),
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", ITEM_POLICIES)
def test_item_policies_equal_their_transcriptions(name, size):
    make, rule, choose = ITEM_POLICIES[name]
    counts = plain.PlainItems(*size, rule)
    state = session(make(catalog_of(size[0]), size[1]), counts, lambda rng: choose(counts, rng))
    assert state.shown[0].tolist() == counts.seen
    assert state.clicked[0].tolist() == counts.ones


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pie_equals_its_transcription_at_every_place(size):
    for place in range(size[1]):
        counts = plain.PlainItems(*size)
        policy = thali.PIE(catalog_of(size[0]), size[1], place=place)
        session(policy, counts, lambda rng: counts.pie(rng.random(2), place), seed=place)  # noqa: B023 (called at once)


def test_pie_chooses_among_exactly_the_items_whose_index_reaches_the_last_leader():
    rng = np.random.default_rng(7)
    users, L, K = 600, 12, 3
    policy = thali.PIE(catalog_of(L), K, place=1)
    state = policy.init(users)
    state.shown[:] = rng.integers(0, 60, size=(users, L)) * (rng.random((users, L)) < 0.9)
    state.clicked[:] = rng.binomial(
        state.shown, rng.choice([0.0, 0.3, 0.6, 1.0], size=(users, L), p=[0.1, 0.4, 0.4, 0.1])
    )
    state.updates[:] = rng.integers(60, 3000, size=users)
    lists = policy.recommend(state, [np.random.default_rng(user) for user in range(users)])
    for user in range(users):
        counts = plain.PlainItems(L, K)
        counts.seen, counts.ones = state.shown[user].tolist(), state.clicked[user].tolist()
        counts.updates = int(state.updates[user])
        assert lists[user].tolist() == counts.pie(np.random.default_rng(user).random(2), 1)


BASES = [("ucb1", None), ("kl-ucb", None), ("exp3", 0.3), ("exp3", 1.0)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("base", "gamma"), BASES)
@pytest.mark.parametrize("make", [thali.RankedBandits, thali.IndependentBandits])
def test_position_bandits_equal_their_transcriptions(make, base, gamma, size):
    """For K = 1 the transcription is ordinary UCB1, KL-UCB or Exp3."""
    bandits = plain.PlainRanked(*size, base, gamma=gamma, independent=make is thali.IndependentBandits)
    policy = make(catalog_of(size[0]), size[1], base=base, gamma=gamma)
    state = session(policy, bandits, lambda rng: bandits.recommend(rng.random(size[1])), steps=150)
    if base == "exp3":
        np.testing.assert_allclose(state.score[0], bandits.score, rtol=1e-10)
    else:
        assert state.shown[0].tolist() == bandits.seen
        assert state.clicked[0].tolist() == bandits.ones


TWINS = [  # K, and pairs of policies that show and learn exactly the same if nobody clicks more than once
    (4, thali.CascadeKLUCB, thali.DcmKLUCB, {}),
    (1, thali.CascadeKLUCB, partial(thali.RankedBandits, base="kl-ucb"), {}),
    *((3, thali.RankedBandits, thali.IndependentBandits, {"base": base}) for base, _ in BASES[:3]),
]


@pytest.mark.parametrize(("K", "one", "other", "settings"), TWINS, ids=str)
def test_policies_that_differ_only_in_how_they_learn_from_several_clicks(K, one, other, settings):
    catalog = thali.Catalog(np.random.default_rng(1).random((25, 4)))
    first, second = one(catalog, K, **settings), other(catalog, K, **settings)
    model = thali.DiverseCascade(catalog, np.random.default_rng(2).dirichlet(np.ones(4), size=3))
    runs = [thali.simulate(policy, model, steps=400, seed=3, points=range(1, 401)) for policy in (first, second)]
    np.testing.assert_array_equal(runs[0].lists, runs[1].lists)
    np.testing.assert_array_equal(runs[0].regret, runs[1].regret)
    for a, b in zip(runs[0].state.arrays.values(), runs[1].state.arrays.values(), strict=True):
        np.testing.assert_array_equal(a.ravel(), b.ravel())
    if K > 1:
        states = first.init(1), second.init(1)
        for policy, state in zip((first, second), states, strict=True):
            policy.update(state, np.arange(K)[None], np.arange(K)[None] != 1)
        assert not all(np.array_equal(a, states[1].arrays[name]) for name, a in states[0].arrays.items())


def test_exp3_shows_items_as_often_as_its_probabilities_say():
    rng = np.random.default_rng(4)
    policy, bandits = (
        thali.RankedBandits(catalog_of(6), 3, base="exp3", gamma=0.4),
        plain.PlainRanked(6, 3, "exp3", gamma=0.4),
    )
    state = session(policy, bandits, lambda rng: bandits.recommend(rng.random(3)), steps=100, seed=5)
    shown = np.concatenate([policy.recommend(state, rng) for _ in range(6000)])
    first = bandits.chances(0, [])
    assert math.fsum(first.values()) == pytest.approx(1.0, abs=1e-12)
    assert min(first.values()) >= 0.4 / 6
    chances = []
    for a in range(6):
        second = bandits.chances(1, [a])
        assert math.fsum(second.values()) == pytest.approx(1.0, abs=1e-12)
        chances += [(a, b, first[a] * second[b]) for b in second]
    counts = [int(((shown[:, 0] == a) & (shown[:, 1] == b)).sum()) for a, b, _ in chances]
    assert stats.chisquare(counts, [6000 * p for _, _, p in chances]).pvalue > 1e-3


def test_exp3_takes_its_gamma_from_the_horizon():
    for L, n in ((16, 10_000), (16, 3)):
        policy = thali.RankedBandits(catalog_of(L), 2, base="exp3", horizon=n)
        assert policy.gamma == pytest.approx(min(1.0, math.sqrt(L * math.log(L) / ((math.e - 1) * n))))


class DependentClicks(thali.ClickModel):
    """The dependent click model: a user who clicks at position k leaves satisfied with probability v_k."""

    leaves = False

    def __init__(self, weights, v):
        self.weights, self.v = weights, np.asarray(v)
        self.users, self.L = weights.shape

    def attraction(self, lists):
        return np.take_along_axis(self.weights, lists, axis=1)

    def best_lists(self, K):
        return np.argsort(-self.weights, axis=1, kind="stable")[:, :K]

    def click_probability(self, lists):
        return 1 - np.prod(1 - self.v * self.attraction(lists), axis=1)

    def respond(self, lists, uniforms):
        attraction = self.attraction(lists)
        satisfied = uniforms < self.v * attraction
        return (uniforms < attraction) & (np.cumsum(satisfied, axis=1) - satisfied == 0)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 4])
def test_regret_ranks_the_policies_as_in_the_papers(K):
    """KL-UCB is below UCB1 (Kveton et al. 2015), and Beta sampling is below both (Zhong et al. 2021).

    With several clicks, DcmKLUCB is below CascadeKLUCB (Katariya et al. 2016).
    """
    users = 16
    rates = np.random.default_rng(5).permuted(np.repeat([[0.2] * K + [0.1] * (16 - K)], users, axis=0), axis=1)
    model, catalog = thali.Cascade(rates), catalog_of(16)

    def regret(make, model, steps=2500):
        return thali.simulate(make(catalog, K), model, steps=steps, seed=6, points=1).regret[:, -1]

    def below(one, other):
        return stats.ttest_rel(one, other, alternative="less").pvalue < 1e-3

    sampled, kl, ucb1 = (regret(make, model) for make in (thali.CascadeTS, thali.CascadeKLUCB, thali.CascadeUCB1))
    assert below(sampled, kl)
    assert below(kl, ucb1)
    several = DependentClicks(4 * rates, np.full(K, 0.1))
    assert below(regret(thali.DcmKLUCB, several), regret(thali.CascadeKLUCB, several))


NUMBER = "a number (from 0 to 1|above 0 and at most 1), got"
REFUSED = [
    (
        thali.CascadeLSB,
        {"examined": "all"},
        "examined of CascadeLSB must be one of 'first-click', 'last-click', got 'all'",
    ),
    (thali.LSBGreedy, {"examined": "last-click"}, "examined of LSBGreedy must be one of 'all', got 'last-click'"),
    (thali.CascadeLSB, {"explore": "greed"}, "explore of CascadeLSB must be one of .*'epsilon', got 'greed'"),
    (thali.CascadeLSB, {"explore": "sampling", "alpha": 1.0}, "alpha of CascadeLSB must not be given with .*, got 1.0"),
    (
        thali.CombLinTS,
        {"alpha": "theory"},
        "alpha of CombLinTS must not be given with explore='sampling', got 'theory'",
    ),
    (
        thali.CascadeLSB,
        {"epsilon": 0.1},
        "epsilon of CascadeLSB can only be given with explore='epsilon', got epsilon=0.1",
    ),
    (thali.EpsilonGreedy, {"epsilon": 1.5}, f"epsilon of EpsilonGreedy must be {NUMBER} 1.5"),
    (thali.EpsilonGreedy, {"epsilon": True}, f"epsilon of EpsilonGreedy must be {NUMBER} True"),
    (thali.CascadeLSB, {"discount": 0.0}, f"discount of CascadeLSB must be {NUMBER} 0.0"),
    (thali.CascadeLSB, {"discount": math.nan}, f"discount of CascadeLSB must be {NUMBER} nan"),
    (
        thali.CascadeLSB,
        {"window": 0},
        "window of CascadeLSB must be a whole number from 1 to .*, got 0",
    ),
    (
        thali.CascadeLSB,
        {"window": 2.5},
        "window of CascadeLSB must be a whole number from 1 to .*, got 2.5",
    ),
    (
        thali.C3UCB,
        {"window": 5, "discount": 0.9},
        "window and discount of C3UCB must not be given together, got 5 and 0.9",
    ),
    (thali.C3UCB, {"position_discounts": [1, 0.5]}, r"position_discounts of C3UCB must have shape .*, got \(2,\)"),
    *(
        (thali.C3UCB, {"position_discounts": v}, rf"position_discounts of C3UCB must begin with 1, .*, got \[{v[0]}")
        for v in ([0.9, 0.5, 0.4], [1.0, 0.5, 0.6], [1.0, 0.5, 0.0], [1.0, 0.5, -0.1], [1.1, 1.0, 1.0])
    ),
    (
        thali.RankedBandits,
        {"horizon": 10},
        "horizon of RankedBandits can only be given with base='exp3', got horizon=10",
    ),
    (
        thali.RankedBandits,
        {"base": "exp3", "gamma": 0.5, "horizon": 10},
        "gamma and horizon of .* must not be given together",
    ),
    (thali.Oracle, {"theta": np.zeros((0, 2))}, "theta of Oracle must have at least one row, got none"),
    (thali.CascadeLinUCB, {"capped": "no"}, "capped of CascadeLinUCB must be True or False, got 'no'"),
    (thali.PIE, {"place": 3}, "place of PIE must be a whole number from 0 to 2, got 3"),
    (thali.PIE, {"place": -1}, "place of PIE must be a whole number from 0 to 2, got -1"),
    (
        thali.RankedBandits,
        {"base": "ucb2"},
        "base of RankedBandits must be one of 'ucb1', 'kl-ucb', 'exp3', got 'ucb2'",
    ),
    (
        thali.IndependentBandits,
        {"gamma": 0.1},
        "gamma of IndependentBandits can only be given with base='exp3', got gamma=0.1",
    ),
    (thali.RankedBandits, {"base": "exp3", "gamma": 0}, f"gamma of RankedBandits must be {NUMBER} 0"),
    (thali.RankedBandits, {"base": "exp3", "horizon": 0}, "horizon of RankedBandits must be .* at least 1, got 0"),
    (thali.MostPopular, {"popularity": [1.0]}, r"popularity of MostPopular must have shape \(L,\) .*, got \(1,\)"),
    (thali.MostPopular, {"popularity": [math.nan] * 4}, "popularity of MostPopular must be finite, got nan"),
    (thali.Oracle, {"theta": [[-0.1, 0.2]]}, "theta of Oracle must not be negative, got -0.1"),
    (thali.Oracle, {"theta": [[0.9, 0.2]]}, "theta of Oracle must sum to at most 1 for each user, got 1.1"),
    (thali.Oracle, {"theta": [[0.9]]}, r"theta of Oracle must have shape \(users, d\) .*, got \(1, 1\)"),
    (thali.Oracle, {"features": "topics"}, "features of Oracle must be one of 'gains', 'items', got 'topics'"),
]
REFUSED_BY_BUILDERS = [
    (thali.MMR, {"trade_off": 1.1}, f"trade_off of MMR must be {NUMBER} 1.1"),
    (thali.MMR, {"trade_off": None}, f"trade_off of MMR must be {NUMBER} None"),
    (thali.DivRank, {"damping": 1.0}, "damping of DivRank must be a number from 0 to .*, got 1.0"),
    (thali.DivRank, {"link": 1.0}, "link of DivRank must be a number from 0 to 0.99, got 1.0"),
    (thali.DivRank, {"pool": 0}, "pool of DivRank must be a whole number of at least 1, got 0"),
]


@pytest.mark.parametrize(("make", "settings", "message"), REFUSED, ids=str)
def test_bad_settings_are_refused_and_the_message_has_name_rule_and_value(make, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(thali.Catalog(np.full((4, 2), 0.5)), 3, **settings)


@pytest.mark.parametrize(("make", "settings", "message"), REFUSED_BY_BUILDERS, ids=str)
def test_bad_settings_of_builders_are_refused_and_the_message_has_name_rule_and_value(make, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**settings)


def test_an_oracle_refuses_more_users_than_theta_has_rows():
    oracle = thali.Oracle(thali.Catalog(np.eye(2)), 1, theta=[[0.5, 0.2], [0.1, 0.9]])
    assert oracle.recommend(oracle.init(2)).tolist() == [[0], [1]]
    with pytest.raises(ValueError, match=r"users of init must be at most the number of rows in theta \(2\), got 3"):
        oracle.init(3)


def test_exp3_learns_from_late_clicks_on_removed_items():
    catalog = thali.Catalog(np.eye(3))
    policy = thali.RankedBandits(catalog, 3, base="exp3")
    state = policy.init(1)
    catalog.remove(0)
    catalog.remove(1)
    policy.update(state, [[2, 0, 1]], [[False, True, False]])
    assert np.isfinite(state.score).all()
    assert state.score[0, 1, 0] == pytest.approx(1.0)  # no other item could be shown there


def test_popularity_without_numbers_for_new_items_is_refused():
    catalog = thali.Catalog(np.eye(3))
    policy = thali.MostPopular(catalog, 2, popularity=[1.0, 3.0, 2.0])
    assert policy.recommend(policy.init(2)).tolist() == [[1, 2], [1, 2]]
    catalog.put("new", [0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="popularity of MostPopular must have 4 numbers, .*, got 3: items were added"):
        policy.recommend(policy.init(1))
