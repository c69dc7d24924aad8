"""Hostile bodies and names, and data that must not be shown or left behind."""

import json
import re
import subprocess
from dataclasses import asdict
from urllib.parse import quote

import pytest
from running import thali_here
from serving_here import serving, small_catalog

import thali
from thali.cli.serve import LOOPBACK, serve
from thali.service.http.settings import Limits

HOSTILE = [
    "'; DROP TABLE impressions; --",
    '" OR 1=1 --',
    "..\\..\\etc\\passwd",
    "%2e%2e%2fetc%2fpasswd",
    "<script>alert(1)<b>",
    "{{7*7}} ${7*7} %s %n",
    "\u202egnp.exe",
    '\u2028{"event":"forged"}',
    "null",
    "__proto__",
    "😀" * 64,
    " ",
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service without keys: only for this machine, and every caller is admin."""
    with serving(tmp_path_factory.mktemp("safety"), hosts=LOOPBACK, limits=Limits(body=200_000)) as running:
        yield running


def test_without_keys_the_service_listens_only_on_this_machine(tmp_path):
    thali.save_catalog(small_catalog(), tmp_path / "c.parquet")
    process = thali_here("serve", "c.parquet", "--host", "0.0.0.0", cwd=tmp_path)
    assert process.returncode != 0
    assert "unless --keys is given, got 0.0.0.0" in " ".join(process.stderr.split())
    assert "Traceback" not in process.stderr
    for host in ("::", "192.0.2.1", "example.com", "", "localhost.example.com"):
        with pytest.raises(ValueError, match="host must be a loopback address"):
            serve(tmp_path / "c.parquet", f"sqlite:///{tmp_path / 'thali.db'}", host)
    assert not (tmp_path / "thali.db").exists()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"[" * 100_000, 400, "body"),
        (b'{"user":"a","exclude":' + b'{"a":' * 25_000 + b"1" + b"}" * 25_000 + b"}", 400, "body"),
        (b'{"user":"a","K":' + b"9" * 6000 + b"}", 400, "body"),
        (b'{"user":"a","K":%d}' % 10**300, 422, "K"),
        (b'{"user":"a","K":101}', 422, "K"),
        (b'{"user":"a","alpha":1e400}', 422, "alpha"),
        (b'{"user":"a","alpha":NaN}', 422, "alpha"),
        (b'{"user":"a","alpha":-Infinity}', 422, "alpha"),
        (b'{"user":"a","alpha":1e300}', 422, "alpha"),
        (b'{"user":"a","alpha":true}', 422, "alpha"),
        (b'{"user":"\\ud800"}', 400, "body"),
        (b'{"user":"a","exclude":["\\udfff"]}', 400, "body"),
        (b'{"user":"a\\u0000b"}', 422, "user"),
        (b'{"user":"a\\u001b[31m"}', 422, "user"),
        (b'{"user":"a\\nb"}', 422, "user"),
        (b'{"user":"a\\u0085b"}', 422, "user"),
        (b'{"user":null}', 422, "user"),
        (b'{"user":{"$ne":null}}', 422, "user"),
        (json.dumps({"user": "a", "exclude": ["x"] * 10_001}).encode(), 422, "exclude"),
        (json.dumps({"user": "a", "candidates": ["i0"] * 10_001}).encode(), 422, "candidates"),
        (json.dumps({"user": "a", "__class__": "x"}).encode(), 422, "__class__"),
        (json.dumps({"user": "a", "x" * 100_000: 1}).encode(), 422, "x" * 200),
    ],
)
def test_hostile_bodies(service, body, status, field):
    reply = service.ask("POST", "/v1/recommend", body)
    assert (reply.status, reply.field) == (status, field)
    assert len(reply.body) < 1000


def test_if_a_field_occurs_twice_the_last_value_counts(service):
    """This is how Python reads JSON. Proxies that check requests must know it."""
    assert service.ask("POST", "/v1/recommend", b'{"user":"first","user":"last"}').json["user"] == "last"
    assert service.ask("GET", "/v1/users/first").status == 404


def test_a_batch_that_is_too_long_is_rejected_completely(service):
    with service.client() as client:
        shown = client.recommend("long").id
        reply = service.ask("POST", "/v1/feedback", [{"impression": shown, "clicked": [0]}] * 1001)
        assert (reply.status, reply.field) == (422, "body")
        assert client.user("long").answered == 0


def test_hostile_names_are_treated_as_data(service):
    with service.client() as client:
        for name in HOSTILE:
            assert client.put_item(name, {"comedy": 1.0, "drama": 1.0}).weights == {"comedy": 1.0, "drama": 1.0}
            shown = client.recommend(name, candidates=[name, "i1", "i2", "i3"])
            assert name in {one.item for one in shown.items}
            client.feedback(shown.id, [0])
            assert client.impression(shown.id).user == name
            assert (client.user(name).user, client.user(name).answered) == (name, 1)
            assert [one.id for one in client.history(name)] == [shown.id]
            assert asdict(client.export(name))["impressions"][0]["user"] == name
            assert client.item(name).weights == {"comedy": 1.0, "drama": 1.0}
            assert name in [one.item for one in client.items(contains=name)]
            assert asdict(client.forget(name))["impressions"] == 1
            client.remove_item(name)
        assert client.put_item("../../etc/passwd", {"drama": 0.5}).weights == {"drama": 0.5}
        assert client.remove_item("../../etc/passwd").weights == {"drama": 0.5}
        assert len(list(client.items())) == 24
        reply = service.ask("GET", "/v1/items/" + quote("<script>", safe=""))
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_page_loads_from_this_host_only(service):
    page = service.ask("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert b"http:" not in page.body
    assert b"https:" not in page.body
    assets = re.findall(rb'(?:src|href)="(docs/[^"]+)"', page.body)
    assert len(assets) == 3
    for asset in assets:
        reply = service.ask("GET", f"/{asset.decode()}")
        assert reply.status == 200
        assert reply.body
        assert reply.headers["content-type"].startswith(("text/css", "text/javascript"))
    document = service.ask("GET", "/openapi.json").json
    assert document["openapi"].startswith("3.")
    assert len(document["paths"]) == 20


def test_a_forgotten_user_leaves_no_trace_in_the_file(tmp_path):
    """This includes free pages and the write-ahead log, while the service is running."""
    name = "somebody-to-forget"
    with serving(tmp_path) as service, service.client() as client:
        for other in range(30):
            for user in (name, f"other{other}"):
                client.feedback(client.recommend(user).id, [other % 4])
        assert asdict(client.forget(name))["impressions"] == 30
        for file in tmp_path.glob("thali.db*"):
            assert name.encode() not in file.read_bytes()
    left = {file.name: file.read_bytes().count(name.encode()) for file in tmp_path.glob("thali.db*")}
    assert left == {"thali.db": 0}
    assert b"other7" in (tmp_path / "thali.db").read_bytes()


def test_only_the_owner_can_read_the_file(service):
    file = service.settings.store.removeprefix("sqlite:///")
    for part in ("", "-wal"):
        found = subprocess.run(["stat", "-c", "%a", file + part], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "600"
