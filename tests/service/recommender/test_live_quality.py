"""The quality of items in a service: counted exactly once, refreshed in batches, the same in all processes."""

import json

import numpy as np
import pytest
from recommending import Clock, K, names, rated
from storing import transaction

import thali
from thali.service.recommender import Conflict, Recommender, Refused
from thali.service.recommender.live_catalog import MOST_TRIED, TRIAL
from thali.service.recommender.loading import LoadedCatalog
from thali.service.recommender.operations import AddPast, PutItem, UseCatalog
from thali.service.recommender.prior_learning import PriorDraw
from thali.service.stores import open_store
from thali.service.stores.transfer import backup, restore

L = 20


def recommender(url, **rest):
    catalog, quality = rated()
    return Recommender(thali.CascadeLSB(catalog, K=K, sigma=0.3, alpha=0.0), url, quality=quality, **rest)


def click(rec, user, rng):
    shown = rec.recommend(user, exclude=[f"film {e}" for e in rng.choice(L, 10, replace=False)])
    clicked = np.flatnonzero(rng.random(K) < 0.3).tolist()
    rec.feedback(shown.id, clicked)
    return shown, clicked


def counts(rec):
    with rec._lock, transaction(rec.store):
        return {item: rest for item, *rest in rec.store.quality() if any(rest)}


def examinations(counted):
    return sum(n for n, *_ in counted.values())


def test_the_quality_is_that_of_the_library_in_every_process_and_after_a_restart(store_url):
    rng = np.random.default_rng(0)
    catalog, counts = rated()
    policy, expected = thali.CascadeLSB(catalog, K=K, sigma=0.3, alpha=0.0), thali.RelativeQuality(counts)
    states = [policy.init(1) for _ in range(5)]
    with recommender(store_url) as rec, recommender(store_url) as other:
        for n in range(40):
            shown, clicked = click((rec, other)[n % 2], f"u{n % 5}", rng)
            clicks, lists = [np.isin(np.arange(K), clicked)], [[catalog.item(item) for item in names(shown)]]
            expected.add(lists, clicks, expected.expected(policy, states[n % 5], lists))
            policy.update(states[n % 5], lists, clicks)
            if n == 20:
                assert rec.refresh_quality()
                expected.refresh(catalog)
        weights = rec.catalog.dense.copy()
        rec.put_item("new", topics=["crime"])
        assert (weights == rec.catalog.dense[:L]).all()  # nothing changes before the refresh
        assert other.refresh_quality()
        assert expected.refresh(catalog_with_new(catalog), trial=TRIAL, most_tried=MOST_TRIED).tolist() == [L]
        for process in (rec, other):
            process.recommend("u0")  # reads what has changed
            assert (process.live.quality.examined == expected.examined).all()
            assert (process.live.quality.clicked == expected.clicked).all()
        assert (rec.catalog.dense == other.catalog.dense).all()
        assert (rec.catalog.dense_column("quality") == catalog.dense_column("quality")).all()
        assert not rec.refresh_quality()  # no new clicks
        other.put_item("newer", {"crime": 0.5, "quality": 0.123})
        assert rec.items(contains="newer").items[0].weights["quality"] == 0.123
        rec.recommend("u0")
        kept = rec.catalog.dense.copy()
    with recommender(store_url) as again:
        assert (again.catalog.dense == kept).all()
        item = again.perform([thali.service.recommender.operations.GetItem("film 3")])[0]
        assert item.quality.examined == expected.examined[3]
        assert item.quality.deviation == pytest.approx(expected.deviation[3])
        assert again.items(contains="film 3").items[0] == item


def catalog_with_new(catalog):
    catalog.put("new", topics=["crime"])
    return catalog


def test_undo_other_feedback_time_outs_and_forgetting_are_counted(store_url):
    clock, rng = Clock(), np.random.default_rng(1)
    with recommender(store_url, clock=clock, no_click_after=100.0) as rec:
        click(rec, "ana", rng)
        rec.refresh_quality()
        before = counts(rec)
        shown, _ = click(rec, "bob", rng)
        rec.refresh_quality()
        assert counts(rec) != before
        rec.undo(shown.id)
        rec.refresh_quality()
        assert counts(rec) == before
        late = rec.recommend("bob")  # the list whose feedback was undone times out as well
        clock.tick(1000.0)
        rec.tidy()
        rec.refresh_quality()
        assert examinations(counts(rec)) == examinations(before) + 2 * K
        rec.feedback(late.id, [0])  # replaces the time-out
        rec.refresh_quality()
        assert examinations(counts(rec)) == examinations(before) + K + 1
        rec.forget("bob")
        rec.refresh_quality()
        assert counts(rec) == before


