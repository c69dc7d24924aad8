"""Every route of a running service, and every kind of error response."""

import sqlite3
import time
from contextlib import closing
from dataclasses import asdict
from uuid import UUID, uuid4

import numpy as np
import pytest
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.client import Conflict, NotFound, Refused
from thali.service.http.settings import Limits

NOBODY = str(uuid4())


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("serve"), limits=Limits(body=20_000)) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    with service.client() as client:
        yield client


class Library:
    """What the library recommends to one person, and learns, without a service."""

    def __init__(self, catalog):
        self.catalog, self.policy = catalog, thali.CascadeLSB(catalog, K=4)
        self.state = self.policy.init(1)

    def lists(self):
        return self.policy.recommend(self.state)

    def names(self):
        return [self.catalog.items[e] for e in self.lists()[0]]

    def learn(self, clicked):
        lists = self.lists()
        self.policy.update(self.state, lists, [[k in clicked for k in range(4)]], self.policy.gains(lists))

    def intervals(self):
        middle = self.policy.estimate(self.state)[0]
        half = self.policy.alpha * np.sqrt(np.diag(np.linalg.inv(self.state.M[0])))
        return np.array([middle, middle - half, middle + half])


def test_a_list_is_the_same_as_the_librarys_with_its_explanation(service, client):
    library, before = Library(service.catalog), time.time()
    shown = client.recommend("reasons")
    client.feedback(shown.id, [2])
    library.learn([2])
    lists = library.lists()
    gains, M = library.policy.gains(lists)[0], library.state.M[0]
    shown = client.recommend("reasons")
    beliefs = gains @ library.policy.estimate(library.state)[0]
    assert (shown.user, shown.learner) == ("reasons", "default")
    assert before - 0.001 <= shown.shown_at <= time.time()
    assert [one.position for one in shown.items] == [0, 1, 2, 3]
    assert [one.item for one in shown.items] == library.names()
    for one, gain, belief in zip(shown.items, gains, beliefs, strict=True):
        named = dict(zip(TOPICS, gain, strict=True))
        assert one.topics == [t for t in TOPICS if named[t] > 0]
        assert one.gains == pytest.approx({t: named[t] for t in one.topics})
        assert one.belief == pytest.approx(belief)
        assert one.exploration == pytest.approx(library.policy.alpha * np.sqrt(gain @ np.linalg.inv(M) @ gain))
    assert shown.click_probability == pytest.approx(1 - np.prod(1 - np.clip(beliefs, 0, 1)))
    assert shown.click_probability > 0.01


def test_feedback_is_learned_once_and_can_be_undone(service, client):
    library = Library(service.catalog)
    first = client.recommend("ana")
    assert asdict(client.impression(first.id)) == {
        **asdict(first),
        "clicked": None,
        "answer": None,
        "answered_at": None,
    }
    for _ in range(2):
        answer = client.feedback(first.id, [1])
        assert (answer.impression, answer.clicked, answer.answer) == (first.id, [1], "feedback")
    with pytest.raises(Conflict, match=r"must be \[1\], .* got \[0\]"):
        client.feedback(first.id, [0])
    library.learn([1])
    seen = client.impression(first.id)
    assert (seen.clicked, seen.answer, seen.items) == ([1], "feedback", first.items)
    assert first.shown_at <= seen.answered_at <= time.time()

    second = client.recommend("ana")
    assert [one.item for one in second.items] == library.names()
    known = client.user("ana")
    assert (known.user, known.impressions, known.answered, known.clicked) == ("ana", 2, 1, 1)
    learned = known.learners.pop("default")
    assert (learned.updates, learned.assigned, known.learners) == (1, True, {})
    assert [one.topic for one in learned.taste] == list(TOPICS)
    intervals = np.array([[one.estimate, one.low, one.high] for one in learned.taste]).T
    np.testing.assert_allclose(intervals, library.intervals(), rtol=1e-12, atol=1e-12)

    assert client.feedback(second.id, []).clicked == []
    assert client.user("ana").learners["default"].updates == 2
    for _ in range(2):
        undone = client.undo(second.id)
        assert (undone.impression, undone.clicked, undone.answer) == (second.id, None, None)
    assert client.user("ana").learners["default"] == learned
    client.undo(first.id)
    assert [one.item for one in client.recommend("ana").items] == [one.item for one in first.items]


