"""A new catalog is put into use while something else happens: no confirmed change is lost, and nothing breaks."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from recommending import K, films, names, rated
from storing import transaction
from typer.testing import CliRunner

import thali
from thali.cli.app import app
from thali.service.recommender import Recommender, Refused
from thali.service.recommender.handlers.items import usual_weights
from thali.service.recommender.loading import LoadedCatalog
from thali.service.recommender.operations import AddPast, PutItem, PutItems, SetMeta, UseCatalog
from thali.service.stores import StoreError, open_store
from thali.service.stores.records import UnusableRecord
from thali.service.stores.transfer import backup, restore

L = 20


def recommender(url, **rest):
    catalog, quality = rated()
    rec = Recommender(thali.CascadeLSB(catalog, K=K, sigma=0.3, alpha=0.0), url, quality=quality, **rest)
    rec.in_use.load_catalog = lambda path: larger()
    return rec


def larger():
    catalog, quality = rated(25)
    return LoadedCatalog(catalog, None, quality)


@contextmanager
def paused_before_commit(rec, monkeypatch):
    """Yield two events: set when the next commit is reached, and to be set so that it goes on."""
    reached, go_on, commit = threading.Event(), threading.Event(), rec.store.commit

    def slow():
        reached.set()
        assert go_on.wait(20.0)
        commit()

    with monkeypatch.context() as patched:
        patched.setattr(rec.store, "commit", slow)
        yield reached, go_on
    go_on.set()


def run(results, name, call):
    """Call in another thread, and keep the result or the exception."""

    def body():
        try:
            results[name] = call()
        except Exception as error:
            results[name] = error

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def test_a_change_of_an_item_that_is_not_committed_yet_is_not_lost_with_the_old_catalog(store_url, monkeypatch):
    results = {}
    with recommender(store_url) as rec, recommender(store_url) as other:
        with paused_before_commit(rec, monkeypatch) as (reached, go_on):
            put = run(results, "put", lambda: rec.put_item("new", {"crime": 0.9}))
            assert reached.wait(10.0)
            use = run(results, "use", lambda: other.perform([UseCatalog(larger(), "x")])[0])
            use.join(0.3)
            assert use.is_alive()  # it waits for the change
            go_on.set()
            put.join()
            use.join()
        assert results["put"].item == "new"
        assert isinstance(results["use"], Refused)
        assert "number of changes: 1" in str(results["use"])
        for one in (rec, other):
            assert one.items(contains="new").total == 1


def test_an_item_that_is_changed_while_another_catalog_is_put_into_use(store_url, monkeypatch):
    """The change is made to the new catalog, or refused. Then it can be tried again."""
    results = {}
    with recommender(store_url) as rec, recommender(store_url) as other:
        with paused_before_commit(other, monkeypatch) as (reached, go_on):
            use = run(results, "use", lambda: other.perform([UseCatalog(larger(), "x")])[0])
            assert reached.wait(10.0)
            put = run(results, "put", lambda: rec.put_item("new", {"crime": 0.9}))
            put.join(0.3)
            assert put.is_alive()
            go_on.set()
            use.join()
            put.join()
        assert results["use"] == 25
        if rec.store.shared:
            assert isinstance(results["put"], UnusableRecord)
            assert "try again" in str(results["put"])
            assert rec.items(contains="new").total == 0
            rec.put_item("new", {"crime": 0.9})
        for one in (rec, other):
            assert one.items(contains="new").total == 1
            assert one.catalog.L == 26


def test_weights_that_were_computed_from_another_catalog_are_not_used(store_url):
    changes = [PutItem("new", topics=["crime"])]
    with recommender(store_url) as rec:
        before = usual_weights(rec.catalog.snapshot(), changes)
        assert "quality" in before["crime",]
        epoch = rec.live.epoch
        without = films(25)  # no topic "quality"
        rec.perform([UseCatalog(LoadedCatalog(without), "x")], whole=True)
        assert rec.perform([PutItems(changes, before, epoch)], whole=True) == [1]
        expected = usual_weights(films(25).snapshot(), changes)["crime",]
        assert rec.items(contains="new").items[0].weights == expected
        again = usual_weights(rec.catalog.snapshot(), [PutItem("newer", topics=["crime"])])
        rec.perform([PutItems([PutItem("newer", topics=["crime"])], again, rec.live.epoch)], whole=True)
        assert rec.items(contains="newer").items[0].weights == again["crime",]
        assert len(rec.recommend("ana").items) == K


def test_a_command_never_puts_its_catalog_into_use(tmp_path, monkeypatch):
    """A service loads a new file at the moment in which a command has just loaded the old one."""
    url, path = f"sqlite:///{tmp_path}/taste.db", tmp_path / "films.parquet"
    (tmp_path / "likes.csv").write_text("user,item\nana,film 1\n")
    thali.save_catalog(films(), path)
    with Recommender(thali.CascadeLSB(films(), K=K), url, catalog_path=str(path)) as rec:

        class Late(Recommender):
            def __init__(self, *args, **rest):
                rec.perform([UseCatalog(LoadedCatalog(films(25)), str(path))], whole=True)
                super().__init__(*args, **rest)

        monkeypatch.setattr("thali.service.recommender.Recommender", Late)
        done = CliRunner().invoke(app, ["learn-from", str(tmp_path / "likes.csv"), "--store", url])
        assert isinstance(done.exception, ValueError)
        assert "catalog must be the one that the store uses, got a different one in" in str(done.exception)
        rec.put_item("new", {"crime": 0.9})
        assert (rec.live.epoch, rec.items().total) == (2, 26)


def test_the_quality_goes_on_with_a_new_catalog_file_and_after_a_restart_with_it(store_url):
    def expected():
        catalog, counts = rated()
        policy, quality = thali.CascadeLSB(catalog, K=1, sigma=0.3, alpha=0.0), thali.RelativeQuality(counts)
        quality.add([[3]] * 160, [[True]] * 160, np.tile(quality.expected(policy, policy.init(1), [[3]]), (160, 1, 1)))
        catalog, counts = rated(25)
        later = thali.RelativeQuality(counts, np.hstack([quality.since, np.zeros((4, 5))]))
        later.refresh(catalog)
        return catalog.dense_column("quality")

    with recommender(store_url) as rec:
        for n in range(160):
            shown = rec.recommend(f"u{n}", candidates=["film 3"], K=1)
            rec.feedback(shown.id, [0])
        rec.refresh_quality()
        rec.perform([UseCatalog(larger(), "x")], whole=True)
        assert (rec.catalog.dense_column("quality") == expected()).all()
        assert rec.live.quality.examined[3] == 60 + 160
    catalog, quality = rated(24)
    with Recommender(thali.CascadeLSB(catalog, K=K), store_url, quality=quality) as rec:
        assert rec.live.quality.examined[3] == 60 + 160
        assert (rec.catalog.dense_column("quality") != rated(24)[0].dense_column("quality")).any()


def test_a_change_is_seen_even_if_the_store_fails_while_it_is_read(store_url, monkeypatch):
    with recommender(store_url) as rec:
        rec.recommend("ana")
        changes, failed = rec.store.changes, []

        def fail_once(*args):
            if not failed:
                failed.append(True)
                raise StoreError("no")
            return changes(*args)

        rec.put_item("new", {"crime": 0.9})
        monkeypatch.setattr(rec.store, "changes", fail_once)
        with pytest.raises(StoreError):
            rec.recommend("ana")
        assert failed
        assert rec.items(contains="new").total == 1


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyError])
def test_whatever_goes_wrong_the_old_catalog_stays(store_url, monkeypatch, error):
    with recommender(store_url) as rec:
        before = names(rec.recommend("ana"))

        def fail(*args):
            raise error("no")

        with monkeypatch.context() as patched:
            patched.setattr(rec.in_use, "_use_priors", fail)
            assert isinstance(rec.perform([UseCatalog(larger(), "x")])[0], Exception)
        assert (rec.catalog.L, rec.live.epoch) == (L, 1)
        assert names(rec.recommend("ana")) == before
        with rec._lock, transaction(rec.store):
            assert rec.store.heading().epoch == 1


def prior_of(mean):
    return thali.Prior(np.full(4, mean), np.eye(4) * 0.05, films().topics)


@pytest.mark.parametrize("fails", [False, True])
def test_priors_can_be_learned_after_a_backup_from_a_time_with_another_file_was_restored(
    store_url, tmp_path, monkeypatch, fails
):
    """The backup is of a time when the prior of another file was in use, or of a program without a file.

    fails: whether the transaction fails in which the recommender notices that the backup was restored.
    """
    files = [LoadedCatalog(films(), prior_of(mean)) for mean in (0.3, 0.6)]

    def served(loaded, path="x"):
        policy = thali.CascadeLSB(loaded.catalog, K=K, prior=loaded.prior)
        rest = {"catalog_path": path, "start_digest": loaded.start_digest, "learn_prior": True}
        return Recommender(policy, store_url, **rest)

    def fail():
        raise StoreError("no")

    def give_feedback(rec):
        for user in ("ana", "bob", "cyd"):
            rec.feedback(rec.recommend(user).id, [1])

    with served(files[0], "earlier.parquet") as rec:
        give_feedback(rec)
        with open_store(store_url) as store:
            backup(store, tmp_path / "earlier")
    with Recommender(thali.CascadeLSB(films(), K=K), f"sqlite:///{tmp_path}/plain.db") as plain:
        give_feedback(plain)
    with open_store(f"sqlite:///{tmp_path}/plain.db") as store:
        backup(store, tmp_path / "plain")
    with served(files[1]) as rec:
        for name in ("earlier", "plain"):
            with open_store(store_url) as store:
                restore(tmp_path / name, store, replace=True)
            if fails:
                with monkeypatch.context() as patched:
                    patched.setattr(rec.store, "commit", fail)
                    with pytest.raises(StoreError):
                        rec.recommend("ana")
            found = rec.learn_prior()
            assert rec.meta_with_prefix("catalog") == {"catalog": "x"}
            assert (found.source, found.people) == ("learned", 3)


def test_a_quality_that_fades_is_refused(store_url):
    catalog, quality = rated()
    fading = thali.Catalog(catalog.dense, catalog.items, catalog.topics)
    with pytest.raises(ValueError, match=r"the topic 'quality' of Recommender's catalog must be steady"):
        Recommender(thali.CascadeLSB(fading, K=K), store_url, quality=quality)


def test_a_process_that_could_not_use_a_new_catalog_tries_again_when_it_is_loaded_again(store_url):
    """The file is not on its machine yet when another process puts it into use."""
    with recommender(store_url) as rec, recommender(store_url) as other:
        problems, load = [], other.in_use.load_catalog

        def missing(path):
            raise FileNotFoundError(path)

        other.in_use.load_catalog, other.in_use.on_problem = missing, problems.append
        rec.perform([UseCatalog(larger(), "x")], whole=True)
        for _ in range(3):
            assert len(other.recommend("ana").items) == K
        assert (other.catalog.L, len(problems)) == (L, 1)
        other.in_use.load_catalog = load
        assert other.items().total == L  # it does not try again at each request
        rec.perform([UseCatalog(larger(), "x")], whole=True)
        assert other.items().total == 25
        assert other.put_item("new", {"crime": 0.5}).item == "new"
        assert rec.items(contains="new").total == 1


def test_two_catalogs_in_quick_succession_reach_a_process_that_is_still_loading_the_first(store_url):
    """The second differs from the first only in its counts."""
    first = larger()
    second = first._replace(quality=thali.Quality.from_counts(np.full(25, 90.0), np.full(25, 30.0)))
    with recommender(store_url) as rec, recommender(store_url) as other:
        files, loads = {"first": first, "second": second}, []

        def load(path):
            loads.append(path)
            if len(loads) == 1 and rec.store.shared:  # with SQLite, other processes wait meanwhile
                rec.perform([UseCatalog(copy_of(second), "second")], whole=True)
            return copy_of(files[path])

        def copy_of(loaded):
            return loaded._replace(catalog=rated(25)[0])

        other.in_use.load_catalog = load
        rec.perform([UseCatalog(copy_of(first), "first")], whole=True)
        other.recommend("ana")
        if not rec.store.shared:
            rec.perform([UseCatalog(copy_of(second), "second")], whole=True)
        assert other.items().total == 25
        assert other.live.quality.examined[0] == 90.0
        assert loads == ["first", "second"]


def test_an_error_of_the_store_is_the_one_that_is_reported(store_url, monkeypatch):
    """After an error, PostgreSQL's connection is closed, so that nothing can be rolled back explicitly."""
    with recommender(store_url) as rec:
        execute = rec.store.execute

        def fail(statement, values=()):
            if statement.startswith(("SELECT learner, version", "ROLLBACK")):
                raise StoreError("the cause" if statement.startswith("SELECT") else "another error")
            return execute(statement, values)

        with monkeypatch.context() as patched:
            patched.setattr(rec.store, "execute", fail)
            with pytest.raises(StoreError, match="the cause"):
                rec.perform([UseCatalog(larger(), "x")])
        assert (rec.catalog.L, len(rec.recommend("ana").items)) == (L, K)