def test_clicks_that_an_earlier_version_counted_change_no_quality_and_are_undone_exactly(tmp_path):
    """It did not keep the clicks to expect, so as many count as expected as there were."""
    rng = np.random.default_rng(2)
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        before = rec.catalog.dense_column("quality")
        shown = [click(rec, f"u{n % 3}", rng)[0] for n in range(10)]
        with rec._lock, transaction(rec.store):
            rec.store.execute("UPDATE impressions SET expected = NULL")
            for worker, seq, items in rec.store.execute("SELECT worker, seq, items FROM examinations"):
                old = (json.dumps(json.loads(items)[:2]), worker, seq)
                rec.store.execute("UPDATE examinations SET items = ? WHERE worker = ? AND seq = ?", old)
        rec.refresh_quality()
        with rec._lock, transaction(rec.store):
            rec.store.execute("UPDATE quality SET by_topics = NULL, care = NULL")
        rec.feedback(rec.recommend("u1").id, [])
        rec.refresh_quality()
        rec.recommend("u1")
        np.testing.assert_allclose(rec.catalog.dense_column("quality"), before, rtol=0.05)
        assert examinations(counts(rec)) > 10
        for one in shown:
            rec.undo(one.id)
        rec.refresh_quality()
        assert examinations(counts(rec)) == K


def test_all_learners_count_what_was_examined_by_the_same_rule(tmp_path):
    """LSBGreedy assumes that people look at all positions. The quality, which all learners share, does not."""
    for policy in (thali.CascadeLSB, thali.LSBGreedy):
        catalog, quality = rated()
        url = f"sqlite:///{tmp_path}/{policy.__name__}.db"
        with Recommender(policy(catalog, K=K, sigma=0.3), url, quality=quality) as rec:
            rec.feedback(rec.recommend("ana").id, [1])
            rec.refresh_quality()
            assert examinations(counts(rec)) == 2


def test_a_trial_begins_and_ends_in_time(tmp_path):
    catalog, quality = rated()
    with Recommender(thali.CascadeLSB(catalog, K=K, alpha=0.0), f"sqlite:///{tmp_path}/s.db", quality=quality) as rec:
        rec.put_item("new", topics=["crime"])
        for n in range(int(TRIAL)):
            rec.feedback(rec.recommend(f"u{n}", candidates=["film 1"]).id, [0])
            shown = rec.recommend(f"u{n}", candidates=["new"])
            assert rec.live.waits_for_refresh == (n == 0)  # at first, because the item can be tried
            rec.feedback(shown.id, [])
            if n == 0:
                rec.refresh_quality()  # from here on, the item is tried; it needs one examination less
        assert rec.live.waits_for_refresh
        rec.undo(shown.id)
        assert not rec.live.waits_for_refresh
        rec.feedback(shown.id, [])
        rec.refresh_quality()
        rec.recommend("v")
        assert not rec.live.waits_for_refresh
        assert rec.catalog.dense_column("quality")[L] < rec.catalog.dense_column("quality")[:L].mean()


def test_an_item_that_nobody_chose_is_new_if_it_is_added_again(tmp_path):
    """The file says that it is bad, because many people did not choose it. But they may not have had the chance to."""
    catalog, quality = rated()
    assert quality.clicked[0] == 0.0
    with Recommender(thali.CascadeLSB(catalog, K=K, alpha=0.0), f"sqlite:///{tmp_path}/s.db", quality=quality) as rec:
        for n in range(3):
            rec.feedback(rec.recommend("ana").id, [])
            rec.refresh_quality()
            rec.recommend("ana")
            column = rec.catalog.dense_column("quality")
            if n == 0:
                assert column[0] == column.min()
                rec.put_item("film 0", topics=["crime", "comedy"])
            if n == 1:
                assert column[0] == column.max()
                rec.remove_item("film 0")
                rec.put_item("film 0", topics=["crime", "comedy"])
        assert rec.catalog.item("film 0") == L
        assert column[L] == column.max()
        assert rec.live.quality.of(L)[0] < 60.0


