"""The recommender, with both kinds of store: feedback is learned exactly once, in any order, and can be undone."""

import threading
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recommending import (
    SIGMA,
    Clock,
    K,
    assert_same,
    everything,
    films,
    learned,
    names,
    recommender,
    weights,
)
from reference import PlainLinear
from storing import all_at_once, transaction

import thali
from thali.service.recommender import Conflict, Recommender, Refused, Unknown
from thali.service.recommender import transaction as batches
from thali.service.recommender.handlers.upkeep import LAG_S
from thali.service.recommender.operations import Feedback, TimeOut, id_bytes
from thali.tools.randomness import streams

DAY = 86_400.0
fresh = count()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rec(store_url, clock):
    with recommender(store_url, clock=clock) as rec:
        yield rec


@pytest.fixture
def twins(store_url, clock):
    """A recommender with two equal learners, so that one can be compared with the other."""
    catalog = films()
    policies = {name: thali.CascadeLSB(catalog, K=K, sigma=SIGMA) for name in ("one", "twin")}
    with Recommender(policies, store_url, clock=clock, no_click_after=60.0, keep=DAY) as rec:
        yield rec


def show(rec, user, learner, n):
    """Return the ids of n different lists that are shown to a new user. They are the same lists each time."""
    return [rec.recommend(user, learner=learner, exclude=[f"film {e}"]).id for e in range(n)]


# What is learned


@pytest.mark.parametrize(
    ("policy", "coverage"),
    [(thali.CascadeLSB, "probabilistic"), (thali.LSBGreedy, "max"), (thali.CascadeLinUCB, "probabilistic")],
)
def test_a_person_gets_the_same_lists_as_from_simulate_across_a_restart(store_url, policy, coverage):
    steps = 60
    model = thali.DiverseCascade(films(coverage=coverage), [[0.5, 0.1, 0.2, 0.1]])
    run = thali.simulate(
        policy(films(coverage=coverage), K=K, sigma=SIGMA), model, steps, seed=5, points=range(1, steps + 1)
    )
    draws = streams(5, "luck", [0])[0].random((steps, K))
    lists = []
    for part in (range(25), range(25, steps)):
        with recommender(store_url, films(coverage=coverage), policy=policy) as rec:
            for step in part:
                shown = rec.recommend("ana")
                lists.append([rec.catalog.item(name) for name in names(shown)])
                clicks = model.respond([lists[-1]], draws[step][None])[0]
                rec.feedback(shown.id, np.flatnonzero(clicks))
            end = learned(rec, "ana")
    assert lists == run.lists[0].tolist()
    assert len({tuple(shown) for shown in lists}) > 3
    assert run.clicks[0, -1] > 3
    assert_same(end, (steps, run.state.M[0], run.state.B[0]))


def test_feedback_in_any_order_from_several_threads_and_recommenders_is_learned_once(store_url):
    rng = np.random.default_rng(2)
    recs = [recommender(store_url) for _ in range(3)]
    try:
        users, given = ["ana", "bob", "cy"], []
        for user in users:
            for _ in range(10):
                shown = recs[0].recommend(user, exclude=[f"film {e}" for e in rng.choice(20, 12, replace=False)])
                clicked = rng.choice(K, rng.integers(K + 1), replace=False).tolist()
                given.append((user, shown.id, names(shown), clicked))
        jobs = [given[i] for i in rng.permutation(len(given))] + [given[i] for i in rng.permutation(len(given))]

        def work(rec, part):
            return [(id, rec.feedback(id, clicked).clicked) for _, id, _, clicked in part]

        answers = all_at_once(
            [lambda rec=recs[i % 3], part=jobs[i::6]: work(rec, part) for i in range(6)]  # two threads per recommender
        )
        recorded = {id: sorted(clicked) for _, id, _, clicked in given}
        assert sum(map(len, answers)) == len(jobs)
        assert all(recorded[id] == clicked for part in answers for id, clicked in part)
        for rec in recs:
            for user in users:
                plain = PlainLinear(weights(), K, sigma=SIGMA, alpha=1.0)
                for whose, _, items, clicked in given:
                    if whose == user:
                        indices = [rec.catalog.item(name) for name in items]
                        plain.update(indices, [k in clicked for k in range(K)])
                assert_same(learned(rec, user), (10, plain.M, plain.B), rtol=1e-10)
                assert (rec.user(user).impressions, rec.user(user).answered) == (10, 10)
            stats = rec.stats().learners["default"]
            hits = sum(bool(clicked) for *_, clicked in given)
            assert (stats.users, stats.impressions, stats.answered, stats.clicked) == (3, 30, 30, hits)
    finally:
        for rec in recs:
            rec.close()


