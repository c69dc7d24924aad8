"""Priors that are learned from the users of a service: in the store, in all processes, without what was forgotten."""

import json
from dataclasses import replace

import numpy as np
import pytest
from recommending import Clock, K, films, learned, names, rated, recommender
from storing import transaction
from typer.testing import CliRunner

import thali
from thali.cli.app import app
from thali.service.http.app import make_recommender
from thali.service.http.settings import LearnerSetting, Settings
from thali.service.recommender import Conflict, Recommender, Refused, Unknown
from thali.service.recommender.histories import forget_history, learn_history
from thali.service.recommender.loading import LoadedCatalog, load
from thali.service.recommender.operations import (
    AddHistory,
    AddPast,
    ForgetUser,
    RemoveHistory,
    SetPrior,
    UseCatalog,
)
from thali.service.recommender.prior_check import from_store, to_store
from thali.service.recommender.prior_learning import PriorDraw
from thali.service.stores import open_store
from thali.service.stores.transfer import backup, export_learned, import_learned, restore
from thali.starting import Start

PEOPLE = 12


def people(rec, count=PEOPLE, lists=6, *, seed=0, begin=0):
    """Let people who mostly like crime see lists."""
    model = thali.DiverseCascade(films(), [[0.8, 0.1, 0.05, 0.05]])
    rng = np.random.default_rng(seed)
    for n in range(begin, begin + count):
        for _ in range(lists):
            shown = rec.recommend(f"u{n}")
            row = [[rec.catalog.item(item) for item in names(shown)]]
            rec.feedback(shown.id, np.flatnonzero(model.sample(row, rng)[0]).tolist())


def state_of(rec, users):
    """Return a state of the library with the statistics of these users."""
    policy = rec.learners["default"].start
    kept = [learned(rec, user) for user in users]
    M, B = np.array([M for _, M, _ in kept]), np.array([B for _, _, B in kept])
    return policy.init(1).of(M, B, np.ones(len(kept), dtype=np.int64))


def base_prior():
    return thali.Prior([0.1, 0.2, 0.3, 0.4], np.eye(4) * 0.2, films().topics, sigma=0.3, optimism=0.5)


def with_prior(url, **rest):
    policy = thali.CascadeLSB(films(), K=K, prior=base_prior())
    return Recommender(policy, url, learn_prior=True, **rest)


def test_a_learned_prior_is_that_of_the_library_and_serves_everybody_in_all_processes(store_url):
    with with_prior(store_url) as rec, with_prior(store_url) as other:
        other.recommend("early")
        people(rec)
        found = rec.learn_prior()
        assert (found.source, found.people, found.version, found.fell_back) == ("learned", PEOPLE, 1, False)
        users = sorted(f"u{n}" for n in range(PEOPLE))
        expected = thali.Prior.learn(rec.learners["default"].start, state_of(rec, users))
        assert [topic.mean for topic in found.topics] == expected.mean.tolist()
        assert (expected.sigma, expected.optimism) == (0.3, 0.5)
        policy = thali.CascadeLSB(films(), K=K, prior=expected)
        catalog = films()

        def own_list(user):
            state = policy.init(1).of(
                *(part[None] for part in learned(rec, user)[1:]), np.array([learned(rec, user)[0]])
            )
            return [catalog.items[e] for e in policy.recommend(state)[0]]

        for user in ("u3", "nobody yet"):
            assert names(rec.recommend(user)) == own_list(user) == names(other.recommend(user))
        assert other.prior()["default"] == rec.prior()["default"]
    with with_prior(store_url) as again:
        assert names(again.recommend("nobody")) == names(again.recommend("somebody"))
        assert again.learners["default"].policy.prior == expected
    with Recommender(thali.CascadeLSB(films(), K=K, prior=base_prior()), store_url) as fixed:  # it does not learn
        assert fixed.learners["default"].policy.prior == base_prior().arranged("test", films().topics)


