"""The numbers that describe a list when it is shown, and the description of a list with the names of its topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from thali.lists.explain import Explanation, distance, explain
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState, compute
from thali.service.recommender.operations import id_text
from thali.service.recommender.words import reason
from thali.service.stores.records import Impression
from thali.tools.types import Floats, Integers
from thali_client.types import Parts, ShownItem

# The part of a belief that comes from the user counts as 0 below this: of a new user, only rounding is left of it.
ROUNDING = 1e-12


class Measured(NamedTuple):
    """The numbers that are recorded when a list is shown."""

    numbers: Explanation
    predicted: float
    """The predicted click probability 1 - Π(1 - belief), with beliefs clipped to the range from 0 to 1."""
    diversity: float
    """The mean distance between two items. See :func:`thali.diversity.intra_list_distance`."""
    exploration: float
    """The share of exploration, Σ exploration / Σ (|belief| + exploration)."""
    others: Floats | None
    """The part of each belief that comes from the prior, x·μ (K,). None without a prior."""
    start: float | None
    """The click probability that the policy would have predicted with the prior of its start."""
    expected: tuple[Floats, float] | None
    """What was to be expected of each item, apart from its quality (K,), and how much the user cares for quality. None
    if the catalog has no quality."""


def measure(
    policy: LinearPolicy,
    state: LinearState,
    chosen: Integers,
    *,
    start: LinearPolicy | None = None,
    expected: Callable[[LinearPolicy, Explanation, Floats], tuple[Floats, float]] | None = None,
) -> Measured:
    """Compute the numbers of a list (K,) of item numbers for one user.

    start: the policy with the prior of its start, if what that would have predicted is needed. expected:
    :meth:`thali.service.recommender.live_catalog.LiveCatalog.expected_or_none`.

    Cost: O(K·s² + K²·s), with s topics per item. With start, O(d³) more.
    """
    alpha = float(policy.optimism(state)[0])  # which checks the state
    inverse, solution, _ = state.posterior(policy.reading(state))
    estimate = solution[0] * policy.sigma**-2
    parts = explain(policy.catalog, chosen, estimate, inverse[0], alpha, features=policy.features)
    beliefs, explorations = parts.belief.tolist(), parts.exploration.tolist()
    total = sum(map(abs, beliefs)) + sum(explorations)
    others = None
    if policy.prior is not None:
        others = _sums(parts.gains * policy.prior.mean[parts.topics], parts.sizes)
    return Measured(
        parts,
        predicted=click_probability(beliefs),
        diversity=distance(parts.sizes, parts.topics, policy.catalog.sparse.fading),
        exploration=sum(explorations) / total if total > 0.0 else 0.0,
        others=others,
        start=None if start is None else click_probability(_beliefs(start, state, parts).tolist()),
        expected=None if expected is None else expected(policy, parts, estimate),
    )


def click_probability(beliefs: list[float]) -> float:
    """Return the probability of at least one click, with beliefs clipped to the range from 0 to 1."""
    none = 1.0
    for belief in beliefs:
        if belief > 0.0:  # a loop, because it takes a fifth of the time of min, max and prod
            none *= 1.0 - belief if belief < 1.0 else 0.0
    return 1.0 - none


def _beliefs(policy: LinearPolicy, state: LinearState, parts: Explanation) -> Floats:
    """Return what a policy believes about a list (K,). The state keeps the posterior that belongs to another policy."""
    arrays = state.arrays
    estimate = compute(arrays["M"], arrays["B"], policy.reading(state)).solution[0] * policy.sigma**-2
    return _sums(parts.gains * estimate[parts.topics], parts.sizes)


def _sums(values: Floats, sizes: Integers) -> Floats:
    """Return the sum of the first sizes[0] values, of the next sizes[1] values, and so on."""
    found = np.bincount(np.repeat(np.arange(sizes.size), sizes), values, minlength=sizes.size)
    return np.asarray(found, dtype=np.float64)


def by_topic(policy: LinearPolicy, state: LinearState, numbers: Explanation) -> Floats:
    """Return the three parts of the index of each item on each of its topics (n, 3): others, you and exploration.

    With the prior mean μ, these are x_j·μ_j, x_j·(θ̄_j - μ_j) and α·x_j·(M⁻¹x)_j/sqrt(xᵀM⁻¹x). They add up to the
    belief and the exploration of the item, except for rounding.
    """
    inverse, solution, _ = policy.posterior(state)
    estimate = solution[0] * policy.sigma**-2
    mean = np.zeros(estimate.size) if policy.prior is None else policy.prior.mean
    x, j = numbers.gains, numbers.topics
    parts = np.column_stack([x * mean[j], x * (estimate - mean)[j], np.zeros(x.size)])
    begin = 0
    for size, exploration in zip(numbers.sizes.tolist(), numbers.exploration.tolist(), strict=True):
        own = slice(begin, begin + size)
        products = x[own] * (inverse[0][np.ix_(j[own], j[own])] @ x[own])
        variance = products.sum()
        parts[own, 2] = exploration * products / variance + 0.0 if variance > 0.0 else 0.0  # + 0.0: not -0.0
        begin += size
    return parts


def _shares(belief: Floats, others: bytes | None) -> tuple[list[float], list[float]]:
    """Return the parts of each belief that come from others, as stored with the list, and from the user."""
    if others is None:
        return [0.0] * belief.size, belief.tolist()
    part = np.frombuffer(others, dtype="<f8")
    rest = belief - part
    rest[np.abs(rest) < ROUNDING] = 0.0
    return part.tolist(), rest.tolist()


def describe(
    shown: Impression,
    numbers: Explanation,
    topic_names: Sequence[Any],
    kind: Callable[..., Any],
    parts: Floats | None = None,
    **more: Any,
) -> Any:
    """Describe a list with the names of its topics.

    kind: the class of the result, :class:`thali_client.types.Shown` or a subclass; more: its additional fields. parts:
    the result of :func:`by_topic`, if the list is to be explained by topic and in words.
    """
    others, yours = _shares(numbers.belief, shown.others)
    topics, values = [topic_names[j] for j in numbers.topics.tolist()], numbers.gains.tolist()
    items, begin = [], 0
    for k, (item, size, belief, exploration) in enumerate(
        zip(shown.items, numbers.sizes.tolist(), numbers.belief.tolist(), numbers.exploration.tolist(), strict=True)
    ):
        end = begin + size
        item_topics = topics[begin:end]
        gains = dict(zip(item_topics, values[begin:end]))  # noqa: B905 (strict takes time, and the lengths are equal)
        described = ShownItem(k, item, item_topics, gains, belief, exploration, others[k], yours[k])
        if parts is not None:
            own = [Parts(*row) for row in parts[begin:end].tolist()]
            described.by_topic = dict(zip(item_topics, own, strict=True))
            described.reason = reason(described.by_topic, exploration)
        items.append(described)
        begin = end
    return kind(id_text(shown.id), shown.user, shown.learner, shown.shown_at, shown.predicted, items, **more)
