"""The quality of items: how attractive each one is beyond its topics, learned from the clicks of all people."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.policies.beta import Beta, learn_beta
from thali.policies.examined import RULES, examined_positions
from thali.tools import checks
from thali.tools.archives import UNREADABLE, read_arrays, write_arrays
from thali.tools.randomness import stream
from thali.tools.types import Booleans, Floats, Integers

FORMAT = "thali-quality-1"
# The numbers of a given prior must be in this range, so that a draw is always a number.
LEAST_PRIOR, MOST_PRIOR = 1e-6, 1e9
# The β of refresh, unless another one is given.
USUAL_BETA = 1.0
# At most one item in this many is tried at a time. If many were, lists would consist of unknown items.
TRIED_OF = 100
# Counts that are not whole numbers are rounded. A count that is below 0 by less than this is 0.
ROUNDING = 1e-6


class Quality:
    """How often each item is clicked when it is examined, counted over all people, with the uncertainty.

    Item e was examined n_e times and clicked c_e times. Its click rate has the distribution

        Beta(a + c_e, b + n_e - c_e),

    where Beta(a, b) is the prior: the distribution of click rates over all items. So the mean (a + c_e)/(a + b + n_e)
    of an item with few examinations is close to that of all items, and its deviation is large.

    The values are written to a steady topic of a catalog by :meth:`refresh`, once for a batch of lists. A policy then
    learns how much each person cares for quality, as it learns any other preference.

    Parameters
    ----------
    L: the number of items.
    rule: which positions of a list count as examined: ``"first-click"`` (up to the first click, and all K without one,
        as in the cascade model), ``"last-click"`` or ``"all"``.
    prior: (a, b), each from 1e-6 to 1e9. By default, it is learned from the counts of all items
        (:func:`thali.policies.beta.learn_beta`), again after every change.

    Everything is a function of the two arrays ``examined`` and ``clicked``. So the order of feedback does not matter.

    Cost: O(K) to add a list, 16 bytes of memory per item. O(L) for the values, and about O(L log L) to learn the prior.

    Examples
    --------
    >>> import thali
    >>> quality = thali.Quality(4)
    >>> quality.add([[0, 1, 2], [0, 2, 1]], [[False, True, False], [False, False, False]])
    >>> quality.examined, quality.clicked
    (array([2., 2., 1., 0.]), array([0., 1., 0., 0.]))
    >>> quality.mean.round(2), quality.deviation.round(2)
    (array([0.21, 0.29, 0.23, 0.25]), array([0.11, 0.12, 0.12, 0.13]))
    >>> catalog = thali.Catalog([[0.5, 0], [0.4, 0], [0.3, 0], [0.2, 0]], topics=["crime", "quality"],
    ...     fading=[True, False])
    >>> quality.refresh(catalog, beta=0.0)
    >>> catalog.weights[:, 1].round(2)
    array([0.21, 0.29, 0.23, 0.25])

    """

    def __init__(self, L: int, *, rule: str = "first-click", prior: Any = None) -> None:
        L = checks.integer("L of Quality", L, low=1)
        self._rule = checks.one_of("rule of Quality", rule, list(RULES))
        self._given = None if prior is None else _prior(prior)
        self._examined, self._clicked = np.zeros(L), np.zeros(L)
        self._learned: Beta | None = None

    @classmethod
    def from_counts(cls, examined: Any, clicked: Any, *, rule: str = "first-click", prior: Any = None) -> Quality:
        """Return the quality of items that were examined and clicked this often (L,). Numbers need not be whole."""
        n = checks.floats("examined of Quality", examined, (None,), "(L,)")
        c = checks.floats("clicked of Quality", clicked, (len(n),), "(L,)")
        checks.within("examined of Quality", n, 0.0, checks.MOST_COUNT)
        wrong = np.flatnonzero(~((c >= 0.0) & (c <= n)))
        if wrong.size:
            e = int(wrong[0])
            raise ValueError(
                f"clicked of Quality must be from 0 to the number of examinations, got {c[e]:g} of {n[e]:g} for item "
                f"number {e}"
            )
        quality = cls(len(n), rule=rule, prior=prior)
        quality._examined, quality._clicked = n.copy(), c.copy()
        return quality

    @classmethod
    def from_interactions(
        cls, interactions: Interactions, *, strength: float = 0.1, rule: str = "first-click", prior: Any = None
    ) -> Quality:
        """Return the quality of items that is known from interactions: their popularity.

        As if every person had examined every item, and clicked those that they interacted with. Every interaction
        counts, so call ``attracted`` first. Items have the numbers they have in the interactions, and in a catalog that
        is estimated from these.

        strength: how much such an examination counts, compared with one in a list, from 0 to 1. That somebody has no
            interaction with an item says little, because most people have never met it. The default is a guess.

        Examples
        --------
        >>> import thali
        >>> data = thali.datasets.Interactions.of(
        ...     [("ana", "Heat", 5), ("ana", "Fargo", 5), ("bob", "Heat", 5)], {"Heat": ["crime"], "Fargo": ["comedy"]})
        >>> thali.Quality.from_interactions(data, strength=0.5).clicked      # Fargo, Heat
        array([0.5, 1. ])

        """
        checks.instance("interactions of Quality", interactions, Interactions)
        strength = checks.number("strength of Quality", strength, low=0.0, high=1.0)
        likes = np.bincount(interactions.item, minlength=len(interactions.items))
        people = np.full(len(likes), len(interactions.users))
        return cls.from_counts(strength * people, strength * likes, rule=rule, prior=prior)

    def __repr__(self) -> str:
        return f"Quality(L={self.L}, rule={self.rule!r}, {self._clicked.sum():g} of {self._examined.sum():g} clicked)"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Quality)
            and (self._rule, self._given) == (other._rule, other._given)
            and np.array_equal(self._examined, other._examined)
            and np.array_equal(self._clicked, other._clicked)
        )

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    @property
    def L(self) -> int:
        """The number of items."""
        return len(self._examined)

    @property
    def rule(self) -> str:
        """Which positions of a list count as examined."""
        return self._rule

    @property
    def examined(self) -> Floats:
        """How often each item was examined (L,), read-only."""
        return _view(self._examined)

    @property
    def clicked(self) -> Floats:
        """How often each item was clicked (L,), read-only."""
        return _view(self._clicked)

    @property
    def prior(self) -> Beta:
        """The prior Beta(a, b): the one given, or the one learned from the counts of all items."""
        if self._given is not None:
            return self._given
        if self._learned is None:
            self._learned = learn_beta(self._examined, self._clicked)
        return self._learned

    @property
    def mean(self) -> Floats:
        """The mean click rate of each item (L,): (a + c)/(a + b + n)."""
        a, b = self.prior
        return (a + self._clicked) / (a + b + self._examined)

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each item's click rate (L,): sqrt(mean·(1 - mean)/(a + b + n + 1))."""
        mean = self.mean
        return np.sqrt(mean * (1.0 - mean) / (self.prior.strength + self._examined + 1.0))

    def values(
        self,
        beta: float = 0.0,
        rng: Any = None,
        *,
        trial: float = 0.0,
        most_tried: int | None = None,
        among: Booleans | None = None,
    ) -> Floats:
        """Return a value for each item (L,), in [0, 1]: the mean plus β deviations, or a draw.

        beta: β, how optimistic to be about items with few examinations.
        rng: a seed or a random generator. With it, each value is drawn from the distribution of the item's click rate
            (Thompson sampling), and beta must be 0.
        trial: an item with fewer examinations than this is tried: it gets at least the largest value of the items that
            have as many or more. So it is shown to people whose taste it fits, until it has that many examinations.
            By default, none.
        most_tried: at most this many items are tried at a time, the newest first. By default, one in a hundred, and at
            least one. A list can consist of tried items if there are K of them or more.
        among: bool (L,), which items can be shown. The others are not tried. By default, all.
        """
        beta = checks.number("beta of values", beta, low=0.0)
        trial = checks.number("trial of values", trial, low=0.0)
        if most_tried is None:
            most_tried = max(1, self.L // TRIED_OF)
        most_tried = checks.integer("most_tried of values", most_tried, low=1)
        if rng is None:
            values = np.minimum(1.0, self.mean + beta * self.deviation)
        elif beta:
            raise ValueError(f"beta of values must be 0 if values are drawn with rng, got {beta}")
        else:
            if not isinstance(rng, np.random.Generator):
                rng = stream(checks.integer("rng of values", rng, low=0), "quality")
            a, b = self.prior
            values = np.asarray(rng.beta(a + self._clicked, b + self._examined - self._clicked))
        if among is None:
            among = np.ones(self.L, dtype=np.bool_)
        elif np.shape(among) != (self.L,):
            raise ValueError(f"among of values must have shape ({self.L},), one for each item, got {np.shape(among)}")
        known = self._examined >= trial
        tried(values, ~known & among, known & among, most_tried)
        return values

    def refresh(
        self,
        catalog: Catalog,
        topic: Any = "quality",
        *,
        beta: float | None = None,
        rng: Any = None,
        trial: float = 0.0,
        most_tried: int | None = None,
    ) -> None:
        """Write the values to a steady topic of a catalog, for all items at once (:meth:`thali.Catalog.put_column`).

        Do this after a batch of lists, not after each click: the next list builds the search index again. Items that
        were added to the catalog are added here too (:meth:`grow`).

        beta, rng, trial, most_tried: as for :meth:`values`, but β is 1 by default, or 0 with rng. docs/quality.md has
        the measurement behind this default. Items that were removed from the catalog are not tried.
        """
        checks.instance("catalog of refresh", catalog, Catalog)
        if catalog.fading[catalog.topic_index(topic)]:
            raise ValueError(
                f"topic of refresh must be steady, which is fading=False in thali.Catalog, got {topic!r}, which fades"
            )
        if catalog.L < self.L:
            raise ValueError(f"catalog of refresh must have at least {self.L} items, as Quality has, got {catalog.L}")
        if beta is None:
            beta = USUAL_BETA if rng is None else 0.0
        grown = self.copy()
        grown.grow(catalog.L)
        values = grown.values(beta, rng, trial=trial, most_tried=most_tried, among=catalog.present)
        catalog.put_column(topic, values)
        self.grow(catalog.L)
        self._learned = grown._learned

    def add(self, lists: Any, clicks: Any) -> None:
        """Count the examined positions of lists (users, K) and the clicks, bool (users, K), on them.

        If an argument is not valid, nothing is counted.
        """
        self._count(*self._positions(lists, clicks), 1.0)

    def subtract(self, lists: Any, clicks: Any) -> None:
        """Undo :meth:`add`. Raise ValueError if these lists and clicks cannot have been added."""
        shown, hit = self._positions(lists, clicks)
        self._count(shown, hit, -1.0)
        touched = np.unique(shown)
        n, c = self._examined[touched], self._clicked[touched]
        wrong = (n < -ROUNDING) | (c < -ROUNDING) | (c > n + ROUNDING)
        if wrong.any():
            self._count(shown, hit, 1.0)
            raise ValueError(
                "lists of subtract must have been added before with these clicks, got more examinations, clicks or "
                f"examinations without a click than were added, for item number {touched[wrong][0]}"
            )
        self._examined[touched] = np.maximum(n, 0.0)
        self._clicked[touched] = np.clip(c, 0.0, self._examined[touched])

    def merge(self, other: Quality) -> None:
        """Add the counts of another object with the same items and rule, such as one from another process."""
        checks.instance("other of merge", other, Quality)
        if (other.L, other.rule) != (self.L, self.rule):
            raise ValueError(
                f"other of merge must have L={self.L} and rule={self.rule!r}, got L={other.L} and rule={other.rule!r}"
            )
        self._examined += other._examined
        self._clicked += other._clicked
        self._learned = None

    def grow(self, L: int) -> None:
        """Add items without examinations, so that there are L."""
        L = checks.integer("L of grow", L, low=self.L)
        if L > self.L:
            more = np.zeros(L - self.L)
            self._examined, self._clicked = np.append(self._examined, more), np.append(self._clicked, more)

    def move(self, old: int, new: int) -> None:
        """Move the counts of an item to another number, such as that of an item that was removed and added again."""
        old = checks.integer("old of move", old, low=0, high=self.L - 1)
        new = checks.integer("new of move", new, low=0, high=self.L - 1)
        for counts in (self._examined, self._clicked):
            number, counts[old] = counts[old], 0.0
            counts[new] += number
        self._learned = None

    def copy(self) -> Quality:
        """Return an independent copy."""
        other = Quality(self.L, rule=self._rule, prior=self._given)
        other._examined, other._clicked, other._learned = self._examined.copy(), self._clicked.copy(), self._learned
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one portable file, atomically: a zip of a JSON header and two .npy arrays."""
        header = {"format": FORMAT, "rule": self._rule, "prior": self._given}
        write_arrays(path, header, {"examined": self._examined, "clicked": self._clicked})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Quality:
        """Load a file written by :meth:`save`. The object is equal to the saved one, bit for bit."""
        if not Path(path).exists():
            raise FileNotFoundError(
                f"path of Quality.load must be a file written by quality.save, found nothing at {path}"
            )
        try:
            header, arrays = read_arrays(path, FORMAT)
            counts = arrays["examined"], arrays["clicked"]
            return cls.from_counts(*counts, rule=header["rule"], prior=header["prior"])
        except UNREADABLE as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(
                f"path of Quality.load must be a complete file written by quality.save, got {path}: {reason}"
            ) from error

    def _positions(self, lists: Any, clicks: Any) -> tuple[Integers, Integers]:
        """Check lists and clicks. Return the items at all examined positions, and those that were clicked there."""
        shown: Integers = checks.item_lists("lists", lists, None, self.L)
        hit: Booleans = checks.click_matrix("clicks", clicks, *shown.shape)
        examined = examined_positions(hit, RULES[self._rule])
        return shown[examined], shown[examined & hit]

    def _count(self, shown: Integers, hit: Integers, times: float) -> None:
        np.add.at(self._examined, shown, times)
        np.add.at(self._clicked, hit, times)
        self._learned = None


def tried(values: Floats, unknown: Booleans, known: Booleans, most: int) -> Integers:
    """Give some unknown items at least the largest value of the known ones, in place. Return their numbers.

    unknown, known: bool (L,). most: at most this many items are tried at a time, the newest first.
    """
    if not known.any():
        return np.empty(0, dtype=np.int64)
    now = np.flatnonzero(unknown)[-most:]
    values[now] = np.maximum(values[now], values[known].max())
    return now


def _prior(prior: Any) -> Beta:
    """Check a given prior."""
    given = checks.sequence("prior of Quality", prior)
    if len(given) != 2:
        raise ValueError(f"prior of Quality must be two numbers (a, b), got {len(given)}")
    a, b = (checks.number("prior of Quality", value, low=LEAST_PRIOR, high=MOST_PRIOR) for value in given)
    return Beta(a, b)


def _view(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view
