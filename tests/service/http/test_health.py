"""/v1/health: the process, its store and the slowest requests."""

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict

import pytest
from serving_here import serving

from thali.service.http.settings import LearnerSetting, Limits
from thali.service.http.slowest import MAX_REQUESTS

LEARNERS = (LearnerSetting("lsb", K=4, sigma=0.2, share=3.0), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))


@pytest.fixture
def service(store_url, tmp_path):
    """A service with a password in the URL of its store, if the store can have one."""
    with serving(tmp_path, store=store_url.replace("thali@", "thali:s3cret@"), learners=LEARNERS) as running:
        yield running


def test_health_of_a_store_that_can_be_used(service):
    before = time.time()
    with service.client() as client:
        client.feedback(client.recommend("ana").id, [0])
        first = asdict(client.health())
        client.recommend("ana")
        health = asdict(client.health())
    store, sqlite = health["store"], service.settings.store.startswith("sqlite")
    assert store["url"] == service.settings.store.replace(":s3cret", "")
    assert (store["kind"], store["usable"], store["error"]) == ("sqlite" if sqlite else "postgresql", True, None)
    assert 0 < store["seconds"] < 5
    assert store["bytes"] > 10_000
    assert before - 60 < health["started_at"] <= before
    assert (health["waiting"], health["most_waiting"], health["store_errors"]) == (0, 10_000, 0)
    assert health["tastes_in_memory"] == (1 if sqlite else 0)
    # One list, two transactions of the second health check, and possibly some tidying.
    assert 3 <= health["transactions"] - first["transactions"] <= 5
    assert 0 < health["transaction_seconds"] < 1
    made = service.ask("GET", "/healthz").headers["x-request-id"]
    assert made.startswith(f"{health['process']}-")


def test_health_of_a_store_that_has_stopped(postgres, tmp_path):
    url = postgres.fresh().replace("thali@", "thali:s3cret@")
    with serving(tmp_path, store=url) as service:
        postgres.stop("immediate")
        try:
            reply = service.ask("GET", "/v1/health")
        finally:
            postgres.start()
        store = reply.json["store"]
        assert (reply.status, store["usable"], store["bytes"]) == (200, False, None)
        assert store["error"].startswith(f"store {url.replace(':s3cret', '')} cannot be used: ")
        assert "\n" not in store["error"]
        assert 0 < store["seconds"] < 6
        assert reply.json["store_errors"] == 1
        assert b"s3cret" not in reply.body
        back = service.ask("GET", "/v1/health")
        assert (back.json["store"]["usable"], back.json["store"]["error"]) == (True, None)
        assert b"s3cret" not in back.body + service.log_file.read_bytes()


def test_health_does_not_wait_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr("thali.service.http.health.PATIENCE_S", 0.3)
    with serving(tmp_path) as service:
        with closing(sqlite3.connect(tmp_path / "thali.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            store = service.ask("GET", "/v1/health").json["store"]
            other.execute("ROLLBACK")
        assert (store["usable"], store["bytes"]) == (False, None)
        assert store["error"].endswith("cannot be used: it did not respond within 0.3 s")
        assert 0.29 < store["seconds"] < 3  # timers of uvloop may be a millisecond early
        assert service.ask("GET", "/v1/health").json["store"]["usable"]


def test_health_and_about_respond_even_if_no_request_may_use_the_store(tmp_path):
    with serving(tmp_path, limits=Limits(waiting=0)) as service, service.client() as client:
        assert not client.ready()
        assert asdict(client.about())["items"] == 24
        health = asdict(client.health())
        assert (health["store"]["usable"], health["store"]["error"]) == (False, "too many requests are waiting")
        assert (health["most_waiting"], health["transactions"], health["transaction_seconds"]) == (0, 0, None)


def test_health_notices_a_removed_file_although_sqlite_keeps_writing_to_it(tmp_path):
    with serving(tmp_path) as service:
        assert service.ask("GET", "/v1/health").json["store"]["usable"]
        os.rename(tmp_path / "thali.db", tmp_path / "elsewhere.db")
        store = service.ask("GET", "/v1/health").json["store"]
        assert (store["usable"], store["bytes"]) == (False, None)
        assert store["error"].endswith("cannot be used: No such file or directory")
        os.rename(tmp_path / "elsewhere.db", tmp_path / "thali.db")
        assert service.ask("GET", "/v1/health").json["store"]["usable"]


def test_the_slowest_requests_are_listed_by_route(tmp_path):
    with serving(tmp_path) as service, service.client() as client:
        for at in range(30):
            client.recommend(f"somebody{at}")
            client.user(f"somebody{at}")
        service.ask("GET", "/v1/users/nobody", X_Request_ID="mine")
        client.simulate(["CascadeLSB"], 300)
        service.ask("GET", "/somewhere")
        reply = service.ask("GET", "/v1/health")
        lines = {line["request_id"]: line for line in service.log() if line["event"] == "request"}
    slowest = reply.json["slowest"]
    own = reply.headers["x-request-id"]  # this request had not ended when the list was made
    others = sorted((line["ms"] for id, line in lines.items() if id != own), reverse=True)
    assert [one["ms"] for one in slowest] == others[:MAX_REQUESTS]
    assert (slowest[0]["method"], slowest[0]["route"], slowest[0]["status"]) == ("POST", "/v1/simulations", 200)
    assert {one["route"] for one in slowest} <= {"/v1/recommend", "/v1/users/{user}", "/v1/simulations", "none"}
    for one in slowest:
        line = lines[one["request_id"]]
        assert (one["method"], one["status"]) == (line["method"], line["status"])
        assert one["at"] == pytest.approx(line["at"], abs=0.1)
    assert b"somebody" not in reply.body
