from functools import partial

import numpy as np
import pytest
import reference
from instances import OwnEpsilonGreedy
from models import MODELS, Fixed, W, catalog, model, policy, theta

import thali


def test_regret_is_against_the_greedy_list_of_the_true_model():
    run = thali.simulate(policy, model, steps=60, seed=1, points=range(1, 61))
    assert run.steps.tolist() == list(range(1, 61))
    for user in range(5):
        greedy = reference.greedy_list(W, theta[user], 3, "probabilistic")
        best, *shown = (
            reference.click_probability(W, theta[user], items, "probabilistic")
            for items in [greedy, *run.lists[user].tolist()]
        )
        lost = best - np.array(shown)
        np.testing.assert_allclose(run.regret[user], np.cumsum(lost), atol=1e-12)
        np.testing.assert_allclose(run.value[user], np.cumsum(shown), rtol=1e-12)
    np.testing.assert_array_equal(run.value, run.best[:, None] * run.steps - run.regret)  # to the bit, without drift
    assert (np.diff(run.clicks, axis=1) >= 0).all()
    assert run.clicks[:, -1].sum() > 0


def test_the_same_seed_gives_the_same_run_and_another_does_not():
    runs = [thali.simulate(policy, model, steps=300, seed=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].regret, runs[1].regret)
    np.testing.assert_array_equal(runs[0].clicks, runs[1].clicks)
    assert (runs[0].clicks != runs[2].clicks).any()


@pytest.mark.parametrize("name", thali.POLICIES)
def test_a_person_gets_the_same_run_alone_and_in_a_batch(name):
    learner = thali.POLICIES[name](catalog, 3)
    batch = thali.simulate(learner, model, steps=300, seed=3)
    alone = thali.simulate(learner, thali.DiverseCascade(catalog, theta[[3]]), steps=300, seed=3, people=[3])
    np.testing.assert_array_equal(batch.regret[[3]], alone.regret)
    np.testing.assert_array_equal(batch.lists[[3]], alone.lists)


class FixedToo(Fixed):
    """Another policy."""


def test_every_policy_gets_the_same_random_numbers():
    first, second = (thali.simulate(p(catalog, 3), model, steps=300, seed=4).state.seen for p in (Fixed, FixedToo))
    np.testing.assert_array_equal(first, second)
    assert first.any()


class Random(Fixed):
    """Draws its lists."""

    samples = True

    def choose(self, state, rng):
        return np.array([generator.permutation(self.catalog.L)[: self.K] for generator in rng])


def test_a_policy_that_samples_gets_one_generator_for_each_user():
    learner = Random(catalog, 3)
    state = learner.init(5)
    by_seed, again = learner.recommend(state, rng=7), learner.recommend(state, rng=7)
    np.testing.assert_array_equal(by_seed, again)
    np.testing.assert_array_equal(by_seed[:2], learner.recommend(learner.init(2), rng=7))
    assert (learner.recommend(state, rng=8) != by_seed).any()
    batch = thali.simulate(learner, model, steps=50, seed=3)
    alone = thali.simulate(learner, thali.DiverseCascade(catalog, theta[[3]]), steps=50, seed=3, people=[3])
    np.testing.assert_array_equal(batch.lists[[3]], alone.lists)
    for bad in (None, "seed", [np.random.default_rng(0)] * 4):
        with pytest.raises(TypeError, match="rng of Random must be a seed, a numpy.random.Generator, or one for each"):
            learner.recommend(state, rng=bad)


def test_the_learners_weights_may_differ_from_the_persons():
    run = thali.simulate(thali.CascadeLSB(thali.Catalog(W / 2), 3), model, steps=50, points=range(1, 51))
    lost = [run.best - model.click_probability(run.lists[:, t]) for t in range(50)]
    np.testing.assert_allclose(run.regret, np.cumsum(lost, axis=0).T, atol=1e-12)  # the person's weights
    gains = thali.Catalog(W / 2).gains(run.lists[:, -1])
    np.testing.assert_allclose(
        thali.CascadeLSB(thali.Catalog(W / 2), 3).gains(run.lists[:, -1]), gains
    )  # the learner's


def test_catalogs_with_and_without_names_can_match():
    named = thali.Catalog(W, items=list(range(15)), topics=list(range(4)))
    assert thali.simulate(thali.CascadeLSB(named, 3), model, steps=5).regret.shape == (5, 5)