def test_each_learning_starts_from_the_same_prior_so_nothing_of_a_forgotten_person_is_left(store_url):
    with with_prior(store_url) as rec:
        people(rec, 5)
        first = rec.learn_prior()
        people(rec, 1, lists=30, seed=9, begin=5)
        second = rec.learn_prior()
        assert second.topics != first.topics
        rec.forget("u5")
        third = rec.learn_prior()
        assert third.topics == first.topics
        assert third.version == 3


@pytest.mark.parametrize("returns", [False, True])
def test_a_person_who_is_forgotten_while_a_prior_is_learned_is_not_in_it(store_url, monkeypatch, returns):
    with with_prior(store_url) as rec, with_prior(store_url) as other:
        people(rec, 6)
        learn, forgotten = PriorDraw.learn, []

        def slow(draw):
            operation = learn(draw)
            if not forgotten:
                forgotten.append(other.forget("u2"))
                if returns:  # with as many lists as before
                    people(other, 1, seed=5, begin=2)
            return operation

        monkeypatch.setattr(PriorDraw, "learn", slow)
        found = rec.learn_prior()
        assert forgotten
        assert found.people == 5
        users = ["u0", "u1", "u3", "u4", "u5"]
        expected = thali.Prior.learn(rec.learners["default"].start, state_of(rec, users))
        assert [topic.mean for topic in found.topics] == expected.mean.tolist()


def test_a_learned_prior_does_not_outlive_its_people(store_url):
    with with_prior(store_url) as rec:
        people(rec, 2)
        rec.learn_prior()
        for user in ("u0", "u1"):
            rec.forget(user)
        with pytest.raises(Refused, match="at least 2 users"):
            rec.learn_prior()
        described = rec.prior()["default"]
        assert (described.source, described.fell_back) == ("start", False)
        assert [topic.mean for topic in described.topics] == base_prior().mean.tolist()


def test_people_about_whom_everything_was_undone_do_not_count(store_url, tmp_path):
    (tmp_path / "likes.csv").write_text("user,item\n" + "".join(f"v{n},film {n}\n" for n in range(6)))
    with with_prior(store_url) as rec:
        learn_history(rec, tmp_path / "likes.csv")
        shown = [rec.recommend(f"u{n}") for n in range(3)]
        for one in shown:
            rec.feedback(one.id, [0])
        assert rec.learn_prior().people == 9
        for one in shown:
            rec.undo(one.id)
        assert rec.learn_prior().people == 6
        forget_history(rec, "history")
        with pytest.raises(Refused, match="at least 2 users, got 0"):
            rec.learn_prior()
        assert rec.prior()["default"].source == "start"


def test_a_prior_that_was_learned_before_a_restore_is_not_put_into_use_after_it(store_url, tmp_path):
    with with_prior(store_url) as rec:
        people(rec, 2)
        with open_store(store_url) as store:
            backup(store, tmp_path / "b.backup")
        people(rec, 4, begin=2)
        draw = PriorDraw(rec, "default")
        draw.read(rec.store)
        with open_store(store_url) as store:
            restore(tmp_path / "b.backup", store, replace=True)
        with pytest.raises(Conflict, match="a backup was restored"):
            rec.perform([draw.learn()], whole=True)
        assert rec.learn_prior().people == 2


def test_a_check_is_not_shown_any_more_when_its_prior_is_not_in_use(store_url):
    with with_prior(store_url) as rec:
        people(rec, 4)
        rec.learn_prior()
        people(rec, 4, begin=4)
        assert rec.check_prior() is not None
        assert rec.prior()["default"].check is not None
        assert rec.stats().learners["default"].prior_check is not None
        rec.perform([SetPrior("default", None)], whole=True)
        assert rec.prior()["default"].check is None
        assert rec.stats().learners["default"].prior_check is None
        rec.perform([SetPrior("default", None, fell_back=True)], whole=True)
        assert rec.prior()["default"].check is not None  # it says why


