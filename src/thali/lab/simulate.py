"""Simulate a policy with people who click, and measure its regret or, if items are hidden, its clicks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thali.lab.hiding import Hiding, check_can_exclude, hide_rule
from thali.people import ClickModel, Habits
from thali.policies import Hide, Policy, State
from thali.tools import checks
from thali.tools.randomness import streams
from thali.tools.types import Booleans, Floats, Integers

# The number of steps for which random numbers are drawn at once.
CHUNK = 256


@dataclass(frozen=True, repr=False)
class Run:
    """The result of a simulation at the recorded steps. Users are the first axis of all arrays except ``steps``.

    If items were hidden, what a policy could still show depends on what it showed before. So there is no regret:
    ``regret``, ``best`` and ``last_loss`` are NaN. Compare ``clicks`` with those of other policies and of the oracle.
    """

    steps: Integers
    """(points,): the number of steps done."""
    regret: Floats
    """(users, points): cumulative regret, Σ f(A_best, θ*) - f(A_t, θ*). If tastes change, θ* is that of the step."""
    value: Floats
    """(users, points): cumulative Σ f(A_t, θ*), for :func:`thali.theory.scaled_regret`."""
    clicks: Integers
    """(users, points): cumulative number of clicks."""
    lists: Integers
    """(users, points, K): the list shown at each recorded step."""
    best: Floats
    """(users,): the click probability f, at the last step, of the list that regret is measured against."""
    last_loss: Floats
    """(users,): the regret of the last step alone."""
    state: State
    """The policy's state at the end."""
    oracle_clicks: Integers | None = None
    """(users, points): cumulative number of clicks of an oracle under the same rule, with the same random numbers. At
    each step, it shows the model's best list among the items that are not hidden from it. None if nothing was hidden.
    """

    def __repr__(self) -> str:
        users, points = self.regret.shape
        result = f"mean regret {self.regret[:, -1].mean():.4g}"
        if self.oracle_clicks is not None:
            mean, best = (clicks[:, -1].mean() for clicks in (self.clicks, self.oracle_clicks))
            result = f"mean clicks {mean:.4g}, oracle {best:.4g}"
        return f"Run({users} users, {self.steps[-1]} steps, {points} points, {result})"

    def slope(self, share: float = 0.1) -> Floats:
        """Regret per step over the last share of the run (users,). It is 0 once the best list has been learned."""
        share = checks.number("share of slope", share, low=0.0, strict=True, high=1.0)
        if self.oracle_clicks is not None:
            raise ValueError("slope needs a run in which nothing was hidden, got one without regret; compare clicks")
        since = min(int(np.searchsorted(self.steps, (1.0 - share) * self.steps[-1])), len(self.steps) - 2)
        if since < 0:
            raise ValueError("slope needs a run with at least 2 recorded steps, got 1; use more points in simulate")
        return np.asarray((self.regret[:, -1] - self.regret[:, since]) / (self.steps[-1] - self.steps[since]))


