"""Input is refused here, at the edge, with a sentence that names the argument, the rule and what came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Integral, Real
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.tools.jit import kernel
from thali.tools.types import Booleans, Floats, Integers

# Every whole number up to here is a float.
MOST_COUNT = 2**53
# What no name has: control characters, which break logs and terminals, and lone surrogates, which are no UTF-8.
_NOT_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def number(name: str, value: Any, *, low: float, strict: bool = False, high: float = np.inf) -> float:
    """A finite real number, at least low (above it, if strict) and at most high."""
    rule = f"must be a number {'above' if strict else 'of at least'} {low:g}" + (
        f" and at most {high:g}" if isfinite(high) else ""
    )
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} {rule}, got {short(value)}")
    try:
        checked = float(value)
    except OverflowError:  # a whole number beyond all floats
        checked = np.inf
    if not isfinite(checked) or checked < low or (strict and checked == low) or checked > high:
        raise ValueError(f"{name} {rule}, got {value!r}")
    return checked


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """A whole number from low to high."""
    rule = f"must be a whole number of at least {low}" + (f" and at most {high}" if high is not None else "")
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} {rule}, got {short(value)}")
    checked = int(value)
    if checked < low or (high is not None and checked > high):
        raise ValueError(f"{name} {rule}, got {value!r}")
    return checked


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {short(value)}")
    return value


def text_name(name: str, value: Any, longest: int = 256) -> str:
    """The name of an item, a topic or a user, as text that any file, database or address can hold."""
    if isinstance(value, str) and 0 < len(value) <= longest and _NOT_IN_NAMES.search(value) is None:
        return value
    rule = f"must be text of 1 to {longest} characters, without control characters or lone surrogates"
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{name} {rule}, got {short(value)}")


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {short(value)}")
    return value


def list_length(owner: str, K: Any, items: int) -> int:
    """K, the length of a list: from 1 to the number of items."""
    try:
        return integer(f"K of {owner}", K, low=1, high=items)
    except ValueError:
        raise ValueError(f"K of {owner} must be from 1 to the {items} items there are, got {K!r}") from None


def instance(name: str, value: Any, kind: type[Any]) -> Any:
    """An object of this class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a thali.{kind.__name__}, got {short(value)}")
    return value


def sequence(name: str, values: Any) -> list[Any]:
    """A sequence, as a list: not a string, not a set (it has no order), not a single value."""
    if isinstance(values, str | bytes | set | frozenset | dict) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence, got {short(values)}")
    return list(values)


def floats(name: str, values: Any, shape: tuple[int | None, ...], meaning: str) -> Floats:
    """A finite float64 array of this shape (None: any length), e.g. meaning "(users, d)"; contiguous."""
    given = _array(name, values, "fiub", f"numbers {meaning}")
    if given.shape != shape and (
        given.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, given.shape, strict=True))
    ):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have shape {meaning} = ({wanted}), got {given.shape}")
    array = np.ascontiguousarray(given, dtype=np.float64)
    if not finite(array.reshape(-1)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _array(name: str, values: Any, kinds: str, what: str) -> NDArray[Any]:
    """An array of one of these kinds of dtype; masked and ragged ones, strings and objects are refused."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be an array of {what}, got rows of different lengths") from None
    if array.dtype.kind not in kinds or isinstance(values, np.ma.MaskedArray):
        came = (
            "a masked array" if isinstance(values, np.ma.MaskedArray) else f"{type(values).__name__} of {array.dtype}"
        )
        raise TypeError(f"{name} must be an array of {what}, got {came}")
    return array


def fixed(array: Floats) -> Floats:
    """A read-only copy, so that it stays what was checked."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def within(name: str, array: Floats, low: float, high: float) -> Floats:
    """All entries from low to high, and none NaN."""
    if array.size and not (array.min() >= low and array.max() <= high):
        wrong = array[~((array >= low) & (array <= high))][0]
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got {float(wrong)!r}")
    return array


def preferences(name: str, theta: Any, d: int) -> Floats:
    """θ (users, d): non-negative, summing to at most 1, as ‖θ*‖₁ ≤ 1 of the paper, so attraction is a probability."""
    array = floats(name, theta, (None, d), "(users, d)")
    if array.size and array.min() < 0.0:
        raise ValueError(f"{name} must not be negative, got {array.min()}")
    totals = array.sum(axis=1)
    if totals.size and totals.max() > 1.0 + 1e-9:
        raise ValueError(f"{name} must sum to at most 1 for each user, got {totals.max()}")
    return array


def item_lists(name: str, lists: Any, users: int | None, L: int, K: int | None = None) -> Integers:
    """Lists (users, K) of distinct item indices, as int64; of any number of users, if that is None."""
    array = _array(name, lists, "iu", "item indices (users, K)")
    users = len(array) if users is None and array.ndim else users
    if array.ndim != 2 or array.shape[0] != users or (K is not None and array.shape[1] != K) or not array.shape[1]:
        raise ValueError(f"{name} must have shape (users, K) = ({users}, {K or 'any'}), got {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    bad = first_bad_list(array, L)
    if bad >= 0:
        raise ValueError(
            f"{name} must hold distinct item indices from 0 to {L - 1} in each row, got {array[bad].tolist()}"
        )
    return array


def click_matrix(name: str, clicks: Any, users: int, K: int) -> Booleans:
    """Clicks (users, K), boolean."""
    array = _array(name, clicks, "b", "booleans, one for each position")
    if array.shape != (users, K):
        raise ValueError(f"{name} must have shape (users, K) = ({users}, {K}), got {array.shape}")
    return np.ascontiguousarray(array)


def counts(name: str, values: Any, users: int) -> Integers:
    """A whole number of at least 0 for each user, as int64 (users,)."""
    array = _array(name, values, "iu", "whole numbers (users,)")
    if array.shape != (users,):
        raise ValueError(f"{name} must have shape (users,) = ({users},), got {array.shape}")
    if array.min() < 0 or array.max() > MOST_COUNT:
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"{name} must be from 0 to {MOST_COUNT}, got {wrong}")
    return array.astype(np.int64)


# Compiled, because they run at every step.


@kernel
def finite(array: Floats) -> bool:
    """Whether no entry of array (n,) is NaN or infinite."""
    wrong = 0
    for x in array:
        wrong += not isfinite(x)
    return wrong == 0


@kernel
def first_bad_list(lists: Integers, L: int) -> int:
    """The first row of lists (users, K) with an item outside [0, L) or twice; -1 if there is none. O(K²) a row."""
    users, K = lists.shape
    for user in range(users):
        for k in range(K):
            item = lists[user, k]
            if item < 0 or item >= L:
                return user
            for i in range(k):
                if lists[user, i] == item:
                    return user
    return -1
