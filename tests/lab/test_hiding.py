"""Simulations in which people are not shown again what they have seen."""

import numpy as np
import pytest
from instances import OwnEpsilonGreedy
from models import MODELS, W, catalog, model, policy, theta

import thali
from thali.tools.randomness import streams

RULES = {
    "clicked": "clicked",
    "examined": "examined",
    "for 3 lists": thali.Hide(clicked=3, examined=1),
    "fatigue": thali.Hide(clicked=True, fatigue=2, until="last-click"),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["DiverseCascade", "LinearSubmodular", "Cascade", "own respond"])
def test_a_run_is_the_same_as_a_loop_over_people_one_at_a_time(name, rule):
    """Also for the oracle, with the best list by brute force; 40 lists of 3 from 15 items, so items return."""
    people, hide, steps = MODELS[name], RULES[rule], 40
    run = thali.simulate(policy, people, steps=steps, seed=2, points=steps, hide=hide)
    hide = thali.Hide.named(hide) if isinstance(hide, str) else hide
    draws = np.stack([generator.random((steps, 3)) for generator in streams(2, "luck", range(5))])
    returned = 0
    for chooser in ("policy", "oracle"):
        seen, state, clicked = thali.Seen(hide, 5, 15), policy.init(5), np.zeros(5, int)
        for t in range(steps):
            hidden = seen.excluded(3)
            if chooser == "policy":
                lists = policy.recommend(state, exclude=[np.flatnonzero(row) for row in hidden])
                np.testing.assert_array_equal(run.lists[:, t], lists)
            else:
                lists = np.array([greedy(people, user, np.flatnonzero(~hidden[user])) for user in range(5)])
            assert not np.take_along_axis(hidden, lists, axis=1).any()
            clicks = people.respond(lists, draws[:, t])
            clicked += clicks.sum(axis=1)
            reported = run.clicks if chooser == "policy" else run.oracle_clicks
            np.testing.assert_array_equal(reported[:, t], clicked)
            if chooser == "policy":
                policy.update(state, lists, clicks)
                value = people.click_probability(lists) + (run.value[:, t - 1] if t else 0.0)
                np.testing.assert_allclose(run.value[:, t], value, rtol=1e-12)
            seen.record(lists, clicks)
            returned += (hidden.sum(axis=1) == 12).sum()
    assert returned > 0 or rule == "for 3 lists"
    assert clicked.sum() > 0


def greedy(people, user, items):
    """The list that adds the most to the click probability at each position, from these items."""
    chosen = []
    for _ in range(3):
        # All users get the same list. Only the attraction of this user counts.
        worth = {e: people.attraction([[*chosen, e]] * 5)[user, -1] for e in items if e not in chosen}
        chosen.append(max(worth, key=lambda e: (worth[e], -e)))
    return chosen


LIKED = np.random.default_rng(5).random((5, 15)) < 0.3


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("CascadeLSB", "CascadeKLUCB", "Random") else pytest.param(name, marks=pytest.mark.slow)
        for name in thali.POLICIES
    ],
)
def test_no_policy_shows_what_is_hidden_while_enough_is_left(name):
    """These people click the first item they like, so what they have examined follows from the lists."""
    learner = thali.POLICIES[name](catalog, 3)
    for hide, steps in (("examined", 5), ("clicked", 12)):  # at least 3 of 15 items are left at every step
        run = thali.simulate(learner, thali.Likes(LIKED), steps=steps, seed=1, points=steps, hide=hide)
        for user in range(5):
            hidden, clicks = set(), 0
            for t, items in enumerate(run.lists[user].tolist()):
                assert len(set(items)) == 3
                assert not hidden & set(items)
                first = next((k for k, e in enumerate(items) if LIKED[user, e]), None)
                clicks += first is not None
                assert run.clicks[user, t] == clicks
                if hide == "examined":
                    hidden |= set(items[: 3 if first is None else first + 1])
                elif first is not None:
                    hidden.add(items[first])


@pytest.mark.parametrize("hide", ["clicked", "examined"])
def test_the_oracle_finds_every_like_one_in_each_list(hide):
    """As long as at least K items are left: here, always, except for the last person, who likes almost everything."""
    L, K, steps = 60, 4, 12
    likes = np.array([0, 1, 5, 12, 20, 58])
    people = thali.Likes(np.arange(L)[None] % 59 < likes[:, None])
    learner = thali.MostPopular(thali.Catalog(np.linspace(0.1, 0.9, L)[:, None]), K)
    run = thali.simulate(learner, people, steps=steps, points=steps, hide=hide)
    np.testing.assert_array_equal(
        run.oracle_clicks, np.minimum(np.arange(1, steps + 1), people.liked.sum(axis=1)[:, None])
    )
    assert (run.clicks <= run.oracle_clicks).all()


