"""Policies that learn the attraction of each item separately, by counting: no topics, no generalisation.

They differ in which positions count as examined, and in how they compute an index from the counts of an item.
"""

from __future__ import annotations

from abc import abstractmethod
from math import inf, log, sqrt
from typing import Any, ClassVar

import numpy as np

from thali.catalog.candidates import ALL, Choice
from thali.catalog.catalog import Catalog
from thali.lists.top import holds, insert, range_of, top_lists
from thali.policies.base import Policy
from thali.policies.examined import FIRST_CLICK, LAST_CLICK, examined
from thali.policies.klucb import kl_bound, kl_lists
from thali.policies.state import State
from thali.tools import checks
from thali.tools.jit import kernel
from thali.tools.threads import by_parts
from thali.tools.types import Booleans, Floats, Integers


class ItemPolicy(Policy):
    """Lists the K items with the largest index, a function of how often each item was examined and clicked.

    Symbols: T_e, how often item e was examined; ŵ_e, the share of clicks among these; t, the number of updates + 1.
    Positions count as examined up to the first or the last click (``rule``); all K if there is no click.

    Departs from the papers: there is no initial round over the items, because an item never examined has the largest
    possible index; ties go to the lowest item. Cost for each user: O(L) to recommend, O(K) to learn; 16 bytes an item.
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
    def rank(
        self, state: State, users: slice, rng: Any, out: Integers, items: Integers | None, start: Integers | None
    ) -> None:
        """Write the lists of some users to out. items, start: what each may be shown; None for every item."""

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
    """Maximises the probability of a click in the cascade model; learns the attraction of each item separately.

    Kveton et al. 2015. The index of item e is the largest q with T_e·kl(ŵ_e, q) ≤ f(t), f(t) = log t + 3·log max(1,
    log t). See :class:`ItemPolicy`. The index is computed once for each pair of counts whose items may
    be listed (:func:`thali.policies.klucb.kl_lists`).

    Examples
    --------
    >>> import thali
    >>> policy = thali.CascadeKLUCB(thali.Catalog([[0.5], [0.2], [0.4]]), K=2)
    >>> state = policy.init(users=1)
    >>> policy.update(state, [[0, 1]], [[False, True]])
    >>> state.shown, state.clicked
    (array([[1, 1, 0]]), array([[0, 1, 0]]))

    """

    def rank(
        self, state: State, users: slice, rng: Any, out: Integers, items: Integers | None, start: Integers | None
    ) -> None:
        """Rank by the index of KL-UCB."""
        kl_lists(state.shown[users], state.clicked[users], state.updates[users], out, items, start)


class DcmKLUCB(CascadeKLUCB):
    """CascadeKL-UCB for people who click more than once: learns up to the last click.

    dcmKL-UCB of Katariya et al. 2016, for the dependent click model. The paper puts the most attractive items where a
    click is most likely to be the last. Here they are in descending order, which is the same if people are most likely
    to leave after a click at the top. With at most one click it is CascadeKL-UCB. See :class:`ItemPolicy`.
    """

    rule = LAST_CLICK


class CascadeUCB1(ItemPolicy):
    """Maximises the probability of a click in the cascade model by the index ŵ_e + sqrt(1.5·log(t - 1)/T_e).

    Kveton et al. 2015, with their c_{t-1}. See :class:`ItemPolicy`.
    """

    #: The largest value of an index.
    cap: ClassVar[float] = inf

    def rank(
        self, state: State, users: slice, rng: Any, out: Integers, items: Integers | None, start: Integers | None
    ) -> None:
        """Rank by the index of UCB1."""
        shown, clicked, updates = state.shown[users], state.clicked[users], state.updates[users]
        ucb_lists(shown, clicked, updates, 1.5, self.cap, out, items, start)


class CombCascade(CascadeUCB1):
    """Combinatorial cascading UCB (Kveton et al. 2015), for sets of K items whose reward is a click on any of them.

    Its oracle maximises 1 - Π(1 - U_e) over sets, with U_e = min(ŵ_e + sqrt(1.5·log(t - 1)/T_e), 1), so it takes the K
    largest: CascadeUCB1 with a cap. Departs from its paper, where the reward is conjunctive (all items must succeed).
    The paper leaves the order within the set open; here it is descending, and by item number among those at the cap.
    """

    cap = 1.0


class CascadeTS(ItemPolicy):
    """Thompson sampling in the cascade model: the K largest of one draw an item from Beta(1 + clicks, 1 + misses).

    The prior is uniform and independent for each item (Hüyük and Tekin 2019, Zhong et al. 2021). See
    :class:`ItemPolicy`; but items never examined are drawn like the others. Cost: L draws for each list, at 0.1 µs or
    more each.
    """

    samples = True

    def rank(
        self, state: State, users: slice, rng: Any, out: Integers, items: Integers | None, start: Integers | None
    ) -> None:
        """Rank by the draws."""
        hits, misses = state.clicked[users] + 1, state.shown[users] - state.clicked[users] + 1
        drawn = [g.beta(a, b) for g, a, b in zip(rng[users], hits, misses, strict=True)]
        top_lists(np.stack(drawn), out, items, start)


class PIE(ItemPolicy):
    """Parsimonious item exploration (Combes et al. 2015): the K best items so far, sometimes with another one inserted.

    The leaders are the K items with the largest ŵ_e (0 if never examined). If other items have a KL-UCB index, with
    f(t) = log t + 4·log max(1, log t), of at least the last leader's ŵ, then with probability 1/2 one of them, drawn
    uniformly, is shown at position ``place`` and the last leader is left out.

    The paper chooses the place by how the reward falls with the position. For the probability of a click all places
    cost the same, and the first is examined most often, so place is 0 by default (PIE(1) in the paper). See
    :class:`ItemPolicy`.
    """

    samples = True

    def __init__(self, catalog: Catalog, K: int, *, place: int = 0, **settings: Any) -> None:
        super().__init__(catalog, K, **settings)
        self.place = checks.integer(f"place of {self.name}", place, low=0, high=self.K - 1)

    def rank(
        self, state: State, users: slice, rng: Any, out: Integers, items: Integers | None, start: Integers | None
    ) -> None:
        """List the leaders, perhaps with one other item."""
        luck = np.stack([generator.random(2) for generator in rng[users]])
        shown, clicked, updates = state.shown[users], state.clicked[users], state.updates[users]
        pie_lists(shown, clicked, updates, luck, self.place, out, items, start)


@kernel
def ucb_lists(
    shown: Integers,
    clicked: Integers,
    updates: Integers,
    scale: float,
    cap: float,
    out: Integers,
    items: Integers | None = None,
    start: Integers | None = None,
) -> None:
    """Write the K items with the largest min(ŵ + sqrt(scale·log(t)/T), cap) to out (users, K), where t = updates.

    Items never examined come first. items, start: as for :func:`thali.lists.top.top_lists`. Cost: O(L) for each user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        budget = scale * log(max(1.0, np.float64(updates[user])))
        begin, end = range_of(user, start, shown.shape[1])
        for position in range(begin, end):
            item = position if items is None else items[position]
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
    luck: Floats,
    place: int,
    out: Integers,
    items: Integers | None = None,
    start: Integers | None = None,
) -> None:
    """Write the lists of :class:`PIE` to out (users, K): the K items with the largest ŵ, sometimes with another one.

    The candidates are the items outside these leaders with T·kl(ŵ_e, ŵ_K) ≤ f(t) = log t + 4·log max(1, log t),
    t = updates + 1: those whose index is at least the ŵ_K of the last leader. If there are any and luck[u, 0] < 1/2,
    candidate number ⌊luck[u, 1]·their number⌋ is inserted at ``place``, and the last leader is dropped. luck (users, 2)
    are uniform random numbers. Cost: O(L) for each user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        begin, end = range_of(user, start, shown.shape[1])
        for position in range(begin, end):
            item = position if items is None else items[position]
            size = insert(item, clicked[user, item] / max(1, shown[user, item]), size, top, out[user])
        if luck[user, 0] >= 0.5:
            continue
        log_t = log(updates[user] + 1.0)
        budget, worst = log_t + 4.0 * log(max(1.0, log_t)), top[K - 1]
        count, wanted = 0, -1
        for look in range(2):  # first count the candidates, then find the one drawn
            if look == 1:
                wanted = min(int(luck[user, 1] * count), count - 1)
                count = 0
            for position in range(begin, end):
                item = position if items is None else items[position]
                if kl_bound(shown[user, item], clicked[user, item], worst) <= budget and not holds(out[user], item):
                    if count == wanted:
                        out[user, place + 1 :] = out[user, place:-1].copy()
                        out[user, place] = item
                        break
                    count += 1
            if count == 0:
                break


@kernel
def count(shown: Integers, clicked: Integers, lists: Integers, clicks: Booleans, rule: int) -> None:
    """Count one examination, and one click if there was one, for every examined item. Cost: O(K) for each user."""
    for user in range(lists.shape[0]):
        for k in range(examined(clicks[user], rule)):
            shown[user, lists[user, k]] += 1
            if clicks[user, k]:
                clicked[user, lists[user, k]] += 1
