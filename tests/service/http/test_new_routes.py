"""Routes for bulk changes of items, new catalog files, priors, hidden items and explanations."""

import json
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from serving import Service, fitted_catalog
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.service.http.settings import LearnerSetting
from thali_client import Refused


@pytest.fixture
def service(tmp_path):
    learner = LearnerSetting("default", K=4, prior="learn")
    with serving(tmp_path, learners=(learner,), hide="clicked") as running:
        yield running


def test_ten_thousand_items_in_one_request(service):
    rng = np.random.default_rng(0)
    items = [{"item": f"new {n}", "topics": [str(rng.choice(TOPICS))]} for n in range(9_998)]
    items += [{"item": "i3", "remove": True}, {"item": "i4", "weights": {"drama": 0.25}}]
    begin = time.monotonic()
    with service.client() as client:
        assert client.put_items(items) == 10_000
        seconds = time.monotonic() - begin
        assert client.item("i4").weights == {"drama": 0.25}
        assert client.about().items == 24 - 1 + 9_998
        plain = small_catalog()
        plain.put("x", topics=items[0]["topics"])
        row = plain.dense[plain.item("x")]
        assert client.item("new 0").weights == {TOPICS[j]: row[j] for j in np.flatnonzero(row)}
        assert len(client.recommend("ana").items) == 4
    assert seconds < 20.0
    print(f"{seconds:.1f} s")


def test_of_many_changes_all_are_made_or_none(service):
    good = {"item": "new", "topics": ["drama"]}
    for bad, field in (
        ({"item": "b", "topics": ["no such topic"]}, "items[1].topics"),
        ({"item": "b", "weights": {"drama": 2.0}}, "items[1].weights.drama"),
        ({"item": "b"}, "items[1].weights"),
        ({"item": "b", "topics": ["drama"], "weights": {}}, "items[1].weights"),
        ({"item": "nobody", "remove": True}, "items[1].item"),
        ({"item": "i3", "remove": True, "weights": {"drama": 0.5}}, "items[1]"),
        ({"item": "i3", "remove": True, "topics": ["drama"]}, "items[1]"),
        (good, "items[1].item"),
        ({"item": "b", "topics": []}, "items[1].topics"),
    ):
        reply = service.ask("PUT", "/v1/items", {"items": [good, bad]})
        assert (reply.status, reply.field) == (422, field), reply.body
        assert service.ask("GET", "/v1/items/new").status == 404
    assert service.ask("PUT", "/v1/items", {"items": [good] * 10_001}).status == 422
    assert service.ask("PUT", "/v1/items", b'{"items": "' + b"x" * (9 << 20) + b'"}').status == 413
    assert service.ask("POST", "/v1/recommend", b'{"user": "' + b"x" * (2 << 20) + b'"}').status == 413


def test_a_changed_catalog_file_is_used_without_a_restart_and_a_broken_one_is_not(service, tmp_path):
    file = tmp_path / "catalog.parquet"
    with service.client() as client:
        for _ in range(5):
            client.feedback(client.recommend("ana").id, [1])
        before, shown = client.export("ana").learners["default"], client.recommend("ana")
        file.write_bytes(b"broken")
        with pytest.raises(Refused, match="catalog must be a file that can be loaded"):
            client.load_catalog()
        assert [i.item for i in client.recommend("ana").items] == [i.item for i in shown.items]
        larger = small_catalog(40)
        thali.save_catalog(larger, file)
        client.put_item("extra", {"drama": 0.1})
        with pytest.raises(Refused, match="number of changes: 1"):
            client.load_catalog()
        assert client.load_catalog(discard_changes=True).items == 40
        after = client.export("ana").learners["default"]
        assert (after.M, after.B) == (before.M, before.B)
        assert client.feedback(shown.id, [0]).clicked == [0]  # of a list from before
        assert client.about().items == 40
        assert client.item("i39").weights


def test_priors_and_explanations_over_http(service):
    with service.client() as client:
        assert client.priors()["default"].source == "none"
        for reply in (service.ask("POST", "/v1/prior", {}), service.ask("POST", "/v1/prior", {"learner": "x"})):
            assert (reply.status, reply.field) == (422, "learner")
        for n in range(6):
            for _ in range(3):
                client.feedback(client.recommend(f"u{n}").id, [0])
        learned = client.learn_prior()
        assert (learned.source, learned.people) == ("learned", 6)
        assert client.priors()["default"] == learned
        shown = client.recommend("new", explain=True, hide="nothing")
        assert shown.items[0].from_others == pytest.approx(shown.items[0].belief)
        assert shown.items[0].reason.startswith("Others like")
        assert client.stats().learners["default"].prior_check is None
    for body, field in (({"user": "ana", "hide": "x"}, "hide"), ({"user": "ana", "explain": 1}, "explain")):
        reply = service.ask("POST", "/v1/recommend", body)
        assert (reply.status, reply.field) == (422, field)
    assert service.ask("DELETE", "/v1/users/ana/histories/none").status == 404


