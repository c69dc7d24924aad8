"""The objects that routes share while the service runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from thali.service.http.batcher import Batcher
from thali.service.http.metrics import Metrics
from thali.service.http.middleware.errors import ReportError
from thali.service.http.settings import Settings
from thali.service.http.simulations import Simulations
from thali.service.http.slowest import Slowest
from thali.service.recommender import Recommender


@dataclass
class Service:
    """A running service. It is created when the application starts and closed when it stops."""

    settings: Settings
    recommender: Recommender
    batcher: Batcher
    simulations: Simulations
    metrics: Metrics
    slowest: Slowest
    report_error: ReportError
    process: str
    """The id of this process. Request ids that the process generates begin with it."""
    started_at: float
    """The time when the service started, in seconds since 1970."""
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a prior is learned, which can take much memory."""
