"""The two wheels, thali and thali-client, installed in new environments. Needs a package registry."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from serving import Service

import thali_client

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
pytestmark = pytest.mark.slow

CLIENT_ALONE = """
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
BOTH = """
import tempfile
from importlib.metadata import requires, version

import thali, thali_client

assert thali.Client is thali_client.Client
assert f"thali-client=={version('thali-client')}" in requires("thali")
catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]], items=["Heat", "Ronin", "Fargo"])
with tempfile.TemporaryDirectory() as folder:
    with thali.Recommender(thali.CascadeLSB(catalog, K=2), f"sqlite:///{folder}/taste.db") as recommender:
        shown = recommender.recommend("ana")
assert isinstance(shown, thali_client.Shown)
print([item.item for item in shown.items])
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Both wheels as they are published: thali requires the client of the same version."""
    folder = tmp_path_factory.mktemp("wheels")
    command = (sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT / "client", ROOT)
    run(*command, THALI_CLIENT=f"=={thali_client.__version__}")
    assert sorted(wheel.name.partition("-")[0] for wheel in folder.iterdir()) == ["thali", "thali_client"]
    return folder


def environment(folder, *packages):
    """Create an environment with these packages, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, *PIP, "install", "--constraint", ROOT / "constraints.txt", *packages)
    return python


def test_the_client_needs_neither_the_library_nor_its_dependencies(wheels, tmp_path):
    (wheel,) = wheels.glob("thali_client-*.whl")
    python = environment(tmp_path / "venv", wheel)
    with Service(tmp_path) as service:
        version = run(python, "-I", "-c", CLIENT_ALONE, service.url)
    assert version.strip() == thali_client.__version__


def test_the_library_works_when_both_wheels_are_installed(wheels, tmp_path):
    python = environment(tmp_path / "venv", *wheels.iterdir())
    assert run(python, "-I", "-c", BOTH) == "['Heat', 'Fargo']\n"


def test_a_clone_installs_in_one_step(tmp_path):
    """``pip install .`` takes the client from the same clone."""
    python = environment(tmp_path / "venv", ROOT)
    assert run(python, "-I", "-c", "import thali; print(thali.Client.__module__)") == "thali_client.client\n"


def run(*command, **variables):
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "THALI_CLIENT")}
    done = subprocess.run(
        list(map(str, command)), env=kept | variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
