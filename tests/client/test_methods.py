"""What each method of the client sends and returns."""

import json
from urllib.parse import unquote

import numpy as np
import pytest
from faulty_server import status

from thali_client import (
    About,
    Answer,
    Conflict,
    Export,
    Forgotten,
    Health,
    Impression,
    Item,
    LearnerTaste,
    Rate,
    ServiceError,
    Shown,
    ShownItem,
    Simulated,
    SimulatedRun,
    StoreHealth,
    TopicTaste,
    User,
)

SHOWN = {
    "impression": "i1", "user": "ana", "learner": "main", "shown_at": 1.5, "click_probability": 0.25,
    "items": [
        {"position": 0, "item": "a/b", "topics": ["x"], "gains": {"x": 0.5}, "belief": 0.1, "exploration": 0.2},
        {"position": 1, "item": "c", "topics": [], "gains": {}, "belief": 0.0, "exploration": 0.0},
    ],
}  # fmt: skip
UNANSWERED = {**SHOWN, "clicked": None, "answer": None, "answered_at": None}
ANSWER = {"impression": "i1", "clicked": [1], "answer": "feedback"}
ITEMS = [ShownItem(0, "a/b", ["x"], {"x": 0.5}, 0.1, 0.2), ShownItem(1, "c", [], {}, 0.0, 0.0)]


def test_a_list_and_its_feedback(service, client):
    service.replies = {("POST", "/v1/recommend"): SHOWN, ("POST", "/v1/feedback"): ANSWER}
    shown = client.recommend("ana", K=np.int64(2), exclude={"z"}, alpha=np.float64(8))
    assert shown == Shown("i1", "ana", "main", 1.5, 0.25, ITEMS)
    assert client.feedback(shown.id, np.flatnonzero([False, True])) == Answer("i1", [1], "feedback")
    sent = [(method, path, body) for method, path, body, _ in service.seen]
    assert sent == [
        ("POST", "/v1/recommend", {"user": "ana", "K": 2, "exclude": ["z"], "alpha": 8.0}),
        ("POST", "/v1/feedback", {"impression": "i1", "clicked": [1]}),
    ]
    assert service.connections == 1


def test_impressions(service, client):
    service.replies = {
        ("DELETE", "/v1/impressions/i1/feedback"): {"impression": "i1", "clicked": None, "answer": None},
        ("GET", "/v1/impressions/i1"): {**SHOWN, "clicked": [], "answer": "time-out", "answered_at": 2.5},
    }
    assert client.undo("i1") == Answer("i1", None, None)
    assert client.impression("i1") == Impression("i1", "ana", "main", 1.5, 0.25, ITEMS, [], "time-out", 2.5)


def test_users(service, client):
    taste = {"topic": "x", "estimate": 0.5, "low": 0.4, "high": 0.6}
    service.replies = {
        ("GET", "/v1/users/ana"): {
            "user": "ana", "impressions": 3, "answered": 2, "clicked": 1,
            "learners": {"main": {"updates": 2, "assigned": True, "taste": [taste]}},
        },
        ("DELETE", "/v1/users/ana"): {"user": "ana", "impressions": 3, "updates": 2},
        ("GET", "/v1/users/ana/export"): {
            "user": "ana", "exported_at": 3.5, "learners": {}, "impressions": [UNANSWERED]
        },
    }  # fmt: skip
    learners = {"main": LearnerTaste(2, True, [TopicTaste("x", 0.5, 0.4, 0.6)])}
    assert client.user("ana") == User("ana", 3, 2, 1, learners)
    assert client.forget("ana") == Forgotten("ana", 3, 2)
    impression = Impression("i1", "ana", "main", 1.5, 0.25, ITEMS, None, None, None)
    assert client.export("ana") == Export("ana", 3.5, {}, [impression])


def test_items(service, client):
    weights = {"item": "c", "weights": {"x": 0.5}}
    service.replies = {
        ("PUT", "/v1/items/c"): weights,
        ("GET", "/v1/items/c"): weights,
        ("DELETE", "/v1/items/c"): weights,
        ("GET", "/v1/topics"): {"topics": ["x", "y"]},
    }
    assert client.put_item("c", {"x": 0.5}) == client.item("c") == client.remove_item("c") == Item("c", {"x": 0.5})
    assert service.seen[0][2] == {"weights": {"x": 0.5}}
    assert client.topics() == ["x", "y"]


