"""One seed in, named streams out: every policy meets the same people and the same luck, in any batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from thali import checks
from thali.types import Floats

Generators = Sequence[np.random.Generator]


def streams(seed: int, name: str, people: Sequence[int]) -> list[np.random.Generator]:
    """One generator for each person, which depends on the seed, the name and the person's number only."""
    seed = checks.integer("seed", seed, low=0)
    tag = crc32(name.encode())
    return [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(tag, person))) for person in people]


def uniforms(rng: Any, users: int, K: int) -> Floats:
    """Uniform numbers (users, K) from one generator, or row by row from a sequence of one generator a user."""
    if isinstance(rng, np.random.Generator):
        return rng.random((users, K))
    if isinstance(rng, Sequence) and len(rng) == users and all(isinstance(g, np.random.Generator) for g in rng):
        return np.stack([generator.random(K) for generator in rng])
    raise TypeError(f"rng must be a numpy.random.Generator, or one for each of {users} users, got {type(rng).__name__}")
