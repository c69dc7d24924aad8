"""Settings of click models, estimated from a data set, against their definitions written as plain loops."""

import numpy as np
import pytest

import thali
from thali.datasets.estimation import attractiveness


def ratings(seed, users=30, items=20, topics=4):
    """Ratings from 1 to 5 for some pairs. Some items have no topic, and some users love nothing."""
    rng = np.random.default_rng(seed)
    topics_of = {f"i{e:02}": [f"t{j}" for j in range(topics) if rng.random() < 0.4] for e in range(items)}
    liking = rng.random((users, items)) ** rng.uniform(0.5, 3.0, size=items)
    rows = [
        (f"u{u:02}", f"i{e:02}", int(1 + 5 * liking[u, e] * (u > 2)))
        for u in range(users)
        for e in range(items)
        if rng.random() < 0.3
    ]
    return thali.datasets.Interactions.of(rows, topics_of)


@pytest.mark.parametrize("seed", range(5))
def test_each_number_equals_its_definition(seed):
    data = ratings(seed)
    behaviour = thali.behaviour(data, at_least=4, K=6)
    assert behaviour.satisfaction == sum(value >= 4 for value in data.value) / len(data)
    assert behaviour.going_on == 1 - behaviour.satisfaction
    counts = [n for n in (int((data.user == u).sum()) for u in range(30)) if n > 0]
    deep = [sum(n / max(counts) > k / 6 + 1e-12 for n in counts) / len(counts) for k in range(6)]
    np.testing.assert_allclose(behaviour.examined, deep, rtol=1e-15)
    assert behaviour.perseverance == pytest.approx(sum(deep[1:]) / sum(deep[:-1]))
    assert behaviour.examined[0] == 1.0
    assert 0.0 < behaviour.examined[-1] < 1.0
    loved = data.attracted(at_least=4)
    weights, theta = attractiveness(loved).toarray(), thali.preferences(loved)
    F = np.zeros((30, 20))
    F[loved.user, loved.item] = 1.0
    a = [[weights[i] @ theta[u] for i in range(20)] for u in range(30)]
    slope, intercept = np.polyfit(np.ravel(a), F.ravel(), 1)
    assert (behaviour.intercept, behaviour.slope) == pytest.approx((intercept, slope), rel=1e-9)
    assert behaviour.extra == min(1.0, max(0.0, behaviour.intercept))
    assert 1.0 - behaviour.skip == pytest.approx(min(1.0, max(0.0, behaviour.intercept + behaviour.slope)), abs=1e-12)
    catalog = thali.Catalog.estimate(loved)
    thali.DependentClick(catalog, theta, going_on=behaviour.going_on)
    thali.DynamicBayesian(catalog, theta, satisfaction=behaviour.satisfaction, perseverance=behaviour.perseverance)
    thali.PositionBased(catalog, theta, examined=behaviour.examined).click_probability([range(6)] * 30)
    thali.NoisyCascade(catalog, theta, extra=behaviour.extra, skip=behaviour.skip)


def test_a_line_above_1_means_no_skipping_and_a_falling_line_is_replaced_by_the_mean():
    topics = {"both": ["x", "y"], "left": ["x"], "right": ["y"], "none": []}
    rows = [(person, item, 5) for person in "ab" for item in ("both", "left", "right")]
    steep = thali.behaviour(thali.datasets.Interactions.of(rows, topics), at_least=5, K=4)
    # ⟨w̄, θ⟩ is 1, 1/2, 1/2, 0 and F is 1, 1, 1, 0, for both people: the line is 1/4 + a, which is 5/4 at 1.
    assert (steep.intercept, steep.slope) == pytest.approx((0.25, 1.0))
    assert (steep.extra, steep.skip) == pytest.approx((0.25, 0.0))
    np.testing.assert_array_equal(steep.examined, [1.0, 1.0, 1.0, 1.0])
    # Each loves one of two items in x, with ⟨w̄, θ⟩ = 1/2, and the item without topics, with 0: the line is 1 - a.
    rows = [("a", "left", 5), ("b", "right", 5), ("a", "none", 5), ("b", "none", 5)]
    data = thali.datasets.Interactions.of(rows, {"left": ["x"], "right": ["x"], "none": []})
    falling = thali.behaviour(data, at_least=5, K=1)
    assert (falling.intercept, falling.slope) == pytest.approx((1.0, -1.0))
    assert (falling.extra, falling.skip) == pytest.approx((2 / 3, 1 / 3))


def test_if_nobody_loves_anything_there_are_no_extra_clicks_and_every_item_is_skipped():
    behaviour = thali.behaviour(ratings(0), at_least=9, K=3)
    assert (behaviour.satisfaction, behaviour.going_on, behaviour.extra, behaviour.skip) == (0.0, 1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: thali.behaviour(None, at_least=5, K=3),
            "interactions must be a thali.datasets.Interactions, got None",
        ),
        (
            lambda: thali.behaviour(ratings(0), at_least=5, K=21),
            r"K of behaviour must be between 1 and the number of items \(20\)",
        ),
        (lambda: thali.behaviour(ratings(0), at_least=None, K=2), "at_least of attracted must be a finite number"),
        (
            lambda: thali.behaviour(ratings(0).attracted(9), at_least=5, K=2),
            "interactions must contain at least one interaction",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
