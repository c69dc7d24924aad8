"""Policies that know something about other people, and people who come one after another.

What is known comes from :attr:`thali.lab.problems.Problem.others`, or from the people who came earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from thali.lab.problems import Problem
from thali.lab.settings import GROWING, LEARNED_PRIOR, PRIOR
from thali.lab.simulate import Run, simulate
from thali.policies import CascadeLSB, Oracle, Policy, Prior

#: From how many other people, with how many lists each, a prior is learned.
PEOPLE, LISTS = 300, 50
#: After how many arrivals the growing prior is learned again: 1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 200 …
RELEARN = tuple(digit * 10**zeros for zeros in range(6) for digit in (1, 2, 3, 5, 7))


def informed(name: str, problem: Problem) -> Policy:
    """Create the policy with this name, which must be in INFORMED.

    CascadeLSB-prior: CascadeLSB with the prior that :meth:`thali.Prior.from_preferences` finds in the tastes of others.
    CascadeLSB-learned-prior: CascadeLSB with the prior that :meth:`thali.Prior.learn` finds in the clicks of others.
    These saw 50 lists each, of CascadeLSB without a prior. There are 300 of them, or fewer if the data have fewer.
    Static: the same list for everybody, the greedy list for the mean taste of others. It learns nothing.
    """
    if name == GROWING:
        raise ValueError(f"{GROWING} is not one policy, but a sequence of them, which only an experiment can run")
    catalog, K = problem.catalog, problem.K
    if name == LEARNED_PRIOR:
        return CascadeLSB(catalog, K, prior=_learned(problem))
    assert problem.others is not None
    assert problem.others.theta is not None
    tastes = problem.others.theta
    if name == PRIOR:
        return CascadeLSB(catalog, K, prior=Prior.from_preferences(tastes, catalog.topics))
    return Oracle(catalog, K, theta=tastes.mean(axis=0))


def _learned(problem: Problem) -> Prior:
    model: Any = problem.others
    tastes = model.theta[:PEOPLE]
    without = CascadeLSB(problem.catalog, problem.K)
    shown = simulate(without, model.with_theta(tastes), LISTS, problem.others_seed, points=1)
    return learn(problem, shown.state)


def learn(problem: Problem, state: Any) -> Prior:
    """Learn a prior from the clicks of the people in a state of CascadeLSB.

    The policy passed to :meth:`thali.Prior.learn` has no prior, so that no click counts twice.
    """
    return Prior.learn(CascadeLSB(problem.catalog, problem.K), state)


def arrive(
    problem: Problem, steps: int, seed: int, *, points: int | Sequence[int] = 1, people: Sequence[int] | None = None
) -> Run:
    """Run CascadeLSB on people who come one after another, with a prior that is learned from those who came before.

    The first person has no prior. The prior is learned again after 1, 2, 3, 5, 7, 10, 20, 30, 50, 70, … arrivals, from
    the clicks of everybody seen so far. Each person is shown all of their lists before the next one comes. The
    arguments are those of :func:`thali.simulate`.
    """
    model: Any = problem.model
    users, policy = model.users, CascadeLSB(problem.catalog, problem.K)
    numbers = range(users) if people is None else people
    everybody = policy.init(users)
    runs = []
    for begin, end in pairwise([0, *(after for after in RELEARN if after < users), users]):
        if begin:
            policy = CascadeLSB(problem.catalog, problem.K, prior=learn(problem, everybody))
        who = np.arange(begin, end)
        # People with the same prior do not depend on one another, so they are simulated together.
        part = simulate(
            policy,
            model.with_theta(problem.theta[who]),
            steps,
            seed,
            points=points,
            people=numbers[begin:end],
            state=everybody.take(who),
        )
        everybody.put(who, part.state)
        runs.append(part)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in runs])

    fields = {name: joined(name) for name in ("regret", "value", "clicks", "lists", "best", "last_loss")}
    return Run(runs[0].steps, state=everybody, **fields)
