import numpy as np
import pytest

from thali.people import model as browse

rng = np.random.default_rng(3)


def in_numpy(click, after_click, after_pass, uniforms):
    """The kernels in NumPy: clicks, number of examined positions, and probability of a click, for all users at once."""
    click, after_click, after_pass = (
        np.broadcast_to(part, uniforms.shape) for part in (click, after_click, after_pass)
    )
    clicked = uniforms < click
    continues = np.where(clicked, uniforms < click * after_click, uniforms < click + (1 - click) * after_pass)
    examined = np.hstack([np.ones((len(uniforms), 1), dtype=bool), np.cumprod(continues, axis=1)[:, :-1].astype(bool)])
    reaches = np.cumprod((1 - click) * after_pass, axis=1) / ((1 - click) * after_pass)
    return clicked & examined, examined.sum(axis=1), (click * reaches).sum(axis=1)


@pytest.mark.parametrize("K", [1, 2, 7])
def test_kernels_equal_numpy_for_every_shape_of_their_arguments(K):
    users = 50
    shapes = [(users, K), (1, K), (users, 1), (1, 1)]
    for shape in [(click, after, passed) for click in shapes for after in shapes for passed in shapes]:
        habits = [rng.uniform(0.05, 0.95, size=part) for part in shape]
        uniforms = rng.random((users, K))
        expected = in_numpy(*habits, uniforms)
        clicks, depth, value = np.zeros((users, K), dtype=bool), np.empty(users, dtype=np.int64), np.empty(users)
        browse.walk(*habits, uniforms, clicks, depth)
        browse.click_probabilities(habits[0], habits[2], K, value)
        np.testing.assert_array_equal(clicks, expected[0])
        np.testing.assert_array_equal(depth, expected[1])
        np.testing.assert_allclose(value, expected[2], rtol=1e-12)
        at_once, value_at_once = np.zeros_like(clicks), np.empty(users)
        browse.outcome(*habits, uniforms, at_once, value_at_once)
        np.testing.assert_array_equal(at_once, clicks)
        np.testing.assert_array_equal(value_at_once, value)


def test_people_who_always_continue_do_so_for_any_random_number():
    """After rounding, c + (1 - c) may not be exactly 1. This must not make anyone leave."""
    click, always = rng.random((1000, 1)), np.ones((1, 1))
    uniforms = np.full((1000, 3), np.nextafter(1.0, 0.0))
    clicks, depth = np.zeros(uniforms.shape, dtype=bool), np.empty(1000, dtype=np.int64)
    browse.walk(click, always, always, uniforms, clicks, depth)
    assert (depth == 3).all()
