"""The view Play under bad conditions: errors, hostile names, phones, accessibility, size and speed."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playing import LEARNERS, play_service, playing
from playwright.sync_api import expect
from ports import free_port
from reasons import check_reasons
from serving_here import serving

import thali
from thali.cli.page import K
from thali.service.http.settings import LearnerSetting

pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 375, "height": 700}, "has_touch": True, "is_mobile": True}
SIDEWAYS = "() => Math.max(document.documentElement.scrollWidth, innerWidth)"
PRESSED_TOGETHER = """keys => {
  for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with play_service(tmp_path_factory.mktemp("play")) as running:
        yield running


# Duplicates and errors


def test_an_answer_is_sent_once(browser, service):
    with playing(browser, service) as player:
        with player.another(), player.held("/v1/feedback"):
            player.items.nth(2).click()
            expect(player.plate).to_have_attribute("aria-busy", "true")
            for key in ("1", "n", "u"):
                player.page.keyboard.press(key)
            player.items.nth(4).click()
            player.button("None of these").click()
        assert player.sent == 1
        with player.another():
            player.items.nth(1).dblclick()
        assert player.sent == 2
        with player.another():
            player.page.evaluate(PRESSED_TOGETHER, "53")
        assert player.sent == 3
        # If the second click of a double click comes after the next list, it does not answer that list.
        box = player.items.nth(3).bounding_box()
        mouse = player.page.mouse
        with player.another():
            mouse.click(box["x"] + 20, box["y"] + 10)
        mouse.down(click_count=2)
        mouse.up(click_count=2)
        player.answer(0)
        assert player.answers() == [(2,), (1,), (4,), (3,), (0,)]


def test_a_service_that_stops_and_comes_back(browser, service, tmp_path):
    settings = {"catalog": service.catalog, "learners": LEARNERS, "port": free_port()}
    with ExitStack() as visits:
        with serving(tmp_path, **settings) as running:
            player = visits.enter_context(playing(browser, running, complaints=False))
            player.answer(0)
            before, taste = (player.impression, player.names), player.taste()
        for act in (player.items.nth(1), player.button("Undo"), player.button("None of these"), player.items.nth(1)):
            act.click()
            expect(player.alert).to_have_text("The service cannot be reached.")
            assert ((player.impression, player.names), player.taste()) == (before, taste)
        with serving(tmp_path, **settings):
            player.answer(1)
            assert player.answers() == [(0,), (1,)]
            assert player.score.startswith("Round 3: you liked something in 2 of 2 ")
            assert player.taste() == player.learned()
            old = player.impression
        (tmp_path / "new").mkdir()
        with serving(tmp_path / "new", **settings):  # without any users
            player.items.nth(0).click()
            player.wait(old)
            expect(player.alert).to_have_text("The service no longer has this list. Here is a new one.")
            player.answer(2)
            assert player.answers() == [(2,)]
            assert player.score.startswith("Round 2: you liked something in 1 of 1 ")


def test_the_page_gives_up_on_a_service_that_does_not_respond(browser, service):
    with playing(browser, service, complaints=False) as player:
        before = player.impression
        with player.held("/v1/feedback"):
            player.items.nth(2).click()
            expect(player.plate).to_have_attribute("aria-busy", "true")
            expect(player.alert).to_have_text("The service does not respond.", timeout=60_000)  # after 30 seconds
            assert player.impression == before
        player.answer(2)
        assert player.answers() == [(2,)]


def test_a_store_that_fails_for_a_while(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("thali.service.recommender.transaction.PATIENCE_S", 0.05)
    with (
        serving(tmp_path) as service,
        closing(sqlite3.connect(tmp_path / "thali.db", isolation_level=None)) as other,
        playing(browser, service, complaints=False) as player,
    ):
        before = player.impression
        other.execute("BEGIN IMMEDIATE")
        for act in (player.items.nth(2), player.button("Start again")):
            act.click()
            expect(player.alert).to_contain_text("store")
            expect(player.plate).to_have_attribute("data-impression", before)
        other.execute("ROLLBACK")
        player.answer(2)
        assert player.answers() == [(2,)]

        other.execute("BEGIN IMMEDIATE")
        player.page.reload()
        expect(player.alert).to_contain_text("store")
        player.page.keyboard.press("n")
        other.execute("ROLLBACK")
        player.button("Try again").click()
        player.wait()
        expect(player.alert).to_be_hidden()
        assert (player.answers(), player.score[:8]) == ([(2,)], "Round 2:")


def test_if_the_next_list_fails_to_load_the_answer_still_counts_once(browser, service):
    with playing(browser, service, complaints=False) as player:

        def fails(act):
            act.click()
            expect(player.alert).to_have_text("The service cannot be reached.")

        before = player.impression
        player.page.route("**/v1/recommend", lambda route: route.abort())
        fails(player.items.nth(2))
        fails(player.items.nth(2))
        assert player.impression == before
        player.page.unroute("**/v1/recommend")
        player.answer(2)
        assert (player.answers(), player.score[:41]) == ([(2,)], "Round 2: you liked something in 1 of 1 li")

        before = player.impression
        player.page.route("**/v1/recommend", lambda route: route.abort())
        fails(player.items.nth(3))
        player.page.unroute("**/v1/recommend")
        player.items.nth(1).click()  # not the position that is already recorded
        player.wait(before)
        expect(player.alert).to_contain_text("This list was already answered differently")
        assert (player.answers(), player.score[:41]) == ([(2,), (3,)], "Round 3: you liked something in 2 of 2 li")

        player.page.route("**/v1/impressions/*", lambda route: route.abort())
        fails(player.button("Undo"))
        player.page.unroute("**/v1/impressions/*")
        player.undo()
        assert player.impression == before
        assert (player.answers(), player.score[:41]) == ([(2,)], "Round 2: you liked something in 1 of 1 li")


# Hostile names, phones, accessibility

LONG = "w" * 256
HOSTILE_ITEMS = (
    '<img src=x onerror="window.ran = 1">',
    "<script>window.ran = 1</script>",
    "</button></li><a href='//elsewhere.example' class=made>\"`&amp;&lt;",
    "\N{RIGHT-TO-LEFT OVERRIDE}desrever\N{POP DIRECTIONAL FORMATTING} and \N{RIGHT-TO-LEFT OVERRIDE}on",
    LONG,
    "ف" * 256,
    "__proto__",
    "  spaces  within  ",
)
HOSTILE_TOPICS = (
    "<svg onload='window.ran = 1'>",
    "__proto__",
    "constructor",
    "\N{RIGHT-TO-LEFT OVERRIDE}topic",
    "t" * 256,
    '"><b class=made>quoted</b>',
)
HOSTILE_USER = ("<img src=x onerror='window.ran = 1'>\N{RIGHT-TO-LEFT OVERRIDE}\\?#%2e&\"'" + "u" * 256)[:256]


@pytest.mark.parametrize("context", [{}, PHONE], ids=["desktop", "phone"])
def test_hostile_names_are_only_text(browser, tmp_path, context):
    weights = np.full((len(HOSTILE_ITEMS), len(HOSTILE_TOPICS)), 0.2)
    weights[np.arange(len(weights)), np.arange(len(weights)) % len(HOSTILE_TOPICS)] = 0.9
    catalog = thali.Catalog(weights, items=list(HOSTILE_ITEMS), topics=list(HOSTILE_TOPICS))
    learners = (LearnerSetting("default", K=len(HOSTILE_ITEMS)),)
    with (
        serving(tmp_path, catalog=catalog, learners=learners) as service,
        playing(browser, service, **context) as player,
    ):
        page = player.page
        tags = "() => [...new Set([...document.querySelectorAll('*')].map((one) => one.localName))]"
        before = set(page.evaluate(tags))
        page.evaluate("user => localStorage.setItem('thali.play', JSON.stringify({user}))", HOSTILE_USER)
        for _ in range(2):
            player.reload()
            assert player.user == player.truth.user != HOSTILE_USER  # the page has generated a name of its own
            assert sorted(player.names) == sorted(HOSTILE_ITEMS)
            assert player.names == [one.item for one in player.truth.items]
            rows = player.rows()
            assert [row["head"] for row in rows.values()] == list(rows) == list(HOSTILE_TOPICS)
            check_reasons(catalog, player, diverse=True)
            # A name that reverses the writing direction affects only itself: the gain still follows the topic.
            for chip in player.items.first.locator(".chip").all():
                topic, gain = chip.locator("bdi").bounding_box(), chip.locator("b").bounding_box()
                assert gain["x"] >= topic["x"] or gain["y"] > topic["y"]
            assert page.evaluate(SIDEWAYS) == page.viewport_size["width"]
            player.answer(0)
            expect(page.get_by_role("status")).to_contain_text("Here is a new list.")
        assert len(player.answers()) == 2
        assert page.locator(".made, [onerror], [onload], main img, main a, script:not([src])").count() == 0
        assert page.evaluate("() => window.ran === undefined")
        assert set(page.evaluate(tags)) - before <= {"circle", "h2", "path"}  # from the chart of clicked positions


def test_on_a_phone(browser, service):
    with playing(browser, service, **PHONE) as player:
        for position in (1, None, 4):
            assert player.page.evaluate(SIDEWAYS) == 375
            with player.another():
                (player.button("None of these") if position is None else player.items.nth(position)).tap()
        with player.another():
            player.button("Undo").tap()
        assert player.answers() == [(1,), ()]
        for one in player.page.locator("button, select, nav a, label").all():
            if one.is_visible():
                box = one.bounding_box()
                assert min(box["width"], box["height"]) >= 24, one.text_content()
                assert 0 <= box["x"] <= box["x"] + box["width"] <= 375
        assert player.page.locator("button:visible").count() == K + 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{}, PHONE], ids=["desktop", "phone"])
