"""The weights of all items as flat arrays, the form that kernels read."""

from typing import Any, NamedTuple

import numpy as np

from thali.tools.jit import inlined


class Items(NamedTuple):
    """Item e has the topics topics[begin[e]:end[e]], ascending, with weights w̄(e,j) weights[begin[e]:end[e]].

    begin, end and topics are unsigned 32-bit integers, weights are floats.
    """

    begin: Any
    end: Any
    topics: Any
    weights: Any


@inlined
def size_of(items: Items, e: int) -> Any:
    """Return the number of topics of item e."""
    return np.int64(items.end[e]) - np.int64(items.begin[e])
