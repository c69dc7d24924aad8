"""Preferences that change: users who click according to one model for some steps, and then according to another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Self

from thali.catalog.catalog import Catalog
from thali.people.cascade import Cascade, DiverseCascade
from thali.people.model import ClickModel
from thali.tools import checks
from thali.tools.types import Floats, Integers


class Drift(ClickModel):
    """A sequence of click models for the same users and items. :func:`thali.simulate` calls :meth:`at` at each step.

    Regret is measured against the current best list. The attraction, the best lists and everything computed from them
    depend on the step, so use the current model for these: ``drift.at(step)``.

    Parameters
    ----------
    stages: the click models.
    starts: the step at which each stage begins, in increasing order. The first is 0.
    cycle: the number of steps after which the stages start over. By default, they never do.

    Attributes
    ----------
    catalog, theta: the catalog and theta of the last stage, if it has them.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.0, 0.5]])
    >>> before, after = thali.DiverseCascade(catalog, [[0.9, 0.1]]), thali.DiverseCascade(catalog, [[0.1, 0.9]])
    >>> people = thali.Drift.abrupt(before, after, when=100)
    >>> people.at(99).best_lists(1), people.at(100).best_lists(1)
    (array([[0]]), array([[1]]))
    >>> slowly = thali.Drift.gradual(before, after, when=100, length=200)
    >>> slowly.at(199).theta, slowly.at(296).theta
    (array([[0.5, 0.5]]), array([[0.1, 0.9]]))

    """

    def __init__(self, stages: Sequence[ClickModel], starts: Sequence[int], *, cycle: int | None = None) -> None:
        self.stages: tuple[ClickModel, ...] = tuple(
            checks.instance("stages of Drift", stage, ClickModel)
            for stage in checks.sequence("stages of Drift", stages)
        )
        self.starts = [
            checks.integer("starts of Drift", start, low=0) for start in checks.sequence("starts of Drift", starts)
        ]
        if not self.stages or len(self.starts) != len(self.stages):
            raise ValueError(
                f"starts of Drift must have one step for each stage, and at least one, got {len(self.starts)} starts "
                f"for {len(self.stages)} stages"
            )
        if self.starts[0] != 0 or any(a >= b for a, b in zip(self.starts, self.starts[1:], strict=False)):
            raise ValueError(f"starts of Drift must begin with 0 and increase, got {self.starts}")
        self.cycle = None if cycle is None else checks.integer("cycle of Drift", cycle, low=self.starts[-1] + 1)
        last = self.stages[-1]
        for stage in self.stages:
            if isinstance(stage, Drift):
                raise TypeError("stages of Drift must not be Drift models themselves, got a Drift")
            if (stage.users, stage.L) != (last.users, last.L):
                raise ValueError(
                    f"stages of Drift must have the same numbers of users and items, got {stage.users} users and "
                    f"{stage.L} items in one stage, and {last.users} users and {last.L} items in another"
                )
            if stage.catalog is not None and last.catalog is not None:
                mine, its = ((catalog.items, catalog.topics) for catalog in (stage.catalog, last.catalog))
                if mine != its:
                    raise ValueError("stages of Drift must have the same items and topics, got different names")
        self.users = last.users
        self.catalog: Catalog | None = last.catalog
        self.theta = last.theta

    @classmethod
    def abrupt(cls, before: ClickModel, after: ClickModel, when: int) -> Self:
        """Return a drift that uses one model before step ``when``, and the other model from this step on."""
        return cls([before, after], [0, checks.integer("when of abrupt", when, low=1)])

    @classmethod
    def gradual(
        cls,
        before: DiverseCascade | Cascade,
        after: DiverseCascade | Cascade,
        when: int,
        length: int,
        *,
        stages: int = 50,
    ) -> Self:
        """Return a drift from the θ of one model to the θ of another, in n = ``stages`` equal stages.

        The drift begins at step ``when`` and takes ``length`` steps. Stage i = 1..n begins at step
        ⌊when + (i-1)·length/n⌋ and has θ = (1-i/n)·θ_before + (i/n)·θ_after. The last stage is ``after`` itself. The
        other stages have the settings of ``before``. Both models must be of the same class. Cost: n models and, in a
        simulation, n best lists.
        """
        if type(before) is not type(after) or not isinstance(before, DiverseCascade | Cascade):
            given = f"{type(before).__name__} and {type(after).__name__}"
            raise TypeError(
                f"arguments 'before' and 'after' of gradual must be models of the same class with theta, got {given}"
            )
        if before.theta is None or after.theta is None or before.theta.shape != after.theta.shape:
            shapes = " and ".join(
                "none" if model.theta is None else str(model.theta.shape) for model in (before, after)
            )
            raise ValueError(
                f"theta of the arguments 'before' and 'after' of gradual must have the same shape, got {shapes}"
            )
        when = checks.integer("when of gradual", when, low=1)
        n = checks.integer("stages of gradual", stages, low=1)
        length = checks.integer("length of gradual", length, low=n)
        between = [before.with_theta((1.0 - i / n) * before.theta + i / n * after.theta) for i in range(1, n)]
        return cls([before, *between, after], [0, *(when + i * length // n for i in range(n))])

    @classmethod
    def back_and_forth(cls, first: ClickModel, second: ClickModel, period: int) -> Self:
        """Return a drift that switches from one model to the other every ``period`` steps, forever."""
        period = checks.integer("period of back_and_forth", period, low=1)
        return cls([first, second], [0, period], cycle=2 * period)

    @property
    def L(self) -> int:  # type: ignore[override]  # a catalog may grow
        """The number of items."""
        return self.stages[-1].L

    def at(self, step: int) -> ClickModel:
        """Return the model in use after this many steps. Cost: O(log stages)."""
        step = checks.integer("step", step, low=0)
        return self.stages[bisect_right(self.starts, step if self.cycle is None else step % self.cycle) - 1]

    def attraction(self, lists: Any) -> Floats:
        """Raise TypeError, because the attraction depends on the step. Use ``drift.at(step).attraction``."""
        raise self._step_needed("attraction")

    def best_lists(self, K: int, exclude: Any = None) -> Integers:
        """Raise TypeError, because the best lists depend on the step. Use ``drift.at(step).best_lists``."""
        raise self._step_needed("best_lists")

    def _step_needed(self, method: str) -> TypeError:
        return TypeError(
            f"{method} of Drift depends on the step, because preferences change: use drift.at(step).{method} instead"
        )
