"""Judge policies on lists that were really shown: how well they predict the clicks on each person's next list.

A policy learns from a person's first n lists, as they were shown, and then predicts how likely each item of the next
list is to be clicked. This does not say how many clicks the policy's own lists would get. It says whether the policy
knows what the person likes, and it needs no model of how people click.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from thali.datasets.log import Dropped, Log
from thali.lab.intervals import UNKNOWN, Estimate, mean
from thali.policies import LinearPolicy, Policy, State
from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers

#: Predictions are clipped to this range for the log loss, so that one bad prediction does not decide the mean.
LEAST, MOST = 0.001, 0.999
#: The number of people whose states are in memory at the same time.
PEOPLE = 1024

Measured = Literal["auc", "log_loss"]


@dataclass(frozen=True, repr=False)
class NextLists:
    """How well a policy predicts the clicks on each person's next list."""

    policy: str
    """The name of the policy."""
    users: tuple[Any, ...]
    """The names of the people."""
    after: Integers
    """(points,): after how many of the person's lists."""
    auc: Floats
    """(users, points): the probability that a clicked item has a higher prediction than one that was examined, but not
    clicked. Equal predictions count half. NaN if the person has no such list, or clicked all or none of it."""
    log_loss: Floats
    """(users, points): the mean over the examined positions of -log p if it was clicked, and -log(1 - p) otherwise,
    where p is the prediction, clipped to [0.001, 0.999]. NaN if the person has no such list, or if the policy does not
    predict probabilities."""
    dropped: Dropped
    """The items of the log that are not in the catalog of the policy. They were removed from the lists."""

    def __repr__(self) -> str:
        found = ", ".join(f"{e.value:.3f}" for e in self.means("auc"))
        return f"NextLists of {self.policy}: {len(self.users)} users, AUC {found} after {self.after.tolist()} lists"

    def means(self, measure: Measured = "auc") -> list[Estimate]:
        """Return the mean over people at each point, with its 95% interval over people.

        measure: "auc", of which more is better, or "log_loss", of which less is better.
        """
        return [_mean(column) for column in self._of(measure).T]

    def minus(self, other: NextLists, measure: Measured = "auc") -> list[Estimate]:
        """Return the mean over people of this value minus that of another policy, at each point, with its 95% interval.

        The differences are paired: only people for whom both have a value count, each with their own difference.
        """
        checks.instance("other of minus", other, NextLists)
        if other.users != self.users or not np.array_equal(other.after, self.after):
            raise ValueError(
                f"other of minus must be about the same {len(self.users)} people after {self.after.tolist()} lists, "
                f"got {len(other.users)} people after {other.after.tolist()} lists"
            )
        return [_mean(column) for column in (self._of(measure) - other._of(measure)).T]

    def _of(self, measure: str) -> Floats:
        values: Floats = getattr(self, checks.one_of("measure", measure, ("auc", "log_loss")))
        return values


def next_lists(policy: Policy, log: Log, after: Sequence[int] = (0, 1, 2, 3, 4)) -> NextLists:
    """Judge a policy by the lists in a log. For each person, it starts anew and learns from one list after the other.

    Parameters
    ----------
    policy: a policy with a method ``predict``. It learns from each list by its own rule of which positions were
        examined, so the rule should be that of the log. K of the policy does not matter, unless its states depend on K.
    log: the lists of people from whom nothing has been learned. Items that are not in the catalog are removed
        (:meth:`thali.Log.within`).
    after: after how many of a person's lists to predict the next one; ascending, from 0.

    Only examined positions are judged, according to the log. Cost: one ``predict`` for each list that is judged, and
    one ``update`` for each list before the last point. People with lists of the same length are processed together.

    Examples
    --------
    >>> import thali
    >>> from thali.lab.next_list import next_lists
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.4, 0.0], [0.0, 0.5], [0.0, 0.4]])
    >>> lists = [("ana", [0, 2], [1]), ("ana", [1, 3], [1]), ("bob", [1, 2], [0]), ("bob", [3, 0], [1])]
    >>> next_lists(thali.LSBGreedy(catalog, K=2), thali.Log.of(lists, examined="all"), after=(0, 1))
    NextLists of LSBGreedy: 2 users, AUC 0.500, 1.000 after [0, 1] lists

    """
    log = _known("next_lists", policy, log)
    points = _points(after)
    auc, loss = (np.full((len(log.users), points.size), np.nan) for _ in range(2))
    with_length, seen = cache(partial(_with_length, policy)), log.looked_at()
    for begin in range(0, len(log.users), PEOPLE):
        people = np.arange(begin, min(begin + PEOPLE, len(log.users)))
        state = policy.init(people.size)
        for group in _groups(log, seen, people, points[-1] + 1):
            part = state.take(group.rows)
            if (at := np.flatnonzero(points == group.number)).size:
                shape, users = group.lists.shape, people[group.rows]
                predicted = policy.predict(part, group.lists)
                predicted = checks.floats(f"predictions of {policy.name}", predicted, shape, "(users, K)")
                auc[users, at] = areas(predicted, group.clicks, group.examined)
                if policy.predicts_probabilities:
                    loss[users, at] = log_losses(predicted, group.clicks, group.examined)
            if group.number < points[-1]:
                with_length(group.lists.shape[1]).update(part, group.lists, group.clicks)
                state.put(group.rows, part)
    return NextLists(policy.name, log.users, points, auc, loss, log.dropped)