def simulate(
    policy: Policy,
    model: ClickModel,
    steps: int = 20_000,
    seed: int = 0,
    *,
    points: int | Sequence[int] = 100,
    people: Sequence[int] | None = None,
    state: State | None = None,
    hide: str | Hide = "nothing",
    progress: Callable[[int], None] | None = None,
    on_point: Callable[[int, State], None] | None = None,
) -> Run:
    """Run a policy on the users of a model for a number of steps, showing each user one list per step.

    Regret follows the paper's convention: it is the expected loss in click probability, compared with the model's
    greedy list (γ = 1). If tastes change (:class:`thali.Drift`), the greedy list is that of the current tastes. If
    people are not shown again what they have seen (``hide``), there is no regret; compare clicks (:class:`Run`).
    The policy's catalog and the model's catalog must have the same items. Their weights and topics may differ.

    Parameters
    ----------
    steps: n, at least 1.
    seed: random seed. Each person's random numbers depend only on the seed and the person's number. They are the same
        for every policy, and the same whether the person is simulated alone or with others.
    points: how many steps to record, evenly spaced, or which steps to record (ascending, from 1 to steps). The last
        step is always recorded.
    people: the numbers of the users; 0, 1, ... by default.
    state: the state to continue from (it is copied); by default a new one. Random numbers and the count of steps start
        from the beginning, so use another seed.
    hide: which items a person is not shown again: "nothing", what was "clicked", what was "examined" (both for the rest
        of the run), or a :class:`thali.Hide`. At the start, nothing has been seen. The policy needs ``choose_among``,
        and a custom model needs the argument ``exclude`` of ``best_lists``.
    progress: called with the number of steps done since the last call.
    on_point: called at each recorded step, after the policy has learned from it, with the number of steps done and the
        state. The run continues to use this state: do not modify it, and copy what you want to keep.

    Cost: one recommend, one update and O(users·K·d) per step. The best lists are computed once, and again whenever
    tastes change. If items are hidden, there is also one best list of each user per step, and 16 bytes of memory for
    each user and item (32 with fatigue).

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> model = thali.DiverseCascade(catalog, [[0.6, 0.4]])
    >>> run = thali.simulate(thali.CascadeLSB(catalog, K=2), model, steps=200, seed=1)
    >>> run.lists[0, -1], bool(run.regret[0, -1] < 5)
    (array([0, 2]), True)
    >>> people = thali.Likes([[True, False, False]])
    >>> thali.simulate(thali.CascadeLSB(catalog, K=1), people, steps=3, hide="examined")
    Run(1 users, 3 steps, 3 points, mean clicks 1, oracle 1)

    """
    checks.instance("policy", policy, Policy)
    checks.instance("model", model, ClickModel)
    steps = checks.integer("steps", steps, low=1)
    users = model.users
    numbers = _people(people, users)
    if model.catalog is not None:
        policy.catalog.check_same_items(model.catalog, type(model).__name__)
    elif model.L != policy.catalog.L:
        raise ValueError(f"model must have as many items as the policy's catalog ({policy.catalog.L}), got {model.L}")
    rule = hide_rule(hide)
    recorded = recorded_steps("points", points, steps)
    state = policy.init(users) if state is None else checks.instance("state", state, State).copy()
    if state.users != users:
        raise ValueError(f"state must have as many users as the model ({users}), got {state.users}")
    policy.check(state)

    click_generators = streams(seed, "luck", numbers)
    policy_generators = streams(seed, "policy", numbers)
    current = model.at(0)
    hiding = None if rule.hides_nothing else Hiding(rule, policy, users, recorded.size)
    best = _best(current, policy.K, users, hiding is not None)
    # The sum of the best f up to step ``since``, at which the current model took effect.
    attainable, since = np.zeros(users), 0
    total, clicked = np.zeros(users), np.zeros(users, dtype=np.int64)
    regret, value_at = np.empty((users, recorded.size)), np.empty((users, recorded.size))
    clicks_at = np.empty((users, recorded.size), dtype=np.int64)
    lists_at = np.empty((users, recorded.size, policy.K), dtype=np.int64)
    point = 0
    for begin in range(0, steps, CHUNK):
        size = min(CHUNK, steps - begin)
        draws = np.stack([generator.random((size, policy.K)) for generator in click_generators], axis=1)
        for at in range(size):
            if (changed := model.at(begin + at)) is not current:
                attainable, since = attainable + best * (begin + at - since), begin + at
                current, best = changed, _best(changed, policy.K, users, hiding is not None)
            exclude = None if hiding is None else hiding.excluded()
            lists, clicks, value = _step(policy, current, state, policy_generators, draws[at], exclude)
            if hiding is not None:
                hiding.record(current, lists, clicks, value, draws[at])
            lost = best - value
            total += lost
            clicked += clicks.sum(axis=1)
            if recorded[point] == begin + at + 1:
                regret[:, point], clicks_at[:, point], lists_at[:, point] = total, clicked, lists
                value_at[:, point] = attainable + best * (begin + at + 1 - since) - total
                if hiding is not None:
                    value_at[:, point], hiding.oracle_clicks[:, point] = hiding.value, hiding.oracle_clicked
                point += 1
                if on_point is not None:
                    on_point(begin + at + 1, state)
        if progress is not None:
            progress(size)
    oracle_clicks = None if hiding is None else hiding.oracle_clicks
    return Run(recorded, regret, value_at, clicks_at, lists_at, best, lost, state, oracle_clicks)


