"""Local ports for servers that are stopped and started again."""

import random
import socket

# Below the ports that the system assigns to clients (from 32768 on Linux, 49152 elsewhere). Otherwise, a client that
# retries while the server is down could be assigned the server's port, connect to itself, and block the server.
LOW, HIGH = 20_000, 32_000


def free_port() -> int:
    """Return a port that is not in use now."""
    while True:
        port = random.SystemRandom().randrange(LOW, HIGH)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
