"""Changes of topics, learners, items and the store of a recommender; and invalid requests."""

import math
import sqlite3
import threading
import time

import numpy as np
import pytest
from recommending import (
    SIGMA,
    TOPICS,
    K,
    assert_same,
    everything,
    films,
    learned,
    names,
    recommender,
    weights,
)
from storing import transaction

import thali
from thali.lists.greedy import build as greedy
from thali.service.recommender import Recommender, Refused, Unknown
from thali.service.recommender.operations import (
    Feedback,
    GetImpression,
    GetItem,
    PutItem,
    Recommend,
    RemoveItem,
    id_bytes,
)
from thali.service.stores import StoreError, open_store
from thali.service.stores.records import UnusableRecord
from thali_client import types
from thali_client.types import Item


@pytest.fixture
def rec(store_url):
    with recommender(store_url) as rec:
        yield rec


# Topics


def over(topics):
    """Return the films with other topics. Topics that they do not have get weight 0."""
    all_of_them = dict(zip(TOPICS, weights().T, strict=True))
    columns = [all_of_them.get(topic, np.zeros(20)) for topic in topics]
    return thali.Catalog(np.stack(columns, axis=1), items=[f"film {e}" for e in range(20)], topics=topics)


def moved(before, then, now):
    """Move statistics to other topics, entry by entry. New topics are blank."""
    updates, M, B = before
    new_M, new_B = np.eye(len(now)), np.zeros(len(now))
    for i, row in enumerate(now):
        if row in then:
            new_B[i] = B[then.index(row)]
            for j, column in enumerate(now):
                if column in then:
                    new_M[i, j] = M[then.index(row), then.index(column)]
    return updates, new_M, new_B


def test_statistics_are_moved_to_other_topics_by_name(store_url):
    with recommender(store_url, over(TOPICS)) as rec:
        for at in range(5):
            rec.feedback(rec.recommend("ana").id, [at % K])
        late = [rec.recommend("ana") for _ in range(2)]
        before = learned(rec, "ana")
    changed = ["jazz", "drama", "crime", "music"]  # one added, one dropped, the others in another order
    with recommender(store_url, over(changed)) as rec:
        after = moved(before, TOPICS, changed)
        assert_same(learned(rec, "ana"), after)
        assert [taste.topic for taste in rec.user("ana").learners["default"].taste] == changed
        # The impression has its original topics, but feedback is learned over the current topics.
        assert rec.impression(late[0].id).items == late[0].items
        rec.feedback(late[0].id, [1])
        M, B = after[1].copy(), after[2].copy()
        for item in late[0].items[:2]:
            x = np.array([item.gains.get(topic, 0.0) for topic in changed])
            M, B = M + SIGMA**-2 * np.outer(x, x), B + x * (item.position == 1)
        assert_same(learned(rec, "ana"), (6, M, B), rtol=1e-12)
        rec.undo(late[0].id)
        assert_same(learned(rec, "ana"), after)
    with recommender(store_url, over(TOPICS)) as rec:  # comedy is back, but what was known about it is not
        back = moved(after, changed, TOPICS)
        assert_same(learned(rec, "ana"), back)
        rec.feedback(late[1].id, [])
        comedy, M = TOPICS.index("comedy"), learned(rec, "ana")[1]
        assert np.array_equal(M[comedy], np.eye(4)[comedy])
        rec.undo(late[1].id)
        assert_same(learned(rec, "ana"), back)


# Learners


def test_users_are_assigned_permanently_by_name_and_in_proportion_to_the_shares(store_url):
    catalog = films()
    policies = {name: thali.CascadeLSB(catalog, K=K, alpha=alpha) for alpha, name in enumerate("abc")}
    shares = {"a": 5, "b": 3, "c": 2}
    with Recommender(policies, store_url, shares=shares) as rec:
        got = [rec.find_learner(f"user {u}", None).name for u in range(10_000)]
        for name, share in shares.items():
            expected = share / 10 * len(got)
            assert abs(got.count(name) - expected) < 4 * math.sqrt(expected * (1 - share / 10))
        assert [rec.recommend(f"user {u}").learner for u in range(8)] == got[:8] == list("bcabacbc")
        assert [rec.stats().learners[name].share for name in "abc"] == [0.5, 0.3, 0.2]


