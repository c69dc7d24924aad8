"""Pools that are ended early leave no process, and print nothing."""

import subprocess
import sys

SCRIPT = """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from thali.tools.processes import end

if __name__ == "__main__":
    for _ in range(5):
        pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
        busy = [pool.submit(time.sleep, 60) for _ in range(4)]
        pool.submit(int)
        while not busy[0].running():
            time.sleep(0.01)
        thread = pool._executor_manager_thread
        end(pool)
        assert not thread.is_alive()
        assert all(one.done() for one in busy)
        assert not multiprocessing.active_children()
    end(ProcessPoolExecutor(1))  # that has done nothing yet
    print("ended")
"""


def test_a_pool_is_ended_at_once_and_python_exits_without_output(tmp_path):
    script = tmp_path / "ended.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
