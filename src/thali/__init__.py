"""thali learns, click by click, which diverse list of items to show each person."""

from thali import coverage, datasets, theory
from thali.catalog import Catalog
from thali.clicks import Cascade, ClickModel, DiverseCascade, LinearSubmodular
from thali.datasets.estimation import preferences
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
from thali.simulate import Run, simulate

__version__ = "0.1.0"

__all__ = [
    "POLICIES",
    "Cascade",
    "CascadeKLUCB",
    "CascadeLSB",
    "CascadeLinUCB",
    "Catalog",
    "ClickModel",
    "DiverseCascade",
    "LSBGreedy",
    "LinearSubmodular",
    "Policy",
    "Run",
    "State",
    "coverage",
    "datasets",
    "greedy_lists",
    "load_state",
    "optimal_list",
    "preferences",
    "simulate",
    "theory",
]