def test_a_prior_that_was_learned_meanwhile_does_not_undo_a_fallback(store_url):
    with with_prior(store_url) as rec, with_prior(store_url) as other:
        people(rec, 4)
        rec.learn_prior()
        draw = PriorDraw(rec, "default")
        draw.read(rec.store)
        late = replace(draw.learn(), instead_of=draw.version)  # as the service learns in the background
        other.perform([SetPrior("default", None, fell_back=True)], whole=True)
        with pytest.raises(Conflict, match="version of the prior must still be 1") as raised:
            rec.perform([late], whole=True)
        assert raised.value.field is None
        assert rec.prior()["default"].fell_back


def test_a_prior_is_not_put_into_use_if_people_are_forgotten_again_and_again(store_url, monkeypatch):
    with with_prior(store_url) as rec:
        people(rec, 10, lists=1)
        learn, left = PriorDraw.learn, [f"u{n}" for n in range(10)]

        def slow(draw):
            operation = learn(draw)
            rec.perform([ForgetUser(left.pop())])
            return operation

        monkeypatch.setattr(PriorDraw, "learn", slow)
        with pytest.raises(Conflict, match="forgotten"):
            rec.learn_prior()
        assert rec.prior()["default"].source == "start"


def test_undo_and_late_feedback_stay_exact_when_the_prior_changes(store_url):
    with with_prior(store_url) as rec:
        people(rec, 4)
        before = learned(rec, "u1")
        shown = rec.recommend("u1")
        rec.learn_prior()
        rec.feedback(shown.id, [0])
        rec.learn_prior()
        rec.undo(shown.id)
        after = learned(rec, "u1")
        assert before[0] == after[0]
        assert (before[1] == after[1]).all()
        assert (before[2] == after[2]).all()


def test_without_a_prior_at_the_start_one_is_learned_and_the_first_lists_follow_it(store_url):
    with recommender(store_url, learn_prior=True) as rec:
        assert rec.prior()["default"].source == "none"
        people(rec, 20, lists=10)
        rec.learn_prior()
        policy = rec.learners["default"].policy
        assert np.argmax(policy.prior.mean) == 0  # crime
        means = policy.prior.mean
        shown = rec.recommend("somebody new")
        best = thali.greedy_lists(films(), means[None], K)[0]
        assert names(shown) == [films().items[e] for e in best]


def test_histories_alone_are_enough_to_learn_from(store_url):
    with with_prior(store_url) as rec:
        x = films().dense[:5]
        for n in range(8):
            rec.perform([AddHistory(f"u{n}", "ratings", x.T @ x, x[n % 5], [], str(n))], whole=True)
        assert rec.learn_prior().people == 8


@pytest.mark.parametrize("known", [0, 1])
def test_too_few_people_and_unknown_learners_are_refused(store_url, known):
    with with_prior(store_url) as rec:
        people(rec, known)
        with pytest.raises(Refused, match="at least 2 users"):
            rec.learn_prior()
        with pytest.raises(Refused, match="must be one of default, which learn their priors, got 'x'"):
            rec.learn_prior("x")
    with recommender(store_url) as fixed, pytest.raises(Refused, match="one that learns its prior"):
        fixed.learn_prior()
    with pytest.raises(ValueError, match="learn_prior of Recommender must contain names of learners"):
        recommender(store_url, learn_prior=["x"])