def test_settings_of_one_request(client):
    shown = client.recommend("settings", K=2, candidates=["i1", "i2", "i3"], exclude=["i2", "gone"], alpha=0.0)
    assert {one.item for one in shown.items} == {"i1", "i3"}
    assert [one.exploration for one in shown.items] == [0.0, 0.0]
    assert client.recommend("settings", learner="default").learner == "default"


def test_a_list_is_shorter_if_fewer_than_K_items_are_left(tmp_path):
    with serving(tmp_path, catalog=small_catalog(3)) as service, service.client() as client:  # K is 4
        assert client.about().learners[0].K == 4
        assert {one.item for one in client.recommend("ana").items} == {"i0", "i1", "i2"}
        shown = client.recommend("ana", K=4, candidates=["i2", "i1"])
        assert sorted(one.item for one in shown.items) == ["i1", "i2"]
        with pytest.raises(Refused, match=r"clicked\[0\] must be a whole number from 0 to 1, got 2"):
            client.feedback(shown.id, [2])
        assert client.feedback(shown.id, [1]).clicked == [1]
        assert client.impression(shown.id).items == shown.items
        assert client.undo(shown.id).clicked is None
        simulated = client.simulate(["CascadeLSB"], 3, K=100, points=3, trace=True)
        assert len(simulated.best_list) == 3
        assert [len(set(items)) for items in simulated.runs[0].lists] == [3, 3, 3]
        client.put_item("new", {"comedy": 0.5})
        client.put_item("newer", {"comedy": 0.5})
        assert len(client.recommend("ana").items) == 4
        for item in ("i0", "i1", "i2", "new", "newer"):
            client.remove_item(item)
        for path, body in (("recommend", {"user": "ana"}), ("simulations", {"policies": ["CascadeLSB"]})):
            reply = service.ask("POST", f"/v1/{path}", body)
            assert (reply.status, reply.field) == (422, "catalog")


def test_every_path_that_has_GET_also_has_HEAD(service, client):
    shown = client.recommend("head")
    client.feedback(shown.id, [0])
    values = {"user": "head", "impression": shown.id, "item": "i0"}
    documented = paths_with_get(service)
    assert len(documented) > 12
    for path in [*documented, "/", "/page/app.js", "/page/nothing", "/docs", "/docs/start.js", "/v1/nothing"]:
        path = path.format(**values)
        got, head = service.ask("GET", path), service.ask("HEAD", path)
        assert (head.status, head.body) == (got.status, b""), path
        assert head.headers.get("content-type") == got.headers.get("content-type"), path
        if not path.startswith(("/metrics", "/v1/health", "/v1/stats")):  # their length depends on the time
            assert head.headers.get("content-length") == got.headers.get("content-length"), path
    assert service.ask("HEAD", "/v1/recommend").status == 405
    assert [line["method"] for line in service.log() if line.get("path") == "/page/app.js"][-2:] == ["GET", "HEAD"]


def paths_with_get(service):
    """Return the documented paths that have GET."""
    return [path for path, methods in service.ask("GET", "/openapi.json").json["paths"].items() if "get" in methods]


def test_a_batch_has_a_result_for_each_list(client):
    shown = [client.recommend("batch").id for _ in range(3)]
    client.feedback(shown[2], [3])
    pairs = [(shown[0], [0, 2]), (NOBODY, []), (shown[1], [9]), (shown[2], []), (shown[2], [3]), ("x" * 36, [])]
    done = client.feedback_many(pairs)
    assert [getattr(one, "status", 200) for one in done] == [200, 404, 422, 409, 200, 422]
    assert [type(done[at]) for at in (1, 2, 3)] == [NotFound, Refused, Conflict]
    assert (done[0].clicked, done[4].clicked) == ([0, 2], [3])
    assert client.user("batch").answered == 2
    assert client.feedback_many([]) == []