def test_the_service_itself(service, client):
    learner = {
        "policy": "CascadeLSB", "K": 5, "sigma": 0.1, "alpha": "theory", "share": 1.0, "users": 1, "impressions": 2,
        "answered": 1, "clicked": 1, "click_rate": {"rate": 1.0, "low": 0.2, "high": 1.0}, "diversity": None,
        "exploration_share": None, "calibration": [],
    }  # fmt: skip
    store = {"url": "sqlite:///x", "kind": "sqlite", "usable": False, "error": "no", "seconds": 0.1, "bytes": None}
    service.replies = {
        ("GET", "/v1/stats?hours=2"): {
            "since": 1.0, "items": 9, "topics": 2, "learners": {"main": learner}, "hours": [], "store": "sqlite:///x"
        },
        ("GET", "/v1/about"): {"keys": True, "role": None},
        ("GET", "/v1/health"): {
            "process": "p", "started_at": 1.0, "store": store, "waiting": 0, "most_waiting": 9, "transactions": 0,
            "transaction_seconds": None, "store_errors": 0, "tastes_in_memory": 0, "slowest": [],
        },
    }  # fmt: skip
    stats = client.stats(hours=2)
    assert stats.learners["main"].alpha == "theory"
    assert stats.learners["main"].click_rate == Rate(1.0, 0.2, 1.0)
    assert client.about() == About(keys=True, role=None)
    health = StoreHealth("sqlite:///x", "sqlite", False, "no", 0.1, None)
    assert client.health() == Health("p", 1.0, health, 0, 9, 0, None, 0, 0, [])


def test_simulations(service, client):
    run = {
        "policy": "CascadeLSB", "regret": [0.5], "clicks": [1], "last_list": ["a"], "estimate": None, "lists": None,
        "estimates": None,
    }  # fmt: skip
    service.replies = {
        ("POST", "/v1/simulations"): {
            "theta": {"x": 0.5}, "best_list": ["a"], "best": 0.5, "changes": [], "steps": [100], "runs": [run]
        }
    }  # fmt: skip
    simulated = client.simulate(["CascadeLSB"], 100, theta={"x": 0.5}, seed=0)
    ran = SimulatedRun("CascadeLSB", [0.5], [1], ["a"], None, None, None)
    assert simulated == Simulated({"x": 0.5}, ["a"], 0.5, [], [100], [ran])
    assert service.seen[-1][2] == {"policies": ["CascadeLSB"], "steps": 100, "theta": {"x": 0.5}, "seed": 0}
    changes = [{"step": 5, "theta": {"y": 1.0}}]
    client.simulate(["CascadeLSB"], 9, points=np.arange(1, 4), since=0, trace=False, changes=changes)
    options = {"points": [1, 2, 3], "since": 0, "trace": False, "changes": changes}
    assert service.seen[-1][2] == {"policies": ["CascadeLSB"], "steps": 9, **options}


def test_pages_are_fetched_as_needed(service, client):
    first, second = ({"item": name, "weights": {name: 1.0}} for name in "ab")
    service.replies = {
        ("GET", "/v1/items?offset=0&limit=100&contains=%26+"): {"total": 2, "items": [first], "next": 1},
        ("GET", "/v1/items?offset=1&limit=100&contains=%26+"): {"total": 2, "items": [second], "next": None},
        ("GET", "/v1/users/ana/impressions?before=i9&limit=2"): {"impressions": [UNANSWERED], "next": "i1"},
        ("GET", "/v1/users/ana/impressions?before=i1&limit=2"): {"impressions": [UNANSWERED] * 2, "next": "i0"},
    }
    items = client.items(contains="& ")
    assert next(items) == Item("a", {"a": 1.0})
    assert len(service.seen) == 1
    assert list(items) == [Item("b", {"b": 1.0})]
    assert [shown.id for shown in client.history("ana", before="i9", limit=2)] == ["i1", "i1"]
    assert len(service.seen) == 4


