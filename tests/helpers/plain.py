"""A plain loop whose lists the search must reproduce: at every position, it computes the index of every item."""

import math

import numpy as np

from thali.lists.plain import indices


def plain_list(W, coverage, estimate, inverse, alpha, K, features="gains", cap=math.inf, shown=None, fading=True):
    """Return one user's list; ties go to the lowest item. shown (L,): which items may be chosen, by default all.

    fading (d,): which topics are covered by the items of the list, by default all.
    """
    left = np.ones(len(W), dtype=bool) if shown is None else np.array(shown, dtype=bool)
    state = np.ones(W.shape[1]) if coverage == "probabilistic" else np.zeros(W.shape[1])
    chosen, values = [], np.empty(len(W))
    for _ in range(K):
        X = W * state if coverage == "probabilistic" else np.maximum(0.0, W - state)
        indices(X, estimate, inverse, alpha, values)
        best = int(np.argmax(np.where(left, np.minimum(values, cap), -np.inf)))
        chosen.append(best)
        left[best] = False
        if features == "gains":
            covered = state * (1.0 - W[best]) if coverage == "probabilistic" else np.maximum(W[best], state)
            state = np.where(fading, covered, state)
    return chosen