def test_a_prior_that_predicts_worse_is_found_out(store_url):
    """People like crime. A prior that expects clicks on everything else is worse than the start; a good one better."""
    clock = Clock()
    good = thali.Prior([0.8, 0.1, 0.05, 0.05], np.eye(4) * 0.01, films().topics, sigma=0.3, optimism=0.0)
    bad = thali.Prior([0.0, 0.9, 0.9, 0.9], np.eye(4) * 1e-4, films().topics, sigma=0.3, optimism=0.0)
    policy = thali.CascadeLSB(films(), K=K, prior=thali.Prior([0.05] * 4, np.eye(4) * 0.01, sigma=0.3, optimism=0.0))
    verdicts = []
    with Recommender(policy, store_url, learn_prior=True, clock=clock) as rec:
        assert rec.check_prior() is None  # no learned prior is in use
        for seed, prior in enumerate((good, bad)):
            clock.tick()
            rec.perform([SetPrior("default", prior, 5)], whole=True)
            people(rec, 40, lists=4, seed=seed, begin=100 * seed)
            check = rec.check_prior()
            verdicts.append(check.verdict)
            assert sum(group.answered for group in check.lists) == 160
            assert [(group.first, group.last) for group in check.lists] == [(1, 1), (2, 3), (4, 10)]
            first = check.lists[0]
            assert first.answered == 40
            assert rec.stats().learners["default"].prior_check == check == rec.prior()["default"].check
        assert verdicts == ["better", "worse"]
        history = rec.history("u100", limit=10)[-1]
        assert first.predicted == pytest.approx(history.click_probability)  # every first list is the same
        gains = policy.gains([[rec.catalog.item(item) for item in names(history)]])[0]
        static = 1.0 - np.prod(1.0 - np.clip(gains @ np.full(4, 0.05), 0.0, 1.0))
        assert first.static == pytest.approx(static)
        rec.perform([SetPrior("default", None, fell_back=True)], whole=True)
        described = rec.prior()["default"]
        assert (described.source, described.fell_back) == ("start", True)
        assert rec.learners["default"].policy is rec.learners["default"].start


def test_learned_priors_are_judged_together_if_each_is_in_use_only_for_a_short_time(store_url):
    clock = Clock()
    bad = thali.Prior([0.0, 0.9, 0.9, 0.9], np.eye(4) * 1e-4, films().topics, sigma=0.3, optimism=0.0)
    policy = thali.CascadeLSB(films(), K=K, prior=thali.Prior([0.05] * 4, np.eye(4) * 0.01, sigma=0.3, optimism=0.0))
    with Recommender(policy, store_url, learn_prior=True, clock=clock) as rec:
        people(rec, 40, lists=4, seed=9, begin=9000)  # shown before there was a learned prior
        clock.tick()
        began, verdicts = clock(), []
        for version in range(1, 7):
            rec.perform([SetPrior("default", bad, 5)], whole=True)
            people(rec, 5, lists=4, seed=version, begin=100 * version)
            check = rec.check_prior()
            verdicts.append(check.verdict)
            assert (check.since, check.version) == (began, version)
            assert sum(group.answered for group in check.lists) == 20 * version
            clock.tick()
        assert verdicts == ["open"] * 4 + ["worse"] * 2
        rec.perform([SetPrior("default", None, fell_back=True)], whole=True)
        assert rec.check_prior() is None
        clock.tick()
        rec.perform([SetPrior("default", bad, 5)], whole=True)
        assert rec.check_prior().lists == []  # what was before the fallback does not count


