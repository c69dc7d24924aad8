"""What a service is, for clients that adapt to it."""

from __future__ import annotations

from dataclasses import dataclass

import thali
from thali.recommender import Recommender
from thali.recommender.learners import Learner
from thali.serve.settings import Limits, Settings
from thali.serve.simulations import LEARNING


@dataclass(frozen=True, slots=True)
class LearnerAbout:
    """A learner and its settings."""

    name: str
    policy: str
    K: int
    """Items in a list, where the request does not say."""
    sigma: float
    alpha: float
    """The optimism of a user of whom nothing is known; by theory, that of others may differ."""
    share: float
    """Of the users."""
    features: str
    """"gains", what an item adds to those above it (diverse), or "items", what it has."""
    examined: str
    """Which positions are learned from: "first-click" (those up to it), "last-click" or "all"."""


@dataclass(frozen=True, slots=True)
class About:
    """What the service is, and what the caller may do."""

    version: str
    """Of thali."""
    role: str
    """Of the caller: "read", "write" or "admin"."""
    keys: bool
    """Whether the service has keys; without them all callers are admin."""
    items: int
    """As of the last transaction of this process."""
    topics: list[str]
    """In the order of the catalogue."""
    coverage: str
    """"probabilistic" or "max"; of a coverage of your own, the name of its class."""
    learners: list[LearnerAbout]
    policies: list[str]
    """Those that can be simulated."""
    limits: Limits


def describe(settings: Settings, home: Recommender, role: str) -> About:
    """All of it, from memory, to a caller of this role."""
    catalog = home.catalog
    return About(
        version=thali.__version__,
        role=role,
        keys=bool(settings.keys),
        items=len(catalog),
        topics=list(map(str, catalog.topics)),
        coverage=catalog.coverage if catalog.own is None else type(catalog.own).__name__,
        learners=[_learner(learner) for learner in home.learners.values()],
        policies=list(LEARNING),
        limits=settings.limits,
    )


def _learner(learner: Learner) -> LearnerAbout:
    policy = learner.policy
    return LearnerAbout(
        name=learner.name,
        policy=type(policy).__name__,
        K=policy.K,
        sigma=policy.sigma,
        alpha=float(policy.optimism(policy.init(1))[0]),
        share=learner.share,
        features=policy.features,
        examined=policy.examined,
    )
