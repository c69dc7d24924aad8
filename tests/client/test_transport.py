"""Retries, deadlines, errors and connections, against a server that fails on purpose."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from time import perf_counter, time

import faulty_server as do
import pytest

from thali_client import Answer, Client, Conflict, NotAllowed, NotFound, Refused, ServiceError, Unavailable

ANSWER = {"impression": "i1", "clicked": [1], "answer": "feedback"}


@pytest.mark.parametrize(
    "misbehave",
    [
        do.hang_up_early,
        do.hang_up,
        do.cut,
        do.cut_chunked,
        do.hang,
        do.status(503),
        do.status(429),
        do.status(504, b"<html>", "text/html"),
        do.status(503, Retry_After="soon"),
    ],
    ids=["early", "hangs up", "half", "half, chunked", "hangs", "503", "429", "504", "bad Retry-After"],
)
def test_a_request_that_fails_twice_is_sent_a_third_time(service, client, misbehave):
    service.replies = {("POST", "/v1/feedback"): ANSWER}
    service.script.extend([misbehave, misbehave])
    assert client.feedback("i1", [1]) == Answer("i1", [1], "feedback")
    assert len(service.seen) == 3
    read = [one for one in service.seen if one is not None]
    assert all(body == {"impression": "i1", "clicked": [1]} for _, _, body, _ in read)
    assert len({headers["X-Request-ID"] for *_, headers in read}) == 1


def test_retry_after_is_respected(service, client):
    service.script.append(do.status(503, Retry_After="1"))
    begin = perf_counter()
    assert client.export("ana")
    assert 1.0 <= perf_counter() - begin < 2.0


def test_retry_after_may_be_a_date(service):
    service.script.append(do.status(503, Retry_After=formatdate(time() + 3600, usegmt=True)))
    with Client(service.url) as client, pytest.raises(Unavailable, match="after 1 of 6 tries"):
        client.topics()


@pytest.mark.parametrize("threads", [1, 8])
def test_connections_closed_while_idle_are_replaced_without_a_failure(service, threads):
    with Client(service.url, retries=0) as client, ThreadPoolExecutor(threads) as pool:
        service.script.extend([do.close_after] * threads)
        list(pool.map(client.export, ["ana"] * threads))
        assert [export.user for export in pool.map(client.export, "abcdefgh")] == [
            f"/v1/users/{u}/export" for u in "abcdefgh"
        ]
        assert len(service.seen) == threads + 8


def test_without_retries_a_new_connection_is_used_once(service):
    service.script.append(do.hang_up)
    with Client(service.url, retries=0) as client, pytest.raises(Unavailable, match="after 1 of 1 tries"):
        client.topics()
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, Refused), (401, NotAllowed), (403, NotAllowed), (404, NotFound), (409, Conflict), (413, Refused),
     (415, Refused), (422, Refused), (500, ServiceError)],
)  # fmt: skip
def test_other_errors_are_raised_at_once_with_the_services_message(service, client, code, kind):
    message = "K of CascadeLSB must be at least 1, got 0"
    service.script.append(do.status(code, {"error": message, "field": "K", "request_id": "r"}, X_Request_ID="r"))
    with pytest.raises(ServiceError) as raised:
        client.recommend("ana", K=0)
    error = raised.value
    assert type(error) is kind
    assert (str(error), error.status, error.field, error.request_id) == (message, code, "K", "r")
    assert len(service.seen) == 1
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status, again.field) == (kind, message, code, "K")


@pytest.mark.parametrize("code", [404, 500, 302])
def test_an_html_page_of_a_proxy_is_not_an_error_of_the_service(service, client, code):
    """The 404 of a proxy does not mean that a user is unknown."""
    service.script.append(do.status(code, b"<html>sorry</html>", "text/html", Location="/elsewhere"))
    with pytest.raises(ServiceError, match="bytes of text/html, which is not a response of the service") as raised:
        client.user("ana")
    assert type(raised.value) is ServiceError
    assert raised.value.status == code
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"<html>", "text/html"), (b"", "text/plain"), (b'{"impression": "i1"}', "application/json"), (b"[]", "x/y"),
     (b"[" * 100_000, "application/json"), (b"\xff", "application/json"), (b'{"impression": "\xff"}', "x/y")],
)  # fmt: skip
def test_an_unexpected_response_is_an_error(service, client, content, kind):
    service.script.append(do.status(200, content, kind))
    with pytest.raises(ServiceError, match=f"the response must be JSON .*, got {len(content)} bytes of {kind}: "):
        client.recommend("ana")


def test_a_response_that_is_too_large_is_an_error_and_the_next_one_is_read(service, client):
    service.script.append(do.status(200, b" " * (64 * 2**20 + 1)))
    with pytest.raises(ServiceError, match="the response must have at most 67108864 bytes, got more"):
        client.export("ana")
    assert client.export("ben").user == "/v1/users/ben/export"


def test_a_large_response_is_read(service, client):
    service.replies = {("GET", "/v1/topics"): {"topics": ["x" * 2**24]}}
    assert client.topics() == ["x" * 2**24]


def test_chunked_responses_keep_the_connection(service, client):
    service.script.extend([do.chunked] * 3)
    assert [client.export(user).user for user in "abcd"] == [f"/v1/users/{user}/export" for user in "abcd"]
    assert service.connections == 1


@pytest.mark.parametrize("used", [False, True])
def test_a_body_that_the_service_does_not_read_is_refused(service, client, used):
    if used:
        client.topics()
    service.script.append(do.reject_unread)
    with pytest.raises(Refused, match="a body must be of at most 1 byte"):
        client.recommend("ana", candidates=["x" * 100] * 200_000)
    assert len(service.seen) == 1 + used


def test_unavailable_after_all_tries(service):
    service.script.extend([do.status(503)] * 10)
    with Client(service.url, retries=2) as client, pytest.raises(Unavailable) as raised:
        client.topics()
    assert str(raised.value) == f"the service at {service.url} is unavailable after 3 of 3 tries: not now"
    assert raised.value.status == 503
    assert len(service.seen) == 3
    assert raised.value.request_id == service.seen[0][3]["X-Request-ID"]


@pytest.mark.parametrize(
    "misbehave",
    [do.hang, do.drip, do.drip_and_close, do.status(503, Retry_After="3600")],
    ids=["hang", "drip", "drip and close", "wait"],
)
def test_nothing_takes_longer_than_the_deadline(service, misbehave):
    service.script.extend([misbehave] * 10)
    begin = perf_counter()
    with Client(service.url, timeout=0.2, deadline=0.5) as client, pytest.raises(Unavailable):
        client.topics()
    assert perf_counter() - begin < 1.0


@pytest.mark.parametrize(
    ("misbehave", "problem"),
    [(do.hang, "timed out"), (do.hang_up, "closed connection without response"), (do.cut, "85 more expected")],
    ids=["hangs", "hangs up", "half"],
)
def test_the_error_says_what_happened(service, misbehave, problem):
    service.script.append(misbehave)
    with Client(service.url, retries=0, timeout=0.1) as client, pytest.raises(Unavailable) as raised:
        client.topics()
    assert problem in str(raised.value)
    assert "Pool" not in str(raised.value)


def test_unavailable_if_no_service_is_running():
    with do.FaultyServer() as gone:
        pass
    with Client(gone.url, retries=1) as client:
        with pytest.raises(Unavailable, match="after 2 of 2 tries: .*refused") as raised:
            client.recommend("ana")
        assert raised.value.status is None
        assert not client.healthy()


def test_the_key_is_sent_and_never_shown(service):
    key = "open-sesame-1234"
    with Client(service.url + "/behind/a/proxy/", key=key, retries=0) as client:
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
            Client(key=bad)
        assert not bad or bad not in str(raised.value)


def test_a_client_can_be_used_after_it_was_closed(service, client):
    client.topics()
    client.close()
    assert client.topics()
    assert service.connections == 2


def test_eight_threads_share_a_client(service, client):
    """Each gets its own responses, concurrently, over at most as many connections as there are threads."""
    service.script.extend([do.slow] * 160)
    users = [f"u{n}" for n in range(160)]
    begin = perf_counter()
    with ThreadPoolExecutor(8) as pool:
        exports = list(pool.map(client.export, users))
    assert perf_counter() - begin < 160 * 0.02 / 2
    assert [export.user for export in exports] == [f"/v1/users/{user}/export" for user in users]
    assert service.connections <= 8


def test_proxies_of_the_environment_are_not_used(service, client, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Client(service.url, retries=0) as fresh:
        assert fresh.topics()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_opens_its_own_connections(service):
    code = (
        "import os, sys, thali_client\n"
        "client = thali_client.Client(sys.argv[1])\n"
        "client.export('before')\n"
        "child = os.fork()\n"
        "name = 'child' if child == 0 else 'parent'\n"
        "assert client.export(name).user == f'/v1/users/{name}/export'\n"
        "client.close()\n"
        "assert child == 0 or os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code, service.url], check=True, timeout=60)
    assert service.connections == 2


def test_imports_are_light():
    code = (
        "import sys, thali_client\n"
        "print(sorted({'urllib3', 'msgspec'} & set(sys.modules)))\n"
        "thali_client.Client()\n"
        "print(sorted({'numpy', 'numba', 'scipy', 'thali', 'asyncio', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n") == ["[]", "[]", ""]


@pytest.mark.parametrize(
    "settings",
    [{"url": "ftp://x"}, {"url": "127.0.0.1:8000"}, {"url": "http://me:secret@x"}, {"url": "http://x?y"},
     {"timeout": 0}, {"retries": -1}, {"deadline": float("nan")}],
)  # fmt: skip
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} of Client must be") as raised:
        Client(**settings)
    assert "secret" not in str(raised.value)