def test_items_of_the_file_are_not_tried(tmp_path):
    """A log says little about many items. If they were tried, first lists would consist of them."""
    catalog, quality = rated()
    few = thali.Quality.from_counts(quality.examined / 100.0, quality.clicked / 100.0)
    with Recommender(thali.CascadeLSB(catalog, K=K, alpha=0.0), f"sqlite:///{tmp_path}/s.db", quality=few) as rec:
        rec.feedback(rec.recommend("ana").id, [])
        rec.refresh_quality()
        rec.recommend("ana")
        column = rec.catalog.dense_column("quality")
        assert (np.flatnonzero(column == column.max()) == [19]).all()


def test_clicks_on_items_that_are_shown_to_their_fans_do_not_make_them_popular(tmp_path):
    """Two groups like different topics. The quality of an item stays as it is if clicks are as expected."""
    rng = np.random.default_rng(0)
    weights = np.column_stack([np.repeat([[0.3, 0.0], [0.0, 0.3]], 10, axis=0), np.full(20, 0.1)])
    known = thali.Quality.from_counts(np.full(20, 1000.0), np.full(20, 100.0))
    prior = thali.Prior([0.4, 0.4, 0.25], np.diag([0.1, 0.1, 0.001]), sigma=0.3, optimism=0.0)
    catalog = thali.Catalog(weights, topics=["a", "b", "quality"], fading=[True, True, False])
    with Recommender(thali.CascadeLSB(catalog, K=K, prior=prior), f"sqlite:///{tmp_path}/s.db", quality=known) as rec:
        people = thali.DiverseCascade(catalog, [[0.7, 0.05, 0.25], [0.05, 0.7, 0.25]])
        for n in range(40):
            for person in (0, 1):
                for _ in range(10):
                    shown = rec.recommend(f"{person} {n}")
                    lists = np.tile([[catalog.item(item) for item in names(shown)]], (2, 1))
                    clicks = people.sample(lists, rng)[person]
                    rec.feedback(shown.id, np.flatnonzero(clicks).tolist())
        rec.refresh_quality()
        rec.recommend("x")
        examined, clicked, *_ = rec.live.quality.since
        assert clicked.sum() / examined.sum() > 0.15  # more than 0.1, because people see what they like
        assert (abs(rec.catalog.dense_column("quality") / 0.1 - 1.0) < 0.3).all()


def test_without_a_quality_nothing_is_counted(store_url):
    """Nor are the clicks counted later for lists that were shown without a quality."""
    catalog, quality = rated()
    with Recommender(thali.CascadeLSB(catalog, K=K, sigma=0.3), store_url) as rec:
        shown = [rec.recommend(user) for user in ("ana", "bob", "eve")]
        for one in shown[:2]:
            rec.feedback(one.id, [0])
        with rec._lock, transaction(rec.store):
            assert not rec.store.count_examinations(100)
        assert not rec.refresh_quality()
        rec.perform([UseCatalog(LoadedCatalog(catalog, None, quality), "x")])
        rec.undo(shown[0].id)
        rec.feedback(shown[2].id, [1])
        assert not rec.refresh_quality()
        assert counts(rec) == {}
        late = rec.recommend("ana")
        rec.feedback(late.id, [1])
        assert rec.refresh_quality()
        assert {item: rest[:2] for item, rest in counts(rec).items()} == {
            late.items[0].item: [1.0, 0.0],
            late.items[1].item: [1.0, 1.0],
        }


def test_a_new_item_with_topics_only_is_tried_and_finds_its_place(store_url):
    """A new item that everybody clicks is shown, and after some lists its quality is high."""
    catalog, quality = rated()
    prior = thali.Prior([0.05] * 4 + [0.9], np.eye(5) * 0.01, sigma=0.3, optimism=0.0)
    with Recommender(thali.CascadeLSB(catalog, K=K, prior=prior), store_url, quality=quality) as rec:
        rec.put_item("hit", topics=["crime", "comedy"])
        for n in range(80):
            shown = rec.recommend(f"u{n}")
            rec.feedback(shown.id, [k for k, item in enumerate(names(shown)) if item == "hit"])
            if n % 10 == 9:
                rec.refresh_quality()
        e = rec.catalog.item("hit")
        assert rec.live.quality.examined[e] > TRIAL / 2
        assert rec.live.quality.mean[e] > 1.3 * rec.live.quality.mean[:L].max()
        assert names(rec.recommend("new"))[0] == "hit"


