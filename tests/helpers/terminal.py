"""Run a program in a terminal of its own."""

import os
import pty
import signal


def in_terminal(folder, program, *arguments):
    """Start a program in this folder. Return its process id, and the terminal, which closes with os.close."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may have been started with nohup
        os.chdir(folder)
        os.execv(program, [program, *arguments])
    return pid, terminal
