"""Changes and summaries of the matrix of weights, column by column."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from thali.tools.types import Booleans, Floats, Integers

# The mean over items with exactly the same topics is shrunk towards a wider mean, which counts as this many items.
# docs/quality.md has the measurement behind it.
WIDER_MEAN = 10.0


def replace_column(matrix: sp.csr_array, topic: int, values: Floats) -> sp.csr_array:
    """Return the matrix (L, d), in canonical CSR format, with other values (L,) in one column. Cost: O(nnz)."""
    L, d = matrix.shape
    kept = matrix.indices != topic
    rows = np.repeat(np.arange(L), np.diff(matrix.indptr))[kept]
    columns, data = matrix.indices[kept], matrix.data[kept]
    items = np.flatnonzero(values)
    at = np.searchsorted(rows * d + columns, items * d + topic)  # entries are in the order of rows, then of columns
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=L) + (values != 0.0)))
    parts = np.insert(data, at, values[items]), np.insert(columns, at, topic), indptr
    return sp.csr_array(parts, shape=(L, d))


def typical_weights(matrix: sp.csr_array, fading: Booleans, topics: Integers) -> Floats | None:
    """Return the weights (d,) that an item with these topics is expected to have, given the weights of other items.

    On each of the topics, this is the mean of the nonzero weights of all items with this topic. On a steady topic that
    is not among them, it is the mean over all items with any of the topics. Both are then combined with the same mean
    over the n items with exactly these topics, as (n·mean + 10·wider mean)/(n + 10). Steady topics do not count for
    whether items have the same topics.

    On a topic that no item has, the weight is the mean of all nonzero weights on topics that fade. Return None if there
    are none of these either. Cost: O(nnz).
    """
    L, d = matrix.shape
    named = np.zeros(d, dtype=np.bool_)
    named[topics] = True
    rows, columns, data = np.repeat(np.arange(L), np.diff(matrix.indptr)), matrix.indices, matrix.data
    shared = np.bincount(rows[named[columns]], minlength=L)
    others = np.bincount(rows[(fading & ~named)[columns]], minlength=L)
    related = shared > 0 if shared.any() else np.ones(L, dtype=np.bool_)
    same = (shared == len(topics)) & (others == 0)

    def means(some: Booleans) -> tuple[Floats, Floats]:
        """Return over how many of these items the mean is taken, and the mean (or 0), for each topic."""
        entries = some[rows]
        having = np.bincount(columns[entries], minlength=d)
        counts: Floats = np.where(named, having, np.count_nonzero(some)).astype(np.float64)
        return counts, np.bincount(columns[entries], data[entries], minlength=d) / np.maximum(1.0, counts)

    wider_counts, wider = means(related)
    counts, close = means(same)
    missing = named & (wider_counts == 0)
    if missing.any():
        usual = data[fading[columns]]
        if not usual.size:
            return None
        wider[missing] = usual.mean()
    row = (counts * close + WIDER_MEAN * wider) / (counts + WIDER_MEAN)
    return np.where(named | ~fading, row, 0.0)
