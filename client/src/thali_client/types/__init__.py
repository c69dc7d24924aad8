"""Response types of the HTTP API. The server builds its responses from these classes, and the client returns them."""

from thali_client.types.items import Item, Items, Topics
from thali_client.types.lists import Answer, Impression, Result, Results, Shown, ShownItem
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
    LearnerStatistics,
    LearnerTaste,
    TopicTaste,
    User,
)

__all__ = [
    "About",
    "Answer",
    "Bin",
    "Error",
    "Export",
    "Forgotten",
    "Health",
    "HistoryPage",
    "HourStats",
    "Impression",
    "Item",
    "Items",
    "LearnerAbout",
    "LearnerStatistics",
    "LearnerStats",
    "LearnerTaste",
    "Limits",
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
    "TopicTaste",
    "Topics",
    "User",
]
