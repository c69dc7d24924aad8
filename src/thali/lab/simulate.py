"""Policy × people → regret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thali.people import ClickModel, Habits
from thali.policies import Policy, State
from thali.tools import checks
from thali.tools.randomness import streams
from thali.tools.types import Booleans, Floats, Integers

# Steps for which luck is drawn at once.
CHUNK = 256


@dataclass(frozen=True, repr=False)
class Run:
    """What happened, at the recorded steps (points,); users first everywhere else."""

    steps: Integers
    """(points,): how many steps had been made."""
    regret: Floats
    """(users, points): cumulative, Σ f(A_best, θ*) - f(A_t, θ*), where tastes change with the θ* of the moment."""
    value: Floats
    """(users, points): cumulative Σ f(A_t, θ*), for :func:`thali.theory.scaled_regret`."""
    clicks: Integers
    """(users, points): cumulative number of clicks."""
    lists: Integers
    """(users, points, K): the list shown at that step."""
    best: Floats
    """(users,): f of the list that regret is measured against, at the last step."""
    last_loss: Floats
    """(users,): the regret of the last step alone."""
    state: State
    """What had been learned at the end."""

    def __repr__(self) -> str:
        users, points = self.regret.shape
        return (
            f"Run({users} users, {self.steps[-1]} steps, {points} points, mean regret {self.regret[:, -1].mean():.4g})"
        )

    def slope(self, share: float = 0.1) -> Floats:
        """Regret a step over the last share of the run (users,): 0 once the best list has been learned."""
        share = checks.number("share of slope", share, low=0.0, strict=True, high=1.0)
        since = min(int(np.searchsorted(self.steps, (1.0 - share) * self.steps[-1])), len(self.steps) - 2)
        if since < 0:
            raise ValueError("slope needs a run with at least two points, got one")
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
    progress: Callable[[int], None] | None = None,
    on_point: Callable[[int, State], None] | None = None,
) -> Run:
    """Let a policy serve the users of a model for so many steps, each user one list a step.

    The paper's conventions: regret is the expected loss in click probability against the model's greedy list (γ = 1).
    Where tastes change (:class:`thali.Drift`) that is the greedy list of the model in force at the step.
    The policy's catalog and the model's may differ in weights, not in items or topics.

    Parameters
    ----------
    steps: n, at least 1.
    seed: everything follows from it. Each person's luck depends on the seed and their number alone, so that every
        policy meets the same luck, and a person alone what they meet in a batch.
    points: how many steps to record, evenly spaced, or which (ascending, from 1 to steps); the last always is.
    people: the numbers of the users; 0, 1, ... by default.
    state: to go on from (a copy is taken); by default nothing is known. Luck and the count of steps start anew: take
        another seed.
    progress: called with the number of steps made since the last call.
    on_point: called at each recorded step, when the policy has learned from it, with the number of steps made and the
        state. That is the run's own, which goes on learning: look, do not touch, and copy what you keep.

    Cost: one recommend, one update and O(users·K·d) a step; the best lists once, and again whenever tastes change.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> model = thali.DiverseCascade(catalog, [[0.6, 0.4]])
    >>> run = thali.simulate(thali.CascadeLSB(catalog, K=2), model, steps=200, seed=1)
    >>> run.lists[0, -1], bool(run.regret[0, -1] < 5)
    (array([0, 2]), True)

    """
    checks.instance("policy", policy, Policy)
    checks.instance("model", model, ClickModel)
    steps = checks.integer("steps", steps, low=1)
    users = model.users
    numbers = _people(people, users)
    if model.catalog is not None:
        policy.catalog.check_same(model.catalog, type(model).__name__)
    elif model.L != policy.catalog.L:
        raise ValueError(f"model must have the catalog's L = {policy.catalog.L} items, got {model.L}")
    recorded = recorded_steps("points", points, steps)
    state = policy.init(users) if state is None else checks.instance("state", state, State).copy()
    if state.users != users:
        raise ValueError(f"state must have the model's {users} users, got {state.users}")
    policy.check(state)

    luck = streams(seed, "luck", numbers)
    own = streams(seed, "policy", numbers)
    now = model.at(0)
    best = _best(now, policy.K, users)
    # Σ of the best f up to the step from which the model now in force is.
    attainable, since = np.zeros(users), 0
    total, clicked = np.zeros(users), np.zeros(users, dtype=np.int64)
    regret, value_at = np.empty((users, recorded.size)), np.empty((users, recorded.size))
    clicks_at = np.empty((users, recorded.size), dtype=np.int64)
    lists_at = np.empty((users, recorded.size, policy.K), dtype=np.int64)
    point = 0
    for begin in range(0, steps, CHUNK):
        size = min(CHUNK, steps - begin)
        draws = np.stack([generator.random((size, policy.K)) for generator in luck], axis=1)
        for at in range(size):
            if (in_force := model.at(begin + at)) is not now:
                attainable, since = attainable + best * (begin + at - since), begin + at
                now, best = in_force, _best(in_force, policy.K, users)
            lists, clicks, value = _step(policy, now, state, own, draws[at])
            lost = best - value
            total += lost
            clicked += clicks.sum(axis=1)
            if recorded[point] == begin + at + 1:
                regret[:, point], clicks_at[:, point], lists_at[:, point] = total, clicked, lists
                value_at[:, point] = attainable + best * (begin + at + 1 - since) - total
                point += 1
                if on_point is not None:
                    on_point(begin + at + 1, state)
        if progress is not None:
            progress(size)
    return Run(recorded, regret, value_at, clicks_at, lists_at, best, lost, state)


def _best(model: ClickModel, K: int, users: int) -> Floats:
    """The click probability f of a model's best lists (users,); what it says of its people must be probabilities."""
    name = type(model).__name__
    if model.users != users:
        raise ValueError(f"users of {name}, in force by now, must be the same {users}, got {model.users}")
    lists = model.best_lists(K)
    attraction = checks.within(f"attraction of {name}", model.attraction(lists), 0.0, 1.0 + 1e-9)
    for part, shares in zip(Habits._fields, model.habits(attraction), strict=True):
        checks.within(f"{part} of {name}", np.asarray(shares), 0.0, 1.0 + 1e-9)
    return model.click_probability(lists)


