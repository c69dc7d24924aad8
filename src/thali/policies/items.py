"""Policies that learn the attraction of each item separately, by counting. They use no topics and do not generalize.

They differ in which positions count as examined, and in how they compute an index from the counts of an item.
"""

from __future__ import annotations

from abc import abstractmethod
from math import inf, log, sqrt
from typing import Any, ClassVar

import numpy as np

from thali.catalog.candidates import ALL, Choice
from thali.catalog.catalog import Catalog
from thali.lists.top import contains, insert, range_of, top_lists
from thali.policies.base import Policy
from thali.policies.examined import FIRST_CLICK, LAST_CLICK, examined
from thali.policies.klucb import kl_bound, kl_lists
from thali.policies.state import State
from thali.tools import checks
from thali.tools.jit import kernel
from thali.tools.threads import by_parts
from thali.tools.types import Booleans, Floats, Integers


class ItemPolicy(Policy):
    """Lists the K items with the largest index, which depends on how often each item was examined and clicked.

    Symbols: T_e, how often item e was examined; ŵ_e, the share of these examinations that led to a click; t, the number
    of updates + 1. Positions count as examined up to the first or up to the last click (``rule``). Without a click, all
    K positions count as examined.

    Differences from the papers: there is no initial round over all items. Instead, an item that was never examined has
    the largest possible index. Ties go to the lowest item number. Cost for each user: O(L) to recommend, O(K) to learn,
    and 16 bytes of memory per item.
    """

    rule: ClassVar[int] = FIRST_CLICK
    uses_gains = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which the counts depend."""
        return {"items": self.catalog.items_digest}

    def start(self, users: int) -> State:
        """Return the initial state: nothing examined, nothing clicked."""
        counts = (users, self.catalog.L)
        return self.new_state(
            shown=np.zeros(counts, dtype=np.int64),
            clicked=np.zeros(counts, dtype=np.int64),
            updates=np.zeros(users, dtype=np.int64),
        )

    @abstractmethod
    def rank(self, state: State, users: slice, rng: Any, out: Integers, items: Integers, start: Integers) -> None:
        """Write the lists of some users to out. items, start: what each user may be shown, as for top_lists."""

    def choose(self, state: State, rng: Any) -> Integers:
        """Return the K items with the largest index for each user."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return the K items with the largest index, from those that each user may be shown."""
        out = np.empty((state.users, self.K), dtype=np.int64)
        items, start = choice.items_if_limited(state.users, self.catalog)

        def choose(users: slice) -> None:
            part = start if start is None or start.size == 2 else start[users.start : users.stop + 1]
            self.rank(state, users, rng, out[users], items, part)

        by_parts(choose, state.users, self.threads)
        return out

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Count the examined positions and their clicks."""
        count(state.shown, state.clicked, lists, clicks, self.rule)
        state.updates += 1


class CascadeKLUCB(ItemPolicy):
    """Maximizes the probability of a click in the cascade model, and learns the attraction of each item separately.

    Kveton et al. 2015. The index of item e is the largest q with T_e·kl(ŵ_e, q) ≤ f(t), where
    f(t) = log t + 3·log max(1, log t). See :class:`ItemPolicy`. The index is computed only for items that may be
    listed, and only once for items with the same counts (:func:`thali.policies.klucb.kl_lists`).

    Examples
    --------
    >>> import thali
    >>> policy = thali.CascadeKLUCB(thali.Catalog([[0.5], [0.2], [0.4]]), K=2)
    >>> state = policy.init(users=1)
    >>> policy.update(state, [[0, 1]], [[False, True]])
    >>> state.shown, state.clicked
    (array([[1, 1, 0]]), array([[0, 1, 0]]))

    """

    def rank(self, state: State, users: slice, rng: Any, out: Integers, items: Integers, start: Integers) -> None:
        """Rank by the index of KL-UCB."""
        kl_lists(state.shown[users], state.clicked[users], state.updates[users], out, items, start)


class DcmKLUCB(CascadeKLUCB):
    """CascadeKL-UCB for users who click more than once. It learns from all positions up to the last click.

    This is dcmKL-UCB (Katariya et al. 2016), for the dependent click model. The original paper puts the most attractive
    items at the positions where a click is most likely to be the last. Here, items are in descending order of their
    index. Both are the same if users are most likely to leave after a click at the top. If users click at most once,
    this policy is CascadeKL-UCB. See :class:`ItemPolicy`.
    """

    rule = LAST_CLICK


class CascadeUCB1(ItemPolicy):
    """Maximizes the probability of a click in the cascade model, by the index ŵ_e + sqrt(1.5·log(t - 1)/T_e).

    Kveton et al. 2015, with the radius c_{t-1} of that paper. See :class:`ItemPolicy`.
    """

    #: The largest value of an index.
    cap: ClassVar[float] = inf

    def rank(self, state: State, users: slice, rng: Any, out: Integers, items: Integers, start: Integers) -> None:
        """Rank by the index of UCB1."""
        shown, clicked, updates = state.shown[users], state.clicked[users], state.updates[users]
        ucb_lists(shown, clicked, updates, 1.5, self.cap, out, items, start)


class CombCascade(CascadeUCB1):
    """Combinatorial cascading UCB (Kveton et al. 2015), for sets of K items whose reward is a click on any of them.

    It chooses the set that maximizes 1 - Π(1 - U_e), where U_e = min(ŵ_e + sqrt(1.5·log(t - 1)/T_e), 1). These are the
    K items with the largest U_e, so the policy is CascadeUCB1 with indices capped at 1. In the original paper, the
    reward is conjunctive instead (all items must succeed), and the order within the set is not specified. Here, items
    are in descending order of U_e, and items with U_e = 1 are in the order of their numbers.
    """

    cap = 1.0


class CascadeTS(ItemPolicy):
    """Thompson sampling in the cascade model: draws a value for each item and lists the K items with the largest ones.

    The value is drawn from Beta(1 + clicks, 1 + misses), where misses are examinations without a click. The prior is
    uniform and independent for each item (Hüyük and Tekin 2019, Zhong et al. 2021). See :class:`ItemPolicy`, except
    that items which were never examined get a random value like all others. Cost: L draws for each list, at 0.1 µs or
    more per draw.
    """

    samples = True

    def rank(self, state: State, users: slice, rng: Any, out: Integers, items: Integers, start: Integers) -> None:
        """Rank by the values drawn."""
        hits, misses = state.clicked[users] + 1, state.shown[users] - state.clicked[users] + 1
        drawn = [g.beta(a, b) for g, a, b in zip(rng[users], hits, misses, strict=True)]
        top_lists(np.stack(drawn), out, items, start)


class PIE(ItemPolicy):
    """Parsimonious item exploration (Combes et al. 2015): the K best items so far, sometimes with another one inserted.

    The leaders are the K items with the largest ŵ_e (0 if never examined). The candidates are the other items whose
    KL-UCB index, with f(t) = log t + 4·log max(1, log t), is at least the ŵ of the last leader. If there are
    candidates, then with probability 1/2, one of them is drawn uniformly and shown at position ``place``, and the last
    leader is dropped.

    The original paper chooses the position by how the reward decreases from one position to the next. For the
    probability of a click, all positions cost the same, and the first one is examined most often. So place is 0 by
    default, which is PIE(1) in the original paper. See :class:`ItemPolicy`.
    """

    samples = True

    def __init__(self, catalog: Catalog, K: int, *, place: int = 0, **settings: Any) -> None:
        super().__init__(catalog, K, **settings)
        self.place = checks.integer(f"place of {self.name}", place, low=0, high=self.K - 1)

    def rank(self, state: State, users: slice, rng: Any, out: Integers, items: Integers, start: Integers) -> None:
        """List the leaders, sometimes with one other item."""
        uniforms = np.stack([generator.random(2) for generator in rng[users]])
        shown, clicked, updates = state.shown[users], state.clicked[users], state.updates[users]
        pie_lists(shown, clicked, updates, uniforms, self.place, out, items, start)


@kernel
def ucb_lists(
    shown: Integers,
    clicked: Integers,
    updates: Integers,
    scale: float,
    cap: float,
    out: Integers,
    items: Integers,
    start: Integers,
) -> None:
    """Write the K items with the largest min(ŵ + sqrt(scale·log(t)/T), cap) to out (users, K), where t = updates.

    Items that were never examined are listed first. items, start: as for :func:`thali.lists.top.top_lists`. Cost: O(L)
    for each user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        budget = scale * log(max(1.0, np.float64(updates[user])))
        begin, end = range_of(user, start, shown.shape[1])
        for position in range(begin, end):
            item = position if start.size == 0 else items[position]
            T = shown[user, item]
            value = np.inf if T == 0 else clicked[user, item] / T + sqrt(budget / T)
            size = insert(item, min(value, cap), size, top, out[user])
            if size == K and top[K - 1] >= cap:
                break  # no other item can beat these


