"""Compare the speed of this clone of thali with that of an older one.

    make compare OLD=path/to/old/clone

Both clones need their environment in ``.venv`` (``make .venv/lab``). They are measured alternately, each in separate
processes and with its own cases, and the order changes from round to round. The tables show the median times, and the
ratio new/old of the rounds: median, lowest and highest. Machines are noisy, so rely on the ratios, and repeat the run
if a ratio is close to the largest one that you accept. To measure what options of ``thali serve`` cost, give them to
the new clone only:

    python benchmarks/compare.py path/to/old/clone --only service --serve "--prior learn --prior-every 5"
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import numpy as np

HERE = Path(__file__).parent
# Times by the name of the case. Names must stay as they are: the results of two versions are matched by name.
Times = dict[str, float]
# The environment variable with the options of ``thali serve``.
SERVE = "THALI_COMPARE_SERVE"


def lists() -> Times:
    """Measure microseconds per step, list or call, by case."""
    import cases
    import speed

    import thali

    times: Times = {}

    def step(
        name: str, make: Callable[[np.random.Generator], cases.Case], K: int, repeats: int, alpha: Any = None
    ) -> None:
        taken = speed.measure(make, K, alpha=alpha, warm=100, repeats=repeats, every=10**9)
        times[f"{name}, step"] = 1e6 * float(np.median(taken["thali"]))

    def calls(name: str, call: Callable[[], object], repeats: int = 60) -> None:
        taken = []
        for _ in range(repeats):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
        times[name] = 1e6 * float(np.median(taken))

    step("like MovieLens, d=18, K=12", cases.like_movielens, 12, 150)
    step("like MovieLens, α of theory", cases.like_movielens, 12, 150, "theory")
    step("random sparse, d=40, K=8", cases.random_sparse, 8, 100)
    step("random sparse, α of theory", cases.random_sparse, 8, 100, "theory")
    step("random sparse, L=200,000", lambda rng: cases.random_sparse(rng, users=4, L=200_000), 8, 60)
    step("dense, L=20,000, d=20", cases.dense("Dirichlet(1)", L=20_000), 10, 20)
    rng = np.random.default_rng(0)
    weights, even = cases.sparse_weights(rng, 200_000, 40), np.full((1, 40), 1 / 40)
    calls(
        "first list, with the search index of L=200,000", lambda: thali.greedy_lists(thali.Catalog(weights), even, 1), 5
    )
    policy = thali.CascadeLSB(thali.Catalog(weights), 10)
    state = thali.simulate(policy, thali.DiverseCascade(policy.catalog, even), steps=50).state
    for n in (100, 1000, 50_000):
        candidates = np.sort(rng.choice(200_000, n, replace=False))
        calls(f"a list from {n} candidates", partial(policy.recommend, state, candidates=candidates))
    case = cases.like_movielens(np.random.default_rng(0))
    for name in ("CascadeKLUCB", "CascadeLSB-TS", "MMR", "RankedUCB1"):
        taken = speed.step(thali.POLICIES[name](case.catalog, 12), case.model, warm=30, in_a_row=10)
        times[f"{name}, step"] = 1e6 * float(np.median(taken))
    policy = thali.CascadeLSB(case.catalog, 12)
    many = policy.init(100)
    policy.recommend(many)  # the posterior is kept from here on
    calls("M⁻¹ and θ̄ of 100 users, d=18", lambda: many.refresh())
    return times


def service() -> Times:
    """Measure microseconds per request, by kind, with 32 connections that send as fast as they can."""
    import serve
    from generator import measure
    from traffic import Feedback, Mixed, Recommend, Routes, Trivial

    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        catalog, _ = serve.movielens(Path(folder))
        with serve.service(Path(folder), catalog, *os.environ.get(SERVE, "").split()) as serving:
            routes, rng = Routes(urlsplit(serving.url)), Random(0)
            shown = Recommend(routes, rng, users=serve.USERS, count=20_000)
            measure(serving.url, shown, connections=serve.CONNECTIONS, seconds=600)
            for name, traffic in (
                ("/healthz", Trivial(routes)),
                ("recommend", Recommend(routes, rng, users=serve.USERS)),
                ("feedback", Feedback(shown.to_answer)),
                ("recommend and feedback in turns", Mixed(routes, rng, users=serve.USERS)),
            ):
                times[f"{name}, a request"] = 1e6 / serve.run(serving.url, traffic, seconds=4.0).rate
    return times


def operations() -> Times:
    """Measure microseconds of processor time per operation in one process, without HTTP, in transactions of 32.

    A fifth of the transactions take less than the time that is reported, so other load on the machine affects it less
    than the rates of a service.
    """
    import serve

    import thali
    from thali.service.recommender import Recommender
    from thali.service.recommender.operations import Feedback, Recommend, id_bytes

    rng, size, rounds = Random(0), 32, 250
    recommends, feedbacks = [], []
    with tempfile.TemporaryDirectory() as folder:
        path, _ = serve.movielens(Path(folder))
        policy = thali.CascadeLSB(thali.load_catalog(path), 10)
        with Recommender(policy, f"sqlite:///{folder}/taste.db") as rec:
            for n in range(rounds + 50):
                begin = time.process_time()
                shown = rec.perform([Recommend(f"user {rng.randrange(1000)}") for _ in range(size)], whole=True)
                middle = time.process_time()
                clicks = [[rng.randrange(10)] if rng.random() < 0.5 else [] for _ in shown]
                answers = [Feedback(id_bytes(one.id), clicked) for one, clicked in zip(shown, clicks, strict=True)]
                between = time.process_time()
                rec.perform(answers, whole=True)
                end = time.process_time()
                if n >= 50:  # by then, the fast code is compiled and in use
                    recommends.append(1e6 * (middle - begin) / size)
                    feedbacks.append(1e6 * (end - between) / size)
    taken = {"a recommend operation": recommends, "a feedback operation": feedbacks}
    return {name: float(np.quantile(times, 0.2)) for name, times in taken.items()}


PARTS = {"lists": lists, "service": service, "operations": operations}


def measured(tree: Path, part: str, serve_options: str = "") -> Times:
    """Measure one part of a clone, with its own thali and cases.

    A clone whose own program does not have this part runs this file instead.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [str(tree / ".venv" / "bin" / "python"), str(tree / "benchmarks" / "compare.py"), "--measure", part]
    own = tree / "benchmarks" / "compare.py"
    if not own.exists() or f'"{part}"' not in own.read_text():
        command[1] = str(HERE / "compare.py")
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree / "benchmarks"), SERVE: serve_options}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr[-2000:]}")
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    """Measure both clones, and print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("old", type=Path, nargs="?", help="Path of the older clone, which must contain a .venv.")
    options.add_argument("--rounds", type=int, default=6, help="Number of measurements of each clone (default: 6).")
    options.add_argument("--only", choices=PARTS, help="Measure only this part.")
    options.add_argument("--serve", default="", help="Options of thali serve, for the new clone only.")
    options.add_argument(
        "--measure", choices=PARTS, help="Measure the installed thali, and print JSON. For internal use."
    )
    chosen = options.parse_args()
    if chosen.measure:
        sys.path.insert(0, os.environ.get("PYTHONPATH", str(HERE)))
        print(json.dumps(PARTS[chosen.measure]()))
        return
    if chosen.old is None:
        options.error("the path of the older clone is missing: make compare OLD=path")
    trees = (chosen.old.resolve(), HERE.parent)
    for part in PARTS if chosen.only is None else [chosen.only]:
        runs: list[list[Times]] = [[], []]
        for number in range(chosen.rounds):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                runs[which].append(measured(trees[which], part, chosen.serve if which else ""))
        print(f"\n| {part}, {chosen.rounds} rounds | old, µs | new, µs | new/old (lowest to highest round) |")
        print("|---|---|---|---|")
        for name in runs[0][0]:
            old, new = (np.array([times[name] for times in tree]) for tree in runs)
            ratio = new / old
            spread = f"{np.median(ratio):.3f} ({ratio.min():.3f} to {ratio.max():.3f})"
            print(f"| {name} | {np.median(old):,.2f} | {np.median(new):,.2f} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
