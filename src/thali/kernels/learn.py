"""What lists gained, and what is learned from clicks on them."""

import numpy as np

from thali.kernels.index import cover, empty, gain
from thali.kernels.jit import kernel

FIRST_CLICK, ALL = 0, 1


@kernel
def examined(clicks, rule):
    """How many positions from the top were examined, for one user's clicks (K,): all K where none was clicked."""
    K = clicks.size
    if rule == FIRST_CLICK:
        for k in range(K):
            if clicks[k]:
                return k + 1
    return K


@kernel
def list_gains(kind, items, lists, out):
    """Δ(a_k | a_1..a_{k-1}) of every position, into out (users, K, d). O(K·s) a user, plus clearing out."""
    users, K = lists.shape
    d = out.shape[2]
    state = np.empty(d)
    out[:] = 0.0
    for user in range(users):
        state[:] = empty(kind)
        for k in range(K):
            item = lists[user, k]
            for a in range(items.begin[item], items.end[item]):
                j = items.topics[a]
                out[user, k, j] = gain(kind, items.weights[a], state[j])
                state[j] = cover(kind, items.weights[a], state[j])


@kernel
def list_attraction(kind, items, theta, lists, out):
    """⟨Δ(a_k | a_1..a_{k-1}), θ⟩ of every position, Eq. attraction probability, into out (users, K). O(K·s)."""
    users, K = lists.shape
    state = np.empty(theta.shape[1])
    for user in range(users):
        state[:] = empty(kind)
        for k in range(K):
            item = lists[user, k]
            total = 0.0
            for a in range(items.begin[item], items.end[item]):
                j = items.topics[a]
                total += gain(kind, items.weights[a], state[j]) * theta[user, j]
                state[j] = cover(kind, items.weights[a], state[j])
            out[user, k] = total


@kernel
def accumulate(M, B, gains, clicks, rule, precision):
    """Algorithm 1, lines 13-17: M += σ⁻²·xxᵀ and B += x·click over the examined positions; precision = σ⁻².

    Only an examined position's click counts. Cost: O(K·(d + s²)) a user for gains with s topics each.
    """
    users, _, d = gains.shape
    support = np.empty(d, dtype=np.int64)
    for user in range(users):
        for k in range(examined(clicks[user], rule)):
            x = gains[user, k]
            size = 0
            for j in range(d):
                if x[j] != 0.0:
                    support[size] = j
                    size += 1
            for a in range(size):
                i = support[a]
                for b in range(size):
                    j = support[b]
                    M[user, i, j] += precision * (x[i] * x[j])  # this order keeps M exactly symmetric
                if clicks[user, k]:
                    B[user, i] += x[i]


@kernel
def observe(kind, items, lists, clicks, rule, precision, M, B):
    """list_gains and accumulate in one, to the same bits, without the array of gains. Cost: O(d + K·s²) a user."""
    users, d = B.shape
    state = np.empty(d)
    x = np.empty(d)
    for user in range(users):
        state[:] = empty(kind)
        for k in range(examined(clicks[user], rule)):
            item = lists[user, k]
            lo, hi = items.begin[item], items.end[item]
            for a in range(lo, hi):
                i = items.topics[a]
                x[i] = gain(kind, items.weights[a], state[i])
                state[i] = cover(kind, items.weights[a], state[i])
                if clicks[user, k]:
                    B[user, i] += x[i]
            for a in range(lo, hi):
                i = items.topics[a]
                for b in range(lo, hi):
                    j = items.topics[b]
                    M[user, i, j] += precision * (x[i] * x[j])
