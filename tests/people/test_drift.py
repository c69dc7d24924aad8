"""Preferences that change: regret against the currently best list, the steps of each stage, and bad input."""

import numpy as np
import pytest
from models import MODELS, Fixed, W, catalog, model, policy, theta

import thali
from thali.lab.simulate import CHUNK

OTHER = theta[::-1].copy()
DRIFTS = {
    "abrupt": thali.Drift.abrupt(model, model.with_theta(OTHER), when=30),
    "gradual": thali.Drift.gradual(model, model.with_theta(OTHER), when=10, length=31, stages=7),
    "back and forth": thali.Drift.back_and_forth(model, model.with_theta(OTHER), period=7),
    "other people": thali.Drift([model, MODELS["PositionBased"], MODELS["Cascade"]], [0, 5, 50]),
}


def test_regret_of_drifting_people_equals_values_computed_by_hand():
    """Each item covers half of one topic, and a list has one item.

    The click probability of the shown list is 0.5·0.9 before the change and 0.5·0.1 after it. The best list always
    has 0.45.
    """
    halves = thali.Catalog([[0.5, 0.0], [0.0, 0.5]])
    before, after = thali.DiverseCascade(halves, [[0.9, 0.1]]), thali.DiverseCascade(halves, [[0.1, 0.9]])
    run = thali.simulate(Fixed(halves, 1), thali.Drift.abrupt(before, after, 3), steps=5, points=range(1, 6))
    np.testing.assert_allclose(run.regret[0], [0.0, 0.0, 0.0, 0.4, 0.8], atol=1e-15)
    np.testing.assert_allclose(run.value[0], [0.45, 0.9, 1.35, 1.4, 1.45])
    np.testing.assert_allclose([run.best[0], run.last_loss[0]], [0.45, 0.4])
    run = thali.simulate(Fixed(halves, 1), thali.Drift.back_and_forth(before, after, 2), steps=8, points=range(1, 9))
    np.testing.assert_allclose(run.regret[0], [0.0, 0.0, 0.4, 0.8, 0.8, 0.8, 1.2, 1.6], atol=1e-15)
    slowly = thali.Drift.gradual(before, after, 2, 4, stages=2)  # θ is (0.5, 0.5) at steps 2 and 3: nothing is lost
    run = thali.simulate(Fixed(halves, 1), slowly, steps=6, points=range(1, 7))
    np.testing.assert_allclose(run.regret[0], [0.0, 0.0, 0.0, 0.0, 0.4, 0.8], atol=1e-15)
    np.testing.assert_allclose(run.value[0], np.cumsum([0.45, 0.45, 0.25, 0.25, 0.05, 0.05]))


@pytest.mark.parametrize("name", DRIFTS)
def test_regret_of_drifting_people_is_against_the_currently_best_list(name):
    people, n = DRIFTS[name], CHUNK + 30
    run = thali.simulate(policy, people, steps=n, seed=1, points=range(1, n + 1))
    stages = [people.at(step) for step in range(n)]
    best = np.array([stage.click_probability(stage.best_lists(3)) for stage in stages])
    shown = np.array([stage.click_probability(run.lists[:, step]) for step, stage in enumerate(stages)])
    np.testing.assert_allclose(run.regret, np.cumsum(best - shown, axis=0).T, atol=1e-12)
    np.testing.assert_allclose(run.value, np.cumsum(shown, axis=0).T, rtol=1e-12)
    np.testing.assert_array_equal(run.best, best[-1])
    assert len({id(stage) for stage in stages}) == len(people.stages)


@pytest.mark.parametrize("learner", thali.POLICIES)
def test_a_drifting_person_alone_has_the_same_results_as_in_a_batch(learner):
    learner = thali.POLICIES[learner](catalog, 3)
    batch = thali.simulate(learner, DRIFTS["gradual"], steps=60, seed=3)
    one = thali.DynamicBayesian(catalog, theta[[3]], satisfaction=1.0)  # equivalent to the diverse cascade
    alone = thali.Drift.gradual(one, one.with_theta(OTHER[[3]]), when=10, length=31, stages=7)
    run = thali.simulate(learner, alone, steps=60, seed=3, people=[3])
    for field in ("regret", "value", "clicks", "lists", "best", "last_loss"):
        np.testing.assert_array_equal(getattr(run, field), getattr(batch, field)[[3]])


