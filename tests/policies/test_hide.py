"""What is hidden, against a plain transcription of the rule: dictionaries, loops, and sums over the whole history."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thali
from thali.policies import RecentlySeen
from thali.policies.examined import RULES, examined
from thali.policies.seen import _seen

LISTS = st.one_of(st.booleans(), st.integers(1, 4))
HIDES = st.builds(
    thali.Hide,
    clicked=LISTS,
    examined=LISTS,
    fatigue=st.sampled_from([None, 0.7, 1, 2, 3, 5.5]),
    limit=st.sampled_from([0.25, 0.5, 0.9, 1.5]),
    until=st.sampled_from(list(RULES)),
)


@st.composite
def histories(draw, users=2):
    """Return L, and lists (users, K) with clicks, one pair for each step. K differs from step to step."""
    L, rng = draw(st.integers(2, 9)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = []
    for _ in range(draw(st.integers(0, 8))):
        K = rng.integers(1, L + 1)
        lists = np.array([rng.permutation(L)[:K] for _ in range(users)])
        steps.append((lists, rng.random((users, K)) < rng.choice([0.0, 0.3, 0.8])))
    return L, steps


def plainly_excluded(rule, history, K, present):
    """The items hidden from one person. history: for each list, its items in order and the clicks."""
    seen = {}  # item -> the lists at which it was examined
    clicked = {}  # item -> the lists at which it was clicked
    for t, (items, clicks) in enumerate(history):
        on = [k for k, click in enumerate(clicks) if click]
        end = len(items)
        if on and rule.until != "all":
            end = on[0] if rule.until == "first-click" else on[-1]
        for k, item in enumerate(items):
            if k <= end or clicks[k]:
                seen.setdefault(item, []).append(t)
            if clicks[k]:
                clicked.setdefault(item, []).append(t)
    now = len(history)
    hidden = []
    for item in sorted(seen):
        again = False
        for setting, when in ((rule.examined, seen[item]), (rule.clicked, clicked.get(item, []))):
            for_lists = {True: 10**9, False: 0}[setting] if isinstance(setting, bool) else setting
            again = again or any(now <= t + for_lists for t in when)
        if rule.fatigue is not None:
            again = again or sum(0.5 ** ((now - t) / rule.fatigue) for t in seen[item]) >= rule.limit
        if again and present[item]:
            hidden.append(item)
    returning = sorted(hidden, key=lambda item: (max(seen[item]), item))
    while returning and sum(present) - len(hidden) < K:
        hidden.remove(returning.pop(0))
    return hidden


@given(rule=HIDES, history=histories(), K=st.integers(1, 9), data=st.data())
@settings(deadline=None)
def test_exclusions_are_those_of_a_plain_transcription(rule, history, K, data):
    """For a batch in dense arrays, and for one person at a time in short ones that are stored after every list."""
    L, steps = history
    present = np.array(data.draw(st.lists(st.booleans(), min_size=L, max_size=L)))
    batch, alone = thali.Seen(rule, users=2, L=L), [None, None]
    for t in range(len(steps) + 1):
        mask = batch.excluded(K, present)
        for user in range(2):
            expected = plainly_excluded(rule, [(i[user].tolist(), c[user]) for i, c in steps[:t]], K, present)
            assert np.flatnonzero(mask[user]).tolist() == expected
            one = RecentlySeen(rule, most=L, arrays=alone[user])
            assert one.excluded(K, present).tolist() == expected
            assert present.sum() - len(expected) >= min(K, present.sum())
            if t < len(steps):
                one.record(steps[t][0][user], steps[t][1][user])
                alone[user] = one.arrays()
        if t < len(steps):
            batch.record(*steps[t])


@given(rule=HIDES, history=histories(), order=st.randoms(use_true_random=False))
@settings(deadline=None)
def test_late_clicks_are_recorded_in_any_order(rule, history, order):
    L, steps = history
    in_order, late, one = thali.Seen(rule, 2, L), thali.Seen(rule, 2, L), RecentlySeen(rule, most=L)
    for lists, clicks in steps:
        in_order.record(lists, clicks)
    for t in order.sample(range(len(steps)), len(steps)):
        late.record(*steps[t], shown_at=[t, t])
        one.record(steps[t][0][0], steps[t][1][0], shown_at=t)
    for name in ("now", "examined", "clicked"):
        np.testing.assert_array_equal(getattr(late, name), getattr(in_order, name))
    np.testing.assert_array_equal(one.examined, in_order.examined[0, one.items])
    if rule.fatigue is not None:
        np.testing.assert_allclose(late.fatigue, in_order.fatigue, rtol=1e-12)
        np.testing.assert_allclose(one.fatigue, in_order.fatigue[0, one.items], rtol=1e-12)


def hidden_after(rule, lists_seen, lists):
    """For one item: at which of the lists it is hidden, if it was examined at lists_seen and never clicked."""
    seen, hidden = thali.Seen(rule, users=1, L=9), []
    for t in range(lists):
        if seen.excluded(1)[0, 0]:
            hidden.append(t)
        seen.record([[0 if t in lists_seen else 1 + t % 8]], [[False]])
    return hidden


def test_fatigue_recovers_and_lasts_longer_after_repeated_examinations():
    rule = thali.Hide(fatigue=3)
    assert hidden_after(rule, {0}, 12) == [1, 2, 3]
    assert hidden_after(rule, {0}, 12) == hidden_after(thali.Hide(examined=3), {0}, 12)
    assert hidden_after(rule, {0, 4}, 12) == [1, 2, 3, 5, 6, 7, 8]  # 2^(-8/3) + 2^(-4/3) = 0.55
    assert hidden_after(thali.Hide(fatigue=3, limit=1.4), {0, 1, 5}, 12) == [2]
    again = hidden_after(thali.Hide(fatigue=5), {0, 6, 14, 22, 30}, 40)  # as soon as it returns
    assert again == [*range(1, 6), *range(7, 14), *range(15, 22), *range(23, 30), *range(31, 38)]  # 5, then 7 lists
    assert hidden_after(thali.Hide(fatigue=1e-308), {0, 5}, 12) == []


def test_the_bounded_record_forgets_what_is_not_hidden_and_then_the_longest_unseen():
    seen = RecentlySeen(thali.Hide(clicked=True, examined=1), most=3)
    for items, clicks in (([5], [True]), ([4, 3], [False, False]), ([8, 7], [False, False])):
        seen.record(items, clicks)
    assert seen.items.tolist() == [5, 7, 8]  # 3 and 4 are not hidden any more
    seen.record([1, 2], [True, True])
    assert seen.items.tolist() == [1, 2, 5]  # 7 and 8 neither
    seen.record([6], [True])
    assert seen.items.tolist() == [1, 2, 6]  # 5 is the longest unseen
    seen.record([0], [True])
    assert seen.items.tolist() == [0, 2, 6]  # 1 and 2 are equally old
    assert seen.excluded(1, np.ones(9, dtype=bool)).tolist() == [0, 2, 6]


@given(clicks=st.integers(1, 6).flatmap(lambda K: st.lists(st.booleans(), min_size=K, max_size=K)))
def test_examined_positions_are_those_from_which_policies_learn_and_all_clicked_ones(clicks):
    row = np.array(clicks)
    for until, rule in RULES.items():
        expected = (np.arange(row.size) < examined(row, rule)) | row
        np.testing.assert_array_equal(_seen(row[None], until)[0], expected)


def test_rules_by_name():
    assert thali.Hide.named("nothing") == thali.Hide()
    assert thali.Hide.named("clicked") == thali.Hide(clicked=True) != thali.Hide(clicked=1)
    assert thali.Hide.named("examined") == thali.Hide(examined=True)
    assert [thali.Hide.named(name).hides_nothing for name in ("nothing", "clicked", "examined")] == [True, False, False]
    assert len({thali.Hide(), thali.Hide(fatigue=2), thali.Hide(fatigue=2.0)}) == 2


SEEN = thali.Seen(thali.Hide(clicked=True), users=2, L=4)
ONE = RecentlySeen(thali.Hide(clicked=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: thali.Hide(clicked=0), "clicked of Hide must be True, False or a whole number of lists from 1, got 0"),
        (lambda: thali.Hide(examined=-2), "examined of Hide must be True, False or a whole number .*, got -2"),
        (lambda: thali.Hide(examined=1.5), "examined of Hide must be True, False or a whole number .*, got 1.5"),
        (lambda: thali.Hide(clicked="never"), "clicked of Hide must be .*, got 'never'"),
        (lambda: thali.Hide(fatigue=0), "fatigue of Hide must be a number above 0, got 0"),
        (lambda: thali.Hide(fatigue=True), "fatigue of Hide must be a number above 0, got True"),
        (lambda: thali.Hide(fatigue=np.nan), "fatigue of Hide must be a number above 0, got nan"),
        (lambda: thali.Hide(fatigue=1, limit=0), "limit of Hide must be a number above 0, got 0"),
        (lambda: thali.Hide(until="second-click"), "until of Hide must be one of 'first-click', .* got 'second-click'"),
        (lambda: thali.Hide.named("seen"), "name of Hide must be one of 'nothing', 'clicked', 'examined', got 'seen'"),
        (lambda: thali.Seen("clicked", 1, 1), "rule of Seen must be a thali.Hide, got 'clicked'"),
        (lambda: thali.Seen(thali.Hide(), 0, 1), "users of Seen must be a whole number of at least 1, got 0"),
        (lambda: SEEN.record([[0, 4], [0, 1]], np.ones((2, 2), bool)), "lists must contain distinct item numbers"),
        (lambda: SEEN.record([[0], [1]], [[1], [0]]), "clicks must be an array of booleans"),
        (lambda: SEEN.record([[0], [1]], [[True], [True]], shown_at=[0, -1]), "shown_at must be from 0 to"),
        (lambda: SEEN.record([[0], [1]], [[True], [True]], shown_at=[0, 2**40]), "shown_at must be below 2147483647"),
        (lambda: SEEN.excluded(0), "K of excluded must be a whole number of at least 1, got 0"),
        (lambda: SEEN.excluded(1, [True] * 3), r"present must have shape \(L,\) = \(4,\), got \(3,\)"),
        (
            lambda: RecentlySeen(thali.Hide(), most=0),
            "most of RecentlySeen must be a whole number of at least 1, got 0",
        ),
        (
            lambda: RecentlySeen(thali.Hide(), arrays=ONE.arrays() | {"items": np.array([3])}),
            r"arrays of RecentlySeen must have the same length, got 1, 0, 0 and 0",
        ),
        (lambda: ONE.record([1, 1], [True, False]), "items must contain distinct item numbers"),
        (lambda: ONE.record([1, 2], [True]), r"clicks must have shape"),
    ],
)
def test_bad_input_is_rejected_and_changes_nothing(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
    assert not SEEN.now.any()
    assert not SEEN.excluded(1).any()
    assert ONE.now == ONE.items.size == 0
