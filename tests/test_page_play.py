"""Play, as a person does, in a real browser; what the page says is held against the service and the catalogue."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from statistics import median
from urllib.parse import urlsplit

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import visit
from playing import NOTHING_KNOWN, WITHIN, Player, Taste, playing
from playwright.sync_api import expect
from ports import free_port
from serving_here import serving

import thali
from thali.commands.page import POLICIES, K
from thali.serve.settings import LearnerSetting

pytestmark = pytest.mark.slow
LEARNERS = tuple(LearnerSetting(name, name, K, share=float(name == POLICIES[0])) for name in POLICIES)
LIKED = {"noodles", "sweet"}
PHONE = {"viewport": {"width": 375, "height": 700}, "has_touch": True, "is_mobile": True}
SIDEWAYS = "() => Math.max(document.documentElement.scrollWidth, innerWidth)"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """As ``thali demo --web`` has it."""
    catalog = thali.Catalog(*thali.datasets.dishes())
    with serving(tmp_path_factory.mktemp("play"), catalog=catalog, learners=LEARNERS) as running:
        yield running


def liked(player: Player) -> int | None:
    """The first item that somebody clicks who likes noodles and sweets."""
    return next((one.position for one in player.truth.items if LIKED & set(one.topics)), None)


def says(text: str | None, value: float) -> bool:
    """Whether a number is written with two digits; ties may go either way."""
    return abs(float((text or "").replace("\N{MINUS SIGN}", "-")) - value) <= 0.005 + 1e-9


def unknown(service) -> dict[str, Taste]:
    return {topic: Taste(0.0, NOTHING_KNOWN) for topic in map(str, service.catalog.topics)}


def coverage(service, names) -> dict[str, float]:
    """1 - Π(1 - w̄) by topic, of items by name."""
    index = {name: e for e, name in enumerate(service.catalog.items)}
    weights = service.catalog.csr[[index[name] for name in names]].toarray()
    return dict(zip(map(str, service.catalog.topics), 1 - np.prod(1 - weights, axis=0), strict=True))


# What is learned


def test_ten_rounds_move_the_taste_towards_the_topics_clicked(browser, service):
    with playing(browser, service) as player:
        before, told, examined = player.taste(), [], set()
        assert before == unknown(service)
        assert {row["right"] - row["left"] for row in player.rows().values()} == {0.0}
        for played in range(10):
            truth, chosen = player.truth, liked(player)
            assert player.names == [one.item for one in truth.items]
            assert (len(truth.items), truth.user, truth.learner) == (K, player.user, POLICIES[0])
            player.answer(chosen)
            told.append(() if chosen is None else (chosen,))
            examined.update(*(one.topics for one in truth.items[: K if chosen is None else chosen + 1]))
            now = player.taste()
            assert now == player.learned()
            assert all(now[topic].width <= before[topic].width + 1e-12 for topic in now)
            lit = {topic for topic, row in player.rows().items() if row["lit"]}
            assert lit == (set() if chosen is None else set(truth.items[chosen].topics))
            assert player.score.startswith(f"Round {played + 2}: so far {sum(map(bool, told))} of {played + 1} lists")
            before = now
        assert player.answers() == told
        assert all(before[topic].width < 2 * NOTHING_KNOWN / 3 for topic in examined)
        assert len(examined) > 10
        others = max(taste.estimate for topic, taste in before.items() if topic not in LIKED)
        assert min(before[topic].estimate for topic in LIKED) > max(0.5, others)
        rows = player.rows()
        # Numbers and bars are the estimates: from zero to the side of their sign, all on one scale.
        scale = (rows["noodles"]["right"] - rows["noodles"]["zero"]) / before["noodles"].estimate
        assert scale > 40
        for topic, row in rows.items():
            estimate, width = row["learned"].split(" ± ")
            assert row["head"] == topic
            assert says(estimate, before[topic].estimate)
            assert says(width, before[topic].width)
            ends = sorted((row["zero"], row["zero"] + scale * before[topic].estimate))
            assert [row["left"], row["right"]] == pytest.approx(ends, abs=1.5)
        clicked = ", ".join(str(one[0] + 1) if one else "none" for one in told)
        expect(player.page.get_by_role("img", name="Positions clicked")).to_have_accessible_name(
            f"Positions clicked, round by round: {clicked}"
        )


def test_none_of_these_is_told_and_every_position_learned_from(browser, service):
    with playing(browser, service) as player:
        shown = player.truth.items
        player.answer(None)
        assert player.answers() == [()]
        assert player.score == "Round 2: so far 0 of 1 lists had something for you (0\N{THIN SPACE}%)."
        topics = list(map(str, service.catalog.topics))
        gains = np.array([[one.gains.get(topic, 0.0) for topic in topics] for one in shown])
        learned = player.client.export(player.user)["learners"][POLICIES[0]]
        np.testing.assert_allclose(learned["M"], np.eye(len(topics)) + 100 * gains.T @ gains, rtol=1e-9, atol=1e-9)
        assert not np.any(learned["B"])
        assert player.taste() == player.learned()


def test_undo_brings_back_list_and_taste_down_to_the_first(browser, service):
    with playing(browser, service) as player:
        past = []
        expect(player.button("Undo")).to_be_disabled()
        for position in (2, None, 0, 5):
            past.append((player.impression, player.names, player.taste(), player.score))
            player.answer(position)
        assert player.taste() != past[0][2]
        player.undo()
        assert (player.impression, player.names, player.taste(), player.score) == past.pop()
        assert player.answers() == [(2,), (), (0,)]
        assert player.taste() == player.learned()
        player.answer(1)  # otherwise than before
        assert player.answers() == [(2,), (), (0,), (1,)]
        player.press("u")
        while past:
            player.press("u")
            assert (player.impression, player.names, player.taste(), player.score) == past.pop()
            assert player.taste() == player.learned()
        assert player.answers() == []
        assert player.taste() == unknown(service)
        expect(player.button("Undo")).to_be_disabled()
        undone = len(player.writes)
        player.page.keyboard.press("u")
        player.press("3")
        assert player.writes[undone:] == ["POST /v1/feedback", "POST /v1/recommend"]
        assert player.answers() == [(2,)]


def test_undo_by_keyboard_leaves_the_focus_somewhere(browser, service):
    with playing(browser, service) as player:
        player.answer(0)
        with player.another():
            player.button("Undo").press("Enter")
        expect(player.button("Undo")).to_be_disabled()
        assert player.page.evaluate(WITHIN)


# Why


def check_reasons(service, player: Player, *, diverse: bool) -> list[str]:
    """What is said of each item is what the service says, and what the weights make of it; how topics were shown."""
    truth, kinds = player.truth.items, []
    largest = max(max(0.0, one.belief) + one.exploration for one in truth)
    for at, one in enumerate(truth):
        button = player.items.nth(at)
        above, alone = coverage(service, player.names[:at]), coverage(service, [one.item])
        chips = button.locator(".chip").evaluate_all(
            "chips => chips.map((one) => [one.querySelector('b').textContent, one.textContent, one.className])"
        )
        seen = {text.removesuffix(f" {gain}"): (gain, kind.removeprefix("chip ")) for gain, text, kind in chips}
        assert set(seen) == set(one.topics) == set(one.gains)
        assert [float(gain) for gain, _, _ in chips] == sorted((float(gain) for gain, _, _ in chips), reverse=True)
        for topic, (gain, kind) in seen.items():
            had = above[topic] if diverse else 0.0
            assert one.gains[topic] == pytest.approx(alone[topic] * (1 - had))
            assert says(gain.removeprefix("+"), one.gains[topic])
            assert kind == ("covered" if had > 2 / 3 else "partly" if had > 1 / 3 else "fresh")
            kinds.append(kind)
        told = button.locator(f"#{button.get_attribute('aria-describedby')}").text_content() or ""
        adds, numbers = told.split(" Belief ")
        assert all(topic in adds for topic, gain in one.gains.items() if gain >= 0.005)
        belief, curiosity = numbers.removesuffix(".").split(", curiosity ")
        assert says(belief, one.belief)
        assert says(curiosity, one.exploration)
        bars = button.locator("svg.index rect").evaluate_all("all => all.map((one) => +one.getAttribute('width'))")
        assert bars == pytest.approx([100 * max(0.0, one.belief) / largest, 100 * one.exploration / largest], abs=1e-6)
    whole, rows = coverage(service, player.names), player.rows()
    best = {topic: max(one.gains.get(topic, 0.0) for one in truth) for topic in rows}
    for topic, row in rows.items():
        share = float(row["has"].removesuffix("\N{THIN SPACE}%"))
        assert share == pytest.approx(100 * (whole if diverse else best)[topic], abs=0.5 + 1e-9)
    return kinds


def test_why_an_item_is_in_the_list(browser, service):
    with playing(browser, service) as player:
        kinds = check_reasons(service, player, diverse=True)
        for _ in range(4):
            player.answer(liked(player))
            kinds += check_reasons(service, player, diverse=True)
        assert set(kinds) == {"fresh", "partly", "covered"}
        player.choose("Policy", "CascadeLinUCB")
        flat = check_reasons(service, player, diverse=False)
        for position in (2, None):
            player.answer(position)
            flat += check_reasons(service, player, diverse=False)
        assert set(flat) == {"fresh"}


# Who plays, and with what


def test_start_again_is_someone_new_and_the_old_one_is_forgotten(browser, service):
    with playing(browser, service) as player:
        player.answer(1)
        player.answer(2)
        before, first = player.user, player.client.impression(player.impression).id
        with player.another():
            player.button("Start again").click()
        assert player.user != before
        with pytest.raises(thali.NotFound):
            player.client.user(before)
        with pytest.raises(thali.NotFound):
            player.client.impression(first)
        assert player.taste() == unknown(service)
        assert player.score == "Round 1."
        assert player.client.user(player.user).answered == 0
        expect(player.button("Undo")).to_be_disabled()
        player.reload()
        assert player.user == player.truth.user != before


def test_length_curiosity_and_policy_are_those_chosen(browser, service):
    with playing(browser, service) as player:
        player.choose("Items in a list, K", "3")
        assert len(player.names) == len(player.truth.items) == 3
        player.choose("Items in a list, K", "11")
        assert player.names == [one.item for one in player.truth.items]
        assert len(player.names) == 11
        player.answer(4)
        player.choose("Curiosity, α", "0")
        assert [one.exploration for one in player.truth.items] == [0.0] * 11
        assert any(one.belief > 0 for one in player.truth.items)
        check_reasons(service, player, diverse=True)
        player.choose("Curiosity, α", "16")
        twice = [one.exploration for one in player.truth.items]
        player.choose("Curiosity, α", "8")
        assert player.truth.items[0].exploration == pytest.approx(twice[0] / 2)
        own = player.taste()
        assert own == player.learned()

        player.choose("Policy", "LSBGreedy")
        assert (player.truth.learner, len(player.names)) == ("LSBGreedy", 11)
        assert (player.taste(), player.score) == (unknown(service), "Round 1.")
        expect(player.button("Undo")).to_be_disabled()
        player.answer(0)
        player.answer(None)
        assert player.taste() == player.learned("LSBGreedy") != own
        player.choose("Policy", "CascadeLSB")
        assert (player.truth.learner, player.taste()) == ("CascadeLSB", own)
        assert player.score.startswith("Round 2: so far 1 of 1 ")
        player.undo()  # of this policy's, not the one answered last
        assert player.answers() == [(0,), ()]


def test_a_choice_made_while_a_list_is_on_its_way_is_not_lost(browser, service):
    with playing(browser, service) as player:
        before = player.impression
        with player.held("/v1/recommend"):
            player.control("Items in a list, K").select_option("3")
            player.control("Items in a list, K").select_option("2")
            player.control("Policy").select_option("CombLinUCB")
        player.page.wait_for_function(
            "() => document.querySelectorAll('.plate .item').length === 2 && !document.querySelector('[aria-busy]')"
        )
        assert player.impression != before
        assert (player.truth.learner, len(player.truth.items)) == ("CombLinUCB", 2)


def test_after_a_reload_all_is_as_it_was(browser, service):
    with playing(browser, service) as player:
        player.choose("Policy", "LSBGreedy")
        player.choose("Items in a list, K", "4")
        player.choose("Curiosity, α", "2")
        for position in (1, None, 3):
            player.answer(position)
        controls = ("Policy", "Items in a list, K", "Curiosity, α")

        def seen():
            chosen = [player.control(name).input_value() for name in controls]
            path = player.page.get_by_role("img", name="Positions clicked").get_attribute("aria-label")
            return player.user, player.impression, player.names, player.score, player.taste(), chosen, path

        before, shown = seen(), player.client.user(player.user).impressions
        assert before[5] == ["LSBGreedy", "4", "2"]
        player.reload()
        assert seen() == before
        assert player.client.user(player.user).impressions == shown
        player.undo()
        assert player.answers() == [(1,), ()]
        player.answer(2)
        assert player.answers() == [(1,), (), (2,)]
        assert [one.exploration > 0 for one in player.truth.items] == [True] * 4


@pytest.mark.parametrize("act", ["reload", "answer", "undo", "Start again"])
def test_whoever_was_forgotten_meanwhile_goes_on(browser, service, act):
    with playing(browser, service, complaints=False) as player:
        player.answer(3)
        before, who = player.impression, player.user
        player.client.forget(who)
        if act == "reload":
            player.page.reload()
        elif act == "answer":
            player.items.nth(1).click()
        else:
            player.button(act.capitalize()).click()
        player.wait(before)
        assert player.truth.user == player.user
        assert (player.user == who) == (act != "Start again")
        assert (player.score, player.taste()) == ("Round 1.", unknown(service))
        expect(player.button("Undo")).to_be_disabled()
        if act in ("answer", "undo"):  # it was not taken, and why
            expect(player.alert).to_contain_text("is not known")
        player.answer(0)
        assert player.answers() == [(0,)]


# By keyboard


def test_the_keyboard_is_enough(browser, service):
    with playing(browser, service) as player:
        keyboard = player.page.keyboard
        for _ in range(20):  # past the header
            keyboard.press("Tab")
            if player.page.evaluate(WITHIN):
                break
        else:
            pytest.fail("Tab does not come to the list")
        told = []
        for key, clicked in (
            ("Enter", (0,)), ("n", ()), ("3", (2,)), (" ", (0,)), ("6", (5,)),
            ("N", ()), ("Tab", (1,)), ("1", (0,)), ("Enter", (0,)), ("2", (1,)),
        ):  # fmt: skip
            if key == "Tab":  # to the second
                keyboard.press(key)
            player.press("Enter" if key == "Tab" else key)
            told.append(clicked)
            assert player.page.evaluate(WITHIN), f"the focus is lost after {key}"
        assert player.answers() == told
        player.press("u")
        assert player.page.evaluate(WITHIN)
        assert player.answers() == told[:-1]
        expect(player.items.first).to_be_focused()
        expect(player.items.first).to_have_accessible_name(f"1 {player.names[0]}")


def test_keys_mean_nothing_where_they_mean_something_else(browser, service):
    with playing(browser, service) as player:
        keyboard, first = player.page.keyboard, player.impression
        player.control("Policy").focus()
        for key in ("n", "u", "2"):
            keyboard.press(key)
        player.items.nth(3).focus()
        for key in ("Control+1", "Alt+2", "Meta+3", "Control+n", "Control+u", "7", "9", "0", "x"):
            keyboard.press(key)
        keys = player.page.get_by_role("checkbox")
        keys.focus()
        keyboard.press("1")
        keyboard.press(" ")
        player.items.nth(3).focus()
        for key in ("1", "n", "u"):
            keyboard.press(key)
        assert player.writes == []
        player.reload()
        assert player.impression == first
        expect(keys).not_to_be_checked()
        keyboard.press("n")
        keys.check()
        player.items.nth(1).focus()
        player.press("4")
        assert player.answers() == [(3,)]
        assert player.writes == ["POST /v1/feedback", "POST /v1/recommend"]


def test_zero_is_the_tenth(browser, service):
    with playing(browser, service) as player:
        player.control("Items in a list, K").focus()
        for _ in range(4):  # from 6, not waiting for the lists between
            player.page.keyboard.press("ArrowDown")
        expect(player.items).to_have_count(10)
        player.wait()
        expect(player.control("Items in a list, K")).to_be_focused()
        player.items.first.focus()
        player.press("0")
        assert player.answers() == [(9,)]


# Once, and in bad times


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
            player.page.evaluate(
                """() => { for (const key of "53") document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})); }"""
            )
        assert player.sent == 3
        # The second click of a double one, slower than the service: it is not for the list that came meanwhile.
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
            expect(player.alert).to_have_text("the service cannot be reached.")
            assert ((player.impression, player.names), player.taste()) == (before, taste)
        with serving(tmp_path, **settings):
            player.answer(1)
            assert player.answers() == [(0,), (1,)]
            assert player.score.startswith("Round 3: so far 2 of 2 ")
            assert player.taste() == player.learned()
            old = player.impression
        (tmp_path / "new").mkdir()
        with serving(tmp_path / "new", **settings):  # where nobody is known
            player.items.nth(0).click()
            player.wait(old)
            expect(player.alert).to_contain_text("is not known")
            player.answer(2)
            assert player.answers() == [(2,)]
            assert player.score.startswith("Round 2: so far 1 of 1 ")


def test_a_store_that_fails_for_a_while(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("thali.serve.batcher.PATIENCE_S", 0.05)
    with (
        serving(tmp_path) as service,
        closing(sqlite3.connect(tmp_path / "thali.db", isolation_level=None)) as other,
        visit(browser, service.url, complaints=False) as page,
        service.client() as client,
    ):
        player = Player(page, client)
        player.wait()
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
        page.reload()
        expect(player.alert).to_contain_text("store")
        page.keyboard.press("n")
        other.execute("ROLLBACK")
        player.button("Try again").click()
        player.wait()
        expect(player.alert).to_be_hidden()
        assert (player.answers(), player.score[:8]) == ([(2,)], "Round 2:")


def test_what_comes_after_an_answer_may_fail_and_it_still_counts_once(browser, service):
    with playing(browser, service, complaints=False) as player:

        def fails(act):
            act.click()
            expect(player.alert).to_have_text("the service cannot be reached.")

        before = player.impression
        player.page.route("**/v1/recommend", lambda route: route.abort())
        fails(player.items.nth(2))
        fails(player.items.nth(2))
        assert player.impression == before
        player.page.unroute("**/v1/recommend")
        player.answer(2)
        assert (player.answers(), player.score[:31]) == ([(2,)], "Round 2: so far 1 of 1 lists had")

        before = player.impression
        player.page.route("**/v1/recommend", lambda route: route.abort())
        fails(player.items.nth(3))
        player.page.unroute("**/v1/recommend")
        player.items.nth(1).click()  # another than is recorded already
        player.wait(before)
        expect(player.alert).to_contain_text("clicked must be what was recorded")
        assert (player.answers(), player.score[:22]) == ([(2,), (3,)], "Round 3: so far 2 of 2")

        player.page.route("**/v1/impressions/*", lambda route: route.abort())
        fails(player.button("Undo"))
        player.page.unroute("**/v1/impressions/*")
        player.undo()
        assert player.impression == before
        assert (player.answers(), player.score[:22]) == ([(2,)], "Round 2: so far 1 of 1")


# Whatever names there are, whoever looks

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
HOSTILE_USER = ("<img src=x onerror='window.ran = 1'>\N{RIGHT-TO-LEFT OVERRIDE}/?#%2e&\"'" + "u" * 256)[:256]


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
        tags = page.evaluate(
            "() => [...new Set([...document.querySelectorAll('*')].map((one) => one.localName))].sort()"
        )
        page.evaluate("user => localStorage.setItem('thali.play', JSON.stringify({user}))", HOSTILE_USER)
        for _ in range(2):
            player.reload()
            assert player.user == HOSTILE_USER == player.truth.user
            assert sorted(player.names) == sorted(HOSTILE_ITEMS)
            assert player.names == [one.item for one in player.truth.items]
            rows = player.rows()
            assert [row["head"] for row in rows.values()] == list(rows) == list(HOSTILE_TOPICS)
            check_reasons(service, player, diverse=True)
            # A name that turns the order of reading does so to itself only: what an item adds stands after its topic.
            for chip in player.items.first.locator(".chip").all():
                topic, gain = chip.locator("bdi").bounding_box(), chip.locator("b").bounding_box()
                assert gain["x"] >= topic["x"] or gain["y"] > topic["y"]
            assert page.evaluate(SIDEWAYS) == page.viewport_size["width"]
            player.answer(0)
            expect(page.get_by_role("status")).to_contain_text("A new list.")
        assert len(player.answers()) == 2
        made = page.evaluate(
            "() => [...document.querySelectorAll('.made, [onerror], [onload], main img, main a, script:not([src])')].length"
        )
        assert made == 0
        assert page.evaluate("() => window.ran === undefined")
        later = page.evaluate(
            "() => [...new Set([...document.querySelectorAll('*')].map((one) => one.localName))].sort()"
        )
        assert set(later) - set(tags) <= {"circle", "h2", "path"}  # where one clicked


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


# Small and quick


def test_the_page_is_small(browser, service):
    with playing(browser, service) as player:
        loaded = player.page.evaluate(
            "() => ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind)).map((one) => one.name)"
        )
        own = {path for path in (urlsplit(url).path for url in loaded) if not path.startswith("/v1/")}
        assert {"/", "/page/app.js", "/page/style.css", "/page/play.js"} <= own
        assert sum(len(service.ask("GET", path).body) for path in own) < 150_000


def test_the_first_list_is_there_in_no_time(browser, service):
    with playing(browser, service) as player:  # the service is warm
        assert len(player.names) == K
    took = []
    for _ in range(5):
        with playing(browser, service) as player:
            took.append(player.page.evaluate("() => performance.getEntriesByName('thali-list')[0].startTime"))
            assert player.page.evaluate("() => performance.getEntriesByName('thali-list').length") == 1
    assert median(took) < 300, took
