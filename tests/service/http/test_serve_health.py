"""What the service says it is, and how it is: /v1/about and /v1/health."""

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict

import pytest
from recommending import Clock, films
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.service.http.about import describe
from thali.service.http.settings import LearnerSetting, Limits, Settings, check_keys
from thali.service.http.slowest import GENERATION_S, MOST, Slowest

KEYS = {role: f"{role}-{'0123456789abcdef'}" for role in ("read", "write", "admin")}
LEARNERS = (LearnerSetting("lsb", K=4, sigma=0.2, share=3.0), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))


@pytest.fixture
def service(store_url, tmp_path):
    """With a password in its url, where there can be one."""
    with serving(tmp_path, store=store_url.replace("thali@", "thali:s3cret@"), learners=LEARNERS) as running:
        yield running


def test_about_is_what_the_service_was_started_with(tmp_path):
    weights = small_catalog().csr
    catalog = thali.Catalog(weights, items=[f"i{e}" for e in range(24)], topics=list(TOPICS), coverage="max")
    limits = Limits(body=50_000, waiting=7)
    keys = check_keys(list(KEYS.items()), "")
    with serving(tmp_path, catalog=catalog, learners=LEARNERS, limits=limits, keys=keys) as service:
        for role, key in KEYS.items():
            with service.client(key=key) as client:
                told = client.about()
            assert (told["role"], told["keys"]) == (role, True)
        for key in (None, "not-a-key-of-this-service"):
            bare = service.ask("GET", "/v1/about", key=key).json
            assert {name for name, value in bare.items() if value is not None} == {"keys"}
            assert bare["keys"] is True
            assert bare.keys() == told.keys()
        with service.client(key=KEYS["admin"]) as client:
            client.remove_item("i3")
            client.recommend("ana")  # the next transaction, with which the catalog changes
            assert client.about() == {**told, "items": 23}
            for policy in told["policies"]:
                assert client.simulate([policy], 2, K=2)["runs"][0]["policy"] == policy
    assert told.pop("policies") == [name for name in thali.POLICIES if name != "Oracle"]
    assert {name: told[name] for name in ("version", "items", "topics", "coverage", "limits")} == {
        "version": thali.__version__, "items": 24, "topics": list(TOPICS), "coverage": "max", "limits": asdict(limits),
    }  # fmt: skip
    lsb, plain = told["learners"]
    assert lsb == {
        "name": "lsb", "policy": "CascadeLSB", "K": 4, "sigma": 0.2, "alpha": 4.0, "share": 0.75,
        "features": "gains", "examined": "first-click",
    }  # fmt: skip
    assert (plain["name"], plain["policy"], plain["features"]) == ("plain", "CascadeLinUCB", "items")
    assert (plain["K"], plain["alpha"], plain["share"]) == (3, 2.0, 0.25)


def test_about_has_a_number_for_the_optimism_of_theory(tmp_path):
    policy = thali.CascadeLSB(films(), K=3, alpha="theory", horizon=1000)
    with thali.Recommender(policy, store=f"sqlite:///{tmp_path / 'taste.db'}") as home:
        told = describe(Settings("none"), home, "admin")
    assert (told.keys, told.coverage) == (False, "probabilistic")
    assert told.learners[0].alpha == thali.theory.optimism(4, 3, 1000, policy.sigma)


def test_health_of_a_store_that_can_be_used(service):
    before = time.time()
    with service.client() as client:
        client.feedback(client.recommend("ana").id, [0])
        first = client.health()
        client.recommend("ana")
        told = client.health()
    store, sqlite = told["store"], service.settings.store.startswith("sqlite")
    assert store["url"] == service.settings.store.replace(":s3cret", "")
    assert (store["kind"], store["usable"], store["error"]) == ("sqlite" if sqlite else "postgresql", True, None)
    assert 0 < store["seconds"] < 5
    assert store["bytes"] > 10_000
    assert before - 60 < told["started_at"] <= before
    assert (told["waiting"], told["most_waiting"], told["store_errors"]) == (0, 10_000, 0)
    assert told["tastes_in_memory"] == (1 if sqlite else 0)
    # A list, and two of the second question's own; and perhaps some tidying.
    assert 3 <= told["transactions"] - first["transactions"] <= 5
    assert 0 < told["transaction_seconds"] < 1
    made = service.ask("GET", "/healthz").headers["x-request-id"]
    assert made.startswith(f"{told['process']}-")


