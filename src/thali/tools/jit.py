"""How kernels are compiled."""

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
    """Every file of the package that contains kernel code."""
    package = Path(__file__).parents[1]
    return [path for path in sorted(package.rglob("*.py")) if _HOLDS_KERNELS.search(path.read_bytes())]


# Numba caches a compiled function until the file that defines it changes. But a kernel contains code from other files
# too, so the name under which it is cached contains a digest of all of them. tests/tools/test_jit.py checks that
# kernels use nothing from any other file.
DIGEST = sha256(b"".join(path.read_bytes() for path in kernel_files())).hexdigest()[:12]


def kernel(function: F) -> F:
    """Compile on first use, cache the result on disk, and release the GIL while running.

    Arithmetic is strict IEEE, in the order written. Division by 0 is not an error, so loops with a division can be
    vectorised.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """Compile a kernel that is inlined into the kernels that call it.

    It must not allocate arrays, and it does not count references to its arguments: that would cost more than the work
    itself. Python cannot call it, because compiling the wrapper would take a fifth of the compile time.
    """
    return _compiled(function, forceinline=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: F, **extra: Any) -> F:
    function.__qualname__ = f"{function.__qualname__}_{DIGEST}"
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **extra}
    try:
        return cast(F, njit(cache=True, **options)(function))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_not_cached()
        return cast(F, njit(**options)(function))


@cache
def _warn_not_cached() -> None:
    """Warn once per process that neither the package's folder nor the user's cache folder is writable."""
    warnings.warn(
        "thali found no folder to keep compiled code in, so every process compiles again: set the environment variable "
        "NUMBA_CACHE_DIR to a folder that can be written, and fill it ahead of time with 'thali warmup'",
        RuntimeWarning,
        stacklevel=2,
    )
