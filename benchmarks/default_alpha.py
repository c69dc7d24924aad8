"""Compare possible values of the default α, and of σ for Thompson sampling: the tables of docs/default-alpha.md.

This program measures the final regret of CascadeLSB for a range of α·σ, and with Thompson sampling for a range of σ, on
the paper's synthetic problem and on generated ones. It also shows the share of people for whom CascadeLSB is stuck on a
list that is not the best.

`make alpha` prints the tables, which takes over an hour on one core. For a quick look, use --users 4 --steps 2000.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import thali
from thali.lab.compare import standard_error
from thali.lab.problems import Problem, generated, synthetic
from thali.policies.linear.policy import DEFAULT_OPTIMISM

OPTIMISM: tuple[float | str, ...] = (0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 4.0, "theory")
SIGMAS = (0.03, 0.1, 0.3, 1.0)
NOISE = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
SIZES = (
    (100, 3, 2, 0.5),
    (100, 5, 4, 0.5),
    (200, 10, 4, 1.0),
    (200, 10, 8, 0.2),
    (300, 18, 12, 0.3),
    (300, 18, 4, 0.1),
)


def settings_for(product: float | str, sigma: float, steps: int) -> dict[str, Any]:
    """Return the settings of a policy with this α·σ, or with the α of theory."""
    alpha = product if isinstance(product, str) else product / sigma
    return {"sigma": sigma, "alpha": alpha, "horizon": steps}


def measure(draws: list[Problem], steps: int, settings: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the final regret of all people of all draws of a problem, and whether each person is stuck.

    A person is stuck if the list does not change in the second half of the run, although it loses more than 1% of the
    best list's click probability.
    """
    regret, stuck = [], []
    for seed, problem in enumerate(draws):
        policy = thali.CascadeLSB(problem.catalog, problem.K, **settings)
        run = thali.simulate(policy, problem.model, steps=steps, seed=seed, points=100)
        regret.append(run.regret[:, -1])
        unchanged = (run.lists[:, 50:] == run.lists[:, -1:]).all(axis=(1, 2))
        stuck.append(unchanged & (run.last_loss > 0.01 * run.best))
    return np.concatenate(regret), np.concatenate(stuck)


def row(name: str, cells: list[str]) -> None:
    """Print one row of a table as soon as it is measured."""
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def by_optimism(problems: list[list[Problem]], steps: int) -> None:
    """Print the first table: which α·σ?"""
    print(f"Mean final regret after {steps} steps at σ=0.1, ± standard error (share of people stuck)\n")
    heads = [f"α·σ = {a}" if a != "theory" else "theory" for a in OPTIMISM]
    compare(problems, steps, dict(zip(heads, [settings_for(a, 0.1, steps) for a in OPTIMISM], strict=True)))


def by_noise(problems: list[list[Problem]], steps: int) -> None:
    """Print the third table: which σ for Thompson sampling?"""
    print(f"\nThompson sampling: mean final regret after {steps} steps, ± standard error (share of people stuck)\n")
    compare(problems, steps, {f"σ = {sigma}": {"explore": "sampling", "sigma": sigma} for sigma in NOISE})


def compare(problems: list[list[Problem]], steps: int, columns: dict[str, dict[str, Any]]) -> None:
    """Print a table of problems (rows) and settings (columns), and how each setting compares with the best of a row."""
    row("problem", list(columns))
    row("---", ["---"] * len(columns))
    regret = np.empty((len(problems), len(columns)))
    for i, draws in enumerate(problems):
        cells = []
        for j, settings in enumerate(columns.values()):
            final, stuck = measure(draws, steps, settings)
            regret[i, j] = final.mean()
            cells.append(f"{final.mean():.3g} ± {standard_error(final):.2g} ({stuck.mean():.0%})")
        row(draws[0].name, cells)
    ratio = regret / regret.min(axis=1, keepdims=True)
    row("worst ratio to the best of the row", [f"{x:.2f}" for x in ratio.max(axis=0)])
    row("geometric mean of that ratio", [f"{x:.2f}" for x in np.exp(np.log(ratio).mean(axis=0))])


def by_sigma(problems: list[list[Problem]], steps: int) -> None:
    """Print the second table: does the default α·σ suit other σ too? Uses the first draw of each problem."""
    print(f"\nThe default α·σ = {DEFAULT_OPTIMISM} at other values of σ: mean final regret ± standard error\n")
    row("problem", [f"σ = {sigma}" for sigma in SIGMAS])
    row("---", ["---"] * len(SIGMAS))
    for draws in problems:
        finals = [measure(draws[:1], steps, settings_for(DEFAULT_OPTIMISM, sigma, steps))[0] for sigma in SIGMAS]
        row(draws[0].name, [f"{final.mean():.3g} ± {standard_error(final):.2g}" for final in finals])


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--users", type=int, default=25, help="Number of people in each draw of a problem (default: 25)."
    )
    options.add_argument("--draws", type=int, default=4, help="Number of random draws of each problem (default: 4).")
    options.add_argument(
        "--steps", type=int, default=20_000, help="Number of lists shown to each person (default: 20000)."
    )
    options.add_argument(
        "--table", choices=("optimism", "sigma", "noise", "all"), default="all", help="Table to print (default: all)."
    )
    given = options.parse_args()
    problems = [[synthetic(given.users) for _ in range(given.draws)]]
    for L, d, K, top in SIZES:
        problems.append([generated(L, d, K, top=top, users=given.users, seed=seed) for seed in range(given.draws)])
    for name, make in (("optimism", by_optimism), ("sigma", by_sigma), ("noise", by_noise)):
        if given.table in (name, "all"):
            make(problems, given.steps)


if __name__ == "__main__":
    main()
