"""The view Watch in a real browser. What it shows is compared with the library, and all of its controls are used."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from page_checks import HOSTILE, PHONE, assert_accessible, assert_fits, frames, number, tab_to, until
from page_film import Truth, assert_seen, watching
from playwright.sync_api import expect
from serving_here import serving

import thali
from thali.cli.page import POLICIES, K
from thali.datasets import dishes
from thali.service.http.settings import LearnerSetting, Limits

pytestmark = pytest.mark.slow
USUAL = ["CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"]


def demo(folder, **settings):
    """Serve the same learners and items as thali demo --web."""
    learners = tuple(LearnerSetting(name, name, K, share=float(name == POLICIES[0])) for name in POLICIES)
    return serving(folder, catalog=thali.Catalog(*dishes()), learners=learners, **settings)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The demo with shorter runs: 2,000 steps with four policies."""
    with demo(tmp_path_factory.mktemp("watch"), limits=Limits(simulated_steps=8000)) as running:
        yield running


def draw(page, taste):
    """Set the sliders to a taste. Topics that are not named are 0."""
    page.locator("details", has_text="Choose the person's taste").evaluate("(one) => { one.open = true; }")
    values = page.locator(".sliders input").evaluate_all("(all) => all.map((one) => one.value)")
    for topic, value in zip(page.locator(".sliders label").all_text_contents(), values, strict=True):
        if int(value) != taste.get(topic, 0):
            page.get_by_role("slider", name=topic, exact=True).fill(str(taste.get(topic, 0)))


def true_taste(page):
    rows = page.locator("tr[data-topic]")
    return dict(rows.evaluate_all("(all) => all.map((row) => [row.dataset.topic, row.lastChild.textContent])"))


def shares(catalog, taste):
    """Return a taste as the page sends it."""
    total = sum(taste.values())
    return {topic: pytest.approx(taste.get(topic, 0) / total, abs=1e-6) for topic in catalog.topics}


def test_all_figures_of_three_people_are_the_same_as_the_librarys(browser, tmp_path):
    with demo(tmp_path, limits=Limits(simulated_steps=16_000)) as service, watching(browser, service) as at:
        at.speed()
        for person in range(3):
            if person:
                at.begin("New person")
            at.end()
            regret = {
                name: float(at.page.locator(f'td[data-policy="{name}"][data-figure="regret"]').inner_text())
                for name in USUAL
            }
            assert regret["CascadeLSB"] < regret["CascadeLinUCB"]
        curves = at.page.locator("svg.lines .curve").evaluate_all(
            "(all) => all.map((one) => one.getAttribute('points'))"
        )
        label = at.page.locator("svg.lines").get_attribute("aria-label")
        films, seen = at.films(), at.seen()
    assert len(films) == len(seen) == 3
    for parts, looks in zip(films, seen, strict=True):
        assert {(one["seed"], one["K"], tuple(one["policies"]), str(one["theta"])) for one in parts} == {
            (parts[0]["seed"], K, tuple(USUAL), str(parts[0]["theta"]))
        }
        assert len(parts) > 3
        assert len(looks) > 20
        assert looks[-1]["step"] == 4000
        truth = Truth(service.catalog, parts)
        assert_seen(looks, truth)
    assert len({parts[0]["seed"] for parts in films}) == 3
    assert len({str(parts[0]["theta"]) for parts in films}) == 3
    # The curves show the whole run, although it was loaded in parts. They have a common scale.
    drawn = [np.array([pair.split(",") for pair in points.split()], float) for points in curves]
    expected = [[0.0, *(truth.regret(name, step) for step in truth.points)] for name in USUAL]
    steps, largest = np.array([0, *truth.points]), max(max(one) for one in expected)
    low, top = drawn[0][0, 1], min(one[:, 1].min() for one in drawn)
    for one, regret in zip(drawn, expected, strict=True):
        width = one[-1, 0] - one[0, 0]
        np.testing.assert_allclose(one[:, 0], one[0, 0] + width * steps / 4000, atol=0.11)
        np.testing.assert_allclose(one[:, 1], low - (low - top) * np.array(regret) / largest, atol=0.11)
    regrets = ", ".join(f"{name} {number(truth.regret(name, 4000), 1)}" for name in USUAL)
    assert label == f"Regret (clicks missed) after 4,000 steps: {regrets}"


