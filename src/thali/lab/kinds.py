"""Kinds of people: how the people of an experiment click, and how their tastes change."""

from __future__ import annotations

from collections.abc import Callable

from thali.catalog.catalog import Catalog
from thali.datasets.estimation import Behaviour
from thali.people import (
    Cascade,
    ClickModel,
    DependentClick,
    DiverseCascade,
    DynamicBayesian,
    LinearSubmodular,
    NoisyCascade,
    PositionBased,
)
from thali.people.drift import Drift
from thali.tools.types import Floats

Person = DiverseCascade | Cascade

#: Kind → a function that creates such people from the weights by which they click, their tastes and their behavior.
PEOPLE: dict[str, Callable[[Catalog, Floats, Behaviour], Person]] = {
    "diverse-cascade": lambda catalog, theta, b: DiverseCascade(catalog, theta),
    "cascade": lambda catalog, theta, b: Cascade.of_topics(catalog, theta),
    "linear-submodular": lambda catalog, theta, b: LinearSubmodular(catalog, theta),
    "dependent-click": lambda catalog, theta, b: DependentClick(catalog, theta, going_on=b.going_on),
    "dynamic-bayesian": lambda catalog, theta, b: DynamicBayesian(
        catalog, theta, satisfaction=b.satisfaction, perseverance=b.perseverance
    ),
    "position-based": lambda catalog, theta, b: PositionBased(catalog, theta, examined=b.examined),
    "noisy-cascade": lambda catalog, theta, b: NoisyCascade(catalog, theta, extra=b.extra, skip=b.skip),
}

#: A description of each kind, for readers.
DESCRIPTIONS = {
    "diverse-cascade": "the paper's model: attracted by what an item adds to the list; leave at the first click",
    "cascade": "attracted by each item alone, regardless of the items above it; leave at the first click",
    "linear-submodular": "attracted by what an item adds to the list; examine every position",
    "dependent-click": "like the paper's model, but continue after a click with some probability",
    "dynamic-bayesian": "leave after a click that satisfies them; after any other click, or no click, continue with "
    "some probability",
    "position-based": "examine each position with its own probability, regardless of clicks",
    "noisy-cascade": "skip some attractive items; click some unattractive ones by accident, and then continue",
}


def drifting(kind: str, before: Person, after: Person, steps: int) -> ClickModel:
    """People whose tastes change within this many steps.

    kind: "abrupt" (halfway through), "gradual" (over the middle half) or "back-and-forth" (every quarter of the run).
    """
    if kind == "abrupt":
        return Drift.abrupt(before, after, when=max(1, steps // 2))
    if kind == "gradual":
        length = max(1, steps // 2)
        return Drift.gradual(before, after, when=max(1, steps // 4), length=length, stages=min(50, length))
    if kind == "back-and-forth":
        return Drift.back_and_forth(before, after, period=max(1, steps // 4))
    raise ValueError(f"drift must be one of 'abrupt', 'gradual', 'back-and-forth', got {kind!r}")
