"""Candidates and exclusions: which items each user may be shown, checked and converted to arrays for the kernels."""

from __future__ import annotations

from reprlib import repr as short
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thali.catalog.catalog import Catalog
from thali.tools.types import Booleans, Integers

# If the candidates make up more than this share of the catalog, it is faster to search the whole catalog and skip the
# other items.
LARGEST_SHARE = 1 / 16


class TooFewItems(ValueError):  # noqa: N818 (says what happened)
    """There are fewer than K items to choose from. left: how many there are."""

    def __init__(self, message: str, left: int) -> None:
        super().__init__(message)
        self.left = left


class Choice(NamedTuple):
    """A set of items for each user u: items[start[u]:start[u + 1]], in ascending order.

    If ``only`` is True, these are the only items that the user may be shown. Otherwise, they are the items that the
    user must not be shown. If all users share one set, start has shape (2,).
    """

    items: Integers
    start: Integers
    only: bool

    def part(self, users: slice) -> Choice:
        """Return the choice for a range of users."""
        return self if self.start.size == 2 else self._replace(start=self.start[users.start : users.stop + 1])

    def excluded(self, user: int, present: Booleans) -> Booleans:
        """Return a mask of the items that a user must not be shown (L,)."""
        own = user if self.start.size > 2 else 0
        named = self.items[self.start[own] : self.start[own + 1]]
        mask = np.ones(present.size, dtype=np.bool_) if self.only else ~present
        mask[named] = not self.only
        return mask

    def items_of(self, users: int, present: Booleans) -> tuple[Integers, Integers]:
        """Return the items that each user may be shown, as (items, start). Cost: O(L) for each set, unless ``only``."""
        if self.only:
            return self.items, self.start
        sets = [np.flatnonzero(~self.excluded(user, present)) for user in range(1 if self.start.size == 2 else users)]
        return np.concatenate(sets), np.append(0, np.cumsum([items.size for items in sets]))

    def items_if_limited(self, users: int, catalog: Catalog) -> tuple[Integers, Integers]:
        """Return the same as :meth:`items_of`, or two empty arrays if every item of the catalog is allowed."""
        if self is ALL and len(catalog) == catalog.L:
            return EVERY, EVERY
        return self.items_of(users, catalog.present)


#: Stands for every item of the catalog.
EVERY = np.zeros(0, dtype=np.int64)
#: The choice that allows every item.
ALL = Choice(EVERY, np.zeros(2, dtype=np.int64), only=False)


def allowed(catalog: Catalog, users: int, K: int, candidates: Any = None, exclude: Any = None) -> Choice:
    """Return the items that each user may be shown, from the arguments of recommend. Fewer than K items are an error.

    candidates, exclude: either one set for all users, as item numbers (n,) or a boolean mask (L,); or one row for each
    user, as a mask (users, L), item numbers (users, n) or a sequence of arrays of item numbers. Removed items are never
    shown. Cost: that of sorting the item numbers.
    """
    if candidates is None and exclude is None:
        if len(catalog) < K:
            raise TooFewItems(
                f"K must be at most the number of items in the catalog ({len(catalog)}), got {K}", len(catalog)
            )
        return ALL
    if candidates is None and _is_mask(exclude, users, catalog.L) and users > 1:
        return _all_but(catalog, exclude, K)
    wanted = None if candidates is None else _sets("candidates", candidates, users, catalog.L)
    unwanted = [] if exclude is None else _sets("exclude", exclude, users, catalog.L)
    sets = []
    for user in range(max(1, len(wanted or []), len(unwanted))):
        out = unwanted[user % len(unwanted)] if unwanted else None
        if wanted is None:
            assert out is not None
            kept = out[catalog.present[out]]
            left = len(catalog) - kept.size
        else:
            kept = wanted[user % len(wanted)]
            kept = kept[catalog.present[kept]]
            if out is not None:
                kept = kept[~np.isin(kept, out, assume_unique=True)]
            left = kept.size
        if left < K:
            whose = "" if len(wanted or unwanted) == 1 and len(unwanted or wanted or []) == 1 else f" for user {user}"
            raise _too_few(K, whose, left)
        sets.append(kept)
    start = np.append(0, np.cumsum([kept.size for kept in sets])).astype(np.int64)
    chosen = Choice(np.concatenate(sets), start, only=wanted is not None)
    if chosen.only and start.size == 2 and start[1] > LARGEST_SHARE * len(catalog):
        not_chosen = catalog.present.copy()
        not_chosen[chosen.items] = False
        excluded = np.flatnonzero(not_chosen)
        return Choice(excluded, np.array([0, excluded.size]), only=False)
    return chosen


