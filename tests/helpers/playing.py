"""A person who uses the view Play: what they see, what they do, and what the service has recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from browser import visit
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect
from serving_here import Serving, serving

import thali
from thali.cli.page import POLICIES, K
from thali.service.http.settings import LearnerSetting
from thali_client import Shown

LEARNERS = tuple(LearnerSetting(name, name, K, share=float(name == POLICIES[0])) for name in POLICIES)
LIKED = {"noodles", "sweet"}
NOTHING_KNOWN = 8.0  # half of the interval of a new user, which is the default α
READY = """before => {
  const list = document.querySelector(".plate");
  const now = list?.dataset.impression;
  const taste = document.querySelector(".taste")?.dataset.impression;
  return now && now !== before && taste === now && !list.hasAttribute("aria-busy");
}"""
WITHIN = "() => document.querySelector('.plate').contains(document.activeElement)"


class Taste(NamedTuple):
    """The learned taste for a topic, and half of its interval."""

    estimate: float
    width: float


@dataclass
class Player:
    """A person who plays, with access to the page and to the service."""

    page: Page
    client: thali.Client
    writes: list[str] = field(default_factory=list)
    """The requests of the page that change something."""
    uncaught: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", self._record)
        self.page.on("pageerror", lambda error: self.uncaught.append(str(error)))

    def _record(self, request: Request) -> None:
        if request.method != "GET":
            self.writes.append(f"{request.method} {urlsplit(request.url).path}")

    @property
    def sent(self) -> int:
        """The number of answers that were sent so far."""
        return self.writes.count("POST /v1/feedback")

    # What the page shows

    @property
    def plate(self) -> Locator:
        return self.page.locator(".plate")

    @property
    def items(self) -> Locator:
        return self.plate.locator("button.item")

    @property
    def names(self) -> list[str]:
        return self.items.locator(".name").all_text_contents()

    @property
    def impression(self) -> str:
        impression = self.plate.get_attribute("data-impression")
        assert impression is not None
        return impression

    @property
    def user(self) -> str:
        return self.page.locator(".play code").text_content() or ""

    @property
    def score(self) -> str:
        return self.page.locator(".score").text_content() or ""

    @property
    def alert(self) -> Locator:
        return self.page.locator(".play").get_by_role("alert")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def control(self, name: str) -> Locator:
        return self.page.get_by_label(name)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the table of tastes by topic: its numbers as text and as drawn."""
        return {
            row.pop("topic"): row
            for row in self.page.evaluate(
                """() => [...document.querySelectorAll("table.taste tr[data-topic]")].map((row) => {
                  const box = (kind) => row.querySelector(kind).getBoundingClientRect();
                  return {
                    topic: row.dataset.topic, head: row.querySelector("th").textContent,
                    learned: row.cells[2].textContent, has: row.cells[3].textContent,
                    lit: row.classList.contains("lit"),
                    estimate: Number(row.dataset.estimate), width: Number(row.dataset.width),
                    zero: box(".zero").left, left: box(".bar").left, right: box(".bar").right,
                  };
                })"""
            )
        }

    def taste(self) -> dict[str, Taste]:
        return {topic: Taste(row["estimate"], row["width"]) for topic, row in self.rows().items()}

    # What the service has recorded

    @property
    def truth(self) -> Shown:
        """The list on the page, as the service has it."""
        return self.client.impression(self.impression)

    def learned(self, learner: str = "CascadeLSB") -> dict[str, Taste]:
        """Return the taste that the service has learned."""
        taste = self.client.user(self.user).learners[learner].taste
        return {one.topic: Taste(one.estimate, (one.high - one.low) / 2) for one in taste}

    def answers(self) -> list[tuple[int, ...]]:
        """Return the recorded answers, oldest first."""
        past = reversed(list(self.client.history(self.user)))
        return [tuple(one.clicked) for one in past if one.clicked is not None]

    # What the person does

    def wait(self, before: str = "") -> None:
        """Wait until the page shows another list and its taste."""
        self.page.wait_for_function(READY, arg=before)

    @contextmanager
    def another(self) -> Iterator[None]:
        """Wait at the end of the block until another list has replaced the current one."""
        before = self.impression
        yield
        self.wait(before)
        expect(self.alert).to_be_hidden()

    def answer(self, position: int | None) -> None:
        with self.another():
            (self.button("None of these") if position is None else self.items.nth(position)).click()

    def press(self, key: str) -> None:
        with self.another():
            self.page.keyboard.press(key)

    def undo(self) -> None:
        with self.another():
            self.button("Undo").click()

    def choose(self, control: str, value: str) -> None:
        with self.another():
            self.control(control).select_option(value)

    def reload(self) -> None:
        self.page.reload()
        self.wait()

    @contextmanager
    def held(self, path: str) -> Iterator[None]:
        """Delay requests to a path until the end of the block."""
        waiting: list[Route] = []
        over = False
        self.page.route(f"**{path}", lambda route: route.continue_() if over else waiting.append(route))
        yield
        over = True
        for route in waiting:
            route.continue_()


@contextmanager
def play_service(folder: Path) -> Iterator[Serving]:
    """Serve the same learners as ``thali demo --web``, with dishes."""
    with serving(folder, catalog=thali.Catalog(*thali.datasets.dishes()), learners=LEARNERS) as running:
        yield running


@contextmanager
def playing(browser: Browser, service: Serving, **context: Any) -> Iterator[Player]:
    """Open Play as a new user, and wait for the first list. Bars are not animated."""
    with visit(browser, service.url, **{"reduced_motion": "reduce", **context}) as page, service.client() as client:
        player = Player(page, client)
        player.wait()
        player.writes.clear()
        yield player
        assert player.uncaught == []


def liked(player: Player) -> int | None:
    """Return the position that a person who likes noodles and sweets would click."""
    return next((one.position for one in player.truth.items if LIKED & set(one.topics)), None)


def unknown(service: Serving) -> dict[str, Taste]:
    """Return the taste of a new user."""
    return {topic: Taste(0.0, NOTHING_KNOWN) for topic in map(str, service.catalog.topics)}