def test_many_new_items_do_not_fill_the_lists(tmp_path):
    """Everybody likes good items. Of 100 new ones, two are tried at a time, so a list of three has room for another."""
    catalog, quality = rated(400)
    prior = thali.Prior([0.0] * 4 + [0.9], np.eye(5) * 0.01, sigma=0.3, optimism=0.0)
    with Recommender(thali.CascadeLSB(catalog, K=K, prior=prior), f"sqlite:///{tmp_path}/s.db", quality=quality) as rec:
        rec.put_items([PutItem(f"new {n}", topics=["crime"]) for n in range(100)])
        rec.feedback(rec.recommend("u").id, [])
        rec.refresh_quality()
        assert sorted(names(rec.recommend("v"))) == ["film 396", "new 98", "new 99"]
        column = rec.catalog.dense_column("quality")
        assert np.flatnonzero(column[400:] == column.max()).tolist() == [98, 99]


def test_weights_and_topics_without_the_quality_leave_it_as_it_is(store_url):
    _, quality = rated()
    with recommender(store_url) as rec:
        before = rec.live.weights("film 7")["quality"]
        assert rec.put_item("film 7", {"crime": 0.2}).weights == {"crime": 0.2, "quality": before}
        assert rec.put_item("new", {"crime": 0.2}).weights["quality"] == pytest.approx(quality.prior.mean)
        assert rec.put_item("film 8", {"quality": 0.5}).weights == {"quality": 0.5}
        kept = rec.live.weights("film 9")["quality"]
        assert rec.put_item("film 9", topics=["crime"]).weights["quality"] == kept
        rec.recommend("ana")
        assert rec.live.weights("film 7") == {"crime": 0.2, "quality": before}


def test_a_new_catalog_is_used_by_all_processes_and_keeps_what_was_learned(store_url):
    rng = np.random.default_rng(2)
    loads = []

    def load(path):
        loads.append(path)
        catalog, quality = rated(25)
        return LoadedCatalog(catalog, None, quality)

    with recommender(store_url) as rec, recommender(store_url) as other:
        other.in_use.load_catalog = load
        for n in range(10):
            click(rec, f"u{n % 3}", rng)
        rec.refresh_quality()
        old, new = rec.recommend("u0"), load("x")
        before = rec.export("u0")["learners"]["default"]
        rec.put_item("added", {"crime": 0.1})
        outcome = rec.perform([UseCatalog(new, "new.parquet")])[0]
        assert isinstance(outcome, Refused)
        assert "number of changes: 1" in str(outcome)
        assert names(rec.recommend("u0")) == names(old)
        assert rec.catalog.L == L + 1
        assert rec.perform([UseCatalog(new, "new.parquet", True)]) == [25]
        rec.feedback(old.id, [0])
        rec.undo(old.id)
        after = other.export("u0")["learners"]["default"]  # the other process follows
        assert loads == ["x", "new.parquet"]
        assert (other.catalog.L, rec.catalog.L) == (25, 25)
        assert (after.M, after.B) == (before.M, before.B)
        assert names(other.recommend("u0")) == names(rec.recommend("u0"))
        assert rec.live.quality.L == 25
        rec.put_items([PutItem("film 24", {"crime": 1.0}), PutItem("film 99", topics=["drama"])])
        assert other.items(contains="film 99").total == 1


def test_a_refused_catalog_with_other_topics_changes_nothing(store_url):
    catalog = rated()[0]
    other = thali.Catalog(catalog.dense, catalog.items, list("abcde"), fading=catalog.fading)
    with recommender(store_url) as rec:
        for _ in range(5):
            rec.feedback(rec.recommend("ana").id, [0])
        rec.put_item("added", {"crime": 0.1})
        before, shown = rec.export("ana")["learners"], rec.recommend("ana")
        outcome = rec.perform([UseCatalog(LoadedCatalog(other), "x")])[0]
        assert isinstance(outcome, Refused)
        assert rec.export("ana")["learners"] == before
        rec.feedback(shown.id, [1])
        rec.undo(shown.id)
        rec.put_item("added", {"crime": 0.2})
    with recommender(store_url) as again:
        after = again.export("ana")["learners"]["default"]
        assert (after.M, after.B) == (before["default"].M, before["default"].B)
        assert after.topics == list(catalog.topics)
        with again._lock, transaction(again.store):
            assert len(again.store.topic_sets()) == 1


