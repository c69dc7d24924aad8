"""A list and its numbers: as it is chosen, as the store keeps it, and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from thali import diversity
from thali.catalog import Catalog
from thali.policies.linear import LinearPolicy, LinearState
from thali.recommender.answers import ShownItem
from thali.recommender.operations import id_text
from thali.stores.records import AsShown, Impression, unpack_shown
from thali.types import Floats, Integers


class Measured(NamedTuple):
    """What is written down of a list when it is shown."""

    numbers: AsShown
    predicted: float
    """1 - Π(1 - belief), beliefs taken as probabilities."""
    diversity: float
    exploration: float
    """Σ exploration / Σ (|belief| + exploration)."""


def measure(catalog: Catalog, policy: LinearPolicy, state: LinearState, chosen: Integers) -> Measured:
    """Beliefs, explorations and gains of a list (K,) for one user. Cost: O(K·d²) in NumPy."""
    gains: Floats = policy.gains(chosen[None])[0]
    belief = gains @ (state.solution[0] * policy.sigma**-2)
    width = np.sqrt(np.maximum(0.0, ((gains @ state.inverse[0]) * gains).sum(axis=1)))
    exploration = policy.optimism(state)[0] * width
    begin, end, topics, _ = catalog.sparse
    first, last = begin[chosen].tolist(), end[chosen].tolist()
    sizes = np.array([b - a for a, b in zip(first, last, strict=True)])
    which = np.concatenate([topics[a:b] for a, b in zip(first, last, strict=True)]).astype(np.int64)
    rows = np.repeat(np.arange(chosen.size), sizes)
    member = np.zeros((1, *gains.shape))
    member[0, rows, which] = 1.0
    total = float(np.abs(belief).sum() + exploration.sum())
    return Measured(
        AsShown(belief, exploration, sizes, which, gains[rows, which]),
        predicted=float(1.0 - np.prod(1.0 - np.minimum(1.0, np.maximum(0.0, belief)))),
        diversity=float(diversity.distance(member)[0]),
        exploration=float(exploration.sum()) / total if total > 0.0 else 0.0,
    )


def told(shown: Impression, topic_names: Sequence[Any], kind: Callable[..., Any], **more: Any) -> Any:
    """An impression in words, as a :class:`thali.recommender.answers.Shown` or what is built on it."""
    numbers = unpack_shown(shown.numbers, len(shown.items))
    topics, values = [topic_names[j] for j in numbers.topics.tolist()], numbers.values.tolist()
    beliefs, explorations = numbers.belief.tolist(), numbers.exploration.tolist()
    items, at = [], 0
    for k, (item, size) in enumerate(zip(shown.items, numbers.sizes.tolist(), strict=True)):
        its = topics[at : at + size]
        gains = dict(zip(its, values[at : at + size], strict=True))
        items.append(ShownItem(k, item, its, gains, beliefs[k], explorations[k]))
        at += size
    return kind(
        impression=id_text(shown.id),
        user=shown.user,
        learner=shown.learner,
        shown_at=shown.shown_at,
        click_probability=shown.predicted,
        items=items,
        **more,
    )
