"""Checks for all views of the page: conditions, accessibility, width and the keyboard."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

#: The machine may be busy with other processes.
PATIENCE_S = 60.0
expect.set_options(timeout=1000 * PATIENCE_S)
PHONE = {"width": 375, "height": 800}
#: Names that would do harm if text were parsed as markup, or if names were confused with those of JavaScript.
HOSTILE = (
    "<img src=x onerror=alert(1)>", "</td></tr></table><script>alert(2)</script>", "__proto__", "constructor",
    "&lt;b&gt;bold&lt;/b&gt;", "'\"`${alert(3)}", "toString", "a b%20?x=1#y", "‮right to left", "x" * 200,
)  # fmt: skip

UNTIL = """([argument, within]) => new Promise((done, failed) => {
    const condition = CONDITION;
    const end = performance.now() + within;
    const look = () => {
        if (condition(argument)) done();
        else if (performance.now() > end) failed(new Error(`never came: ${condition}`));
        else requestAnimationFrame(look);
    };
    look();
})"""


def until(page: Page, condition: str, argument: Any = None, *, within: float = PATIENCE_S) -> None:
    """Wait until a JavaScript function returns true. (The page's policy forbids the polling of wait_for_function.)"""
    page.evaluate(UNTIL.replace("CONDITION", condition), [argument, 1000 * within])


def frames(page: Page, count: int) -> None:
    """Wait for this many animation frames, in which the page can do what it would do without further input."""
    page.evaluate(
        "(count) => new Promise((done) => {"
        "const next = () => (count-- > 0 ? requestAnimationFrame(next) : done()); next(); })",
        count,
    )


def assert_accessible(page: Page) -> None:
    """Check that axe has no serious or critical findings, in the light and the dark theme."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        findings = [
            (theme, one["id"], one["impact"], node["html"][:200])
            for one in Axe().run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
        assert findings == []


def assert_fits(page: Page) -> None:
    """Check that the page cannot be scrolled sideways."""
    wide = page.evaluate(
        "() => { scrollTo(1e4, 0); return [scrollX, document.documentElement.scrollWidth - innerWidth]; }"
    )
    assert wide == [0, 0] or (wide[0] == 0 and wide[1] < 0)


def tab_to(page: Page, name: str, role: str = "button") -> None:
    """Press Tab until the element with this name has the focus."""
    wanted = page.get_by_role(role, name=name, exact=True)
    for _ in range(120):
        page.keyboard.press("Tab")
        if wanted.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"{name} cannot be reached by Tab")


def number(value: float, digits: int = 2) -> str:
    """Format a number as the page does: halves are rounded up, and the minus sign is a real one."""
    rounded = Decimal(abs(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{'−' if value < 0 and rounded else ''}{rounded}"


def percent(share: float, digits: int = 1) -> str:
    return f"{number(100 * share, digits)}\u2009%"
