"""The quality of items: counts, the posterior and its prior, values, files, and the column of the catalog."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

import thali
from thali.policies.beta import learn_beta
from thali.policies.examined import RULES, examined, examined_positions


def feedback(rng, L=7, users=20, K=4):
    lists = np.argsort(rng.random((users, L)), axis=1)[:, :K]
    return lists, rng.random((users, K)) < 0.3


def plain_counts(L, lists, clicks, rule):
    """The definition, list by list."""
    n, c = np.zeros(L), np.zeros(L)
    for row, hits in zip(lists, clicks, strict=True):
        at = np.flatnonzero(hits)
        last = len(row) if not at.size or rule == "all" else {"first-click": at[0], "last-click": at[-1]}[rule] + 1
        for item, hit in list(zip(row, hits, strict=True))[:last]:
            n[item] += 1
            c[item] += hit
    return n, c


@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 2**32), K=st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_counts_are_those_of_the_definition_in_any_order_and_batch(rule, seed, K):
    rng = np.random.default_rng(seed)
    lists, clicks = feedback(rng, K=K)
    once, parts = (thali.Quality(7, rule=rule) for _ in range(2))
    once.add(lists, clicks)
    for user in rng.permutation(len(lists)):
        parts.add(lists[[user]], clicks[[user]])
    assert once == parts
    np.testing.assert_array_equal([once.examined, once.clicked], plain_counts(7, lists, clicks, rule))
    depth = [examined(row, RULES[rule]) for row in clicks]
    np.testing.assert_array_equal(examined_positions(clicks, RULES[rule]).sum(axis=1), depth)


@given(seed=st.integers(0, 2**32), strength=st.sampled_from([1.0, 0.1, 0.37]))
@settings(max_examples=25, deadline=None)
def test_subtract_undoes_add_and_merge_adds(seed, strength):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 9, size=7) * strength
    quality = thali.Quality.from_counts(start, start * rng.random(7))
    before, batch, other = quality.copy(), feedback(rng), feedback(rng)
    quality.add(*other)
    quality.add(*batch)
    quality.subtract(*other)
    apart = thali.Quality(7)
    apart.add(*batch)
    merged = before.copy()
    merged.merge(apart)
    np.testing.assert_allclose(quality.examined, merged.examined, atol=1e-12)
    np.testing.assert_allclose(quality.clicked, merged.clicked, atol=1e-12)
    quality.subtract(*batch)
    np.testing.assert_allclose(quality.clicked, before.clicked, atol=1e-12)
    assert (quality.clicked <= quality.examined).all()
    assert (quality.clicked >= 0.0).all()


def test_what_was_not_added_cannot_be_subtracted():
    quality = thali.Quality(3)
    quality.add([[0, 1]], [[False, True]])
    before = quality.copy()
    for lists, clicks in (([[2, 0]], [[False, False]]), ([[0, 1]], [[True, False]]), ([[1, 0]], [[False, False]])):
        with pytest.raises(ValueError, match="lists of subtract must have been added before"):
            quality.subtract(lists, clicks)
        assert quality == before


@pytest.mark.parametrize(("n", "c"), [(0, 0), (3, 0), (3, 3), (40, 7), (2.5, 0.5)])
def test_mean_and_deviation_are_those_of_the_posterior_by_integration(n, c):
    a, b = 1.7, 4.2
    quality = thali.Quality.from_counts([n], [c], prior=(a, b))

    def moment(power):
        return integrate.quad(lambda r: r ** (a - 1 + c + power) * (1 - r) ** (b - 1 + n - c), 0.0, 1.0)[0]

    mean = moment(1) / moment(0)
    assert quality.mean[0] == pytest.approx(mean, rel=1e-6)
    assert quality.deviation[0] == pytest.approx(np.sqrt(moment(2) / moment(0) - mean**2), rel=1e-5)
    np.testing.assert_allclose(quality.values(2.0), np.minimum(1.0, quality.mean + 2.0 * quality.deviation))
    draws = np.array([quality.values(rng=seed)[0] for seed in range(4000)])
    assert draws.mean() == pytest.approx(mean, abs=5.0 * quality.deviation[0] / np.sqrt(4000))
    assert draws.std() == pytest.approx(quality.deviation[0], rel=0.1)


def penalized(a, b, n, c):
    """The formula in the docstring of learn_beta."""
    s = a + b
    likelihood = np.sum(special.betaln(a + c, b + n - c) - special.betaln(a, b))
    return likelihood + 0.5 * np.log(a * b / s**2) - 0.5 * np.log(s / 10.0) ** 2


@pytest.mark.parametrize(("a", "b"), [(2.0, 8.0), (5.0, 60.0), (0.3, 0.6)])
def test_the_prior_of_simulated_items_is_found_again(a, b):
    rng = np.random.default_rng(3)
    n = rng.integers(0, 200, size=4000).astype(float)
    found = learn_beta(n, rng.binomial(n.astype(int), rng.beta(a, b, size=4000)).astype(float))
    assert found.mean == pytest.approx(a / (a + b), rel=0.05)
    assert found.strength == pytest.approx(a + b, rel=0.1)


@given(
    items=st.lists(st.tuples(st.integers(0, 300), st.floats(0.0, 1.0)), min_size=1, max_size=12),
    scale=st.sampled_from([1.0, 0.1, 1000.0]),
)
@settings(max_examples=60, deadline=None)
def test_no_other_prior_is_more_likely(items, scale):
    """Also with one item, equal rates, no clicks or only clicks. Compared with a grid of priors, and with neighbors."""
    n = scale * np.array([count for count, _ in items], dtype=float)
    c = np.round(n * np.array([rate for _, rate in items]))
    c = np.minimum(c, n)
    a, b = learn_beta(n, c)
    best = penalized(a, b, n, c)
    means = special.expit(np.linspace(-12, 12, 49))
    others = [(m * s, (1 - m) * s) for m in means for s in np.geomspace(0.05, 5e4, 40)]
    others += [(a * x, b * y) for x in (0.9, 1.0, 1.1) for y in (0.9, 1.0, 1.1)]
    assert best >= max(penalized(x, y, n, c) for x, y in others) - 1e-4 * max(1.0, abs(best))


def test_the_prior_is_learned_again_after_every_change():
    rng = np.random.default_rng(1)
    quality, batch = thali.Quality(7), feedback(rng)

    def check():
        fresh = thali.Quality.from_counts(quality.examined, quality.clicked)
        np.testing.assert_array_equal(quality.values(1.0), fresh.values(1.0))

    for change in (lambda: quality.add(*batch), lambda: quality.merge(quality.copy()), lambda: quality.grow(9)):
        change()
        check()
    quality.subtract(*batch)
    check()


def test_few_or_no_examinations_give_a_cautious_prior():
    nothing = thali.Quality(3)
    assert tuple(nothing.prior) == pytest.approx((5.0, 5.0), rel=1e-3)
    np.testing.assert_allclose(nothing.mean, 0.5)
    never = thali.Quality.from_counts([50, 1000, 0], [0, 0, 0])
    assert (never.mean > 0.0).all()
    assert never.mean[1] < never.mean[0] < never.mean[2] < 0.02
    equal = thali.Quality.from_counts(np.full(100, 1000), np.full(100, 200))
    np.testing.assert_allclose(equal.mean, 0.2, rtol=1e-3)
    assert equal.prior.strength < 1e6
    assert np.isfinite(never.values(rng=0)).all()


@pytest.mark.parametrize("prior", [(1e-6, 1e-6), (1e9, 1e-6), (1e-6, 1e9)])
def test_draws_from_extreme_priors_are_numbers_from_0_to_1(prior):
    drawn = thali.Quality(1000, prior=prior).values(rng=np.random.default_rng(0))
    assert ((drawn >= 0.0) & (drawn <= 1.0)).all()


def test_draws_depend_on_the_seed_only():
    quality = thali.Quality.from_counts([9, 5, 0], [1, 5, 0])
    np.testing.assert_array_equal(quality.values(rng=4), quality.values(rng=4))
    assert (quality.values(rng=4) != quality.values(rng=5)).all()


def test_the_newest_items_are_tried_and_at_most_one_in_a_hundred():
    n = np.full(300, 60.0)
    n[[5, 100, 298, 299]] = 10.0, 49.0, 0.0, 0.0
    quality = thali.Quality.from_counts(n, n * np.linspace(0.0, 0.5, 300))
    plain, tried = quality.values(), quality.values(trial=50)
    best = plain[n >= 50].max()
    np.testing.assert_array_equal(tried[[100, 298, 299]], best)
    rest = np.setdiff1d(np.arange(300), [100, 298, 299])
    np.testing.assert_array_equal(tried[rest], plain[rest])
    fewer = quality.values(trial=50, most_tried=2)
    np.testing.assert_array_equal(fewer[[298, 299]], best)
    np.testing.assert_array_equal(fewer[:298], plain[:298])
    among = np.ones(300, dtype=bool)
    among[[5, 299, np.argmax(plain * (n >= 50))]] = False  # 5 is not tried anyway
    others = quality.values(trial=50, most_tried=2, among=among)
    np.testing.assert_array_equal(others[[100, 298]], plain[(n >= 50) & among].max())
    rest = np.setdiff1d(np.arange(300), [100, 298])
    np.testing.assert_array_equal(others[rest], plain[rest])
    np.testing.assert_array_equal(thali.Quality(4).values(trial=50), thali.Quality(4).values())  # none is known


def test_a_start_from_popularity():
    data = thali.datasets.Interactions.of(
        [("ana", "a", 1), ("ana", "b", 1), ("bob", "a", 1), ("eve", "a", 1)], {"a": ["x"], "b": ["x"], "c": ["y"]}
    )
    quality = thali.Quality.from_interactions(data, strength=0.25)
    np.testing.assert_allclose(quality.examined, 0.75)
    np.testing.assert_allclose(quality.clicked, [0.75, 0.25, 0.0])
    with pytest.raises(ValueError, match="strength of Quality must be a number from 0 to 1, got 2"):
        thali.Quality.from_interactions(data, strength=2)


@pytest.mark.parametrize("prior", [None, (0.1, 2.3)])
def test_a_file_is_read_back_exactly_and_a_damaged_one_is_refused(tmp_path, prior):
    quality = thali.Quality.from_counts([0.1, 7], [0.1, 1 / 3], rule="all", prior=prior)
    path = tmp_path / "quality"
    quality.save(path)
    assert thali.Quality.load(path) == quality
    whole = path.read_bytes()
    for harm in (whole[: len(whole) // 2], b"", b"hello"):
        path.write_bytes(harm)
        with pytest.raises(ValueError, match="path of Quality.load must be a complete file"):
            thali.Quality.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "thali-quality-1", "rule": "all", "prior": None}))
    with pytest.raises(ValueError, match="'examined' is missing"):
        thali.Quality.load(path)
    thali.CascadeLSB(thali.Catalog(np.eye(2)), 1).init(1).save(path)
    with pytest.raises(ValueError, match="format must be 'thali-quality-1'"):
        thali.Quality.load(path)
    with pytest.raises(FileNotFoundError, match="found nothing"):
        thali.Quality.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q: q.add([[0, 0]], [[True, False]]), "lists must contain distinct item numbers from 0 to 2"),
        (lambda q: q.add([[0, 3]], [[True, False]]), "lists must contain distinct item numbers from 0 to 2"),
        (lambda q: q.add([0, 1], [True, False]), r"lists must have shape \(users, K\)"),
        (lambda q: q.add([[0, 1]], [[1, 0]]), "clicks must be an array of booleans"),
        (lambda q: q.add([[0, 1]], [[True]]), "clicks must have shape"),
        (lambda q: q.grow(2), "L of grow must be a whole number of at least 3, got 2"),
        (lambda q: q.merge(thali.Quality(4)), "other of merge must have L=3 and rule='first-click', got L=4"),
        (lambda q: q.merge(thali.Quality(3, rule="all")), "other of merge must have L=3"),
        (lambda q: q.merge(3), "other of merge must be a thali.Quality, got 3"),
        (lambda q: q.values(-1.0), "beta of values must be a number of at least 0, got -1.0"),
        (lambda q: q.values(float("nan")), "beta of values must be a number"),
        (lambda q: q.values(1.0, rng=0), "beta of values must be 0 if values are drawn with rng, got 1.0"),
        (lambda q: q.values(rng="a"), "rng of values must be a whole number"),
        (lambda q: q.values(trial=-1), "trial of values must be a number of at least 0, got -1"),
        (lambda q: q.values(among=[True]), r"among of values must have shape \(3,\), one for each item, got \(1,\)"),
        (lambda q: q.values(most_tried=0), "most_tried of values must be a whole number of at least 1, got 0"),
        (lambda q: q.refresh(thali.Catalog(np.eye(3)), 0), "topic of refresh must be steady.* got 0, which fades"),
        (lambda q: q.refresh(thali.Catalog(np.eye(3))), "topic must be in the catalog, got 'quality'"),
        (lambda q: q.refresh(thali.Catalog([[0.5]], fading=[False]), 0), "must have at least 3 items.* got 1"),
        (lambda q: q.refresh(thali.Catalog(np.ones((4, 1)), fading=[False]), 0, beta=-1), "beta of values must"),
        (lambda q: q.refresh(q), "catalog of refresh must be a thali.Catalog"),
        (lambda q: thali.Quality(0), "L of Quality must be a whole number of at least 1, got 0"),
        (lambda q: thali.Quality(3, rule="none"), "rule of Quality must be one of 'first-click'"),
        (lambda q: thali.Quality(3, prior=(0, 1)), "prior of Quality must be a number from 1e-06 to 1e"),
        (lambda q: thali.Quality(3, prior=(1, 1, 1)), r"prior of Quality must be two numbers \(a, b\), got 3"),
        (
            lambda q: thali.Quality.from_counts([1, 2], [1, 3]),
            "clicked of Quality must .* got 3 of 2 for item number 1",
        ),
        (lambda q: thali.Quality.from_counts([1, -2], [0, 0]), "examined of Quality must be from 0"),
        (lambda q: thali.Quality.from_counts([1, 2], [0]), "clicked of Quality must have shape"),
        (
            lambda q: thali.Quality.from_interactions([]),
            "interactions of Quality must be a thali.datasets",
        ),
    ],
)
def test_bad_input_is_refused_and_nothing_is_changed(call, message):
    quality = thali.Quality(3)
    quality.add([[0, 1]], [[False, True]])
    before = quality.copy()
    with pytest.raises((ValueError, TypeError), match=message):
        call(quality)
    assert quality == before
    with pytest.raises(ValueError, match="read-only"):
        quality.examined[0] = 5


def test_a_refreshed_column_has_the_values_also_of_items_that_were_added_and_removed():
    catalog = thali.Catalog([[0.5, 0.3], [0.0, 0.3], [0.2, 0.3]], topics=["x", "quality"], fading=[True, False])
    quality = thali.Quality(3)
    quality.add([[0, 1, 2], [2, 1, 0]], [[False, True, False], [False, True, False]])
    catalog.remove(1)
    catalog.put("new", topics=["x"])
    quality.refresh(catalog)
    assert quality.L == catalog.L == 4
    np.testing.assert_array_equal(catalog.dense[:, 1], quality.values(1.0))
    np.testing.assert_array_equal(catalog.dense[:3, 0], [0.5, 0.0, 0.2])
    quality.refresh(catalog, rng=3)
    np.testing.assert_array_equal(catalog.dense[:, 1], quality.values(rng=3))


def test_learned_quality_beats_none_and_a_tried_item_is_shown():
    """200 items with the same topic, 50 people a batch. The learner knows only the topic."""
    rng = np.random.default_rng(0)
    true = thali.Catalog(
        np.c_[np.full(200, 0.3), rng.beta(2, 6, size=200)], topics=["x", "quality"], fading=[True, False]
    )
    model = thali.DiverseCascade(true, np.full((50, 2), 0.5))
    mine = thali.Catalog(np.full((200, 2), 0.3), topics=["x", "quality"], fading=[True, False])
    quality, prior = thali.Quality(200), thali.Prior([0.5, 0.5], 0.01 * np.eye(2))
    policy = thali.CascadeLSB(mine, 5, prior=prior)
    earned = []
    for _ in range(60):
        quality.refresh(mine)
        lists = policy.recommend(policy.init(50))
        quality.add(lists, model.sample(lists, rng))
        earned.append(model.click_probability(lists).mean())
    assert np.mean(earned[-10:]) > earned[0] + 0.1
    number = mine.put("new", topics=["x"])
    quality.refresh(mine, trial=1)
    assert number in policy.recommend(policy.init(1))
