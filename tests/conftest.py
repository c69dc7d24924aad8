import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Use the fast code from the start, so that the same code runs in every test. This must come before thali is imported.
os.environ.setdefault("THALI_COMPILE", "first")

import pytest
from hypothesis import settings
from postgres_server import PostgresServer

# Failed assertions in these helpers are reported in full, as those of the tests.
pytest.register_assert_rewrite("browser", "page_checks", "page_film", "playing", "reasons", "running")
# The first example of a test may compile kernels.
settings.register_profile("thali", deadline=None)
settings.load_profile("thali")

# Tests that use one of these fixtures start a server or a browser. They are slow.
SLOW_FIXTURES = {"postgres", "browser"}
STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server. A test that stops it must start it again."""
    server = PostgresServer(fsync=False)  # each test creates a database, which is thousands of writes to the disk
    try:
        server.start()
        yield server
    finally:
        server.remove()


def new_store(request: pytest.FixtureRequest, file: Path) -> str:
    """Return the URL of an empty store of the kind that the fixture's parameter names."""
    return f"sqlite:///{file}" if request.param == "sqlite" else request.getfixturevalue("postgres").fresh()


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store: SQLite and, in the slow tests, PostgreSQL."""
    return new_store(request, tmp_path / "taste.db")


@pytest.fixture(params=STORES)
def other_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of another empty store, of the same kind as the first or of the other kind."""
    return new_store(request, tmp_path / "other.db")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of the page. Playwright is imported only if a test needs it."""
    from browser import chromium

    with chromium() as running:
        yield running