@pytest.mark.parametrize("policy", [thali.CascadeLSB, thali.CascadeLinUCB])
def test_a_learned_prior_is_compared_with_what_the_start_would_have_predicted_for_each_person_then(
    store_url, policy, tmp_path
):
    """With late and unordered answers, time-outs, histories, lists of other lengths, undo, and an import."""
    clock = Clock()
    bad = thali.Prior([0.0, 0.9, 0.9, 0.9], np.eye(4) * 1e-4, films().topics, sigma=0.3, optimism=0.0)
    start = policy(films(), K=K, prior=base_prior())
    rest = {"learn_prior": True, "clock": clock, "no_click_after": 50.0}
    expected: dict[str, tuple[int, float]] = {}
    rng = np.random.default_rng(3)
    with Recommender(start, store_url, **rest) as rec:

        def show(user, **more):
            shown = rec.recommend(user, **more)
            updates, M, B = learned(rec, user)
            state = start.init(1).of(M[None], B[None], np.array([updates]))
            x = np.array([[item.gains.get(topic, 0.0) for topic in films().topics] for item in shown.items])
            attraction = np.clip(x @ start.estimate(state)[0], 0.0, 1.0)
            expected[shown.id] = updates + 1, 1.0 - np.prod(1.0 - attraction)
            return shown

        people(rec, 5)  # before there was a learned prior
        rec.perform([AddHistory("known", "likes", 0.3 * np.eye(4), np.full(4, 0.2), [], "digest")], whole=True)
        clock.tick()
        rec.perform([SetPrior("default", bad, 5)], whole=True)
        for n in range(14):
            user = ("known", "u1", *(f"v{m}" for m in range(12)))[n]
            for step in range(12):
                one, two = show(user), show(user, K=1 + step % 5)
                rec.feedback(two.id, [0] if rng.random() < 0.5 else [])
                if step % 4 == 1:
                    show(user)
                if step % 4 == 2:
                    clock.tick(60.0)
                    rec.tidy()  # so lists that have no answer yet had no click
                else:
                    clicked = rng.permutation(K)[: rng.integers(0, K)].tolist()
                    rec.feedback(one.id, clicked)
        last = show("v3")
        rec.feedback(last.id, [0])
        rec.undo(last.id)
        del expected[last.id]
        # What is learned later about what came before changes no prediction.
        for shown in rec.impressions("v7"):
            if shown.answer == "time-out":
                rec.feedback(shown.impression, [0])
        earliest = list(rec.impressions("v8"))[-1].impression
        rec.undo(earliest)
        del expected[earliest]
        more = AddHistory("v9", "likes", 0.3 * np.eye(4), np.full(4, 0.2), [], "digest")
        rec.perform([more, RemoveHistory("known", "likes"), AddPast("v10", ["film 1", "film 2"], [0])], whole=True)
        export_learned(rec.store, tmp_path / "people.jsonl")
        with open_store(store_url) as other:
            import_learned(tmp_path / "people.jsonl", other, replace=True)
        check = rec.check_prior()
        assert check.verdict == "worse"
        shown = {impression.impression: impression for user in rec_users(rec) for impression in rec.impressions(user)}
        answered = {key: value for key, value in expected.items() if shown[key].clicked is not None}
        for group in check.lists:
            among = [
                (key, predicted)
                for key, (number, predicted) in answered.items()
                if group.first <= number <= (group.last or 1000)
            ]
            assert group.answered >= len(among) > 0
            if group.last is None or group.last > 10:
                assert (group.start, group.start_loss) == (None, None)
                continue
            assert group.answered == len(among)
            assert group.start == pytest.approx(np.mean([predicted for _, predicted in among]), rel=1e-9)
            losses = [-np.log(np.clip(p if shown[key].clicked else 1.0 - p, 0.01, 0.99)) for key, p in among]
            assert group.start_loss == pytest.approx(np.mean(losses), rel=1e-9)


def rec_users(rec):
    with transaction(rec.store, write=False):
        return rec.store.users("", 1000)


def test_the_service_returns_to_the_start_only_if_that_predicts_better(store_url):
    """Popular items may predict better than both priors. Then there is nothing better to return to."""
    clock, (catalog, quality) = Clock(), rated()
    high, higher = (
        thali.Prior([mean] * 5, np.eye(5) * 1e-4, catalog.topics, sigma=0.3, optimism=0.0) for mean in (0.4, 0.6)
    )
    rest = {"quality": quality, "learn_prior": True, "clock": clock}
    with Recommender(thali.CascadeLSB(catalog, K=K), store_url, **rest) as rec:
        verdicts = []
        for number, (start, learned_prior) in enumerate([(higher, high), (high, higher), (high, high), (None, high)]):
            rec.learners["default"].use(start, rec.catalog)
            clock.tick()
            rec.perform([SetPrior("default", None)], whole=True)
            clock.tick()
            rec.perform([SetPrior("default", learned_prior, 5)], whole=True)
            for n in range(60):
                for _ in range(2):
                    rec.feedback(rec.recommend(f"p{number} {n}").id, [0] if n == 7 else [])
            check = rec.check_prior()
            verdicts.append((check.verdict, check.against, check.falls_back))
        lost = ("worse", "popular")
        assert verdicts == [(*lost, False), (*lost, True), (*lost, False), ("worse", "static", True)]


