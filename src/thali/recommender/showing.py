"""A list and its numbers: as it is chosen, as the store keeps it, and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from thali.kernels import explain, index
from thali.policies.linear import LinearPolicy, LinearState
from thali.recommender.answers import ShownItem
from thali.recommender.operations import id_text
from thali.stores.records import AsShown, Impression
from thali.types import Integers


class Measured(NamedTuple):
    """What is written down of a list when it is shown."""

    numbers: AsShown
    predicted: float
    """1 - Π(1 - belief), beliefs taken as probabilities."""
    diversity: float
    """The mean distance of two items: :func:`thali.diversity.intra_list_distance`."""
    exploration: float
    """Σ exploration / Σ (|belief| + exploration)."""


def measure(policy: LinearPolicy, state: LinearState, chosen: Integers) -> Measured:
    """Beliefs, explorations and gains of a list (K,) for one user. Cost: O(K·s² + K²·s)."""
    catalog = policy.catalog
    estimate, alpha = state.solution[0] * policy.sigma**-2, float(policy.optimism(state)[0])
    if catalog.own is None:
        kind = catalog.kind if policy.features == "gains" else index.FIXED
        numbers = AsShown(*explain.explain(kind, catalog.sparse, chosen, estimate, state.inverse[0], alpha))
    else:
        numbers = plain(policy, state, chosen)
    beliefs, explorations = numbers.belief.tolist(), numbers.exploration.tolist()
    total = sum(map(abs, beliefs)) + sum(explorations)
    return Measured(
        numbers,
        predicted=1.0 - prod(1.0 - min(1.0, max(0.0, belief)) for belief in beliefs),
        diversity=explain.distance(numbers.sizes, numbers.topics),
        exploration=sum(explorations) / total if total > 0.0 else 0.0,
    )


def plain(policy: LinearPolicy, state: LinearState, chosen: Integers) -> AsShown:
    """The numbers of a list in NumPy, for any coverage."""
    gains = policy.gains(chosen[None])[0]
    belief = gains @ policy.estimate(state)[0]
    width = np.sqrt(np.maximum(0.0, ((gains @ state.inverse[0]) * gains).sum(axis=1)))
    rows, topics = np.nonzero(policy.catalog.csr[chosen].toarray())
    sizes = np.bincount(rows, minlength=chosen.size)
    return AsShown(belief, policy.optimism(state)[0] * width, sizes, topics, gains[rows, topics])


def told(shown: Impression, numbers: AsShown, topic_names: Sequence[Any], kind: Callable[..., Any], **more: Any) -> Any:
    """An impression in words, as a :class:`thali.recommender.answers.Shown` or what is built on it."""
    topics, values = [topic_names[j] for j in numbers.topics.tolist()], numbers.values.tolist()
    items, at = [], 0
    for k, (item, size, belief, exploration) in enumerate(
        zip(shown.items, numbers.sizes.tolist(), numbers.belief.tolist(), numbers.exploration.tolist(), strict=True)
    ):
        its = topics[at : at + size]
        items.append(ShownItem(k, item, its, dict(zip(its, values[at : at + size])), belief, exploration))  # noqa: B905
        at += size
    return kind(id_text(shown.id), shown.user, shown.learner, shown.shown_at, shown.predicted, items, **more)
