"""What Prometheus is told, and logs that programs can read."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from thali.service.stores.records import Counts

LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Set by a service of several processes, which then count together.
SEVERAL = "PROMETHEUS_MULTIPROC_DIR"


class Measures:
    """Counters of this process, or of all processes of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.requests = Histogram(
            "thali_request_seconds", "Time to answer", ("route", "status"), buckets=LATENCIES, **made
        )
        self.batch = Histogram("thali_transaction_seconds", "Time of a transaction", buckets=LATENCIES, **made)
        self.batched = Counter("thali_transaction_operations", "Operations in transactions", **made)
        self.store_errors = Counter("thali_store_errors", "Transactions that the store failed", **made)
        self.counted = {
            name: Counter(f"thali_{name}", told, ("learner",), **made)
            for name, told in (
                ("impressions", "Lists shown"),
                ("answered", "Lists with an answer; one that was undone and answered again counts twice"),
                ("clicked", "Lists with a click"),
                ("diversity", "Sum over lists of the mean distance of two items; over impressions, the mean"),
                ("exploration", "Sum over lists of exploration's share in their indices; over impressions, the mean"),
            )
        }
        self.calibration = {
            name: Counter(f"thali_calibration_{name}", told, ("learner", "bin"), **made)
            for name, told in (
                ("answered", "Answered lists, by tenths of the click probability that was believed"),
                ("predicted", "Sum of the click probabilities believed"),
                ("clicked", "Those clicked: over answered, what was observed"),
            )
        }
        self.kept = Gauge(
            "thali_tastes_in_memory", "Users whose taste is in memory", multiprocess_mode="livesum", **made
        )
        self.items = Gauge("thali_items", "Items of the catalog", multiprocess_mode="max", **made)

    def count(self, counts: Counts) -> None:
        """What a transaction has added to the store's counters."""
        for (_, learner, name), value in counts.items():
            if value <= 0.0:
                continue
            if name in self.counted:
                self.counted[name].labels(learner).inc(value)
            elif name.startswith("bin"):
                number, _, what = name.removeprefix("bin").partition("_")
                self.calibration[what].labels(learner, number).inc(value)

    def own(self, name: str) -> float:
        """A value without labels, by Prometheus's name for it: of this process alone. Cost: a pass over all of them."""
        value = self.registry.get_sample_value(name)
        assert value is not None, f"nothing is measured as {name}"
        return value

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        if SEVERAL not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return generate_latest(together)


class Log:
    """A line of JSON on standard error for each event, in ASCII.

    Names are JSON strings there, so they cannot forge a line, nor tell a terminal what to do. Lines that cannot be
    written, as on a full disk, are lost: who wants a list is not told of it.
    """

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._stream = sys.stderr.buffer

    def __call__(self, event: str, **fields: Any) -> None:
        """Write it down."""
        line = self._encode({"at": round(time.time(), 3), "event": event, **fields})
        if not line.isascii():
            line = json.dumps(json.loads(line)).encode()
        with suppress(OSError):
            self._stream.write(line + b"\n")
            self._stream.flush()