@kernel
def pie_lists(
    shown: Integers,
    clicked: Integers,
    updates: Integers,
    uniforms: Floats,
    place: int,
    out: Integers,
    items: Integers,
    start: Integers,
) -> None:
    """Write the lists of :class:`PIE` to out (users, K): the K items with the largest ŵ, sometimes with another one.

    These K items are the leaders. The n candidates are the other items whose index is at least ŵ_K, the ŵ of the last
    leader. For these, T·kl(ŵ_e, ŵ_K) ≤ f(t) = log t + 4·log max(1, log t), where t = updates + 1. If there are
    candidates and uniforms[u, 0] < 1/2, candidate number ⌊n·uniforms[u, 1]⌋ is inserted at ``place``, and the last
    leader is dropped. uniforms (users, 2): uniform random numbers. Cost: O(L) for each user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        begin, end = range_of(user, start, shown.shape[1])
        for position in range(begin, end):
            item = position if start.size == 0 else items[position]
            size = insert(item, clicked[user, item] / max(1, shown[user, item]), size, top, out[user])
        if uniforms[user, 0] >= 0.5:
            continue
        log_t = log(updates[user] + 1.0)
        budget, worst = log_t + 4.0 * log(max(1.0, log_t)), top[K - 1]
        count, wanted = 0, -1
        for second_pass in range(2):  # first count the candidates, then find the one drawn
            if second_pass:
                wanted = min(int(uniforms[user, 1] * count), count - 1)
                count = 0
            for position in range(begin, end):
                item = position if start.size == 0 else items[position]
                if kl_bound(shown[user, item], clicked[user, item], worst) <= budget and not contains(out[user], item):
                    if count == wanted:
                        for k in range(K - 1, place, -1):
                            out[user, k] = out[user, k - 1]
                        out[user, place] = item
                        break
                    count += 1
            if count == 0:
                break


@kernel
def count(shown: Integers, clicked: Integers, lists: Integers, clicks: Booleans, rule: int) -> None:
    """For every examined item, count one examination, and one click if it was clicked. Cost: O(K) for each user."""
    for user in range(lists.shape[0]):
        for k in range(examined(clicks[user], rule)):
            shown[user, lists[user, k]] += 1
            if clicks[user, k]:
                clicked[user, lists[user, k]] += 1