@pytest.mark.parametrize("problem", ["missing", "changed"])
def test_a_process_that_cannot_load_a_new_catalog_goes_on_with_the_old_one(store_url, problem):
    loads, problems = [], []

    def load(path):
        loads.append(path)
        if problem == "missing":
            raise FileNotFoundError(f"found nothing at {path}")
        return LoadedCatalog(rated(23)[0])

    with recommender(store_url) as old:
        old.in_use.load_catalog, old.in_use.on_problem = load, problems.append
        shown = old.recommend("ana")
        policy = thali.CascadeLSB(rated(25)[0], K=K, sigma=0.3)
        with Recommender(policy, store_url, catalog_path="/far/new.parquet") as new:
            for _ in range(3):
                assert names(old.recommend("ana"))
            old.feedback(shown.id, [0])
            assert new.export("ana")["learners"]["default"].updates == 1
        assert old.catalog.L == L
        assert loads == ["/far/new.parquet"]  # tried once
        assert len(problems) == 1
        assert "goes on with the old one" in problems[0]
        assert old.perform([UseCatalog(LoadedCatalog(rated(25)[0]), "/here/new.parquet")]) == [25]
        assert old.catalog.L == 25


def test_a_process_that_loads_a_catalog_while_another_one_is_put_into_use_follows_the_latest(store_url):
    """Loading takes time. The old catalog must not come back after that, in this or in other processes."""
    files = {"one": rated(22), "two": rated(24)}

    def load(path):
        catalog, quality = files[path]
        return LoadedCatalog(catalog, None, quality)

    with recommender(store_url) as first, recommender(store_url) as slow, recommender(store_url) as third:
        loads = []

        def load_slowly(path):
            loads.append(path)
            if len(loads) == 1:
                first.perform([UseCatalog(load("two"), "two")], whole=True)
            return load(path)

        for one, way in ((first, load), (slow, load_slowly), (third, load)):
            one.in_use.load_catalog = way
        slow.recommend("ana")
        first.perform([UseCatalog(load("one"), "one")], whole=True)
        if not slow.store.shared:  # with SQLite, only one process can use the store at a time
            loads.append("none")
        for _ in range(2):
            for rec in (slow, third, first):
                rec.feedback(rec.recommend("ana").id, [0])
        expected = 24 if slow.store.shared else 22
        assert [rec.catalog.L for rec in (first, slow, third)] == [expected] * 3
        with first._lock, transaction(first.store):
            assert first.store.heading().epoch == (3 if slow.store.shared else 2)


def test_another_prior_and_other_counts_in_a_file_with_the_same_catalog_reach_all_processes(store_url):
    catalog, quality = rated()
    priors = [thali.Prior(np.full(5, mean), np.eye(5) * 0.1, catalog.topics) for mean in (0.1, 0.9)]
    more = thali.Quality.from_counts(quality.examined * 2, quality.clicked * 2)
    files = {"old": (priors[0], quality), "new": (priors[1], more)}

    def load(path):
        prior, counts = files[path]
        return LoadedCatalog(rated()[0], prior, counts)

    def served(path):
        loaded = load(path)
        policy = thali.CascadeLSB(loaded.catalog, K=K, prior=loaded.prior)
        rec = Recommender(
            *(policy, store_url),
            quality=loaded.quality,
            catalog_path=path,
            start_digest=loaded.start_digest,
            learn_prior=True,
        )
        rec.in_use.load_catalog = load
        return rec

    with served("old") as rec, served("old") as other:
        for user in ("ana", "bob"):
            rec.feedback(rec.recommend(user).id, [0])
        rec.put_item("added", {"crime": 0.1})
        draw = PriorDraw(other, "default")
        draw.read(other.store)
        learned_before = draw.learn()
        rec.perform([UseCatalog(load("new"), "new")], whole=True)
        for one in (rec, other):
            assert one.prior()["default"].topics[0].mean == 0.9
            assert one.items(contains="added").total == 1  # changes of items stay
            assert one.live.quality.examined[5] == 120
        with pytest.raises(Conflict, match="catalog file must stay the same while a prior is learned"):
            other.perform([learned_before], whole=True)
        assert other.learn_prior().source == "learned"


