from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from postgres_server import PostgresServer

# Failed assertions in these helpers are reported in full, as those of the tests.
pytest.register_assert_rewrite("browser", "page_checks", "page_film", "playing", "reasons")
# The first example of a test may compile kernels.
settings.register_profile("thali", deadline=None)
settings.load_profile("thali")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server. A test that stops it must start it again."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store: SQLite, then PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'taste.db'}"
    return request.getfixturevalue("postgres").fresh()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of the page. Playwright is imported only if a test needs it."""
    from browser import chromium

    with chromium() as running:
        yield running