def learned_from(policy: Policy, log: Log) -> State:
    """Return the state of a policy that has learned from all lists of everybody in a log, such as for Prior.learn.

    Its users are those of the log. Nothing is learned about people who have no list with a known item.
    policy, log: as in :func:`next_lists`, except that the policy need not define ``predict``.
    """
    log = _known("learned_from", policy, log)
    with_length = cache(partial(_with_length, policy))
    people = np.arange(len(log.users))
    state = policy.init(people.size)
    for group in _groups(log, log.looked_at(), people, int(log.number.max(initial=-1)) + 1):
        part = state.take(group.rows)
        with_length(group.lists.shape[1]).update(part, group.lists, group.clicks)
        state.put(group.rows, part)
    return state


class _Group(NamedTuple):
    """Lists with the same length and the same number, one for each of some people."""

    number: int
    """How many lists these people had been shown before."""
    rows: Integers
    """(n,): the people, as positions in the array of people."""
    lists: Integers
    """(n, K)"""
    clicks: Booleans
    """(n, K)"""
    examined: Booleans
    """(n, K)"""


def _groups(log: Log, seen: Booleans, people: Integers, most: int) -> Iterator[_Group]:
    """Yield the first ``most`` lists of these people in the order shown. seen: the result of ``log.looked_at()``."""
    first, end = np.searchsorted(log.user, people), np.searchsorted(log.user, people, side="right")
    for number in range(most):
        has = np.flatnonzero(first + number < end)
        begin = log.start[first[has] + number]
        lengths = log.start[first[has] + number + 1] - begin
        for K in np.unique(lengths):
            same = lengths == K
            places = begin[same][:, None] + np.arange(K)
            yield _Group(number, has[same], log.item[places].astype(np.int64), log.clicked[places], seen[places])


def _known(owner: str, policy: Policy, log: Log) -> Log:
    """Check the arguments, and return the log with the items of the policy's catalog."""
    checks.instance(f"policy of {owner}", policy, Policy)
    own: Log = checks.instance(f"log of {owner}", log, Log)
    return own if own.items == tuple(policy.catalog.items) else own.within(policy.catalog.items)


def areas(scores: Floats, clicks: Booleans, examined: Booleans) -> Floats:
    """Return the area under the ROC curve of each list (users,), from scores, clicks and examined (users, K).

    It is the share of pairs of a clicked and another examined position in which the clicked one has the higher score,
    where ties count half. NaN if there is no such pair. Cost: O(K²) for each list.
    """
    clicked, others = clicks & examined, ~clicks & examined
    right = np.zeros(len(scores))
    for k in range(scores.shape[1]):
        own = scores[:, k, None]
        right += clicked[:, k] * (others * ((own > scores) + 0.5 * (own == scores))).sum(axis=1)
    pairs = clicked.sum(axis=1) * others.sum(axis=1)
    return np.asarray(np.divide(right, pairs, out=np.full(len(scores), np.nan), where=pairs > 0))


def log_losses(predicted: Floats, clicks: Booleans, examined: Booleans) -> Floats:
    """Return the mean log loss of each list over its examined positions (users,), from arrays (users, K)."""
    p = np.clip(predicted, LEAST, MOST)
    return np.asarray(-np.log(np.where(clicks, p, 1.0 - p)).mean(axis=1, where=examined))


def _with_length(policy: Policy, K: int) -> Policy:
    """Return the same policy for lists of length K. Raise TypeError if its states depend on the length."""
    if K == policy.K:
        return policy
    if isinstance(policy, LinearPolicy):
        other: Policy = policy.variant(K)
    else:
        other = copy(policy)
        other.K = K
    other._expected = None
    if other._expected_form() != policy._expected_form():
        raise TypeError(
            f"policy must be able to learn from lists of any length, but a state of {policy.name} is for "
            f"lists of length {policy.K}, and the log has a list of length {K}"
        )
    return other


def _points(after: Sequence[int]) -> Integers:
    points = [checks.integer("after of next_lists", n, low=0) for n in checks.sequence("after of next_lists", after)]
    if not points or any(a >= b for a, b in pairwise(points)):
        raise ValueError(f"after of next_lists must be one or more numbers in ascending order, got {points}")
    return np.array(points)


def _mean(values: Floats) -> Estimate:
    known = values[~np.isnan(values)]
    return mean(known, np.zeros(known.size)) if known.size else UNKNOWN
