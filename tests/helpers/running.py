"""Ways to run experiments: in this process, or by the command."""

import subprocess
import sys
from concurrent.futures import Future


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
