"""A description of the service, for clients that adapt to it."""

from __future__ import annotations

import thali
from thali.service.http.settings import Settings
from thali.service.http.simulations import LEARNING
from thali.service.recommender import Recommender
from thali.service.recommender.learners import Learner
from thali_client.types import About, LearnerAbout


def describe(settings: Settings, recommender: Recommender, role: str | None) -> About:
    """Describe the service to a caller with this role. Does not use the store."""
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
        steady=[str(topic) for topic, fades in zip(catalog.topics, catalog.fading, strict=True) if not fades],
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