def test_a_taste_changes_twice_once_while_a_part_is_loading(browser, service):
    with watching(browser, service) as at:
        tastes, best = [], []

        def look():
            at.press("Pause")
            tastes.append(true_taste(at.page))
            best.append(at.page.locator("[data-list=best] li").all_inner_texts())

        at.speed("4")
        at.reach(400)
        look()
        at.press("Change the taste now")
        at.hold(lambda request: request["changes"] and request["steps"] == 2000)
        start = at.requests[-1]["changes"][0]["step"]
        at.reach(start + 100)
        look()
        at.press("Change the taste now")
        until(at.page, "() => document.querySelectorAll('.mark').length === 2")
        at.release()
        at.speed()
        at.end()
        tastes.append(true_taste(at.page))
        best.append(at.page.locator("[data-list=best] li").all_inner_texts())
        expect(at.page.get_by_role("button", name="Change the taste now")).to_be_disabled()
        dashes = at.page.locator(".mark").first.evaluate("(mark) => getComputedStyle(mark).strokeDasharray")
        marks = at.page.locator(".mark").evaluate_all("(all) => all.map((one) => one.x1.baseVal.value)")
        curve = at.page.locator("svg.lines .curve").first.get_attribute("points")
        (requests,), (seen,) = at.films(), at.seen()
    assert len({str(one) for one in tastes}) == len({str(one) for one in best}) == 3
    changes = requests[-1]["changes"]
    starts = [one["step"] for one in changes]
    assert starts[0] == start
    assert start + 100 <= starts[1] < 2000
    for one in requests:
        assert one["changes"] == changes[: len(one["changes"])]
        assert one["since"] >= max((change["step"] for change in one["changes"]), default=0)
    assert sorted(requests, key=lambda one: len(one["changes"])) == requests
    assert_seen(seen, Truth(service.catalog, requests))
    for look in seen:
        assert look["marks"] >= sum(begin < look["step"] for begin in starts)
        assert look["marks"] <= sum(begin <= look["step"] for begin in starts)
    assert "none" not in dashes
    left, *_, right = (float(pair.split(",")[0]) for pair in curve.split())
    np.testing.assert_allclose(marks, left + (right - left) * np.array(starts) / 2000, atol=0.11)


def test_a_taste_can_change_as_often_as_the_service_allows(browser, service):
    with watching(browser, service) as at:
        at.speed("2")
        for change in range(1, 21):
            at.reach(at.step + 1)
            at.press("Change the taste now")
            until(at.page, "(many) => document.querySelectorAll('.mark').length === many", change)
        at.reach(at.step + 1)
        expect(at.page.get_by_role("button", name="Change the taste now")).to_be_disabled()
        (requests,), (seen,) = at.films(), at.seen()
    assert len(requests[-1]["changes"]) == 20
    assert_seen(seen, Truth(service.catalog, requests))


def test_a_taste_that_is_set_with_the_sliders(browser, service):
    with watching(browser, service) as at:
        page = at.page
        at.speed("0")
        at.reach(1)
        draw(page, {})
        at.press("New person with this taste")
        expect(page.get_by_role("alert")).to_have_text("Choose a taste first: move at least one slider above 0.")
        at.press("Change to this taste now")
        expect(page.get_by_role("alert")).to_have_text("Choose a taste first: move at least one slider above 0.")
        assert all(one["changes"] == [] and one["seed"] == at.requests[0]["seed"] for one in at.requests)
        part = at.requests[-1]["steps"]
        assert part < 2000
        at.speed()  # the error does not stop the run
        at.reach(part + 1)

        draw(page, {"sweet": 30, "soup": 10})
        at.begin("New person with this taste")
        expect(page.get_by_role("alert")).to_have_count(0)  # an empty one is not shown
        zeros = dict.fromkeys(service.catalog.topics, "0.00")
        assert true_taste(page) == {**zeros, "sweet": "0.75", "soup": "0.25"}
        at.reach(600)
        draw(page, {"seafood": 60, "grilled": 20, "spicy": 20})
        at.press("Change to this taste now")
        at.end()
        assert true_taste(page) == {**zeros, "seafood": "0.60", "grilled": "0.20", "spicy": "0.20"}
        (_, requests), (_, seen) = at.films(), at.seen()
    assert requests[0]["seed"] != at.requests[0]["seed"]
    for one in requests:
        assert one["theta"] == shares(service.catalog, {"sweet": 30, "soup": 10})
    (change,) = requests[-1]["changes"]
    assert change["theta"] == shares(service.catalog, {"seafood": 60, "grilled": 20, "spicy": 20})
    truth = Truth(service.catalog, requests)
    assert_seen(seen, truth)
    regret = [truth.regret("CascadeLSB", change["step"] + by) for by in (-200, 0, 200)]
    assert regret[2] - regret[1] > regret[1] - regret[0]  # what was learned before the change is now wrong