def losing(url, clock):
    """A recommender that begins to use a learned prior which predicts worse than that of its start."""
    bad = thali.Prior([0.0, 0.9, 0.9, 0.9], np.eye(4) * 1e-4, films().topics, sigma=0.3, optimism=0.0)
    rec = Recommender(
        thali.CascadeLSB(films(), K=K, prior=base_prior()), url, learn_prior=True, clock=clock, start_digest="a"
    )
    clock.tick()
    rec.perform([SetPrior("default", bad, 5)], whole=True)
    return rec


def test_lists_without_a_prediction_of_the_start_are_not_judged(store_url):
    """Those of thali replay, and of processes that did not know yet that there is a learned prior."""
    clock = Clock()
    with losing(store_url, clock) as rec:
        people(rec, 40, lists=3)
        before = rec.check_prior()
        clock.tick()
        rec.perform([SetPrior("default", thali.Prior.from_content(json.loads(rec.priors["default"].prior)), 5)])
        rec.perform([AddPast(f"p{n}", ["film 1", "film 2"], [0]) for n in range(120)], whole=True)
        check = rec.check_prior()
        assert (check.verdict, check.falls_back) == (before.verdict, before.falls_back) == ("worse", True)
        assert replace(check, at=before.at, version=1) == before
        assert all(group.start is not None for group in check.lists)


def test_lists_are_judged_anew_when_the_catalog_file_has_another_prior(store_url):
    clock = Clock()
    with losing(store_url, clock) as rec:
        people(rec, 40, lists=3)
        assert rec.check_prior().falls_back
        clock.tick()
        good = thali.Prior([0.8, 0.1, 0.05, 0.05], np.eye(4) * 0.01, films().topics)
        rec.perform([UseCatalog(LoadedCatalog(films(), good), "x")], whole=True)
        check = rec.check_prior()
        assert (check.verdict, check.lists, check.since) == ("open", [], clock())
        people(rec, 10, lists=1, begin=50)
        assert [group.answered for group in rec.check_prior().lists] == [10]


def test_a_check_of_a_later_version_of_thali_can_be_read(store_url):
    with losing(store_url, Clock()) as rec:
        people(rec, 2, lists=1)
        check = rec.check_prior()
        content = json.loads(to_store(check))
        later = {**content, "later": 1, "lists": [{**group, "later": 1} for group in content["lists"]]}
        assert from_store(json.dumps(later)) == check


def test_a_prior_that_hardly_differs_from_that_of_the_start_is_neither_better_nor_worse(store_url):
    clock = Clock()
    start, near = (
        thali.Prior([mean, 0.1, 0.05, 0.05], np.eye(4) * 0.05, films().topics, sigma=0.3) for mean in (0.1, 0.1001)
    )
    policy = thali.CascadeLSB(films(), K=K, prior=start)
    with Recommender(policy, store_url, learn_prior=True, clock=clock) as rec:
        clock.tick()
        rec.perform([SetPrior("default", near, 5)], whole=True)
        people(rec, 40, lists=5)
        check = rec.check_prior()
        assert (check.against, check.verdict) == ("start", "open")
        assert abs(check.difference) < 0.005
        ours = [group for group in check.lists if group.last in (1, 3, 10)]
        assert all(group.start == pytest.approx(group.predicted, abs=1e-3) for group in ours)
        assert all(group.start != group.predicted for group in ours)


def test_a_prior_of_other_topics_is_not_used_with_a_new_catalog(store_url):
    with with_prior(store_url) as rec:
        people(rec, 4)
        rec.learn_prior()
    topics = ("crime", "comedy", "drama", "war")
    with Recommender(thali.CascadeLSB(films(topics=topics), K=K), store_url, learn_prior=True) as rec:
        assert rec.prior()["default"].source == "none"
        people(rec, 4)
        assert rec.learn_prior().source == "learned"