@dataclass
class OldItem:
    """An item of a list as clients before this version knew it."""

    position: int
    item: Any
    topics: list[Any]
    gains: dict[Any, float]
    belief: float
    exploration: float


@dataclass
class OldShown:
    impression: str
    user: str
    learner: str
    shown_at: float
    click_probability: float
    items: list[OldItem]


def test_an_old_client_still_works(service):
    reply = service.ask("POST", "/v1/recommend", {"user": "ana", "K": 2})
    shown = msgspec.json.decode(reply.body, type=OldShown)
    assert [item.position for item in shown.items] == [0, 1]
    assert service.ask("POST", "/v1/feedback", {"impression": shown.impression, "clicked": [1]}).status == 200
    assert service.ask("PUT", "/v1/items/i0", {"weights": {"comedy": 0.5}}).json["weights"] == {"comedy": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_signal_loads_the_catalog_file_and_the_background_learns(tmp_path, kind, request):
    """In all processes. With PostgreSQL, there are two."""
    options = ["--prior", "learn", "--prior-every", "1", "--quality-every", "1"]
    store = None
    if kind == "postgresql":
        options, store = [*options, "--workers", "2"], request.getfixturevalue("postgres").fresh()
    with Service(tmp_path, *options, store=store) as running, running.client() as client:
        for n in range(5):
            client.feedback(client.recommend(f"u{n}").id, [0])
        catalog = thali.load_catalog(tmp_path / "catalog.parquet")
        catalog.put("a new film", [0.5] * catalog.d)
        thali.save_catalog(catalog, tmp_path / "catalog.parquet")
        os.kill(running.pid, signal.SIGHUP)
        until = time.monotonic() + 20
        while client.about().items != len(catalog) or client.priors()["default"].version == 0:
            assert time.monotonic() < until, running.tail()
            time.sleep(0.1)
        loaded = f'"event":"catalog-loaded","items":{len(catalog)},"topics_kept":{catalog.d},"topics_added":0'
        assert loaded in running.tail()
        assert client.item("a new film").weights
        (tmp_path / "catalog.parquet").write_bytes(b"broken")
        os.kill(running.pid, signal.SIGHUP)
        while '"event":"catalog-not-loaded"' not in running.tail():
            assert time.monotonic() < until, running.tail()
            time.sleep(0.1)
        assert client.recommend("u1").items


def wait_for(condition, running, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, running.tail()
        time.sleep(0.05)


@pytest.mark.slow
def test_a_service_that_may_fall_back_does_so_by_itself_and_stays_there_until_it_is_asked_to_learn(tmp_path):
    """A prior is learned from people who click everything. Then people come who click nothing."""
    options = ("--prior", "learn", "--prior-every", "1", "--prior-fallback")
    with Service(tmp_path, *options, start=fitted_catalog()) as running, running.client() as client:
        for n in range(40):
            for _ in range(3):
                client.feedback(client.recommend(f"early {n}").id, [0])
        wait_for(lambda: client.priors()["default"].source == "learned", running)
        for n in range(200):
            client.feedback(client.recommend(f"late {n}").id, [])
        wait_for(lambda: client.priors()["default"].fell_back, running)
        events = [json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{")]
        worse = [event for event in events if event["event"] == "prior-worse"]
        assert worse
        assert worse[-1]["difference"] > 0.005
        assert [event["event"] for event in events].index("prior-fell-back") > 0
        check = client.stats().learners["default"].prior_check
        assert (check.verdict, check.lists[0].first) == ("worse", 1)
        assert check.lists[0].predicted > 0.3 > check.lists[0].start >= check.lists[0].observed

        def held() -> bool:
            found = client.priors()["default"]
            return (found.source, found.fell_back) == ("start", True)

        time.sleep(2.5)  # two more rounds of the background work
        assert held()
        running.stop()
        running.start()
        assert held()
        again = client.learn_prior()
        assert (again.source, again.fell_back) == ("learned", False)
