"""``thali warmup``: compile everything ahead of time."""

from __future__ import annotations


def warmup() -> None:
    """Compile everything ahead of time, for instance while an image is built; run it as the user who will run thali."""
    from thali.cli.compile_all import compile_all

    made = compile_all()
    if made.compiled:
        told = f"compiled for {made.compiled} combinations of types in {made.seconds:.1f} s, kept in {made.folder}"
    else:
        told = f"all there already, loaded in {made.seconds:.1f} s from {made.folder}"
    print(f"{made.kernels} kernels, {told}")
