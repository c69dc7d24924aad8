"""The topics of a fitted catalog, except quality: given, learned, or those of a catalog that was fitted before."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from thali.catalog.catalog import Catalog
from thali.datasets.estimation import attractiveness
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.datasets.topics import LARGEST, Factors, is_learned, learned_names, most_topics
from thali.starting.known import Known
from thali.tools import checks
from thali.tools.types import Floats

#: The name of the steady topic with the quality of the items.
QUALITY = "quality"
# If the data are a log, the weight of an item in a given topic is its click rate times this. Real lists can be long,
# and people do not tire of a topic within a list (docs/first-lists.md), so the weights are small.
GIVEN_IN_LOGS = 0.25
# How many people, who like what everybody likes, are added to each given topic.
SMOOTHING = 1.0


class Columns(NamedTuple):
    """Some topics of a catalog: their weights (items, topics) and names."""

    weights: sp.csr_array
    names: list[Hashable]


def given_topics(data: Interactions | Log, quality: Floats, d: int) -> Columns:
    """Return the d given topics with the most items, in their order."""
    weights, names = _given(data, quality)
    if not names:
        raise ValueError("data of fit must have topics unless topics is 'learned', got data without topics")
    for name in names:
        if str(name) == QUALITY or is_learned(name):
            raise ValueError(
                f"topics of the data of fit must not be called {QUALITY!r}, nor like a learned topic, got {name!r}"
            )
    counts = np.diff(sp.csc_array(weights).indptr)
    most = np.sort(np.argsort(-counts, kind="stable")[:d])
    return Columns(sp.csr_array(weights[:, most]), [names[j] for j in most])


def _given(data: Interactions | Log, quality: Floats) -> Columns:
    if isinstance(data, Interactions):
        return Columns(attractiveness(data, smoothing=SMOOTHING), list(data.topics))
    # In a log, how often an item was liked depends on how often it was shown, so its click rate is used.
    weights = data.membership.astype(np.float64).tocsr()
    weights.data = GIVEN_IN_LOGS * np.repeat(quality, np.diff(weights.indptr))
    return Columns(sp.csr_array(weights), list(data.topics))


def learned_topics(
    data: Interactions | Log,
    likes: sp.csr_array,
    quality: Floats,
    d: int,
    titles: Mapping[Any, str] | None,
    rng: np.random.Generator,
) -> Columns:
    """Return d topics that are learned from likes, the one with the largest weights first. Empty ones are left out."""
    if titles is None and isinstance(data, Log):
        titles = data.titles
    learned = Factors(likes, quality).learn(d, most_topics(d), rng)
    learned = LARGEST * learned[:, np.argsort(-learned.sum(axis=0), kind="stable")]
    learned = learned[:, learned.any(axis=0)]
    return Columns(sp.csr_array(learned), list(learned_names(learned, data.items, titles)))


def check_like(like: Any, quality: bool) -> Catalog:
    """Raise an error unless this can be a catalog that fit has returned. quality: whether it may have no quality."""
    catalog: Catalog = checks.instance("like of fit", like, Catalog)
    steady = np.flatnonzero(~catalog.fading).tolist()
    has_quality = catalog.topics[-1] == QUALITY and steady == [catalog.d - 1]
    if not (has_quality or (not quality and not steady)) or catalog.coverage != "probabilistic":
        without = ", or with quality=False a catalog without steady topics" if not steady else ""
        raise ValueError(
            f"like of fit must be a catalog from thali.fit, whose last topic {QUALITY!r} is its only steady one"
            f"{without}, got {catalog!r} with the last topic {catalog.topics[-1]!r}"
        )
    return catalog


def topics_like(like: Catalog, data: Interactions | Log, known: Known, quality: Floats) -> Columns:
    """Return the topics of ``like``, except quality, for the items of the data.

    An item of ``like`` keeps its weights in learned topics. The weights of other items are computed from the people who
    like them. The weights in given topics come from the data. Names that differ are compared as text.
    """
    names = [name for name, fades in zip(like.topics, like.fading.tolist(), strict=True) if fades]
    numbers = _numbers(like, data)
    old = numbers >= 0
    if not old.any():
        raise ValueError(f"like of fit must have at least one item of the data, got {like!r} with none of them")
    columns = np.zeros((len(numbers), len(names)))
    columns[old] = like.dense[numbers[old], : len(names)]
    learned = np.array([is_learned(name) for name in names], dtype=np.bool_)
    if learned.any():
        most = most_topics(int(np.count_nonzero(learned)))
        folded = Factors(known.likes, quality).fold_in(columns[:, learned], old, most)
        columns[:, learned] = np.minimum(1.0, folded)
    given = _given(data, quality)
    at = {str(name): j for j, name in enumerate(given.names)}
    for j in np.flatnonzero(~learned):
        if str(names[j]) in at:
            columns[:, j] = given.weights[:, [at[str(names[j])]]].toarray().ravel()
    return Columns(sp.csr_array(columns), names)


def _numbers(like: Catalog, data: Interactions | Log) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the number in ``like`` of each item of the data, or -1 (items,)."""
    texts = {str(name): e for e, (name, here) in enumerate(zip(like.items, like.present, strict=True)) if here}
    found = (like.find(name) for name in data.items)
    return np.array(
        [texts.get(str(name), -1) if e is None else e for e, name in zip(found, data.items, strict=True)],
        dtype=np.int64,
    )
