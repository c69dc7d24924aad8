"""What the view Watch shows at each redraw, and what it should show according to the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import hypot
from time import monotonic
from typing import Any

from browser import visit
from page_checks import PATIENCE_S, frames, number, percent, until
from playwright.sync_api import Browser, Page, Route, expect
from serving_here import Serving

import thali
from thali.policies import LinearPolicy

FASTEST = "6"
LATELY = 200
# Records what the page shows after each redraw. An observer is called when the script that changed the page has ended.
LOOK = """() => {
    const all = (where, what) => [...document.querySelectorAll(where)].map(what);
    const step = document.querySelector("output.step");
    window.seen = [];
    new MutationObserver(() => window.seen.push({
        step: Number(step.dataset.step),
        figures: all("td[data-figure]", (td) => [td.dataset.policy, td.dataset.figure, td.textContent]),
        lists: all("[data-list]", (one) => [one.dataset.list,
            [...one.querySelectorAll("li")].map((li) => [li.firstChild.textContent, li.classList.contains("good")])]),
        truth: all("tr[data-topic]", (tr) => [tr.dataset.topic, tr.lastChild.textContent]),
        learned: all("tr[data-topic] .unseen", (one) => one.textContent),
        marks: all(".mark", () => 1).length,
    })).observe(step, { attributes: true });
}"""


class Watching:
    """A person who uses Watch: the requests for simulations, and everything that the page shows."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[dict[str, Any]] = []
        self.held: list[Route] = []
        self._holds: Callable[[dict[str, Any]], bool] = lambda _: False
        page.route("**/v1/simulations", self._pass)
        page.get_by_role("link", name="Watch", exact=True).click()
        page.get_by_role("heading", level=1, name="Watch policies learn a hidden taste").wait_for()
        page.evaluate(LOOK)

    def _pass(self, route: Route) -> None:
        self.requests.append(route.request.post_data_json)
        if self._holds(self.requests[-1]):
            self.held.append(route)
        else:
            route.continue_()

    def hold(self, what: Callable[[dict[str, Any]], bool] = lambda _: True) -> None:
        """Wait for the next request of this kind, and delay it until :meth:`release`."""
        self._holds = what
        until_held = monotonic() + PATIENCE_S
        while not self.held:
            assert monotonic() < until_held, "there was no request"
            frames(self.page, 1)

    def release(self) -> None:
        self._holds = lambda _: False
        while self.held:
            self.held.pop().continue_()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def speed(self, to: str = FASTEST) -> None:
        self.page.get_by_role("slider", name="Speed").fill(to)

    @property
    def step(self) -> int:
        return int(self.page.locator("output.step").get_attribute("data-step") or 0)

    def reach(self, step: int) -> None:
        until(self.page, "(step) => Number(document.querySelector('output.step').dataset.step) >= step", step)

    def end(self) -> None:
        expect(self.page.locator("output.step")).to_have_attribute("data-over", "true")

    def begin(self, name: str) -> None:
        """Press a button that begins another run, and wait until it has begun."""
        before = len(self.requests)
        self.press(name)
        self.reach(1)
        assert len(self.requests) > before

    def films(self) -> list[list[dict[str, Any]]]:
        """Return the requests of each run."""
        runs: list[list[dict[str, Any]]] = []
        for one in self.requests:
            if one["since"] == 0:
                runs.append([])
            runs[-1].append(one)
        return runs

    def seen(self) -> list[list[dict[str, Any]]]:
        """Return what the page showed of each run, except before its first step."""
        runs: list[list[dict[str, Any]]] = [[]]
        for one in self.page.evaluate("() => window.seen"):
            if one["step"] > 0:
                runs[-1].append(one)
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]


@contextmanager
def watching(browser: Browser, service: Serving, **visiting: Any) -> Iterator[Watching]:
    """Open Watch from another view, so that none of its requests is missed."""
    with visit(browser, f"{service.url}/#operate", **visiting) as page:
        page.get_by_role("heading", level=1, name="Operate").wait_for()
        yield Watching(page)


