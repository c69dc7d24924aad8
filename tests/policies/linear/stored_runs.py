"""Runs of every linear policy, and a digest of all lists, M and B. Run as a program, it prints the digests as JSON.

The digests in stored_runs.json were printed by the code of commit 9116d7f, before policies had a prior and catalogs had
steady topics. They must not be printed again with later code.
"""

import json
from hashlib import sha256
from typing import Any

import numpy as np

import thali

POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "CascadeLSB": ("CascadeLSB", {}),
    "CascadeLSB, theory": ("CascadeLSB", {"alpha": "theory", "horizon": 1000, "sigma": 0.25}),
    "CascadeLSB, last click": ("CascadeLSB", {"examined": "last-click", "sigma": 0.5, "alpha": 2.0}),
    "CascadeLSB, sampling": ("CascadeLSB", {"explore": "sampling"}),
    "CascadeLSB, discount": ("CascadeLSB", {"discount": 0.9}),
    "CascadeLSB, window": ("CascadeLSB", {"window": 7}),
    "EpsilonGreedy": ("EpsilonGreedy", {}),
    "LSBGreedy": ("LSBGreedy", {}),
    "LSBGreedy, theory": ("LSBGreedy", {"alpha": "theory"}),
    "CascadeLinUCB": ("CascadeLinUCB", {}),
    "CascadeLinUCB, capped": ("CascadeLinUCB", {"capped": True}),
    "C3UCB": ("C3UCB", {}),
    "CombLinUCB": ("CombLinUCB", {}),
    "CombLinTS": ("CombLinTS", {}),
}
ITEMS, TOPICS, K, USERS, STEPS = 150, 9, 5, 5, 80


def digest(name: str, coverage: str) -> str:
    """Run a policy for all steps. At every fourth step, users may not be shown some items."""
    rng = np.random.default_rng(19)
    # Multiples of 1/64, so that sums of gains hardly round.
    weights = rng.integers(1, 60, (ITEMS, TOPICS)) / 64 * (rng.random((ITEMS, TOPICS)) < 0.25)
    theta = rng.dirichlet(np.ones(TOPICS), USERS)
    catalog = thali.Catalog(weights, coverage=coverage)
    model = thali.DiverseCascade(catalog, theta)
    kind, settings = POLICIES[name]
    policy = getattr(thali, kind)(catalog, K, **settings)
    state = policy.init(USERS)
    found = sha256()
    for step in range(STEPS):
        among = {"exclude": [[step, step + 1]] * USERS} if step % 4 == 3 else {}
        lists = policy.recommend(state, rng=step, **among)
        policy.update(state, lists, model.sample(lists, rng))
        found.update(lists.astype("<i8").tobytes())
    found.update(state.M.astype("<f8").tobytes())
    found.update(state.B.astype("<f8").tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    print(
        json.dumps(
            {
                f"{name}, {coverage}": digest(name, coverage)
                for name in POLICIES
                for coverage in ("probabilistic", "max")
            },
            indent=1,
        )
    )
