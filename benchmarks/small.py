"""Compare the time per list of the search engine and of the plain loop, for small catalogs."""

from __future__ import annotations

import time

import numpy as np

import thali
from thali.lists import engine, plain

USERS, REPEATS = 20, 15


def main() -> None:
    """Check that both build the same lists, measure them alternately, and print a table."""
    rng = np.random.default_rng(0)
    print("| d, K | items | plain: µs per list | engine: µs per list | plain/engine |\n|---|---|---|---|---|")
    for d, K in ((5, 4), (18, 10)):
        for L in (10, 20, 30, 40, 50, 70, 100, 1000):
            weights = np.where(rng.random((L, d)) < 2 / d, 0.5 * rng.random((L, d)), 0.0)
            policy = thali.CascadeLSB(thali.Catalog(weights), K)
            people = thali.DiverseCascade(policy.catalog, rng.dirichlet(np.ones(d), USERS))
            state = thali.simulate(policy, people, steps=30).state
            beliefs = policy.catalog, policy.estimate(state), policy.posterior(state).inverse, policy.optimism(state)
            np.testing.assert_array_equal(plain.build(*beliefs, K=K), engine.build(*beliefs, K=K))
            taken: dict[str, list[float]] = {"plain": [], "engine": []}
            for _ in range(REPEATS):
                for name, build in (("plain", plain.build), ("engine", engine.build)):
                    begin = time.perf_counter()
                    for _ in range(10):
                        build(*beliefs, K=K)
                    taken[name].append((time.perf_counter() - begin) / 10 / USERS)
            slow, fast = (1e6 * float(np.median(taken[name])) for name in ("plain", "engine"))
            print(f"| {d}, {K} | {L:,} | {slow:.2f} | {fast:.2f} | {slow / fast:.2f} |", flush=True)


if __name__ == "__main__":
    main()
