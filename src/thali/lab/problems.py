"""Problems for learners: the paper's synthetic problem, and generated problems of any size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.people import ClickModel, DiverseCascade
from thali.tools.types import Floats, Integers


@dataclass(frozen=True)
class Known:
    """The data of the training people, and of the people who are judged: their likes, or the lists that they saw."""

    train: Interactions | Log
    test: Interactions | Log


@dataclass(frozen=True)
class Problem:
    """The learner's catalog, the people who click, and the length K of their lists.

    people: their names, if they have any.
    description: text with everything else that determines how they click. The file names of stored rows depend on it.
    others: other people, who click in the same way: those of the half from which the learner's weights come, in a
    random order. A policy may know their tastes, or learn from their clicks. None if there are none.
    others_seed: the random seed of their clicks.
    known: what is known about the training people, in the experiments with real likes or real lists.
    """

    name: str
    catalog: Catalog
    model: ClickModel
    K: int
    people: tuple[str, ...] | None = None
    description: str = ""
    others: ClickModel | None = None
    others_seed: int = 0
    known: Known | None = None

    @property
    def theta(self) -> Floats:
        """The people's preferences θ* (users, d); if they change, the final ones."""
        assert self.model.theta is not None
        return self.model.theta

    def theta_at(self, steps: Integers) -> Floats:
        """The people's preferences after each of these numbers of steps (users, points, d)."""
        known = [theta for step in steps.tolist() if (theta := self.model.at(step).theta) is not None]
        return np.stack(known, axis=1)

    @property
    def weights(self) -> Catalog:
        """The catalog with the weights by which people click."""
        assert self.model.catalog is not None
        return self.model.catalog


def synthetic(users: int = 1) -> Problem:
    """The paper's Synthetic Experiment: L=53, d=3, K=2, θ*=(0.6, 0.4, 0); the best list is (0, 2).

    Items 0 and 1 cover half of topic 0, item 2 half of topic 1, and fifty items all of topic 2, which nobody wants.
    users: the number of people. All have the same preferences; each has their own random numbers.
    """
    weights = np.zeros((53, 3))
    weights[:2, 0] = 0.5
    weights[2, 1] = 0.5
    weights[3:, 2] = 1.0
    catalog = Catalog(weights)
    return Problem("synthetic", catalog, DiverseCascade(catalog, np.tile([0.6, 0.4, 0.0], (users, 1))), K=2)


def single_items(K: int, users: int, d: int = 16) -> Problem:
    """K items that attract with probability 0.1, and others that attract with probability 0.02.

    This is the problem of the paper on cascading bandits (Kveton et al. 2015), with smaller probabilities. Each item is
    its own topic, so there is nothing to diversify and nothing to generalize.
    """
    catalog = Catalog(np.eye(d))
    theta = np.where(np.arange(d) % (d // K) == 0, 0.1, 0.02)  # spread out, so that they are not simply the first items
    return Problem("single items", catalog, DiverseCascade(catalog, np.tile(theta, (users, 1))), K)


def generated(L: int, d: int, K: int, *, top: float, users: int, seed: int) -> Problem:
    """Items of 1 to 3 topics with weights uniform up to top; preferences from a flat Dirichlet on 1 to 5 topics."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((L, d))
    for row in weights:
        chosen = rng.choice(d, size=rng.integers(1, min(d, 3) + 1), replace=False)
        row[chosen] = rng.uniform(0.0, top, size=chosen.size)
    theta = np.zeros((users, d))
    for row in theta:
        liked = rng.choice(d, size=rng.integers(1, min(d, 5) + 1), replace=False)
        row[liked] = rng.dirichlet(np.ones(liked.size))
    catalog = Catalog(weights)
    return Problem(f"L={L} d={d} K={K} w≤{top:g}", catalog, DiverseCascade(catalog, theta), K)
