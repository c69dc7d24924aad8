"""What the base class of policies refuses, for one policy. The contract tests that no policy bypasses these checks."""

import numpy as np
import pytest
from instances import weights

import thali

L, d, K = 20, 4, 3
CATALOG = thali.Catalog(weights("sparse", L, d, np.random.default_rng(1)))


@pytest.fixture
def policy():
    return thali.CascadeLSB(CATALOG, K)


@pytest.fixture
def state(policy):
    """A state in which something was learned."""
    state = policy.init(1)
    policy.update(state, [[3, 1, 4]], [[False, True, False]])
    return state


def equal(a, b):
    return a.arrays.keys() == b.arrays.keys() and all(np.array_equal(a.arrays[k], b.arrays[k]) for k in a.arrays)


BAD_UPDATES = {
    "lists must have shape": ([[0, 1]], np.zeros((1, K), bool)),
    "lists must contain distinct": ([[0, 1, 1]], np.zeros((1, K), bool)),
    "distinct item numbers from 0 to 19": ([[0, 1, 20]], np.zeros((1, K), bool)),
    "lists must be an array of item numbers": ([[0.0, 1.0, 2.0]], np.zeros((1, K), bool)),
    "got rows of different lengths": ([[0, 1], [2]], np.zeros((1, K), bool)),
    "lists must be an array": (None, np.zeros((1, K), bool)),
    "clicks must have shape": ([[0, 1, 2]], np.zeros((1, K + 1), bool)),
    "clicks must be an array of booleans, one for each position": ([[0, 1, 2]], np.full((1, K), np.nan)),
    "clicks must be an array of booleans, one for each position, got list of int": ([[0, 1, 2]], [[2, 0, 0]]),
    "got a masked array": ([[0, 1, 2]], np.ma.masked_array(np.ones((1, K), bool), mask=True)),
}


@pytest.mark.parametrize("message", BAD_UPDATES)
def test_bad_feedback_is_refused_and_nothing_is_learned(policy, state, message):
    before = state.copy()
    lists, clicks = BAD_UPDATES[message]
    with pytest.raises((ValueError, TypeError), match=message):
        policy.update(state, lists, clicks)
    assert equal(state, before)


@pytest.mark.parametrize("gains", [np.full((1, K, d), np.nan), np.full((1, K, d), 2.0), np.zeros((1, K, d + 1))])
def test_bad_gains_are_refused_and_nothing_is_learned(policy, state, gains):
    before = state.copy()
    with pytest.raises(ValueError, match="gains must"):
        policy.update(state, [[0, 1, 2]], np.zeros((1, K), bool), gains=gains)
    assert equal(state, before)


@pytest.mark.parametrize("bad", [0, -1, L + 1, 2.5, "3", True, None])
def test_bad_list_length_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match="K of CascadeLSB must be"):
        thali.CascadeLSB(CATALOG, bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True])
def test_bad_number_of_threads_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match="threads of CascadeLSB must be a whole number of at least 1"):
        thali.CascadeLSB(CATALOG, K, threads=bad)


@pytest.mark.parametrize("users", [0, -1, 1.5, None])
def test_bad_number_of_users_is_refused(policy, users):
    with pytest.raises((ValueError, TypeError), match="users of init must be"):
        policy.init(users)
