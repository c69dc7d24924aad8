"""The wheel of thali-client, in an environment that has nothing else."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from serving import Service

CLIENT = Path(__file__).parents[2] / "client"
USE = """
import sys
from importlib.util import find_spec

import thali_client

absent = ("numpy", "numba", "scipy", "thali")
assert not [name for name in absent if find_spec(name) is not None]
with thali_client.Client(sys.argv[1]) as client:
    shown = client.recommend("ana", K=3)
    assert isinstance(shown, thali_client.Shown) and len(shown.items) == 3
    assert client.feedback(shown.id, [1]).clicked == [1]
    assert client.user("ana").clicked == 1
assert not [name for name in absent if name in sys.modules]
print(thali_client.__version__)
"""


@pytest.mark.slow
def test_the_wheel_works_without_the_server(tmp_path):
    """Needs a package registry, for hatchling, urllib3 and msgspec."""
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    run(sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, CLIENT)
    (wheel,) = tmp_path.glob("thali_client-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, *pip, "install", wheel)
    with Service(tmp_path) as service:
        version = run(python, "-I", "-c", USE, service.url)
    assert wheel.name.startswith(f"thali_client-{version.strip()}-")


def run(*command):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