def test_health_of_a_store_that_is_gone(postgres, tmp_path):
    url = postgres.fresh().replace("thali@", "thali:s3cret@")
    with serving(tmp_path, store=url) as service:
        postgres.stop("immediate")
        try:
            reply = service.ask("GET", "/v1/health")
        finally:
            postgres.start()
        told = reply.json["store"]
        assert (reply.status, told["usable"], told["bytes"]) == (200, False, None)
        assert told["error"].startswith(f"store {url.replace(':s3cret', '')} cannot be used: ")
        assert "\n" not in told["error"]
        assert 0 < told["seconds"] < 6
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
            told = service.ask("GET", "/v1/health").json["store"]
            other.execute("ROLLBACK")
        assert (told["usable"], told["bytes"]) == (False, None)
        assert told["error"].endswith("cannot be used: nothing was done for 0.3 s")
        assert 0.29 < told["seconds"] < 3  # timers of uvloop may be a millisecond early
        assert service.ask("GET", "/v1/health").json["store"]["usable"]


def test_where_nobody_is_let_to_the_store_both_still_answer(tmp_path):
    with serving(tmp_path, limits=Limits(waiting=0)) as service, service.client() as client:
        assert not client.ready()
        assert client.about()["items"] == 24
        told = client.health()
        assert (told["store"]["usable"], told["store"]["error"]) == (False, "too many requests are waiting")
        assert (told["most_waiting"], told["transactions"], told["transaction_seconds"]) == (0, 0, None)


def test_health_says_that_the_file_is_gone_to_which_sqlite_writes_on(tmp_path):
    with serving(tmp_path) as service:
        assert service.ask("GET", "/v1/health").json["store"]["usable"]
        os.rename(tmp_path / "thali.db", tmp_path / "elsewhere.db")
        told = service.ask("GET", "/v1/health").json["store"]
        assert (told["usable"], told["bytes"]) == (False, None)
        assert told["error"].endswith("cannot be used: No such file or directory")
        os.rename(tmp_path / "elsewhere.db", tmp_path / "thali.db")
        assert service.ask("GET", "/v1/health").json["store"]["usable"]


def test_the_slowest_are_told_by_route(tmp_path):
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
    own = reply.headers["x-request-id"]  # not over yet when it answered
    others = sorted((line["ms"] for id, line in lines.items() if id != own), reverse=True)
    assert [one["ms"] for one in slowest] == others[:MOST]
    assert (slowest[0]["method"], slowest[0]["route"], slowest[0]["status"]) == ("POST", "/v1/simulations", 200)
    assert {one["route"] for one in slowest} <= {"/v1/recommend", "/v1/users/{user}", "/v1/simulations", "none"}
    for one in slowest:
        line = lines[one["request_id"]]
        assert (one["method"], one["status"]) == (line["method"], line["status"])
        assert one["at"] == pytest.approx(line["at"], abs=0.1)
    assert b"somebody" not in reply.body


def test_the_slowest_are_bounded_ordered_and_forgotten():
    clock = Clock()
    slowest = Slowest(clock)

    def add(*seconds):
        for each in seconds:
            slowest.add(each, f"id{each}", "GET", "/v1/users/{user}", 200)

    def told():
        return [round(one.ms / 1000) for one in slowest.all()]

    begin = clock()
    add(*range(50), *range(60, 30, -1), 60)
    assert told() == sorted([*range(50), *range(60, 30, -1), 60], reverse=True)[:MOST]
    assert len(told()) == MOST
    assert asdict(slowest.all()[0]) == {
        "at": begin, "request_id": "id60", "method": "GET", "route": "/v1/users/{user}", "status": 200, "ms": 60_000.0,
    }  # fmt: skip
    clock.tick(GENERATION_S)
    add(1, 100)  # in a new generation, beside those of the one before
    assert told() == [100, *sorted([*range(50), *range(60, 30, -1), 60], reverse=True)[: MOST - 1]]
    clock.tick(GENERATION_S)
    add(2)  # those of the first are forgotten, and quick ones are slow again
    assert told() == [100, 2, 1]
    clock.tick(GENERATION_S)
    assert told() == [2]
    clock.tick(2 * GENERATION_S)  # nothing came for an hour
    assert told() == []
    add(3)
    clock.tick(2 * GENERATION_S)
    add(4)
    assert told() == [4]
