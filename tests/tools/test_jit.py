import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import thali
from thali.tools.jit import kernel_files

SCRIPT = "import thali; print(thali.greedy_lists(thali.Catalog([[0.1], [0.3], [0.2]]), [[1.0]], 3)[0].tolist())"


@pytest.mark.slow
def test_a_changed_kernel_is_compiled_again_in_every_kernel_that_contains_it(tmp_path):
    """Numba alone would keep the compiled search with the old index, because the file of the search has not changed."""
    package = tmp_path / "thali"
    shutil.copytree(Path(thali.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def lists():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert lists() == "[1, 2, 0]"
    # The index becomes -m, and is computed for every item, as if none were above 0.
    for name, old, new in (
        ("lists/plain.py", "    return value\n", "    return -mean\n"),
        ("lists/engine/bounds.py", "TINY = 1e-140", "TINY = 1e100"),
    ):
        file = package / name
        source = file.read_text()
        assert old in source
        file.write_text(source.replace(old, new))
    assert lists() == "[0, 2, 1]"


@pytest.fixture
def sealed(tmp_path):
    """Make a read-only copy of the package. Return a function that runs Python on it, given the home folder's mode."""
    site, home = tmp_path / "site", tmp_path / "home"
    shutil.copytree(Path(thali.__file__).parent, site / "thali", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    folders = [site, *(path for path in site.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    # Permission bits do not restrict root unless it drops the capability that overrides them.
    restricted = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []

    def run(*arguments, mode, **variables):
        home.chmod(mode)
        kept = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
        environment = {**kept, "PYTHONPATH": str(site), "HOME": str(home), **variables}
        command = [*restricted, sys.executable, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)

    yield run
    for folder in (home, *folders):
        folder.chmod(0o755)  # so that pytest can remove it


@pytest.mark.slow
def test_a_read_only_package_stores_compiled_code_elsewhere(sealed, tmp_path):
    done = sealed("-c", SCRIPT, mode=0o755)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[1, 2, 0]", "")
    assert list((tmp_path / "home").rglob("*.nbi"))


@pytest.mark.slow
def test_kernels_are_compiled_in_memory_with_one_warning_if_no_folder_is_writable(sealed, tmp_path):
    done = sealed("-c", SCRIPT, mode=0o555)
    assert (done.returncode, done.stdout.strip()) == (0, "[1, 2, 0]"), done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert "'thali warmup'" in done.stderr
    assert not list(tmp_path.rglob("*.nbi"))

    done = sealed("-m", "thali", "warmup", mode=0o555)
    assert done.returncode == 1
    assert "thali: NUMBA_CACHE_DIR must name a folder that can be written" in done.stderr

    given = tmp_path / "given"
    done = sealed("-c", SCRIPT, mode=0o555, NUMBA_CACHE_DIR=str(given))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[1, 2, 0]", "")
    assert list(given.rglob("*.nbi"))


def test_kernels_use_nothing_from_files_that_the_digest_does_not_cover():
    """A constant from another file could change while the compiled code stays in the cache."""
    package = Path(thali.__file__).parent
    covered = {".".join(("thali", *file.relative_to(package).with_suffix("").parts)) for file in kernel_files()}
    checked = 0
    for file in kernel_files():
        tree = ast.parse(file.read_text())
        origin = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("thali")
            for alias in node.names
        }
        for function in tree.body:
            if not isinstance(function, ast.FunctionDef) or not {"kernel", "inlined"} & {
                name.id for name in function.decorator_list if isinstance(name, ast.Name)
            }:
                continue
            checked += 1
            used = {
                node.id for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)
            }
            elsewhere = {name: origin[name] for name in used & origin.keys() if origin[name] not in covered}
            assert not elsewhere, f"{function.name} in {file.name}"
    assert checked > 100
