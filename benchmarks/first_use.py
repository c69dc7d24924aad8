"""Seconds that a first use takes, each in a fresh process: import, help, the first list, compiling ahead of time.

make first-use prints the table in docs/performance.md in some seven minutes, most of them compiling.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from time import perf_counter

import numpy as np

FIRST_LIST = """
import thali
catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
policy = thali.CascadeLSB(catalog, K=2)
policy.recommend(policy.init(users=1))
"""

WARM = {
    "python -c pass": ("-c", "pass"),
    "import numba, scipy.sparse": ("-c", "import numba, scipy.sparse"),
    "import thali": ("-c", "import thali"),
    "import thali; thali.CascadeLSB": ("-c", "import thali; thali.CascadeLSB"),
    "thali --help": ("-m", "thali", "--help"),
    "thali run --help": ("-m", "thali", "run", "--help"),
    "the first list, compiled before": ("-c", FIRST_LIST),
    "thali warmup, compiled before": ("-m", "thali", "warmup"),
}


def seconds(arguments: tuple[str, ...], cache: str) -> float:
    """The time of a process, with compiled kernels kept in cache and Python's own bytecode kept as by default."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begin


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=10, help="Processes of each kind.")
    options.add_argument("--cold", type=int, default=3, help="Processes that compile everything.")
    chosen = options.parse_args()
    times: dict[str, list[float]] = {name: [] for name in WARM}
    cold: dict[str, list[float]] = {"the first list, nothing compiled": [], "thali warmup, nothing compiled": []}
    for _ in range(chosen.cold):
        for name, arguments in zip(cold, (("-c", FIRST_LIST), ("-m", "thali", "warmup")), strict=True):
            with tempfile.TemporaryDirectory() as empty:
                cold[name].append(seconds(arguments, empty))
    with tempfile.TemporaryDirectory() as cache:
        seconds(WARM["thali warmup, compiled before"], cache)
        for _ in range(chosen.repeats):  # in turns, so that a busy moment falls on all alike
            for name, arguments in WARM.items():
                times[name].append(seconds(arguments, cache))
    print("| what | processes | seconds, median (lowest to highest) |\n|---|---|---|")
    for name, found in {**times, **cold}.items():
        print(f"| {name} | {len(found)} | {np.median(found):.2f} ({min(found):.2f}-{max(found):.2f}) |")


if __name__ == "__main__":
    main()
