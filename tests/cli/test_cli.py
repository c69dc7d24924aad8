"""The commands, as users run them."""

import subprocess
import sys
from pathlib import Path

import pytest
from running import thali_here
from typer.testing import CliRunner

from thali.cli.app import app


def thali(*arguments, cwd):
    """Run the installed command as a separate process."""
    command = Path(sys.executable).with_name("thali")
    return subprocess.run([command, *arguments], capture_output=True, text=True, cwd=cwd, timeout=300)


def test_demo_prints_the_table_and_saves_the_figure(tmp_path):
    done = thali("demo", "--steps", "300", "--seeds", "3", "--out", "out/regret.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for policy in ("CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"):
        assert policy in done.stdout
    assert "300/300" in done.stdout
    assert (tmp_path / "out" / "regret.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--alpha", "much"),
            "thali: alpha of CascadeLSB must be a number of at least 0, 'theory' or 'default', got 'much'",
        ),
        (("--alpha", "-1"), "thali: alpha of CascadeLSB must be a number of at least 0, got -1.0"),
        (("--sigma", "0"), "thali: sigma of CascadeLSB must be a number of at least 0.001, got 0.0"),
        (("--steps", "0"), "greater than or equal to 2"),
        (("--out", "figure.xyz"), "thali: out must end in .png, .svg or .pdf, got figure.xyz"),
    ],
)
def test_a_wrong_setting_prints_one_sentence_and_no_traceback(tmp_path, arguments, message):
    done = thali_here("demo", "--steps", "20", "--seeds", "2", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_version(tmp_path):
    assert "demo" in thali("--help", cwd=tmp_path).stdout
    assert thali("--version", cwd=tmp_path).stdout.strip() == "0.1.0"


@pytest.mark.parametrize("command", [(), ("serve",), ("catalog", "build"), ("run",), ("robustness",), ("first-lists",)])
def test_help_fits_into_80_columns_without_cutting_anything(monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, [*command, "--help"]).stdout
    assert "Options:" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "..." not in text.replace("[ARGS]...", "").replace("{SOURCE}...", "").replace("[SOURCE]...", "")