class Truth:
    """The same run, simulated by the library, with every step."""

    def __init__(self, catalog: thali.Catalog, requests: list[dict[str, Any]]) -> None:
        self.catalog, self.K, self.policies = catalog, requests[-1]["K"], requests[-1]["policies"]
        last = requests[-1]
        tastes = [(0, last["theta"]), *((one["step"], one["theta"]) for one in last["changes"])]
        self.tastes = [[theta.get(topic, 0.0) for topic in catalog.topics] for _, theta in tastes]
        people = [thali.DiverseCascade(catalog, [theta]) for theta in self.tastes]
        self.person = thali.Drift(people, [step for step, _ in tastes])
        self.best = {person: person.best_lists(self.K) for person in people}
        self.points: list[int] = []
        for one in requests:
            self.points = [point for point in self.points if point <= one["since"]] + one["points"]
        self.runs, self.estimates = {}, {}
        for name in self.policies:
            self.runs[name], self.estimates[name] = self._run(name, last["steps"], last["seed"])

    def _run(self, name: str, steps: int, seed: int) -> tuple[thali.Run, list[list[float]]]:
        policy: Any = thali.POLICIES[name](self.catalog, self.K)
        known: list[list[float]] = []
        look = (lambda _, state: known.append(policy.estimate(state)[0].tolist())) if _linear(policy) else None
        points = range(1, steps + 1)
        return thali.simulate(policy, self.person, steps, seed, points=points, on_point=look), known

    def regret(self, name: str, step: int) -> float:
        return float(self.runs[name].regret[0, step - 1])

    def at(self, step: int) -> dict[str, Any]:
        """Return what the page must show at a step."""
        model: Any = self.person.at(step - 1)
        taste = model.theta[0].tolist()
        best = self.best[model]
        names = self._names(best[0])
        before = max((point for point in self.points if point <= step - LATELY), default=0)
        figures, lists = [], [["best", [[name, False] for name in names]]]
        for name in self.policies:
            run = self.runs[name]
            clicks, earlier = (int(run.clicks[0, at - 1]) if at else 0 for at in (step, before))
            known = self.estimates[name]
            off = number(hypot(*(a - b for a, b in zip(known[step - 1], taste, strict=True)))) if known else "–"
            values = (
                number(self.regret(name, step), 1),
                percent(clicks / step),
                percent((clicks - earlier) / (step - before)),
                off,
            )
            figures += [
                [name, figure, value] for figure, value in zip(("regret", "rate", "lately", "off"), values, strict=True)
            ]
            lists.append([name, [[item, item in names] for item in self._names(run.lists[0, step - 1])]])
        attainable = percent(float(model.click_probability(best)[0]))
        figures += [
            ["best", "regret", "0.0"],
            ["best", "rate", "–"],
            ["best", "lately", attainable],
            ["best", "off", "–"],
        ]
        learned = [
            ", ".join(f"{name} {number(known[step - 1][j])}" for name, known in self.estimates.items() if known)
            for j in range(self.catalog.d)
        ]
        truth = [[topic, number(value)] for topic, value in zip(self.catalog.topics, taste, strict=True)]
        return {"step": step, "figures": figures, "lists": lists, "truth": truth, "learned": learned}

    def _names(self, items: Any) -> list[Any]:
        return [self.catalog.items[e] for e in items.tolist()]


def assert_seen(seen: list[dict[str, Any]], truth: Truth) -> None:
    """Check that the page showed what happened, at every redraw of a run."""
    assert {one["step"] for one in seen} <= set(truth.points)
    for one in seen:
        assert {name: value for name, value in one.items() if name != "marks"} == truth.at(one["step"])


def _linear(policy: Any) -> bool:
    return isinstance(policy, LinearPolicy)
