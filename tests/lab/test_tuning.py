"""Tuning: candidates are fitted to some training people and judged by others, who are not shown anything twice."""

import os
from pathlib import Path

import numpy as np
import pytest

import thali
from thali.datasets.interactions import Interactions
from thali.lab.rivals import GRIDS, RIVALS, ItemKNN, KnownLikes, Popular, lists_with_a_click, tune

L, K = 30, 4


def data(people=60, seed=0):
    rng = np.random.default_rng(seed)
    liked = rng.random((people, L)) < np.where(np.arange(people)[:, None] % 3 == np.arange(L) % 3, 0.6, 0.05)
    liked[:, 0] |= ~liked.any(axis=1)
    rows = [(f"person {u:03}", int(e), 1.0) for u, e in zip(*np.nonzero(liked), strict=True)]
    return Interactions.of(rows, {e: ["film"] for e in range(L)})


class Recording(Popular):
    """Keeps the lists that it showed and the clicks on them."""

    def update(self, state, lists, clicks, gains=None, **rest):
        self.shown = [*getattr(self, "shown", []), (lists.copy(), clicks.copy())]
        super().update(state, lists, clicks, gains, **rest)


def test_people_click_the_first_item_they_like_and_do_not_see_again_what_they_examined():
    likes = KnownLikes(data())
    liked = likes.matrix.toarray()[:9] > 0
    policy = Recording(likes.catalog, K, likes)
    clicked = lists_with_a_click(policy, liked, lists=7)
    assert clicked.shape == (9, 7)
    order = np.argsort(-likes.popularity, kind="stable").tolist()
    for user in range(9):
        left = list(order)
        for step, (lists, clicks) in enumerate(policy.shown):
            expected = left[:K]
            assert lists[user].tolist() == expected
            first = next((k for k, e in enumerate(expected) if liked[user, e]), None)
            assert clicks[user].tolist() == [k == first for k in range(K)]
            assert clicked[user, step] == (first is not None)
            for e in expected[: K if first is None else first + 1]:
                left.remove(e)


def test_no_candidate_is_fitted_to_the_people_who_judge_it():
    everybody, fitted = data(), []

    def make(catalog, K, likes, wanted):
        fitted.append(likes.interactions)
        return Popular(catalog, K, likes) if wanted else ItemKNN(catalog, K, likes)

    tuned = tune(make, [{"wanted": 1}, {"wanted": 0}], everybody, people=20, lists=3, K=K, seed=5)
    rest, validation = everybody.hold_out(20, seed=5)
    for used in fitted:
        assert used.users == rest.users
        assert used.items == everybody.items
    assert sorted(rest.users + validation.users) == list(everybody.users)
    assert len(validation.users) == 20
    assert len(rest) + len(validation) == len(everybody)
    assert everybody.hold_out(20, seed=6)[1].users != validation.users
    liked = validation.matrix().toarray() > 0
    for trial, policy in zip(tuned.trials, (Popular, ItemKNN), strict=True):
        likes = KnownLikes(rest)
        np.testing.assert_array_equal(trial.clicks, lists_with_a_click(policy(likes.catalog, K, likes), liked, 3))


def test_the_candidate_with_the_most_clicks_wins_and_ties_go_to_the_first():
    candidates = [{"popularity": 1e6, "neighbours": 5}, {"popularity": 0.0}, {"popularity": 0.0, "shrink": 10.0}]
    done = []
    tuned = tune(ItemKNN, candidates, data(), people=20, lists=5, K=2, progress=done.append)
    assert tuned.settings == {"popularity": 0.0}
    assert [trial.settings for trial in done] == candidates
    rows = tuned.rows(first=2)
    assert [row["all lists"] for row in rows] == [trial.share for trial in tuned.trials]
    best = tuned.best.clicks
    assert (rows[1]["first lists"], rows[1]["later lists"]) == (best[:, :2].mean(), best[:, 2:].mean())
    assert rows[1]["all lists"] == rows[2]["all lists"] > rows[0]["all lists"], "shrink is the default of ItemKNN"
    assert tuned.rows(first=5)[0]["later lists"] is None


def test_every_rival_has_settings_to_try_that_it_accepts():
    assert GRIDS.keys() == RIVALS.keys()
    likes = KnownLikes(data())
    for name, grid in GRIDS.items():
        for settings in grid:
            RIVALS[name](likes.catalog, K, likes, **settings)
        assert len({str(settings) for settings in grid}) == len(grid) > 0


def test_bad_input_is_refused():
    people = data()
    likes = KnownLikes(people)
    for call, message in (
        (lambda: tune(Popular, [], people), "candidates of tune must contain at least one set of settings, got none"),
        (
            lambda: tune(Popular, [{}], people, people=60),
            "people of hold_out must be a whole number from 1 to 59, got 60",
        ),
        (lambda: tune(Popular, [{}], people, people=20, lists=4), "lists must be a whole number from 1 to 3, got 4"),
        (lambda: tune(Popular, [{}], likes, people=20), "train of tune must be a thali.datasets.Interactions, got"),
        (
            lambda: lists_with_a_click(Popular(likes.catalog, K, likes), np.ones((2, L + 1), bool), 1),
            r"liked must have shape \(people, L\) = \(2, 30\), got \(2, 31\)",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


@pytest.mark.slow
def test_on_real_likes_all_personal_rivals_are_ahead_of_popular_films():
    folder = Path(os.environ.get("THALI_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "ml-1m").is_dir():
        pytest.skip(f"MovieLens 1M is not at {folder}: set $THALI_DATA to the folder that holds ml-1m/")
    train, test = thali.datasets.movielens_1m(root=folder).attracted(at_least=4).hold_out(300, seed=0)
    likes, liked = KnownLikes(train), test.matrix().toarray() > 0

    def share(name, **settings):
        clicked = lists_with_a_click(RIVALS[name](likes.catalog, 10, likes, **settings), liked, 30)
        return clicked[:, :10].mean(), clicked[:, 10:].mean()

    first, later = share("Popular")
    assert (round(first, 3), round(later, 3)) == (0.804, 0.633)
    for name, settings, least in (
        ("StaticDiverse", {}, (0.0, 0.0)),
        ("ItemKNN", {"shrink": 0.0, "popularity": 0.03}, (0.03, 0.08)),
        ("IALS", {"regularization": 10.0, "confidence": 15.0, "popularity": 0.03}, (0.05, 0.1)),
        ("EASE", {"regularization": 1000.0, "popularity": 0.003}, (0.05, 0.1)),
    ):
        own = share(name, **settings)
        assert own[0] > first + least[0], name
        assert own[1] > later + least[1], name
