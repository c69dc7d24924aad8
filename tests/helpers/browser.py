"""Visits to the page in the system's Chromium, driven by Playwright. Installs Chromium if it can."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update")


def find_chromium() -> str:
    """Return the path of Chromium. Installs it first if it is missing and this process may do so."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", "chromium")):
            subprocess.run(["apt-get", *words], check=True, env=quiet, stdout=subprocess.DEVNULL, timeout=900)
        path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise RuntimeError("the tests of the page need Chromium: install it (apt-get install chromium), run them again")
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser. The sandbox is off if this process runs as root, because root cannot use it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=list(FLAGS), chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser
        finally:
            browser.close()


class Complaints:
    """Collects what must never happen on a page: console errors, uncaught errors, requests to other hosts, dialogs."""

    def __init__(self, page: Page, url: str) -> None:
        self.found: list[str] = []
        self._host = urlsplit(url).netloc
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.found.append(f"uncaught: {error}"))
        page.on("request", self._request)
        page.on("dialog", lambda dialog: self.found.append(f"dialog: {dialog.message}") or dialog.dismiss())

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type} on the console: {message.text} ({message.location.get('url')})")

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self._host:
            self.found.append(f"request to {request.url}")


@contextmanager
def visit(browser: Browser, url: str, *, complaints: bool = True, **context: Any) -> Iterator[Page]:
    """Open the page in a browser context of its own. complaints: whether to fail at the end if there were any."""
    with browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context}) as session:
        page = session.new_page()
        page.set_default_timeout(20_000)
        recorded = Complaints(page, url)
        page.goto(url)
        yield page
        if complaints:
            assert not recorded.found, recorded.found
