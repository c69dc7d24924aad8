"""The one way a kernel is compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first use, keep the result on disk, release the GIL while running; IEEE arithmetic as written."""
    return cast(F, njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """A kernel that becomes part of the kernels that call it: passing arrays costs more than these functions do."""
    return cast(F, njit(cache=True, nogil=True, forceinline=True)(function))
