"""How much optimism by default? Final regret of CascadeLSB for a range of α·σ, on the paper's synthetic problem and on
generated ones, with the share of people on whom it stays on a worse list.

make alpha prints the table in docs/decisions.md, in about 25 minutes on one core; --users 20 --steps 2000 is a look.
"""

from __future__ import annotations

import argparse

import numpy as np

import thali
from thali.experiments.problems import Problem, generated, synthetic

OPTIMISM: tuple[float | str, ...] = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 4.0, "theory")
SIZES = (
    (100, 3, 2, 0.5),
    (100, 5, 4, 0.5),
    (200, 10, 4, 1.0),
    (200, 10, 8, 0.2),
    (300, 18, 12, 0.3),
    (300, 18, 4, 0.1),
)


def measure(
    problem: Problem, optimism: float | str, sigma: float, steps: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Final regret of each person, and whether they still lose over 1% of the best list's clicks in the last tenth."""
    alpha = optimism if isinstance(optimism, str) else optimism / sigma
    policy = thali.CascadeLSB(problem.catalog, problem.K, sigma=sigma, alpha=alpha, horizon=steps)
    run = thali.simulate(policy, problem.model, steps=steps, seed=seed, points=50)
    return run.regret[:, -1], run.slope() > 0.01 * run.best


def row(name: str, cells: list[str]) -> None:
    """One line of the table, as it is known."""
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--users", type=int, default=60, help="people on each problem")
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    problems = [synthetic(given.users)]
    problems += [generated(L, d, K, top=top, users=given.users, seed=L + d + K) for L, d, K, top in SIZES]

    print(
        f"Mean final regret after {given.steps} steps, {given.users} people, σ=0.1 (in brackets: share still losing)\n"
    )
    row("problem", [f"α·σ = {a}" if a != "theory" else "theory" for a in OPTIMISM])
    row("---", ["---"] * len(OPTIMISM))
    regret = np.empty((len(problems), len(OPTIMISM)))
    for i, problem in enumerate(problems):
        cells = []
        for j, optimism in enumerate(OPTIMISM):
            final, losing = measure(problem, optimism, 0.1, given.steps, given.seed)
            regret[i, j] = final.mean()
            cells.append(f"{final.mean():.4g} ± {final.std(ddof=1) / np.sqrt(final.size):.2g} ({losing.mean():.0%})")
        row(problem.name, cells)
    ratio = regret / regret.min(axis=1, keepdims=True)
    row("worst over the best of its row", [f"{x:.2f}" for x in ratio.max(axis=0)])
    row("geometric mean over the best", [f"{x:.2f}" for x in np.exp(np.log(ratio).mean(axis=0))])

    sigmas = (0.03, 0.1, 0.3, 1.0)
    print("\nThe same α·σ = 0.8 at other σ\n")
    row("problem", [f"σ = {sigma}" for sigma in sigmas])
    row("---", ["---"] * len(sigmas))
    for problem in problems:
        means = [measure(problem, 0.8, sigma, given.steps, given.seed)[0].mean() for sigma in sigmas]
        row(problem.name, [f"{x:.4g}" for x in means])


if __name__ == "__main__":
    main()
