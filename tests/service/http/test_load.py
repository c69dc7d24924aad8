"""The load generator, against a small stand-in for the service that records all requests."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import uvicorn

pytestmark = pytest.mark.slow  # they measure rates for seconds
LOAD = Path(__file__).parents[3] / "benchmarks" / "load.py"


class StandIn:
    """Returns lists of three items and accepts feedback. Every 10th feedback gets status 503. It can hang once."""

    def __init__(self):
        self.shown, self.answers, self.refused, self.strange = set(), [], 0, []
        self.stall = self.first = None

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        content = (await receive())["body"]
        status, reply = self.answer(scope["path"], json.loads(content) if content else None)
        body = json.dumps(reply).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def answer(self, path, body):
        if path == "/v1/recommend":
            assert body["user"] in ("u0", "u1", "u2")
            name = f"0-{len(self.shown)}"
            self.shown.add(name)
            return 200, {"impression": name, "items": [{"position": position} for position in range(3)]}
        if path == "/v1/feedback":
            if body["impression"] not in self.shown or body["clicked"] not in ([], [0], [1], [2]):
                self.strange.append(body)
            self.answers.append(body["impression"])
            if len(self.answers) % 10 == 0:
                self.refused += 1
                return 503, {}
            return 200, body
        self.first = self.first or time.perf_counter()
        if self.stall is not None and time.perf_counter() > self.first + self.stall:
            self.stall = None
            time.sleep(0.4)
        return 200, {"status": "ok"}


@pytest.fixture
def service():
    app = StandIn()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off", loop="asyncio"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    app.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield app
    server.should_exit = True
    thread.join(10)


def load(service, *arguments):
    command = [sys.executable, str(LOAD), "--url", service.url, "--users", "3", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_feedback_is_for_lists_that_were_shown_and_given_once(service):
    """The figures contain everything that the service saw: responses, and errors by status."""
    found = load(service, "--kind", "mixed", "--connections", 4, "--seconds", 0.5, "--warm", 0, "--repeat", 2)
    assert len(found["runs"]) == 2
    replies = {kind: sum(run["kinds"][kind]["replies"] for run in found["runs"]) for kind in ("recommend", "feedback")}
    assert not service.strange
    assert len(service.answers) == len(set(service.answers)) > 20
    assert replies == {"recommend": len(service.shown), "feedback": len(service.answers) - service.refused}
    assert found["spread"]["feedback"]["errors"] == found["spread"]["all"]["errors"] == {"503": service.refused}
    assert len(service.shown) - len(service.answers) in range(20)
    rate = found["spread"]["all"]["rate"]
    assert rate["lowest"] <= rate["median"] <= rate["highest"]
    for run in found["runs"]:
        figures = run["kinds"]["all"]
        assert 0 < figures["p50"] <= figures["p90"] <= figures["p99"] <= figures["max"]
        assert figures["rate"] * run["seconds"] == pytest.approx(figures["replies"], abs=4)


def test_feedback_alone_is_measured_after_impressions_were_collected(service):
    found = load(service, "--kind", "feedback", "--impressions", 300, "--connections", 4, "--warm", 0, "--seconds", 30)
    assert len(service.shown) == len(set(service.answers)) == 300
    (run,) = found["runs"]
    assert set(run["kinds"]) == {"feedback"}
    assert run["kinds"]["feedback"]["replies"] == 270
    assert run["kinds"]["feedback"]["rate"] == pytest.approx(270 / run["seconds"])


def test_an_open_loop_times_requests_from_when_they_were_due(service):
    """If the service hangs, an open loop counts the delay of all later requests. A closed loop counts only four."""
    shared = "--kind", "trivial", "--connections", 4, "--warm", 0.2, "--seconds", 1.8
    service.first, service.stall = None, 1.0
    (run,) = load(service, *shared, "--rate", 300)["runs"]
    opened = run["kinds"]["trivial"]
    assert service.stall is None
    assert 400 < opened["replies"] < 700
    assert not opened["errors"]
    assert opened["p90"] > 100
    assert opened["max"] > 350
    service.first, service.stall = None, 1.0
    (run,) = load(service, *shared)["runs"]
    closed = run["kinds"]["trivial"]
    assert service.stall is None
    assert closed["max"] > 350
    assert closed["p90"] < 50


def test_a_rate_above_what_the_service_can_do_leaves_requests_unanswered(service):
    """They count as errors. The rate contains only requests that were answered in time."""
    service.answer = lambda path, body: (time.sleep(0.02), (200, {}))[1]
    (run,) = load(service, "--kind", "trivial", "--connections", 2, "--warm", 0, "--seconds", 1, "--rate", 1000)["runs"]
    figures = run["kinds"]["trivial"]
    assert figures["rate"] <= 51
    assert figures["errors"]["unanswered"] > 400
    assert 800 < figures["errors"]["unanswered"] + figures["replies"] < 1200


def test_no_service_is_an_error():
    command = [sys.executable, str(LOAD), "--url", "http://127.0.0.1:9", "--kind", "trivial", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "ConnectionRefusedError" in done.stderr