@pytest.mark.parametrize("topics", ["wxyz", "wxyzv"])
def test_a_prior_is_not_put_into_use_if_the_topics_change_while_it_is_learned(store_url, topics):
    with with_prior(store_url) as rec:
        people(rec, 5)
        late, later = PriorDraw(rec, "default"), PriorDraw(rec, "default")
        late.read(rec.store)
        rec.perform([UseCatalog(LoadedCatalog(films(topics=list(topics))), "x")], whole=True)
        with pytest.raises(Conflict, match="another catalog was put into use"):
            rec.perform([late.learn()], whole=True)
        with pytest.raises(Conflict, match="another catalog was put into use"):
            later.read(rec.store)
        assert rec.prior()["default"].version == 0


def test_the_prior_of_a_new_catalog_file_is_used_unless_the_learner_has_its_own(store_url):
    catalog, prior = films(), base_prior()
    policies = {name: thali.CascadeLSB(catalog, K=K, prior=given) for name, given in (("own", prior), ("file", None))}
    with Recommender(policies, store_url, keep_prior=["own"]) as rec:
        other = thali.Prior(0.7, np.eye(4), films().topics)
        rec.perform([UseCatalog(LoadedCatalog(films(21), other), "x")], whole=True)
        means = {name: learner.policy.prior.mean.tolist() for name, learner in rec.learners.items()}
        assert means == {"own": prior.mean.tolist(), "file": other.mean.tolist()}


def test_what_the_store_keeps_of_a_prior_is_exact(store_url):
    with with_prior(store_url) as rec:
        people(rec, 4)
        rec.learn_prior()
        kept = json.loads(rec.priors["default"].prior)
        assert thali.Prior.from_content(kept) == rec.learners["default"].policy.prior


def test_nothing_of_a_history_is_left_when_its_person_is_forgotten(store_url):
    """A matrix that people share says nothing about them. One of a single person is stored with the person."""
    x = films().dense[:5]
    with with_prior(store_url) as rec:
        for user, shared in (("ana", True), ("bob", True), ("eve", False)):
            own = AddHistory(user, "ratings", x.T @ x, x[0], ["film 1"], user, None, shared)
            assert rec.perform([own], whole=True) == [True]
            assert rec.perform([own], whole=True) == [False]
            assert x[0].tolist() == rec.export(user)["learners"]["default"].B
            assert rec.export(user)["learners"]["default"].histories == ["ratings"]
            assert rec.user(user).learners["default"].histories == ["ratings"]
        M = rec.export("ana")["learners"]["default"].M
        assert M == rec.export("eve")["learners"]["default"].M
        with rec._lock, transaction(rec.store):
            assert len(rec.store.execute("SELECT 1 FROM matrices")) == 1
        for user in ("ana", "eve"):
            rec.forget(user)
        with rec._lock, transaction(rec.store):
            assert [history.user for user in ("ana", "bob", "eve") for history in rec.store.histories(user)] == ["bob"]
        rec.feedback(rec.recommend("bob").id, [0])
        assert rec.remove_history("bob", "ratings") == 1
        fresh = rec.export("bob")["learners"]["default"]
        assert fresh.updates == 1
        with pytest.raises(Unknown):
            rec.remove_history("bob", "ratings")


def test_learning_does_not_depend_on_the_sigma_of_the_store(store_url):
    """The store has statistics with σ = 0.2. A learner with another σ learns the same as one that had it before."""
    with recommender(store_url, learn_prior=True) as rec:
        people(rec, 8)
    with Recommender(thali.CascadeLSB(films(), K=K, sigma=0.4), store_url, learn_prior=True) as rec:
        before = learned(rec, "u1")
        found = rec.learn_prior()
        policy = thali.CascadeLSB(films(), K=K, sigma=0.4)
        kept = [learned(rec, f"u{n}") for n in range(8)]
        M = np.array([np.eye(4) + (0.2 / 0.4) ** 2 * (M - np.eye(4)) for _, M, _ in kept])
        state = policy.init(1).of(M, np.array([B for _, _, B in kept]), np.ones(8, dtype=np.int64))
        expected = thali.starting.prior.learned_prior(policy, state)
        assert [topic.mean for topic in found.topics] == pytest.approx(expected.mean, rel=1e-9)
        shown = rec.recommend("u1")
        rec.feedback(shown.id, [0])
        rec.undo(shown.id)
        assert (learned(rec, "u1")[1] == before[1]).all()


