"""Policies, which choose lists and learn from clicks. Each family has a file. POLICIES lists all policies by name."""

from collections.abc import Callable
from functools import partial

from thali.lists.diversify import MMR, DivRank
from thali.policies.base import Policy
from thali.policies.hide import Hide
from thali.policies.items import PIE, CascadeKLUCB, CascadeTS, CascadeUCB1, CombCascade, DcmKLUCB
from thali.policies.linear.members import (
    C3UCB,
    CascadeHybrid,
    CascadeLinUCB,
    CascadeLSB,
    CombLinTS,
    CombLinUCB,
    EpsilonGreedy,
    LSBGreedy,
)
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.prior import Prior
from thali.policies.perceptron import PreferencePerceptron
from thali.policies.quality import Quality
from thali.policies.ranked import IndependentBandits, RankedBandits
from thali.policies.relative_quality import RelativeQuality
from thali.policies.seen import RecentlySeen, Seen
from thali.policies.simple import MostPopular, Oracle, Random
from thali.policies.state import State, load_state

#: For each name, a class (or a class with some settings) that creates the policy from a catalog and K. The experiments
#: and the tests that every policy must pass use these names. docs/policies.md has an entry for each.
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
    "CascadeHybrid": CascadeHybrid,
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
    """Return the class of the policy with this name in POLICIES. Raise ValueError if there is no such policy."""
    if name not in POLICIES:
        raise ValueError(f"policies must be among {', '.join(POLICIES)}, got {name!r}")
    factory = POLICIES[name]
    kind = factory.func if isinstance(factory, partial) else factory
    assert isinstance(kind, type)
    return kind


def optimistic(name: str) -> bool:
    """Return whether the policy with this name has an α: a linear policy does, unless it explores in another way."""
    kind = class_of(name)
    factory = POLICIES[name]
    settings = factory.keywords if isinstance(factory, partial) else {}
    return issubclass(kind, LinearPolicy) and settings.get("explore", kind.explore) == "optimism"


__all__ = [
    "C3UCB",
    "PIE",
    "POLICIES",
    "CascadeHybrid",
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
    "Hide",
    "IndependentBandits",
    "LSBGreedy",
    "LinearPolicy",
    "MostPopular",
    "Oracle",
    "Policy",
    "PreferencePerceptron",
    "Prior",
    "Quality",
    "Random",
    "RankedBandits",
    "RecentlySeen",
    "RelativeQuality",
    "Seen",
    "State",
    "class_of",
    "load_state",
    "optimistic",
]
