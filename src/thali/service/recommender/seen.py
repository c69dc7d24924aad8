"""What users have seen, and the rules by which a service hides it from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thali.catalog.catalog import Catalog
from thali.policies.hide import longest_unseen
from thali.service.recommender.operations import Refused
from thali.service.stores.records import UnusableRecord
from thali.tools.types import Booleans, Floats, Integers

Hashes = NDArray[np.uint64]
#: At most this many items are remembered for each user and learner, and as many lists. An item takes 9 bytes in the
#: store and a list takes 26.
MOST_ITEMS = MOST_LISTS = 1000
# The latest items are remembered, whether or not they were clicked, so that a rule about examined items still works for
# somebody who has clicked very often.
LATEST = 250
DAY_S = 86_400.0
HEADER = 16
# The hashes of so many items are kept in memory, about 2 MB.
HASHES = 10_000
# The largest number in a rule, and the form of numbers: Python would also read 1_0 or digits of other alphabets.
MOST, NUMBER = 1e9, re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
FORMS = "'nothing', 'clicked', 'examined', 'examined:20' (lists), 'examined:7d' (days) or 'fading:5' (lists)"


class Span(NamedTuple):
    """For how long something is hidden: so many lists, so many days, or forever if both are None."""

    lists: int | None = None
    days: float | None = None


@dataclass(frozen=True)
class HideRule:
    """Hides what a user has clicked or examined. An item is hidden if at least one part of the rule hides it.

    With numbers of lists, it hides the same as :class:`thali.Hide` with ``fatigue`` for ``fading``, where the lists of
    a user are numbered in the order in which their feedback arrived.
    """

    clicked: Span | None = None
    examined: Span | None = None
    fading: float | None = None
    """Half-life h in lists: an item is hidden while Σ 2^(-age/h) over its examinations is at least 0.5."""

    @property
    def hides_nothing(self) -> bool:
        """Whether the rule never hides an item."""
        return self.clicked is None and self.examined is None and self.fading is None

    @property
    def only_clicked(self) -> bool:
        """Whether the rule needs to know clicked items only."""
        return self.examined is None and self.fading is None

    def records(self, other: HideRule) -> bool:
        """Whether a service with this rule records what another rule needs to know."""
        return other.hides_nothing or not (self.hides_nothing or (self.only_clicked and not other.only_clicked))

    @classmethod
    def read(cls, text: Any, field: str = "hide") -> HideRule:
        """Read a rule such as "clicked", or several parts with commas between them: "clicked,examined:20".

        >>> HideRule.read("clicked, examined:7d")
        HideRule(clicked=Span(lists=None, days=None), examined=Span(lists=None, days=7.0), fading=None)
        """
        if not isinstance(text, str) or len(text) > 200:
            raise Refused(field, f"must be a rule such as {FORMS}, got {text!r:.80}")
        return _read(text, field)

    def hidden(self, seen: SeenLists, now: float) -> tuple[Hashes, Integers]:
        """Return the hashes of the hidden items, and the number of the list at which each was last examined.

        now: the time, in seconds since 1970. Cost: O(n log n) for n remembered items.
        """
        items, at = np.unique(seen.items, return_inverse=True)
        of = np.repeat(np.arange(seen.numbers.size), seen.sizes)
        number, time = seen.numbers[of], seen.times[of]
        last = np.full(items.size, -1, dtype=np.int64)
        np.maximum.at(last, at, number)
        hidden = np.zeros(items.size, dtype=np.bool_)
        for span, among in ((self.examined, slice(None)), (self.clicked, seen.clicked)):
            if span is not None:
                recent = np.ones(seen.items.size, dtype=np.bool_)
                if span.lists is not None:
                    recent = number >= seen.now - span.lists
                elif span.days is not None:
                    recent = time > now - span.days * DAY_S
                hidden[at[among][recent[among]]] = True
        if self.fading is not None:
            with np.errstate(over="ignore"):  # with a tiny half-life, the fatigue is 0
                left = np.exp2((number - seen.now) / self.fading)
            fatigue = np.bincount(at, left, minlength=items.size)
            hidden |= fatigue >= 0.5
        return items[hidden], last[hidden]


@lru_cache(maxsize=256)
def _read(text: str, field: str) -> HideRule:
    parts: dict[str, Any] = {}
    words = [word.strip(" ") for word in text.split(",")]
    if words == ["nothing"]:
        return HideRule()
    for word in words:
        name, _, value = word.partition(":")
        if name in parts or name not in ("clicked", "examined", "fading"):
            raise Refused(field, f"must be a rule such as {FORMS}, each part at most once, got {text!r:.80}")
        if name == "fading":
            parts[name] = _number(value, field, text)
        elif not value and ":" not in word:
            parts[name] = Span()
        elif value.endswith("d"):
            parts[name] = Span(days=_number(value[:-1], field, text))
        else:
            lists = _number(value, field, text)
            if lists != int(lists):
                raise Refused(field, f"must have a whole number of lists, got {text!r:.80}")
            parts[name] = Span(lists=int(lists))
    return HideRule(**parts)


def _number(text: str, field: str, rule: str) -> float:
    number = float(text) if NUMBER.fullmatch(text) else -1.0
    if not 0.0 < number <= MOST:
        raise Refused(
            field, f"must have a number above 0 and up to {MOST:g}, such as in 'examined:20', got {rule!r:.80}"
        )
    return number


@dataclass(frozen=True, eq=False)
class SeenLists:
    """What a user has seen of their latest lists. It never changes: recording a list creates a new object.

    Items are known by a hash of their names, so that they stay known when a new catalog numbers them differently.
    """

    now: int
    """The number of lists that were recorded so far, which is also the number of the next one."""
    sequences: Integers
    """(m,): the sequence of the statistics after each list, by which its impression refers to it."""
    numbers: Integers
    """(m,): the number of each list, ascending."""
    times: Floats
    """(m,): when each list was shown."""
    sizes: Integers
    """(m,): the number of items of each list."""
    items: Hashes
    """(n,): the items of the first list, then those of the second, and so on."""
    clicked: Booleans
    """(n,): whether each was clicked."""

    @classmethod
    def empty(cls) -> SeenLists:
        """Return what a new user has seen."""
        none = np.empty(0, dtype=np.int64)
        return cls(0, none, none, np.empty(0), none, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.bool_))

    def with_list(self, sequence: int, time: float, items: Hashes, clicked: Booleans) -> SeenLists:
        """Return what the user has seen after one more list."""
        more = SeenLists(
            self.now + 1,
            np.append(self.sequences, sequence),
            np.append(self.numbers, self.now),
            np.append(self.times, time),
            np.append(self.sizes, items.size),
            np.append(self.items, items),
            np.append(self.clicked, clicked),
        )
        return more._bounded()

    def _bounded(self) -> SeenLists:
        """Forget the oldest items, first those that were neither clicked nor among the latest, if there are many.

        Then forget the oldest lists, first those without items: they say nothing, because lists keep their numbers.
        """
        seen: SeenLists = self
        if seen.items.size > MOST_ITEMS:
            lasting = seen.clicked.copy()
            lasting[-LATEST:] = True
            kept = np.sort(np.argsort(lasting, kind="stable")[seen.items.size - MOST_ITEMS :])
            of = np.repeat(np.arange(seen.sizes.size), seen.sizes)[kept]
            sizes = np.bincount(of, minlength=seen.sizes.size)
            seen = _replaced(seen, sizes=sizes, items=seen.items[kept], clicked=seen.clicked[kept])
        if seen.sizes.size > MOST_LISTS:
            forgotten = np.argsort(seen.sizes > 0, kind="stable")[: seen.sizes.size - MOST_LISTS]
            seen = seen._lists(np.isin(np.arange(seen.sizes.size), forgotten, invert=True))
        return seen

    def without(self, sequence: int) -> SeenLists:
        """Return what the user has seen as if the list with this sequence had never been recorded."""
        return self._without(self.sequences == sequence)

    def without_shown(self, time: float, items: Hashes) -> SeenLists:
        """Like :meth:`without`, for a list whose sequence is not known any more: it was shown at this time."""
        of = np.repeat(np.arange(self.sizes.size), self.sizes)
        others = np.bincount(of[np.isin(self.items, items, invert=True)], minlength=self.sizes.size)
        found = np.flatnonzero((self.times == time) & (others == 0))
        return self._without(np.isin(np.arange(self.sizes.size), found[:1]))

    def _without(self, found: Booleans) -> SeenLists:
        if not found.any():
            return self
        later = self.numbers > self.numbers[found][0]
        return _replaced(self, now=self.now - 1, numbers=self.numbers - later)._lists(~found)

    def _lists(self, kept: Booleans) -> SeenLists:
        of = np.repeat(kept, self.sizes)
        lists = self.sequences[kept], self.numbers[kept], self.times[kept], self.sizes[kept]
        return SeenLists(self.now, *lists, self.items[of], self.clicked[of])

    def to_store(self) -> bytes:
        """Return everything in the form that the store keeps: 16 + 26·m + 9·n bytes."""
        parts = (
            np.array([self.now, self.sequences.size], dtype="<i8"),
            self.sequences.astype("<i8"),
            self.numbers.astype("<i8"),
            self.times.astype("<f8"),
            self.sizes.astype("<u2"),
            self.items.astype("<u8"),
            self.clicked.astype(np.uint8),
        )
        return b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_store(cls, stored: bytes) -> SeenLists:
        """Return what :meth:`to_store` has written."""
        try:
            now, m = np.frombuffer(stored, dtype="<i8", count=2).tolist()
            sequences, numbers = np.frombuffer(stored, dtype="<i8", offset=HEADER, count=2 * m).reshape(2, m)
            times = np.frombuffer(stored, dtype="<f8", offset=HEADER + 16 * m, count=m)
            sizes = np.frombuffer(stored, dtype="<u2", offset=HEADER + 24 * m, count=m).astype(np.int64)
            n = int(sizes.sum())
            items = np.frombuffer(stored, dtype="<u8", offset=HEADER + 26 * m, count=n)
            clicked = np.frombuffer(stored, dtype=np.uint8, offset=HEADER + 26 * m + 8 * n, count=n) != 0
            if len(stored) != HEADER + 26 * m + 9 * n:
                raise ValueError(f"it must have {HEADER + 26 * m + 9 * n} bytes, got {len(stored)}")
        except (ValueError, OverflowError) as error:
            raise UnusableRecord(f"what a user has seen is damaged in the store: {error}") from None
        return cls(now, sequences, numbers, times, sizes, items, clicked)

    @property
    def size(self) -> int:
        """How many bytes of memory this takes, without the objects themselves."""
        return 32 * self.sizes.size + 9 * self.items.size


def _replaced(seen: SeenLists, **changes: Any) -> SeenLists:
    return SeenLists(**{**seen.__dict__, **changes})


@lru_cache(maxsize=HASHES)
def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=b"thali-seen").digest(), "big")


def item_hashes(names: Any) -> Hashes:
    """Return the hashes (n,) by which items are remembered. A number and its text are the same name."""
    return np.array([_hash(str(name)) for name in names], dtype=np.uint64)


class ItemNumbers:
    """Finds the numbers of items by their hashes. Memory: 16 bytes for each item of the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._hashes: Hashes = np.empty(0, dtype=np.uint64)
        self._numbers: Integers = np.empty(0, dtype=np.int64)
        self._L = 0

    def find(self, hashes: Hashes) -> Integers:
        """Return the number of each item (n,), or -1 if it is not in the catalog. New items are hashed first.

        Cost: O(n·log L), and O(L) if there are new items.
        """
        self.prepare()
        at = np.searchsorted(self._hashes, hashes, side="right") - 1
        found = (at >= 0) & (self._hashes[at] == hashes)
        numbers = np.where(found, self._numbers[at], -1)
        return np.where(found & self._catalog.present[numbers], numbers, -1)

    def prepare(self) -> None:
        """Hash new items, so that the next search does not have to."""
        L = self._catalog.L
        if self._L < L:
            items = self._catalog.items
            new = item_hashes(items[e] for e in range(self._L, L))
            order = np.argsort(new, kind="stable")
            # Of an item that was removed and added again, the later number comes last.
            place = np.searchsorted(self._hashes, new[order], side="right")
            self._hashes = np.insert(self._hashes, place, new[order])
            self._numbers = np.insert(self._numbers, place, self._L + order)
            self._L = L


def still_hidden(numbers: Integers, last: Integers, missing: int) -> Integers:
    """Return the hidden items that remain hidden if ``missing`` of them must return: those not seen for longest."""
    order = np.argsort(numbers, kind="stable")
    numbers, last = numbers[order], last[order]
    if missing <= 0:
        return numbers
    return np.asarray(numbers[~np.isin(numbers, longest_unseen(numbers, last, missing))])