def test_statistics_are_kept_for_each_learner(store_url):
    catalog = films()
    policies = {"lsb": thali.CascadeLSB(catalog, K=K), "greedy": thali.LSBGreedy(catalog, K=K)}
    with Recommender(policies, store_url) as rec:
        shown = rec.recommend("ana", learner="greedy")
        assert shown.learner == "greedy"
        rec.feedback(shown.id, [0])
        assert [learned(rec, "ana", name)[0] for name in policies] == [0, 1]
        assert rec.recommend("ana", learner="lsb").items[0].belief == 0.0
        other = rec.recommend("ana", learner="lsb", alpha=0.0, K=1)
        assert (len(other.items), other.items[0].exploration) == (1, 0.0)
        rec.feedback(other.id, [])
        assert {name: taste.updates for name, taste in rec.user("ana").learners.items()} == {"greedy": 1, "lsb": 1}
        stats = rec.stats().learners
        assert [(stats[name].impressions, stats[name].clicked) for name in policies] == [(2, 0), (1, 1)]


def test_a_learner_must_keep_its_settings_and_a_retired_one_still_learns(store_url):
    with recommender(store_url) as rec:
        ids = [rec.recommend("ana").id for _ in range(3)]
        rec.feedback(ids[0], [1])
    with pytest.raises(
        ValueError, match=r"learner 'default' must have the settings that the store has.*first-click.*new name"
    ):
        Recommender(thali.CascadeLSB(films(), K=K, sigma=SIGMA, examined="last-click"), store_url)
    with recommender(store_url) as rec:
        rec.feedback(ids[1], [0, 2])
        expected = learned(rec, "ana")
        rec.undo(ids[1])
    with Recommender(thali.CascadeLSB(films(), K=5, sigma=SIGMA, alpha=1.0), store_url) as rec:
        assert len(rec.recommend("ana").items) == 5  # statistics do not depend on K and α
    with Recommender({"new": thali.LSBGreedy(films(), K=K)}, store_url) as rec:
        rec.feedback(ids[1], [0, 2])
        assert_same(learned(rec, "ana"), expected)
        with pytest.raises(Refused, match="learner must be one of new, got 'default'"):
            rec.recommend("ana", learner="default")
        assert list(rec.stats().learners) == ["new"]


def test_a_prior_can_be_added_to_a_store_and_taken_away_again(store_url):
    tastes = np.random.default_rng(3).dirichlet(np.ones(len(TOPICS)), 30)
    prior = thali.Prior.from_preferences(tastes, topics=TOPICS)
    with recommender(store_url) as rec:
        for clicked in ([0], [], [1]):
            rec.feedback(rec.recommend("ana").id, clicked)
        before, stored = rec.user("ana"), learned(rec, "ana")
    with Recommender(thali.CascadeLSB(films(), K=K, prior=prior), store_url) as rec:
        best = thali.greedy_lists(films(), prior.mean[None], K)[0]
        assert names(rec.recommend("bob")) == [f"film {e}" for e in best]  # nothing is known about bob but the prior
        S, P = (stored[1] - np.eye(len(TOPICS))) * SIGMA**2, prior.precision
        inverse = np.linalg.inv(P + S / 0.3**2)
        estimate = inverse @ (P @ prior.mean + stored[2] / 0.3**2)
        taste = rec.user("ana").learners["default"].taste
        np.testing.assert_allclose([one.estimate for one in taste], estimate, rtol=1e-9)
        high = estimate + 1.96 * np.sqrt(np.diagonal(inverse))
        np.testing.assert_allclose([one.high for one in taste], high, rtol=1e-9)
        assert_same(learned(rec, "ana"), stored)
    with recommender(store_url) as rec:
        assert rec.user("ana") == before