def test_feedback_many_returns_answers_and_errors_in_order(service, client):
    def learn(pairs):
        late = {"status": 409, "error": "clicked must be as before"}
        return {
            "results": [
                {"impression": one["impression"], **(late if one["clicked"] else {**one, "status": 200, "answer": "x"})}
                for one in pairs
            ]
        }

    service.replies = {("POST", "/v1/feedback"): learn}
    results = client.feedback_many((f"i{n}", [0] if n == 1500 else []) for n in range(2001))
    assert [len(body) for _, _, body, _ in service.seen] == [1000, 1000, 1]
    assert [n for n, result in enumerate(results) if not isinstance(result, Answer)] == [1500]
    assert [result.impression for result in results[1501:]] == [f"i{n}" for n in range(1501, 2001)]
    assert isinstance(results[1500], Conflict)
    assert (str(results[1500]), results[1500].status) == ("clicked must be as before", 409)


@pytest.mark.parametrize(
    "results",
    [
        [{"impression": "i1", "status": 200, "clicked": [], "answer": "x"}],
        [{"impression": name, "status": 200, "clicked": [], "answer": "x"} for name in ("i2", "i1")],
        [{"impression": name, "status": 409} for name in ("i1", "i2")],
    ],
    ids=["one missing", "wrong order", "no error"],
)
def test_results_that_do_not_match_the_request_are_an_error(service, client, results):
    service.replies = {("POST", "/v1/feedback"): {"results": results}}
    with pytest.raises(ServiceError, match="the response must be JSON as this version of thali-client expects it"):
        client.feedback_many([("i1", []), ("i2", [])])


@pytest.mark.parametrize("name", ["two words", "a/b", "100%", "%2F", "ä", "日本 ?#&;=+", "..", ".", "a\\b", '"'])
def test_names_arrive_unchanged(service, client, name):
    assert client.export(name)
    path = service.seen[0][1]
    assert path.count("/") == 4
    assert unquote(path.split("/")[3]) == name
    service.replies = {("POST", "/v1/recommend"): SHOWN}
    client.recommend(name)
    assert service.seen[1][2] == {"user": name}


def test_health_checks_send_one_request_without_retries(service, client):
    assert client.healthy()
    assert client.ready()
    service.script.extend([status(503), status(200, b"<html>", "text/html")])
    assert not client.ready()
    assert not client.healthy()
    assert [path for _, path, _, _ in service.seen] == ["/healthz", "/readyz", "/readyz", "/healthz"]


def test_invalid_arguments_are_refused_before_anything_is_sent(service, client):
    with pytest.raises(ValueError, match="user must be a non-empty string, got ''"):
        client.user("")
    with pytest.raises(TypeError, match="item must be a non-empty string, got 7"):
        client.item(7)
    with pytest.raises(TypeError, match="candidates must be a list of names, not a single name, got 'abc'"):
        client.recommend("ana", candidates="abc")
    with pytest.raises(TypeError, match="a request must contain only JSON types, got "):
        client.feedback("i1", [np.bool_(True)])
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.recommend("ana", alpha=float("nan"))
    assert not service.seen


def test_many_items_are_sent_in_requests_that_the_service_accepts(service, client):
    """Up to 10,000 items and 8 MiB, of items with short and with long names of topics."""
    service.replies = {("PUT", "/v1/items"): {"changed": 1}}
    small = [{"item": f"i{n}", "topics": ["crime"]} for n in range(25_000)]
    large = [{"item": f"j{n}", "weights": {f"like the films {j} ü": 0.5 for j in range(40)}} for n in range(12_000)]
    assert client.put_items(iter([*small, *large])) == len(service.seen)
    sent = [body["items"] for _, _, body, _ in service.seen]
    assert [item for items in sent for item in items] == [*small, *large]
    assert [len(items) for items in sent[:2]] == [10_000, 10_000]
    assert all(len(json.dumps({"items": items})) <= 8 << 20 for items in sent)
    assert len(sent) <= 8
    assert client.put_items([]) == 0
