"""Named random streams from one seed, so that every policy meets the same people and the same luck in any batch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any
from zlib import crc32

import numpy as np

from thali.tools import checks
from thali.tools.types import Floats

Generators = Sequence[np.random.Generator]


def stream(seed: int, name: str, *numbers: int) -> np.random.Generator:
    """The generator with this name, for something drawn once (or once for each combination of numbers)."""
    seed = checks.integer("seed", seed, low=0)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(name.encode()), *numbers)))


def streams(seed: int, name: str, people: Sequence[int]) -> list[np.random.Generator]:
    """One generator for each person. It depends only on the seed, the name and the person's number."""
    return [stream(seed, name, person) for person in people]


def generators(name: str, rng: Any, users: int) -> Generators:
    """One generator for each user: as given, or spawned from a seed or from one generator."""
    if isinstance(rng, Integral) and not isinstance(rng, bool):
        return streams(int(rng), "policy", range(users))
    if isinstance(rng, np.random.Generator):
        return rng.spawn(users)
    if isinstance(rng, Sequence) and len(rng) == users and all(isinstance(g, np.random.Generator) for g in rng):
        return rng
    raise TypeError(f"{name} must be a seed, a numpy.random.Generator, or one for each of {users} users, got {rng!r}")


def uniforms(rng: Any, users: int, K: int) -> Floats:
    """Uniform numbers (users, K) from one generator, or row by row from one generator for each user."""
    if isinstance(rng, np.random.Generator):
        return rng.random((users, K))
    return np.stack([generator.random(K) for generator in generators("rng", rng, users)])
