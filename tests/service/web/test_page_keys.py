"""The page of a service with keys, in a real browser: which key opens which view, and where a key is stored."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from browser import visit
from page_checks import assert_accessible, frames
from playwright.sync_api import expect
from ports import free_port
from serving_here import serving

from thali.service.http.settings import check_keys

pytestmark = pytest.mark.slow
KEYS = {role: f"{role}-0123456789abcdef" for role in ("read", "write", "admin")}


@pytest.fixture
def locked(tmp_path):
    with serving(tmp_path, keys=check_keys(list(KEYS.items()), "")) as running:
        yield running


def key_field(page):
    return page.get_by_label("Key", exact=True)  # another view, which may still be open, has a box for keyboard keys


def give(page, key):
    key_field(page).fill(key)
    page.get_by_role("button", name="Open").click()


def kept(page):
    """Return where the key could be: the session storage, the local storage, and the page with its address."""
    return page.evaluate(
        """() => {
            const properties = [...document.querySelectorAll("*")].map((one) => one.value ?? "").join(" ");
            const all = (store) => JSON.stringify(Object.entries(store));
            const shown = location.href + document.documentElement.outerHTML + properties;
            return [all(sessionStorage), all(localStorage), shown];
        }"""
    )


def test_without_a_key_the_page_shows_only_a_form(browser, locked):
    paths = []
    with visit(browser, f"{locked.url}/#operate") as page:
        expect(key_field(page)).to_be_visible()
        page.on("request", lambda request: paths.append(request.url.removeprefix(locked.url)))
        page.reload()
        expect(page.get_by_text("This view needs a key with the role admin.")).to_be_visible()
        expect(key_field(page)).to_have_attribute("type", "password")
        for view, role in (("Watch", "write or admin"), ("Play", "write or admin"), ("Operate", "admin")):
            page.get_by_role("link", name=view, exact=True).click()
            expect(page.get_by_text(f"This view needs a key with the role {role}.")).to_be_visible()
        assert page.locator("main table, main svg, main dl, main [data-figure], main ol").count() == 0
        expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
        frames(page, 30)
        assert [path for path in paths if path != "/" and not path.startswith("/page/")] == ["/v1/about"]
        assert_accessible(page)
        for wrong in ("not-a-key-of-this-service", "ключ-которого-нет-у-службы", "with–a–dash-of-typography"):
            give(page, wrong)
            expect(page.get_by_role("alert")).to_have_text("This key is not valid for this service.")
            expect(key_field(page)).to_be_focused()
            assert not any(wrong in place for place in kept(page)[:2])
            page.reload()
            expect(page.get_by_text("This view needs a key with the role admin.")).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)
        assert {path for path in paths if path != "/" and not path.startswith("/page/")} == {"/v1/about"}


def test_a_key_opens_the_views_of_its_role_and_stays_in_its_tab(browser, locked):
    with visit(browser, f"{locked.url}/#play") as page:
        give(page, KEYS["read"])
        role = "This view needs a key with the role write or admin. Your key has the role read."
        expect(page.get_by_text(role)).to_be_visible()
        give(page, f"  {KEYS['write']}\t")
        page.locator(".plate[data-impression]").wait_for()
        page.get_by_role("link", name="Watch").click()
        expect(page.get_by_role("button", name="New person")).to_be_visible()
        page.get_by_role("link", name="Operate").click()
        role = "This view needs a key with the role admin. Your key has the role write."
        expect(page.get_by_text(role)).to_be_visible()
        assert page.locator("[data-figure]").count() == 0
        give(page, "not-a-key-of-this-service")  # does not replace the valid key
        expect(page.get_by_role("alert")).to_have_text("This key is not valid for this service.")
        page.get_by_role("link", name="Play", exact=True).click()
        page.locator(".plate[data-impression]").wait_for()
        page.get_by_role("link", name="Operate").click()
        give(page, KEYS["admin"])
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("1")
        passing, lasting, shown = kept(page)
        assert KEYS["admin"] in passing
        assert not any(key in place for key in KEYS.values() for place in (lasting, shown))
        assert not any(KEYS[role] in passing for role in ("read", "write"))
        assert KEYS["admin"] not in json.dumps(page.context.cookies())
        page.reload()
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("1")

        other = page.context.new_page()  # another tab of the same browser
        other.goto(f"{locked.url}/#operate")
        expect(other.get_by_text("This view needs a key with the role admin.")).to_be_visible()
        other.close()
        page.get_by_role("button", name="Sign out (admin)").click()
        expect(page.get_by_text("This view needs a key with the role admin.")).to_be_visible()
        expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
        assert not any(key in place for key in KEYS.values() for place in kept(page))
        page.reload()
        expect(page.get_by_text("This view needs a key with the role admin.")).to_be_visible()


def test_an_unknown_address_opens_the_first_view(browser, tmp_path):
    with serving(tmp_path) as service:
        for name in ("main", "nothing", "constructor"):
            with visit(browser, f"{service.url}/#{name}") as page:
                page.locator(".plate[data-impression]").wait_for()


def test_the_page_asks_for_another_key_if_the_key_is_no_longer_valid(browser, tmp_path):
    """This holds in every view. The page shows no more than to a visitor without a key."""
    port = free_port()
    keys = [check_keys([("admin", f"{name}-0123456789abcdef")], "") for name in ("first", "second")]
    with ExitStack() as visits:
        with serving(tmp_path, keys=keys[0], port=port) as service:
            pages = {}
            for view in ("play", "operate"):
                page = pages[view] = visits.enter_context(visit(browser, f"{service.url}/#{view}", complaints=False))
                give(page, keys[0][0][1])
            expect(pages["operate"].locator("dd[data-figure='Lists shown']")).to_have_text("1")
            pages["play"].locator(".plate[data-impression]").wait_for()
        with serving(tmp_path, keys=keys[1], port=port):
            pages["play"].keyboard.press("n")
            for page in pages.values():
                expect(page.get_by_text("This view needs a key with the role")).to_be_visible()
                assert page.locator("[data-figure], .plate").count() == 0
            give(pages["play"], keys[1][0][1])
            pages["play"].locator(".plate[data-impression]").wait_for()
