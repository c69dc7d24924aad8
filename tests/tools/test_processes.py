"""Pools that are ended early leave no process, and print nothing. A process knows whether its terminal was closed."""

import os
import subprocess
import sys
import time

import pytest
from terminal import in_terminal

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


TERMINAL = """
import os, resource, signal, sys, time
from pathlib import Path
from thali.tools import processes

processes.TERMINAL_S = 0.5
closed = processes.closing_terminal()
signal.signal(signal.SIGHUP, lambda *_: Path("answer").write_text(str(closed())))
if "busy" in sys.argv[1]:  # for some time, no more files can be opened
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    files = []
    try:
        while True:
            files.append(os.dup(0))
    except OSError:
        time.sleep(2.0)
    for file in files:
        os.close(file)
Path("ready").write_text(str(os.getpid()))
time.sleep(30)
"""


def content(path, seconds=20.0):
    """Wait for a file, and return what is in it."""
    until = time.monotonic() + seconds
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return path.read_text()


@pytest.mark.parametrize(
    ("how", "answer"),
    [("closes", "True"), ("busy, closes", "True"), ("stays", "False"), ("closed before", "False"), ("nohup", "False")],
)
def test_a_process_tells_a_closed_terminal_from_another_hangup(tmp_path, how, answer):
    """A background job survives if the shell of its terminal exits. Later, SIGHUP means something else again."""
    (tmp_path / "script.py").write_text(TERMINAL)
    command = f"{sys.executable} script.py '{how}'"
    shell = {"nohup": f"nohup {command} > output", "closed before": f"set -m; {command} & cat ready_to_exit"}
    os.mkfifo(tmp_path / "ready_to_exit")
    shell_pid, terminal = in_terminal(tmp_path, "/bin/sh", "-c", shell.get(how, f"exec {command}"))
    pid = int(content(tmp_path / "ready"))
    try:
        if how == "closed before":
            (tmp_path / "ready_to_exit").write_text("go")
            os.waitpid(shell_pid, 0)
            os.close(terminal)
            time.sleep(2.0)
        elif "closes" in how:
            os.close(terminal)
        if "closes" not in how:
            os.kill(pid, 1)
        assert content(tmp_path / "answer") == answer
    finally:
        os.kill(pid, 9)
        if how in ("stays", "nohup"):
            os.close(terminal)
        if how != "closed before":
            os.waitpid(shell_pid, 0)
