"""Keys, hosts, limits, request ids, headers and the log: what every request passes before it reaches a route."""

import json
import re
import socket
import time
from urllib.parse import quote
from uuid import uuid4

import pytest
from serving_here import serving

from thali.cli.serve import LOOPBACK
from thali.client import NotAllowed
from thali.service.http.settings import Limits, check_keys

KEYS = {role: f"{role}-{'0123456789abcdef'}" for role in ("read", "write", "admin")}
OPEN = None
# The role that each route needs. A route that is missing here fails the tests.
NEEDS = {
    ("POST", "/v1/recommend"): "write",
    ("POST", "/v1/feedback"): "write",
    ("GET", "/v1/impressions/{impression}"): "read",
    ("DELETE", "/v1/impressions/{impression}/feedback"): "write",
    ("GET", "/v1/users/{user}"): "read",
    ("DELETE", "/v1/users/{user}"): "admin",
    ("GET", "/v1/users/{user}/impressions"): "read",
    ("GET", "/v1/users/{user}/export"): "admin",
    ("DELETE", "/v1/users/{user}/histories/{history}"): "admin",
    ("GET", "/v1/items"): "read",
    ("PUT", "/v1/items"): "admin",
    ("POST", "/v1/catalog"): "admin",
    ("GET", "/v1/prior"): "read",
    ("POST", "/v1/prior"): "admin",
    ("GET", "/v1/items/{item}"): "read",
    ("PUT", "/v1/items/{item}"): "admin",
    ("DELETE", "/v1/items/{item}"): "admin",
    ("GET", "/v1/topics"): "read",
    ("GET", "/v1/stats"): "read",
    ("POST", "/v1/simulations"): "write",
    ("GET", "/v1/about"): OPEN,
    ("GET", "/v1/health"): "admin",
    ("GET", "/metrics"): "read",
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("HEAD", "/openapi.json"): OPEN,
    ("GET", "/"): OPEN,
    ("GET", "/page/{name}"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/start.js"): OPEN,
    ("GET", "/docs/{name}"): OPEN,
}
PAGES = ("/page", "/docs", "/openapi")
BODIES = {
    "/v1/recommend": {"user": "roles"},
    "/v1/feedback": {"impression": str(uuid4()), "clicked": []},
    "/v1/items/{item}": {"weights": {"comedy": 0.5}},
    "/v1/items": {"items": [{"item": "comic", "weights": {"comedy": 0.5}}]},
    "/v1/catalog": {"discard_changes": True},
    "/v1/prior": {},
    "/v1/simulations": {"policies": ["nothing"]},
}


def every_route(routes):
    """Yield the method and path of all routes, including those of nested routers."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from every_route(route.original_router.routes)
        else:
            yield from ((method, route.path.replace(":path}", "}")) for method in route.methods)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service without keys: only for this machine, and every caller is admin."""
    with serving(tmp_path_factory.mktemp("middleware"), hosts=LOOPBACK, limits=Limits(body=200_000)) as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A service with keys."""
    with serving(tmp_path_factory.mktemp("locked"), keys=check_keys(list(KEYS.items()), "")) as running:
        yield running


def test_every_route_requires_its_role(locked):
    found = set(every_route(locked.app.app.routes))
    assert found == NEEDS.keys()
    described = {(m.upper(), path) for path, it in locked.app.app.openapi()["paths"].items() for m in it}
    assert described == {(m, p) for m, p in found if p != "/" and not p.startswith(PAGES)}
    roles = list(KEYS)
    for method, path in sorted(found):
        needed = NEEDS[method, path]
        asset = "app.js" if path.startswith("/page") else "swagger-ui.css"
        name = {"impression": str(uuid4()), "name": asset, "user": "nobody", "item": "i0", "history": "h"}
        body = BODIES.get(path) if method in ("POST", "PUT") else None
        statuses = {
            role: locked.ask(method, path.format_map(name), body, key=key).status
            for role, key in {None: None, **KEYS}.items()
        }
        if needed is OPEN:
            assert set(statuses.values()) == {200}, (method, path)
            continue
        assert statuses.pop(None) == 401, (method, path)
        low = roles[: roles.index(needed)]
        assert [statuses.pop(role) for role in low] == [403] * len(low), (method, path)
        assert set(statuses.values()) <= {200, 404, 422}, (method, path, statuses)
        assert statuses["admin"] != 422 or path in ("/v1/simulations", "/v1/prior"), (method, path)


def test_wrong_keys_are_401_whatever_they_look_like(locked):
    right = KEYS["admin"]
    wrong = (right[:-1], right + "x", right.upper(), "", " ", f"{right} {right}", "x" * 5000, "\xe9" * 16)
    for header in (*(f"Bearer {key}" for key in wrong), f"Basic {right}", f"Bearer{right}", right, "Bearer", ""):
        reply = locked.ask("GET", "/v1/topics", Authorization=header)
        assert (reply.status, reply.field, reply.headers["www-authenticate"]) == (401, "Authorization", "Bearer"), (
            header
        )
        assert right.encode() not in reply.body
    assert locked.ask("GET", "/v1/nothing").status == 401  # callers without a key do not learn which paths exist
    assert locked.ask("GET", f"/v1/topics?key={right}").status == 401
    assert locked.ask("GET", "/v1/topics", Authorization=f"bearer {right}").status == 200
    reply = locked.ask("DELETE", "/v1/users/ana", key=KEYS["read"])
    assert (reply.status, reply.field) == (403, None)
    with locked.client(key=KEYS["read"]) as client, pytest.raises(NotAllowed, match="role write"):
        client.recommend("ana")
    assert not any(key in locked.log_file.read_text() for key in KEYS.values())


def test_other_host_names_are_rejected(service, locked):
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost@evil", "", "[::2]"):
        reply = service.ask("GET", "/v1/topics", Host=host)
        assert (reply.status, reply.field) == (421, "Host"), host
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8000"):
        assert service.ask("GET", "/v1/topics", Host=host).status == 200, host
    assert locked.ask("GET", "/v1/topics", key=KEYS["read"], Host="shop.example").status == 200


def test_other_websites_cannot_post_to_the_service(service):
    """Other websites can send only these content types without a preflight request, and preflights are rejected."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert service.ask("POST", "/v1/recommend", {"user": "ana"}, Content_Type=kind).status == 415
    preflight = service.ask(
        "OPTIONS", "/v1/recommend", Origin="http://evil.example", Access_Control_Request_Method="POST"
    )
    assert preflight.status == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def post(*headers: bytes, body: bytes = b"") -> bytes:
    fixed = (
        b"POST /v1/recommend HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/json",
        b"Connection: close",
    )
    return b"\r\n".join((*fixed, *headers, b"", body))


def chunked(body: bytes) -> bytes:
    parts = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return post(b"Transfer-Encoding: chunked", body=sent + b"0\r\n\r\n")


def test_bodies_over_the_limit_are_413_with_and_without_a_length(service):
    fits = json.dumps({"user": "ana", "exclude": ["x"]}).encode().ljust(200_000)
    for raw in (post(b"Content-Length: 200000", body=fits), chunked(fits)):
        assert service.send(raw).status == 200
    large = post(b"Content-Length: 200001", body=fits + b" ")
    announced = post(b"Content-Length: 99999999999")  # rejected before any of the body is read
    for raw in (large, chunked(fits + b" "), announced):
        reply = service.send(raw)
        assert (reply.status, reply.field) == (413, "body")
    for length in (b"-1", b"1e3", b"1, 2"):
        assert 400 <= service.send(post(b"Content-Length: " + length, body=b"{}")).status < 500
    both = post(b"Content-Length: 2", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")
    assert 400 <= service.send(both).status < 500


def test_one_path_is_one_name(service):
    """No part of a path is dropped or repaired, so that no user is mistaken for another."""
    with service.client() as client:
        client.recommend("one")
        for path in ("one%0A", "one%0D%0A", "one%00", "%1B%5B31m", "one%C2%85", "%FF", "one%C3", "%ED%A0%80"):
            for method in ("GET", "DELETE"):
                reply = service.ask(method, f"/v1/users/{path}")
                assert (reply.status, reply.field) == (422, "path"), path
            assert service.ask("PUT", f"/v1/items/{path}", {"weights": {}}).status == 422
        assert client.user("one").impressions == 1
        client.recommend("\ufffd")
        assert client.user("\ufffd").impressions == 1
        assert service.ask("GET", "/v1/users/" + "x" * 257).field == "user"
        for path in ("/v1/users/../stats", "/v1/users//", "//v1/topics", "/docs/../../etc/passwd", "/docs/%2e%2e/x"):
            assert service.ask("GET", path).status == 404, path
        assert 400 <= service.ask("GET", "/v1/users/" + "x" * 60_000).status < 500
        assert 400 <= service.ask("GET", "/v1/users/" + "x" * 500_000).status < 500
        assert (
            service.send(b"GET /v1/users/\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status == 400
        )


def test_the_log_has_one_object_per_line_and_cannot_be_forged(service):
    forged = '\n{"event":"forged"}\r\n\x1b[2J\u2028\u0085\x9b31m'
    service.ask("GET", "/v1/users/" + quote(forged, safe=""), X_Request_ID="forge-1")
    service.ask("POST", "/v1/recommend", {"user": forged}, X_Request_ID="forge-2")
    service.ask("GET", "/" + "y" * 50_000, X_Request_ID="forge-3")
    lines = {line["request_id"]: line for line in service.log() if line["event"] == "request"}
    assert lines["forge-1"]["path"] == "/v1/users/" + forged
    assert set(lines["forge-2"]) == {"at", "event", "request_id", "method", "path", "status", "ms"}
    assert (lines["forge-2"]["status"], lines["forge-2"]["method"]) == (422, "POST")
    assert {line["event"] for line in service.log()} <= {"started", "request", "tidied"}
    raw = service.log_file.read_bytes()
    assert not re.search(rb"[^\x20-\x7e\n]", raw)
    assert max(map(len, raw.splitlines())) < 1000


def test_request_ids_are_echoed_only_if_they_are_well_formed(service):
    for mine in ("a", "A-z0.9_", "x" * 64):
        assert service.ask("GET", "/healthz", X_Request_ID=mine).headers["x-request-id"] == mine
    for mine in ("", "x" * 65, "a b", "a;b", "<a>", "é", "a\tb", '"}'):
        made = service.ask("GET", "/healthz", X_Request_ID=mine).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9]+", made), mine
    assert len({service.ask("GET", "/healthz").headers["x-request-id"] for _ in range(20)}) == 20


def test_every_response_has_the_security_headers(service, locked):
    replies = [
        service.ask("GET", "/healthz"),
        service.ask("GET", "/nothing"),
        service.ask("POST", "/v1/recommend", b"{"),
        service.ask("POST", "/v1/recommend", {"user": "headers"}),
        service.ask("GET", "/v1/topics", Host="evil.example"),
        service.ask("GET", "/docs"),
        service.ask("GET", "/metrics"),
        locked.ask("GET", "/v1/topics"),
    ]
    for reply in replies:
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "server" not in reply.headers


def test_if_several_rules_are_broken_the_first_one_is_reported(tmp_path):
    """Each request fixes one more rule than the previous one."""
    sent = {"Host": "evil.example", "X_Large": "x" * 33_000, "Content_Type": "text/plain"}
    path, body, key = "/v1/recommend%0A", b" " * 2000, None
    keys = check_keys(list(KEYS.items()), "")
    with serving(tmp_path, hosts=LOOPBACK, keys=keys, limits=Limits(body=1000)) as service:

        def expect(status, field):
            reply = service.ask("POST", path, body, key=key, **sent)
            assert (reply.status, reply.field) == (status, field)

        expect(421, "Host")
        del sent["Host"]
        expect(422, "path")
        path = "/v1/recommend"
        expect(431, "headers")
        del sent["X_Large"]
        expect(413, "body")
        body = b"{"
        expect(415, "Content-Type")
        del sent["Content_Type"]
        expect(401, "Authorization")
        key = KEYS["read"]
        expect(403, None)
        key = KEYS["write"]
        expect(400, "body")
        body = b"{}"
        expect(422, "user")


def test_incomplete_requests_do_not_delay_others(service):
    """Some callers send half a request or half a body, while others are served."""
    halves = (b"GET /v1/topics HTTP/1.1\r\nHost: loc", post(b"Content-Length: 100", body=b'{"user":'))
    lines = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(20)]
    try:
        for at, line in enumerate(lines):
            line.sendall(halves[at % 2])
        begin = time.perf_counter()
        assert service.ask("GET", "/v1/topics").status == 200
        assert time.perf_counter() - begin < 2
    finally:
        for line in lines:
            line.close()