def test_history_export_and_forgetting(service, client):
    library = Library(service.catalog)
    shown = []
    for clicked in ([1], [], [0]):
        shown.append(client.recommend("zoë x%2F").id)
        client.feedback(shown[-1], clicked)
        library.learn(clicked)
    shown.append(client.recommend("zoë x%2F").id)
    latest = shown[::-1]
    assert [one.id for one in client.history("zoë x%2F")] == latest
    assert [one.id for one in client.history("zoë x%2F", before=latest[1], limit=1)] == [latest[2]]
    page = service.ask("GET", "/v1/users/zo%C3%AB%20x%252F/impressions?limit=3").json
    assert page["next"] == latest[2]

    export = asdict(client.export("zoë x%2F"))
    assert set(export) == {"user", "exported_at", "learners", "impressions"}
    assert sorted(one["impression"] for one in export["impressions"]) == sorted(shown)
    assert {one["impression"]: one["clicked"] for one in export["impressions"]} == dict(
        zip(shown, [[1], [], [0], None], strict=True)
    )
    learned = export["learners"].pop("default")
    assert (export["learners"], learned.pop("updates"), learned.pop("topics")) == ({}, 3, list(TOPICS))
    np.testing.assert_array_equal(learned.pop("M"), library.state.M[0])
    np.testing.assert_array_equal(learned.pop("B"), library.state.B[0])
    np.testing.assert_allclose(learned.pop("estimate"), library.policy.estimate(library.state)[0], rtol=1e-12)
    assert learned == {"histories": [], "sums": [], "seen": []}

    assert asdict(client.forget("zoë x%2F")) == {"user": "zoë x%2F", "impressions": 4, "updates": 3}
    for ask in (client.user, client.forget, client.export):
        with pytest.raises(NotFound):
            ask("zoë x%2F")
    with pytest.raises(NotFound):
        client.feedback(shown[3], [])
    assert list(client.history("zoë x%2F")) == []
    assert client.recommend("zoë x%2F").click_probability == 0.0


def test_items_are_added_changed_and_removed(service, client):
    assert client.topics() == list(TOPICS)
    all_items = {one.item: one.weights for one in client.items()}
    assert list(all_items) == list(service.catalog.items)
    for e, weights in enumerate(all_items.values()):
        row = service.catalog.csr.toarray()[e]
        assert weights == {topic: w for topic, w in zip(TOPICS, row.tolist(), strict=True) if w}
    page = service.ask("GET", "/v1/items?offset=20&limit=3").json
    assert (page["total"], [one["item"] for one in page["items"]], page["next"]) == (24, ["i20", "i21", "i22"], 23)
    assert service.ask("GET", "/v1/items?offset=23&limit=3").json["next"] is None

    new = "a/b ü?#%"
    assert client.put_item(new, {"comedy": 0.9, "music": 1.0, "drama": 0.0}).weights == {"comedy": 0.9, "music": 1.0}
    assert client.recommend("items").items[0].item == new
    assert client.item(new).weights == {"comedy": 0.9, "music": 1.0}
    assert {one.item: one.weights for one in client.items(contains="B Ü")} == {new: {"comedy": 0.9, "music": 1.0}}
    seen = client.recommend("items", candidates=[new, "i0", "i1", "i2"])
    assert client.put_item(new, {"action": 0.1}).weights == {"action": 0.1}
    assert client.impression(seen.id).items == seen.items  # as it was shown, although the item has changed
    assert client.remove_item(new).weights == {"action": 0.1}
    for ask in (client.item, client.remove_item):
        with pytest.raises(NotFound, match="not in the catalog"):
            ask(new)
    assert new not in {one.item for one in client.recommend("items", K=24).items}
    assert client.healthy()
    assert client.ready()


RECOMMEND, FEEDBACK = ("POST", "/v1/recommend"), ("POST", "/v1/feedback")


