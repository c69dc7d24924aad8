"""The view Play in a real browser. What the page shows is compared with the service and the catalog."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from playing import LIKED, NOTHING_KNOWN, WITHIN, liked, play_service, playing, unknown
from playwright.sync_api import expect
from reasons import check_reasons, says

from thali.cli.page import POLICIES, K
from thali.client import NotFound

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with play_service(tmp_path_factory.mktemp("play")) as running:
        yield running


# What is learned


def test_ten_rounds_move_the_taste_towards_the_topics_clicked(browser, service):
    with playing(browser, service) as player:
        before, answers, examined = player.taste(), [], set()
        assert before == unknown(service)
        assert {row["right"] - row["left"] for row in player.rows().values()} == {0.0}
        for played in range(10):
            truth, chosen = player.truth, liked(player)
            assert player.names == [one.item for one in truth.items]
            assert (len(truth.items), truth.user, truth.learner) == (K, player.user, POLICIES[0])
            player.answer(chosen)
            answers.append(() if chosen is None else (chosen,))
            examined.update(*(one.topics for one in truth.items[: K if chosen is None else chosen + 1]))
            now = player.taste()
            assert now == player.learned()
            assert all(now[topic].width <= before[topic].width + 1e-12 for topic in now)
            lit = {topic for topic, row in player.rows().items() if row["lit"]}
            assert lit == (set() if chosen is None else set(truth.items[chosen].topics))
            liked_so_far = f"you liked something in {sum(map(bool, answers))} of {played + 1} lists so far"
            assert player.score.startswith(f"Round {played + 2}: {liked_so_far}")
            before = now
        assert player.answers() == answers
        assert all(before[topic].width < 2 * NOTHING_KNOWN / 3 for topic in examined)
        assert len(examined) > 10
        others = max(taste.estimate for topic, taste in before.items() if topic not in LIKED)
        assert min(before[topic].estimate for topic in LIKED) > max(0.5, others)
        rows = player.rows()
        # Numbers and bars show the estimates. Bars start at zero and have a common scale.
        scale = (rows["noodles"]["right"] - rows["noodles"]["zero"]) / before["noodles"].estimate
        assert scale > 40
        for topic, row in rows.items():
            estimate, width = row["learned"].split(" ± ")
            assert row["head"] == topic
            assert says(estimate, before[topic].estimate)
            assert says(width, before[topic].width)
            ends = sorted((row["zero"], row["zero"] + scale * before[topic].estimate))
            assert [row["left"], row["right"]] == pytest.approx(ends, abs=1.5)
        clicked = ", ".join(str(one[0] + 1) if one else "none" for one in answers)
        expect(player.page.get_by_role("img", name="Clicked positions")).to_have_accessible_name(
            f"Clicked positions, round by round: {clicked}"
        )


def test_none_of_these_is_sent_and_every_position_is_learned(browser, service):
    with playing(browser, service) as player:
        shown = player.truth.items
        player.answer(None)
        assert player.answers() == [()]
        assert player.score == "Round 2: you liked something in 0 of 1 lists so far (0\N{THIN SPACE}%)."
        topics = list(map(str, service.catalog.topics))
        gains = np.array([[one.gains.get(topic, 0.0) for topic in topics] for one in shown])
        learned = asdict(player.client.export(player.user))["learners"][POLICIES[0]]
        np.testing.assert_allclose(learned["M"], np.eye(len(topics)) + 100 * gains.T @ gains, rtol=1e-9, atol=1e-9)
        assert not np.any(learned["B"])
        assert player.taste() == player.learned()


def test_undo_restores_lists_and_tastes_back_to_the_first(browser, service):
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
        player.answer(1)  # not the same answer as before
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


def test_undo_by_keyboard_keeps_the_focus_in_the_list(browser, service):
    with playing(browser, service) as player:
        player.answer(0)
        with player.another():
            player.button("Undo").press("Enter")
        expect(player.button("Undo")).to_be_disabled()
        assert player.page.evaluate(WITHIN)


# Why


def test_why_an_item_is_in_the_list(browser, service):
    with playing(browser, service) as player:
        kinds = check_reasons(service.catalog, player, diverse=True)
        for _ in range(4):
            player.answer(liked(player))
            kinds += check_reasons(service.catalog, player, diverse=True)
        assert set(kinds) == {"fresh", "partly", "covered"}
        player.choose("Policy", "CascadeLinUCB")
        flat = check_reasons(service.catalog, player, diverse=False)
        for position in (2, None):
            player.answer(position)
            flat += check_reasons(service.catalog, player, diverse=False)
        assert "covered" in flat  # such a learner does not notice that its lists repeat topics


# Users and settings


def test_start_again_creates_a_new_user_and_forgets_the_old_one(browser, service):
    with playing(browser, service) as player:
        player.answer(1)
        player.answer(2)
        before, first = player.user, player.client.impression(player.impression).id
        with player.another():
            player.button("Start again").click()
        assert player.user != before
        with pytest.raises(NotFound):
            player.client.user(before)
        with pytest.raises(NotFound):
            player.client.impression(first)
        assert player.taste() == unknown(service)
        assert player.score == "Round 1."
        assert player.client.user(player.user).answered == 0
        expect(player.button("Undo")).to_be_disabled()
        player.reload()
        assert player.user == player.truth.user != before


def test_list_length_exploration_and_policy_can_be_chosen(browser, service):
    with playing(browser, service) as player:
        player.choose("Items per list, K", "3")
        assert len(player.names) == len(player.truth.items) == 3
        player.choose("Items per list, K", "11")
        assert player.names == [one.item for one in player.truth.items]
        assert len(player.names) == 11
        player.answer(4)
        player.choose("Exploration, α", "0")
        assert [one.exploration for one in player.truth.items] == [0.0] * 11
        assert any(one.belief > 0 for one in player.truth.items)
        check_reasons(service.catalog, player, diverse=True)
        assert {one.width for one in player.taste().values()} == {0.0}
        player.choose("Exploration, α", "16")
        twice = [one.exploration for one in player.truth.items]
        for topic, one in player.taste().items():
            assert one == pytest.approx((player.learned()[topic].estimate, 2 * player.learned()[topic].width))
        player.choose("Exploration, α", "8")
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
        assert player.score.startswith("Round 2: you liked something in 1 of 1 ")
        player.undo()  # of this policy's last answer, not of the very last one
        assert player.answers() == [(0,), ()]


def test_a_setting_that_changes_while_a_list_is_loading_is_used(browser, service):
    with playing(browser, service) as player:
        before = player.impression
        with player.held("/v1/recommend"):
            player.control("Items per list, K").select_option("3")
            player.control("Items per list, K").select_option("2")
            player.control("Policy").select_option("CombLinUCB")
        player.page.wait_for_function(
            "() => document.querySelectorAll('.plate .item').length === 2 && !document.querySelector('[aria-busy]')"
        )
        assert player.impression != before
        assert (player.truth.learner, len(player.truth.items)) == ("CombLinUCB", 2)


def test_a_reload_changes_nothing(browser, service):
    with playing(browser, service) as player:
        player.choose("Policy", "LSBGreedy")
        player.choose("Items per list, K", "4")
        player.choose("Exploration, α", "2")
        for position in (1, None, 3):
            player.answer(position)
        controls = ("Policy", "Items per list, K", "Exploration, α")

        def seen():
            chosen = [player.control(name).input_value() for name in controls]
            path = player.page.get_by_role("img", name="Clicked positions").get_attribute("aria-label")
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
def test_a_user_who_was_forgotten_in_the_meantime_can_continue(browser, service, act):
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
        if act in ("answer", "undo"):  # the page says why the answer was not accepted
            expect(player.alert).to_have_text("The service no longer has this list. Here is a new one.")
        player.answer(0)
        assert player.answers() == [(0,)]


# By keyboard


def test_play_works_with_the_keyboard_alone(browser, service):
    with playing(browser, service) as player:
        keyboard = player.page.keyboard
        for _ in range(20):  # skip the header
            keyboard.press("Tab")
            if player.page.evaluate(WITHIN):
                break
        else:
            pytest.fail("Tab does not come to the list")
        answers = []
        for key, clicked in (
            ("Enter", (0,)), ("n", ()), ("3", (2,)), (" ", (0,)), ("6", (5,)),
            ("N", ()), ("Tab", (1,)), ("1", (0,)), ("Enter", (0,)), ("2", (1,)),
        ):  # fmt: skip
            if key == "Tab":  # move to the second item
                keyboard.press(key)
            player.press("Enter" if key == "Tab" else key)
            answers.append(clicked)
            assert player.page.evaluate(WITHIN), f"the focus is lost after {key}"
        assert player.answers() == answers
        player.press("u")
        assert player.page.evaluate(WITHIN)
        assert player.answers() == answers[:-1]
        expect(player.items.first).to_be_focused()
        expect(player.items.first).to_have_accessible_name(f"1 {player.names[0]}")


def test_shortcuts_are_ignored_where_keys_have_another_meaning(browser, service):
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


def test_key_0_selects_the_tenth_item(browser, service):
    with playing(browser, service) as player:
        player.control("Items per list, K").focus()
        for _ in range(4):  # from 6 to 10, without waiting for the lists in between
            player.page.keyboard.press("ArrowDown")
        expect(player.items).to_have_count(10)
        player.wait()
        expect(player.control("Items per list, K")).to_be_focused()
        player.items.first.focus()
        player.press("0")
        assert player.answers() == [(9,)]
