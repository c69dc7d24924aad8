"""Metrics for Prometheus."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from thali.service.stores.records import Counts

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Environment variable with the folder through which several processes share their metrics; see prometheus_client.
MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The metrics of this process or, where MULTIPROCESS_DIR is set, of all processes of the service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry}
        self.requests = Histogram(
            "thali_request_seconds", "Time to answer", ("route", "status"), buckets=BUCKETS_S, **options
        )
        self.transactions = Histogram(
            "thali_transaction_seconds", "Time of a transaction", buckets=BUCKETS_S, **options
        )
        self.operations = Counter("thali_transaction_operations", "Operations in transactions", **options)
        self.store_errors = Counter("thali_store_errors", "Transactions that the store failed", **options)
        self.by_learner = {
            name: Counter(f"thali_{name}", description, ("learner",), **options)
            for name, description in (
                ("impressions", "Lists shown"),
                ("answered", "Lists with an answer; one that was undone and answered again counts twice"),
                ("clicked", "Lists with a click"),
                ("diversity", "Sum over lists of the mean distance of two items; over impressions, the mean"),
                ("exploration", "Sum over lists of exploration's share in their indices; over impressions, the mean"),
            )
        }
        self.calibration = {
            name: Counter(f"thali_calibration_{name}", description, ("learner", "bin"), **options)
            for name, description in (
                ("answered", "Answered lists, by tenths of the click probability that was believed"),
                ("predicted", "Sum of the click probabilities believed"),
                ("clicked", "Those clicked: over answered, what was observed"),
            )
        }
        self.tastes = Gauge(
            "thali_tastes_in_memory", "Users whose taste is in memory", multiprocess_mode="livesum", **options
        )
        self.items = Gauge("thali_items", "Items of the catalog", multiprocess_mode="max", **options)

    def count(self, counts: Counts) -> None:
        """Add what a transaction has added to the store's counters."""
        for (_, learner, name), value in counts.items():
            if value <= 0.0:
                continue
            if name in self.by_learner:
                self.by_learner[name].labels(learner).inc(value)
            elif name.startswith("bin"):
                number, _, which = name.removeprefix("bin").partition("_")
                self.calibration[which].labels(learner, number).inc(value)

    def value(self, name: str) -> float:
        """The value of a metric without labels, in this process alone. Cost: one pass over all metrics."""
        value = self.registry.get_sample_value(name)
        assert value is not None, f"there is no metric {name}"
        return value

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        if MULTIPROCESS_DIR not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)
