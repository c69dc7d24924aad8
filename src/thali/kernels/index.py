"""The index of an item, and the gains it is made of: the one scalar definition of what "exact" means.

Its sums are fused, each product and addition rounded once: half the operations on any processor of the last ten years.

The state of a topic is one float: the uncovered share 1 - c_j(S) for probabilistic coverage, c_j(S) for max
coverage, unused for fixed features Δ(e|∅).
"""

from math import sqrt

import numpy as np

from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import fused

PROBABILISTIC, MAX, FIXED = 0, 1, 2


@inlined
def empty(kind):
    """State of a topic that nothing covers."""
    return 1.0 if kind == PROBABILISTIC else 0.0


@inlined
def gain(kind, weight, state):
    """Δ_j(e|S) of an item of weight w̄(e,j) in a topic in this state."""
    if kind == PROBABILISTIC:
        return weight * state
    if kind == MAX:
        return max(0.0, weight - state)
    return weight


@inlined
def cover(kind, weight, state):
    """State of the topic once an item of weight w̄(e,j) has joined S."""
    if kind == PROBABILISTIC:
        return state * (1.0 - weight)
    if kind == MAX:
        return max(weight, state)
    return state


@inlined
def terms(kind, lo, hi, topics, weights, state, estimate, inverse, wide, x):
    """The sums behind one item's index, over its topics[lo:hi] in ascending order.

    Returns (m, q, p, P): m = x·θ̄ and q = xᵀM⁻¹x make the index; p = x·θ̄⁺ and P = xᵀ(M⁻¹)⁺x make bounds that can
    only fall as coverage grows. ``wide`` False leaves the quadratic forms out; ``x`` is scratch.
    Cost: O(s²) for an item of s topics.
    """
    m, p, q, P = 0.0, 0.0, 0.0, 0.0
    for a in range(hi - lo):
        i = topics[lo + a]
        x[a] = gain(kind, weights[lo + a], state[i])
        m = fused(x[a], estimate[i], m)
        p += max(0.0, x[a] * estimate[i])
        if wide:
            mixed, positive = 0.0, 0.0
            for b in range(a):
                entry = inverse[i, topics[lo + b]]
                mixed = fused(entry, x[b], mixed)
                positive += max(0.0, entry * x[b])
            own = inverse[i, i] * x[a]
            q = fused(x[a], fused(2.0, mixed, own), q)
            P += x[a] * (max(0.0, own) + 2.0 * positive)
    return m, q, p, P


@inlined
def value(m, q, alpha):
    """The index itself: x·θ̄ + α·sqrt(max(0, xᵀM⁻¹x)), line 9 of Algorithm 1."""
    return fused(alpha, sqrt(max(0.0, q)), m)


@kernel
def values(X, estimate, inverse, alpha, out):
    """Indices of all rows of dense features X (L, d) for one user, into out (L,)."""
    L, d = X.shape
    topics = np.arange(d)
    x = np.empty(d)
    for e in range(L):
        m, q, _, _ = terms(FIXED, 0, d, topics, X[e], x, estimate, inverse, alpha != 0.0, x)
        out[e] = value(m, q, alpha)