def _is_mask(given: Any, users: int, L: int) -> bool:
    """Return whether this is a plain boolean array (users, L)."""
    return type(given) is np.ndarray and given.dtype == np.bool_ and given.shape == (users, L)


def _all_but(catalog: Catalog, mask: Booleans, K: int) -> Choice:
    """Return the same as :func:`allowed` for the excluded items mask (users, L), without a loop over users."""
    if len(catalog) < catalog.L:
        mask = mask & catalog.present
    sizes = np.count_nonzero(mask, axis=1)
    left = len(catalog) - sizes
    if left.min() < K:
        user = int(np.argmax(left < K))
        raise _too_few(K, f" for user {user}", int(left[user]))
    items = np.flatnonzero(mask) - np.repeat(np.arange(len(mask)) * catalog.L, sizes)  # faster than nonzero(mask)[1]
    return Choice(items, np.append(0, np.cumsum(sizes)), only=False)


def _too_few(K: int, whose: str, left: int) -> TooFewItems:
    return TooFewItems(
        f"arguments 'candidates' and 'exclude' must leave at least K = {K} items of the catalog{whose}, got {left}",
        left,
    )


def exclusions(exclude: Any, users: int, L: int) -> Booleans:
    """Return the items not to show as a mask (users, L), or (1, L) if it is the same for all users.

    exclude: as in :func:`allowed`. This is for code that has no catalog.
    """
    if _is_mask(exclude, users, L):
        return np.asarray(exclude)
    sets = _sets("exclude", exclude, users, L)
    mask = np.zeros((len(sets), L), dtype=np.bool_)
    for row, items in zip(mask, sets, strict=True):
        row[items] = True
    return mask


def _sets(name: str, given: Any, users: int, L: int) -> list[NDArray[np.int64]]:
    """Return one set of item numbers for all users, or one for each user. Each is ascending and without duplicates."""
    if isinstance(given, np.ndarray) and given.ndim == 2 and not isinstance(given, np.ma.MaskedArray):
        rows: list[Any] = list(given)
    elif isinstance(given, list | tuple) and given and all(np.ndim(row) == 1 for row in given):
        rows = list(given)
    else:
        return [_set(name, given, L)]
    if len(rows) != users:
        raise ValueError(
            f"{name} must be one set of items for all users, or one row for each of the {users} users, "
            f"got {len(rows)} rows"
        )
    return [_set(f"{name}[{user}]", row, L) for user, row in enumerate(rows)]


def _set(name: str, given: Any, L: int) -> NDArray[np.int64]:
    try:
        array = np.asarray(given)
    except ValueError:  # a mix of rows and single numbers
        array = np.array(given, dtype=object)
    masked = isinstance(given, np.ma.MaskedArray)  # NumPy would ignore the mask
    if array.dtype == np.bool_ and not masked:
        if array.shape != (L,):
            raise ValueError(f"{name}, given as a mask, must have shape (L,) = ({L},), got {array.shape}")
        return np.flatnonzero(array)
    if array.size == 0 and array.ndim == 1 and not masked:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1 or masked:
        raise TypeError(f"{name} must be item numbers (n,) or a boolean mask (L,), got {short(given)}")
    if array.min() < 0 or array.max() >= L:
        wrong = array[(array < 0) | (array >= L)][0]
        raise ValueError(f"{name} must contain item numbers from 0 to {L - 1}, got {wrong}")
    ordered = np.sort(array.astype(np.int64))
    return np.asarray(ordered[np.append(True, np.diff(ordered) != 0)])  # much faster than np.unique