def test_a_store_with_another_sigma_is_read_and_keeps_its_own(store_url):
    """The new σ decides, as in the library. Statistics stay those of the old σ, also after feedback and undo."""
    with recommender(store_url) as rec:
        ids = [rec.recommend("ana").id for _ in range(4)]
        for id in ids[:2]:
            rec.feedback(id, [1])
        before = learned(rec, "ana")
    with Recommender(thali.CascadeLSB(films(), K=K, sigma=0.5), store_url) as rec:
        policy = thali.CascadeLSB(films(), K=K, sigma=0.5)
        state = policy.init(1)
        state.M[0] = np.eye(policy.catalog.d) + (SIGMA / 0.5) ** 2 * (before[1] - np.eye(policy.catalog.d))
        state.B[0] = before[2]
        assert names(rec.recommend("ana")) == [f"film {e}" for e in policy.recommend(state)[0]]
        taste = {one.topic: one.estimate for one in rec.user("ana").learners["default"].taste}
        np.testing.assert_allclose(list(taste.values()), policy.estimate(state)[0], rtol=1e-12)
        for id in ids[2:]:
            rec.feedback(id, [0])
        rec.undo(ids[3])
        after = learned(rec, "ana")
    with recommender(store_url) as rec:
        assert_same(learned(rec, "ana"), after)
        rec.undo(ids[2])
        assert_same(learned(rec, "ana"), before)


def test_feedback_for_a_learner_that_another_process_has_added_is_learned(store_url):
    with recommender(store_url) as old, Recommender({"new": thali.LSBGreedy(films(), K=K)}, store_url) as new:
        shown = new.recommend("ana")
        old.feedback(shown.id, [1])
        assert learned(new, "ana", "new")[0] == 1
        assert learned(old, "ana", "new")[0] == old.user("ana").learners["new"].updates == 1


class Mine(thali.CascadeLSB):
    """A policy with its own way of learning, which a recommender would not use."""

    def learn(self, state, lists, clicks, gains):
        super().learn(state, lists, clicks, gains**2)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda c: thali.CascadeKLUCB(c, K), "must be a policy of the linear family"),
        (lambda c: thali.CascadeLSB(c, K, explore="sampling"), "must explore by optimism"),
        (lambda c: thali.POLICIES["EpsilonGreedy"](c, K), "must explore by optimism"),
        (lambda c: thali.CascadeLSB(c, K, discount=0.9), "must not forget"),
        (lambda c: thali.CascadeLSB(c, K, window=10), "must not forget"),
        (lambda c: thali.POLICIES["C3UCB"](c, K), "must give all positions the same weight"),
        (lambda c: thali.POLICIES["MMR"](c, K), "must build its lists greedily"),
        (lambda c: thali.CascadeLSB(c, K, build=lambda *a, **b: greedy(*a, **b)), "must build its lists greedily"),
        (lambda c: Mine(c, K), "must be one of thali's own policies"),
    ],
)
def test_policies_that_cannot_be_served_are_rejected(tmp_path, make, rule):
    with pytest.raises((TypeError, ValueError), match=f"policy 'it' of Recommender {rule}"):
        Recommender({"it": make(films())}, f"sqlite:///{tmp_path / 'taste.db'}")
    assert not list(tmp_path.iterdir())


# Items


def test_item_changes_are_permanent_and_affect_the_next_list_of_every_recommender(store_url):
    with recommender(store_url) as rec, recommender(store_url) as other:
        for one in (rec, other):
            one.feedback(one.recommend("ana").id, [0])
        before = learned(rec, "ana")
        assert rec.put_item("new", dict.fromkeys(TOPICS, 1.0)).weights == dict.fromkeys(TOPICS, 1.0)
        for one in (rec, other):
            assert names(one.recommend("ana"))[0] == "new"
            assert one.items(contains="NEW").items[0].weights == dict.fromkeys(TOPICS, 1.0)
        other.put_item("film 3", {"crime": 0.25, "music": 0.0})
        assert rec.items(contains="film 3").items[0].weights == {"crime": 0.25}
        other.remove_item("new")
        for one in (rec, other):
            assert "new" not in names(one.recommend("ana", K=20))
            with pytest.raises(Unknown, match="'new'"):
                one.remove_item("new")
            with pytest.raises(Refused, match=r"candidates\[1\] must be an item in the catalog, got 'new'"):
                one.recommend("ana", candidates=["film 1", "new"])
        rec.put_item("kept", {"drama": 1.0})
        assert_same(learned(other, "ana"), before)  # statistics are unchanged
        expected = rec.recommend("ana").items
    with recommender(store_url) as rec:
        assert rec.recommend("ana").items == expected
        assert rec.items().total == 21
        assert {item.item: item.weights for item in rec.items().items}["film 3"] == {"crime": 0.25}


