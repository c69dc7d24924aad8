"""Quality relative to expected clicks: against a plain transcription, and what it is for."""

import numpy as np
import pytest

import thali

W = np.column_stack([np.random.default_rng(1).random((8, 2)) * 0.4, np.linspace(0.1, 0.4, 8)])


def catalog():
    return thali.Catalog(W, topics=["a", "b", "quality"], fading=[True, True, False])


def start(L=8):
    return thali.Quality.from_counts(np.full(L, 40.0), np.linspace(4.0, 16.0, L), prior=(2.0, 6.0))


def test_it_is_a_plain_transcription_of_the_formulas():
    rng = np.random.default_rng(0)
    prior = thali.Prior([0.3, 0.2, 0.5], np.eye(3) * 0.05, sigma=0.3)
    policy = thali.CascadeLSB(catalog(), K=3, prior=prior)
    state, quality = policy.init(2), thali.RelativeQuality(start())
    a, b = 2.0, 6.0
    n, c = start().examined, start().clicked
    q = (a + c) / (a + b + n)
    seen, hits, m = np.zeros(8), np.zeros(8), np.zeros(8)
    for step in range(30):
        lists = np.array([rng.choice(8, 3, replace=False) for _ in range(2)])
        clicks = rng.random((2, 3)) < 0.3
        theta, gains = policy.estimate(state), policy.gains(lists)
        expected = quality.expected(policy, state, lists)
        for user in range(2):
            for k in range(3):
                e = lists[user, k]
                x = gains[user, k].copy()
                x[2] = q[e]  # the quality of the start, not the one in the catalog by now
                assert expected[user, k] @ [1.0, q[e]] == pytest.approx(x @ theta[user], abs=1e-8)
                seen[e] += 1
                hits[e] += clicks[user, k]
                m[e] += x @ theta[user]
                if clicks[user, k]:
                    break
        quality.add(lists, clicks, expected)
        policy.update(state, lists, clicks)
        if step == 10:
            quality.refresh(policy.catalog)
    assert (m > 0.0).all()
    scale = (1 + hits.sum()) / (1 + m.sum())
    shape, rate = a + c + hits, (a + c + scale * m) / q
    np.testing.assert_array_equal(quality.since[:2], (seen, hits))
    np.testing.assert_allclose(quality.mean, shape / rate, rtol=1e-6)
    np.testing.assert_allclose(quality.deviation, np.sqrt(shape) / rate, rtol=1e-6)
    np.testing.assert_allclose(quality.of(3), (n[3] + seen[3], c[3] + hits[3], quality.mean[3], quality.deviation[3]))
    mean = quality.mean
    np.testing.assert_allclose(quality.rates, mean * (1 + hits.sum()) / (1 + (seen * mean).sum()))
    again = thali.RelativeQuality(start(), quality.since)
    np.testing.assert_array_equal(again.mean, quality.mean)


def test_a_better_start_does_not_count_the_same_clicks_twice():
    """All items were examined by people who care for quality. Item 0 is twice as good as the first start says."""
    since = np.zeros((4, 8))
    since[0], since[1], since[3] = 1000.0, 1000.0 * start().clicked / 40.0, 1000.0
    since[1, 0] *= 2.0
    old = thali.RelativeQuality(start(), since)
    better = thali.Quality.from_counts(np.full(8, 4000.0), start().clicked * [200.0, *[100.0] * 7], prior=(2.0, 6.0))
    new = thali.RelativeQuality(better, since)
    assert old.mean[0] > 1.4 * old.known[0]
    np.testing.assert_allclose(new.mean, new.known, rtol=0.05)


def test_what_is_clicked_as_often_as_expected_keeps_its_quality_even_if_all_expectations_are_too_high():
    since = np.array([np.full(8, 100.0), np.full(8, 30.0), np.full(8, 90.0), np.zeros(8)])
    quality = thali.RelativeQuality(start(), since)
    np.testing.assert_allclose(quality.mean, quality.known, rtol=5e-3)


def test_a_new_item_is_tried_and_then_has_the_quality_that_its_clicks_show():
    films = catalog()
    quality = thali.RelativeQuality(start())
    films.put("bad", W[0])
    films.put("good", W[0])
    assert quality.refresh(films, trial=20.0, most_tried=1).tolist() == [9]
    assert films.dense_column("quality")[9] == films.dense_column("quality")[:8].max()
    assert films.dense_column("quality")[8] == 0.25  # the mean of the prior
    for e, clicked in ((9, True), (8, False)):
        quality.add([[e]] * 20, [[clicked]] * 20, [[[0.25, 0.0]]] * 20)
    quality.add([[0]] * 60, [[True]] * 15 + [[False]] * 45, [[[0.25, 0.0]]] * 60)
    assert quality.refresh(films, trial=20.0).tolist() == []
    column = films.dense_column("quality")
    assert column[8] < 0.12 < 0.4 < column[9]


def test_refusals_change_nothing():
    quality = thali.RelativeQuality(start())
    cases = [
        (([[0, 0]], [[True, False]], [[[0.1, 0.1]] * 2]), "lists"),
        (([[0, 8]], [[True, False]], [[[0.1, 0.1]] * 2]), "lists"),
        (([[0, 1]], [[True]], [[[0.1, 0.1]] * 2]), "clicks"),
        (([[0, 1]], [[True, False]], [[0.1, 0.1]]), "expected must have shape"),
        (([[0, 1]], [[True, False]], [[[0.1, np.nan]] * 2]), "expected"),
    ]
    for arguments, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            quality.add(*arguments)
    assert not np.any(quality.since)
    with pytest.raises(ValueError, match="since must have at least 8 items, as the start has, got 7"):
        thali.RelativeQuality(start(), np.zeros((4, 7)))
    with pytest.raises(ValueError, match="examinations and clicks of since must be"):
        thali.RelativeQuality(start(), np.full((4, 8), -1.0))
    with pytest.raises(ValueError, match="topic of refresh must be steady"):
        quality.refresh(catalog(), "a")
    with pytest.raises((TypeError, ValueError), match="start of RelativeQuality"):
        thali.RelativeQuality([1.0])
