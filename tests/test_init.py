"""The names of the package: imported when first asked for, and all there."""

import subprocess
import sys

import pytest

import thali


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_public_name_is_there():
    for name in thali.__all__:
        assert getattr(thali, name) is not None
    assert set(thali.__all__) <= set(dir(thali))


@pytest.mark.parametrize("first", ["pass", "thali.Run", "import thali.lab.compare", "from thali import *"])
def test_the_function_simulate_is_found_whatever_came_first(first):
    """A module of the same name would hide it."""
    assert fresh(f"import thali\n{first}\nprint(thali.simulate.__name__, callable(thali.simulate))") == "simulate True"


def test_modules_are_found_and_other_names_are_errors():
    assert fresh("import thali; print(thali.theory.LEAST_SIGMA, thali.datasets.movielens_1m.__name__)") == (
        "1e-06 movielens_1m"
    )
    with pytest.raises(AttributeError, match="No thali attribute Catalogue"):
        thali.Catalogue  # noqa: B018 (asking is the test)


@pytest.mark.parametrize("module", ["thali", "thali.cli.app"])
def test_nothing_large_is_imported_before_it_is_needed(module):
    large = {"numpy", "scipy", "numba", "matplotlib", "polars", "rich.markdown"}
    assert fresh(f"import sys, {module}; print(sorted({large} & set(sys.modules)))") == "[]"