def test_topics_without_names_can_have_weights(store_url):
    with recommender(store_url, thali.Catalog(weights())) as rec:
        rec.put_item("new", {0: 1.0, 3: 0.5})
        assert names(rec.recommend("ana", candidates=["new", 0, 1, 2]))[0] == "new"
        rec.put_item(20, {1: 1.0})
        rec.remove_item(3)
    with recommender(store_url, thali.Catalog(weights())) as rec:
        assert rec.items(contains="new").items[0].weights == {0: 1.0, 3: 0.5}
        shown = rec.recommend("ana", K=21)
        assert set(names(shown)) == {*range(21), "new"} - {3}
        assert rec.impression(shown.id).items == shown.items


def test_another_catalog_replaces_one_with_changed_items_only_with_new_catalog(store_url):
    with recommender(store_url, films(20)) as rec:
        rec.feedback(rec.recommend("ana").id, [0])
        before = learned(rec, "ana")
    with recommender(store_url, films(25)) as rec:  # no items were changed
        assert rec.items().total == 25
        assert_same(learned(rec, "ana"), before)
        rec.put_item("new", {"drama": 1.0})
    with pytest.raises(
        ValueError, match=r"would be lost \(number of changes: 1\)\. To discard them, use --new-catalog"
    ):
        recommender(store_url, films(30))
    with recommender(store_url, films(25)) as rec:
        assert rec.items(contains="new").total == 1
    with recommender(store_url, films(30), new_catalog=True) as rec:
        assert (rec.items().total, rec.items(contains="new").total) == (30, 0)
        assert_same(learned(rec, "ana"), before)


def test_lists_are_chosen_from_candidates_and_without_exclusions(rec):
    some = [f"film {e}" for e in (7, 2, 11, 5)]
    assert set(names(rec.recommend("ana", candidates=some))) < set(some)
    assert set(names(rec.recommend("ana", candidates=some, exclude=["film 2"]))) == set(some) - {"film 2"}
    usual = names(rec.recommend("ana"))
    assert not set(names(rec.recommend("ana", exclude=usual))) & set(usual)
    assert names(rec.recommend("ana", exclude=["never there"])) == usual
    assert rec.user("ana").impressions == 5


@pytest.mark.parametrize("text", [True, False])
def test_a_whole_number_and_its_text_are_the_same_name_of_an_item(tmp_path, text):
    """The catalog has one form of the names, and requests use the other."""
    own, other = (str, int) if text else (int, str)

    def catalog():
        return thali.Catalog(weights(), items=[own(e) for e in range(20)], topics=TOPICS)

    with recommender(f"sqlite:///{tmp_path}/taste.db", catalog()) as rec:
        usual = names(rec.recommend("ana"))
        assert all(type(name) is own for name in usual)
        assert not set(names(rec.recommend("ana", exclude=list(map(other, usual))))) & set(usual)
        assert names(rec.recommend("ana", candidates=[other(usual[0])])) == usual[:1]
        assert rec.put_item(other(1), {"drama": 0.25}) == Item(own(1), {"drama": 0.25})
        assert rec.items(contains="1", limit=1).items == [Item(own(1), {"drama": 0.25})]
        assert rec.items().total == 20
        added, got, removed, gone = rec.perform(
            [PutItem(77, {"drama": 0.5}), GetItem("77"), RemoveItem(other(77)), GetItem(77)]
        )
        assert (added.weights, got.weights, removed.weights) == ({"drama": 0.5},) * 3
        assert isinstance(gone, Unknown)
        before = rec.live.weights(own(2))
        assert rec.remove_item(other(2)) == Item(own(2), before)
        assert rec.items().total == 19
        rec.put_item(other(2), {"music": 1.0})
        assert rec.items().total == 20
    with recommender(f"sqlite:///{tmp_path}/taste.db", catalog()) as rec:
        assert {str(item.item): item.weights for item in rec.items().items}["1"] == {"drama": 0.25}
        assert rec.items().total == 20


