"""The quality of items that goes on learning from lists that were chosen for each person."""

from __future__ import annotations

from math import fsum, sqrt
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.lists.explain import Explanation, explain
from thali.policies.beta import Beta
from thali.policies.examined import RULES, examined_positions
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.policies.quality import Quality, tried
from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers

# A quality is at least this, so that every item can be shown.
LEAST = 1e-6
# What is expected is a multiple of 1/GRID. Then sums up to two million are exact, and do not depend on the order.
GRID = 2.0**32


class RelativeQuality:
    """Learns the quality of items from clicks on lists, compared with the clicks that were expected there.

    A policy shows an item to people whose taste it fits. So its click rate says as much about these people as about the
    item, and :class:`thali.Quality`, which counts only clicks and examinations, would make good items of those that are
    shown to few fans. Here, the clicks h_e on item e are compared with m_e, the clicks that were to be expected where
    it was examined. With q_e = (a + c_e)/(a + b + n_e), the quality known from the start, the quality of an item has
    the distribution

        q_e · Gamma(a + c_e + h_e) / (a + c_e + ρ·m_e),    ρ = (1 + Σh)/(1 + Σm),

    whose mean is q_e if the item is clicked as often as expected. ρ is there because all expectations may be too high
    or too low: the start may come from purchases, and h from clicks.

    Where an item was examined, x·θ̄ = t + q_e·θ̄_quality was expected, where t comes from the topics. So t and θ̄_quality
    are added up for each item: m_e = Σt + q_e·Σθ̄_quality. These sums do not depend on q_e, so they are still valid when
    more is known from the start.

    The paper has no quality. A click that was not expected may be due to a topic rather than to the quality. We
    attribute it to the quality.

    Parameters
    ----------
    start: the counts n_e and c_e that are known from the start, and the prior Beta(a, b).
    since: if given, (4, L): for each item, how often it was examined since, h_e, Σt and Σθ̄_quality. There can be more
        items than at the start.
    prior: a and b; by default, those of the start.

    Cost: O(L) for the values.

    Examples
    --------
    >>> import thali
    >>> quality = thali.RelativeQuality(thali.Quality.from_counts([100, 100, 100], [20, 20, 5], prior=(1, 9)))
    >>> quality.mean.round(3)
    array([0.191, 0.191, 0.055])
    >>> expected = [[[0.0, 1.0]] * 3] * 40                     # topics add nothing, and people care for quality
    >>> quality.add([[0, 1, 2]] * 40, [[False, True, False]] * 40, expected)
    >>> quality.mean.round(3)                                  # item 0 is worse than expected, and item 1 is better
    array([0.1  , 0.289, 0.055])

    """

    def __init__(self, start: Quality, since: Any = None, *, prior: Any = None) -> None:
        checks.instance("start of RelativeQuality", start, Quality)
        self.start = start.copy()
        #: The prior of the start, Beta(a, b). It is not learned again.
        self.prior: Beta = start.prior if prior is None else Beta(*prior)
        counts: Floats = np.zeros((4, start.L))
        if since is not None:
            counts = checks.floats("since", since, (4, None), "(4, L)").copy()
        if counts.shape[1] < start.L:
            raise ValueError(f"since must have at least {start.L} items, as the start has, got {counts.shape[1]}")
        checks.within("examinations and clicks of since", counts[:2], 0.0, checks.MOST_COUNT)
        self._since: Floats = counts
        self._rho: float | None = None
        self.start.grow(counts.shape[1])

    @property
    def L(self) -> int:
        """The number of items."""
        return self.start.L

    @property
    def rule(self) -> str:
        """Which positions of a list count as examined."""
        return self.start.rule

    @property
    def examined(self) -> Floats:
        """How often each item was examined, at the start and since (L,)."""
        return np.asarray(self.start.examined + self._since[0])

    @property
    def clicked(self) -> Floats:
        """How often each item was clicked, at the start and since (L,)."""
        return np.asarray(self.start.clicked + self._since[1])

    @property
    def since(self) -> Floats:
        """What was counted since the start (4, L): examinations, clicks, Σt and Σθ̄_quality of each item."""
        return self._since.copy()

    @property
    def known(self) -> Floats:
        """The quality that is known from the start, q (L,)."""
        return self._known(slice(None))

    @property
    def mean(self) -> Floats:
        """The mean quality of each item (L,), at most 1."""
        shape, rate = self._gamma()
        return np.clip(shape / rate, LEAST, 1.0)

    @property
    def rates(self) -> Floats:
        """How often each item would be clicked if only its quality counted (L,).

        This is the mean, times a factor that fits the clicks since the start.
        """
        mean = self.mean
        factor = (1.0 + self._since[1].sum()) / (1.0 + (self._since[0] * mean).sum())
        return np.asarray(np.clip(factor * mean, 0.0, 1.0))

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each item's quality (L,)."""
        shape, rate = self._gamma()
        return np.sqrt(shape) / rate

    def of(self, e: int) -> tuple[float, float, float, float]:
        """Return the examinations and clicks of an item, and the mean and the deviation of its quality.

        Cost: O(1), and O(L) the first time after a change.
        """
        one = slice(e, e + 1)
        shape, rate = (float(part[0]) for part in self._gamma(one))
        n, c = (self.start.examined[e] + self._since[0, e], self.start.clicked[e] + self._since[1, e])
        return float(n), float(c), min(1.0, max(LEAST, shape / rate)), sqrt(shape) / rate

    def _gamma(self, items: slice = slice(None)) -> tuple[Floats, Floats]:
        """Return shape and rate of the distribution of some items."""
        known = self.prior[0] + self.start.clicked[items]
        rate = (known + self._scale * self._expected(items)) / self._known(items)
        return known + self._since[1, items], rate

    def _known(self, items: slice) -> Floats:
        a, b = self.prior
        return (a + self.start.clicked[items]) / (a + b + self.start.examined[items])

    def _expected(self, items: slice = slice(None)) -> Floats:
        """Return m, the clicks that were to be expected on some items."""
        return np.maximum(0.0, self._since[2, items] + self._known(items) * self._since[3, items])

    @property
    def _scale(self) -> float:
        """ρ: how many clicks there were for each that was to be expected."""
        if self._rho is None:
            # fsum, because the sum must not depend on the order of the items.
            self._rho = (1.0 + fsum(self._since[1])) / (1.0 + fsum(self._expected()))
        return self._rho

    def expected(self, policy: LinearPolicy, state: LinearState, lists: Any, topic: Any = "quality") -> Floats:
        """Return what to expect on each position of lists, t and θ̄_quality (users, K, 2), for :meth:`add`.

        If an item is examined, a click is expected with the probability t + q·θ̄_quality. Without a prior, θ̄ is 0 at
        first. Then t is 0, and instead of θ̄_quality there is 1. Call this before you learn the clicks.

        Cost: O(K·s) for each user, with s topics per item.
        """
        lists = checks.item_lists("lists", lists, state.users, policy.catalog.L)
        inverse, solution, _ = policy.posterior(state)
        alpha, j = policy.optimism(state), policy.catalog.topic_index(topic)
        found = np.empty((*lists.shape, 2))
        for user, chosen in enumerate(lists):
            estimate = solution[user] * policy.sigma**-2
            parts = explain(
                policy.catalog, chosen, estimate, inverse[user], float(alpha[user]), features=policy.features
            )
            found[user, :, 0], found[user, :, 1] = expected_clicks(policy, parts, j, estimate)
        return found

    def add(self, lists: Any, clicks: Any, expected: Any) -> None:
        """Count the examined positions of lists (users, K), the clicks on them, bool (users, K), and what was expected.

        expected: (users, K, 2), from :meth:`expected` before the clicks were learned. If an argument is not valid,
        nothing is counted.
        """
        shown: Integers = checks.item_lists("lists", lists, None, self.L)
        hit: Booleans = checks.click_matrix("clicks", clicks, *shown.shape)
        m = checks.floats("expected", expected, (*shown.shape, 2), "(users, K, 2)")
        seen = examined_positions(hit, RULES[self.rule])
        np.add.at(self._since[0], shown[seen], 1.0)
        np.add.at(self._since[1], shown[seen & hit], 1.0)
        for row in (0, 1):
            np.add.at(self._since[2 + row], shown[seen], m[seen, row])
        self._rho = None

    def grow(self, L: int) -> None:
        """Add items about which nothing is known, so that there are L."""
        self.start.grow(L)
        self._since = np.hstack([self._since, np.zeros((4, L - self._since.shape[1]))])

    def refresh(
        self, catalog: Catalog, topic: Any = "quality", *, trial: float = 0.0, most_tried: int = 1, new: Any = None
    ) -> Integers:
        """Write the means to a steady topic of a catalog, for all items at once. Return the numbers of tried items.

        trial, most_tried: as in :meth:`thali.Quality.values`, except that only some items are tried. new: bool (L,),
        which ones, if they are in the catalog; by default, those without examinations at the start.
        """
        checks.instance("catalog of refresh", catalog, Catalog)
        if catalog.fading[catalog.topic_index(topic)]:
            raise ValueError(
                f"topic of refresh must be steady, which is fading=False in thali.Catalog, got {topic!r}, which fades"
            )
        self.grow(checks.integer("the number of items in catalog of refresh", catalog.L, low=self.L))
        among = self.start.examined == 0.0 if new is None else checks.booleans("new", new, (self.L,), "(L,)", "items")
        unknown = among & catalog.present & (self._since[0] < checks.number("trial of refresh", trial, low=0.0))
        values = self.mean
        now = tried(values, unknown, catalog.present & ~unknown, checks.integer("most_tried", most_tried, low=1))
        catalog.put_column(topic, values)
        return now


def expected_clicks(policy: LinearPolicy, parts: Explanation, j: int, estimate: Floats) -> tuple[Floats, float]:
    """Return t on each item of a list (K,) and θ̄_quality, where quality is topic j. See :class:`RelativeQuality`.

    parts: how the list was chosen, with the estimated preferences θ̄ (d,).
    """
    K = parts.belief.size
    if policy.prior is None:
        return np.zeros(K), 1.0
    care = round(float(estimate[j]) * GRID) / GRID
    shown, on = np.zeros(K), parts.topics == j
    shown[np.repeat(np.arange(K), parts.sizes)[on]] = parts.gains[on]
    return np.asarray(np.round((parts.belief - shown * estimate[j]) * GRID) / GRID), care
