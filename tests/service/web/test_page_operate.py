"""The view Operate in a real browser. Its figures are compared with the API, and users are looked up and forgotten."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from urllib.parse import quote

import numpy as np
import pytest
from browser import visit
from page_checks import HOSTILE, PHONE, assert_accessible, assert_fits, frames, number, percent, tab_to
from playwright.sync_api import expect
from recommending import Clock
from serving_here import serving, small_catalog

import thali
from thali.service.http.settings import LearnerSetting

pytestmark = pytest.mark.slow
LEARNERS = (LearnerSetting("lsb", K=4), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))
#: Names that are valid for users, which must not contain slashes.
NAMES = ("a b  c", "100%", "who?", "#1", "a&b=c", "%2F", "+", *(name for name in HOSTILE if "/" not in name))
NOT_KNOWN = "User 'nobody' is not known."


@pytest.fixture
def service(tmp_path):
    with serving(tmp_path, learners=LEARNERS) as running:
        yield running


def traffic(service, users=("ana", "ben", "cem"), lists=3, learner=None):
    """Some users click on the second item, some on nothing, and the last list of each is not answered."""
    with service.client() as client:
        for at, user in enumerate(users):
            for turn in range(lists):
                shown = client.recommend(user, learner=learner)
                if turn < lists - 1:
                    client.feedback(shown.id, [1] if (turn + at) % 2 else [])


def tiles(page):
    figures = page.locator("dd[data-figure]").evaluate_all(
        "(all) => all.map((one) => [one.dataset.figure, one.innerText])"
    )
    return dict(figures)


def expected_tiles(figures):
    """Compute the tiles from /v1/stats, over all learners."""
    all_of = list(figures["learners"].values())

    def total(what):
        return sum(one[what] for one in all_of)

    def mean(what):
        shown = [one for one in all_of if one["impressions"]]
        return percent(np.average([one[what] for one in shown], weights=[one["impressions"] for one in shown]))

    return {
        "Users with a learned taste (all time)": f"{total('users')}",
        "Lists shown": f"{total('impressions')}",
        "Lists answered": f"{total('answered')}",
        "Click rate": percent(total("clicked") / total("answered")),
        "Exploration share": mean("exploration_share"),
        "Diversity of lists": mean("diversity"),
    }


def number_of_lists(number):
    return f"{number} {'list' if number == 1 else 'lists'}"


def look_up(page, name):
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Look up").click()


def test_figures_are_the_same_as_the_services_and_are_updated(browser, service):
    traffic(service)
    traffic(service, ("dee",), learner="plain")
    with visit(browser, f"{service.url}/#play") as page:
        page.locator(".plate[data-impression]").wait_for()  # one more list
        page.clock.install()
        with page.expect_response("**/v1/health") as answered:
            page.get_by_role("link", name="Operate").click()
        health = answered.value.json()
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("13")
        figures = service.ask("GET", "/v1/stats").json
        assert tiles(page) == expected_tiles(figures)
        rows = page.get_by_role("region", name="Learners").locator("tbody tr")
        for row, (name, one) in zip(rows.all(), figures["learners"].items(), strict=True):
            rate = one["click_rate"]
            assert row.locator("th, td").all_inner_texts() == [
                name, f"{one['policy']}, K = {one['K']}, α = {one['alpha']:g}",
                str(one["users"]), str(one["impressions"]),
                f"{percent(rate['rate'])} ({percent(rate['low'], 0)} to {percent(rate['high'], 0)})",
                percent(one["exploration_share"]), percent(one["diversity"]),
            ]  # fmt: skip
        store = page.get_by_role("region", name="Store")
        expect(store.get_by_text("The store can be used.")).to_be_visible()
        pairs = dict(zip(store.locator("dt").all_inner_texts(), store.locator("dd").all_inner_texts(), strict=True))
        started = datetime.strptime(pairs.pop("Running since"), "%d/%m/%Y, %H:%M:%S").timestamp()
        assert started == pytest.approx(health["started_at"], abs=1.0)
        size = health["store"]["bytes"]
        assert pairs == {
            "URL": service.settings.store,
            "Size": f"{float(f'{size / 1000:.3g}'):g} kB",
            "Test transaction": f"{number(1000 * health['store']['seconds'])} ms",
            "Transactions": f"{health['transactions']}, {number(1000 * health['transaction_seconds'])} ms on average",
            "Requests waiting": f"{health['waiting']} (limit 10,000)",
            "Requests failed because of the store": "0",
            "Users' tastes in memory": str(health["tastes_in_memory"]),
            "Process id": health["process"],
        }
        slowest = page.get_by_role("region", name="Slowest requests", exact=True).locator("tbody tr").all()
        assert [[*row.locator("td").all_inner_texts()[:3], row.locator("code").inner_text()] for row in slowest] == [
            [f"{number(one['ms'], 1)} ms", f"{one['method']} {one['route']}", str(one["status"]), one["request_id"]]
            for one in health["slowest"][:10]
        ]
        assert len(slowest) == 10
        traffic(service, ("eve",))
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("16", timeout=15_000)
        assert tiles(page) == expected_tiles(service.ask("GET", "/v1/stats").json)
        assert page.locator("dd[data-figure='Users with a learned taste (all time)']").inner_text() == "5"
        for hours in (168, 720, 24):
            with page.expect_request(f"**/v1/stats?hours={hours}"):
                page.get_by_label("Period").select_option(str(hours))
        # After leaving the view, the page sends no more requests for it.
        page.get_by_role("link", name="Play").click()
        page.locator(".plate[data-impression]").wait_for()
        urls = []
        page.on("request", lambda request: urls.append(request.url))
        page.clock.run_for(20_000)  # longer than the interval between two updates
        frames(page, 5)
        assert [url for url in urls if "stats" in url or "health" in url] == []


def test_if_two_periods_are_requested_the_last_is_shown(browser, tmp_path):
    """This holds even if the response for the first arrives later."""
    clock = Clock()
    clock.now = time.time() - 10 * 24 * 3600
    policies = {"default": thali.CascadeLSB(small_catalog(), K=4)}
    with thali.Recommender(policies, store=f"sqlite:///{tmp_path / 'thali.db'}", clock=clock) as rec:
        rec.recommend("somebody")
    held = []
    with serving(tmp_path) as service, visit(browser, f"{service.url}/#operate") as page:
        traffic(service)
        shown = page.locator("dd[data-figure='Lists shown']")
        page.route("**/v1/stats?hours=24", lambda route: held.append(route))
        page.get_by_label("Period").select_option("168")
        expect(shown).to_have_text("9")
        page.get_by_label("Period").select_option("24")
        page.get_by_label("Period").select_option("720")
        expect(shown).to_have_text("10")
        with page.expect_event("requestfinished", lambda request: request.url.endswith("stats?hours=24")):
            held[0].continue_()
        frames(page, 30)
        assert shown.inner_text() == "10"


def test_the_page_shows_that_the_store_fails_and_that_it_works_again(browser, postgres, tmp_path):
    url = postgres.fresh()
    with serving(tmp_path, store=url) as service, visit(browser, f"{service.url}/#operate", complaints=False) as page:
        traffic(service)
        state = page.get_by_role("region", name="Store").locator(".state")
        expect(state).to_have_text("The store can be used.")
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("9")
        postgres.stop("immediate")
        try:
            expect(state).to_have_text(re.compile(r"^The store cannot be used: (?!store ).+\.$"))
            expect(page.get_by_role("region", name="Store").locator("dd").first).to_have_text(url)
            expect(page.get_by_role("alert")).to_contain_text("cannot be used")
            look_up(page, "ana")
            expect(page.locator(".found").get_by_role("alert")).to_contain_text("cannot be used")
            assert tiles(page)["Lists shown"] == "9"  # unchanged
        finally:
            postgres.start()
        traffic(service, ("dee",))
        expect(state).to_have_text("The store can be used.")
        expect(page.locator(".error")).to_be_empty()
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("12")


def test_the_page_shows_that_the_file_of_the_store_or_the_service_is_missing(browser, tmp_path):
    with visit(browser, "about:blank", complaints=False) as page:
        with serving(tmp_path, learners=LEARNERS) as service:
            page.goto(f"{service.url}/#operate")
            state = page.get_by_role("region", name="Store").locator(".state")
            expect(state).to_have_text("The store can be used.")
            os.rename(tmp_path / "thali.db", tmp_path / "elsewhere.db")
            page.get_by_label("Period").select_option("168")
            expect(state).to_contain_text("cannot be used: No such file or directory.")
            os.rename(tmp_path / "elsewhere.db", tmp_path / "thali.db")
            page.get_by_label("Period").select_option("24")
            expect(state).to_have_text("The store can be used.")
        expect(page.get_by_role("alert")).to_have_text("The service cannot be reached.")
        expect(state).to_have_text("It is not known whether the store can be used.")


def test_the_form_for_users_appears_with_the_first_figures(browser, service):
    """If it appeared before them, they would move its button down, and a click at that moment would be lost."""
    traffic(service)
    held = []
    with visit(browser, "about:blank", complaints=False) as page:
        page.route("**/v1/stats?hours=24", lambda route: held.append(route))
        with page.expect_request("**/v1/stats?hours=24"):
            page.goto(f"{service.url}/#operate")
        frames(page, 5)
        button = page.get_by_role("button", name="Look up")
        assert button.count() == 0
        held[0].continue_()
        expect(button).to_be_visible()
        assert tiles(page)["Lists shown"] == "9"


def test_a_user_is_shown_as_the_service_knows_them(browser, service):
    traffic(service, ("ana",), lists=5, learner="lsb")
    traffic(service, ("ana",), lists=2, learner="plain")
    with visit(browser, f"{service.url}/#operate") as page:
        look_up(page, "ana")
        expect(page.get_by_role("heading", level=3, name="ana", exact=True)).to_be_visible()
        known = service.ask("GET", "/v1/users/ana").json
        past = service.ask("GET", "/v1/users/ana/impressions").json["impressions"]
        assert (known["impressions"], len(past)) == (7, 7)
        expect(page.locator(".found p").first).to_have_text(
            f"7 lists stored, 5 answered, {known['clicked']} with a click."
        )
        tables = page.locator(".found table").all()
        for table, (name, one) in zip(tables, known["learners"].items(), strict=True):
            expect(table.locator("caption")).to_have_text(
                f"Taste learned by {name} from {number_of_lists(one['updates'])}"
            )
            rows = table.locator("tbody tr").evaluate_all(
                "(all) => all.map(({ dataset }) => [dataset.topic, Number(dataset.estimate), Number(dataset.width)])"
            )
            assert rows == [[at["topic"], at["estimate"], (at["high"] - at["low"]) / 2] for at in one["taste"]]
            bars = table.locator("tbody tr").evaluate_all(
                "(all) => all.map((row) => [row.querySelector('.bar').style, row.querySelector('.zero')])"
                ".map(([bar, zero]) => [bar.x, bar.width, zero.getAttribute('x1')].map(parseFloat))"
            )
            low, high = (
                f(4 * g(b, *(at["estimate"] for at in one["taste"]))) / 4
                for f, g, b in ((np.floor, min, -1), (np.ceil, max, 1.5))
            )
            for (begin, width, zero), at in zip(bars, one["taste"], strict=True):
                ends = sorted((zero, 100 * (at["estimate"] - low) / (high - low)))
                assert [begin, begin + width] == pytest.approx(ends, abs=0.01)
        assert len(tables) == 2
        lists = page.locator(".past").all()
        for place, one in zip(lists, past, strict=True):
            clicked = one["clicked"]
            answer = "no answer yet" if clicked is None else f"clicked item {clicked[0] + 1}" if clicked else "no click"
            plus = (
                "" if one["learner"] == "plain" else "+"
            )  # this learner looks at each item alone, so items add nothing
            shown_at = datetime.fromtimestamp(one["shown_at"]).strftime("%d/%m/%Y, %H:%M:%S")
            expect(place.locator("summary")).to_have_text(f"{shown_at}, {one['learner']}: {answer}")
            cards = place.locator("li").evaluate_all(
                """(all) => all.map((li) => [li.querySelector(".name").textContent, li.classList.contains("chosen"),
                    [...li.querySelectorAll(".chip")].map((chip) => chip.textContent).sort(),
                    li.querySelector(".unseen").textContent.match(/Belief .*/)[0]])"""
            )
            assert cards == [
                [
                    item["item"],
                    item["position"] in (clicked or ()),
                    sorted(f"{topic} {plus}{number(gain)}" for topic, gain in item["gains"].items()),
                    f"Belief {number(item['belief'])}, exploration {number(item['exploration'])}.",
                ]
                for item in one["items"]
            ]
        assert [place.get_attribute("open") is not None for place in lists] == [True] + [False] * 6


def test_a_user_who_is_not_known(browser, service):
    with visit(browser, f"{service.url}/#operate", complaints=False) as page:
        look_up(page, "nobody")
        expect(page.locator(".found").get_by_role("alert")).to_have_text(NOT_KNOWN)
        expect(page.get_by_role("button", name="Forget this user")).to_have_count(0)
        traffic(service)
        look_up(page, "ana")
        expect(page.get_by_role("heading", level=3, name="ana")).to_be_visible()
        look_up(page, "nobody")  # ana is no longer shown
        expect(page.locator(".found")).to_have_text(NOT_KNOWN)


def test_names_of_users_items_and_topics_are_text(browser, tmp_path):
    topics = [name[:60] for name in HOSTILE]
    draws = np.random.default_rng(2)
    weights = draws.uniform(0.1, 0.9, (len(HOSTILE), len(topics)))
    catalog = thali.Catalog(weights, items=list(HOSTILE), topics=topics)
    learners = (LearnerSetting("<i>a&b</i>", K=len(HOSTILE)),)
    settings = {"catalog": catalog, "learners": learners}
    with serving(tmp_path, **settings) as service, visit(browser, f"{service.url}/#operate", viewport=PHONE) as page:
        traffic(service, NAMES, lists=2)
        for name in NAMES:
            look_up(page, name)
            expect(page.locator(".found h3")).to_have_text(name, use_inner_text=True)
            assert page.locator(".found h3").text_content() == name
        last = f"/v1/users/{quote(name, safe='')}"
        assert page.locator(".found .name").all_text_contents()[: len(HOSTILE)] == [
            item["item"] for item in service.ask("GET", f"{last}/impressions").json["impressions"][0]["items"]
        ]
        assert set(page.locator(".found .name").all_text_contents()) == set(HOSTILE)
        assert page.locator(".found tbody th").all_text_contents() == topics
        assert page.get_by_role("region", name="Learners").locator("tbody th").all_text_contents() == ["<i>a&b</i>"]
        kinds = page.locator(".found .chip").evaluate_all("(all) => all.map((one) => one.className)")
        assert len(kinds) == 2 * len(HOSTILE) * len(topics)
        assert set(kinds) == {"chip fresh", "chip partly", "chip covered"}
        assert page.locator("main img, main script, main i:not(.sample)").count() == 0
        assert_fits(page)
        page.get_by_role("button", name="Forget this user").click()
        expect(page.get_by_role("dialog")).to_contain_text(f"Forget {name}?")
        page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        expect(page.locator(".found")).to_contain_text(
            f"Forgot {name}. Removed 2 lists, and what was learned from 1 list."
        )
        assert service.ask("GET", last).status == 404
        assert service.ask("GET", f"/v1/users/{quote(NAMES[0])}").status == 200


def test_forgetting_asks_first(browser, service):
    traffic(service)
    deleted = []
    with visit(browser, f"{service.url}/#operate") as page:
        page.on("request", lambda request: deleted.append(request.url) if request.method == "DELETE" else None)
        look_up(page, "ana")
        page.get_by_role("button", name="Forget this user").click()
        dialog = page.get_by_role("dialog", name="Forget this user?")
        expect(dialog).to_contain_text("Forget ana?")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        page.get_by_role("button", name="Forget this user").click()
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        frames(page, 10)
        assert deleted == []
        known = service.ask("GET", "/v1/users/ana")
        assert (known.status, known.json["impressions"]) == (200, 3)
        expect(page.locator("dd[data-figure='Users with a learned taste (all time)']")).to_have_text("3")
        page.get_by_role("button", name="Forget this user").click()
        dialog.get_by_role("button", name="Forget").click()
        message = "Forgot ana. Removed 3 lists, and what was learned from 2 lists."
        expect(page.locator(".found")).to_have_text(message)
        expect(page.locator("#said")).to_have_text(message)
        assert len(deleted) == 1
        assert service.ask("GET", "/v1/users/ana").status == 404
        assert service.ask("GET", "/v1/users/ben").json["impressions"] == 3
        expect(page.locator("dd[data-figure='Users with a learned taste (all time)']")).to_have_text("2")


def grouped(hours, learner, size, now):
    """Return the points (hour, value) of a learner in each chart. Without lists, there is only the point "0 lists"."""
    groups = {}
    for one in hours:
        if one["learner"] == learner:
            groups.setdefault(int(one["hour"] // 3600 // size * size), []).append(one)

    def over(many, what, by):
        total = sum(one[by] for one in many)
        return sum(one[what] * (one[by] if what != "clicked" else 1) for one in many) / total if total else None

    every = range(min(groups), int(now // 3600 // size * size) + 1, size)
    charts = {"Lists shown": [(hour, sum(one["impressions"] for one in groups.get(hour, []))) for hour in every]}
    for title, what, by in (
        ("Click rate", "clicked", "answered"),
        ("Exploration share", "exploration_share", "impressions"),
        ("Diversity of lists", "diversity", "impressions"),
    ):
        points = [(hour, over(many, what, by)) for hour, many in sorted(groups.items())]
        charts[title] = [(hour, value) for hour, value in points if value is not None]
    return charts


def test_charts_have_a_point_for_each_group_of_hours(browser, tmp_path):
    """There are two days of data. On the second one there are fewer users, and none for some hours."""
    catalog, clock = small_catalog(), Clock()
    policies = {"lsb": thali.CascadeLSB(catalog, K=4), "plain": thali.CascadeLinUCB(catalog, K=3, alpha=2.0)}
    now = time.time()
    with thali.Recommender(policies, store=f"sqlite:///{tmp_path / 'thali.db'}", clock=clock) as rec:
        # Continue up to now, so that the last group of six hours has lists even if it has only just begun.
        for hours in [*range(48, 13, -1), *range(8, -1, -1)]:
            clock.now = now - 3600 * hours
            for learner in ("lsb", "plain") if hours % 2 else ("lsb",):
                for turn in range(1 + (hours > 24) * 2):
                    shown = rec.recommend(f"u{hours % 5}", learner=learner)
                    if turn != 1:
                        rec.feedback(shown.id, [0] if hours % 3 else [])
    with serving(tmp_path, learners=LEARNERS) as service, visit(browser, f"{service.url}/#operate") as page:

        def drawn(title):
            chart = page.locator("figure", has_text=title)
            lines = chart.locator(".grid").evaluate_all("(all) => all.map((one) => one.y1.baseVal.value)")
            top = float(chart.locator("text").nth(len(lines) - 1).text_content().replace("100%", "1"))
            curves = chart.locator(".curve").evaluate_all("(all) => all.map((one) => one.getAttribute('points'))")
            points = [np.array([pair.split(",") for pair in curve.split()], float) for curve in curves]
            # Compute values from the lines of the grid, of which the first is 0.
            return [np.stack([p[:, 0], top * (p[:, 1] - lines[0]) / (lines[-1] - lines[0])], axis=1) for p in points]

        for hours, size in ((24, 1), (168, 6), (720, 24)):
            with page.expect_response(f"**/v1/stats?hours={hours}"):
                page.get_by_label("Period").select_option(str(hours)) if hours > 24 else page.reload()
            figures = service.ask("GET", f"/v1/stats?hours={hours}").json
            expect(page.locator("dd[data-figure='Lists shown']")).to_have_text(expected_tiles(figures)["Lists shown"])
            wanted = [grouped(figures["hours"], learner.name, size, time.time()) for learner in LEARNERS]
            for title in wanted[0]:
                curves = drawn(title)
                assert [len(curve) for curve in curves] == [len(one[title]) for one in wanted]
                place, truth = np.concatenate(curves), np.concatenate([one[title] for one in wanted])
                np.testing.assert_allclose(place[:, 1], truth[:, 1], atol=0.01 * max(truth[:, 1]))
                xs, at = place[:, 0], truth[:, 0]
                np.testing.assert_allclose((xs - xs[0]) / np.ptp(xs), (at - at[0]) / np.ptp(at), atol=0.01)
                label = page.locator("figure", has_text=title).locator("svg").get_attribute("aria-label")
                assert label.startswith(f"{title}. Latest: lsb ")
            assert (0 in dict(wanted[0]["Lists shown"]).values()) == (size == 1)


def test_it_is_accessible_fits_a_phone_and_works_by_keyboard(browser, service):
    traffic(service)
    with visit(browser, f"{service.url}/#operate", viewport=PHONE) as page:
        expect(page.locator("dd[data-figure='Lists shown']")).to_have_text("9")
        page.get_by_role("link", name="Operate").focus()
        tab_to(page, "Name", "textbox")
        page.keyboard.type("ana")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=3, name="ana")).to_be_visible()
        expect(page.locator("#said")).to_have_text("Found ana.")
        for summary in page.locator(".past summary").all()[1:]:
            summary.click()
        assert_fits(page)
        assert_accessible(page)
        page.get_by_label("Name", exact=True).focus()
        tab_to(page, "Forget this user")
        page.keyboard.press("Enter")
        assert_fits(page)
        assert_accessible(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Forget this user")).to_be_focused()
        page.keyboard.press("Space")
        page.keyboard.press("Shift+Tab")
        expect(page.get_by_role("dialog").get_by_role("button", name="Forget")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".found")).to_contain_text("Forgot ana")
        expect(page.get_by_label("Name", exact=True)).to_be_focused()
        assert service.ask("GET", "/v1/users/ana").status == 404
