"""The quality of items that goes on learning from lists that were chosen for each person."""

from __future__ import annotations

from math import sqrt
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
# Expected clicks are multiples of 1/GRID. Then sums up to two million are exact, and do not depend on the order.
GRID = 2.0**32


class RelativeQuality:
    """Learns the quality of items from clicks on lists, compared with the clicks that were expected there.

    A policy shows an item to people whose taste it fits. So its click rate says as much about these people as about the
    item, and :class:`thali.Quality`, which counts only clicks and examinations, would make good items of those that are
    shown to few fans. Here, the clicks h_e on item e are compared with m_e, the sum of the clicks that were expected at
    the positions where it was examined. With q_e = (a + c_e)/(a + b + n_e), the quality known from the start, the
    quality of an item has the distribution

        q_e · Gamma(a + c_e + h_e) / (a + c_e + ρ·m_e),    ρ = (1 + Σh)/(1 + Σm),

    whose mean is q_e if the item is clicked as often as expected. ρ is there because all expectations may be too high
    or too low: the start may come from purchases, and h from clicks.

    The paper has no quality. In x·θ̄, topics add to the quality, so a click that was not expected may be due to a topic
    rather than to the quality. We attribute it to the quality.

    Parameters
    ----------
    start: the counts n_e and c_e that are known from the start, and the prior Beta(a, b).
    examined, clicked, expected: how often each item was examined since, h_e and m_e (L,); 0 by default. There can be
        more items than at the start.
    prior: a and b; by default, those of the start.

    Cost: O(L) for the values.

    Examples
    --------
    >>> import thali
    >>> quality = thali.RelativeQuality(thali.Quality.from_counts([100, 100, 100], [20, 20, 5], prior=(1, 9)))
    >>> quality.mean.round(3)
    array([0.191, 0.191, 0.055])
    >>> quality.add([[0, 1, 2]] * 40, [[False, True, False]] * 40, [[0.2, 0.2, 0.05]] * 40)
    >>> quality.mean.round(3)                                  # item 0 is worse than expected, and item 1 is better
    array([0.099, 0.289, 0.055])

    """

    def __init__(
        self, start: Quality, examined: Any = None, clicked: Any = None, expected: Any = None, *, prior: Any = None
    ) -> None:
        checks.instance("start of RelativeQuality", start, Quality)
        self.start = start.copy()
        #: The prior of the start, Beta(a, b). It is not learned again.
        self.prior: Beta = start.prior if prior is None else Beta(*prior)
        given = {"examined": examined, "clicked": clicked, "expected": expected}
        counts = {
            name: np.zeros(start.L) if array is None else checks.floats(name, array, (None,), "(L,)").copy()
            for name, array in given.items()
        }
        sizes = [len(array) for array in counts.values()]
        if len(set(sizes)) > 1 or min(sizes) < start.L:
            raise ValueError(
                "examined, clicked and expected of RelativeQuality must have the same length, one for each of at least "
                f"{start.L} items, got lengths {sizes}"
            )
        for name, array in counts.items():
            checks.within(f"{name} of RelativeQuality", array, 0.0, checks.MOST_COUNT)
        self._examined, self._clicked, self._expected = counts.values()
        self._rho: float | None = None
        self.start.grow(len(self._examined))

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
        return self.start.examined + self._examined

    @property
    def clicked(self) -> Floats:
        """How often each item was clicked, at the start and since (L,)."""
        return self.start.clicked + self._clicked

    @property
    def since(self) -> tuple[Floats, Floats, Floats]:
        """Since the start: examinations, clicks and expected clicks of each item, (L,) each."""
        return self._examined.copy(), self._clicked.copy(), self._expected.copy()

    @property
    def known(self) -> Floats:
        """The quality that is known from the start, q (L,)."""
        a, b = self.prior
        return (a + self.start.clicked) / (a + b + self.start.examined)

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
        factor = (1.0 + self._clicked.sum()) / (1.0 + (self._examined * mean).sum())
        return np.asarray(np.clip(factor * mean, 0.0, 1.0))

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each item's quality (L,)."""
        shape, rate = self._gamma()
        return np.sqrt(shape) / rate

    def of(self, e: int) -> tuple[float, float, float, float]:
        """Return the examinations and clicks of an item, and the mean and the deviation of its quality. Cost: O(1)."""
        one = slice(e, e + 1)
        shape, rate = (float(part[0]) for part in self._gamma(one))
        n, c = (self.start.examined[e] + self._examined[e], self.start.clicked[e] + self._clicked[e])
        return float(n), float(c), min(1.0, max(LEAST, shape / rate)), sqrt(shape) / rate

    def _gamma(self, items: slice = slice(None)) -> tuple[Floats, Floats]:
        """Return shape and rate of the distribution of some items."""
        a, b = self.prior
        known = a + self.start.clicked[items]
        rate = (known + self._scale * self._expected[items]) / known * (a + b + self.start.examined[items])
        return known + self._clicked[items], rate

    @property
    def _scale(self) -> float:
        """ρ: how many clicks there were for each that was expected."""
        if self._rho is None:
            self._rho = float((1.0 + self._clicked.sum()) / (1.0 + self._expected.sum()))
        return self._rho

    def known_of(self, items: Integers) -> Floats:
        """Return the quality of items (n,) that is known from the start, also of items that were added since."""
        a, b = self.prior
        found = np.full(len(items), a / (a + b))
        here = items < self.L
        at = items[here]
        found[here] = (a + self.start.clicked[at]) / (a + b + self.start.examined[at])
        return found

    def expected(self, policy: LinearPolicy, state: LinearState, lists: Any, topic: Any = "quality") -> Floats:
        """Return the clicks to expect on each position of lists (users, K), if it is examined: x·θ̄, from 0 to 1.

        Without a prior, x·θ̄ is 0 at first. Then the quality that is known from the start is expected instead.

        In x, the quality of an item is the one known from the start, whatever it is in the catalog by now. Otherwise,
        an item that is being tried would be expected to be as good as the best. Call this before you learn the clicks.

        Cost: O(K·s) for each user, with s topics per item.
        """
        lists = checks.item_lists("lists", lists, state.users, policy.catalog.L)
        inverse, solution, _ = policy.posterior(state)
        alpha, j = policy.optimism(state), policy.catalog.topic_index(topic)
        found = np.empty(lists.shape)
        for user, chosen in enumerate(lists):
            estimate = solution[user] * policy.sigma**-2
            parts = explain(
                policy.catalog, chosen, estimate, inverse[user], float(alpha[user]), features=policy.features
            )
            found[user] = expected_clicks(policy, parts, self.known_of(chosen), j, estimate)
        return found

    def add(self, lists: Any, clicks: Any, expected: Any) -> None:
        """Count the examined positions of lists (users, K), the clicks on them, bool (users, K), and what was expected.

        expected: (users, K), from :meth:`expected` before the clicks were learned. If an argument is not valid, nothing
        is counted.
        """
        shown: Integers = checks.item_lists("lists", lists, None, self.L)
        hit: Booleans = checks.click_matrix("clicks", clicks, *shown.shape)
        m = checks.floats("expected", expected, shown.shape, "(users, K)")
        checks.within("expected", m, 0.0, 1.0)
        seen = examined_positions(hit, RULES[self.rule])
        np.add.at(self._examined, shown[seen], 1.0)
        np.add.at(self._clicked, shown[seen & hit], 1.0)
        np.add.at(self._expected, shown[seen], m[seen])
        self._rho = None

    def grow(self, L: int) -> None:
        """Add items about which nothing is known, so that there are L."""
        self.start.grow(L)
        more = np.zeros(L - len(self._examined))
        self._examined = np.append(self._examined, more)
        self._clicked = np.append(self._clicked, more)
        self._expected = np.append(self._expected, more)

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
        unknown = among & catalog.present & (self._examined < checks.number("trial of refresh", trial, low=0.0))
        values = self.mean
        now = tried(values, unknown, catalog.present & ~unknown, checks.integer("most_tried", most_tried, low=1))
        catalog.put_column(topic, values)
        return now


def expected_clicks(policy: LinearPolicy, parts: Explanation, known: Floats, j: int, estimate: Floats) -> Floats:
    """Return the clicks to expect on the items of a list (K,) if their quality, topic j, were the known one (K,).

    parts: how the list was chosen, with the estimated preferences θ̄ (d,).
    """
    if policy.prior is None:
        clicks = known
    else:
        shown = np.zeros(known.size)
        on = parts.topics == j
        shown[np.repeat(np.arange(known.size), parts.sizes)[on]] = parts.gains[on]
        clicks = np.clip(parts.belief + (known - shown) * estimate[j], 0.0, 1.0)
    return np.asarray(np.round(clicks * GRID) / GRID)