def test_feedback_is_learned_with_the_gains_as_shown_even_if_items_have_changed(rec):
    plain = PlainLinear(weights(), K, sigma=SIGMA, alpha=1.0)
    ids = show(rec, "ana", None, 3)
    for id in ids:
        plain.update([rec.catalog.item(name) for name in names(rec.impression(id))], [False, True, False])
    changed, removed, *_ = names(rec.impression(ids[0]))
    rec.put_item(changed, {"music": 1.0})
    rec.remove_item(removed)
    before = rec.impression(ids[0])
    for id in ids:
        rec.feedback(id, [1])
    assert_same(learned(rec, "ana"), (3, plain.M, plain.B), rtol=1e-12)
    assert names(rec.impression(ids[0])) == names(before)
    assert rec.impression(ids[0]).items == before.items
    rec.undo(ids[1])
    rec.feedback(ids[1], [1])
    assert_same(learned(rec, "ana"), (3, plain.M, plain.B), rtol=1e-12)


def test_a_list_that_is_longer_than_the_remaining_catalog_is_still_learned(store_url):
    with recommender(store_url, films(4)) as rec:
        ids = [rec.recommend("ana").id for _ in range(2)]
        for name in ("film 0", "film 1", "film 2"):
            rec.remove_item(name)
        rec.feedback(ids[0], [2])
        rec.feedback(ids[1], [])
        rec.undo(ids[0])
        assert learned(rec, "ana")[0] == 1
        assert names(rec.recommend("ana")) == ["film 3"]


# Exactly once


def test_the_same_feedback_again_returns_the_same_answer_and_different_feedback_is_a_conflict(rec):
    id = rec.recommend("ana").id
    answer = rec.feedback(id, [2, 0])
    assert (answer.clicked, answer.answer) == ([0, 2], "feedback")
    kept = everything(rec.store)
    assert rec.feedback(id, [0, 2]) == answer
    for other in ([], [1], [0], [0, 1, 2]):
        with pytest.raises(
            Conflict, match=r"clicked must be \[0, 2\], as already recorded .* got .* undo the recorded"
        ):
            rec.feedback(id, other)
    assert everything(rec.store) == kept
    assert learned(rec, "ana")[0] == 1


def test_unknown_expired_and_forgotten_impressions_are_unknown(store_url, clock):
    with recommender(store_url, clock=clock, keep=100.0) as rec:
        old, answered, gone = rec.recommend("ana").id, rec.recommend("ana").id, rec.recommend("bob").id
        rec.feedback(answered, [0])
        rec.feedback(gone, [0])
        assert rec.forget("bob").impressions == 1
        clock.tick(99.9)
        assert rec.impression(old).answer is None
        clock.tick(0.2)
        kept = everything(rec.store)
        for id in (old, answered, gone, "01890a5d-ac96-774b-bcce-b302099a8057"):
            for ask in (rec.undo, rec.impression, lambda id: rec.feedback(id, [0])):
                with pytest.raises(Unknown, match=id):
                    ask(id)
        assert everything(rec.store) == kept
        for ask in (rec.user, rec.forget, rec.export):
            with pytest.raises(Unknown, match="'bob'"):
                ask("bob")
        mine = learned(rec, "ana")
        assert rec.tidy().pruned == 2
        assert (rec.user("ana").impressions, mine[0]) == (0, 1)
        assert_same(learned(rec, "ana"), mine)


def test_a_forgotten_user_starts_from_scratch(rec):
    first = rec.recommend("ana")
    rec.feedback(first.id, [0])
    assert names(rec.recommend("ana")) != names(first)
    rec.forget("ana")
    again = rec.recommend("ana")
    assert again.items == first.items
    rec.feedback(again.id, [0])
    assert learned(rec, "ana")[0] == 1
    assert rec.stats().learners["default"].users == 1


