"""The client against a server that misbehaves on purpose, over real sockets."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from urllib.parse import unquote

import misbehaving as do
import numpy as np
import pytest

import thali
from thali.client import Answer, Conflict, Item, NotAllowed, NotFound, Refused, ServiceError, Shown, Taste, Unavailable

SHOWN = {
    "impression": "i1", "user": "ana", "learner": "main", "shown_at": 1.5, "click_probability": 0.25,
    "items": [
        {"position": 0, "item": "a/b", "topics": ["x"], "gains": {"x": 0.5}, "belief": 0.1, "exploration": 0.2},
        {"position": 1, "item": "c", "topics": [], "gains": {}, "belief": 0.0, "exploration": 0.0},
    ],
}  # fmt: skip
ANSWER = {"impression": "i1", "clicked": [1], "answer": "feedback"}


@pytest.fixture
def service():
    with do.Service() as running:
        yield running


@pytest.fixture
def client(service):
    with thali.Client(service.url, timeout=0.3) as client:
        yield client


def test_a_list_and_its_feedback(service, client):
    service.replies = {("POST", "/v1/recommend"): SHOWN, ("POST", "/v1/feedback"): ANSWER}
    shown = client.recommend("ana", K=np.int64(2), exclude={"z"}, alpha=np.float64(8))
    assert shown == Shown(
        "i1", "ana", "main", 1.5, 0.25,
        (Item(0, "a/b", ("x",), {"x": 0.5}, 0.1, 0.2), Item(1, "c", (), {}, 0.0, 0.0)),
    )  # fmt: skip
    assert client.feedback(shown.id, np.flatnonzero([False, True])) == Answer("i1", (1,), "feedback")
    sent = [(method, path, body) for method, path, body, _ in service.seen]
    assert sent == [
        ("POST", "/v1/recommend", {"user": "ana", "K": 2, "exclude": ["z"], "alpha": 8.0}),
        ("POST", "/v1/feedback", {"impression": "i1", "clicked": [1]}),
    ]
    assert service.connections == 1


def test_every_other_route(service, client):
    empty, user = {"impression": "i1", "clicked": None, "answer": None}, {"user": "ana", "impressions": 3, "updates": 2}
    taste = {"topic": "x", "estimate": 0.5, "low": 0.4, "high": 0.6}
    known = {"user": "ana", "impressions": 3, "answered": 2, "clicked": 1}
    weights = {"item": "c", "weights": {"x": 0.5}}
    answered = {**SHOWN, "clicked": [], "answer": "time-out", "answered_at": 2.5}
    service.replies = {
        ("DELETE", "/v1/impressions/i1/feedback"): empty,
        ("GET", "/v1/impressions/i1"): answered,
        ("GET", "/v1/users/ana"): {
            **known, "learners": {"main": {"updates": 2, "assigned": True, "taste": [taste]}}
        },
        ("DELETE", "/v1/users/ana"): user,
        ("GET", "/v1/users/ana/export"): {"user": "ana", "learners": {}},
        ("PUT", "/v1/items/c"): weights,
        ("GET", "/v1/items/c"): weights,
        ("DELETE", "/v1/items/c"): weights,
        ("GET", "/v1/topics"): {"topics": ["x", "y"]},
        ("GET", "/v1/stats?hours=2"): {"users": 1},
        ("POST", "/v1/simulations"): {"runs": []},
        ("GET", "/v1/about"): {"role": "read"},
        ("GET", "/v1/health"): {"waiting": 0},
    }  # fmt: skip
    assert client.undo("i1") == Answer("i1", None, None)
    shown = client.impression("i1")
    assert (shown.clicked, shown.answer, shown.answered_at) == ((), "time-out", 2.5)
    ana = client.user("ana")
    assert (ana.impressions, ana.answered, ana.clicked) == (3, 2, 1)
    assert ana.learners["main"].taste == (Taste("x", 0.5, 0.4, 0.6),)
    assert client.forget("ana") == user
    assert client.export("ana") == {"user": "ana", "learners": {}}
    assert client.put_item("c", {"x": 0.5}) == client.item("c") == client.remove_item("c") == {"x": 0.5}
    assert service.seen[-3][2] == {"weights": {"x": 0.5}}
    assert client.topics() == ["x", "y"]
    assert client.stats(hours=2) == {"users": 1}
    assert (client.about(), client.health()) == ({"role": "read"}, {"waiting": 0})
    assert client.simulate(["CascadeLSB"], 100, theta={"x": 0.5}, seed=0) == {"runs": []}
    assert service.seen[-1][2] == {"policies": ["CascadeLSB"], "steps": 100, "theta": {"x": 0.5}, "seed": 0}
    changes = [{"step": 5, "theta": {"y": 1.0}}]
    client.simulate(["CascadeLSB"], 9, points=np.arange(1, 4), since=0, trace=False, changes=changes)
    watched = {"points": [1, 2, 3], "since": 0, "trace": False, "changes": changes}
    assert service.seen[-1][2] == {"policies": ["CascadeLSB"], "steps": 9, **watched}


def test_pages_are_fetched_as_needed(service, client):
    first, second = ({"item": name, "weights": {name: 1.0}} for name in "ab")
    service.replies = {
        ("GET", "/v1/items?offset=0&limit=100&contains=%26+"): {"total": 2, "items": [first], "next": 1},
        ("GET", "/v1/items?offset=1&limit=100&contains=%26+"): {"total": 2, "items": [second], "next": None},
        ("GET", "/v1/users/ana/impressions?before=i9&limit=2"): {"impressions": [SHOWN], "next": "i1"},
        ("GET", "/v1/users/ana/impressions?before=i1&limit=2"): {"impressions": [SHOWN, SHOWN], "next": "i0"},
    }
    items = client.items(contains="& ")
    assert next(items) == ("a", {"a": 1.0})
    assert len(service.seen) == 1
    assert list(items) == [("b", {"b": 1.0})]
    assert [shown.id for shown in client.history("ana", before="i9", limit=2)] == ["i1", "i1"]
    assert len(service.seen) == 4


def test_feedback_for_many_gives_answers_and_errors_in_order(service, client):
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
    service.replies = {("POST", "/v1/feedback"): lambda pairs: {"results": learn(pairs)["results"][1:]}}
    with pytest.raises(ServiceError, match="a reply must be the JSON that this version"):
        client.feedback_many([("i1", []), ("i2", [])])


@pytest.mark.parametrize("name", ["two words", "a/b", "100%", "%2F", "ä", "日本 ?#&;=+", "..", "a\\b", '"'])
def test_names_arrive_as_they_were(service, client, name):
    assert client.export(name)
    path = service.seen[0][1]
    assert path.count("/") == 4
    assert unquote(path.split("/")[3]) == name
    service.replies = {("POST", "/v1/recommend"): SHOWN}
    client.recommend(name)
    assert service.seen[1][2] == {"user": name}


@pytest.mark.parametrize(
    "misbehave",
    [
        do.before_reading,
        do.hang_up,
        do.cut,
        do.hang,
        do.status(503),
        do.status(429),
        do.status(504, b"<html>", "text/html"),
    ],
    ids=["before reading", "after reading", "half a reply", "hangs", "503", "429", "504"],
)
def test_what_fails_twice_is_said_again_as_it_was(service, client, misbehave):
    service.replies = {("POST", "/v1/feedback"): ANSWER}
    service.script.extend([misbehave, misbehave])
    assert client.feedback("i1", [1]) == Answer("i1", (1,), "feedback")
    assert len(service.seen) == 3
    read = [one for one in service.seen if one is not None]
    assert all(body == {"impression": "i1", "clicked": [1]} for _, _, body, _ in read)
    assert len({headers["X-Request-ID"] for *_, headers in read}) == 1


def test_it_waits_as_long_as_it_is_told(service, client):
    service.script.append(do.status(503, Retry_After="1"))
    begin = perf_counter()
    assert client.export("ana")
    assert 1.0 <= perf_counter() - begin < 2.0


@pytest.mark.parametrize("threads", [1, 8])
def test_connections_closed_while_idle_are_opened_again_and_nothing_failed(service, threads):
    with thali.Client(service.url, retries=0) as client, ThreadPoolExecutor(threads) as pool:
        service.script.extend([do.close_after] * threads)
        list(pool.map(client.export, ["ana"] * threads))
        assert [reply["you"] for reply in pool.map(client.export, "abcdefgh")] == [
            f"/v1/users/{u}/export" for u in "abcdefgh"
        ]
        assert len(service.seen) == threads + 8


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, Refused), (401, NotAllowed), (403, NotAllowed), (404, NotFound), (409, Conflict), (413, Refused),
     (415, Refused), (422, Refused), (500, ServiceError)],
)  # fmt: skip
def test_other_errors_are_raised_at_once_with_the_services_sentence(service, client, code, kind):
    sentence = "K of CascadeLSB must be at least 1, got 0"
    service.script.append(do.status(code, {"error": sentence, "field": "K", "request_id": "r"}, X_Request_ID="r"))
    with pytest.raises(ServiceError) as raised:
        client.recommend("ana", K=0)
    error = raised.value
    assert type(error) is kind
    assert (str(error), error.status, error.field, error.request_id) == (sentence, code, "K", "r")
    assert len(service.seen) == 1
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status, again.field) == (kind, sentence, code, "K")


@pytest.mark.parametrize("code", [404, 500, 302])
def test_a_page_of_a_proxy_is_no_word_of_the_service(service, client, code):
    """Its 404 does not say that a user is unknown."""
    service.script.append(do.status(code, b"<html>sorry</html>", "text/html", Location="/elsewhere"))
    with pytest.raises(ServiceError, match="bytes of text/html, not the service's own reply") as raised:
        client.user("ana")
    assert type(raised.value) is ServiceError
    assert raised.value.status == code
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"<html>", "text/html"), (b"", "text/plain"), (b'{"impression": "i1"}', "application/json"), (b"[]", "x/y"),
     (b"[" * 100_000, "application/json"), (b"\xff", "application/json")],
)  # fmt: skip
def test_a_reply_that_is_not_what_was_agreed_is_an_error(service, client, content, kind):
    service.script.append(do.status(200, content, kind))
    with pytest.raises(ServiceError, match=f"a reply must be the JSON .*, got {len(content)} bytes of {kind}"):
        client.recommend("ana")


def test_a_reply_too_large_is_an_error_and_the_next_is_read(service, client):
    service.script.append(do.status(200, b" " * (64 * 2**20 + 1)))
    with pytest.raises(ServiceError, match="a reply must be of at most 67108864 bytes, got more"):
        client.export("ana")
    assert client.export("ben") == {"you": "/v1/users/ben/export"}


def test_a_body_that_the_service_does_not_read_is_refused(service, client):
    service.script.append(do.unread)
    with pytest.raises(Refused, match="a body must be of at most 1 byte"):
        client.recommend("ana", candidates=["x" * 100] * 200_000)
    assert len(service.seen) == 1


def test_unavailable_after_all_tries(service):
    service.script.extend([do.status(503)] * 10)
    with thali.Client(service.url, retries=2) as client, pytest.raises(Unavailable) as raised:
        client.topics()
    assert str(raised.value) == f"the service at {service.url} cannot be used, after 3 of 3 tries: not now"
    assert raised.value.status == 503
    assert len(service.seen) == 3
    assert raised.value.request_id == service.seen[0][3]["X-Request-ID"]


@pytest.mark.parametrize(
    "misbehave", [do.hang, do.drip, do.status(503, Retry_After="3600")], ids=["hang", "drip", "wait"]
)
def test_nothing_takes_longer_than_the_deadline(service, misbehave):
    service.script.extend([misbehave] * 10)
    begin = perf_counter()
    with thali.Client(service.url, timeout=0.2, deadline=0.5) as client, pytest.raises(Unavailable):
        client.topics()
    assert perf_counter() - begin < 1.0


def test_no_service_at_all():
    with do.Service() as gone:
        pass
    with thali.Client(gone.url, retries=1) as client:
        with pytest.raises(Unavailable, match="after 2 of 2 tries: .*refused") as raised:
            client.recommend("ana")
        assert raised.value.status is None
        assert not client.healthy()


def test_health_is_asked_once(service, client):
    assert client.healthy()
    assert client.ready()
    service.script.extend([do.status(503), do.status(200, b"<html>", "text/html")])
    assert not client.ready()
    assert not client.healthy()
    assert [path for _, path, _, _ in service.seen] == ["/healthz", "/readyz", "/readyz", "/healthz"]


def test_the_key_is_sent_and_never_shown(service):
    key = "open-sesame-1234"
    with thali.Client(service.url + "/behind/a/proxy/", key=key, retries=0) as client:
        service.script.extend([do.status(401), do.status(503), do.hang_up, do.hang_up])
        assert repr(client) == f"Client('{service.url}/behind/a/proxy')"
        for kind in (NotAllowed, Unavailable, Unavailable):
            with pytest.raises(kind) as raised:
                client.topics()
            assert key not in repr(raised.value) + str(raised.value) + repr(raised.value.__cause__)
    assert [(path, headers["Authorization"]) for _, path, _, headers in service.seen] == [
        ("/behind/a/proxy/v1/topics", f"Bearer {key}")
    ] * 4
    for bad in ("open sesame", "open\nsesame", "sésame", ""):
        with pytest.raises(ValueError, match="key of Client must be printable") as raised:
            thali.Client(key=bad)
        assert not bad or bad not in str(raised.value)


def test_eight_threads_share_a_client(service, client):
    """Each gets its own replies, at the same time, over as many connections as there are threads."""
    service.script.extend([do.slow] * 160)
    users = [f"u{n}" for n in range(160)]
    begin = perf_counter()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(client.export, users))
    assert perf_counter() - begin < 160 * 0.02 / 2
    assert [reply["you"] for reply in replies] == [f"/v1/users/{user}/export" for user in users]
    assert service.connections <= 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_connections_of_its_own(service):
    code = (
        "import os, sys, thali\n"
        "client = thali.Client(sys.argv[1])\n"
        "client.export('before')\n"
        "child = os.fork()\n"
        "said = client.export('child' if child == 0 else 'parent')\n"
        "assert said == {'you': '/v1/users/%s/export' % ('child' if child == 0 else 'parent')}\n"
        "client.close()\n"
        "assert child == 0 or os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code, service.url], check=True, timeout=60)
    assert service.connections == 2


def test_nothing_but_the_standard_library_is_imported():
    code = "import sys, thali; thali.Client(); print(sorted({'numpy', 'numba', 'msgspec', 'httpx'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_what_cannot_be_sent_is_refused_before_it_is(service, client):
    with pytest.raises(ValueError, match="user must be a name of at least one character, got ''"):
        client.user("")
    with pytest.raises(TypeError, match="item must be a name of at least one character, got 7"):
        client.item(7)
    with pytest.raises(TypeError, match="candidates must be names, not a single one, got 'abc'"):
        client.recommend("ana", candidates="abc")
    with pytest.raises(TypeError, match="a request must be of JSON's types, got "):
        client.feedback("i1", [np.bool_(True)])
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.recommend("ana", alpha=float("nan"))
    assert not service.seen


@pytest.mark.parametrize(
    "settings",
    [{"url": "ftp://x"}, {"url": "127.0.0.1:8000"}, {"url": "http://me:secret@x"}, {"url": "http://x?y"},
     {"timeout": 0}, {"retries": -1}, {"deadline": float("nan")}],
)  # fmt: skip
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} of Client must be") as raised:
        thali.Client(**settings)
    assert "secret" not in str(raised.value)