def test_a_catalog_that_does_not_fit_changes_nothing(store_url):
    with recommender(store_url) as rec:
        before = names(rec.recommend("ana"))
        wrong = thali.Catalog([[0.5]], items=[("a", "tuple")])
        outcome = rec.perform([UseCatalog(LoadedCatalog(wrong), "x")])[0]
        assert isinstance(outcome, Refused)
        assert names(rec.recommend("ana")) == before
        rec.feedback(rec.recommend("ana").id, [0])
    with recommender(store_url) as again:
        assert again.export("ana")["learners"]["default"].updates == 1


def test_a_failed_commit_of_a_new_catalog_leaves_the_old_one(store_url, monkeypatch):
    with recommender(store_url) as rec:
        before = names(rec.recommend("ana"))
        commit = rec.store.commit

        def fail():
            raise thali.service.stores.StoreError("no")

        monkeypatch.setattr(rec.store, "commit", fail)
        with pytest.raises(thali.service.stores.StoreError):
            rec.perform([UseCatalog(LoadedCatalog(*rated(25)[:1]), "x")])
        monkeypatch.setattr(rec.store, "commit", commit)
        assert names(rec.recommend("ana")) == before
        assert rec.catalog.L == L


def test_a_number_and_its_text_are_counted_together(store_url):
    catalog = thali.Catalog(np.full((4, 2), 0.5), ["5", "6", "7", "8"], ["crime", "quality"], fading=[True, False])
    quality = thali.Quality(4)
    with Recommender(thali.CascadeLSB(catalog, K=2), store_url, quality=quality) as rec:
        rec.perform([AddPast("ana", [5], [0]), AddPast("bob", ["5", 6], [1]), AddPast("bob", ["5"], [])], whole=True)
        rec.refresh_quality()
        assert {item: rest[:2] for item, rest in counts(rec).items()} == {"5": [3.0, 1.0], "6": [1.0, 1.0]}


def test_removed_items_are_not_tried_in_place_of_others(store_url):
    with recommender(store_url) as rec:
        for name in ("older", "old", "new", "newer"):
            rec.put_item(name, topics=["crime"])
        for _ in range(2):
            click(rec, "ana", np.random.default_rng(0))
            rec.refresh_quality()
            rec.recommend("ana")
            for name in ("new", "newer"):
                if rec.live.find(name) is not None:
                    rec.remove_item(name)
        best = rec.catalog.dense_column("quality").max()
        assert [rec.live.weights(name)["quality"] for name in ("older", "old")] == [best, best]


def test_an_item_that_was_removed_and_added_again_keeps_its_counts(store_url, tmp_path):
    """Both those of the catalog file and those of the service; also if a restored backup brings the item back."""
    rng = np.random.default_rng(3)
    with recommender(store_url) as rec:
        for n in range(40):
            click(rec, f"u{n}", rng)
        refreshed(rec, rng)
        before = max(rec.items().items, key=lambda item: item.quality.examined)
        assert before.quality.examined > 60.0  # those of the file, and some more
        with open_store(store_url) as store:
            backup(store, tmp_path / "b.backup")
        rec.remove_item(before.item)
        rec.put_item(before.item, {name: weight for name, weight in before.weights.items() if name != "quality"})
        refreshed(rec, rng)
        after = next(item.quality for item in rec.items().items if item.item == before.item)
        assert after.examined >= before.quality.examined
        assert after.clicked >= before.quality.clicked
        with open_store(store_url) as store:
            restore(tmp_path / "b.backup", store, replace=True)
        assert before in rec.items().items
        refreshed(rec, rng)
        with recommender(store_url) as again:
            mine, others = ({item.item: item for item in one.items().items} for one in (rec, again))
            assert mine == others


def refreshed(rec, rng):
    click(rec, "somebody", rng)
    assert rec.refresh_quality()
    rec.recommend("somebody")  # reads the new quality
