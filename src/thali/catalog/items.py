"""The weights of all items as flat arrays, the form that kernels read."""

from typing import Any, NamedTuple

import numpy as np

from thali.tools.jit import inlined


class Items(NamedTuple):
    """The topics of item e, ascending, and its weights w̄(e,j): topics[begin[e]:end[e]], weights[begin[e]:end[e]].

    begin, end and topics are unsigned 32-bit integers, weights are floats.
    """

    begin: Any
    end: Any
    topics: Any
    weights: Any


@inlined
def size_of(items: Items, e: int) -> Any:
    """How many topics item e has."""
    return np.int64(items.end[e]) - np.int64(items.begin[e])
