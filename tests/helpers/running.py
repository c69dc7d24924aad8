"""Ways to run experiments: in this process, or by the command."""

import subprocess
import sys
from concurrent.futures import Future
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from unittest.mock import patch

from thali.cli.app import main


class Inline:
    """An executor that runs each task immediately, in this process."""

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def thali_command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "thali", *words], capture_output=True, text=True, timeout=500, check=False, **options
    )


def thali_here(*words, cwd="."):
    """Run a command in this process, and return the same as thali_command. This saves a second of imports."""
    words = ["thali", *map(str, words)]
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as errors,
        chdir(cwd),
        patch("sys.argv", words),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
            if isinstance(code, str):  # Python prints it and exits with 1
                print(code, file=errors)
                code = 1
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def assert_refused(*words, said, folder):
    """Assert that a command in this folder fails with a message that says this, and stores no results."""
    done = thali_here(*words, cwd=folder)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.rglob("*.parquet"))