def test_continues_from_a_state_without_changing_it():
    run = thali.simulate(policy, model, steps=200, seed=5)
    before = run.state.copy()
    more = thali.simulate(policy, model, steps=100, seed=6, state=run.state)
    np.testing.assert_array_equal(run.state.M, before.M)
    assert more.state.updates.tolist() == [300] * 5


class Broken(Fixed):
    """Chooses an item twice."""

    def choose(self, state, rng):
        return np.zeros((state.users, self.K), dtype=np.int64)


def test_errors_name_a_faulty_policy_or_model():
    with pytest.raises(ValueError, match="lists chosen by Broken must contain distinct item numbers"):
        thali.simulate(Broken(catalog, 3), model, steps=5)

    class Eager(thali.DiverseCascade):
        def attraction(self, lists):
            return super().attraction(lists) + 1.0

    with pytest.raises(ValueError, match="attraction of Eager must be from 0 to 1"):
        thali.simulate(policy, Eager(catalog, theta), steps=5)

    class Undecided(thali.DiverseCascade):
        def habits(self, attraction):
            return thali.Habits(attraction, np.nan, 1.0)

    with pytest.raises(ValueError, match="after_click of Undecided must be from 0 to 1, got nan"):
        thali.simulate(policy, Undecided(catalog, theta), steps=5)

    class Crooked(thali.DiverseCascade):
        def habits(self, attraction):
            return thali.Habits(attraction, np.ones(2), 1.0)

    with pytest.raises(
        ValueError,
        match=r"habits of Crooked must have shapes that broadcast to .* = \(5, 3\), got .* after_click \(2,\)",
    ):
        thali.simulate(policy, Crooked(catalog, theta), steps=5)


LEAVE = ("Cascade", "Cascade.of_topics", "DiverseCascade", "own respond")


@pytest.mark.parametrize("name", MODELS)
def test_outcome_is_respond_and_click_probability_to_the_last_bit(name):
    generator, people = np.random.default_rng(8), MODELS[name]
    several = 0
    for K in [1, 2, 3, 8, 15] * 10:
        lists = np.array([generator.permutation(15)[:K] for _ in range(5)])
        draws = generator.random((5, K)) * generator.choice([0.3, 1.0])
        before = draws.copy()
        clicks, value = people.outcome(lists, draws)
        assert clicks.dtype == bool
        np.testing.assert_array_equal(clicks, people.respond(lists, draws))
        np.testing.assert_array_equal(value, people.click_probability(lists))
        np.testing.assert_array_equal(draws, before)
        several += (clicks.sum(axis=1) > 1).sum()
    assert (several > 0) == (name not in LEAVE)


def overriding(make):
    """The same policy twice: once with its own recommend, once with its own update. Both only call the original."""
    kind, switches = (make.func, make.keywords) if isinstance(make, partial) else (make, {})

    class Recommends(kind):
        def recommend(self, state, rng=None):
            return super().recommend(state, rng)

    class Updates(kind):
        def update(self, state, lists, clicks, gains=None):
            super().update(state, lists, clicks, gains)

    return partial(Recommends, **switches), partial(Updates, **switches)


LEARNERS = {**thali.POLICIES, "own": OwnEpsilonGreedy}
#: Every policy with people who may click twice, and a few policies with all models.
CASES = [(policy, "DependentClick") for policy in LEARNERS] + [
    (policy, people) for policy in ("CascadeLSB", "CascadeKLUCB", "own") for people in MODELS
]


@pytest.mark.parametrize(("policy", "name"), dict.fromkeys(CASES))
def test_the_fast_path_of_a_step_gives_the_same_bits_as_the_plain_one(policy, name):
    learner = LEARNERS[policy]
    short, *plain = (
        thali.simulate(kind(catalog, 6), MODELS[name], steps=40, seed=9, points=range(1, 41))
        for kind in (learner, *overriding(learner))
    )
    assert short.clicks[:, -1].sum() > 0
    for run in plain:
        for field in ("steps", "regret", "value", "clicks", "lists", "best", "last_loss"):
            np.testing.assert_array_equal(getattr(run, field), getattr(short, field))
        for array, expected in zip(run.state.arrays.values(), short.state.arrays.values(), strict=True):
            np.testing.assert_array_equal(array, expected)


def test_progress_is_reported():
    reported = []
    thali.simulate(policy, model, steps=600, progress=reported.append)
    assert sum(reported) == 600


