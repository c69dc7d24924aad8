"""Measure how long a first use takes, in new processes, and update docs/first-use.md.

`make first-use` takes about seven minutes, most of which is compilation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from time import perf_counter

import numpy as np
import pages

FIRST_LIST = """
import thali
catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
policy = thali.CascadeLSB(catalog, K=2)
policy.recommend(policy.init(users=1))
"""

PAGE = "first-use.md"
WARMUP = ("-m", "thali", "warmup")
WARM = {
    "python -c pass": ("-c", "pass"),
    "import numba, scipy.sparse": ("-c", "import numba, scipy.sparse"),
    "import thali": ("-c", "import thali"),
    "import thali; thali.CascadeLSB": ("-c", "import thali; thali.CascadeLSB"),
    "thali --help": ("-m", "thali", "--help"),
    "thali run --help": ("-m", "thali", "run", "--help"),
    "first list, already compiled": ("-c", FIRST_LIST),
    "thali warmup, already compiled": WARMUP,
}
COLD = {
    "first list, not compiled yet": ("-c", FIRST_LIST),
    "thali warmup, not compiled yet": WARMUP,
}


def seconds(arguments: tuple[str, ...], cache: str) -> float:
    """Run a Python process with this folder for compiled kernels, and return its time.

    Python stores its own bytecode, as it does by default.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begin


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
    times: dict[str, list[float]] = {name: [] for name in (*WARM, *COLD)}
    for _ in range(chosen.cold):
        for name, arguments in COLD.items():
            with tempfile.TemporaryDirectory() as empty:
                times[name].append(seconds(arguments, empty))
    with tempfile.TemporaryDirectory() as cache:
        seconds(WARMUP, cache)
        for _ in range(chosen.repeats):  # alternately, so that other load on the machine affects all rows equally
            for name, arguments in WARM.items():
                times[name].append(seconds(arguments, cache))
    rows = [
        (name, len(taken), f"{np.median(taken):.2f} ({min(taken):.2f}-{max(taken):.2f})")
        for name, taken in times.items()
    ]
    text = pages.table("what is run | processes | seconds: median (lowest-highest)", rows)
    print(text)
    pages.write(chosen.docs / PAGE, "first_use", text)


if __name__ == "__main__":
    main()
