"""Measure the throughput and latency of a running service. Run this program and the service on different cores.

Without --rate, each connection sends its next request as soon as it has received the previous response, which gives the
highest possible rate. With --rate, requests are due at random times that do not depend on the service, and latency is
measured from the time when a request was due.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict
from random import Random
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from generator import Run, measure
from traffic import Feedback, Mixed, Recommend, Routes, Traffic, Trivial


def once(chosen: argparse.Namespace, seed: int) -> Run:
    """Run once, with the kind of requests that the options name."""
    rng, routes = Random(seed), Routes(urlsplit(chosen.url))
    traffic: Traffic
    if chosen.kind == "trivial":
        traffic = Trivial(routes)
    elif chosen.kind == "feedback":
        needed = chosen.impressions or round(1.2 * (chosen.rate or 5000) * (chosen.seconds + chosen.warm)) + 100
        lists = Recommend(routes, rng, users=chosen.users, count=needed)
        measure(chosen.url, lists, connections=chosen.connections, seconds=600)
        if len(lists.to_answer) < needed:
            raise RuntimeError(f"feedback needs {needed} impressions, got {len(lists.to_answer)}")
        traffic = Feedback(lists.to_answer)
    else:
        traffic = {"recommend": Recommend, "mixed": Mixed}[chosen.kind](routes, rng, users=chosen.users)
    run = measure(
        chosen.url, traffic, connections=chosen.connections, rate=chosen.rate, seconds=chosen.seconds,
        warm=chosen.warm, seed=seed,
    )  # fmt: skip
    for kind, figures in run.kinds.items():
        if not figures.replies:
            raise RuntimeError(f"some {kind} requests must succeed with status 200, got only {figures.errors}")
    return run


def spread(runs: list[Run]) -> dict[str, dict[str, Any]]:
    """Return the median, lowest and highest value of the runs for each kind and figure, and the total of errors."""
    summary: dict[str, dict[str, Any]] = {}
    for kind in runs[0].kinds:
        figures = [run.kinds[kind] for run in runs if kind in run.kinds]
        summary[kind] = {"errors": dict(sum((Counter(one.errors) for one in figures), Counter[str]()))}
        for name in ("rate", "p50", "p90", "p99", "max"):
            values = [getattr(one, name) for one in figures]
            summary[kind][name] = {"median": float(np.median(values)), "lowest": min(values), "highest": max(values)}
    return summary


def main() -> None:
    """Measure, and print a table or JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", default="http://127.0.0.1:8000", help="Address of the service.")
    options.add_argument(
        "--kind",
        choices=["recommend", "feedback", "trivial", "mixed"],
        default="mixed",
        help="Requests to send. 'trivial' is /healthz, 'mixed' is recommend and feedback alternately (default: mixed).",
    )
    options.add_argument("--rate", type=float, help="Requests per second (default: as many as possible).")
    options.add_argument("--connections", type=int, default=32, help="Number of connections (default: 32).")
    options.add_argument("--seconds", type=float, default=10.0, help="Seconds to measure (default: 10).")
    options.add_argument("--warm", type=float, default=1.0, help="Seconds of warm-up before measuring (default: 1).")
    options.add_argument("--users", type=int, default=1000, help="Number of users (default: 1000).")
    options.add_argument("--impressions", type=int, help="With --kind feedback: number of lists to request first.")
    options.add_argument("--repeat", type=int, default=1, help="Number of runs (default: 1).")
    options.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    chosen = options.parse_args()
    runs = [once(chosen, seed) for seed in range(chosen.repeat)]
    if chosen.json:
        print(json.dumps({"settings": vars(chosen), "spread": spread(runs), "runs": [asdict(run) for run in runs]}))
        return
    rate = "as many requests as possible" if chosen.rate is None else f"{chosen.rate:g} requests per second"
    cpu = max(run.cpu for run in runs)
    print(f"{rate}, {chosen.connections} connections, {len(runs)} runs; this program used {cpu:.0%} of a core\n")
    print(
        "| kind | requests per second | p50, ms | p90, ms | p99, ms | max, ms | errors |\n|---|---|---|---|---|---|---|"
    )
    for kind, summary in spread(runs).items():
        cells = []
        for name, digits in (("rate", 0), ("p50", 2), ("p90", 2), ("p99", 2), ("max", 1)):
            low, middle, high = (f"{summary[name][which]:,.{digits}f}" for which in ("lowest", "median", "highest"))
            cells.append(f"{middle} ({low}-{high})")
        print(f"| {kind} | {' | '.join(cells)} | {summary['errors'] or 'none'} |")


if __name__ == "__main__":
    main()
