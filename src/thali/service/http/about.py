"""A description of the service, for clients that adapt to it."""

from __future__ import annotations

from dataclasses import dataclass

import thali
from thali.service.http.settings import Limits, Settings
from thali.service.http.simulations import LEARNING
from thali.service.recommender import Recommender
from thali.service.recommender.learners import Learner


@dataclass(frozen=True, slots=True)
class LearnerAbout:
    """A learner and its settings."""

    name: str
    policy: str
    K: int
    """Items in a list, unless the request says otherwise."""
    sigma: float
    alpha: float
    """The optimism for a user without feedback; if it is set by theory, it may differ for others."""
    share: float
    """Its share of the users."""
    features: str
    """"gains", what an item adds to those above it (diverse lists), or "items", the item's own topics."""
    examined: str
    """Which positions are learned from: "first-click" (those up to it), "last-click" or "all"."""


@dataclass(frozen=True, slots=True)
class About:
    """What the service is and what the caller may do. Callers without a key learn only that the service has keys."""

    keys: bool
    """Whether the service has keys; without them all callers are admin."""
    role: str | None
    """The caller's role: "read", "write" or "admin"; without a key of this service null, like all that follows."""
    version: str | None = None
    """The version of thali."""
    items: int | None = None
    """As of the last transaction of this process."""
    topics: list[str] | None = None
    """In the order of the catalog."""
    coverage: str | None = None
    """"probabilistic" or "max"; for a custom coverage, the name of its class."""
    learners: list[LearnerAbout] | None = None
    policies: list[str] | None = None
    """The policies that can be simulated."""
    limits: Limits | None = None


def describe(settings: Settings, recommender: Recommender, role: str | None) -> About:
    """Describe the service to a caller with this role, from memory."""
    if role is None:
        return About(keys=True, role=None)
    catalog = recommender.catalog
    return About(
        keys=bool(settings.keys),
        role=role,
        version=thali.__version__,
        items=len(catalog),
        topics=list(map(str, catalog.topics)),
        coverage=catalog.coverage if catalog.custom is None else type(catalog.custom).__name__,
        learners=[_learner(learner) for learner in recommender.learners.values()],
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
