"""The noise of clicks, and how much a known like counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from thali.policies import LinearPolicy, Prior
from thali.starting.known import Known, state_of_likes
from thali.starting.prior import learned_prior
from thali.tools.types import Floats, Integers

# How many times a known like may also count, compared with what the variance of likes suggests.
WEIGHTS = (0.25, 4.0)
# The largest number of people who are held out to choose the weight, of other people from whom the prior is learned
# meanwhile, of likes that are revealed of each, and of items in the list that is made from these.
HELD_OUT, FEW_PEOPLE, REVEALED, TOP = 300, 1000, 10, 10
# With fewer people to hold out, the weight is not chosen.
LEAST_HELD_OUT = 10
# Another weight is chosen only if it finds more likes by this many standard errors (docs/decisions.md).
CLEARLY = 2.0
# σ² is the variance of a click on one of this many most popular items.
SHOWN_ITEMS = 30
# Bounds of σ.
LEAST_SIGMA, MOST_SIGMA = 0.05, 0.5
# People are scored in parts, with at most this many scores of items at a time.
MOST_SCORES = 10_000_000


def noise(known: Known) -> tuple[float, float]:
    """Return σ, and the mean variance of all likes.

    σ² is the variance of a click on an item that is shown, so on a popular one. Both are p(1 - p), where p is the share
    of people who like an item.
    """
    share = known.liked / np.maximum(1e-300, known.met)
    variance = np.clip(share * (1.0 - share), 0.0, None)
    popular = np.argsort(-known.liked, kind="stable")[:SHOWN_ITEMS]
    sigma = float(np.sqrt(np.clip(variance[popular].mean(), LEAST_SIGMA**2, MOST_SIGMA**2)))
    return sigma, max(1e-6, float(variance.mean()))


def weight_of_a_like(policy: LinearPolicy, known: Known, order: Integers, spread: float) -> float:
    """Choose how much a known like counts, on people who are held out.

    The usual weight is σ² divided by ``spread``, the mean variance of likes. It is compared with WEIGHTS times as much.
    Some likes of each of these people are revealed. A weight is better if its prior then puts more of their other likes
    at the top of a list. The best one is chosen, but the usual one if no other is clearly better, or if there are fewer
    than 40 people.

    order: the numbers of people who like something, in a random order. The first ones are held out.
    """
    usual = policy.sigma**2 / spread
    held = min(HELD_OUT, len(order) // 4)
    if held < LEAST_HELD_OUT:
        return usual
    validation, train = known.likes[order[:held]], np.sort(order[held : held + FEW_PEOPLE])

    def found(weight: float) -> Integers:
        prior = learned_prior(policy, state_of_likes(policy, known.likes[train], weight, known.people[train]))
        return hits(policy, prior, validation)

    before, more = found(usual), {usual: 0}
    for weight in (times * usual for times in WEIGHTS):
        difference = found(weight) - before
        if difference.sum() > CLEARLY * np.sqrt(np.square(difference).sum()):
            more[weight] = int(difference.sum())
    return max(more, key=lambda weight: more[weight])


def hits(policy: LinearPolicy, prior: Prior, likes: sp.csr_array) -> Integers:
    """Return how many likes of each person are found: those among the best TOP items for this person.

    likes: (people, items). Every second of a person's likes, at most REVEALED of them, is revealed, as if the person
    had clicked it. These items are not in the list and do not count. Cost: O(people·(d³ + L·(s + 1))).
    """
    weights = policy.catalog.csr
    people, L = likes.shape
    parts = [likes.indices[begin:end] for begin, end in zip(likes.indptr[:-1], likes.indptr[1:], strict=True)]
    revealed = [own[::2][:REVEALED] for own in parts]
    theta = np.empty((people, policy.catalog.d))
    for person, items in enumerate(revealed):
        x: Floats = weights[items].toarray() / policy.sigma
        shift = prior.precision @ prior.mean + x.sum(axis=0) / policy.sigma
        theta[person] = np.linalg.solve(prior.precision + x.T @ x, shift)
    size, found = max(1, MOST_SCORES // L), np.zeros(people, dtype=np.int64)
    for begin in range(0, people, size):
        score = np.ascontiguousarray((weights @ theta[begin : begin + size].T).T)
        liked = likes[begin : begin + size].toarray() > 0.0
        for person, items in enumerate(revealed[begin : begin + size]):
            score[person, items], liked[person, items] = -np.inf, False
        top = np.argpartition(-score, min(TOP, L) - 1, axis=1)[:, :TOP]
        found[begin : begin + size] = np.take_along_axis(liked, top, axis=1).sum(axis=1)
    return found
