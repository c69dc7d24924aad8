"""The rule that says which items a person is not shown again, and when these items return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from thali.policies.examined import RULES
from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers

#: Stands for the list at which an item was last examined or clicked, if it never was.
NEVER = -1
#: As a number of lists, stands for "never again".
FOREVER = 2**31 - 1
NAMES = ("nothing", "clicked", "examined")


@dataclass(frozen=True, eq=False)
class Hide:
    """Hides items that a person has clicked or examined, for some lists or forever. By default, it hides nothing.

    An item is hidden if at least one part of the rule hides it. If a person has fewer than K other items left, as many
    hidden items return as are needed: those whose last examination is longest ago. Ties go to the lowest item number.

    The rule has no memory. What people have seen is in a :class:`thali.Seen` or, for a single person and with bounded
    memory, in a :class:`thali.policies.RecentlySeen`. The methods of the rule are functions of numbers or arrays: the
    number of lists that a person has been shown (``now``, which is also the number of the next list, counted from 0),
    the list at which each item was last examined and last clicked (-1 if never), and its fatigue at that examination.

    Parameters
    ----------
    clicked: what happens to an item that was clicked. True: it is never shown again. A whole number n of at least 1: it
        is not in the next n lists. False: this part hides nothing.
    examined: the same, for an item that was examined.
    fatigue: a half-life h in lists, above 0, or None. Each examination adds 1 to the fatigue of an item, and the
        fatigue halves every h lists. So after examinations at the lists s, its fatigue at list t is Σ_s 2^(-(t-s)/h).
        The item is hidden while this is at least ``limit``.
    limit: above 0. With 0.5, an item that was examined once is hidden for h lists. If it is examined again whenever it
        returns, it is hidden longer, but always for less than h·log2(1 + 1/limit) lists. With a limit above 1, an item
        is hidden only after several examinations.
    until: which positions count as examined, as a policy cannot observe more than the clicks: those up to the first
        click ("first-click"), up to the last click ("last-click"), or all ("all"). Without a click, all positions
        count. A clicked position always counts.

    Examples
    --------
    >>> import thali
    >>> rule = thali.Hide(clicked=True, examined=1)
    >>> seen = thali.Seen(rule, users=1, L=5)
    >>> seen.record([[3, 0, 1]], [[False, True, False]])     # item 1 is below the click
    >>> seen.excluded(2)
    array([[ True, False, False,  True, False]])
    >>> seen.record([[2, 4]], [[False, False]])              # item 3 returns, but not item 0, which was clicked
    >>> seen.excluded(2)
    array([[ True, False,  True, False,  True]])
    >>> seen.excluded(3)                                     # three items are needed: the longest unseen returns
    array([[False, False,  True, False,  True]])

    """

    clicked: bool | int = False
    examined: bool | int = False
    fatigue: float | None = None
    limit: float = 0.5
    until: str = "first-click"

    def __post_init__(self) -> None:
        object.__setattr__(self, "clicked", _lists("clicked of Hide", self.clicked))
        object.__setattr__(self, "examined", _lists("examined of Hide", self.examined))
        if self.fatigue is not None:
            half_life = checks.number("fatigue of Hide", self.fatigue, low=0.0, strict=True)
            object.__setattr__(self, "fatigue", half_life)
        object.__setattr__(self, "limit", checks.number("limit of Hide", self.limit, low=0.0, strict=True))
        checks.one_of("until of Hide", self.until, tuple(RULES))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hide) and repr(self) == repr(other)  # True and 1 are equal, but not as settings

    def __hash__(self) -> int:
        return hash(repr(self))

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the rule that hides "nothing", or what was "clicked" or "examined" and never shows it again."""
        checks.one_of("name of Hide", name, NAMES)
        return cls(clicked=name == "clicked", examined=name == "examined")

    @property
    def hides_nothing(self) -> bool:
        """Whether the rule never hides an item."""
        return not self.clicked and not self.examined and self.fatigue is None

    def hides(self, now: Any, last_examined: Any, last_clicked: Any, fatigue: Any = 0.0) -> Booleans:
        """Return which items are hidden from list ``now``, before any of them return because too few are left."""
        hidden = recent(now, last_examined, self.examined) | recent(now, last_clicked, self.clicked)
        if self.fatigue is not None:
            hidden |= faded(now, last_examined, fatigue, self.fatigue) >= self.limit
        return np.asarray(hidden)

    def examine(self, at: Any, last_examined: Any, fatigue: Any = 0.0) -> tuple[Integers, Floats]:
        """Return the last examination of items and their fatigue then, after one more examination at list ``at``.

        Examinations may be recorded in any order, because clicks may arrive late.
        """
        latest = np.maximum(at, last_examined)
        if self.fatigue is None:
            return latest, fatigue
        return latest, faded(latest, last_examined, fatigue, self.fatigue) + faded(latest, at, 1.0, self.fatigue)


def recent(now: Any, last: Any, lists: bool | int) -> Any:
    """Return whether something last happened at one of the latest ``lists`` lists before ``now``, or ever if True."""
    if lists is False:
        return np.zeros(np.shape(last), dtype=np.bool_)
    return last >= np.maximum(0, now - (FOREVER if lists is True else lists))


def faded(now: Any, last: Any, fatigue: Any, half_life: float) -> Any:
    """Return fatigue·2^(-(now-last)/half_life), the fatigue at list ``now``, given that at list ``last``."""
    with np.errstate(over="ignore"):  # with a tiny half-life, the fatigue is 0
        return fatigue * np.exp2((last - now) / half_life)


def longest_unseen(items: Integers, last: Integers, count: int) -> Integers:
    """Return the ``count`` items whose last examination is longest ago. Ties go to the lowest item number.

    items: item numbers (n,) in ascending order. last: the list at which each of them was last examined (n,).
    """
    return np.asarray(items[np.argsort(last, kind="stable")[:count]])


def _lists(name: str, value: Any) -> bool | int:
    """Check True, False or a number of lists."""
    if isinstance(value, bool):
        return value
    try:
        return checks.integer(name, value, low=1, high=FOREVER)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must be True, False or a whole number of lists from 1, got {value!r}") from None
