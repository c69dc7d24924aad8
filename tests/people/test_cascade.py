import numpy as np
import pytest
import reference
from instances import weights
from scipy.stats import chisquare

import thali

rng = np.random.default_rng(1)
W = weights("sparse", 12, 4, rng)
theta = rng.dirichlet(np.ones(4), size=3)
lists = np.array([rng.permutation(12)[:4] for _ in range(3)])
SETTINGS = {
    "DiverseCascade": {},
    "LinearSubmodular": {},
    "DependentClick": {"going_on": [0.7, 0.4, 0.2, 0.1, 0.9]},
    "DynamicBayesian": {"satisfaction": 0.3, "perseverance": 0.8},
    "PositionBased": {"examined": [0.9, 0.4, 0.6, 0.1, 0.2]},
    "NoisyCascade": {"extra": 0.15, "skip": 0.25},
}


def make(name, catalog, theta, **settings):
    return getattr(thali, name)(catalog, theta, **(settings or SETTINGS[name]))


MODELS = {
    "Cascade": thali.Cascade(rng.random((3, 12))),
    "Cascade.of_topics": thali.Cascade.of_topics(thali.Catalog(W), theta),
    **{
        name: make(name, thali.Catalog(W, coverage="max" if name[0] == "L" else "probabilistic"), theta)
        for name in SETTINGS
    },
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


# All possible events at position k with an item of attraction a, as defined by each model's paper or docstring:
# (probability, examined, clicked, continues).
EVENTS = {
    "DiverseCascade": lambda a, k: [(a, 1, 1, 0), (1 - a, 1, 0, 1)],
    "LinearSubmodular": lambda a, k: [(a, 1, 1, 1), (1 - a, 1, 0, 1)],
    "DependentClick": lambda a, k, going_on: [
        (a * going_on[k], 1, 1, 1),
        (a * (1 - going_on[k]), 1, 1, 0),
        (1 - a, 1, 0, 1),
    ],
    "DynamicBayesian": lambda a, k, satisfaction, perseverance: [
        (a * satisfaction, 1, 1, 0),
        (a * (1 - satisfaction) * perseverance, 1, 1, 1),
        (a * (1 - satisfaction) * (1 - perseverance), 1, 1, 0),
        ((1 - a) * perseverance, 1, 0, 1),
        ((1 - a) * (1 - perseverance), 1, 0, 0),
    ],
    "PositionBased": lambda a, k, examined: [
        (examined[k] * a, 1, 1, 1),
        (examined[k] * (1 - a), 1, 0, 1),
        (1 - examined[k], 0, 0, 1),
    ],
    "NoisyCascade": lambda a, k, extra, skip: [
        (a * (1 - skip), 1, 1, 0),
        (a * skip, 1, 0, 1),
        ((1 - a) * extra, 1, 1, 1),
        ((1 - a) * (1 - extra), 1, 0, 1),
    ],
}


def outcome_probabilities(name, settings, attraction):
    """Return the probability of each outcome (clicks, examined), by enumerating all sequences of events."""
    probabilities = {}

    def visit(k, p, clicks, examined, still_browsing):
        if k == len(attraction):
            probabilities[clicks, examined] = probabilities.get((clicks, examined), 0.0) + p
            return
        events = EVENTS[name](attraction[k], k, **settings) if still_browsing else [(1.0, 0, 0, 0)]
        for event_p, is_examined, is_clicked, continues in events:
            visit(k + 1, p * event_p, (*clicks, is_clicked), (*examined, is_examined), still_browsing and continues)

    visit(0, 1.0, (), (), True)
    return probabilities


def attractions(W, theta, items, kind="probabilistic"):
    return [reference.attraction(W, theta, e, items[:k], kind) for k, e in enumerate(items)]


def agreement(drawn, probabilities):
    """The p-value of Pearson's test that (clicks, examined) have these probabilities. Rare outcomes are merged."""
    both = np.hstack(drawn).astype(np.int64)
    bits = 2 ** np.arange(both.shape[1])
    observed = np.bincount(both @ bits, minlength=2 * bits[-1])
    expected = np.zeros(len(observed))
    for (clicks, examined), p in probabilities.items():
        expected[np.array([*clicks, *examined]) @ bits] = p * len(both)
    assert not observed[expected == 0].any()
    rare = expected < 10
    observed, expected = (np.append(part[~rare], part[rare].sum()) for part in (observed, expected))
    kept = expected >= 1
    return chisquare(observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()).pvalue


@pytest.mark.parametrize("name", SETTINGS)
def test_sampled_outcomes_have_the_probabilities_of_their_model(name):
    """Test the joint distribution of clicks and examined positions in 200,000 draws. Slightly wrong settings fail."""
    n, settings = 200_000, SETTINGS[name]
    attractive = np.random.default_rng(5).uniform(0.3, 0.9, size=(6, 4))
    for items in ([2, 0, 5], [1, 4, 3, 0]):
        person = np.array([0.1, 0.4, 0.3, 0.2])
        model = make(name, thali.Catalog(attractive), np.tile(person, (n, 1)))
        shown, uniforms = np.tile(items, (n, 1)), np.random.default_rng(len(items)).random((n, len(items)))
        drawn = model.walk(shown, uniforms)
        np.testing.assert_array_equal(drawn[0], model.respond(shown, uniforms))
        a = attractions(attractive, person, items)
        assert agreement(drawn, outcome_probabilities(name, settings, a)) > 1e-3
        assert agreement(drawn, outcome_probabilities(name, settings, np.array(a) * 0.97)) < 1e-4
        for setting, value in settings.items():
            other = settings | {setting: np.array(value) * 0.95}
            assert agreement(drawn, outcome_probabilities(name, other, a)) < 1e-4


def test_sampled_outcomes_of_a_plain_cascade_have_its_probabilities():
    n, items = 200_000, [1, 4, 3, 0]
    attractive, person = np.random.default_rng(5).uniform(0.3, 0.9, size=(6, 4)), np.array([0.1, 0.4, 0.3, 0.2])
    alone = attractive @ person  # regardless of the items above
    shown, uniforms = np.tile(items, (n, 1)), np.random.default_rng(6).random((n, 4))
    for model in (
        thali.Cascade(np.tile(alone, (n, 1))),
        thali.Cascade.of_topics(thali.Catalog(attractive), np.tile(person, (n, 1))),
    ):
        drawn = model.walk(shown, uniforms)
        assert agreement(drawn, outcome_probabilities("DiverseCascade", {}, alone[items])) > 1e-3
        assert agreement(drawn, outcome_probabilities("DiverseCascade", {}, 0.97 * alone[items])) < 1e-4
        probabilities = outcome_probabilities("DiverseCascade", {}, alone[items])
        examined = sum(p * np.array(examined) for (_, examined), p in probabilities.items())
        np.testing.assert_allclose(model.examination(shown)[0], examined, rtol=1e-12)


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@pytest.mark.parametrize("name", SETTINGS)
def test_examination_and_clicks_equal_the_sums_over_all_outcomes(name, kind):
    model = make(name, thali.Catalog(W, coverage=kind), theta)
    for user in range(3):
        probabilities = outcome_probabilities(
            name, SETTINGS[name], attractions(W, theta[user], lists[user].tolist(), kind)
        )
        assert sum(probabilities.values()) == pytest.approx(1.0, abs=1e-12)
        examined = sum(p * np.array(examined) for (_, examined), p in probabilities.items())
        clicks = sum(p * sum(clicks) for (clicks, _), p in probabilities.items())
        at_least_one = sum(p for (clicks, _), p in probabilities.items() if any(clicks))
        np.testing.assert_allclose(model.examination(lists)[user], examined, rtol=1e-12)
        assert model.expected_clicks(lists)[user] == pytest.approx(clicks, rel=1e-12)
        assert model.click_probability(lists)[user] == pytest.approx(at_least_one, rel=1e-12)


@pytest.mark.parametrize("name", ["Cascade", "DiverseCascade", "LinearSubmodular"])
def test_the_papers_models_equal_the_papers_formulas_bit_for_bit(name):
    """A position is clicked if its number is below the attraction (in a cascade, only the first such position).

    The probability of a click is f = 1 - Π (1 - attraction).
    """
    model, generator = MODELS[name], np.random.default_rng(4)
    for K in [1, 2, 5, 12] * 25:
        shown = np.array([generator.permutation(12)[:K] for _ in range(3)])
        attraction, uniforms = model.attraction(shown), generator.random((3, K))
        uniforms.flat[:: 1 + K // 2] = generator.choice([0.0, attraction[0, 0], np.nextafter(1.0, 0.0)])
        clicks, examined = uniforms < attraction, np.ones((3, K), dtype=bool)
        if name != "LinearSubmodular":
            examined = np.cumsum(clicks, axis=1) - clicks == 0
        np.testing.assert_array_equal(model.respond(shown, uniforms), clicks & examined)
        np.testing.assert_array_equal(model.walk(shown, uniforms)[1], examined)
        np.testing.assert_array_equal(model.click_probability(shown), 1.0 - np.prod(1.0 - attraction, axis=1))


@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("DependentClick", {"going_on": 0.0}, "DiverseCascade"),
        ("DependentClick", {"going_on": 1.0}, "LinearSubmodular"),
        ("DynamicBayesian", {"satisfaction": 1}, "DiverseCascade"),
        ("DynamicBayesian", {"satisfaction": 0}, "LinearSubmodular"),
        ("PositionBased", {"examined": np.ones(12)}, "LinearSubmodular"),
        ("NoisyCascade", {"extra": 0.0, "skip": 0.0}, "DiverseCascade"),
    ],
)
def test_models_at_their_limits_equal_the_papers_models_bit_for_bit(name, settings, limit):
    zeros = np.vstack([np.zeros((2, 4)), W[2:]])  # items that attract nobody
    catalog, generator = thali.Catalog(zeros), np.random.default_rng(6)
    model, paper = make(name, catalog, theta, **settings), make(limit, catalog, theta)
    for K in [1, 4, 12] * 20:
        shown, uniforms = np.array([generator.permutation(12)[:K] for _ in range(3)]), generator.random((3, K))
        for mine, expected in zip(
            (*model.walk(shown, uniforms), *model.outcome(shown, uniforms), model.examination(shown)),
            (*paper.walk(shown, uniforms), *paper.outcome(shown, uniforms), paper.examination(shown)),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, expected)
    np.testing.assert_array_equal(model.best_lists(5), paper.best_lists(5))