def test_without_a_rule_the_run_is_the_same_as_ever():
    plain = thali.simulate(policy, model, steps=30, seed=4)
    for hide in ("nothing", thali.Hide()):
        run = thali.simulate(policy, model, steps=30, seed=4, hide=hide)
        assert run.oracle_clicks is None
        for field in ("regret", "value", "clicks", "lists", "best", "last_loss"):
            np.testing.assert_array_equal(getattr(run, field), getattr(plain, field))


def test_a_run_with_hidden_items_has_clicks_and_no_regret():
    run = thali.simulate(policy, model, steps=30, seed=4, points=[10], hide="examined")
    for field in ("regret", "best", "last_loss"):
        assert np.isnan(getattr(run, field)).all()
    assert run.oracle_clicks.shape == run.clicks.shape == (5, 2)
    mean, oracle = run.clicks[:, -1].mean(), run.oracle_clicks[:, -1].mean()
    assert repr(run) == f"Run(5 users, 30 steps, 2 points, mean clicks {mean:.4g}, oracle {oracle:.4g})"
    with pytest.raises(ValueError, match="slope needs a run in which nothing was hidden"):
        run.slope()


def test_a_person_gets_the_same_run_alone_and_in_a_batch():
    batch = thali.simulate(policy, model, steps=40, seed=3, hide="examined")
    alone = thali.simulate(policy, model.with_theta(theta[[3]]), steps=40, seed=3, people=[3], hide="examined")
    for field in ("lists", "clicks", "oracle_clicks", "value"):
        np.testing.assert_array_equal(getattr(batch, field)[[3]], getattr(alone, field))


def test_tastes_may_change_and_items_may_be_removed():
    likes = np.zeros((5, 15), dtype=bool)
    likes[:, :6] = True
    people = thali.Drift.abrupt(thali.Likes(likes), thali.Likes(~likes), when=4)
    fewer = thali.Catalog(W)
    for item in (0, 1, 14):  # the people, who have no catalog, do not know that
        fewer.remove(item)
    run = thali.simulate(thali.CascadeLSB(fewer, 2), people, steps=8, points=8, hide="clicked")
    assert not np.isin(run.lists, [0, 1, 14]).any()
    assert (run.oracle_clicks == np.arange(1, 9)).all()  # items 2 to 5, and then others
    known = thali.simulate(
        thali.CascadeLSB(fewer, 2), thali.DiverseCascade(thali.Catalog(W), theta), 8, hide="examined"
    )
    assert not np.isin(known.lists, [0, 1, 14]).any()


class Own(thali.ClickModel):
    """A model of the user's own, from before items could be hidden."""

    users, L = 5, 15

    def attraction(self, lists):
        return MODELS["Cascade"].attraction(lists)

    def best_lists(self, K):
        return MODELS["Cascade"].best_lists(K)


class Careless(Own):
    """It accepts exclusions, but shows excluded items."""

    def best_lists(self, K, **rest):
        return super().best_lists(K)


def test_a_model_that_cannot_exclude_items_is_refused_only_if_items_are_hidden():
    assert thali.simulate(policy, Own(), steps=5).regret.shape == (5, 5)
    with pytest.raises(TypeError, match=r"best_lists of Own must have the argument 'exclude' if simulate hides items"):
        thali.simulate(policy, Own(), steps=5, hide="clicked")
    with pytest.raises(ValueError, match="best_lists of Careless must not contain items of the argument 'exclude'"):
        thali.simulate(policy, Careless(), steps=50, hide="clicked")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: thali.simulate(policy, model, 5, hide="seen"),
            "hide must be one of 'nothing', .* or a thali.Hide, got",
        ),
        (lambda: thali.simulate(policy, model, 5, hide=None), "hide must be one of 'nothing', .* got None"),
        (
            lambda: thali.simulate(OwnEpsilonGreedy(catalog, 3), model, 5, hide="clicked"),
            "OwnEpsilonGreedy does not define choose_among",
        ),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
