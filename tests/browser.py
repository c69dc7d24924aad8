"""The system's Chromium, driven by playwright; installed where it is missing and that can be done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update")


def find_chromium() -> str:
    """Where Chromium is; it is installed first if need be."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", "chromium")):
            subprocess.run(["apt-get", *words], check=True, env=quiet, stdout=subprocess.DEVNULL, timeout=900)
        found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError("the tests of the page need Chromium: install it (apt-get install chromium), run them again")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that runs; root may not use its sandbox."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=list(FLAGS), chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser
        finally:
            browser.close()
