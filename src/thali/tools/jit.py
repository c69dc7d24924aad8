"""The one way a kernel is compiled."""

import re
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# A file whose code becomes part of compiled kernels: it imports Numba, or this module.
_HOLDS_KERNELS = re.compile(rb"^(from|import) (numba|thali\.tools\.jit)\b", re.MULTILINE)


def kernel_files() -> list[Path]:
    """Every file of the package that holds code for kernels, wherever it lies."""
    package = Path(__file__).parents[1]
    return [path for path in sorted(package.rglob("*.py")) if _HOLDS_KERNELS.search(path.read_bytes())]


# Numba keeps a compiled function until the file that defines it changes. But a kernel contains code from other files
# too, so the name under which it is kept contains a digest of all of them. tests/tools/test_jit.py checks that kernels
# use nothing from any other file.
DIGEST = sha256(b"".join(path.read_bytes() for path in kernel_files())).hexdigest()[:12]


def kernel(function: F) -> F:
    """Compile on first use, keep the result on disk, and release the GIL while running.

    Arithmetic is IEEE's as written: dividing by 0 is not an error, so loops with a division can be vectorised.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """A kernel that is inlined into the kernels that call it.

    It must not allocate arrays, and it does not count references to those it is given: that would cost more than the
    work itself. Python cannot call it: the wrapper for that would take a fifth of the time to compile.
    """
    return _compiled(function, forceinline=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: F, **more: Any) -> F:
    function.__qualname__ = f"{function.__qualname__}_{DIGEST}"
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
    """Warn once a process that neither the package's folder nor the user's cache folder can be written."""
    warnings.warn(
        "thali found no folder to keep compiled code in, so every process compiles again: set the environment variable "
        "NUMBA_CACHE_DIR to a folder that can be written, and fill it ahead of time with 'thali warmup'",
        RuntimeWarning,
        stacklevel=2,
    )
