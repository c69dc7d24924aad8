"""Metrics for Prometheus."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from thali.service.stores.records import Counts

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: The environment variable with the folder in which several processes share their metrics. See prometheus_client.
MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The metrics of this process or, if MULTIPROCESS_DIR is set, of all processes of the service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry}
        self.requests = Histogram(
            "thali_request_seconds",
            "Time to respond to a request, in seconds",
            ("route", "status"),
            buckets=BUCKETS_S,
            **options,
        )
        self.transactions = Histogram(
            "thali_transaction_seconds", "Duration of a transaction, in seconds", buckets=BUCKETS_S, **options
        )
        self.operations = Counter("thali_transaction_operations", "Operations in all transactions", **options)
        self.store_errors = Counter(
            "thali_store_errors", "Requests that failed because the store could not be used", **options
        )
        self.by_learner = {
            name: Counter(f"thali_{name}", description, ("learner",), **options)
            for name, description in (
                ("impressions", "Lists shown"),
                ("answered", "Answers to lists. If an answer is undone or replaced, the new answer is counted as well"),
                ("clicked", "Lists with a click"),
                ("diversity", "Mean distance between the items of a list, summed over lists. Divide by impressions"),
                (
                    "exploration",
                    "Share of exploration in the scores of a list, summed over lists. Divide by impressions",
                ),
            )
        }
        self.calibration = {
            name: Counter(f"thali_calibration_{name}", description, ("learner", "bin"), **options)
            for name, description in (
                ("answered", "Answered lists, by tenth (bin 0 to 9) of the predicted click probability"),
                ("predicted", "Sum of the predicted click probabilities of answered lists. Divide by answered"),
                ("clicked", "Answered lists with a click. Divide by answered for the observed click rate"),
            )
        }
        self.tastes = Gauge(
            "thali_tastes_in_memory",
            "Tastes in memory, one per user and learner",
            multiprocess_mode="livesum",
            **options,
        )
        self.items = Gauge("thali_items", "Items in the catalog", multiprocess_mode="max", **options)

    def count(self, counts: Counts) -> None:
        """Add the amounts that a transaction has added to the store's counters."""
        for (_, learner, name), value in counts.items():
            if value <= 0.0:
                continue
            if name in self.by_learner:
                self.by_learner[name].labels(learner).inc(value)
            elif name.startswith("bin"):
                number, _, which = name.removeprefix("bin").partition("_")
                self.calibration[which].labels(learner, number).inc(value)

    def value(self, name: str) -> float:
        """Return the value of a metric without labels, in this process alone. Cost: one pass over all metrics."""
        value = self.registry.get_sample_value(name)
        assert value is not None, f"there is no metric {name}"
        return value

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        if MULTIPROCESS_DIR not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)
