"""The files of the page, their size and what they may load; and ``thali demo --web``. See also test_page_*.py."""

import os
import re
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from ports import free_port
from serving import Service
from serving_here import serving

import thali
from thali.cli.app import main
from thali.cli.page import Items, choose
from thali.service.http.settings import check_keys

STATIC = Path(thali.__file__).parent / "service" / "web" / "static"
MOST = 150_000


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("web"), keys=check_keys([("admin", "a" * 16)], "")) as running:
        yield running


def parts(text: str) -> set[str]:
    """Return the paths that a file of the page loads."""
    return {f"/{name}" for name in re.findall(r'(?:src|href)="(page/[^"]+)"', text)} | {
        f"/page/{name}" for name in re.findall(r'from "\./([^"]+)"', text)
    }


def test_the_page_is_complete_small_and_needs_no_key(service):
    found, waiting = {}, {"/"}
    while waiting:
        path = waiting.pop()
        reply = found[path] = service.ask("GET", path)
        assert reply.status == 200, path
        waiting |= parts(reply.body.decode()) - found.keys()
    assert {Path(path).name for path in found} - {""} | {"index.html"} == {file.name for file in STATIC.iterdir()}
    assert sum(len(reply.body) for reply in found.values()) < MOST
    kinds = {Path(path).suffix: reply.headers["content-type"] for path, reply in found.items()}
    assert kinds == {
        "": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }  # fmt: skip


def test_the_page_may_load_nothing_from_other_hosts_and_no_inline_scripts(service):
    rules = service.ask("GET", "/").headers["content-security-policy"].split("; ")
    assert dict(rule.split(" ", 1) for rule in rules) == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'",
        "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    }  # fmt: skip
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8")
        assert set(re.findall(r"\b[a-z]+://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style|\son[a-z]+=|\sstyle=", page)


def test_the_page_uses_only_the_api():
    """All requests are sent from one file, to paths of the API."""
    for file in STATIC.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert ("fetch(" in text) == (file.name == "api.js")
        assert not re.search(r"XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\(", text)
    paths = re.findall(r'request\("[A-Z]+", ["`]([^"`?]+)', (STATIC / "api.js").read_text(encoding="utf-8"))
    assert len(paths) == 11
    assert all(path.startswith("v1/") for path in paths)


def test_no_other_file_is_served(service):
    for name in ("", "page.py", "..%2Fpage.py", "%2e%2e/page.py", "../page.py", "index.htm", "app.js/", "APP.JS"):
        assert service.ask("GET", f"/page/{name}").status == 404, name
    assert service.ask("POST", "/", {}).status == 405
    assert service.ask("GET", "//v1/topics").status == 401  # paths below the root still need a key


class Demo(Service):
    """``thali demo --web``."""

    def command(self):
        return ("demo", "--web", "--items", "dishes")


@pytest.mark.slow
def test_the_demo_serves_the_page_and_leaves_nothing_behind(tmp_path):
    with Demo(tmp_path) as demo, demo.client() as client:
        assert asdict(client.about())["items"] == 200
        assert [learner["name"] for learner in asdict(client.about())["learners"]][:2] == ["CascadeLSB", "LSBGreedy"]
        assert {client.recommend(f"guest-{n}").learner for n in range(20)} == {"CascadeLSB"}
        shown = client.recommend("guest-1", learner="CascadeLinUCB")
        assert (shown.learner, len(shown.items)) == ("CascadeLinUCB", 6)
        assert f"Open {demo.url} in a browser" in demo.tail()
        assert list(tmp_path.glob("thali-demo-*/thali.db"))
        os.kill(demo.pid, signal.SIGINT)  # Ctrl-C
        assert demo.wait_end() in (0, 130, -signal.SIGINT)
    assert "Traceback" not in demo.tail()
    assert not list(tmp_path.glob("thali-demo-*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--web", "--steps", "10"), "--steps can only be used without --web"),
        (("--port", "8001"), "--port can only be used with --web"),
        (("--web", "--items", "dishes", "--data", "."), "data cannot be used with --items dishes, got ."),
        (("--web", "--data", "."), "data must be a folder that contains ml-1m, got ."),
        (("--web", "--items", "movielens", "--data", "."), "ml-1m does not exist: it must contain ratings.dat"),
    ],
)
def test_settings_of_the_demo_that_do_not_fit_are_a_sentence(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    if "--web" in options:  # so that it does not matter what else runs on this machine
        options = (*options, "--port", str(free_port()))
    monkeypatch.setattr(sys, "argv", ["thali", "demo", *options])
    with pytest.raises(SystemExit, match=re.escape(message)):
        main()


def test_films_are_chosen_where_they_are_there_and_have_their_titles(tmp_path, monkeypatch):
    monkeypatch.setenv("THALI_CACHE", str(tmp_path / "none"))
    monkeypatch.delenv("THALI_DATA", raising=False)
    assert choose(Items.auto, None)[0].L == 200
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "movies.dat").write_text("1::Heat (1995)::Action|Crime\n2::Babe (1995)::Comedy\n3::Babe (1995)::Drama\n")
    (folder / "ratings.dat").write_text("1::1::5::0\n1::2::5::0\n2::2::5::0\n2::3::4::0\n2::1::5::0\n")
    for arguments in ((Items.auto, tmp_path), (Items.movielens, folder)):
        catalog, description = choose(*arguments)
        assert sorted(catalog.items) == ["Babe (1995) [2]", "Babe (1995) [3]", "Heat (1995)"]
        assert set(catalog.topics) == {"Action", "Comedy", "Crime", "Drama"}
        assert "MovieLens" in description
    monkeypatch.setenv("THALI_DATA", str(tmp_path))
    assert choose(Items.auto, None)[0].L == 3
    assert choose(Items.dishes, None)[0].L == 200
