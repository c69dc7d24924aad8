"""Measure the paper's theorems and lemmas, and print the tables of docs/theory.md.

``make theory`` takes about 10 minutes on one core. For a quick look, use ``--scale 0.1``.
"""

from __future__ import annotations

import argparse

import numpy as np

import thali
from thali import theory
from thali.lab.problems import generated, synthetic
from thali.lab.theorems import follow, greedy_ratio


def header(*names: str) -> None:
    """Print the header of a Markdown table."""
    print(f"| {' | '.join(names)} |\n" + "|---" * len(names) + "|")


def theorem_1(rng: np.random.Generator, instances: int) -> None:
    """Compare greedy lists with the exact optimum."""
    print(f"\nTheorem 1: the ratio f(greedy)/f(optimum) on {instances} random instances per row (L=10, d=4)\n")
    header("coverage", "K", "smallest ratio", "mean ratio", "smallest ratio/γ", "instances below γ")
    for coverage in ("probabilistic", "max"):
        for K in (1, 2, 3, 4):
            pairs = []
            for _ in range(instances):
                weights = rng.random((10, 4)) * (rng.random((10, 4)) < 0.6)
                pairs.append(greedy_ratio(thali.Catalog(weights, coverage=coverage), rng.dirichlet(np.ones(4)), K))
            ratio, gamma = np.array(pairs).T
            below = int((ratio < gamma - 1e-12).sum())
            print(
                f"| {coverage} | {K} | {ratio.min():.4f} | {ratio.mean():.4f} | {(ratio / gamma).min():.2f} | {below} |"
            )


def theorem_2(users: int) -> None:
    """Compare scaled regret with the bound, at the α that the theorem requires."""
    print(f"\nTheorem 2 and Lemma 2 at the theoretical α: means over {users} people (sum of widths: the maximum)\n")
    header("problem", "σ", "n", "γ-scaled regret", "its bound", "regret (γ=1)", "sum of widths", "its bound")
    for sigma in (0.1, 1.0):
        for problem in (synthetic(users), generated(30, 4, 3, top=0.5, users=users, seed=1)):
            for n in (500, 5_000):
                d, K = problem.catalog.d, problem.K
                policy = thali.CascadeLSB(problem.catalog, K, sigma=sigma, alpha="theory", horizon=n)
                run = thali.simulate(policy, problem.model, steps=n, seed=2, points=2)
                scaled, bounds = [], []
                for user, theta in enumerate(problem.theta):
                    one = thali.DiverseCascade(problem.catalog, theta[None])
                    best = one.click_probability(thali.optimal_list(problem.catalog, theta, K)[None])[0]
                    c_max = float(theory.largest_click_probability(problem.catalog, theta[None])[0])
                    gamma = theory.approximation_ratio(K, c_max)
                    scaled.append(float(theory.scaled_regret(best, run.value[user, -1], gamma, n)))
                    alpha = theory.optimism(d, K, n, sigma)
                    bounds.append(theory.regret_bound(d, K, n, sigma, alpha, gamma))
                assert all(s <= b for s, b in zip(scaled, bounds, strict=True)), "Theorem 2 is violated"
                widths = follow(problem, policy, n, seed=2).summed.max()
                print(
                    f"| {problem.name} | {sigma} | {n} | {np.mean(scaled):.0f} | {np.mean(bounds):.3g} "
                    f"| {run.regret[:, -1].mean():.1f} | {widths:.1f} | {theory.width_sum_bound(d, K, n, sigma):.3g} |"
                )


def informative_from(users: int) -> None:
    """Find the n from which Theorem 2 is informative: its bound is below n·f(A*), the largest possible regret."""
    print(
        "\nThe smallest power of two n at which the bound of Theorem 2 is below n·f(A*), the largest possible regret\n"
    )
    header("problem", "σ = 0.1", "σ = 1")
    for problem in (synthetic(users), generated(30, 4, 3, top=0.5, users=users, seed=1)):
        theta, d, K = problem.theta[0], problem.catalog.d, problem.K
        best = problem.model.click_probability(problem.model.best_lists(K))[0]
        gamma = theory.approximation_ratio(K, float(theory.largest_click_probability(problem.catalog, theta[None])[0]))
        cells = []
        for sigma in (0.1, 1.0):
            n = 1
            while theory.regret_bound(d, K, n, sigma, theory.optimism(d, K, n, sigma), gamma) >= n * best:
                n *= 2
            cells.append(f"{n:,}")
        print(f"| {problem.name} | {cells[0]} | {cells[1]} |")


def lemma_3(users: int, steps: int) -> None:
    """Measure how often the confidence set contains θ*, and how much smaller α could be."""
    print(f"\nLemma 3: {users} people, {steps} steps each\n")
    header(
        "problem",
        "σ",
        "α for δ=1/n",
        "people whose intervals always contained the true values",
        "α that suffices for 95% of people",
        "for everyone",
    )
    for sigma in (0.1, 1.0):
        for problem in (synthetic(users), generated(30, 4, 3, top=0.5, users=users, seed=1)):
            policy = thali.CascadeLSB(problem.catalog, problem.K, sigma=sigma, alpha="theory", horizon=steps)
            alpha = theory.optimism(problem.catalog.d, problem.K, steps, sigma)
            furthest = follow(problem, policy, steps, seed=3).furthest
            print(
                f"| {problem.name} | {sigma} | {alpha:.1f} | {(furthest <= alpha).mean():.1%} "
                f"| {np.quantile(furthest, 0.95):.2f} | {furthest.max():.2f} |"
            )


def optimistic(users: int, steps: int) -> None:
    """Check whether the greedy list under indices with an exploration bonus is a γ-approximation, as the paper says."""
    print(f"\nThe greedy algorithm with an exploration bonus: {users} people, every 10th of {steps} steps (L=8, d=4)\n")
    header(
        "α·σ",
        "K",
        "states",
        "smallest ratio",
        "mean ratio",
        "below γ",
        "below γ although all intervals contain the true values",
    )
    for optimism in (0.0, 0.1, 0.4, 0.8, 2.0, "theory"):
        for K in (2, 3):
            problem = generated(8, 4, K, top=1.0, users=users, seed=K)
            alpha = optimism if isinstance(optimism, str) else optimism / 0.1
            policy = thali.CascadeLSB(problem.catalog, K, alpha=alpha, horizon=steps)
            ratios = follow(problem, policy, steps, seed=4, look=10).ratios
            c_max = theory.largest_click_probability(problem.catalog, problem.theta)
            gammas = np.tile([theory.approximation_ratio(K, float(c)) for c in c_max], steps // 10)
            ratio, held = np.array(ratios).T
            below = ratio < gammas - 1e-9
            print(
                f"| {optimism} | {K} | {ratio.size} | {ratio.min():.4f} | {ratio.mean():.4f} "
                f"| {below.mean():.3%} | {(below & (held > 0)).mean():.3%} |",
                flush=True,
            )


def main() -> None:
    """Print all tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--scale", type=float, default=1.0, help="share of the full work, such as 0.1 for a quick look"
    )
    scale = options.parse_args().scale
    theorem_1(np.random.default_rng(0), max(10, int(1000 * scale)))
    theorem_2(max(4, int(50 * scale)))
    informative_from(1)
    lemma_3(max(10, int(500 * scale)), max(100, int(5000 * scale)))
    optimistic(max(4, int(20 * scale)), max(100, int(1000 * scale)))


if __name__ == "__main__":
    main()
