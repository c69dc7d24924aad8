import numpy as np
import pytest

from thali.people import model as browse

rng = np.random.default_rng(3)


def twin(click, after_click, after_pass, luck):
    """Clicks, how many positions were examined, and the probability of a click, for all users at once."""
    click, after_click, after_pass = (np.broadcast_to(part, luck.shape) for part in (click, after_click, after_pass))
    clicked = luck < click
    on = np.where(clicked, luck < click * after_click, luck < click + (1 - click) * after_pass)
    here = np.hstack([np.ones((len(luck), 1), dtype=bool), np.cumprod(on, axis=1)[:, :-1].astype(bool)])
    before = np.cumprod((1 - click) * after_pass, axis=1) / ((1 - click) * after_pass)
    return clicked & here, here.sum(axis=1), (click * before).sum(axis=1)


@pytest.mark.parametrize("K", [1, 2, 7])
def test_kernels_equal_their_numpy_twin_whatever_is_the_same_for_all(K):
    users = 50
    shapes = [(users, K), (1, K), (users, 1), (1, 1)]
    for shape in [(click, after, passed) for click in shapes for after in shapes for passed in shapes]:
        habits = [rng.uniform(0.05, 0.95, size=part) for part in shape]
        luck = rng.random((users, K))
        expected = twin(*habits, luck)
        clicks, depth, value = np.zeros((users, K), dtype=bool), np.empty(users, dtype=np.int64), np.empty(users)
        browse.walk(*habits, luck, clicks, depth)
        browse.click_probabilities(habits[0], habits[2], K, value)
        np.testing.assert_array_equal(clicks, expected[0])
        np.testing.assert_array_equal(depth, expected[1])
        np.testing.assert_allclose(value, expected[2], rtol=1e-12)
        at_once, value_at_once = np.zeros_like(clicks), np.empty(users)
        browse.outcome(*habits, luck, at_once, value_at_once)
        np.testing.assert_array_equal(at_once, clicks)
        np.testing.assert_array_equal(value_at_once, value)


def test_people_who_always_go_on_do_so_whatever_their_luck():
    """c + (1 - c) rounds to 1 or not: nobody is lost by that."""
    click, always = rng.random((1000, 1)), np.ones((1, 1))
    luck = np.full((1000, 3), np.nextafter(1.0, 0.0))
    clicks, depth = np.zeros(luck.shape, dtype=bool), np.empty(1000, dtype=np.int64)
    browse.walk(click, always, always, luck, clicks, depth)
    assert (depth == 3).all()
