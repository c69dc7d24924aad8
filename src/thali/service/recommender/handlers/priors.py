"""Handlers for priors: show them, and put learned ones into use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import Basis, Conflict, GetPrior, SetPrior
from thali.service.recommender.prior_check import BEGAN, stored_checks
from thali.service.recommender.prior_learning import FILE_CHANGED, STORE_CHANGED, TOPICS_CHANGED, digest_of
from thali.service.stores.records import StoredPrior
from thali.service.stores.sql import FORGETS, START
from thali_client.types import LearnerPrior, PriorCheck, TopicPrior

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender
    from thali.service.recommender.transaction import Transaction

# How many users are looked up at a time.
PAGE = 1000


def get_prior(transaction: Transaction, operation: GetPrior) -> dict[str, LearnerPrior]:
    """Return the prior of each learner."""
    checks = stored_checks(transaction.recommender)
    return {
        name: describe(transaction.recommender, learner, checks.get(name))
        for name, learner in transaction.recommender.learners.items()
    }


def describe(recommender: Recommender, learner: Learner, check: PriorCheck | None) -> LearnerPrior:
    """Describe the prior of a learner."""
    policy, kept = learner.policy, recommender.priors.get(learner.name)
    learns = learner.name in recommender.prior_learners
    learned = kept is not None and kept.prior is not None
    topics = None
    if policy.prior is not None:
        deviations = np.sqrt(np.diagonal(policy.prior.covariance))
        topics = [
            TopicPrior(str(topic), float(mean), float(deviation))
            for topic, mean, deviation in zip(policy.catalog.topics, policy.prior.mean, deviations, strict=True)
        ]
    return LearnerPrior(
        source="learned" if learned else ("none" if policy.prior is None else "start"),
        learns=learns,
        version=0 if kept is None else kept.version,
        learned_at=kept.at if kept is not None and learned else None,
        people=kept.people if kept is not None and learned else None,
        fell_back=kept is not None and kept.fell_back,
        sigma=policy.sigma,
        topics=topics,
        check=check,
    )


def set_prior(transaction: Transaction, operation: SetPrior) -> int:
    """Put a prior into use, and return its version."""
    store = transaction.store
    transaction.write()
    kept = store.priors().get(operation.learner)
    if operation.instead_of is not None and operation.instead_of != (0 if kept is None else kept.version):
        raise Conflict(f"version of the prior must still be {operation.instead_of}, but another one is in use")
    if operation.basis is not None:
        _check_basis(transaction, operation.learner, operation.basis)
    version = store.versions()[2] + 1
    if operation.prior is None:
        store.drop_meta(BEGAN + operation.learner)
    elif kept is None or kept.prior is None or store.meta(BEGAN + operation.learner) is None:
        store.set_meta(BEGAN + operation.learner, repr(transaction.now))
    content = None if operation.prior is None else json.dumps(operation.prior.content)
    store.set_prior(
        operation.learner, StoredPrior(version, transaction.now, operation.people, operation.fell_back, content)
    )
    transaction.changes_catalog = True
    return version


def _check_basis(transaction: Transaction, learner: str, basis: Basis) -> None:
    """Raise Conflict if that from which a prior was learned may have changed meanwhile.

    Somebody who was forgotten may be back, with new statistics. So everybody whose statistics have changed counts.
    """
    store = transaction.store
    if basis.store != store.meta("id"):
        raise Conflict(STORE_CHANGED)
    if basis.topics != transaction.topics.current:
        raise Conflict(TOPICS_CHANGED)
    if basis.start not in (None, store.meta(START)):
        raise Conflict(FILE_CHANGED)
    if basis.forgets == store.meta(FORGETS):
        return
    gone: set[str] = set()
    users = list(basis.users)
    for begin in range(0, len(users), PAGE):
        keys = [(user, learner) for user in users[begin : begin + PAGE]]
        found = store.statistics(keys)
        gone.update(key[0] for key in keys if key not in found or digest_of(found[key]) != basis.users[key[0]])
    if gone:
        conflict = Conflict(
            f"users must not be forgotten while a prior is learned from them, got {len(gone)} who may have been"
        )
        conflict.forgotten, conflict.forgets = frozenset(gone), store.meta(FORGETS)
        raise conflict