# The store


def test_a_stopped_postgresql_is_an_error_and_is_used_again_when_it_is_back(postgres):
    with recommender(postgres.fresh()) as rec:
        first, second = rec.recommend("ana"), rec.recommend("ana")
        rec.feedback(first.id, [0])
        before = learned(rec, "ana")
        postgres.stop()
        try:
            for ask in (lambda: rec.recommend("ana"), lambda: rec.feedback(second.id, [1]), rec.stats, rec.tidy):
                with pytest.raises(StoreError, match="cannot be used"):
                    ask()
        finally:
            postgres.start()
        assert_same(learned(rec, "ana"), before)
        rec.feedback(second.id, [1])
        assert learned(rec, "ana")[0] == 2
        assert rec.user("ana").impressions == 2


def test_a_locked_sqlite_file_is_waited_for(tmp_path):
    path = tmp_path / "taste.db"
    with recommender(f"sqlite:///{path}") as rec:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.3, other.rollback)
        began = time.monotonic()
        release.start()
        rec.feedback(rec.recommend("ana").id, [0])
        assert time.monotonic() - began >= 0.3
        release.join()
        other.close()
        assert learned(rec, "ana")[0] == 1


def test_a_store_that_was_replaced_by_one_of_another_catalog_is_not_used(store_url):
    """This happens if the backup of another store is restored. Every call fails, not only the first."""
    with recommender(store_url) as rec:
        rec.recommend("ana")
        other = open_store(store_url)
        with transaction(other):
            other.set_meta("id", "another")
            other.add_catalog(2, "of other items")
        other.close()
        for _ in range(3):
            with pytest.raises(StoreError, match="replaced by data of another catalog"):
                rec.recommend("ana")


# Invalid requests