def test_a_single_going_on_value_applies_to_every_position():
    uniforms = rng.random((3, 4))
    one, each = (
        thali.DependentClick(thali.Catalog(W), theta, going_on=going_on).walk(lists, uniforms)
        for going_on in (0.6, np.full(4, 0.6))
    )
    np.testing.assert_array_equal(one, each)


def test_attraction_in_a_cascade_of_topics_does_not_depend_on_position():
    catalog = thali.Catalog(W)
    model = thali.Cascade.of_topics(catalog, theta)
    expected = np.array([[W[e] @ t for e in items] for items, t in zip(lists, theta, strict=True)])
    np.testing.assert_allclose(model.attraction(lists), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.theta, theta)
    assert model.catalog is catalog
    best = model.best_lists(3)
    catalog.remove(best[0, 0])
    assert best[0, 0] not in model.best_lists(11)
    assert thali.Cascade.of_topics(thali.Catalog([[1.0, 1.0]]), [[0.1 + 0.2, 0.7]]).attraction([[0]])[0, 0] == 1.0


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@pytest.mark.parametrize("name", SETTINGS)
def test_best_lists_add_the_most_to_the_probability_of_a_click_at_every_position(name, kind):
    """Brute force: compute f from all outcomes, for every remaining item at each position."""

    def f(user, items):
        probabilities = outcome_probabilities(name, SETTINGS[name], attractions(W, theta[user], items, kind))
        return sum(p for (clicks, _), p in probabilities.items() if any(clicks))

    best = make(name, thali.Catalog(W, coverage=kind), theta).best_lists(4).tolist()
    for user, items in enumerate(best):
        for k in range(4):
            others = [f(user, [*items[:k], e]) for e in range(12) if e not in items[:k]]
            assert f(user, items[: k + 1]) >= max(others) - 1e-12
            assert max(others) > min(others) + 1e-6