@pytest.mark.parametrize("name", thali.POLICIES)
def test_states_at_recorded_steps_are_those_of_shorter_runs_to_the_last_bit(name):
    learner = thali.POLICIES[name](catalog, 3)
    seen = []

    def look(step, state):
        estimate = learner.estimate(state) if isinstance(learner, thali.LinearPolicy) else ()
        seen.append((step, state.copy(), estimate))

    run = thali.simulate(learner, model, steps=300, seed=3, points=[1, 70, 257], on_point=look)
    np.testing.assert_array_equal(run.regret, thali.simulate(learner, model, 300, 3, points=[1, 70, 257]).regret)
    assert [step for step, *_ in seen] == [1, 70, 257, 300]
    for step, state, estimate in seen:
        shorter = thali.simulate(learner, model, steps=step, seed=3).state
        for array, expected in zip(state.arrays.values(), shorter.arrays.values(), strict=True):
            np.testing.assert_array_equal(array, expected)
        if isinstance(learner, thali.LinearPolicy):
            np.testing.assert_array_equal(estimate, learner.estimate(shorter))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: thali.simulate(policy, model, steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: thali.simulate(policy, model, steps=10, seed=-1), "seed must be a whole number of at least 0"),
        (lambda: thali.simulate(None, model), "policy must be a thali.Policy, got None"),
        (lambda: thali.simulate(policy, None), "model must be a thali.ClickModel, got None"),
        (lambda: thali.simulate(policy, model, steps=10, state="x"), "state must be a thali.State, got 'x'"),
        (lambda: thali.simulate(policy, model, steps=10, points=None), "points must be a sequence, got None"),
        (lambda: thali.simulate(policy, model, steps=10, points=2.0), "points must be a sequence, got 2.0"),
        (lambda: thali.simulate(policy, model, steps=10, people=3), "people must be a sequence, got 3"),
        (
            lambda: thali.simulate(policy, model, steps=10, points=[3, 2]),
            "points must be in ascending order, got 3 before 2",
        ),
        (lambda: thali.simulate(policy, model, steps=10, points=[11]), "points must be .* from 1 to 10, got 11"),
        (
            lambda: thali.simulate(policy, model, steps=10, people=[1]),
            "people must contain one number for each of the model's 5 users, got 1",
        ),
        (
            lambda: thali.simulate(policy, model, steps=10, state=policy.init(2)),
            "state must have as many users as the model \\(5\\), got 2",
        ),
        (
            lambda: thali.simulate(policy, thali.DiverseCascade(thali.Catalog(W[:14]), theta), steps=10),
            "catalog of DiverseCascade must have the same items as the learner's catalog, which has 15, got 14",
        ),
        (
            lambda: thali.simulate(
                policy, thali.DiverseCascade(thali.Catalog(W, items=list("abcdefghijklmno")), theta), steps=10
            ),
            "must have the same items as the learner's catalog, where number 0 is 0, got 'a'",
        ),
        (
            lambda: thali.simulate(policy, thali.Cascade(np.ones((5, 14))), steps=10),
            "model must have as many items as the policy's catalog \\(15\\), got 14",
        ),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_learners_and_people_may_have_different_topics():
    """The learner sees two topics, of which one is steady. People click by four others, with other names."""
    tastes = thali.DiverseCascade(thali.Catalog(W, topics=["a", "b", "c", "d"]), theta)
    own = thali.Catalog(np.column_stack([W[:, 0], W.mean(axis=1)]), topics=["a", "quality"], fading=[True, False])
    learner = thali.CascadeLSB(own, 3)
    run = thali.simulate(learner, tastes, steps=50, seed=5, points=range(1, 51))
    assert run.state.M.shape == (5, 2, 2)
    state = learner.init(5)
    lost = tastes.click_probability(tastes.best_lists(3)) - tastes.click_probability(run.lists[:, 0])
    np.testing.assert_allclose(run.regret[:, 0], lost)
    np.testing.assert_array_equal(learner.recommend(state), run.lists[:, 0])


def test_removed_items_are_not_shown_in_a_simulation_either():
    fewer = thali.Catalog(W)
    fewer.remove(3)
    people = thali.DiverseCascade(fewer, theta)
    for make in thali.POLICIES.values():
        assert (thali.simulate(make(fewer, 3), people, steps=5, points=5).lists != 3).all()
    with pytest.raises(TypeError, match="OwnEpsilonGreedy does not define choose_among"):
        thali.simulate(OwnEpsilonGreedy(fewer, 3), people, steps=5)
