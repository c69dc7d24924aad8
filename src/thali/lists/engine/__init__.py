"""The search engine. It builds the same lists as :mod:`thali.lists.plain`, bit for bit, without scoring every item.

Other packages use only :func:`build` and ``CODE``, so the engine can be replaced as a whole. docs/engine.md explains
how it works.
"""

from __future__ import annotations

from math import inf

import numpy as np

from thali.catalog.candidates import ALL, Choice, allowed
from thali.catalog.catalog import Catalog
from thali.catalog.coverage import FIXED
from thali.lists.engine import among, search, shortlist
from thali.lists.engine.index import SearchIndex
from thali.lists.engine.variety import Variety
from thali.tools.fast import FastCode
from thali.tools.types import Floats, Integers

__all__ = ["CODE", "SearchIndex", "Variety", "build"]


def build(
    catalog: Catalog,
    estimate: Floats,
    inverse: Floats,
    alpha: Floats,
    *,
    K: int,
    features: str = "gains",
    cap: float = inf,
    choice: Choice = ALL,
) -> Integers:
    """Return the same lists (users, K) as :func:`thali.lists.plain.build`, for a compiled coverage.

    If many items have the same topics, the first call builds the search index, which the catalog then keeps. Cost: see
    docs/engine.md.
    """
    out = np.empty((len(estimate), K), dtype=np.int64)
    estimate, inverse = np.ascontiguousarray(estimate), np.ascontiguousarray(inverse)
    kind = catalog.kind if features == "gains" else FIXED
    items, start, only = choice
    beliefs = estimate, inverse, alpha, cap, out
    if only:
        among.greedy(kind, catalog.sparse, items, start, *beliefs)
        return out
    variety = catalog.derived(Variety)
    if variety.item_by_item:
        shortlist.greedy(kind, catalog.sparse, variety.most_topics, variety.removed, items, start, *beliefs)
    else:
        layout = catalog.derived(SearchIndex).layout
        used = np.zeros(catalog.L, dtype=np.bool_)
        search.greedy(kind, catalog.sparse, layout, used, items, start, *beliefs)
    return out


def example() -> None:
    """Call all kernels of the engine, so that they are compiled.

    The size of arrays does not matter, only their types.
    """
    rng = np.random.default_rng(0)
    catalog = Catalog(rng.random((80, 6)), fading=np.arange(6) > 0)  # one topic is steady
    beliefs = np.zeros((1, 6)), np.eye(6)[None], np.ones(1)
    build(catalog, *beliefs, K=2)
    build(catalog, *beliefs, K=2, choice=allowed(catalog, 1, 2, candidates=[0, 1, 2]))
    catalog.put(80, rng.random(6))  # a new item, a changed one and a removed one
    catalog.put(0, catalog.weights[0] / 2)
    catalog.remove(1)
    single = Catalog(rng.random((80, 6)) * (rng.random((80, 6)) < 0.7))  # items with different topics
    assert single.derived(Variety).item_by_item
    build(single, *beliefs, K=2)


CODE = FastCode("search engine", search.greedy, example)
