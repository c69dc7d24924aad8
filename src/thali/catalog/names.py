"""The names of items or topics in order, and the number of each name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from typing import Any, overload

from thali.tools import checks


class NameList(Sequence[Hashable]):
    """Names numbered from 0: first the numbers themselves, ``default_count`` of them, and then the names in ``added``.

    Default names take no memory. Names that are appended to ``added`` later are not part of this list.
    """

    def __init__(self, default_count: int, added: list[Hashable]) -> None:
        self._default_count, self._added = default_count, added
        self._size = default_count + len(added)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> Hashable: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Hashable]: ...
    def __getitem__(self, at: int | slice) -> Hashable | Sequence[Hashable]:
        if isinstance(at, slice):
            return [self[e] for e in range(*at.indices(self._size))]
        if not self._default_count and 0 <= at < self._size:
            return self._added[at]
        e = range(self._size)[at]
        return e if e < self._default_count else self._added[e - self._default_count]

    def __iter__(self) -> Iterator[Hashable]:
        yield from range(self._default_count)
        yield from islice(self._added, self._size - self._default_count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        if isinstance(other, NameList) and self._default_count == other._default_count:
            return self._own() == other._own()
        return all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]  # a subclass is mutable

    def __repr__(self) -> str:
        return repr(list(self)) if len(self) <= 20 else f"[{self[0]!r}, {self[1]!r}, ..., {self[-1]!r}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return NameList, (self._default_count, self._own())

    def _own(self) -> list[Hashable]:
        """Return the names that are not default names."""
        return self._added[: self._size - self._default_count]

    def unchanging(self) -> NameList:
        """Return the same names, as a list to which none are added. Cost: O(1)."""
        names = NameList(self._default_count, [])
        names._added, names._size = self._added, self._size
        return names


class Names(NameList):
    """Names numbered from 0, by default the numbers themselves. Names can be found, added and dropped.

    A dropped name keeps its number, but can no longer be found. Cost: O(1) to find, add or drop a name.
    """

    def __init__(self, what: str, names: Iterable[Hashable] | None, size: int) -> None:
        super().__init__(
            size if names is None else 0, [] if names is None else checks.sequence(f"{what} of Catalog", names)
        )
        self._index: dict[Hashable, int] = {}
        self._dropped: set[Hashable] = set()  # only default names
        self._what = what
        for e, name in enumerate(self._added):
            self.check(name)
            self._index[name] = e
        if len(self) != size:
            raise ValueError(
                f"{what} of Catalog must have {size} names, one for each {what.removesuffix('s')}, got {len(self)}"
            )
        if names is not None and len(self._index) != size:
            twice = Counter(self._added).most_common(1)[0][0]
            raise ValueError(f"{what} of Catalog must be unique, got {twice!r} twice")

    @classmethod
    def restore(cls, what: str, names: NameList, present: Sequence[bool]) -> Names:
        """Return names of which only some are present. The others were dropped."""
        restored = cls(what, None, names._default_count)
        restored._dropped.update(e for e in range(names._default_count) if not present[e])
        for e in range(names._default_count, len(names)):
            restored.add(names[e])
            if not present[e]:
                restored.drop(names[e])
        return restored

    def check(self, name: Any) -> None:
        """Raise TypeError unless this can be a name."""
        if not isinstance(name, Hashable) or name != name:
            raise TypeError(f"{self._what} of Catalog must be hashable and equal to themselves, got {name!r}")

    def find(self, name: Any) -> int | None:
        """Return the number of a name, or None if there is no such name."""
        try:
            found = self._index.get(name)
        except TypeError:
            return None
        if found is not None or not isinstance(name, Integral) or name in self._dropped:
            return found
        return int(name) if int(name) in range(self._default_count) else None

    def add(self, name: Hashable) -> int:
        """Add a name and return its number, which is the next one."""
        self._index[name] = self._size
        self._added.append(name)
        self._size += 1
        return self._size - 1

    def drop(self, name: Hashable) -> None:
        """Drop a name, so that it is no longer found."""
        if self._index.pop(name, None) is None:
            self._dropped.add(name)


def _same(a: Hashable, b: Hashable) -> bool:
    return a == b
