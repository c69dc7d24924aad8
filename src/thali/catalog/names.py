"""The names of items or topics in order, and the number of each name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, overload

from thali.tools import checks


class Names(Sequence[Hashable]):
    """Names numbered from 0. By default, the names are the numbers themselves. More names can be added.

    A dropped name keeps its number, but can no longer be found. Cost: O(1) to find, add or drop a name. Default names
    take no memory.
    """

    def __init__(self, what: str, names: Iterable[Hashable] | None, size: int) -> None:
        self._default_count = size if names is None else 0
        self._added: list[Hashable] = [] if names is None else checks.sequence(f"{what} of Catalog", names)
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
        self._index[name] = len(self)
        self._added.append(name)
        return len(self) - 1

    def drop(self, name: Hashable) -> None:
        """Drop a name, so that it is no longer found."""
        if self._index.pop(name, None) is None:
            self._dropped.add(name)

    def __len__(self) -> int:
        return self._default_count + len(self._added)

    @overload
    def __getitem__(self, at: int) -> Hashable: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Hashable]: ...
    def __getitem__(self, at: int | slice) -> Hashable | Sequence[Hashable]:
        if not self._default_count:
            return self._added[at]
        if isinstance(at, slice):
            return [self[e] for e in range(*at.indices(len(self)))]
        e = range(len(self))[at]
        return e if e < self._default_count else self._added[e - self._default_count]

    def __iter__(self) -> Iterator[Hashable]:
        yield from range(self._default_count)
        yield from self._added

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Names) and self._default_count == other._default_count:
            return self._added == other._added
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

    def __repr__(self) -> str:
        return repr(list(self)) if len(self) <= 20 else f"[{self[0]!r}, {self[1]!r}, ..., {self[-1]!r}]"


def _same(a: Hashable, b: Hashable) -> bool:
    return a == b
