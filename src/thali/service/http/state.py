"""What the routes share while the service runs."""

from __future__ import annotations

from dataclasses import dataclass

from thali.service.http.batcher import Batcher
from thali.service.http.metrics import Metrics
from thali.service.http.middleware.errors import ReportError
from thali.service.http.settings import Settings
from thali.service.http.simulations import Simulations
from thali.service.http.slowest import Slowest
from thali.service.recommender import Recommender


@dataclass
class Service:
    """A running service: made when the application starts, closed when it stops."""

    settings: Settings
    recommender: Recommender
    batcher: Batcher
    simulations: Simulations
    metrics: Metrics
    slowest: Slowest
    report_error: ReportError
    process: str
    """The id of this process, with which the request ids that it makes begin."""
    started_at: float
    """In seconds since 1970."""
