"""The service on a real socket, in a thread of the test process."""

from __future__ import annotations

import http.client
import io
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import uvicorn

import thali
from thali.service.http.app import create_app
from thali.service.http.middleware import Stack
from thali.service.http.settings import LearnerSetting, Settings

TOPICS = ("action", "comedy", "drama", "music")
START_S = 60.0


class Reply(NamedTuple):
    """A response. The names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def field(self) -> Any:
        """The field that an error names. Checks that the error is complete and has the request ID of this response."""
        error = self.json
        assert set(error) == {"error", "field", "request_id"}
        assert error["error"]
        assert error["request_id"] == self.headers["x-request-id"]
        return error["field"]


@dataclass
class Serving:
    """A running service."""

    app: Stack
    catalog: thali.Catalog
    settings: Settings
    port: int
    log_file: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **settings: Any) -> thali.Client:
        return thali.Client(self.url, **{"retries": 0, "timeout": 30.0, **settings})

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Reply:
        """Send one request. The path and a body of bytes are sent unchanged. Write header names with _ instead of -."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, body, sent)
            with connection.getresponse() as reply:
                return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())

    def send(self, raw: bytes) -> Reply:
        """Send raw bytes, and return the response. The service must close the connection afterwards."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(raw)
            with http.client.HTTPResponse(line) as reply:
                reply.begin()
                return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())

    def log(self) -> list[dict[str, Any]]:
        """Return the log so far. Each line must be JSON."""
        return [json.loads(line) for line in self.log_file.read_bytes().split(b"\n")[:-1]]


def small_catalog(items: int = 24) -> thali.Catalog:
    """Return a catalog of items i0, i1, ..., each with some of four topics."""
    draw = np.random.default_rng(6)
    weights = draw.uniform(0.1, 0.6, (items, len(TOPICS))) * (draw.random((items, len(TOPICS))) < 0.4)
    weights[np.arange(items), np.arange(items) % len(TOPICS)] = 0.5
    return thali.Catalog(weights, items=[f"i{e}" for e in range(items)], topics=list(TOPICS))


@contextmanager
def serving(
    folder: Path,
    *,
    catalog: thali.Catalog | None = None,
    catalog_file: Path | None = None,
    port: int = 0,
    **settings: Any,
) -> Iterator[Serving]:
    """Serve a catalog, or a catalog file, with lists of 4 items. The store and the log are in the folder.

    port: 0 means any free port.
    """
    file, log_file = catalog_file or folder / "catalog.parquet", folder / "log.jsonl"
    if catalog_file is None:
        catalog = small_catalog() if catalog is None else catalog
        thali.save_catalog(catalog, file)
    else:
        catalog = thali.load_catalog(file)
    chosen = Settings(
        catalog=str(file),
        **{
            "store": f"sqlite:///{folder / 'thali.db'}",
            "learners": (LearnerSetting("default", K=4),),
            **settings,
        },
    )
    with log_file.open("ab") as log, closing(socket.socket()) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a former service may have used this port
        line.bind(("127.0.0.1", port))
        before, sys.stderr = sys.stderr, io.TextIOWrapper(log, write_through=True)
        try:
            app = create_app(chosen)
        finally:
            sys.stderr.detach()  # the log still writes to this file
            sys.stderr = before
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", access_log=False, lifespan="on", server_header=False)
        )
        thread = Thread(target=server.run, kwargs={"sockets": [line]}, daemon=True)
        thread.start()
        until = time.monotonic() + START_S
        while not server.started:
            assert thread.is_alive(), "the service ended at its start"
            assert time.monotonic() < until, f"the service did not start in {START_S:g} s"
            time.sleep(0.01)
        try:
            yield Serving(app, catalog, chosen, line.getsockname()[1], log_file)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive(), "the service does not stop"
