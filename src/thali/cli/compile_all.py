"""Compile every kernel ahead of time, for ``thali warmup``.

Numba compiles a function for the types of its arguments when it is first called. So the only sure way to compile
everything that the library will need is to use the library: a tiny problem runs all code that calls a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numba.extending import is_jitted

import thali
from thali.catalog.catalog import Catalog
from thali.datasets.estimation import preferences
from thali.datasets.interactions import Interactions
from thali.lab.rivals import KnownLikes, Popular, StaticDiverse
from thali.lab.simulate import simulate
from thali.lists import engine, greedy_lists, optimal_list, plain
from thali.lists.greedy import under
from thali.people import (
    Cascade,
    ClickModel,
    DependentClick,
    DiverseCascade,
    DynamicBayesian,
    LinearSubmodular,
    NoisyCascade,
    PositionBased,
)
from thali.policies import POLICIES, CascadeLSB
from thali.policies.linear import batches
from thali.service.recommender import Recommender
from thali.tools.jit import DIGEST, kernel_files
from thali.tools.types import Floats, Integers


@dataclass(frozen=True)
class Compilation:
    """The result of :func:`compile_all`."""

    kernels: int
    """The number of kernels that Python code calls."""
    compiled: int
    """The number of compilations, one for each kernel and combination of types; 0 if all were cached already."""
    seconds: float
    """The time it took."""
    folder: Path
    """Where compiled code is cached."""


def compile_all() -> Compilation:
    """Compile or load every kernel for the types that the library uses. Cost: see docs/first-use.md.

    Two processes share the work: one compiles the search engine, and this one everything else.
    """
    functions = kernels()
    if not functions:
        raise RuntimeError("NUMBA_DISABLE_JIT must not be set for 'thali warmup', because it turns compilation off")
    folders = [function.stats.cache_path for function in functions if function.stats.cache_path is not None]
    if not folders:
        raise RuntimeError("NUMBA_CACHE_DIR must name a folder that can be written, to store compiled code")
    begin, before = perf_counter(), _stored(folders)
    engine.CODE.compile_in_background()
    use_everything()
    engine.CODE.wait()
    for code in (engine.CODE, batches.CODE):
        code.compile_and_store()  # if another process has stored it, this only loads it
    return Compilation(len(folders), _stored(folders) - before, perf_counter() - begin, Path(folders[0]))


def kernels() -> list[Any]:
    """Return all compiled functions of the package, including inlined ones."""
    package = Path(thali.__file__).parent
    names = [".".join(("thali", *file.relative_to(package).with_suffix("").parts)) for file in kernel_files()]
    return [
        function
        for name in names
        for function in vars(import_module(name)).values()
        if is_jitted(function) and function.py_func.__module__ == name
    ]


def use_everything() -> None:
    """Run all code that calls a kernel. Add a line here for each new kernel and each new way to call one.

    The size of arrays does not matter. Their types matter, and whether they are read-only.
    """
    interactions = Interactions.of(
        [("ana", "Heat", 1.0), ("ana", "Fargo", 1.0), ("bob", "Heat", 1.0), ("bob", "Ronin", 1.0)],
        {"Heat": ["crime"], "Fargo": ["crime", "comedy"], "Ronin": ["crime"]},
    )
    theta = preferences(interactions)
    K = 2
    for coverage in ("probabilistic", "max", _OwnCoverage()):
        catalog = Catalog.estimate(interactions, coverage=coverage)
        person = DiverseCascade(catalog, theta)
        for known in (theta, person.theta):  # one writable, one read-only
            greedy_lists(catalog, known, K)
            under(known, catalog, K, build=plain.build)
            optimal_list(catalog, known[0], K)
        models: tuple[ClickModel, ...] = (
            person,
            LinearSubmodular(catalog, theta),
            Cascade(np.full((len(theta), catalog.L), 0.5)),
            Cascade.of_topics(catalog, theta),
            DependentClick(catalog, theta, going_on=0.5),
            DependentClick(catalog, theta, going_on=[0.5, 0.4]),
            DynamicBayesian(catalog, theta, satisfaction=0.5),
            PositionBased(catalog, theta, examined=[1.0, 0.5]),
            NoisyCascade(catalog, theta, extra=0.1, skip=0.1),
        )
        for make in POLICIES.values():
            policy = make(catalog, K)
            for model in models:
                simulate(policy, model, steps=2)
            state = policy.init(len(theta))
            lists = policy.recommend(state, rng=0)
            clicks = person.sample(lists, np.random.default_rng(0))
            policy.update(state, lists, clicks)
            policy.update(state, lists, clicks, policy.gains(lists))  # as for late clicks
            state.put([0], state.take([1]))
            policy.recommend(state, rng=0, exclude=[0])
            policy.recommend(state, rng=0, candidates=[[0, 1], [1, 2]])
        serve(catalog, K)
    likes = KnownLikes(interactions)
    for rival in (Popular(likes.catalog, K, likes, skipping=True), StaticDiverse(likes.catalog, K, likes)):
        simulate(rival, Cascade(np.full((2, likes.catalog.L), 0.5)), steps=2)
        rival.recommend(rival.init(2), exclude=[[0], [1]])


def serve(catalog: Catalog, K: int) -> None:
    """Run the code that the service runs for a user."""
    with TemporaryDirectory() as folder, Recommender(CascadeLSB(catalog, K), f"sqlite:///{folder}/taste.db") as service:
        for _ in range(2):
            service.feedback(service.recommend("ana").id, clicked=[0])
        service.user("ana")


class _OwnCoverage:
    """A coverage of the user's own, which takes another path through the code."""

    def coverage(self, items: Integers, weights: Floats) -> Floats:
        """Return the largest weight of each topic, computed by NumPy."""
        return np.asarray(weights.max(axis=0, initial=0.0))


def _stored(folders: list[str]) -> int:
    """Return the number of compilations that are stored."""
    return sum(len(list(Path(folder).glob(f"*_{DIGEST}-*.nbc"))) for folder in set(folders))
