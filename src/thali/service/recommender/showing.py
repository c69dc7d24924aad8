"""The numbers of a list that is shown: measured, stored, and described with names."""

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
    """What is written down of a list when it is shown."""

    numbers: Explanation
    predicted: float
    """1 - Π(1 - belief), beliefs taken as probabilities."""
    diversity: float
    """The mean distance of two items: :func:`thali.diversity.intra_list_distance`."""
    exploration: float
    """Σ exploration / Σ (|belief| + exploration)."""


def measure(policy: LinearPolicy, state: LinearState, chosen: Integers) -> Measured:
    """Beliefs, explorations and gains of a list (K,) for one user. Cost: O(K·s² + K²·s)."""
    estimate, alpha = state.solution[0] * policy.sigma**-2, float(policy.optimism(state)[0])
    parts = explain(policy.catalog, chosen, estimate, state.inverse[0], alpha, features=policy.features)
    beliefs, explorations = parts.belief.tolist(), parts.exploration.tolist()
    total = sum(map(abs, beliefs)) + sum(explorations)
    return Measured(
        parts,
        predicted=1.0 - prod(1.0 - min(1.0, max(0.0, belief)) for belief in beliefs),
        diversity=distance(parts.sizes, parts.topics),
        exploration=sum(explorations) / total if total > 0.0 else 0.0,
    )


def describe(
    shown: Impression, numbers: Explanation, topic_names: Sequence[Any], kind: Callable[..., Any], **more: Any
) -> Any:
    """A list with names in place of numbers, as a :class:`thali_client.types.Shown` or a class built on it."""
    topics, values = [topic_names[j] for j in numbers.topics.tolist()], numbers.gains.tolist()
    items, at = [], 0
    for k, (item, size, belief, exploration) in enumerate(
        zip(shown.items, numbers.sizes.tolist(), numbers.belief.tolist(), numbers.exploration.tolist(), strict=True)
    ):
        its = topics[at : at + size]
        items.append(ShownItem(k, item, its, dict(zip(its, values[at : at + size])), belief, exploration))  # noqa: B905
        at += size
    return kind(id_text(shown.id), shown.user, shown.learner, shown.shown_at, shown.predicted, items, **more)
