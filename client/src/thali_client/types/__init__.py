"""Response types of the HTTP API. The server builds its responses from these classes, and the client returns them."""

from thali_client.types.items import CatalogLoaded, Item, ItemQuality, Items, ItemsChanged, Topics
from thali_client.types.lists import Answer, Impression, Parts, Result, Results, Shown, ShownItem
from thali_client.types.priors import LearnerPrior, PredictionCheck, PriorCheck, Priors, TopicPrior
from thali_client.types.service import (
    About,
    Error,
    Health,
    LearnerAbout,
    Limits,
    SlowRequest,
    Status,
    StoreHealth,
    Tidied,
)
from thali_client.types.simulations import Simulated, SimulatedChange, SimulatedRun
from thali_client.types.stats import Bin, HourStats, LearnerStats, Rate, Stats
from thali_client.types.users import (
    Export,
    Forgotten,
    HistoryPage,
    HistoryRemoved,
    LearnerStatistics,
    LearnerTaste,
    TopicTaste,
    User,
)

__all__ = [
    "About",
    "Answer",
    "Bin",
    "CatalogLoaded",
    "Error",
    "Export",
    "Forgotten",
    "Health",
    "HistoryPage",
    "HistoryRemoved",
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
    "Parts",
    "PredictionCheck",
    "PriorCheck",
    "Priors",
    "Rate",
    "Result",
    "Results",
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
    "User",
]
