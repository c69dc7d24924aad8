"""Checks of arguments. Every error message names the argument, the rule and the value received."""

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

# Every whole number up to this one can be represented exactly as a float.
MOST_COUNT = 2**53
# Not allowed in names: control characters, which break logs and terminals, and lone surrogates, which are not UTF-8.
_NOT_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def number(name: str, value: Any, *, low: float, strict: bool = False, high: float = np.inf) -> float:
    """Check a finite real number: at least low (above low if strict) and at most high."""
    if not isfinite(low):
        rule = "must be a finite number"
    elif not isfinite(high):
        rule = f"must be a number {'above' if strict else 'of at least'} {low:g}"
    else:
        rule = f"must be a number {f'above {low:g} and at most' if strict else f'from {low:g} to'} {high:g}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} {rule}, got {short(value)}")
    try:
        checked = float(value)
    except OverflowError:  # a whole number too large for a float
        checked = np.inf
    if not isfinite(checked) or checked < low or (strict and checked == low) or checked > high:
        raise ValueError(f"{name} {rule}, got {value!r}")
    return checked


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Check a whole number from low to high."""
    rule = f"must be a whole number {f'of at least {low}' if high is None else f'from {low} to {high}'}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} {rule}, got {short(value)}")
    checked = int(value)
    if checked < low or (high is not None and checked > high):
        raise ValueError(f"{name} {rule}, got {value!r}")
    return checked


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Check that value is one of the allowed strings."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {short(value)}")
    return value


def text_name(name: str, value: Any, longest: int = 256) -> str:
    """Check the name of an item, topic or user: text that is safe in any file, database or URL."""
    if isinstance(value, str) and 0 < len(value) <= longest and _NOT_IN_NAMES.search(value) is None:
        return value
    rule = f"must be text of 1 to {longest} characters, without control characters or lone surrogates"
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{name} {rule}, got {short(value)}")


def path_name(name: str, value: Any) -> str:
    """Check a name that becomes a part of URLs, such as that of a user."""
    text = text_name(name, value)
    if "/" in text or text in (".", ".."):
        raise ValueError(f"{name} must not contain '/' and must not be '.' or '..', got {short(text)}")
    return text


def flag(name: str, value: Any) -> bool:
    """Check that value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {short(value)}")
    return value


def list_length(owner: str, K: Any, items: int) -> int:
    """Check K, the length of a list: between 1 and the number of items."""
    try:
        return integer(f"K of {owner}", K, low=1, high=items)
    except ValueError:
        raise ValueError(f"K of {owner} must be between 1 and the number of items ({items}), got {K!r}") from None


def instance(name: str, value: Any, kind: type[Any]) -> Any:
    """Check that value is an instance of this class."""
    if not isinstance(value, kind):
        public = "thali.datasets" if kind.__module__.startswith("thali.datasets.") else "thali"
        raise TypeError(f"{name} must be a {public}.{kind.__name__}, got {short(value)}")
    return value


def sequence(name: str, values: Any) -> list[Any]:
    """Return a sequence as a list. Strings, sets (which have no order), dicts and single values are rejected."""
    if isinstance(values, str | bytes | set | frozenset | dict) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence, got {short(values)}")
    return list(values)


def floats(name: str, values: Any, shape: tuple[int | None, ...], meaning: str) -> Floats:
    """Check numbers and return them as a contiguous float64 array. All must be finite.

    shape: the required shape, with None for an axis of any length. meaning: what the axes are, such as "(users, d)".
    """
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
    """Return an array with one of these dtype kinds. Masked and ragged arrays, strings and objects are rejected."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be an array of {what}, got rows of different lengths") from None
    if array.dtype.kind not in kinds or isinstance(values, np.ma.MaskedArray):
        received = (
            "a masked array" if isinstance(values, np.ma.MaskedArray) else f"{type(values).__name__} of {array.dtype}"
        )
        raise TypeError(f"{name} must be an array of {what}, got {received}")
    return array


def read_only(array: Floats) -> Floats:
    """Return a read-only copy, so that a checked array cannot change later."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def within(name: str, array: Floats, low: float, high: float) -> Floats:
    """Check that all entries are from low to high and none is NaN."""
    if array.size and not (array.min() >= low and array.max() <= high):
        wrong = array[~((array >= low) & (array <= high))][0]
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got {float(wrong)!r}")
    return array


def preferences(name: str, theta: Any, d: int) -> Floats:
    """Check θ (users, d): non-negative with ‖θ‖₁ ≤ 1, as in the paper, so that attraction is a probability."""
    array = floats(name, theta, (None, d), "(users, d)")
    if array.size and array.min() < 0.0:
        raise ValueError(f"{name} must not be negative, got {array.min()}")
    totals = array.sum(axis=1)
    if totals.size and totals.max() > 1.0 + 1e-9:
        raise ValueError(f"{name} must sum to at most 1 for each user, got {totals.max()}")
    return array


def item_lists(name: str, lists: Any, users: int | None, L: int, K: int | None = None) -> Integers:
    """Check lists (users, K) of distinct item numbers, and return them as int64. users, K: None for any length."""
    array = _array(name, lists, "iu", "item numbers (users, K)")
    users = len(array) if users is None and array.ndim else users
    if array.ndim != 2 or array.shape[0] != users or (K is not None and array.shape[1] != K) or not array.shape[1]:
        raise ValueError(f"{name} must have shape (users, K) = ({users}, {K or 'any'}), got {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    bad = first_bad_list(array, L)
    if bad >= 0:
        raise ValueError(
            f"{name} must contain distinct item numbers from 0 to {L - 1} in each row, got {array[bad].tolist()}"
        )
    return array


def click_matrix(name: str, clicks: Any, users: int, K: int) -> Booleans:
    """Check clicks: a boolean array (users, K)."""
    return booleans(name, clicks, (users, K), "(users, K)", "one for each position")


def booleans(name: str, values: Any, shape: tuple[int | None, ...], meaning: str, each: str) -> Booleans:
    """Check booleans and return them as a contiguous array. shape, meaning: as in :func:`floats`."""
    array = _array(name, values, "b", f"booleans, {each}")
    if array.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
        wanted = str(shape).replace("None", "any")
        raise ValueError(f"{name} must have shape {meaning} = {wanted}, got {array.shape}")
    return np.ascontiguousarray(array)


def counts(name: str, values: Any, users: int) -> Integers:
    """Check one whole number of at least 0 for each user, and return them as int64 (users,)."""
    array = _array(name, values, "iu", "whole numbers (users,)")
    if array.shape != (users,):
        raise ValueError(f"{name} must have shape (users,) = ({users},), got {array.shape}")
    if array.min() < 0 or array.max() > MOST_COUNT:
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"{name} must be from 0 to {MOST_COUNT}, got {wrong}")
    return array.astype(np.int64)


def writable(array: Floats) -> Floats:
    """Return the array, or a copy if it is read-only. Numba would compile a kernel again for read-only arrays."""
    return array if array.flags.writeable else array.copy()


# These are compiled because they run at every step.


@kernel
def finite(array: Floats) -> bool:
    """Return whether every entry of array (n,) is finite."""
    wrong = 0
    for x in array:
        wrong += not isfinite(x)
    return wrong == 0


@kernel
def first_bad_list(lists: Integers, L: int) -> int:
    """Return the first row of lists (users, K) with an item outside [0, L) or a repeated item, or -1. O(K²) per row."""
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