def test_a_drift_without_change_equals_its_model():
    unchanged = [thali.simulate(policy, people, steps=300) for people in (model, thali.Drift([model], [0]))]
    changed = [
        thali.simulate(policy, thali.Drift.abrupt(model, model.with_theta(to), 90), steps=300) for to in (theta, OTHER)
    ]
    for run in (*unchanged[1:], changed[0]):
        np.testing.assert_array_equal(run.regret, unchanged[0].regret)
        np.testing.assert_array_equal(run.state.M, unchanged[0].state.M)
    same = unchanged[0].steps <= 90
    np.testing.assert_array_equal(changed[1].regret[:, same], unchanged[0].regret[:, same])
    assert (changed[1].regret[:, -1] != unchanged[0].regret[:, -1]).any()


def test_each_stage_applies_at_its_steps():
    assert [DRIFTS["abrupt"].at(step) is model for step in (0, 29, 30, 10**6)] == [True, True, False, False]
    assert [DRIFTS["back and forth"].at(step) is model for step in (0, 6, 7, 13, 14, 7 * 10**6)] == [
        *(True, True, False, False, True, True)
    ]
    gradual = DRIFTS["gradual"]
    assert gradual.starts == [0, 10, 14, 18, 23, 27, 32, 36]
    for i, stage in enumerate(gradual.stages):
        np.testing.assert_allclose(stage.theta, theta + i / 7 * (OTHER - theta), atol=1e-15)
    for people in DRIFTS.values():
        assert (people.users, people.L) == (5, 15)
        assert people.catalog is people.stages[-1].catalog
    np.testing.assert_array_equal(gradual.theta, OTHER)
    assert DRIFTS["other people"].theta is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: DRIFTS["abrupt"].sample([[0, 1, 2]] * 5, 0),
            r"attraction of Drift depends on the step, .* use drift.at\(step\).attraction",
        ),
        (lambda: DRIFTS["abrupt"].best_lists(3), "best_lists of Drift depends on the step"),
        (
            lambda: thali.Drift([], []),
            "starts of Drift must have one step for each stage, .* got 0 starts for 0 stages",
        ),
        (
            lambda: thali.Drift([model], [0, 5]),
            "starts of Drift must have one step for each stage, .* got 2 starts for 1 stages",
        ),
        (lambda: thali.Drift([model, model], [1, 5]), r"starts of Drift must begin with 0 and increase, got \[1, 5\]"),
        (lambda: thali.Drift([model, model], [0, 0]), r"starts of Drift must begin with 0 and increase, got \[0, 0\]"),
        (lambda: thali.Drift([model, model], [0, 5], cycle=5), "cycle of Drift must be .* at least 6, got 5"),
        (lambda: thali.Drift([model, None], [0, 5]), "stages of Drift must be a thali.ClickModel, got None"),
        (
            lambda: thali.Drift([model, DRIFTS["abrupt"]], [0, 5]),
            "stages of Drift must not be Drift models themselves",
        ),
        (
            lambda: thali.Drift.abrupt(model, thali.DiverseCascade(catalog, theta[:2]), 5),
            "must have the same numbers of users and items, got 5 users and 15 items in one stage, and 2 users",
        ),
        (
            lambda: thali.Drift.abrupt(thali.DiverseCascade(thali.Catalog(W, topics=list("abcd")), theta), model, 5),
            "stages of Drift must have the same items and topics, got different names",
        ),
        (lambda: thali.Drift.abrupt(model, model, 0), "when of abrupt must be a whole number of at least 1, got 0"),
        (lambda: thali.Drift.gradual(model, model, 5, 49), "length of gradual must be .* at least 50, got 49"),
        (
            lambda: thali.Drift.gradual(model, MODELS["Cascade"], 5, 50),
            "'before' and 'after' of gradual must be models of the same class .*, got DiverseCascade and Cascade",
        ),
        (
            lambda: thali.Drift.gradual(MODELS["Cascade"], MODELS["Cascade"], 5, 50),
            "'before' and 'after' of gradual must have the same shape, got",
        ),
        (
            lambda: thali.Drift.gradual(None, None, 5, 50),
            "'before' and 'after' of gradual must be models of the same class with theta",
        ),
        (lambda: DRIFTS["abrupt"].at(-1), "step must be a whole number of at least 0, got -1"),
        (lambda: thali.Drift.back_and_forth(model, model, 0), "period of back_and_forth must be .* at least 1, got 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
