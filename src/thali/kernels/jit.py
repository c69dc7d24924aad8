"""The one way a kernel is compiled."""

import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Numba keeps compiled code until the file of the function changes, but kernels contain code of one another's files.
# So the names under which they are kept change with any of the files.
SOURCES = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()[:12]


def kernel(function: F) -> F:
    """Compile on first use, keep the result on disk, release the GIL while running; IEEE arithmetic as written, so
    that dividing by 0 is not an error (and loops with a division can be vectorised).
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """A kernel that becomes part of the kernels that call it.

    It makes no arrays, and does not count references to those it is given: that would cost more than the work. Python
    cannot call it: what that needs would take a fifth of the time of compiling.
    """
    return _compiled(function, forceinline=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: F, **more: Any) -> F:
    function.__qualname__ = f"{function.__qualname__}_{SOURCES}"
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **more}
    try:
        return cast(F, njit(cache=True, **options)(function))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_not_kept()
        return cast(F, njit(**options)(function))


@cache
def _warn_not_kept() -> None:
    """Once a process: neither the package's folder nor the user's cache folder can be written."""
    warnings.warn(
        "thali compiles in memory, anew in each process, as it finds no folder to keep compiled code in: set the "
        "environment variable NUMBA_CACHE_DIR to one that can be written, and fill it ahead of time by 'thali warmup'",
        RuntimeWarning,
        stacklevel=2,
    )
