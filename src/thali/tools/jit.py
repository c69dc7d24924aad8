"""Decorators that compile kernels with Numba."""

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from llvmlite import binding
from numba import __version__ as numba_version
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Matches a file whose code becomes part of compiled kernels: it imports Numba or this module.
_HOLDS_KERNELS = re.compile(rb"^(from|import) (numba|thali\.tools\.jit)\b", re.MULTILINE)


@cache
def kernel_files() -> list[Path]:
    """Return every file of the package that contains kernel code."""
    package = Path(__file__).parents[1]
    return [path for path in sorted(package.rglob("*.py")) if _HOLDS_KERNELS.search(path.read_bytes())]


# Numba caches a compiled function until the file that defines it changes. But a kernel also contains code from other
# files, so the name under which it is cached contains a digest of all kernel files. tests/tools/test_jit.py checks that
# kernels do not use code from any other file.
DIGEST = sha256(b"".join(path.read_bytes() for path in kernel_files())).hexdigest()[:12]


def version() -> str:
    """Return a digest that changes whenever Numba would compile stored kernels again."""
    files = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in kernel_files()]
    processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return sha256(repr((DIGEST, files, processor, numba_version, sys.version)).encode()).hexdigest()[:16]


def is_stored(kernel: Any) -> bool:
    """Return whether compiled code of this kernel is on disk."""
    folder = kernel.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"*.{kernel.py_func.__qualname__}-*.nbi"))


def kernel(function: F) -> F:
    """Compile a function on first use, cache the result on disk, and release the GIL while the function runs.

    Arithmetic follows the IEEE standard, in the order written. Division by 0 is not an error, so loops with a division
    can be vectorized.
    """
    function.__qualname__ = f"{function.__qualname__}_{DIGEST}"
    options = {**_OPTIONS, "no_cfunc_wrapper": True}
    try:
        return cast(F, njit(cache=True, **options)(function))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_not_cached()
        return cast(F, njit(**options)(function))


def inlined(function: F) -> F:
    """Compile a kernel that is inlined into the kernels that call it. It must keep the rules of :func:`called`."""
    return cast(F, njit(forceinline=True, **_CALLED)(function))


def called(function: F) -> F:
    """Compile a kernel that only other kernels call.

    It must not allocate arrays. It does not count references to its arguments, because that would take longer than the
    computation itself. Python code cannot call it, because the wrapper for that would take a fifth of the compile time.
    It is not stored, because the kernels that call it contain it.
    """
    return cast(F, njit(**_CALLED)(function))


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_CALLED = {**_OPTIONS, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def _warn_not_cached() -> None:
    """Warn once per process that neither the package's folder nor the user's cache folder is writable."""
    warnings.warn(
        "thali found no writable folder for compiled code, so every process must compile it again. Set the environment "
        "variable NUMBA_CACHE_DIR to a writable folder, and run 'thali warmup' once to fill it",
        RuntimeWarning,
        stacklevel=2,
    )
