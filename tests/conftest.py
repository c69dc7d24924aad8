from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from postgres_server import PostgresServer

# What they assert is told as in the tests themselves.
pytest.register_assert_rewrite("browser", "page_checks", "page_film", "playing", "reasons")
# The first example of a test may compile kernels.
settings.register_profile("thali", deadline=None)
settings.load_profile("thali")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that runs; a test that stops it starts it again."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is empty, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'taste.db'}"
    return request.getfixturevalue("postgres").fresh()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of the page; playwright is imported by those who need it."""
    from browser import chromium

    with chromium() as running:
        yield running
