"""Choose the settings of a policy on people who are held out from the training people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from thali.datasets.interactions import Interactions
from thali.lab.rivals.likes import KnownLikes
from thali.lab.simulate import simulate
from thali.people import Likes
from thali.policies.base import Policy
from thali.tools import checks
from thali.tools.types import Booleans


def _grid(**values: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Return all combinations. The last setting varies fastest, so policies that share a model follow one another."""
    return tuple(dict(zip(values, combination, strict=True)) for combination in product(*values.values()))


#: The settings to try for each policy in RIVALS.
GRIDS: dict[str, tuple[dict[str, Any], ...]] = {
    "Popular": _grid(),
    "Popular-learning": _grid(),
    "StaticDiverse": _grid(),
    "ItemKNN": _grid(neighbours=(30, 100, 300), shrink=(0.0, 30.0), popularity=(0.0, 0.03, 0.1)),
    "IALS": _grid(factors=(32, 64), regularization=(10.0, 100.0), confidence=(5.0, 15.0), popularity=(0.0, 0.03)),
    "EASE": _grid(regularization=(100.0, 300.0, 1000.0, 3000.0), popularity=(0.0, 0.003, 0.01)),
}


@dataclass(frozen=True)
class Trial:
    """One candidate, and what the validation people clicked."""

    settings: dict[str, Any]
    clicks: Booleans
    """(people, lists): whether each list had a click."""

    @property
    def share(self) -> float:
        """The share of lists with a click."""
        return float(self.clicks.mean())


@dataclass(frozen=True)
class Tuning:
    """The result of :func:`tune`."""

    trials: tuple[Trial, ...]
    """All candidates, in the order in which they were given."""

    @property
    def best(self) -> Trial:
        """The candidate with the most clicks. Ties go to the first."""
        return max(self.trials, key=lambda trial: trial.share)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the best candidate."""
        return self.best.settings

    def rows(self, first: int = 10) -> list[dict[str, Any]]:
        """Return a row for each candidate: its settings, and the share of lists with a click.

        first: how many lists of each person count as the first ones.
        """
        return [
            {
                **trial.settings,
                "first lists": float(trial.clicks[:, :first].mean()),
                "later lists": float(trial.clicks[:, first:].mean()) if trial.clicks.shape[1] > first else None,
                "all lists": trial.share,
            }
            for trial in self.trials
        ]


def tune(
    make: Callable[..., Policy],
    candidates: Iterable[Mapping[str, Any]],
    train: Interactions,
    *,
    people: int = 300,
    lists: int = 30,
    K: int = 10,
    seed: int = 0,
    progress: Callable[[Trial], None] | None = None,
) -> Tuning:
    """Try settings of a policy on some of the training people, and fit each candidate to the others.

    The validation people click the first item that they like, and are not shown again what they examined
    (:func:`lists_with_a_click`). They are the same for all candidates and policies with the same seed.

    Parameters
    ----------
    make: called as make(catalog, K, likes, **settings) for each candidate; a class in RIVALS, or a function. likes: a
        :class:`KnownLikes` of the other training people. catalog: its items.
    candidates: settings, such as GRIDS["EASE"].
    train: the likes of the training people.
    people: the number of validation people, at least 1 and less than the number of training people.
    lists, K: the number of lists that each of them is shown, and the length of a list.
    seed: random seed, for the choice of the validation people.
    progress: called with each candidate when it is done.

    Cost: for each candidate, fitting its model if its settings are not those of the candidate before, and one recommend
    and one update per list.

    Examples
    --------
    >>> import thali
    >>> from thali.lab.rivals import EASE
    >>> liked = [(person, film, 1) for person in range(20) for film in range(person) if film % 2 == person % 2]
    >>> data = thali.datasets.Interactions.of(liked, {film: ["film"] for film in range(20)})
    >>> tuned = tune(EASE, [{"popularity": 10}, {"popularity": 0}], data, people=5, lists=4, K=1)
    >>> tuned.settings, [trial.share for trial in tuned.trials]
    ({'popularity': 0}, [0.4, 0.75])

    """
    tried = [dict(candidate) for candidate in checks.sequence("candidates of tune", candidates)]
    if not tried:
        raise ValueError("candidates of tune must contain at least one set of settings, got none")
    checks.instance("train of tune", train, Interactions)
    rest, validation = train.hold_out(people, seed)
    likes = KnownLikes(rest)
    liked = validation.matrix().toarray().astype(np.bool_)
    trials = []
    for settings in tried:
        trials.append(Trial(settings, lists_with_a_click(make(likes.catalog, K, likes, **settings), liked, lists)))
        if progress is not None:
            progress(trials[-1])
    return Tuning(tuple(trials))


def lists_with_a_click(policy: Policy, liked: Booleans, lists: int, seed: int = 0) -> Booleans:
    """Show lists to people, and return whether each list had a click (people, lists).

    A person examines a list from the top and clicks the first item that they like. What they examined is not shown to
    them again.

    Parameters
    ----------
    policy: starts from a new state.
    liked: (people, L), booleans: whether each person likes each item.
    lists: how many lists to show to each person. There must be items for all of them.
    seed: random seed, for policies that sample.

    """
    liked = checks.booleans("liked", liked, (len(liked), policy.catalog.L), "(people, L)", "one for each item")
    lists = checks.integer("lists", lists, low=1, high=len(policy.catalog) // policy.K)
    run = simulate(policy, Likes(liked), lists, seed, points=lists, hide="examined")
    return np.asarray(np.diff(run.clicks, axis=1, prepend=0) > 0)