HUGE, NAN = 10**400, math.nan
ALL = [f"film {e}" for e in range(20)]
ASKS = (
    lambda r, u: r.user(u),
    lambda r, u: r.forget(u),
    lambda r, u: r.export(u),
    lambda r, u: r.history(u),
)
HOSTILE = {
    "user": [
        *(lambda r, u=u: r.recommend(u) for u in (5, None, "", True, b"ana", ["ana"], "a\0b", "a/b", "..", "\ud800")),
        *(lambda r, u=u: r.recommend(u, learner="default") for u in (5, ["ana"], "a\0b", "\ud800", "x" * 257)),
        *(lambda r, u=u, ask=ask: ask(r, u) for u in (5, ["ana"], "a\0b") for ask in ASKS),
    ],
    "K": [lambda r, v=v: r.recommend("ana", K=v) for v in (0, -1, 101, True, 2.0, NAN, "3", HUGE, [1])],
    "alpha": [lambda r, v=v: r.recommend("ana", alpha=v) for v in (-1.0, NAN, math.inf, True, "1", HUGE, [1.0], 1e7)],
    "learner": [lambda r, v=v: r.recommend("ana", learner=v) for v in ("other", 5, ["default"], {}, "", True)],
    "candidates": [lambda r, v=v: r.recommend("ana", candidates=v) for v in ("film 1", 5, {"film 1"}, [])],
    "candidates[0]": [
        lambda r, v=v: r.recommend("ana", candidates=[v]) for v in (5, None, True, NAN, ["film 1"], HUGE)
    ],
    "exclude": [lambda r, v=v: r.recommend("ana", exclude=v) for v in ("film 1", 5, 20 * ["x"] + ALL)],
    "exclude[1]": [
        lambda r, v=v: r.recommend("ana", exclude=["film 1", v]) for v in (None, True, NAN, 1.0, ["film 1"], b"film 1")
    ],
    "clicked": [lambda r, v=v: r.feedback(r.open, v) for v in (None, 1, "1", {1}, [1, 1])],
    "clicked[0]": [lambda r, v=v: r.feedback(r.open, [v]) for v in (-1, K, True, 1.0, NAN, "1", None, HUGE)],
    "impression": [
        lambda r, v=v, ask=ask: ask(r, v)
        for v in (None, 5, "", "ana", "x" * 36, b"x" * 16, True)
        for ask in (lambda r, v: r.feedback(v, []), lambda r, v: r.undo(v), lambda r, v: r.impression(v))
    ],
    "before": [lambda r, v=v: r.history("ana", before=v) for v in (5, "ana", "")],
    "limit": [
        *(lambda r, v=v: r.history("ana", limit=v) for v in (0, 1001, True, "5", NAN, HUGE)),
        *(lambda r, v=v: r.items(limit=v) for v in (0, 1001, True, "5", NAN, HUGE)),
        *(lambda r, v=v: r.tidy(v) for v in (0, True, "5", NAN, HUGE)),
    ],
    "offset": [lambda r, v=v: r.items(offset=v) for v in (-1, True, "5", NAN)],
    "contains": [lambda r, v=v: r.items(contains=v) for v in (5, None, b"film", ["film"], NAN)],
    "hours": [lambda r, v=v: r.stats(v) for v in (0, 10_000, True, "5", NAN, HUGE)],
    "item": [
        *(lambda r, v=v: r.put_item(v, {"drama": 0.5}) for v in (None, ["a"], ("a",), NAN, 1.5, True, HUGE)),
        *(lambda r, v=v: r.put_item(v, {"drama": 0.5}) for v in ("", "a\nb", "x" * 257, b"a")),
        *(lambda r, v=v: r.remove_item(v) for v in (None, ["a"], ("a",), NAN, True)),
    ],
    "weights": [lambda r, v=v: r.put_item("new", v) for v in (None, 5, [0.5], "drama", {"jazz": 0.5}, {None: 0.5})],
    "weights.drama": [
        lambda r, v=v: r.put_item("new", {"drama": v}) for v in (-0.1, 1.1, NAN, math.inf, True, "1", None, HUGE, [1])
    ],
}


@pytest.mark.parametrize("field", HOSTILE)
def test_an_invalid_field_is_named_and_nothing_changes(rec, field):
    rec.feedback(rec.recommend("ana").id, [1])
    rec.open = rec.recommend("ana").id
    kept = everything(rec.store)
    for number, ask in enumerate(HOSTILE[field]):
        with pytest.raises(Refused) as refusal:
            ask(rec)
        assert refusal.value.field == field, number
        assert str(refusal.value).startswith(f"{field} must "), number
        assert len(str(refusal.value)) < 500, number
    assert everything(rec.store) == kept
    rec.feedback(rec.open, [0])
    assert learned(rec, "ana")[0] == 2


