"""What is hidden from the people of a simulation, and the clicks of an oracle from whom the same rule hides items."""

from __future__ import annotations

from inspect import Parameter, signature
from reprlib import repr as short
from typing import Any

import numpy as np

from thali.people import ClickModel
from thali.policies import Hide, Policy
from thali.policies.hide import NAMES
from thali.policies.seen import Seen
from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers


class Hiding:
    """What people have been shown by a policy and by an oracle, and so what is hidden from them next.

    At each step, the oracle shows the model's best list among what is left to it. It looks no further ahead than one
    list.
    """

    def __init__(self, rule: Hide, policy: Policy, users: int, points: int) -> None:
        self.policy, self.users = policy, users
        self.shown, self.shown_by_oracle = (Seen(rule, users, policy.catalog.L) for _ in range(2))
        self.value, self.oracle_clicked = np.zeros(users), np.zeros(users, dtype=np.int64)
        self.oracle_clicks: Integers = np.empty((users, points), dtype=np.int64)

    def excluded(self) -> Booleans:
        """Return the items that the policy must not show at this step (users, L)."""
        return self.shown.excluded(self.policy.K, self.policy.catalog.present)

    def record(self, model: ClickModel, lists: Integers, clicks: Booleans, value: Floats, draws: Floats) -> None:
        """Record what the policy showed at this step, with the click probability of each list. Run the oracle."""
        self.shown.record(lists, clicks)
        self.value += value
        K, catalog, name = self.policy.K, self.policy.catalog, type(model).__name__
        present = catalog.present
        if model.catalog is not None and model.catalog is not catalog:
            present = present & model.catalog.present
        exclude = self.shown_by_oracle.excluded(K, present) | ~present
        best = model.best_lists(K, exclude=exclude)
        best = checks.item_lists(f"best_lists of {name}", best, self.users, catalog.L, K)
        if np.take_along_axis(exclude, best, axis=1).any():
            raise ValueError(f"best_lists of {name} must not contain items of the argument 'exclude', got some")
        found = model.respond(best, draws)
        self.shown_by_oracle.record(best, found)
        self.oracle_clicked += found.sum(axis=1)


def hide_rule(hide: Any) -> Hide:
    """Return the rule for the argument ``hide`` of :func:`thali.simulate`."""
    if isinstance(hide, Hide):
        return hide
    if not isinstance(hide, str) or hide not in NAMES:
        names = ", ".join(map(repr, NAMES))
        raise ValueError(f"hide must be one of {names}, or a thali.Hide, got {short(hide)}")
    return Hide.named(hide)


def check_can_exclude(model: ClickModel) -> None:
    """Raise TypeError unless the method best_lists of a model has the argument ``exclude``."""
    found = signature(model.best_lists)
    if not any(p.name == "exclude" or p.kind is Parameter.VAR_KEYWORD for p in found.parameters.values()):
        raise TypeError(
            f"best_lists of {type(model).__name__} must have the argument 'exclude' if simulate hides items, "
            f"got best_lists{found}"
        )
