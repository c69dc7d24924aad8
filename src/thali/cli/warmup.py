"""``thali warmup``: compile everything ahead of time."""

from __future__ import annotations


def warmup() -> None:
    """Compile everything ahead of time, for instance while an image is built; run it as the user who will run thali."""
    from thali.cli.compile_all import compile_all

    done = compile_all()
    if done.compiled:
        outcome = f"compiled for {done.compiled} combinations of types in {done.seconds:.1f} s, kept in {done.folder}"
    else:
        outcome = f"all there already, loaded in {done.seconds:.1f} s from {done.folder}"
    print(f"{done.kernels} kernels, {outcome}")
