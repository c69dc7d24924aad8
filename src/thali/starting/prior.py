"""A prior that does not depend on the units in which topics are measured."""

from __future__ import annotations

import numpy as np

from thali.policies import LinearPolicy, Prior
from thali.policies.linear.state import LinearState
from thali.starting.known import state_with


def learned_prior(policy: LinearPolicy, state: LinearState) -> Prior:
    """Return what :meth:`thali.Prior.learn` would return if the largest weight of each topic was 1, in our units.

    With few people, a learned prior stays close to a default that is the same for all topics. But a weight of 0.1 is
    large in a learned topic and small in a given one. So the weights x of each topic are divided by the largest one, c,
    before the prior is learned: M becomes I + C⁻¹(M - I)C⁻¹ and B becomes C⁻¹B, where C is the diagonal matrix of all
    c. A taste θ for the divided weights is a taste C⁻¹θ for the weights as they are.

    If all people share one M, they still do. Cost: O(people·d²), or O(d² + people·d) if they do, and that of
    Prior.learn.
    """
    largest = policy.catalog.csr.max(axis=0).toarray().ravel()
    c = np.where(largest > 0.0, largest, 1.0)  # a topic may have no items
    M, units, eye = state.M, np.outer(c, c), np.eye(len(c))
    if M.strides[0] == 0:
        M = np.broadcast_to(eye + (M[0] - eye) / units, M.shape)
    else:
        M = M - eye
        M /= units
        M += eye
    prior = Prior.learn(policy, state_with(policy, M, state.B / c))
    return Prior(prior.mean / c, prior.covariance / units, prior.topics, people=prior.people)
