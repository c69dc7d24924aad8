"""Compare CascadeLSB with lists that are the same for everyone, over each person's first lists, on MovieLens 1M.

python benchmarks/first_lists.py --data path/to/data prints the table in docs/first-lists.md in about two minutes. Each
number is a share: the clicks that a policy got, divided by the clicks that the best list for each person would have
got. People click as in the paper's model. They come from one half of the users, and the learner's weights come from the
other half.
"""

from __future__ import annotations

import argparse

import numpy as np

import thali
from thali.datasets import movielens_1m

STEPS = (1, 20, 100, 300, 1000, 2000)
PEOPLE, TOPICS, K = 200, 18, 10


def main() -> None:
    """Print the mean share over several splits of the users, with the lowest and the highest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="Folder that contains ml-1m.")
    parser.add_argument("--splits", type=int, default=5, help="Number of random splits of the users (default: 5).")
    arguments = parser.parse_args()
    chosen = movielens_1m(root=arguments.data).most_active(users=1000, items=1000).attracted(at_least=5)
    rows: dict[str, list[list[float]]] = {}
    for seed in range(arguments.splits):
        train, test = chosen.top_topics(TOPICS).split_users(seed)
        for name, shares in measure(train, test, seed).items():
            rows.setdefault(name, []).append(shares)
    print(f"| policy | first list | {' | '.join(f'first {n:,}' for n in STEPS[1:])} |")
    print("|---" * (len(STEPS) + 1) + "|")
    for name, splits in rows.items():
        cells = [f"{np.mean(v):.1%} ({min(v):.1%}-{max(v):.1%})" for v in zip(*splits, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |")


def measure(train: thali.datasets.Interactions, test: thali.datasets.Interactions, seed: int) -> dict[str, list[float]]:
    """Return, for each policy, the share of the best list's clicks after each number of lists."""
    catalog, theta = thali.Catalog.estimate(train), thali.preferences(test)
    people = thali.DiverseCascade(thali.Catalog.estimate(test), theta[theta.sum(axis=1) > 0][:PEOPLE])
    best = people.expected_clicks(people.best_lists(K)).mean()
    shares = {}
    policies = {
        "CascadeLSB (default: α = 8)": thali.CascadeLSB(catalog, K),
        "CascadeLSB, α = 2": thali.CascadeLSB(catalog, K, alpha=2),
        "CascadeLSB, α = 0.5": thali.CascadeLSB(catalog, K, alpha=0.5),
        "MostPopular, the same list for everyone": thali.MostPopular(catalog, K),
    }
    for name, policy in policies.items():
        run = thali.simulate(policy, people, steps=STEPS[-1], points=STEPS, seed=seed)
        shares[name] = [1.0 - float(r) / (n * best) for n, r in zip(STEPS, run.regret.mean(axis=0), strict=True)]
    mean = thali.preferences(train).mean(axis=0, keepdims=True)
    fixed = np.repeat(thali.greedy_lists(catalog, mean, K), people.users, axis=0)
    shares["a fixed diverse list for everyone"] = [float(people.expected_clicks(fixed).mean() / best)] * len(STEPS)
    return shares


if __name__ == "__main__":
    main()