@pytest.mark.parametrize(
    ("status", "field", "request_", "body"),
    [
        (400, "body", RECOMMEND, b"{"),
        (400, "body", RECOMMEND, b'{"user": "\xff"}'),
        (404, None, FEEDBACK, {"impression": NOBODY, "clicked": []}),
        (404, None, ("GET", f"/v1/impressions/{NOBODY}"), None),
        (404, None, ("DELETE", f"/v1/impressions/{NOBODY}/feedback"), None),
        (404, None, ("GET", "/v1/users/nobody"), None),
        (404, "path", ("GET", "/v1/user"), None),
        (404, "path", ("GET", "/v1/topics/"), None),
        (405, "method", ("PATCH", "/v1/topics"), None),
        (413, "body", RECOMMEND, b" " * 20_001),
        (400, "body", RECOMMEND, None),
        (422, "body", RECOMMEND, []),
        (422, "user", RECOMMEND, {}),
        (422, "user", RECOMMEND, {"user": ""}),
        (422, "user", RECOMMEND, {"user": "a/b"}),
        (422, "user", RECOMMEND, {"user": "a\x00"}),
        (422, "user", RECOMMEND, {"user": "x" * 257}),
        (422, "k", RECOMMEND, {"user": "ana", "k": 2}),
        (422, "K", RECOMMEND, {"user": "ana", "K": 101}),
        (422, "K", RECOMMEND, {"user": "ana", "K": "4"}),
        (422, "candidates[1]", RECOMMEND, {"user": "ana", "candidates": ["i0", "nothing"]}),
        (422, "candidates[1]", RECOMMEND, {"user": "ana", "candidates": ["i0", 7]}),
        (422, "candidates", RECOMMEND, {"user": "ana", "candidates": []}),
        (422, "candidates", RECOMMEND, {"user": "ana", "candidates": ["i0"], "exclude": ["i0"]}),
        (422, "exclude", RECOMMEND, {"user": "ana", "exclude": [f"i{e}" for e in range(24)]}),
        (422, "learner", RECOMMEND, {"user": "ana", "learner": "other"}),
        (422, "alpha", RECOMMEND, {"user": "ana", "alpha": -1}),
        (422, "impression", FEEDBACK, {"impression": "7", "clicked": []}),
        (422, "impression", FEEDBACK, {"impression": "x" * 36, "clicked": []}),
        (422, "clicked", FEEDBACK, {"impression": NOBODY}),
        (422, "[1].clicked[0]", FEEDBACK, [{"impression": NOBODY, "clicked": at} for at in ([], [-1])]),
        (422, "body", FEEDBACK, 7),
        (422, "impression", ("GET", "/v1/impressions/7"), None),
        (422, "user", ("GET", "/v1/users/%2E%2E"), None),
        (422, "before", ("GET", "/v1/users/ana/impressions?before=7"), None),
        (422, "limit", ("GET", "/v1/items?limit=0"), None),
        (422, "hours", ("GET", "/v1/stats?hours=x"), None),
        (422, "item", ("GET", "/v1/items/"), None),
        (422, "weights.comedy", ("PUT", "/v1/items/new"), {"weights": {"comedy": 1.5}}),
        (422, "weights", ("PUT", "/v1/items/new"), {"weights": {"nothing": 0.5}}),
        (422, "theta", ("POST", "/v1/simulations"), {"policies": ["CascadeLSB"], "theta": {"comedy": 1, "music": 1}}),
        (422, "policies", ("POST", "/v1/simulations"), {"policies": ["Oracle"]}),
    ],
)
def test_invalid_requests_are_rejected(service, status, field, request_, body):
    reply = service.ask(*request_, body)
    assert (reply.status, reply.field) == (status, field)


@pytest.mark.parametrize(
    ("request_", "body", "sentence"),
    [
        (RECOMMEND, {}, "user is required"),
        (RECOMMEND, {"user": "ana", "k": 4}, "k is not a field of this request"),
        (RECOMMEND, {"user": "ana", "K": 101}, "K must be less than or equal to 100, got 101"),
        (RECOMMEND, {"user": "ana", "K": "4"}, "K must be a valid integer, got '4'"),
        (RECOMMEND, ["ana"], "body must be a JSON object, got ['ana']"),
        (FEEDBACK, {"impression": "7", "clicked": []}, "impression must have at least 36 characters, got '7'"),
        (("POST", "/v1/simulations"), {"policies": []}, "policies must have at least 1 item, got 0"),
        (("GET", "/v1/stats?hours=0"), None, "hours must be greater than or equal to 1, got '0'"),
    ],
)
def test_rejections_name_the_field_the_rule_and_the_value(service, request_, body, sentence):
    assert service.ask(*request_, body).json["error"] == sentence


