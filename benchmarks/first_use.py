"""Measure how long a first use takes, in new processes, and update docs/first-use.md.

`make first-use` takes a few minutes, most of which is compilation. It uses port 8999.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from time import perf_counter

import numpy as np
import pages

FIRST_LIST = """
import thali
catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
policy = thali.CascadeLSB(catalog, K=2)
state = policy.init(users=1)
lists = policy.recommend(state)
policy.update(state, lists, [[True, False]])
policy.estimate(state)
"""
# The page's service, until it has answered its first request for a list, and then one for a simulation.
FIRST_PAGE = """
import json, subprocess, sys, time, urllib.request

def post(path, body):
    request = urllib.request.Request(
        "http://127.0.0.1:8999" + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return urllib.request.urlopen(request, timeout=120).read()

begin = time.monotonic()
command = [sys.executable, "-m", "thali", "demo", "--web", "--items", "dishes", "--port", "8999"]
page = subprocess.Popen(command, stderr=subprocess.DEVNULL)
try:
    while True:
        try:
            post("/v1/recommend", {"user": "ana"})
            break
        except OSError:
            time.sleep(0.05)
    listed = time.monotonic()
    post("/v1/simulations", {"policies": ["CascadeLSB", "LSBGreedy", "CascadeLinUCB"], "steps": 100, "seed": 0})
    print(listed - begin, time.monotonic() - listed)
finally:
    page.terminate()
    page.wait()
"""

PAGE = "first-use.md"
IMPORTS = "import numba, scipy.sparse"
WARMUP = ("-m", "thali", "warmup")
FIRST = "first list, update and estimate, {}"
PAGE_STEPS = ("`thali demo --web`, until its first list, {}", "then its first simulation, {}")
WARM = {
    "python -c pass": ("-c", "pass"),
    IMPORTS: ("-c", IMPORTS),
    "import thali": ("-c", "import thali"),
    "import thali; thali.CascadeLSB": ("-c", "import thali; thali.CascadeLSB"),
    "thali --help": ("-m", "thali", "--help"),
    "thali run --help": ("-m", "thali", "run", "--help"),
    FIRST.format("already compiled"): ("-c", FIRST_LIST),
    "thali warmup, already compiled": WARMUP,
}


def run(arguments: tuple[str, ...], cache: str) -> tuple[float, str]:
    """Run a Python process with this folder for compiled kernels. Return its time and its output.

    Python stores its own bytecode, as it does by default.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True)
    return perf_counter() - begin, done.stdout


def first_page(cache: str, state: str) -> dict[str, float]:
    """Return the time of each step in PAGE_STEPS."""
    _, printed = run(("-c", FIRST_PAGE), cache)
    return {name.format(state): float(taken) for name, taken in zip(PAGE_STEPS, printed.split(), strict=True)}


def main() -> None:
    """Measure, print the table, and update the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=10, help="Number of processes for each row (default: 10).")
    options.add_argument(
        "--cold",
        type=int,
        default=3,
        help="Number of processes for each row in which nothing is compiled yet (default: 3).",
    )
    pages.add_docs_option(options)
    chosen = options.parse_args()
    times: dict[str, list[float]] = {}

    def add(taken: Mapping[str, float]) -> None:
        for name, value in taken.items():
            times.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as cache:
        run(WARMUP, cache)
        for _ in range(chosen.repeats):  # in rotation, so that other load on the machine affects all rows equally
            add({name: run(arguments, cache)[0] for name, arguments in WARM.items()})
        for _ in range(chosen.cold):
            add(first_page(cache, "already compiled"))
    ratios = []
    for _ in range(chosen.cold):
        with tempfile.TemporaryDirectory() as empty:
            imports, _ = run(WARM[IMPORTS], empty)
            first, _ = run(("-c", FIRST_LIST), empty)
        ratios.append(first / imports)
        add({FIRST.format("not compiled yet"): first})
        with tempfile.TemporaryDirectory() as empty:
            add({"thali warmup, not compiled yet": run(WARMUP, empty)[0]})
        with tempfile.TemporaryDirectory() as empty:
            add(first_page(empty, "not compiled yet"))
    rows = [
        (name, len(taken), f"{np.median(taken):.2f} ({min(taken):.2f}-{max(taken):.2f})")
        for name, taken in times.items()
    ]
    text = pages.table("what is run | processes | seconds: median (lowest-highest)", rows)
    text += (
        f"\n\nWith nothing compiled, the first list, update and estimate took {np.median(ratios):.1f} times "
        f"({min(ratios):.1f}-{max(ratios):.1f}) as long as `{IMPORTS}` just before."
    )
    print(text)
    pages.write(chosen.docs / PAGE, "first_use", text)


if __name__ == "__main__":
    main()
