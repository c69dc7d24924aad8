"""What lists gained, and what is learned from clicks on them."""

import numpy as np

from thali.kernels.index import cover, empty, gain
from thali.kernels.jit import kernel

FIRST_CLICK, ALL, LAST_CLICK = 0, 1, 2


@kernel
def examined(clicks, rule):
    """How many positions from the top were examined, for one user's clicks (K,): all K where none was clicked."""
    K = clicks.size
    if rule == FIRST_CLICK:
        for k in range(K):
            if clicks[k]:
                return k + 1
    elif rule == LAST_CLICK:
        for k in range(K, 0, -1):
            if clicks[k - 1]:
                return k
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
def add(M, B, gains, clicks, count, precision, positions, factor, support):
    """M += factor·v_k·σ⁻²·xxᵀ and B += factor·v_k·x·click over the first count positions of one user's list.

    v_k = positions[k]. support (d,) is scratch.
    """
    d = B.size
    for k in range(count):
        size = 0
        for j in range(d):
            if gains[k, j] != 0.0:
                support[size] = j
                size += 1
        weight = factor * positions[k]
        for a in range(size):
            i = support[a]
            for b in range(size):
                j = support[b]
                M[i, j] += (precision * weight) * (gains[k, i] * gains[k, j])  # this order keeps M exactly symmetric
            if clicks[k]:
                B[i] += weight * gains[k, i]


@kernel
def accumulate(M, B, gains, clicks, rule, precision, positions, factor):
    """Algorithm 1, lines 13-17: M += σ⁻²·xxᵀ and B += x·click over the examined positions; precision = σ⁻².

    Only an examined position's click counts. positions (K,) weighs each position, factor (users,) each user's list: all
    ones in Algorithm 1. Cost: O(K·(d + s²)) a user for gains with s topics each.
    """
    users, _, d = gains.shape
    support = np.empty(d, dtype=np.int64)
    for user in range(users):
        count = examined(clicks[user], rule)
        add(M[user], B[user], gains[user], clicks[user], count, precision, positions, factor[user], support)


@kernel
def observe(kind, items, lists, clicks, rule, precision, positions, M, B):
    """list_gains and accumulate in one, to the same bits, without the array of gains. Cost: O(d + K·s²) a user."""
    users, d = B.shape
    state = np.empty(d)
    x = np.empty(d)
    for user in range(users):
        state[:] = empty(kind)
        for k in range(examined(clicks[user], rule)):
            item = lists[user, k]
            lo, hi = items.begin[item], items.end[item]
            weight = positions[k]
            for a in range(lo, hi):
                i = items.topics[a]
                x[i] = gain(kind, items.weights[a], state[i])
                state[i] = cover(kind, items.weights[a], state[i])
                if clicks[user, k]:
                    B[user, i] += weight * x[i]
            for a in range(lo, hi):
                i = items.topics[a]
                for b in range(lo, hi):
                    j = items.topics[b]
                    M[user, i, j] += (precision * weight) * (x[i] * x[j])


@kernel
def fade(M, B, factor):
    """M = I + factor·(M - I) and B = factor·B, factor (users,); of one user where it is 1, nothing. O(d²) a user."""
    users, d = B.shape
    for user in range(users):
        if factor[user] == 1.0:
            continue
        for i in range(d):
            B[user, i] *= factor[user]
            for j in range(d):
                own = 1.0 if i == j else 0.0
                M[user, i, j] = own + factor[user] * (M[user, i, j] - own)
