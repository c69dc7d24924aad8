"""Click models that are not in the paper. Items attract as in the diverse cascade, but users browse differently."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.people.cascade import DiverseCascade
from thali.people.model import Habits
from thali.tools import checks
from thali.tools.types import Booleans, Floats


class DependentClick(DiverseCascade):
    """The dependent click model (Guo et al. 2009; Katariya et al. 2016): a cascade that may continue after a click.

    After a click at position k, the user continues with probability λ_k. Without a click, the user always continues.

    Parameters
    ----------
    catalog, theta: as in the diverse cascade. With λ = 0, this model is the diverse cascade.
    going_on: λ, either one number for all positions, or one number for each of at least K positions.

    """

    def __init__(self, catalog: Catalog, theta: Any, *, going_on: Any) -> None:
        super().__init__(catalog, theta)
        name = "going_on of DependentClick"
        if isinstance(going_on, list | tuple | np.ndarray):
            self.going_on: float | Floats = _by_position(name, going_on)
        else:
            self.going_on = _share(name, going_on)

    def habits(self, attraction: Floats) -> Habits:
        """Return the habits: users click if attracted, and continue after a click with probability λ_k."""
        going_on = self.going_on
        if isinstance(going_on, np.ndarray):
            going_on = _first("going_on of DependentClick", going_on, attraction.shape[1])
        return Habits(attraction, going_on, 1.0)


class DynamicBayesian(DiverseCascade):
    """The dynamic Bayesian network model (Chapelle and Zhang 2009): users leave when they are satisfied or give up.

    After a click, the user is satisfied with probability s and leaves. A user who is not satisfied, or who did not
    click, continues with probability γ.

    Parameters
    ----------
    catalog, theta: as in the diverse cascade. With s = γ = 1, this model is the diverse cascade.
    satisfaction: s, the same for all items.
    perseverance: γ.

    """

    def __init__(self, catalog: Catalog, theta: Any, *, satisfaction: float, perseverance: float = 1.0) -> None:
        super().__init__(catalog, theta)
        self.satisfaction = _share("satisfaction of DynamicBayesian", satisfaction)
        self.perseverance = _share("perseverance of DynamicBayesian", perseverance)

    def habits(self, attraction: Floats) -> Habits:
        """Return the habits: users click if attracted, and continue with probability (1-s)·γ after a click, else γ."""
        return Habits(attraction, (1.0 - self.satisfaction) * self.perseverance, self.perseverance)


class PositionBased(DiverseCascade):
    """The position-based model (Richardson et al. 2007): position k is examined with probability p_k.

    Positions are clicked independently of one another, with probability attraction_k·p_k. So users go through the whole
    list and click with that probability. In this model, a position is "examined" if the user looked at it, not if the
    user got that far. For this reason, the model overrides :meth:`examination` and :meth:`walk`.

    Parameters
    ----------
    catalog, theta: as in the diverse cascade. With p_k = 1, this model is the linear submodular model.
    examined: p, one number for each of at least K positions.

    """

    def __init__(self, catalog: Catalog, theta: Any, *, examined: Any) -> None:
        super().__init__(catalog, theta)
        self.examined = _by_position("examined of PositionBased", examined)

    def habits(self, attraction: Floats) -> Habits:
        """Return the habits: users click with probability attraction_k·p_k, and always continue."""
        return Habits(attraction * self._p(attraction.shape[1]), 1.0, 1.0)

    def examination(self, lists: Any) -> Floats:
        """Return p_k (users, K)."""
        shape = self._lists(lists).shape
        return np.broadcast_to(self._p(shape[1]), shape).copy()

    def walk(self, lists: Any, uniforms: Floats) -> tuple[Booleans, Booleans]:
        """Return which positions are clicked and which are examined, both (users, K).

        A position is clicked if its uniform random number is below attraction_k·p_k, and examined if it is below p_k.
        """
        clicks = self.respond(lists, uniforms)
        return clicks, np.asarray(uniforms) < self._p(clicks.shape[1])

    def _p(self, K: int) -> Floats:
        return _first("examined of PositionBased", self.examined, K)


class NoisyCascade(DiverseCascade):
    """A cascade with noise: some clicks are accidental, and some attractive items are skipped.

    An item that attracts the user is skipped with probability η. Otherwise, it is clicked and the user leaves. An item
    that does not attract the user is clicked by accident with probability ε, and the user always continues. So an item
    that attracts with probability a is clicked with probability c = (1-η)·a + ε·(1-a), and after a click the user
    continues with probability ε·(1-a)/c.

    Parameters
    ----------
    catalog, theta: as in the diverse cascade. With ε = η = 0, this model is the diverse cascade.
    extra, skip: ε and η, with ε + η ≤ 1. With a larger sum, a more attractive item would be clicked less often.

    """

    def __init__(self, catalog: Catalog, theta: Any, *, extra: float, skip: float) -> None:
        super().__init__(catalog, theta)
        self.extra = _share("extra of NoisyCascade", extra)
        self.skip = _share("skip of NoisyCascade", skip)
        if self.extra + self.skip > 1.0 + 1e-9:
            raise ValueError(f"extra and skip of NoisyCascade must sum to at most 1, got {self.extra + self.skip}")

    def habits(self, attraction: Floats) -> Habits:
        """Return the habits: users click with probability c, and continue after an accidental click or no click."""
        accident = self.extra * np.maximum(0.0, 1.0 - attraction)  # because of rounding, attraction may exceed 1
        click = (1.0 - self.skip) * attraction + accident
        return Habits(click, np.divide(accident, click, out=np.zeros_like(click), where=click > 0.0), 1.0)


def _share(name: str, value: Any) -> float:
    return checks.number(name, value, low=0.0, high=1.0)


def _by_position(name: str, values: Any) -> Floats:
    """Check probabilities, one for each position. Return them as a read-only array."""
    return checks.read_only(checks.within(name, checks.floats(name, values, (None,), "(K,)"), 0.0, 1.0))


def _first(name: str, values: Floats, K: int) -> Floats:
    """Return the values of the first K positions."""
    if values.size < K:
        raise ValueError(f"{name} must have at least {K} numbers, one for each position of a list, got {values.size}")
    return values[:K]
