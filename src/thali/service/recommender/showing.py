"""The numbers that describe a list when it is shown, and the description of a list with the names of its topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from thali.lists.explain import Explanation, distance, explain
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.service.recommender.operations import id_text
from thali.service.stores.records import Impression
from thali.tools.types import Integers
from thali_client.types import ShownItem


class Measured(NamedTuple):
    """The numbers that are recorded when a list is shown."""

    numbers: Explanation
    predicted: float
    """The predicted click probability 1 - Π(1 - belief), with beliefs clipped to the range from 0 to 1."""
    diversity: float
    """The mean distance between two items. See :func:`thali.diversity.intra_list_distance`."""
    exploration: float
    """The share of exploration, Σ exploration / Σ (|belief| + exploration)."""


def measure(policy: LinearPolicy, state: LinearState, chosen: Integers) -> Measured:
    """Compute the numbers of a list (K,) of item numbers for one user. Cost: O(K·s² + K²·s), with s topics per item."""
    inverse, solution, _ = policy.posterior(state)
    estimate, alpha = solution[0] * policy.sigma**-2, float(policy.optimism(state)[0])
    parts = explain(policy.catalog, chosen, estimate, inverse[0], alpha, features=policy.features)
    beliefs, explorations = parts.belief.tolist(), parts.exploration.tolist()
    total = sum(map(abs, beliefs)) + sum(explorations)
    return Measured(
        parts,
        predicted=1.0 - prod(1.0 - min(1.0, max(0.0, belief)) for belief in beliefs),
        diversity=distance(parts.sizes, parts.topics, policy.catalog.sparse.fading),
        exploration=sum(explorations) / total if total > 0.0 else 0.0,
    )


def describe(
    shown: Impression, numbers: Explanation, topic_names: Sequence[Any], kind: Callable[..., Any], **more: Any
) -> Any:
    """Describe a list with the names of its topics.

    kind: the class of the result, :class:`thali_client.types.Shown` or a subclass; more: its additional fields.
    """
    topics, values = [topic_names[j] for j in numbers.topics.tolist()], numbers.gains.tolist()
    items, begin = [], 0
    for k, (item, size, belief, exploration) in enumerate(
        zip(shown.items, numbers.sizes.tolist(), numbers.belief.tolist(), numbers.exploration.tolist(), strict=True)
    ):
        end = begin + size
        item_topics = topics[begin:end]
        gains = dict(zip(item_topics, values[begin:end]))  # noqa: B905 (strict takes time, and the lengths are equal)
        items.append(ShownItem(k, item, item_topics, gains, belief, exploration))
        begin = end
    return kind(id_text(shown.id), shown.user, shown.learner, shown.shown_at, shown.predicted, items, **more)
