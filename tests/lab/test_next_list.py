"""Policies judged on lists that were shown: against a plain loop over people and pairs of positions."""

from math import log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from instances import weights

import thali
from thali.lab.next_list import NextLists, areas, learned_from, next_lists
from thali.policies.examined import RULES, examined

L, d = 15, 4
RNG = np.random.default_rng(5)
CATALOG = thali.Catalog(weights("sparse", L, d, RNG), items=[f"film {e}" for e in range(L)])
SHARE = RNG.random(L)


def plain_area(scores, clicks, seen):
    """The share of pairs that are in the right order, ties half; positions from seen on do not count."""
    right = pairs = 0.0
    for i in range(seen):
        for j in range(seen):
            if clicks[i] and not clicks[j]:
                pairs += 1
                right += (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
    return right / pairs if pairs else nan


@given(st.integers(1, 7).flatmap(lambda K: hnp.arrays(np.int8, (3, 4, K), elements=st.integers(0, 3))), st.data())
def test_the_area_is_the_share_of_pairs_in_the_right_order(numbers, data):
    scores, clicks = numbers[0] / 3.0, numbers[1] > 1
    K = scores.shape[1]
    seen = np.array(data.draw(st.lists(st.integers(1, K), min_size=4, max_size=4)))
    found = areas(scores, clicks, np.arange(K) < seen[:, None])
    expected = [plain_area(*row) for row in zip(scores, clicks, seen, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def random_log(rule, lengths, people=25, seed=2):
    """Lists with different lengths and numbers of clicks; some people have fewer lists. Two items are unknown."""
    rng = np.random.default_rng(seed)
    names = [*CATALOG.items, "unknown", "another"]
    rows = []
    for user in range(people):
        for time in range(user % 5 + 1):
            items = [names[e] for e in rng.permutation(len(names))[: rng.choice(lengths)]]
            rows.append(
                (user, items, np.flatnonzero(rng.random(len(items)) < rng.choice([0.0, 0.3, 0.4, 0.5, 1.0])), -time)
            )
    return thali.Log.of(rows, examined=rule)


def plain_next_lists(make, known, after):
    """AUC and log loss by person and point, one person and one list at a time, with a policy for each list."""
    auc, loss = np.full((len(known.users), len(after)), nan), np.full((len(known.users), len(after)), nan)
    for u in range(len(known.users)):
        shown = [one for one in known if one.user == u]
        for at, n in enumerate(after):
            if n >= len(shown):
                continue
            state = make(2).init(1)
            for items, clicks in ((one.items, one.clicked) for one in shown[:n]):
                make(len(items)).update(state, [items], [clicks])
            clicks, policy = shown[n].clicked, make(len(shown[n].items))
            seen = examined(clicks, RULES[known.examined])
            p = policy.predict(state, [shown[n].items])[0]
            auc[u, at] = plain_area(p, clicks, seen)
            if isinstance(policy, thali.LinearPolicy):
                clipped = [min(0.999, max(0.001, x)) for x in p]
                loss[u, at] = sum(-log(clipped[k] if clicks[k] else 1.0 - clipped[k]) for k in range(seen)) / seen
    return auc, loss


POLICIES = {
    "CascadeLSB": lambda K: thali.CascadeLSB(CATALOG, K),
    "LSBGreedy": lambda K: thali.LSBGreedy(CATALOG, K, prior=thali.Prior(np.full(d, 0.2), 0.1 * np.eye(d))),
    "CascadeLinUCB": lambda K: thali.CascadeLinUCB(CATALOG, K),
    "MostPopular": lambda K: thali.MostPopular(CATALOG, K, popularity=SHARE),
}


@pytest.mark.parametrize("rule", ["first-click", "last-click", "all"])
@pytest.mark.parametrize("name", POLICIES)
def test_people_in_batches_get_what_they_would_get_alone(monkeypatch, name, rule):
    monkeypatch.setattr("thali.lab.next_list.PEOPLE", 3)
    shown, make, after = random_log(rule, lengths=[2, 3, 6]), POLICIES[name], (0, 1, 3)
    known = shown.within(CATALOG.items)
    found = next_lists(make(3), shown, after)
    auc, loss = plain_next_lists(make, known, after)
    assert np.isfinite(auc).any(axis=0).all()
    assert np.isnan(auc).any()
    np.testing.assert_allclose(found.auc, auc, rtol=1e-9)
    np.testing.assert_allclose(found.log_loss, loss, rtol=1e-9)
    assert found.dropped == known.dropped
    assert found.dropped.names == ("another", "unknown")


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_learns_from_all_lists_of_everybody(name):
    shown, make = random_log("all", lengths=[2, 3, 6]).within(CATALOG.items), POLICIES[name]
    state = learned_from(make(3), shown)
    for u in range(len(shown.users)):
        alone = make(3).init(1)
        for one in shown:
            if one.user == u:
                make(len(one.items)).update(alone, [one.items], [one.clicked])
        for array, own in zip(state.arrays.values(), alone.arrays.values(), strict=True):
            np.testing.assert_allclose(array[u], own[0], rtol=1e-12)


def test_a_prediction_is_the_estimated_attraction_of_the_list_as_shown():
    policy = thali.CascadeLSB(CATALOG, 3)
    state = policy.init(2)
    policy.update(state, [[0, 3, 5], [1, 2, 4]], [[False, True, False], [True, False, False]])
    before = state.copy()
    lists = [[7, 1, 9, 3], [3, 5, 8, 0]]
    predicted, theta = policy.predict(state, lists), policy.estimate(state)
    for u in range(2):
        covered = np.zeros(d)
        for k, e in enumerate(lists[u]):
            gain = CATALOG.dense[e] * (1.0 - covered)
            covered += gain
            assert predicted[u, k] == pytest.approx(gain @ theta[u])
    np.testing.assert_array_equal(state.M, before.M)
    with pytest.raises(ValueError, match="lists must have shape"):
        policy.predict(state, lists[:1])
    with pytest.raises(ValueError, match="state of CascadeLSB must come from the same policy"):
        policy.predict(thali.LSBGreedy(CATALOG, 3).init(2), lists)


def test_differences_are_paired_and_a_policy_does_not_differ_from_itself():
    shown = random_log("all", [4, 5], people=40)
    a, b = (next_lists(POLICIES[name](4), shown, (0, 2)) for name in ("LSBGreedy", "MostPopular"))
    for at, (own, difference) in enumerate(zip(a.means(), a.minus(b), strict=True)):
        values = a.auc[:, at]
        assert own.value == pytest.approx(np.nanmean(values))
        assert own.low < own.value < own.high
        both = (a.auc - b.auc)[:, at]
        n = np.count_nonzero(~np.isnan(both))
        assert difference.value == pytest.approx(np.nanmean(both))
        error = np.nanstd(both, ddof=1) / np.sqrt(n)
        assert 1.96 * error < difference.high - difference.value < 2.5 * error
    assert [(e.value, e.low, e.high) for e in a.minus(a, "log_loss")] == [(0.0, 0.0, 0.0)] * 2
    assert np.isnan(b.log_loss).all()
    assert np.isnan(b.means("log_loss")[0].value)
    other = next_lists(POLICIES["MostPopular"](4), shown, (0, 1))
    with pytest.raises(ValueError, match="other of minus must be about the same 40 people after"):
        a.minus(other)
    assert repr(b).startswith("NextLists of MostPopular: 40 users, AUC 0.")


class Wrong(thali.MostPopular):
    """Predicts nonsense."""

    def predict(self, state, lists):
        return np.full(np.shape(lists), nan)


@pytest.mark.parametrize(
    ("policy", "after", "message"),
    [
        (thali.CascadeKLUCB(CATALOG, 4), (0,), "CascadeKLUCB does not define predict"),
        (thali.CascadeLSB(CATALOG, 3, window=5), (0, 1), "must be able to learn from lists of any length"),
        (thali.C3UCB(CATALOG, 3), (0, 1), "variant needs a policy that gives all positions the same weight"),
        (Wrong(CATALOG, 4), (0,), "predictions of Wrong must be finite"),
        (thali.LSBGreedy(CATALOG, 4), (1, 0), "after of next_lists must be .* in ascending order"),
        (thali.LSBGreedy(CATALOG, 4), (), "after of next_lists must be one or more"),
        (thali.LSBGreedy(CATALOG, 4), (-1,), "after of next_lists must be a whole number"),
        (CATALOG, (0,), "policy of next_lists must be a thali.Policy"),
    ],
)
def test_what_cannot_be_judged_is_refused(policy, after, message):
    with pytest.raises((TypeError, ValueError), match=message):
        next_lists(policy, random_log("all", [4, 5]), after)


def test_a_log_without_any_known_item_has_no_result():
    found = next_lists(thali.LSBGreedy(CATALOG, 2), thali.Log.of([("u", ["x", "y"], [0])]))
    assert isinstance(found, NextLists)
    assert np.isnan(found.auc).all()
    assert (found.dropped.lists, found.dropped.clicks) == (1, 1)
