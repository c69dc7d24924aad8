"""What the commands say if an extra is not installed: before any work, and with a command that installs it."""

import re
import subprocess
import sys

import pytest
from typer.main import get_command

from thali.cli.app import app
from thali.cli.bare import COMMANDS

HIDING = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
sys.argv = ["thali", *{words!r}]
from thali.cli.app import main
main()
"""


def thali_without(hidden, *words, cwd):
    """Run a command as if some modules were not installed."""
    program = HIDING.format(hidden=hidden, words=words)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (("demo",), "matplotlib"),
        (("reproduce",), "matplotlib"),
        (("sweep", "synthetic/20k", "--alpha", "1"), "matplotlib"),
        (("robustness", "movielens"), "matplotlib"),
        (("report", "results"), "matplotlib"),
        (("run", "synthetic/20k"), "polars"),
        (("run", "synthetic/20k", "--cluster", "tcp://127.0.0.1:1"), "distributed"),
    ],
)
def test_a_missing_module_is_named_before_any_work(words, hidden, tmp_path):
    done = thali_without([hidden], *words, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"thali: thali {words[0]} needs {hidden}. ")
    assert "In a clone of thali, run: pip install '.[lab]'. Elsewhere, run: pip install 'thali[lab]'" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "hidden", "said"),
    [
        (("serve", "films.parquet"), "uvicorn", "thali: thali serve needs the extra 'serve'"),
        (("demo", "--web"), "fastapi", "thali: thali demo --web needs the extra 'serve'"),
        (("backup", "x", "--store", "postgresql://db/x"), "psycopg", "thali: a PostgreSQL store needs psycopg. "),
    ],
)
def test_the_service_names_its_extra(words, hidden, said, tmp_path):
    done = thali_without([hidden], *words, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert "In a clone of thali, run: pip install '.[serve]'. Elsewhere, run: pip install 'thali[serve]'" in done.stderr


@pytest.mark.parametrize("words", [(), ("--help",), ("run", "--help")])
def test_help_without_extras_says_what_to_install(words, tmp_path):
    done = thali_without(["typer"], *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "In a clone of thali, run: pip install '.[lab,serve]'." in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    listed = {word for names in COMMANDS.values() for word in re.findall(r"(?<!-)\b[a-z][a-z-]*", names)}
    assert listed == set(get_command(app).commands)


def test_version_and_commands_without_extras(tmp_path):
    version = thali_without(["typer"], "--version", cwd=tmp_path)
    assert (version.returncode, version.stdout.strip()) == (0, "0.1.0")
    command = thali_without(["typer"], "demo", cwd=tmp_path)
    assert command.returncode == 1
    assert "thali: commands need the extra 'lab' or 'serve'. In a clone" in command.stderr