@pytest.mark.slow
def test_a_process_that_follows_a_new_catalog_and_a_replay_do_not_wait_for_each_other(postgres, monkeypatch):
    url, results = postgres.fresh(), {}
    with recommender(url) as worker, recommender(url) as replay, recommender(url) as loader:
        replay.perform([AddPast("ana", ["film 1"], [0])], whole=True)
        shown = worker.recommend("ana")
        replay.in_use.load_catalog = None  # commands do not follow new catalogs
        loader.perform([UseCatalog(larger(), "x")], whole=True)
        begins, locked = threading.Event(), threading.Event()
        lock, other_lock = worker.store.lock_setup, replay.store.lock_setup

        def first():
            lock()
            locked.set()

        def second():  # the worker locks as soon as the replay is about to
            begins.set()
            locked.wait(5.0)
            other_lock()

        monkeypatch.setattr(worker.store, "lock_setup", first)
        monkeypatch.setattr(replay.store, "lock_setup", second)
        page = [SetMeta("replay:x", "1", expected=None), AddPast("ana", ["film 2"], [0])]
        one = run(results, "replay", lambda: replay.perform(page, whole=True))
        assert begins.wait(5.0)
        two = run(results, "feedback", lambda: worker.feedback(shown.id, [0]))
        for thread in (one, two):
            thread.join(30.0)
        assert not [result for result in results.values() if isinstance(result, Exception)]
        assert worker.user("ana").learners["default"].updates == 3