# Undo


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.sets(st.integers(0, K - 1))), min_size=1, max_size=12))
def test_undone_feedback_leaves_no_trace(twins, steps):
    """Learner "one" gets feedback and undoes some of it. "twin" gets only the remaining feedback, in the same order."""
    user = f"user {next(fresh)}"
    mine, theirs = show(twins, user, "one", 4), show(twins, user, "twin", 4)
    stays: dict[int, list[int]] = {}
    for which, clicked in steps:
        if clicked is None:
            stays.pop(which, None)
            assert twins.undo(mine[which]).clicked is None
        elif which not in stays:
            stays[which] = sorted(clicked)
            twins.feedback(mine[which], sorted(clicked))
    for which, clicked in stays.items():
        twins.feedback(theirs[which], clicked)
    assert_same(learned(twins, user, "one"), learned(twins, user, "twin"))
    for one, other in zip(mine, theirs, strict=True):
        assert twins.impression(one).clicked == twins.impression(other).clicked
    one, other = (twins.stats().learners[name] for name in ("one", "twin"))
    assert replace(one, users=0, calibration=[]) == replace(other, users=0, calibration=[])
    for a, b in zip(one.calibration, other.calibration, strict=True):
        assert replace(a, predicted=0.0) == replace(b, predicted=0.0)
        assert a.predicted == pytest.approx(b.predicted, abs=1e-9)


def test_undo_without_feedback_does_nothing(rec):
    id = rec.recommend("ana").id
    kept = everything(rec.store)
    answer = rec.undo(id)
    assert (answer.impression, answer.clicked, answer.answer) == (id, None, None)
    assert everything(rec.store) == kept


@pytest.mark.parametrize("why", ["pruned", "many"])
def test_undo_by_subtraction_is_exact_up_to_rounding(twins, clock, monkeypatch, why):
    if why == "many":
        monkeypatch.setattr(batches, "RELEARN", 2)
    early, theirs = show(twins, "ana", "one", 2), show(twins, "ana", "twin", 2)
    clock.tick(0.9 * DAY)
    late = [twins.recommend("ana", learner="one", exclude=[f"film {e}"]).id for e in (5, 6)]
    for id, clicked in zip((late[0], *early, late[1]), ([2], [0], [1], []), strict=True):
        twins.feedback(id, clicked)
    for id, clicked in zip(theirs, ([0], [1]), strict=True):
        twins.feedback(id, clicked)
    if why == "pruned":
        clock.tick(0.2 * DAY)
        assert twins.tidy().pruned == 4
    assert learned(twins, "ana", "one")[0] == 4
    for id in late:
        twins.undo(id)
    assert learned(twins, "ana", "twin")[0] == 2
    assert_same(learned(twins, "ana", "one"), learned(twins, "ana", "twin"), rtol=1e-12)
    twins.feedback(late[0], [2])
    assert learned(twins, "ana", "one")[0] == 3


# Time-outs


def test_without_feedback_nothing_is_learned_by_default(rec, clock):
    rec.recommend("ana")
    clock.tick(20 * DAY)
    assert (rec.tidy().timed_out, rec.user("ana").answered, learned(rec, "ana")[0]) == (0, 0, 0)


def test_a_time_out_counts_once_as_no_click_and_later_feedback_corrects_it(twins, clock):
    mine, theirs = show(twins, "ana", "one", 3), show(twins, "ana", "twin", 3)
    twins.feedback(theirs[0], [1])
    twins.feedback(theirs[1], [])
    twins.feedback(theirs[2], [2])
    clock.tick(59.0)
    assert twins.tidy().timed_out == 0
    clock.tick(2.0 + LAG_S)
    assert twins.tidy(limit=2).timed_out == 2
    assert [twins.tidy(limit=2).timed_out for _ in range(3)] == [1, 0, 0]
    assert [(seen.clicked, seen.answer) for seen in map(twins.impression, mine)] == [([], "time-out")] * 3
    assert learned(twins, "ana", "one")[0] == 3
    assert np.all(learned(twins, "ana", "one")[2] == 0.0)
    for id, clicked in zip(mine, ([1], [], [2]), strict=True):
        answer = twins.feedback(id, clicked)
        assert (answer.clicked, answer.answer) == (clicked, "feedback")
    assert_same(learned(twins, "ana", "one"), learned(twins, "ana", "twin"))
    with pytest.raises(Conflict):
        twins.feedback(mine[1], [0])
    stats = twins.stats().learners
    assert (stats["one"].answered, stats["one"].clicked) == (stats["twin"].answered, stats["twin"].clicked) == (3, 2)


def test_a_time_out_that_was_undone_stays_undone(twins, clock):
    mine = []
    for _ in range(3):
        clock.tick()  # so that their order is known
        mine += show(twins, "ana", "one", 1)
    clock.tick(61.0 + LAG_S)
    assert twins.tidy(limit=2).timed_out == 2
    twins.undo(mine[1])  # the next tidying begins after this one
    assert twins.tidy().timed_out == 1
    twins.undo(mine[0])
    clock.tick(61.0 + LAG_S)
    assert twins.tidy().timed_out == 0
    assert [seen.answer for seen in map(twins.impression, mine)] == [None, None, "time-out"]
    assert learned(twins, "ana", "one")[0] == 1


