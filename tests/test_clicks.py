import numpy as np
import pytest

import reference
import thali
from instances import weights

rng = np.random.default_rng(1)
W = weights("sparse", 12, 4, rng)
theta = rng.dirichlet(np.ones(4), size=3)
lists = np.array([rng.permutation(12)[:4] for _ in range(3)])
MODELS = {
    "Cascade": thali.Cascade(rng.random((3, 12))),
    "DiverseCascade": thali.DiverseCascade(thali.Catalog(W), theta),
    "LinearSubmodular": thali.LinearSubmodular(thali.Catalog(W, coverage="max"), theta),
}


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
def test_attraction_and_click_probability_equal_the_definition(kind):
    model = thali.DiverseCascade(thali.Catalog(W, coverage=kind), theta)
    for user in range(3):
        chosen = lists[user].tolist()
        expected = [reference.gain(W, e, chosen[:k], kind) @ theta[user] for k, e in enumerate(chosen)]
        np.testing.assert_allclose(model.attraction(lists)[user], expected, rtol=1e-12)
        f = reference.click_probability(W, theta[user], chosen, kind)
        assert model.click_probability(lists)[user] == pytest.approx(f, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_people_click_as_often_as_their_model_says(name):
    """Frequencies over 40,000 draws within five standard errors, position by position, and jointly."""
    model, n = MODELS[name], 40_000
    generator = np.random.default_rng(2)
    clicks = np.array([model.sample(lists, generator) for _ in range(n)])
    expected = model.examination(lists) * model.attraction(lists)
    error = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(clicks.mean(axis=0) - expected) <= 5 * error + 1e-12).all()
    any_click = model.click_probability(lists)
    assert (np.abs(clicks.any(axis=2).mean(axis=0) - any_click) <= 5 * np.sqrt(any_click * (1 - any_click) / n)).all()
    np.testing.assert_allclose(model.expected_clicks(lists), expected.sum(axis=1))
    if model.leaves:
        assert clicks.sum(axis=2).max() == 1
        np.testing.assert_allclose(model.expected_clicks(lists), any_click)
    else:
        assert clicks.sum(axis=2).max() > 1


def test_expected_clicks_of_linear_submodular_people_is_coverage_times_theta():
    """Eq. yue number of clicks: ⟨c(A), θ⟩."""
    model = MODELS["LinearSubmodular"]
    for user in range(3):
        c = reference.coverage(W, lists[user].tolist(), "max")
        assert model.expected_clicks(lists)[user] == pytest.approx(c @ theta[user], rel=1e-12)


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
def test_best_lists_are_the_greedy_ones(kind):
    for model in (thali.DiverseCascade, thali.LinearSubmodular):
        found = model(thali.Catalog(W, coverage=kind), theta).best_lists(4)
        assert found.tolist() == [reference.greedy_list(W, t, 4, kind) for t in theta]
    attraction = np.array([[0.1, 0.5, 0.5, 0.2]])
    assert thali.Cascade(attraction).best_lists(3).tolist() == [[1, 2, 3]]


def test_models_do_not_follow_the_callers_array():
    mine, attraction = theta.copy(), np.full((1, 4), 0.5)
    diverse, cascade = thali.DiverseCascade(thali.Catalog(W), mine), thali.Cascade(attraction)
    before = diverse.attraction(lists)
    mine[:], attraction[:] = 5.0, 5.0
    np.testing.assert_array_equal(diverse.attraction(lists), before)
    assert cascade.attraction([[0]])[0, 0] == 0.5


def test_one_generator_for_each_user_draws_for_that_user_only():
    model = MODELS["LinearSubmodular"]
    batch = model.sample(lists, [np.random.default_rng(u) for u in range(3)])
    alone = thali.LinearSubmodular(model.catalog, theta[[2]]).sample(lists[[2]], np.random.default_rng(2))
    np.testing.assert_array_equal(batch[[2]], alone)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: thali.DiverseCascade(thali.Catalog(W), theta[0]), r"theta of DiverseCascade must have shape"),
        (lambda: thali.DiverseCascade(thali.Catalog(W), theta[:, :3]), r"theta of DiverseCascade must have shape"),
        (lambda: thali.DiverseCascade(thali.Catalog(W), -theta), r"theta of DiverseCascade must not be negative"),
        (
            lambda: thali.LinearSubmodular(thali.Catalog(W), 2 * theta),
            r"theta of LinearSubmodular must sum to at most 1 for each user",
        ),
        (lambda: thali.DiverseCascade(thali.Catalog(W), theta * np.nan), r"theta of DiverseCascade must be finite"),
        (lambda: thali.Cascade([[0.5, 1.1]]), r"attraction of Cascade must be from 0 to 1, got 1.1"),
        (lambda: thali.Cascade([0.5, 0.1]), r"attraction of Cascade must have shape"),
        (lambda: thali.DiverseCascade(None, theta), r"catalog of DiverseCascade must be a thali.Catalog, got None"),
        (lambda: MODELS["LinearSubmodular"].examination(lists + 9), r"lists must hold distinct item indices"),
        (lambda: MODELS["Cascade"].respond(lists, np.full((3, 4), np.nan)), r"luck must be finite"),
        (lambda: MODELS["Cascade"].respond(lists, np.zeros((3, 2))), r"luck must have shape"),
        (lambda: MODELS["Cascade"].attraction([[0, 1]]), r"lists must have shape"),
        (lambda: MODELS["Cascade"].best_lists(13), r"K of best_lists must be from 1 to the 12 items there are"),
        (lambda: MODELS["DiverseCascade"].attraction(lists + 9), r"lists must hold distinct item indices"),
        (lambda: MODELS["DiverseCascade"].sample(lists, None), r"rng must be a seed, a numpy.random.Generator, or one"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
