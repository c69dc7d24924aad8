"""Click models for simulations: how people click, and how their preferences change."""

from thali.people.cascade import Cascade, DiverseCascade, LinearSubmodular
from thali.people.drift import Drift
from thali.people.habits import DependentClick, DynamicBayesian, NoisyCascade, PositionBased
from thali.people.likes import Likes
from thali.people.model import ClickModel, Habits

__all__ = [
    "Cascade",
    "ClickModel",
    "DependentClick",
    "DiverseCascade",
    "Drift",
    "DynamicBayesian",
    "Habits",
    "Likes",
    "LinearSubmodular",
    "NoisyCascade",
    "PositionBased",
]