def _step(policy: Policy, model: ClickModel, state: State, own: Any, luck: Floats) -> tuple[Integers, Booleans, Floats]:
    """One list for each user, their clicks, and f of the list; the state has learned from them.

    The plain way is recommend, respond, update, click_probability. Where none of these is the policy's or the model's
    own, the same is done with each check once and attraction computed once: most of the time of a small batch.
    """
    its_own = type(policy).recommend is not Policy.recommend or type(policy).update is not Policy.update
    if its_own or len(policy.catalog) != policy.catalog.L:
        lists = policy.recommend(state, own)
        clicks = model.respond(lists, luck)
        policy.update(state, lists, clicks)
        return lists, clicks, model.click_probability(lists)
    lists = policy.choose(state, own if policy.samples else None)
    lists = checks.item_lists(f"lists chosen by {policy.name}", lists, state.users, policy.catalog.L, policy.K)
    clicks, value = model.outcome(lists, luck)
    policy.learn_now(state, lists, clicks)
    return lists, clicks, value


def _people(people: Sequence[int] | None, users: int) -> Sequence[int]:
    if people is None:
        return range(users)
    numbers = [checks.integer("people", person, low=0) for person in checks.sequence("people", people)]
    if len(numbers) != users:
        raise ValueError(f"people must name the model's {users} users, got {len(numbers)}")
    return numbers


def recorded_steps(name: str, points: Any, steps: int) -> Integers:
    """The steps that points of :func:`simulate` stand for, ascending; the last is ``steps``."""
    if isinstance(points, int | np.integer):
        count = min(checks.integer(name, points, low=1), steps)
        return np.unique(np.linspace(steps / count, steps, count).round().astype(np.int64))
    chosen = np.array(
        [checks.integer(name, point, low=1, high=steps) for point in checks.sequence(name, points)],
        dtype=np.int64,
    )
    falls = np.flatnonzero(np.diff(chosen) <= 0)
    if falls.size:
        raise ValueError(f"{name} must ascend, got {chosen[falls[0]]} before {chosen[falls[0] + 1]}")
    return chosen if chosen.size and chosen[-1] == steps else np.append(chosen, steps)
