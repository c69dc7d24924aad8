"""How many requests a second a service answers, and how long each takes; run it on another core than the service's.

Without --rate, each of --connections sends its next request when the last is answered: the highest rate there is. With
it, requests come at random times whatever the service does, and are timed from the moment they were due.
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
    """One run of the kind that was asked for."""
    rng, routes = Random(seed), Routes(urlsplit(chosen.url))
    traffic: Traffic
    if chosen.kind == "trivial":
        traffic = Trivial(routes)
    elif chosen.kind == "feedback":
        needed = chosen.impressions or round(1.2 * (chosen.rate or 5000) * (chosen.seconds + chosen.warm)) + 100
        before = Recommend(routes, rng, users=chosen.users, count=needed)
        measure(chosen.url, before, connections=chosen.connections, seconds=600)
        if len(before.to_answer) < needed:
            raise RuntimeError(f"{needed} impressions must be there to answer, got {len(before.to_answer)}")
        traffic = Feedback(before.to_answer)
    else:
        traffic = {"recommend": Recommend, "mixed": Mixed}[chosen.kind](routes, rng, users=chosen.users)
    run = measure(
        chosen.url, traffic, connections=chosen.connections, rate=chosen.rate, seconds=chosen.seconds,
        warm=chosen.warm, seed=seed,
    )  # fmt: skip
    for kind, figures in run.kinds.items():
        if not figures.replies:
            raise RuntimeError(f"some requests of {kind} must be answered with 200, got only {figures.errors}")
    return run


def spread(runs: list[Run]) -> dict[str, dict[str, Any]]:
    """For each kind and figure: median, lowest, highest of the runs; errors added up."""
    found: dict[str, dict[str, Any]] = {}
    for kind in runs[0].kinds:
        figures = [run.kinds[kind] for run in runs if kind in run.kinds]
        found[kind] = {"errors": dict(sum((Counter(one.errors) for one in figures), Counter[str]()))}
        for name in ("rate", "p50", "p90", "p99", "max"):
            values = [getattr(one, name) for one in figures]
            found[kind][name] = {"median": float(np.median(values)), "lowest": min(values), "highest": max(values)}
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", default="http://127.0.0.1:8000")
    options.add_argument("--kind", choices=["recommend", "feedback", "trivial", "mixed"], default="mixed")
    options.add_argument("--rate", type=float, help="Requests a second, in an open loop.")
    options.add_argument("--connections", type=int, default=32)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--warm", type=float, default=1.0, help="Seconds before those that count.")
    options.add_argument("--users", type=int, default=1000)
    options.add_argument("--impressions", type=int, help="For feedback: how many to collect first.")
    options.add_argument("--repeat", type=int, default=1)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    runs = [once(chosen, seed) for seed in range(chosen.repeat)]
    if chosen.json:
        print(json.dumps({"settings": vars(chosen), "spread": spread(runs), "runs": [asdict(run) for run in runs]}))
        return
    loop = "closed loop" if chosen.rate is None else f"{chosen.rate:g} requests/s"
    cpu = max(run.cpu for run in runs)
    print(f"{loop}, {chosen.connections} connections, {len(runs)} runs; this program took {cpu:.0%} of a core\n")
    print("| kind | requests/s | p50 ms | p90 ms | p99 ms | max ms | errors |\n|---|---|---|---|---|---|---|")
    for kind, found in spread(runs).items():
        cells = []
        for name, digits in (("rate", 0), ("p50", 2), ("p90", 2), ("p99", 2), ("max", 1)):
            low, middle, high = (f"{found[name][which]:,.{digits}f}" for which in ("lowest", "median", "highest"))
            cells.append(f"{middle} ({low}-{high})")
        print(f"| {kind} | {' | '.join(cells)} | {found['errors'] or 'none'} |")


if __name__ == "__main__":
    main()
