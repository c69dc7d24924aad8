"""Policies, which choose lists and learn from clicks: one file for each family, and the registry of all of them."""

from collections.abc import Callable
from functools import partial

from thali.lists.diversify import MMR, DivRank
from thali.policies.base import Policy
from thali.policies.items import PIE, CascadeKLUCB, CascadeTS, CascadeUCB1, CombCascade, DcmKLUCB
from thali.policies.linear.members import (
    C3UCB,
    CascadeLinUCB,
    CascadeLSB,
    CombLinTS,
    CombLinUCB,
    EpsilonGreedy,
    LSBGreedy,
)
from thali.policies.linear.policy import LinearPolicy
from thali.policies.perceptron import PreferencePerceptron
from thali.policies.ranked import IndependentBandits, RankedBandits
from thali.policies.simple import MostPopular, Oracle, Random
from thali.policies.state import State, load_state

#: Name → a class, or a class with some settings, that makes the policy from a catalog and K. The contract test and the
#: experiments refer to policies by these names; docs/policies.md has an entry for each.
POLICIES: dict[str, Callable[..., Policy]] = {
    "CascadeLSB": CascadeLSB,
    "LSBGreedy": LSBGreedy,
    "CascadeLinUCB": CascadeLinUCB,
    "CascadeKLUCB": CascadeKLUCB,
    "CascadeLSB-last-click": partial(CascadeLSB, examined="last-click"),
    "CascadeLSB-discount": partial(CascadeLSB, discount=0.998),
    "CascadeLSB-window": partial(CascadeLSB, window=1000),
    "CascadeLSB-TS": partial(CascadeLSB, explore="sampling"),
    "EpsilonGreedy": EpsilonGreedy,
    "CombLinUCB": CombLinUCB,
    "CombLinTS": CombLinTS,
    "C3UCB": C3UCB,
    "MMR": partial(CascadeLinUCB, build=MMR()),
    "DivRank": partial(CascadeLinUCB, build=DivRank()),
    "PreferencePerceptron": PreferencePerceptron,
    "DcmKLUCB": DcmKLUCB,
    "CascadeUCB1": CascadeUCB1,
    "CombCascade": CombCascade,
    "CascadeTS": CascadeTS,
    "PIE": PIE,
    "RankedUCB1": partial(RankedBandits, base="ucb1"),
    "RankedKLUCB": partial(RankedBandits, base="kl-ucb"),
    "RankedExp3": partial(RankedBandits, base="exp3"),
    "IndependentBandits": IndependentBandits,
    "MostPopular": MostPopular,
    "Random": Random,
    "Oracle": Oracle,
}


def class_of(name: str) -> type[Policy]:
    """Return the class of a policy in the registry; raise ValueError if there is no such name."""
    if name not in POLICIES:
        raise ValueError(f"policies must be among {', '.join(POLICIES)}, got {name!r}")
    made_by = POLICIES[name]
    found = made_by.func if isinstance(made_by, partial) else made_by
    assert isinstance(found, type)
    return found


def optimistic(name: str) -> bool:
    """Return whether a policy in the registry has an α: the linear family, unless it explores otherwise."""
    found = class_of(name)
    made_by = POLICIES[name]
    given = made_by.keywords if isinstance(made_by, partial) else {}
    return issubclass(found, LinearPolicy) and given.get("explore", found.explore) == "optimism"


__all__ = [
    "C3UCB",
    "PIE",
    "POLICIES",
    "CascadeKLUCB",
    "CascadeLSB",
    "CascadeLinUCB",
    "CascadeTS",
    "CascadeUCB1",
    "CombCascade",
    "CombLinTS",
    "CombLinUCB",
    "DcmKLUCB",
    "EpsilonGreedy",
    "IndependentBandits",
    "LSBGreedy",
    "LinearPolicy",
    "MostPopular",
    "Oracle",
    "Policy",
    "PreferencePerceptron",
    "Random",
    "RankedBandits",
    "State",
    "class_of",
    "load_state",
    "optimistic",
]
