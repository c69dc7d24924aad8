"""CascadeKL-UCB against its transcription, its lists against a scan of all indices, its index against 50 digits."""

import math
from bisect import bisect
from decimal import Decimal, localcontext

import numpy as np
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st

import thali
from thali.catalog.candidates import EVERY
from thali.policies.klucb import PRECISION, SLOTS, kl_index, kl_lists


def budget(t):
    return math.log(t) + 3 * math.log(max(1.0, math.log(t)))


def scanned(shown, clicked, t):
    """The index of each item; 1 if it was never examined."""
    return [kl_index(ones / n, budget(t) / n) if n else 1.0 for n, ones in zip(shown, clicked, strict=True)]


def plain(shown, clicked, t, K, items=None):
    """The definition: the K largest of all indices, ties to the lowest item."""
    items = np.arange(len(shown)) if items is None else items
    index = np.array(scanned(shown[items].tolist(), clicked[items].tolist(), t))
    return items[np.argsort(-index, kind="stable")[:K]].tolist()


def test_lists_equal_those_of_the_transcription():
    rng = np.random.default_rng(6)
    attraction = rng.random(20) * 0.6
    transcribed = reference.PlainKLUCB(20, 4)
    policy = thali.CascadeKLUCB(thali.Catalog(np.ones((20, 1))), 4)
    state = policy.init(1)
    for _ in range(600):
        lists = policy.recommend(state)
        assert lists[0].tolist() == list(transcribed.recommend())
        clicks = rng.random(4) < attraction[lists[0]]
        policy.update(state, lists, clicks[None])
        transcribed.update(lists[0].tolist(), clicks)


SIZES = st.sampled_from([0, 1, 2, 3, 100, 10**6, 10**12]) | st.integers(1, 60) | st.integers(5000, 10**7)
TIMES = st.sampled_from([1, 2, 3, 10**6]) | st.integers(1, 10**6)


