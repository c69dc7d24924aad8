"""Measure calls per second and latency of thali_client, compared with plain http.client as the best possible case.

Both call a minimal server in a separate process on this machine, which sends the same list of 10 items for every
request. They run alternately, so that other load on the machine affects both equally. http.client keeps one connection
per thread and does not decode the JSON. The difference is the cost of pooling, timeouts, retries and typed responses.

    python benchmarks/client.py
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

from thali_client import Client

TOPICS = [f"topic {n}" for n in range(6)]
ITEM = {
    "topics": TOPICS[:3],
    "gains": dict.fromkeys(TOPICS[:3], 0.123456789),
    "belief": 0.0987654321,
    "exploration": 0.1234567,
}
SHOWN = {
    "impression": "0192f0c1-2d3e-7000-8000-000000000001",
    "user": "ana",
    "learner": "default",
    "shown_at": 1.7e9 + 0.123,
    "click_probability": 0.4321,
    "items": [{"position": n, "item": f"film {n}", **ITEM} for n in range(10)],
}
CONTENT = json.dumps(SHOWN, separators=(",", ":")).encode()
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(CONTENT),
    CONTENT,
)
THREADS = 1, 8
Call = Callable[[], object]


class Server(asyncio.Protocol):
    """A server that sends the same response to every request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with an empty buffer."""
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        """Respond as soon as a request is complete."""
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            self._buffer = b""
            assert isinstance(self._transport, asyncio.Transport)
            self._transport.write(RESPONSE)


async def serve() -> None:
    """Run the server, and print its port."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=64)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def plain(port: int) -> Call:
    """Return a function that posts to /v1/recommend with http.client, over one connection per thread."""
    local = threading.local()

    def call() -> bytes:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port)
        content = json.dumps({"user": "ana", "K": 10}).encode()
        local.connection.request("POST", "/v1/recommend", content, {"Content-Type": "application/json"})
        received: bytes = local.connection.getresponse().read()
        return received

    return call


def latencies(call: Call, calls: int, threads: int) -> tuple[float, list[float]]:
    """Return the seconds that all calls took together, and those of each call."""

    def some() -> list[float]:
        times = []
        for _ in range(calls // threads):
            begin = perf_counter()
            call()
            times.append(perf_counter() - begin)
        return times

    with ThreadPoolExecutor(threads) as pool:
        begin = perf_counter()
        each = [future.result() for future in [pool.submit(some) for _ in range(threads)]]
        return perf_counter() - begin, [time for times in each for time in times]


def measure(callers: dict[str, Call], calls: int, rounds: int) -> None:
    """Print a table, with one row for each caller and number of threads."""
    print("| caller | threads | calls per second | p50, ms | p99, ms |\n|---|---|---|---|---|")
    for threads in THREADS:
        rates: dict[str, list[float]] = {name: [] for name in callers}
        times: dict[str, list[float]] = {name: [] for name in callers}
        for call in callers.values():
            latencies(call, 20 * threads, threads)  # open the connections
        for _ in range(rounds):
            for name, call in callers.items():
                seconds, each = latencies(call, calls, threads)
                rates[name].append(len(each) / seconds)
                times[name] += each
        for name in callers:
            p50, p99 = 1000 * np.percentile(times[name], [50, 99])
            print(f"| {name} | {threads} | {np.median(rates[name]):.0f} | {p50:.2f} | {p99:.2f} |")


def main() -> None:
    """Start the server, and measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--calls", type=int, default=2000, help="Number of calls per round (default: 2000).")
    options.add_argument("--rounds", type=int, default=10, help="Number of rounds (default: 10).")
    options.add_argument("--serve", action="store_true", help="Run only the server.")
    chosen = options.parse_args()
    if chosen.serve:
        asyncio.run(serve())
        return
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            with Client(f"http://127.0.0.1:{port}") as client:
                callers: dict[str, Call] = {
                    "http.client, not decoded": plain(port),
                    "thali_client": lambda: client.recommend("ana", K=10),
                }
                measure(callers, chosen.calls, chosen.rounds)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