def test_lists_shown_while_no_learned_prior_was_in_use_are_not_judged(store_url):
    """The service is restarted without learning, and then with it again. The prior of the first time is used again."""
    clock = Clock()
    with with_prior(store_url, clock=clock) as rec:
        people(rec, 4)
        clock.tick()
        rec.learn_prior()
        people(rec, 2, lists=3, begin=50)
        assert sum(group.answered for group in rec.check_prior().lists) == 6
    clock.tick()
    with Recommender(thali.CascadeLSB(films(), K=K, prior=base_prior()), store_url, clock=clock) as fixed:
        people(fixed, 10, begin=100)
    clock.tick()
    with with_prior(store_url, clock=clock) as rec:
        assert rec.prior()["default"].version == 1
        people(rec, 2, lists=3, begin=200)
        check = rec.check_prior()
        assert sum(group.answered for group in check.lists) == 6
        assert check.since == clock()
        clock.tick()
        rec.learn_prior()
        assert sum(group.answered for group in rec.check_prior().lists) == 6


def test_topics_that_are_too_small_for_a_prior_are_refused(store_url):
    catalog = thali.Catalog(films().dense * [1.0, 1.0, 1.0, 1e-7], films().items, films().topics)
    with Recommender(thali.CascadeLSB(catalog, K=K), store_url, learn_prior=True) as rec:
        people(rec, 3)
        with pytest.raises(Refused, match=r"statistics allow to learn a prior: .* of Prior must be"):
            rec.learn_prior()
        assert rec.prior()["default"].source == "none"


@pytest.mark.parametrize("fitted", [True, False])
def test_a_replay_predicts_with_the_learned_prior_that_is_in_use(tmp_path, fitted):
    url, path = f"sqlite:///{tmp_path}/taste.db", tmp_path / "films.parquet"
    catalog, quality = rated()
    if fitted:
        Start(catalog, thali.Prior(np.full(5, 0.2), np.eye(5) * 0.2, sigma=0.3), quality, 1.0, 3).save(path)
    else:
        thali.save_catalog(catalog, path)
    file = load(str(path))
    policy = thali.CascadeLSB(file.catalog, K=K, prior=file.prior)
    with Recommender(policy, url, learn_prior=True, quality=file.quality, catalog_path=str(path)) as rec:
        people(rec)
        rec.learn_prior()
        shown = rec.recommend("new here")
        (tmp_path / "log.jsonl").write_text(json.dumps({"user": "also new", "items": names(shown), "clicked": []}))
        done = CliRunner().invoke(app, ["replay", str(tmp_path / "log.jsonl"), "--store", url])
        assert done.exit_code == 0, done.output
        assert rec.history("also new")[0].click_probability == shown.click_probability


def test_a_command_uses_the_prior_that_a_learner_has_of_its_own(tmp_path):
    url, path = f"sqlite:///{tmp_path}/taste.db", tmp_path / "films.parquet"
    thali.save_catalog(films(), path)
    base_prior().save(tmp_path / "own.prior")
    settings = Settings(str(path), url, (LearnerSetting("default", K=K, prior=str(tmp_path / "own.prior")),))
    with make_recommender(settings) as rec:
        shown, running = rec.recommend("new here"), rec.meta_with_prefix("running")
        (tmp_path / "log.jsonl").write_text(json.dumps({"user": "also new", "items": names(shown), "clicked": []}))
        (tmp_path / "likes.csv").write_text("user,item\ncyd,film 1\ndee,film 2\n")
        for words in (["replay", "log.jsonl"], ["learn-from", "likes.csv"]):
            done = CliRunner().invoke(app, [words[0], str(tmp_path / words[1]), "--store", url])
            assert done.exit_code == 0, done.output
        assert rec.history("also new")[0].click_probability == shown.click_probability
        assert rec.meta_with_prefix("running") == running
        learn_history(rec, tmp_path / "likes.csv", name="here")
        by_command, here = rec.export("cyd")["learners"]["default"].sums
        assert by_command.S == here.S