def test_invalid_positions_and_content_types_are_rejected(service, client):
    shown = client.recommend("positions").id
    for clicked, field in (([4], "clicked[0]"), ([1, 1], "clicked"), ([True], "clicked[0]"), (None, "clicked")):
        reply = service.ask(*FEEDBACK, {"impression": shown, "clicked": clicked})
        assert (reply.status, reply.field) == (422, field)
    client.feedback(shown, [0])
    reply = service.ask(*FEEDBACK, {"impression": shown, "clicked": [1]})
    assert (reply.status, reply.field) == (409, "clicked")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        reply = service.ask(*RECOMMEND, {"user": "ana"}, Content_Type=kind)
        assert (reply.status, reply.field) == (415, "Content-Type")
    assert service.ask(*RECOMMEND, {"user": "ana"}, Content_Type="Application/JSON; charset=utf-8").status == 200
    assert client.impression(shown).clicked == [0]


def test_a_locked_store_is_503_and_nothing_is_done(service, client, monkeypatch):
    shown = client.recommend("held").id
    monkeypatch.setattr("thali.service.recommender.transaction.PATIENCE_S", 0.1)
    with closing(sqlite3.connect(service.settings.store.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for request, body in ((FEEDBACK, {"impression": shown, "clicked": [1]}), (RECOMMEND, {"user": "held"})):
            reply = service.ask(*request, body)
            assert (reply.status, reply.headers["retry-after"], reply.field) == (503, "1", None)
        assert service.ask("GET", "/readyz").status == 503
        assert service.ask("GET", "/healthz").status == 200
        other.execute("ROLLBACK")
    known = client.user("held")
    assert (known.impressions, known.answered) == (1, 0)
    assert client.feedback(shown, [1]).clicked == [1]
    assert client.ready()
    assert [line for line in service.log() if line["event"] == "store-error" and line.get("request_id")]


def test_a_stopped_store_is_503_until_it_is_back(postgres, tmp_path):
    with serving(tmp_path, store=postgres.fresh()) as service, service.client() as client:
        shown = client.recommend("ana").id
        postgres.stop("immediate")
        try:
            for request, body in ((FEEDBACK, {"impression": shown, "clicked": [1]}), (RECOMMEND, {"user": "ana"})):
                reply = service.ask(*request, body)
                assert (reply.status, reply.headers["retry-after"], reply.field) == (503, "1", None)
                assert b"postgres" not in reply.body
            assert not client.ready()
            assert client.healthy()
        finally:
            postgres.start()
        assert client.ready()
        assert client.feedback(shown, [1]).clicked == [1]
        assert client.user("ana").learners["default"].updates == 1


def test_a_bug_is_500_without_its_reason(service, monkeypatch):
    monkeypatch.setattr(service.app.app.state.service, "metrics", "nothing with a secret in it")
    reply = service.ask("GET", "/metrics", X_Request_ID="mine")
    assert (reply.status, reply.field, reply.json["error"]) == (500, None, "something went wrong in the service")
    assert reply.headers["x-request-id"] == "mine"
    assert [line["error"] for line in service.log() if line["event"] == "error" and line["request_id"] == "mine"]


def test_ids_of_impressions_cannot_be_guessed(client):
    ids = [UUID(client.recommend("ids").id) for _ in range(50)]
    assert all(one.version == 7 and one.variant == "specified in RFC 4122" for one in ids)
    # 74 of the bits are random: none is always the same, and no two ids have the same last 62 bits.
    drawn = [one.int & ~(0xF << 76) & ~(3 << 62) & (2**80 - 1) for one in ids]
    assert len({one % 2**62 for one in drawn}) == 50
    assert all(
        0 < sum(one >> bit & 1 for one in drawn) < 50 for bit in range(80) if bit not in (62, 63, *range(76, 80))
    )
