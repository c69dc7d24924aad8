"""thali learns, click by click, which diverse list of items to show each person."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thali import coverage, datasets, theory
    from thali.catalog import Catalog
    from thali.catalog_file import load_catalog, save_catalog
    from thali.clicks import Cascade, ClickModel, DiverseCascade, Habits, LinearSubmodular
    from thali.client import Client
    from thali.datasets.estimation import Behaviour, behaviour, preferences
    from thali.diversifiers import MMR, DivRank
    from thali.drift import Drift
    from thali.lists import greedy_lists, optimal_list
    from thali.people import DependentClick, DynamicBayesian, NoisyCascade, PositionBased
    from thali.policies import (
        C3UCB,
        PIE,
        POLICIES,
        CascadeKLUCB,
        CascadeLinUCB,
        CascadeLSB,
        CascadeTS,
        CascadeUCB1,
        CombCascade,
        CombLinTS,
        CombLinUCB,
        DcmKLUCB,
        EpsilonGreedy,
        IndependentBandits,
        LinearPolicy,
        LSBGreedy,
        MostPopular,
        Oracle,
        Policy,
        PreferencePerceptron,
        Random,
        RankedBandits,
        State,
        load_state,
    )
    from thali.recommender import Recommender
    from thali.simulation import Run, simulate
else:
    # The same names, each imported when it is first asked for: so `import thali` and `thali --help` wait for nothing.
    # tests/test_init.py holds the two lists equal.
    _HOME = {
        "Catalog": "thali.catalog",
        "load_catalog": "thali.catalog_file",
        "save_catalog": "thali.catalog_file",
        "Cascade": "thali.clicks",
        "ClickModel": "thali.clicks",
        "DependentClick": "thali.people",
        "DiverseCascade": "thali.clicks",
        "DynamicBayesian": "thali.people",
        "Habits": "thali.clicks",
        "LinearSubmodular": "thali.clicks",
        "NoisyCascade": "thali.people",
        "PositionBased": "thali.people",
        "Client": "thali.client",
        "Behaviour": "thali.datasets.estimation",
        "behaviour": "thali.datasets.estimation",
        "preferences": "thali.datasets.estimation",
        "Drift": "thali.drift",
        "greedy_lists": "thali.lists",
        "optimal_list": "thali.lists",
        "DivRank": "thali.diversifiers",
        "MMR": "thali.diversifiers",
        "C3UCB": "thali.policies",
        "CascadeKLUCB": "thali.policies",
        "CascadeLSB": "thali.policies",
        "CascadeLinUCB": "thali.policies",
        "CascadeTS": "thali.policies",
        "CascadeUCB1": "thali.policies",
        "CombCascade": "thali.policies",
        "CombLinTS": "thali.policies",
        "CombLinUCB": "thali.policies",
        "DcmKLUCB": "thali.policies",
        "EpsilonGreedy": "thali.policies",
        "IndependentBandits": "thali.policies",
        "LSBGreedy": "thali.policies",
        "LinearPolicy": "thali.policies",
        "MostPopular": "thali.policies",
        "Oracle": "thali.policies",
        "PIE": "thali.policies",
        "POLICIES": "thali.policies",
        "Policy": "thali.policies",
        "PreferencePerceptron": "thali.policies",
        "Random": "thali.policies",
        "RankedBandits": "thali.policies",
        "State": "thali.policies",
        "load_state": "thali.policies",
        "Recommender": "thali.recommender",
        "Run": "thali.simulation",
        "simulate": "thali.simulation",
    }

    def __getattr__(name: str) -> object:
        """A public name from its home, or a room of the package such as ``thali.theory``."""
        if name in _HOME:
            value = globals()[name] = getattr(import_module(_HOME[name]), name)
            return value
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__version__ = "0.1.0"

__all__ = [
    "C3UCB",
    "MMR",
    "PIE",
    "POLICIES",
    "Behaviour",
    "Cascade",
    "CascadeKLUCB",
    "CascadeLSB",
    "CascadeLinUCB",
    "CascadeTS",
    "CascadeUCB1",
    "Catalog",
    "ClickModel",
    "Client",
    "CombCascade",
    "CombLinTS",
    "CombLinUCB",
    "DcmKLUCB",
    "DependentClick",
    "DivRank",
    "DiverseCascade",
    "Drift",
    "DynamicBayesian",
    "EpsilonGreedy",
    "Habits",
    "IndependentBandits",
    "LSBGreedy",
    "LinearPolicy",
    "LinearSubmodular",
    "MostPopular",
    "NoisyCascade",
    "Oracle",
    "Policy",
    "PositionBased",
    "PreferencePerceptron",
    "Random",
    "RankedBandits",
    "Recommender",
    "Run",
    "State",
    "behaviour",
    "coverage",
    "datasets",
    "greedy_lists",
    "load_catalog",
    "load_state",
    "optimal_list",
    "preferences",
    "save_catalog",
    "simulate",
    "theory",
]