def _best(model: ClickModel, K: int, users: int, hiding: bool) -> Floats:
    """The click probability f of a model's best lists (users,). Checks that the model's values are probabilities.

    If items are hidden, there is no single best list, and the result is NaN.
    """
    name = type(model).__name__
    if model.users != users:
        raise ValueError(f"number of users of {name} must stay {users} when tastes change, got {model.users}")
    lists = model.best_lists(K)
    attraction = checks.within(f"attraction of {name}", model.attraction(lists), 0.0, 1.0 + 1e-9)
    for part, shares in zip(Habits._fields, model.habits(attraction), strict=True):
        checks.within(f"{part} of {name}", np.asarray(shares), 0.0, 1.0 + 1e-9)
    if hiding:
        check_can_exclude(model)
        return np.full(users, np.nan)
    return model.click_probability(lists)


def _step(
    policy: Policy, model: ClickModel, state: State, generators: Any, draws: Floats, exclude: Booleans | None
) -> tuple[Integers, Booleans, Floats]:
    """Run one step and update the state; returns a list for each user, their clicks, and the f of each list.

    exclude: the items not to show (users, L), or None.

    The plain way is to call recommend, respond, update and click_probability. If the policy does not override recommend
    or update, this function does the same but makes each check and computes the attraction only once. For a small
    batch, these take most of the time.
    """
    overridden = type(policy).recommend is not Policy.recommend or type(policy).update is not Policy.update
    if overridden or exclude is not None or len(policy.catalog) != policy.catalog.L:
        limits = {} if exclude is None else {"exclude": exclude}
        lists = policy.recommend(state, generators, **limits)
        clicks = model.respond(lists, draws)
        policy.update(state, lists, clicks)
        return lists, clicks, model.click_probability(lists)
    lists = policy.choose(state, generators if policy.samples else None)
    lists = checks.item_lists(f"lists chosen by {policy.name}", lists, state.users, policy.catalog.L, policy.K)
    clicks, value = model.outcome(lists, draws)
    policy.learn_now(state, lists, clicks)
    return lists, clicks, value


def _people(people: Sequence[int] | None, users: int) -> Sequence[int]:
    if people is None:
        return range(users)
    numbers = [checks.integer("people", person, low=0) for person in checks.sequence("people", people)]
    if len(numbers) != users:
        raise ValueError(f"people must contain one number for each of the model's {users} users, got {len(numbers)}")
    return numbers


def recorded_steps(name: str, points: Any, steps: int) -> Integers:
    """The steps to record, given the parameter points of :func:`simulate`; ascending, and the last one is ``steps``."""
    if isinstance(points, int | np.integer):
        count = min(checks.integer(name, points, low=1), steps)
        return np.unique(np.linspace(steps / count, steps, count).round().astype(np.int64))
    chosen = np.array(
        [checks.integer(name, point, low=1, high=steps) for point in checks.sequence(name, points)],
        dtype=np.int64,
    )
    falls = np.flatnonzero(np.diff(chosen) <= 0)
    if falls.size:
        raise ValueError(f"{name} must be in ascending order, got {chosen[falls[0]]} before {chosen[falls[0] + 1]}")
    return chosen if chosen.size and chosen[-1] == steps else np.append(chosen, steps)