def test_a_second_time_out_changes_nothing(twins, clock):
    """Two processes may time out the same impression."""
    time_out = Feedback(id_bytes(show(twins, "ana", "one", 1)[0]), (), "time-out")
    twins.perform([time_out])
    kept = everything(twins.store)
    clock.tick()
    twins.perform([time_out])
    assert everything(twins.store) == kept


def test_an_impression_times_out_even_if_it_has_already_expired(twins, clock):
    show(twins, "ana", "one", 2)
    theirs = show(twins, "ana", "twin", 2)
    for id in theirs:
        twins.feedback(id, [])
    clock.tick(2 * DAY)
    tidied = twins.tidy()
    assert (tidied.timed_out, tidied.pruned) == (2, 4)
    assert_same(learned(twins, "ana", "one"), learned(twins, "ana", "twin"))


def test_feedback_and_tidying_in_one_transaction_are_both_learned(twins, clock):
    """The service performs simultaneous requests in one transaction."""
    mine, theirs = show(twins, "ana", "one", 4), show(twins, "ana", "twin", 4)
    for at, clicked in enumerate(([0], [1], [2], [])):
        twins.feedback(theirs[at], clicked)
    twins.feedback(mine[0], [0])  # so that the taste is cached
    clock.tick(61.0 + LAG_S)
    feedback = [Feedback(id_bytes(mine[1]), [1]), Feedback(id_bytes(mine[2]), [2])]
    assert twins.perform([*feedback, TimeOut(100)])[-1] == 1
    assert_same(learned(twins, "ana", "one"), learned(twins, "ana", "twin"))


# Size


def test_the_stored_statistics_of_a_user_have_a_fixed_size(store_url):
    sizes = set()
    with recommender(store_url, films(200)) as rec:
        for n in (1, 10):
            for _ in range(n):
                rec.feedback(rec.recommend("ana").id, [1])
            with transaction(rec.store, write=False):
                sizes |= {len(bytes(row[0])) for row in rec.store.execute("SELECT numbers FROM statistics")}
    assert sizes == {4 * 4 * (4 + 3)}


def test_the_cache_of_tastes_is_limited_and_does_not_change_results(store_url, tmp_path):
    users = [f"user {u}" for u in range(8)]
    ends = []
    with recommender(store_url, cache=0) as small, recommender(f"sqlite:///{tmp_path / 'other.db'}") as large:
        for rec in (small, large):
            shown = [rec.recommend(user) for _ in range(3) for user in users]
            for at, one in enumerate(shown):
                rec.feedback(one.id, [at % K])
            shown += [rec.recommend(user) for user in users]
            ends.append(([learned(rec, user) for user in users], [one.items for one in shown]))
        assert len(small.tastes) <= 1
        assert len(large.tastes) == len(users)
    assert ends[0][1] == ends[1][1]
    for one, other in zip(ends[0][0], ends[1][0], strict=True):
        assert_same(one, other)


def test_threads_may_recommend_learn_and_change_items_at_once(rec):
    stop = threading.Event()

    def changing():
        for turn in range(15):
            rec.put_item(f"new {turn % 3}", {"music": 0.1 * (turn % 5)})
            if turn % 3 == 2:
                rec.remove_item(f"new {turn % 3}")
        stop.set()

    def living(user):
        n = 0
        while not stop.is_set() or n < 5:
            shown = rec.recommend(user)
            assert len(set(names(shown))) == K
            rec.feedback(shown.id, [n % K])
            n += 1
        return n

    _, *lived = all_at_once([changing, *(lambda user=user: living(user) for user in ("ana", "bob"))])
    assert [learned(rec, user)[0] for user in ("ana", "bob")] == lived


def test_feedback_that_would_make_the_statistics_wrong_is_refused(tmp_path):
    """A user with more feedback than the precision of M allows. Others go on learning."""
    with recommender(f"sqlite:///{tmp_path}/taste.db") as rec:
        rec.feedback(rec.recommend("ana").id, [0])
        shown = {user: rec.recommend(user) for user in ("ana", "bob")}
        state = rec.tastes.get(("ana", "default")).state
        state.M[0, 0, 0] = 1e17
        before = learned(rec, "ana"), everything(rec.store)
        with pytest.raises(Refused, match="impression must not be learned from: sigma of .* must be larger"):
            rec.feedback(shown["ana"].id, [1])
        assert_same(learned(rec, "ana"), before[0], rtol=0)
        assert everything(rec.store) == before[1]
        rec.feedback(shown["bob"].id, [1])
        assert learned(rec, "bob")[0] == 1
