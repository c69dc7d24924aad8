"""Python client for the thali service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thali_client.errors import Conflict, NotAllowed, NotFound, Refused, ServiceError, Unavailable
from thali_client.types import (
    About,
    Answer,
    Bin,
    CatalogLoaded,
    Error,
    Export,
    Forgotten,
    Health,
    HistoryPage,
    HistoryRemoved,
    HistorySums,
    HourStats,
    Impression,
    Item,
    ItemQuality,
    Items,
    ItemsChanged,
    LearnerAbout,
    LearnerPrior,
    LearnerStatistics,
    LearnerStats,
    LearnerTaste,
    Limits,
    Parts,
    PredictionCheck,
    PriorCheck,
    Priors,
    Rate,
    Result,
    Results,
    SeenItems,
    Shown,
    ShownItem,
    Simulated,
    SimulatedChange,
    SimulatedRun,
    SlowRequest,
    Stats,
    Status,
    StoreHealth,
    Tidied,
    TopicPrior,
    Topics,
    TopicTaste,
    User,
)

if TYPE_CHECKING:
    from thali_client.client import Client

__version__ = "0.1.0"

__all__ = [
    "About",
    "Answer",
    "Bin",
    "CatalogLoaded",
    "Client",
    "Conflict",
    "Error",
    "Export",
    "Forgotten",
    "Health",
    "HistoryPage",
    "HistoryRemoved",
    "HistorySums",
    "HourStats",
    "Impression",
    "Item",
    "ItemQuality",
    "Items",
    "ItemsChanged",
    "LearnerAbout",
    "LearnerPrior",
    "LearnerStatistics",
    "LearnerStats",
    "LearnerTaste",
    "Limits",
    "NotAllowed",
    "NotFound",
    "Parts",
    "PredictionCheck",
    "PriorCheck",
    "Priors",
    "Rate",
    "Refused",
    "Result",
    "Results",
    "SeenItems",
    "ServiceError",
    "Shown",
    "ShownItem",
    "Simulated",
    "SimulatedChange",
    "SimulatedRun",
    "SlowRequest",
    "Stats",
    "Status",
    "StoreHealth",
    "Tidied",
    "TopicPrior",
    "TopicTaste",
    "Topics",
    "Unavailable",
    "User",
]


def __getattr__(name: str) -> Any:
    """Import Client when it is first used. The server needs only the types and should not have to import urllib3."""
    if name == "Client":
        from thali_client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