def test_an_invalid_operation_does_not_affect_others_in_its_transaction(rec):
    ids = [id_bytes(rec.recommend("ana").id) for _ in range(2)]
    outcomes = rec.perform(
        [
            Feedback(ids[0], [0]),
            Recommend(["ana"], learner="default"),
            Recommend("a\0b", learner="default"),
            Recommend("ana", learner=["default"]),
            PutItem(("a", "b"), {"drama": 1.0}),
            Feedback(ids[1], [99]),
            Recommend("bob"),
        ]
    )
    assert [getattr(outcome, "field", None) for outcome in outcomes] == [
        *(None, "user", "user", "learner", "item", "clicked[0]", None)
    ]
    assert outcomes[0].clicked == [0]
    assert len(outcomes[-1].items) == K
    assert (learned(rec, "ana")[0], rec.user("bob").impressions) == (1, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": 0.0}, "keep of Recommender"),
        ({"keep": NAN}, "keep of Recommender"),
        ({"no_click_after": -1.0}, "no_click_after of Recommender"),
        ({"keep": 10.0, "no_click_after": 11.0}, "no_click_after of Recommender"),
        ({"cache": -1}, "cache of Recommender"),
        ({"most_K": True}, "most_K of Recommender"),
        ({"shares": {"other": 1.0}}, "shares of Recommender"),
        ({"shares": {"default": 0.0}}, "shares of Recommender"),
        ({"shares": {"default": NAN}}, "share of default"),
        ({"catalog": thali.Catalog(weights(2), items=[("a", 1), ("b", 2)])}, "items of Recommender's catalog"),
        ({"catalog": thali.Catalog(weights(3), items=["a", "1", 1])}, "items of Recommender's catalog"),
        ({"catalog": thali.Catalog(weights(2, 2), topics=[1, "1"])}, "topics of Recommender's catalog"),
    ],
)
def test_invalid_settings_are_rejected_before_a_store_is_created(tmp_path, settings, message):
    catalog = settings.pop("catalog", films())
    with pytest.raises((TypeError, ValueError), match=f"^{message} must"):
        Recommender(thali.CascadeLSB(catalog, K=1), f"sqlite:///{tmp_path / 'taste.db'}", **settings)
    assert not list(tmp_path.iterdir())


def test_a_process_with_the_old_catalog_serves_all_users_except_those_it_cannot_read(store_url):
    with recommender(store_url) as old:
        shown = old.recommend("bob")
        with recommender(store_url, films(topics=[*TOPICS, "opera"])) as new:
            new.feedback(new.recommend("ana").id, [0])
            late = new.recommend("carl").id
            outcomes = old.perform([Recommend("ana"), Recommend("bob"), GetImpression(id_bytes(late))])
            assert [type(outcome) for outcome in outcomes] == [UnusableRecord, types.Shown, UnusableRecord]
            assert old.feedback(shown.id, [1]).clicked == [1]
            assert new.user("bob").learners["default"].updates == 1
            with pytest.raises(UnusableRecord, match="another process has replaced the catalog"):
                old.put_item("lost", {"crime": 0.1})
            with pytest.raises(UnusableRecord, match="another process has replaced the catalog"):
                old.remove_item("film 1")


@pytest.mark.slow
def test_changes_that_are_committed_while_a_process_reads_them_are_applied_once(postgres, monkeypatch):
    """A transaction of PostgreSQL sees in its second statement what was committed after the first."""
    url = postgres.fresh()
    with recommender(url) as rec, recommender(url) as other:
        rec.recommend("ana")
        other.put_item("new", {"crime": 0.5})
        versions = rec.store.versions

        def meanwhile():
            found = versions()
            monkeypatch.setattr(rec.store, "versions", versions)
            other.remove_item("new")
            other.put_item("new", {"crime": 0.5})
            other.put_item("newer", {"crime": 0.5})
            return found

        monkeypatch.setattr(rec.store, "versions", meanwhile)
        for _ in range(2):
            rec.recommend("ana")
        other.recommend("ana")
        assert rec.catalog.L == other.catalog.L
        for item in ("new", "newer"):
            assert rec.catalog.find(item) == other.catalog.find(item)


def test_a_change_is_seen_even_if_its_commit_is_interrupted_after_it_succeeded(store_url, monkeypatch):
    with recommender(store_url) as rec:
        commit = rec.store.commit

        def interrupted():
            commit()
            monkeypatch.setattr(rec.store, "commit", commit)
            raise KeyboardInterrupt

        monkeypatch.setattr(rec.store, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rec.remove_item("film 0")
        assert rec.items(contains="film 0").total == 0


def test_somebody_with_a_damaged_impression_can_be_forgotten(store_url):
    with recommender(store_url) as rec:
        for clicked in ([0], [1]):
            rec.feedback(rec.recommend("ana").id, clicked)
        with rec._lock, transaction(rec.store):
            rec.store.execute("UPDATE impressions SET items = 'damaged' WHERE clicked = '[0]'")
        assert rec.forget("ana").impressions == 2
        with pytest.raises(Unknown):
            rec.user("ana")