def test_with_theta_changes_preferences_and_keeps_the_other_settings():
    for name in ("Cascade.of_topics", *SETTINGS):
        model = MODELS[name]
        other, back = model.with_theta(theta[::-1]), model.with_theta(theta[::-1]).with_theta(theta)
        np.testing.assert_array_equal(other.theta, theta[::-1])
        uniforms = rng.random((3, 4))
        np.testing.assert_array_equal(back.walk(lists, uniforms), model.walk(lists, uniforms))
        assert (other.click_probability(lists) != model.click_probability(lists)).any()


def test_expected_clicks_of_linear_submodular_users_equal_coverage_times_theta():
    """The expected number of clicks in the model of Section 2.2: ⟨c(A), θ⟩."""
    model = MODELS["LinearSubmodular"]
    for user in range(3):
        c = reference.coverage(W, lists[user].tolist(), "max")
        assert model.expected_clicks(lists)[user] == pytest.approx(c @ theta[user], rel=1e-12)


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
def test_best_lists_are_greedy_lists(kind):
    for model in (thali.DiverseCascade, thali.LinearSubmodular):
        best = model(thali.Catalog(W, coverage=kind), theta).best_lists(4)
        assert best.tolist() == [reference.greedy_list(W, t, 4, kind) for t in theta]
    attraction = np.array([[0.1, 0.5, 0.5, 0.2]])
    assert thali.Cascade(attraction).best_lists(3).tolist() == [[1, 2, 3]]


