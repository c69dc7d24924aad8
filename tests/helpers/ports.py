"""Ports of this machine for servers that go away and come back."""

import random
import socket

# Below those that a system gives to clients (from 32768 on Linux, 49152 elsewhere). A client that asks again and again
# for a server that is away would else be given, now and then, that very port, speak to itself, and keep the server out.
LOW, HIGH = 20_000, 32_000


def free_port() -> int:
    """A port on which nobody listens now."""
    while True:
        port = random.SystemRandom().randrange(LOW, HIGH)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
