"""Choose the settings of all policies in the experiments with real likes, on training people only.

python benchmarks/likes_tuning.py --data FOLDER [--only POLICY] [--people NUMBER] [source ...]

The people who are tested in any split of these experiments (with the default seed) take no part: neither as training
people nor as validation people. Prints a table of all settings that were tried, and the best ones, which are copied to
TUNED in src/thali/lab/settings.py.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np

from thali.lab.likes import folds, part_of, start_of
from thali.lab.rivals import GRIDS, RIVALS, KnownLikes, tune
from thali.lab.settings import FIT, likes
from thali.lab.sources import SOURCES, liked, shares
from thali.policies import CascadeLSB, Policy

SEED = 0
#: What is tried for thali.fit: which topics, and how many learned ones.
OWN = tuple({"topics": topics, "d": d} for topics, d in product(("learned", "both"), (15, 30, 60)))
#: The default number of validation people.
PEOPLE = 300


def make_fit(catalog: Any, K: int, known: KnownLikes, *, topics: str, d: int) -> Policy:
    """Create the policy of thali.fit with these settings."""
    return part_of(start_of(known.interactions, topics, d), K, CascadeLSB)


def main() -> None:
    """Tune every policy on every data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=None)
    parser.add_argument("--only", default=None, help="tune only this policy")
    parser.add_argument("--people", type=int, default=PEOPLE, help="the number of validation people, at most a third")
    parser.add_argument("sources", nargs="*", default=["movielens", "songs-hetrec", "yelp-core40", "yelp-hin"])
    given = parser.parse_args()
    best: dict[str, dict[str, Any]] = {}
    for source in given.sources:
        experiment, least = likes(source), SOURCES[source].least_likes
        data = liked(source, given.data)
        _, free = folds(data, shares(experiment), SEED, least)
        train = data.take_users(free)
        count = np.bincount(train.user, minlength=len(train.users))
        # Validation people must have as many likes as the people who are tested.
        train = train.take_users(np.flatnonzero(count >= least))
        people = min(given.people, len(train.users) // 3)
        some = train.top_topics(min(experiment.d, len(train.topics)))
        print(f"{source}: {len(train.users)} training people, of whom {people} validate", flush=True)
        for name, make, grid in (
            *((name, RIVALS[name], GRIDS[name]) for name in RIVALS if len(GRIDS[name]) > 1),
            (FIT, make_fit, OWN),
        ):
            if given.only not in (None, name):
                continue
            tuned = tune(make, grid, some, people=people, lists=30, K=experiment.K, seed=SEED)
            for row in tuned.rows():
                print("   ", name, row, flush=True)
            best.setdefault(source, {})[name] = tuned.settings
            print("  ", name, tuned.settings, flush=True)
    print(best)


if __name__ == "__main__":
    main()
