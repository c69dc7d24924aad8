"""thali learns, click by click, which diverse list of items to show each person."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thali import coverage, datasets, theory
    from thali.catalog import Catalog
    from thali.clicks import (
        Cascade,
        ClickModel,
        DependentClick,
        DiverseCascade,
        DynamicBayesian,
        Habits,
        LinearSubmodular,
        NoisyCascade,
        PositionBased,
    )
    from thali.datasets.estimation import Behaviour, behaviour, preferences
    from thali.drift import Drift
    from thali.lists import greedy_lists, optimal_list
    from thali.policies import (
        POLICIES,
        CascadeKLUCB,
        CascadeLinUCB,
        CascadeLSB,
        LSBGreedy,
        Policy,
        State,
        load_state,
    )
    from thali.simulation import Run, simulate
else:
    # The same names, each imported when it is first asked for: so `import thali` and `thali --help` wait for nothing.
    # tests/test_init.py holds the two lists equal.
    _HOME = {
        "Catalog": "thali.catalog",
        "Cascade": "thali.clicks",
        "ClickModel": "thali.clicks",
        "DependentClick": "thali.clicks",
        "DiverseCascade": "thali.clicks",
        "DynamicBayesian": "thali.clicks",
        "Habits": "thali.clicks",
        "LinearSubmodular": "thali.clicks",
        "NoisyCascade": "thali.clicks",
        "PositionBased": "thali.clicks",
        "Behaviour": "thali.datasets.estimation",
        "behaviour": "thali.datasets.estimation",
        "preferences": "thali.datasets.estimation",
        "Drift": "thali.drift",
        "greedy_lists": "thali.lists",
        "optimal_list": "thali.lists",
        "POLICIES": "thali.policies",
        "CascadeKLUCB": "thali.policies",
        "CascadeLinUCB": "thali.policies",
        "CascadeLSB": "thali.policies",
        "LSBGreedy": "thali.policies",
        "Policy": "thali.policies",
        "State": "thali.policies",
        "load_state": "thali.policies",
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
    "POLICIES",
    "Behaviour",
    "Cascade",
    "CascadeKLUCB",
    "CascadeLSB",
    "CascadeLinUCB",
    "Catalog",
    "ClickModel",
    "DependentClick",
    "DiverseCascade",
    "Drift",
    "DynamicBayesian",
    "Habits",
    "LSBGreedy",
    "LinearSubmodular",
    "NoisyCascade",
    "Policy",
    "PositionBased",
    "Run",
    "State",
    "behaviour",
    "coverage",
    "datasets",
    "greedy_lists",
    "load_state",
    "optimal_list",
    "preferences",
    "simulate",
    "theory",
]