def test_no_serious_finding_of_axe(browser, service, size, scheme):
    def serious():
        found = Axe().run(player.page).response["violations"]
        return [
            (one["id"], node["html"])
            for one in found
            for node in one["nodes"]
            if one["impact"] in ("serious", "critical")
        ]

    with playing(browser, service, color_scheme=scheme, **size) as player:
        assert serious() == []
        for position in (0, 3, None):
            player.answer(position)
        player.items.nth(2).focus()
        assert serious() == []


# Size and speed


def test_the_page_is_small(browser, service):
    with playing(browser, service) as player:
        loaded = player.page.evaluate("() => performance.getEntries().map((one) => one.name)")
        own = {urlsplit(name).path for name in loaded if name.startswith(service.url) and "/v1/" not in name}
        assert {"/", "/page/app.js", "/page/style.css", "/page/play.js"} <= own
        assert sum(len(service.ask("GET", path).body) for path in own) < 150_000


def test_the_first_list_appears_quickly(browser, service):
    """Take the best of up to thirty visits, because other programs may be using the machine for minutes."""
    with playing(browser, service) as player:  # warms up the service
        assert len(player.names) == K

    def first_list_ms():
        with playing(browser, service) as player:
            marks = player.page.evaluate("() => performance.getEntriesByName('thali-list').map((one) => one.startTime)")
            assert len(marks) == 1
            return marks[0]

    times = []
    while len(times) < 5 or (len(times) < 30 and min(times) >= 300):
        times.append(first_list_ms())
    assert min(times) < 300, times