def test_pause_speed_and_random_numbers(browser, service):
    with watching(browser, service) as at:
        page = at.page
        rate = """() => new Promise((done) => {
            const step = () => Number(document.querySelector("output.step").dataset.step);
            const [begin, first] = [performance.now(), step()];
            const look = (now) => {
                if (now < begin + 1000) requestAnimationFrame(look);
                else done(1000 * (step() - first) / (now - begin));
            };
            requestAnimationFrame(look);
        })"""
        at.reach(1)
        measured = {}
        for name, steps in (("2", 30), ("4", 300)):
            at.speed(name)
            expect(page.get_by_role("slider", name="Speed")).to_have_attribute(
                "aria-valuetext", f"up to {steps} steps per second"
            )
            measured[steps] = page.evaluate(rate)
            assert steps / 3 < measured[steps] < 2 * steps
        at.press("Pause")
        frames(page, 2)
        step = at.step
        assert page.evaluate(rate) == 0
        at.press("Resume")
        at.reach(step + 100)
        assert 100 < page.evaluate(rate) < 600

        at.begin("Same person, new run")
        at.begin("Same person, new run")
        at.speed()
        at.end()
        at.begin("Run again")
        at.begin("New person")
        first, *same, other = [(one[0]["seed"], one[0]["theta"]) for one in at.films()]
        assert len(same) == 3
        assert len({seed for seed, _ in (first, *same, other)}) == 5
        assert all(theta == first[1] for _, theta in same)
        assert other[1] != first[1]


