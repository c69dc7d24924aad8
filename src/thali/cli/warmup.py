"""``thali warmup``: compile all code ahead of time."""

from __future__ import annotations


def warmup() -> None:
    """Compile all code ahead of time.

    Without this command, thali compiles what it needs on first use, and builds lists with slower code until its fast
    code has been compiled in the background. Run it, for example, when you build a Docker image. Run it as the same
    user who will later run thali.

    Compiled code is stored in $NUMBA_CACHE_DIR if this variable is set. Otherwise it is stored in the package's folder,
    or in the user's cache folder if the package's folder is not writable.
    """
    from thali.cli.compile_all import compile_all

    done = compile_all()
    if done.compiled:
        outcome = f"compiled for {done.compiled} combinations of types in {done.seconds:.1f} s, stored in {done.folder}"
    else:
        outcome = f"all compiled already, loaded in {done.seconds:.1f} s from {done.folder}"
    print(f"{done.kernels} kernels, {outcome}. thali uses its fast code from the first list on.")