@st.composite
def counts(draw):
    """(shown, clicked) of up to 30 items, and t. The pairs have few distinct values, or nearly the same index."""
    t = draw(TIMES)
    if draw(st.booleans()):
        level, items = draw(st.floats(0.001, 0.999)), []
        for n in draw(st.lists(SIZES, min_size=1, max_size=30)):
            above = bisect(range(n), level, key=lambda ones: scanned([n], [ones], t)[0])
            items.append((n, max(0, above - draw(st.integers(0, 1)))))
        return items, t
    pair = SIZES.flatmap(lambda n: st.tuples(st.just(n), st.sampled_from([0, n, n // 2, n // 100]) | st.integers(0, n)))
    few = draw(st.lists(pair, min_size=1, max_size=8))
    return draw(st.lists(st.sampled_from(few), min_size=1, max_size=30)), t


@given(case=counts(), later=st.integers(0, 2), K=st.integers(1, 30), some=st.sets(st.integers(0, 29)))
@example(case=([(0, 0)] * 20, 1), later=0, K=20, some={3})  # nothing known, all items
@example(case=([(7, 2)] * 20, 5), later=1, K=3, some={9, 2, 4, 5})  # all the same
@example(case=([(10, 10), (0, 0), (5000, 5000), (3, 3)], 1), later=0, K=3, some=set())  # all have index 1
@example(case=([(5000, 0), (7, 0), (10**6, 0)], 1), later=1, K=2, some={0, 1, 2})  # all have index 0
@example(case=([(2, 1), (10_000, 5000), (6, 3), (10_000, 5001)], 1), later=0, K=3, some={1, 2})  # index = share
@example(case=([(10**12, 5 * 10**11 + k) for k in (0, 1, 3, 2)], 10**6), later=0, K=1, some={0, 1})  # hardly different
@example(case=([(10**4, 50), (10**4, 50 + SLOTS), (10**4 + SLOTS, 50)] * 2, 9), later=0, K=3, some={0, 1})  # one slot
@example(case=([(3, 1)], 3), later=0, K=1, some={0})
def test_lists_equal_a_scan_of_all_indices(case, later, K, some):
    """Three users, two of them at the same t, choose from all items, from some, and from a separate set per user."""
    pairs, t = case
    L = len(pairs)
    K = min(K, L)
    policy = thali.CascadeKLUCB(thali.Catalog(np.ones((L, 1))), K)
    state = policy.init(3)
    state.shown[:], state.clicked[:] = (
        [[pair[k] for pair in turn] for turn in (pairs, pairs[::-1], pairs)] for k in (0, 1)
    )
    state.updates[:] = np.array([t, t, t + later]) - 1
    users = list(zip(state.shown, state.clicked, (t, t, t + later), strict=True))
    assert policy.recommend(state).tolist() == [plain(*user, K) for user in users]

    chosen = np.array(sorted({e for e in some if e < L} or {L - 1}))
    out = np.empty((3, min(K, chosen.size)), dtype=np.int64)
    kl_lists(state.shown, state.clicked, state.updates, out, chosen, np.array([0, chosen.size]))
    assert out.tolist() == [plain(*user, out.shape[1], chosen) for user in users]
    own = [chosen, np.arange(L), chosen]
    kl_lists(state.shown, state.clicked, state.updates, out, np.concatenate(own), np.cumsum([0, *map(len, own)]))
    assert out.tolist() == [plain(*user, out.shape[1], among) for user, among in zip(users, own, strict=True)]


@pytest.mark.parametrize("scale", [1, 10, 300, 10**4, 10**8, 10**12])
@pytest.mark.parametrize("K", [1, 12, 500])
def test_lists_with_more_distinct_counts_than_table_entries_equal_a_scan(scale, K):
    rng = np.random.default_rng([scale, K])
    users, L = 6, 3 * SLOTS
    shown = (scale * rng.exponential(size=(users, L))).astype(np.int64)
    clicked = rng.binomial(shown, rng.random((users, 1)) * rng.random((users, L)) ** 3)
    t = np.array([1, 2, 3, 1000, 1000, 10**6])
    out = np.empty((users, K), dtype=np.int64)
    kl_lists(shown, clicked, t - 1, out, EVERY, EVERY)
    assert out.tolist() == [plain(shown[u], clicked[u], int(t[u]), K) for u in range(users)]


def test_lists_of_people_at_different_times_equal_a_scan():
    rng = np.random.default_rng(8)
    users, L, K = 10, 60, 5
    attraction = rng.random((users, L)) ** 4
    policy = thali.CascadeKLUCB(thali.Catalog(np.ones((L, 1))), K)
    state = policy.init(users)
    for step in range(1500):
        active = np.flatnonzero(rng.random(users) < np.linspace(0.4, 1.0, users))
        if not active.size:
            continue
        part = state.take(active)
        lists = policy.recommend(part)
        if step % 10 == 0:
            assert lists.tolist() == [
                plain(state.shown[u], state.clicked[u], int(state.updates[u]) + 1, K) for u in active
            ]
        policy.update(part, lists, rng.random(lists.shape) < np.take_along_axis(attraction[active], lists, axis=1))
        state.put(active, part)


def test_too_few_candidates_leave_positions_empty():
    out = np.empty((1, 3), dtype=np.int64)
    zeros = np.zeros((1, 5), dtype=np.int64)
    kl_lists(zeros, zeros, zeros[0, :1], out, np.array([2, 4]), np.array([0, 2]))
    assert out.tolist() == [[2, 4, -1]]


@given(n=SIZES.filter(bool) | st.integers(1, 10**12), share=st.floats(0.0, 1.0), power=st.sampled_from([1, 9]), t=TIMES)
def test_index_has_the_stated_precision(n, share, power, t):
    ones = round(n * share**power)
    index = kl_index(ones / n, budget(t) / n)
    assert ones / n <= index <= 1.0
    if t == 1:
        assert index == ones / n  # no optimism
        return
    with localcontext() as context:
        context.prec = 50
        p, limit = Decimal(ones) / n, Decimal(budget(t)) / n

        def exceeds(q):
            kl = p * (p / q).ln() if p else Decimal(0)
            return kl + ((1 - p) * ((1 - p) / (1 - q)).ln() if p < 1 else 0) > limit

        below, above = (Decimal(index) * (1 + sign * Decimal(PRECISION) / 2) for sign in (-1, 1))
        assert below <= p or not exceeds(below)
        assert above >= 1 or exceeds(above)