def test_list_length_and_policies_can_be_chosen(browser, service):
    with watching(browser, service) as at:
        page = at.page
        at.reach(1)
        page.get_by_text("Choose policies and list length").click()
        box = {
            name: page.get_by_role("checkbox", name=name, exact=True)
            for name in service.ask("GET", "/v1/about").json["policies"]
        }
        assert {name for name, one in box.items() if one.is_checked()} == set(USUAL)
        for name in USUAL[1:]:
            box[name].uncheck()
        expect(box["CascadeLSB"]).to_be_disabled()  # at least one must stay chosen
        page.get_by_label("Items per list, K").select_option("3")
        at.speed()
        at.reach(300)
        assert page.locator("[data-list]").evaluate_all(
            "(all) => all.map((one) => [one.dataset.list, one.querySelectorAll('li').length])"
        ) == [["best", 3], ["CascadeLSB", 3]]
        others = [name for name in box if name != "CascadeLSB"][:5]
        for name in others:
            box[name].check()
        for one in box.values():  # at most six can be chosen
            expect(one).to_be_enabled() if one.is_checked() else expect(one).to_be_disabled()
        at.end()
        last = at.films()[-1]
        seen = at.seen()[-1]
    assert last[-1]["policies"] == ["CascadeLSB", *others]
    assert (last[-1]["K"], last[-1]["steps"]) == (3, 8000 // 6)
    assert_seen(seen, Truth(service.catalog, last))
    assert {(one["seed"], str(one["theta"])) for one in at.requests} == {(last[0]["seed"], str(last[0]["theta"]))}


def test_leaving_stops_the_run_and_coming_back_starts_with_another_person(browser, service):
    with watching(browser, service) as at:
        page = at.page
        at.speed()
        at.reach(1)
        at.hold()
        at.press("New person")  # waits for the current response, and so does the next run
        at.press("Same person, new run")
        frames(page, 5)
        old = len(at.requests)
        page.get_by_role("link", name="Play", exact=True).click()
        page.locator(".plate[data-impression]").wait_for()
        with page.expect_response("**/v1/simulations"):
            at.release()
        frames(page, 30)
        assert len(at.requests) == old
        page.get_by_role("link", name="Watch", exact=True).click()
        at.speed()
        at.end()
        new = at.requests[old:]
    assert len({one["seed"] for one in new}) == 1
    assert new[0]["seed"] not in {one["seed"] for one in at.requests[:old]}
    assert (new[0]["since"], new[-1]["steps"]) == (0, 2000)


def test_of_several_clicks_in_a_row_only_the_last_is_requested(browser, service):
    with watching(browser, service) as at:
        at.hold()
        for _ in range(4):
            at.press("New person")
        at.release()
        at.reach(1)
        seeds = [one["seed"] for one in at.requests]
        assert len(set(seeds)) == 2


def test_an_error_is_shown_and_the_request_can_be_repeated(browser, service):
    with watching(browser, service, complaints=False) as at:
        page = at.page
        at.speed()
        at.reach(1)
        at.hold()
        at.held.pop().abort()
        expect(page.get_by_role("alert")).to_have_text("The service cannot be reached.")
        at.release()
        frames(page, 30)
        many = len(at.requests)
        at.press("Resume")
        at.end()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert at.requests[many]["since"] == at.requests[many - 1]["since"]
        assert_seen(at.seen()[0], Truth(service.catalog, at.requests))


def test_a_catalog_that_is_too_large_to_be_simulated(browser, tmp_path):
    L, d = 20_001, 5
    weights = scipy.sparse.csr_array((np.full(L, 0.3), (np.arange(L), np.arange(L) % d)), shape=(L, d))
    catalog = thali.Catalog(weights, items=[f"i{e}" for e in range(L)], topics=[f"t{j}" for j in range(d)])
    with serving(tmp_path, catalog=catalog) as service, watching(browser, service, complaints=False) as at:
        sentence = "Steps can be simulated only with a catalog of at most 20000 items, got a catalog of 20001 items."
        expect(at.page.get_by_role("alert")).to_have_text(sentence)
        expect(at.page.locator("output.step")).to_have_text("Not started")
        expect(at.page.get_by_role("button", name="Change the taste now")).to_be_disabled()
        frames(at.page, 60)
        assert len(at.requests) == 1
        at.press("Resume")
        expect(at.page.get_by_role("button", name="Resume")).to_be_visible()
        expect(at.page.get_by_role("alert")).to_have_text(sentence)
        frames(at.page, 60)
        assert len(at.requests) == 2


def test_long_lists_of_hostile_names_are_text(browser, tmp_path):
    """The lists are so long that fewer points fit into a response."""
    topics = [name[:60] for name in HOSTILE]
    L, d = 120, len(topics)
    draws = np.random.default_rng(1)
    weights = draws.uniform(0.1, 0.6, (L, d)) * (draws.random((L, d)) < 0.3)
    items = [f"{HOSTILE[e % len(HOSTILE)]}{e}"[:256] for e in range(L)]
    items[: len(HOSTILE)] = HOSTILE
    catalog = thali.Catalog(weights, items=items, topics=topics)
    settings = {
        "catalog": catalog,
        "learners": (LearnerSetting("default", K=100),),
        "limits": Limits(simulated_steps=1200),
    }
    with serving(tmp_path, **settings) as service, watching(browser, service, viewport=PHONE) as at:
        at.reach(100)
        at.press("Change the taste now")  # at the usual speed, so that the run does not end before the click
        at.speed()
        at.end()
        assert at.page.locator("main img, main script, main b").count() == 0
        assert at.page.locator(".sliders label span").all_text_contents() == topics
        assert_fits(at.page)
        (requests,), (seen,) = at.films(), at.seen()
    truth = Truth(catalog, requests)
    assert requests[-1]["K"] == 100
    assert_seen(seen, truth)
    assert set(items[: len(HOSTILE)]) <= {item for look in seen for _, shown in look["lists"] for item, _ in shown}


def test_it_is_accessible_and_fits_a_phone(browser, service):
    with watching(browser, service, viewport=PHONE) as at:
        at.speed()
        at.reach(300)
        at.press("Change the taste now")
        at.reach(600)
        at.press("Pause")
        for summary in at.page.locator("summary").all():
            summary.click()
        assert_fits(at.page)
        assert_accessible(at.page)


def test_watch_works_with_the_keyboard_alone(browser, service):
    with watching(browser, service) as at:
        page = at.page
        at.reach(1)
        page.locator("nav").get_by_role("link", name="Watch").focus()
        tab_to(page, "Pause")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Resume")).to_be_focused()
        page.keyboard.press("Space")
        expect(page.get_by_role("button", name="Pause")).to_be_focused()
        tab_to(page, "Speed", "slider")
        page.keyboard.press("End")
        slider = page.get_by_role("slider", name="Speed")
        expect(slider).to_have_attribute("aria-valuetext", "up to 3,000 steps per second")
        page.keyboard.press("Home")
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        expect(slider).to_have_attribute("aria-valuetext", "up to 30 steps per second")
        tab_to(page, "Change the taste now")
        page.keyboard.press("Enter")
        expect(page.locator("#said")).to_have_text("The taste has changed.")
        until(page, "() => document.querySelectorAll('.mark').length === 1")
        for _ in range(40):  # a summary does not have the role of a button
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.textContent") == "Choose the person's taste":
                break
        page.keyboard.press("Enter")
        for topic in service.catalog.topics:
            tab_to(page, topic, "slider")
            page.keyboard.press("End" if topic in ("curry", "rice") else "Home")
        tab_to(page, "New person with this taste")
        page.keyboard.press("Enter")
        until(page, "() => document.querySelectorAll('.mark').length === 0")
        at.reach(1)
        assert at.films()[0][-1]["changes"] != []
        assert at.films()[-1][0]["theta"] == shares(service.catalog, {"curry": 1, "rice": 1})
        expect(page.get_by_role("button", name="New person with this taste")).to_be_focused()
        tab_to(page, "Change to this taste now")
