"""Named random streams from one seed.

With these, every policy in a comparison gets the same people and the same random numbers, in any batch of people.
"""

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
    """Return the random generator with this name and these numbers."""
    seed = checks.integer("seed", seed, low=0)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(name.encode()), *numbers)))


def streams(seed: int, name: str, people: Sequence[int]) -> list[np.random.Generator]:
    """Return one generator for each person. It depends only on the seed, the name and the person's number."""
    return [stream(seed, name, person) for person in people]


def generators(name: str, rng: Any, users: int) -> Generators:
    """Return one generator for each user: those given, or new ones that are made from a seed or from one generator."""
    if isinstance(rng, Integral) and not isinstance(rng, bool):
        return streams(int(rng), "policy", range(users))
    if isinstance(rng, np.random.Generator):
        return rng.spawn(users)
    if isinstance(rng, Sequence) and len(rng) == users and all(isinstance(g, np.random.Generator) for g in rng):
        return rng
    raise TypeError(
        f"{name} must be a seed, a numpy.random.Generator, or one for each of the {users} users, got {rng!r}"
    )


def draw_uniforms(rng: Any, users: int, K: int) -> Floats:
    """Draw uniform random numbers (users, K) from one generator, or each row from the generator of its user."""
    if isinstance(rng, np.random.Generator):
        return rng.random((users, K))
    return np.stack([generator.random(K) for generator in generators("rng", rng, users)])
