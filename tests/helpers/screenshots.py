"""``make screenshots``: takes pictures of the page's three views with a real browser, and saves them in docs/."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from browser import chromium, visit
from PIL import Image
from playwright.sync_api import Page
from serving_here import serving

import thali
from thali.cli.page import POLICIES, K
from thali.service.http.settings import LearnerSetting

DOCS = Path(__file__).resolve().parents[2] / "docs"
STORE = "sqlite:///thali.db"
LIKED = ("noodles", "soup", "sweet")
ROUNDS = 14
# The numbers of simulated people and of hours with lists, for the view Operate.
PEOPLE, HOURS = 40, 96
SHARES = {name: 0.7 if name == POLICIES[0] else 0.1 for name in POLICIES}


def picture(page: Page, name: str) -> None:
    """Save a picture of the whole page, in 256 colors."""
    taken = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    taken.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(DOCS / name, optimize=True)
    print(f"docs/{name}: {os.path.getsize(DOCS / name):,} bytes, {taken.width}×{taken.height}")


def past(catalog: thali.Catalog, store: str) -> None:
    """Fill the store with some days of simulated people, whose number depends on the time of day."""
    draw = np.random.default_rng(7)
    person = thali.DiverseCascade(catalog, draw.dirichlet(np.full(catalog.d, 0.5), size=PEOPLE))
    clock = [time.time() - HOURS * 3600.0]
    policies = {name: thali.POLICIES[name](catalog, K) for name in POLICIES}
    with closing(thali.Recommender(policies, store, shares=SHARES, clock=lambda: clock[0])) as recommender:
        for _ in range(HOURS):
            clock[0] += 3600.0
            busy = 20 + 15 * np.sin(2 * np.pi * ((clock[0] / 3600.0) % 24 - 9) / 24)
            for who in draw.choice(PEOPLE, size=max(3, draw.poisson(busy)), replace=True).tolist():
                shown = recommender.recommend(f"person-{who}")
                chosen = np.tile([catalog.item(one.item) for one in shown.items], (PEOPLE, 1))
                clicks = person.respond(chosen, draw.random((PEOPLE, K)))[who]
                recommender.feedback(shown.id, np.flatnonzero(clicks).tolist())


def play(page: Page) -> None:
    """Play some rounds as a person who likes some topics."""
    for _ in range(ROUNDS):
        before = page.get_attribute(".plate", "data-impression")
        chips = page.locator(".plate .item .chips").all_text_contents()
        liked = [at for at, text in enumerate(chips) if any(topic in text for topic in LIKED)]
        page.keyboard.press(str(liked[0] + 1) if liked else "n")
        page.wait_for_function("was => document.querySelector('.plate').dataset.impression !== was", arg=before)
        page.wait_for_selector(".plate:not([aria-busy])")


def main() -> None:
    """Take all three pictures."""
    catalog = thali.Catalog(*thali.datasets.dishes())
    learners = tuple(LearnerSetting(name, name, K, share=share) for name, share in SHARES.items())
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        os.chdir(folder)  # so that the store's name is short
        past(catalog, STORE)
        with (
            serving(Path(folder), catalog=catalog, learners=learners, store=STORE) as service,
            visit(browser, service.url, reduced_motion="reduce") as page,
        ):
            page.wait_for_selector(".plate .item")
            play(page)
            picture(page, "play.png")
            page.click("text=Watch")
            page.locator("input[name=speed]").fill("5")
            page.wait_for_function("() => Number(document.querySelector('.step').dataset.step) >= 1500")
            page.click("text=Change the taste now")
            page.wait_for_function("() => Number(document.querySelector('.step').dataset.step) >= 3500")
            page.click("text=Pause")
            picture(page, "watch.png")
            page.click("text=Operate")
            page.select_option("select[name=hours]", "168")
            page.wait_for_function("() => document.querySelector('.hours polyline')")
            page.wait_for_selector("text=Updated at")
            picture(page, "operate.png")


if __name__ == "__main__":
    sys.exit(main())
