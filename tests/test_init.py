"""The names of the package: imported when first asked for, and all there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import thali


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_public_name_is_there():
    for name in thali.__all__:
        assert getattr(thali, name) is not None
    assert set(thali.__all__) <= set(dir(thali))


def test_what_type_checkers_see_is_what_is_imported():
    """The imports under TYPE_CHECKING, the table and ``__all__`` are one list."""
    tree = ast.parse(Path(thali.__file__).read_text())
    imports = [node for branch in tree.body if isinstance(branch, ast.If) for node in branch.body]
    homes = {name.name: node.module for node in imports for name in node.names}
    assert set(homes) == set(thali.__all__)
    assert {name: home for name, home in homes.items() if home != "thali"} == thali._HOME


@pytest.mark.parametrize("first", ["pass", "thali.Run", "import thali.experiments.compare", "from thali import *"])
def test_the_function_simulate_is_found_whatever_came_first(first):
    """A module of the same name would hide it."""
    assert fresh(f"import thali\n{first}\nprint(thali.simulate.__name__, callable(thali.simulate))") == "simulate True"


def test_rooms_are_found_and_other_names_are_errors():
    assert fresh("import thali; print(thali.theory.LEAST_SIGMA, thali.datasets.movielens_1m.__name__)") == (
        "1e-06 movielens_1m"
    )
    with pytest.raises(AttributeError, match="module 'thali' has no attribute 'Catalogue'"):
        thali.Catalogue  # noqa: B018 (asking is the test)


@pytest.mark.parametrize("module", ["thali", "thali.cli"])
def test_nothing_large_is_imported_before_it_is_needed(module):
    large = {"numpy", "scipy", "numba", "matplotlib", "polars", "rich.markdown"}
    assert fresh(f"import sys, {module}; print(sorted({large} & set(sys.modules)))") == "[]"
