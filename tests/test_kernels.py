import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import thali


@pytest.mark.slow
def test_a_changed_kernel_is_compiled_anew_wherever_it_is_part_of_another(tmp_path):
    """Numba alone would keep the search that contains the old index: its own file has not changed."""
    package = tmp_path / "thali"
    shutil.copytree(Path(thali.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    script = "import thali; print(thali.greedy_lists(thali.Catalog([[0.1], [0.3], [0.2]]), [[1.0]], 3)[0].tolist())"

    def lists():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert lists() == "[1, 2, 0]"
    index = package / "kernels" / "index.py"
    source = index.read_text()
    assert "return m + alpha * sqrt(max(0.0, q))" in source
    index.write_text(source.replace("return m + alpha * sqrt(max(0.0, q))", "return -m"))
    assert lists() == "[0, 2, 1]"