def test_models_copy_the_callers_array():
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
    ("call", "message"),
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
        (lambda: MODELS["LinearSubmodular"].examination(lists + 9), r"lists must contain distinct item numbers"),
        (lambda: MODELS["Cascade"].respond(lists, np.full((3, 4), np.nan)), r"uniforms must be finite"),
        (lambda: MODELS["Cascade"].respond(lists, np.zeros((3, 2))), r"uniforms must have shape"),
        (lambda: MODELS["Cascade"].outcome(lists, np.zeros((3, 2))), r"uniforms must have shape"),
        (lambda: MODELS["Cascade"].attraction([[0, 1]]), r"lists must have shape"),
        (lambda: MODELS["Cascade"].best_lists(13), r"K of best_lists must be between 1 and the number of items \(12\)"),
        (lambda: MODELS["DiverseCascade"].attraction(lists + 9), r"lists must contain distinct item numbers"),
        (
            lambda: make("DependentClick", thali.Catalog(W), theta, going_on=2),
            r"going_on of DependentClick must be a number from 0 to 1, got 2",
        ),
        (
            lambda: make("DependentClick", thali.Catalog(W), theta, going_on=[0.5, -0.5]),
            r"going_on of DependentClick must be from 0 to 1, got -0.5",
        ),
        (
            lambda: make("DependentClick", thali.Catalog(W), theta, going_on=[0.5] * 3).sample(lists, 0),
            r"going_on of DependentClick must have at least 4 numbers, one for each position of a list, got 3",
        ),
        (
            lambda: make("DependentClick", thali.Catalog(W), theta, going_on="often"),
            r"going_on of DependentClick must be a number from 0 to 1, got 'often'",
        ),
        (
            lambda: make("DynamicBayesian", thali.Catalog(W), theta, satisfaction=np.nan),
            r"satisfaction of DynamicBayesian must be a number from 0 to 1, got nan",
        ),
        (
            lambda: make("DynamicBayesian", thali.Catalog(W), theta, satisfaction=0.5, perseverance=-1),
            r"perseverance of DynamicBayesian must be a number from 0 to 1, got -1",
        ),
        (
            lambda: make("PositionBased", thali.Catalog(W), theta, examined=0.5),
            r"examined of PositionBased must have shape \(K,\)",
        ),
        (
            lambda: make("PositionBased", thali.Catalog(W), theta, examined=[1.0, np.inf]),
            r"examined of PositionBased must be finite, got inf",
        ),
        (
            lambda: make("PositionBased", thali.Catalog(W), theta, examined=[1.0, 0.5]).examination(lists),
            r"examined of PositionBased must have at least 4 numbers, one for each position of a list, got 2",
        ),
        (
            lambda: make("NoisyCascade", thali.Catalog(W), theta, extra=1.5, skip=0.0),
            r"extra of NoisyCascade must be a number from 0 to 1, got 1.5",
        ),
        (
            lambda: make("NoisyCascade", thali.Catalog(W), theta, extra=0.75, skip=0.5),
            r"extra and skip of NoisyCascade must sum to at most 1, got 1.25",
        ),
        (lambda: thali.Cascade.of_topics(None, theta), r"catalog of Cascade must be a thali.Catalog, got None"),
        (lambda: thali.Cascade.of_topics(thali.Catalog(W), -theta), r"theta of Cascade must not be negative"),
        (lambda: MODELS["Cascade"].with_theta(theta), r"with_theta of Cascade needs a model made by of_topics"),
        (lambda: MODELS["DiverseCascade"].sample(lists, None), r"rng must be a seed, a numpy.random.Generator, or one"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
