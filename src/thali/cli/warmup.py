"""``thali warmup``: compile all code ahead of time."""

from __future__ import annotations


def warmup() -> None:
    """Compile all code ahead of time.

    Otherwise, thali compiles what it needs on first use, which takes about a minute. Run this command when you build a
    Docker image, for example, as the user who will run thali. The compiled code is stored in $NUMBA_CACHE_DIR if that
    is set, else in the package's folder, or in the user's cache folder if the package's folder cannot be written.
    """
    from thali.cli.compile_all import compile_all

    done = compile_all()
    if done.compiled:
        outcome = f"compiled for {done.compiled} combinations of types in {done.seconds:.1f} s, stored in {done.folder}"
    else:
        outcome = f"all compiled already, loaded in {done.seconds:.1f} s from {done.folder}"
    print(f"{done.kernels} kernels, {outcome}")
