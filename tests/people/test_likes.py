import numpy as np
import pytest

import thali
from thali.datasets import Interactions

rng = np.random.default_rng(3)
LIKED = rng.random((4, 10)) < 0.3
PEOPLE = thali.Likes(LIKED)
TOPICS = {"Fargo": ["comedy"], "Heat": ["crime"], "Ronin": ["crime"], "Solaris": ["space"]}
ROWS = [("ana", "Heat", 5), ("ana", "Fargo", 2), ("bob", "Ronin", 4), ("bob", "Solaris", 5), ("cem", "Solaris", 4)]
DATA = Interactions.of(ROWS, TOPICS)


def shop():
    """A catalog with the items in another order, one that nobody met, and without "Solaris"."""
    return thali.Catalog(np.full((4, 1), 0.5), items=["Ronin", "Alien", "Heat", "Fargo"])


def test_people_click_the_first_item_they_like_whatever_the_random_numbers_are():
    for _ in range(50):
        K = rng.integers(1, 11)
        lists = np.array([rng.permutation(10)[:K] for _ in range(4)])
        clicks = PEOPLE.respond(lists, rng.choice([0.0, 0.5, 1.0 - 1e-16], (4, K)))
        for user in range(4):
            first = next((k for k, e in enumerate(lists[user]) if LIKED[user, e]), None)
            assert np.flatnonzero(clicks[user]).tolist() == ([] if first is None else [first])
        np.testing.assert_array_equal(PEOPLE.click_probability(lists), clicks.any(axis=1))
        assert PEOPLE.attraction(lists).dtype == np.float64


def test_likes_are_a_cascade_and_keep_their_own_copy():
    given = LIKED.copy()
    people, cascade = thali.Likes(given), thali.Cascade(LIKED.astype(float))
    given[:] = True
    np.testing.assert_array_equal(people.liked, LIKED)
    assert people.liked.nbytes == LIKED.size
    for exclude in (
        None,
        [1, 2, 5],
        [[], [3], [0, 1, 2], [9]],
        rng.permuted(np.tile(np.arange(10) < 7, (4, 1)), axis=1),
    ):
        np.testing.assert_array_equal(people.best_lists(3, exclude), cascade.best_lists(3, exclude))


def test_items_are_matched_by_name_and_unknown_ones_are_counted():
    catalog = shop()
    people = thali.Likes.of(DATA.attracted(at_least=4), catalog, drop=True)
    assert people.names == ("ana", "bob")
    assert people.liked.tolist() == [[False, False, True, False], [True, False, False, False]]
    assert people.unknown == 2
    everything = thali.Likes.of(Interactions.of(ROWS[:4], TOPICS), catalog)  # every interaction counts as a like
    assert everything.liked.tolist() == [[False, False, True, True], [True, False, False, False]]
    assert everything.unknown == 1
    run = thali.simulate(thali.CascadeLSB(catalog, K=2), everything, steps=4, points=4, hide="examined")
    assert (np.diff(run.clicks, axis=1) >= 0).all()


def test_removed_items_are_unknown():
    catalog = shop()
    catalog.remove("Heat")
    people = thali.Likes.of(DATA, catalog, drop=True)
    assert people.liked.tolist() == [[False, False, False, True], [True, False, False, False]]
    assert people.unknown == 3
    assert (people.best_lists(3) != 2).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: thali.Likes([[1.0, 0.0]]), "liked of Likes must be an array of booleans, one for each user and item"),
        (lambda: thali.Likes([[True], [True, False]]), "liked of Likes must be .*, got rows of different lengths"),
        (lambda: thali.Likes([True, False]), r"liked of Likes must have shape \(users, L\)"),
        (lambda: thali.Likes.of(DATA.user, shop()), "interactions of Likes.of must be a thali.datasets.Interactions"),
        (lambda: thali.Likes.of(DATA, None), "catalog of Likes.of must be a thali.Catalog, got None"),
        (
            lambda: thali.Likes.of(DATA, shop()),
            r"users of Likes.of must each like at least one item .* got 1 without: \['cem'\]",
        ),
        (lambda: thali.Likes.of(DATA, shop(), drop=1), "drop of Likes.of must be True or False, got 1"),
        (
            lambda: thali.Likes.of(DATA.attracted(at_least=9), shop(), drop=True),
            "users of Likes.of must like at least one item of the catalog, got none who does",
        ),
        (
            lambda: PEOPLE.best_lists(4, exclude=np.arange(7)),
            "argument 'exclude' of best_lists must leave at least K = 4 items, got 3",
        ),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
