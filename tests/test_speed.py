"""Floors under the speed, as ratios within one run against textbook NumPy (benchmarks/, `make bench`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize(("case", "floor"), [("random sparse, 1-3 topics", 10), ("MovieLens-like", 30)])
def test_a_step_is_many_times_faster_than_textbook_numpy(case, floor):
    """In a process of its own, so that BLAS is held to one thread."""
    script = (
        "import numpy as np, speed; "
        f"ratios = [np.median(t['numpy'] / t['thali']) for warm in (1, 100, 1000) "
        f"for t in [speed.measure({case!r}, None, warm=warm, repeats=30)]]; print(np.median(ratios))"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) >= floor


@pytest.mark.slow
def test_a_step_of_kl_ucb_is_many_times_faster_than_bisection():
    script = (
        "import numpy as np, klucb; "
        "print(min(np.median(t['numpy'] / t['thali']) for warm in (1, 100, 1000, 10_000) "
        "for t in [klucb.measure(warm=warm, repeats=30)]))"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 60
