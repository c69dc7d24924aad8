"""The names of the package: all of them exist, and each is imported on first use."""

import subprocess
import sys

import pytest

import thali


def output_of(code):
    """Run code in a new Python process, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_public_name_exists():
    for name in thali.__all__:
        assert getattr(thali, name) is not None
    assert set(thali.__all__) <= set(dir(thali))


@pytest.mark.parametrize("first", ["pass", "thali.Run", "import thali.lab.compare", "from thali import *"])
def test_simulate_is_a_function_in_any_order_of_imports(first):
    """A module of the same name would hide the function."""
    assert (
        output_of(f"import thali\n{first}\nprint(thali.simulate.__name__, callable(thali.simulate))") == "simulate True"
    )


def test_modules_are_attributes_and_unknown_names_are_errors():
    assert output_of("import thali; print(thali.theory.LEAST_SIGMA, thali.datasets.movielens_1m.__name__)") == (
        "0.001 movielens_1m"
    )
    with pytest.raises(AttributeError, match="No thali attribute Catalogue"):
        thali.Catalogue  # noqa: B018 (the access is the test)


@pytest.mark.parametrize("module", ["thali", "thali.cli.app"])
def test_nothing_large_is_imported_before_it_is_needed(module):
    large = {"numpy", "scipy", "numba", "matplotlib", "polars", "rich.markdown"}
    assert output_of(f"import sys, {module}; print(sorted({large} & set(sys.modules)))") == "[]"
