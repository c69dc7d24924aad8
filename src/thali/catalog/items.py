"""The weights of all items as flat arrays, which is how kernels read them."""

from typing import Any, NamedTuple

import numpy as np

from thali.tools.jit import inlined


class Items(NamedTuple):
    """The topics and weights of all items.

    The topics of item e are topics[begin[e]:end[e]], in ascending order. Its weights w̄(e,j) on these topics are
    weights[begin[e]:end[e]]. begin, end and topics are unsigned 32-bit integers; weights are floats. fading (d,) says
    for each topic whether its gains shrink as the topic is covered; if not, the topic is *steady*.
    """

    begin: Any
    end: Any
    topics: Any
    weights: Any
    fading: Any


@inlined
def size_of(items: Items, e: int) -> Any:
    """Return the number of topics of item e."""
    return np.int64(items.end[e]) - np.int64(items.begin[e])
