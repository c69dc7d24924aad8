"""What users are not shown again: the same as in the library, in the store, and undone with the feedback."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recommending import Clock, K, films, names

import thali
from thali.service.recommender import Recommender, Refused
from thali.service.recommender.loading import LoadedCatalog
from thali.service.recommender.operations import AddHistory, UseCatalog
from thali.service.recommender.seen import MOST_ITEMS, HideRule, ItemNumbers, SeenLists, item_hashes
from thali.service.recommender.tastes import OVERHEAD_BYTES
from thali.service.stores import open_store
from thali.service.stores.records import UnusableRecord
from thali.service.stores.transfer import export_learned, import_learned

RULES = {
    "clicked": thali.Hide(clicked=True),
    "examined": thali.Hide(examined=True),
    "examined:2": thali.Hide(examined=2),
    "clicked:3, examined:1": thali.Hide(clicked=3, examined=1),
    "fading:2": thali.Hide(fatigue=2.0),
    "clicked,fading:1.5": thali.Hide(clicked=True, fatigue=1.5),
}


def recommender(url, hide="clicked", L=20, **rest):
    policy = thali.CascadeLSB(films(L), K=K, prior=thali.Prior([0.4, 0.3, 0.2, 0.1], np.eye(4) * 0.1))
    return Recommender(policy, url, hide=hide, **rest)


@pytest.mark.parametrize("text", RULES)
def test_the_lists_are_those_of_the_library_after_a_restart_too(store_url, text):
    catalog = films()
    policy = thali.CascadeLSB(catalog, K=K, prior=thali.Prior([0.4, 0.3, 0.2, 0.1], np.eye(4) * 0.1))
    state, seen, rng = policy.init(1), thali.Seen(RULES[text], users=1, L=catalog.L), np.random.default_rng(0)
    for _ in range(2):
        with recommender(store_url, text) as rec:
            for _ in range(8):  # in the end, fewer than K items are left
                expected = policy.recommend(state, exclude=seen.excluded(K, catalog.present))
                shown = rec.recommend("ana")
                assert names(shown) == [catalog.items[e] for e in expected[0]]
                clicks = rng.random((1, K)) < 0.3
                rec.feedback(shown.id, np.flatnonzero(clicks[0]).tolist())
                policy.update(state, expected, clicks)
                seen.record(expected, clicks)


@pytest.mark.parametrize("text", RULES)
def test_items_return_in_the_same_order_as_in_the_library_if_there_are_few(tmp_path, text):
    """Also those that were clicked once and not again: they are not always the ones that return."""
    catalog = films(5)
    policy = thali.CascadeLSB(catalog, K=K, prior=thali.Prior([0.4, 0.3, 0.2, 0.1], np.eye(4) * 0.1))
    state, seen, rng = policy.init(1), thali.Seen(RULES[text], users=1, L=catalog.L), np.random.default_rng(0)
    with recommender(f"sqlite:///{tmp_path}/s.db", text, L=5) as rec:
        for n in range(30):
            expected = policy.recommend(state, exclude=seen.excluded(K, catalog.present))
            shown = rec.recommend("ana")
            assert names(shown) == [catalog.items[e] for e in expected[0]]
            clicks = rng.random((1, K)) < (0.5 if n < 8 else 0.1)
            rec.feedback(shown.id, np.flatnonzero(clicks[0]).tolist())
            policy.update(state, expected, clicks)
            seen.record(expected, clicks)


def test_undo_forgetting_and_other_rules(store_url):
    with recommender(store_url, "examined") as rec:
        first = rec.recommend("ana")
        rec.feedback(first.id, [1])
        second = rec.recommend("ana")
        assert not {*names(first)[:2]} & {*names(second)}
        rec.feedback(second.id, [])
        third = names(rec.recommend("ana"))
        rec.undo(first.id)
        shown = names(rec.recommend("ana"))
        assert not {*shown} & {*names(second)}
        assert {*shown} & {*names(first)[:2]}
        assert shown != third
        assert names(rec.recommend("ana", hide="clicked")) == names(rec.recommend("ana", hide="nothing"))
        everything = [f"film {e}" for e in range(20)]
        rest = [item for item in everything if item not in names(second)]
        assert {*names(rec.recommend("ana", candidates=names(second)))} == {*names(second)}  # too few are left
        assert not {*names(rec.recommend("ana", exclude=rest[:-1]))} - {rest[-1], *names(second)}
        rec.forget("ana")
        assert names(rec.recommend("ana")) == names(first)


def test_undo_shows_an_item_again_after_an_import_has_replaced_what_was_learned(store_url, tmp_path):
    with recommender(store_url, "clicked") as rec:
        shown, other = rec.recommend("ana"), rec.recommend("ana")
        rec.feedback(shown.id, [0])
        rec.feedback(other.id, [1])
        with open_store(store_url) as store:
            export_learned(store, tmp_path / "people.jsonl")
            import_learned(tmp_path / "people.jsonl", store, replace=True)
        assert not {names(shown)[0], names(other)[1]} & {*names(rec.recommend("ana"))}
        rec.undo(shown.id)
        again = rec.export("ana")["learners"]["default"].seen
        assert [one.items for one in again if any(one.clicked)] == [[names(shown)[0], names(other)[1]]]
        assert names(shown)[0] in names(rec.recommend("ana"))  # in the other list it was not clicked
        rec.feedback(shown.id, [2])
        again = rec.export("ana")["learners"]["default"].seen
        clicked = [one.items[k] for one in again for k in np.flatnonzero(one.clicked)]
        assert clicked == [names(other)[1], names(shown)[2]]


def test_late_feedback_replaces_what_a_time_out_has_hidden(store_url):
    clock = Clock()
    with recommender(store_url, "examined", no_click_after=10.0, clock=clock) as rec:
        shown = rec.recommend("ana")
        clock.tick(1000.0)
        rec.tidy()
        assert not {*names(shown)} & {*names(rec.recommend("ana"))}
        rec.feedback(shown.id, [0])
        assert names(shown)[0] not in names(rec.recommend("ana"))
        assert names(shown)[1] in names(rec.recommend("ana"))


def test_days_pass(store_url):
    clock = Clock()
    with recommender(store_url, "examined:2d", clock=clock) as rec:
        shown = rec.recommend("ana")
        rec.feedback(shown.id, [K - 1])
        clock.tick(1.9 * 86_400)
        assert not {*names(shown)} & {*names(rec.recommend("ana"))}
        clock.tick(0.2 * 86_400)
        assert {*names(shown)} & {*names(rec.recommend("ana"))}


def test_items_stay_hidden_under_a_new_catalog_and_those_of_a_history_are_hidden(store_url):
    with recommender(store_url) as rec:
        shown = rec.recommend("ana")
        rec.feedback(shown.id, [0])
        liked = names(shown)[1]
        rec.perform([AddHistory("ana", "ratings", np.zeros((4, 4)), np.zeros(4), [liked], "x")], whole=True)
        assert not {names(shown)[0], liked} & {*names(rec.recommend("ana"))}
        old = films()
        turned = thali.Catalog(old.dense[::-1], items=list(old.items)[::-1], topics=old.topics)
        prior = rec.learners["default"].start.prior
        assert rec.perform([UseCatalog(LoadedCatalog(turned, prior), "x")]) == [20]
        assert not {names(shown)[0], liked} & {*names(rec.recommend("ana"))}
        rec.remove_history("ana", "ratings")
        assert liked in names(rec.recommend("ana"))
        rec.remove_item(names(shown)[0])
        rec.put_item(names(shown)[0], {"crime": 1.0})  # the same name is the same item
        assert names(shown)[0] not in names(rec.recommend("ana"))


lists = st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=5, unique=True), st.integers(0, 31)), max_size=12)


@given(lists, st.integers(0, 11))
@settings(max_examples=60, deadline=None)
def test_without_a_list_is_as_if_it_had_never_been_seen(shown, which):
    """Against recording the other lists only; and the form in the store is exact."""
    seen = others = SeenLists.empty()
    for n, (items, bits) in enumerate(shown):
        hits = np.array([bits >> k & 1 for k in range(len(items))], dtype=np.bool_)
        one = (100 + n, float(n), item_hashes(items), hits)
        seen = seen.with_list(*one)
        others = others if n == which else others.with_list(*one)
    without = seen.without(100 + which)
    assert without.to_store() == others.to_store()
    assert SeenLists.from_store(seen.to_store()).to_store() == seen.to_store()
    for text in ("clicked", "examined:3", "fading:2", "examined:4d"):
        for a, b in zip(HideRule.read(text).hidden(without, 5.0), HideRule.read(text).hidden(others, 5.0), strict=True):
            assert a.tolist() == b.tolist()


def test_memory_is_bounded_and_clicked_items_are_kept_longest():
    seen = SeenLists.empty()
    for n in range(400):
        hits = np.array([True, False, False, False, False])
        seen = seen.with_list(n, float(n), item_hashes(range(5 * n, 5 * n + 5)), hits)
    assert seen.items.size == MOST_ITEMS
    assert seen.clicked.sum() == 400
    assert len(seen.to_store()) <= 16 + 35 * 1000
    for n in range(2000):
        seen = seen.with_list(n, float(n), item_hashes([f"x{n}"]), np.array([True]))
    assert (seen.items.size, seen.sizes.size, seen.now) == (1000, 1000, 2400)


def test_damaged_records_and_bad_rules_are_refused(store_url):
    for damaged in (
        b"",
        b"123",
        SeenLists.empty().with_list(1, 0.0, item_hashes([1]), np.array([True])).to_store()[:-4],
    ):
        with pytest.raises(UnusableRecord, match="damaged"):
            SeenLists.from_store(damaged)
    with recommender(store_url) as rec:
        for bad in (
            "",
            "x",
            "clicked:",
            "clicked:0",
            "examined:-1d",
            "examined:1.5",
            "fading",
            "clicked,clicked",
            5,
            "nothing:1",
        ):
            with pytest.raises(Refused, match="^hide must"):
                rec.recommend("ana", hide=bad)
    with pytest.raises(Refused, match="hide of Recommender must be a rule"):
        recommender(store_url, "everything")


def test_the_cache_counts_what_people_have_seen(tmp_path):
    """Each of these people has seen 20 items, which take more memory than their statistics."""
    with recommender(f"sqlite:///{tmp_path}/s.db", hide="examined", cache=100_000) as rec:
        for n in range(60):
            for _ in range(5):
                rec.feedback(rec.recommend(f"u{n}", K=4).id, [])
        cached = [taste for n in range(60) if (taste := rec.tastes.get((f"u{n}", "default"))) is not None]
        each = cached[0].seen.size
        assert each == 5 * 32 + 20 * 9
        own = 8 * (2 * 4 * 4 + 2 * 4 + 2) + OVERHEAD_BYTES
        assert len(rec.tastes) == 100_000 // (own + each) < 100_000 // own < 60
        for n in range(60):
            rec.forget(f"u{n}")
        assert len(rec.tastes) == rec.tastes._used == 0


@pytest.mark.parametrize(
    ("own", "asked", "message"),
    [
        ("nothing", "clicked", "hide must be 'nothing', because .* its own rule 'nothing' .*, got 'clicked'"),
        ("nothing", "fading:5", "hide must be 'nothing', because"),
        ("clicked", "examined", "hide must be 'nothing' or a rule about clicked items, because .* 'clicked' .*, got"),
        ("clicked:3", "clicked,examined:2", "hide must be 'nothing' or a rule about clicked items"),
    ],
)
def test_a_request_that_needs_more_than_what_is_recorded_is_refused(tmp_path, own, asked, message):
    with recommender(f"sqlite:///{tmp_path}/s.db", hide=own) as rec:
        with pytest.raises(Refused, match=message):
            rec.recommend("ana", hide=asked)
        rec.recommend("ana", hide=own)
        rec.recommend("ana", hide="nothing")
    with recommender(f"sqlite:///{tmp_path}/t.db", hide="examined:1") as rec:
        rec.recommend("ana", hide="clicked, fading:2")


def test_a_history_is_hidden_by_a_rule_that_comes_later(store_url):
    liked = [f"film {e}" for e in range(12)]
    with recommender(store_url, hide="nothing") as rec:
        rec.perform([AddHistory("ana", "likes", np.eye(4), np.ones(4), liked, "digest")], whole=True)
        rec.feedback(rec.recommend("ana").id, [0])
    with recommender(store_url, hide="clicked") as rec:
        for _ in range(3):
            shown = rec.recommend("ana")
            assert not set(names(shown)) & set(liked)
            rec.feedback(shown.id, [])


def test_examined_items_are_hidden_from_somebody_who_has_clicked_very_often(tmp_path):
    with recommender(f"sqlite:///{tmp_path}/s.db", hide="examined", L=1500) as rec:
        clicked = [f"film {e}" for e in range(1200)]
        rec.perform([AddHistory("ana", "likes", np.eye(4), np.ones(4), clicked, "digest")], whole=True)
        shown = set()
        for _ in range(60):  # 180 items
            found = rec.recommend("ana")
            assert not shown & set(names(found))
            shown |= set(names(found))
            rec.feedback(found.id, [])
        assert rec.tastes.get(("ana", "default")).seen.items.size == MOST_ITEMS


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["put", "remove", "find"]), max_size=30), st.integers(0, 2**31))
def test_items_are_found_by_their_hashes_while_the_catalog_changes(steps, seed):
    rng = np.random.default_rng(seed)
    catalog = films()
    found, every = ItemNumbers(catalog), [*catalog.items, *(f"new {n}" for n in range(5))]
    for step in [*steps, "find"]:
        name = every[rng.integers(len(every))]
        if step == "put":
            catalog.put(name, rng.random(catalog.d))
        elif step == "remove" and catalog.find(name) is not None:
            catalog.remove(name)
        elif step == "find":
            expected = [-1 if catalog.find(one) is None else catalog.find(one) for one in every]
            assert found.find(item_hashes(every)).tolist() == expected
