"""``thali demo --web``: the page, with example items and a temporary store."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thali.cli.serve import LOOPBACK, address, check_free, check_installed, first_start, run

if TYPE_CHECKING:
    from thali.catalog.catalog import Catalog

K = 6
#: The policies that a visitor can try. Each learns separately, and every user starts with the first.
POLICIES = ("CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CombLinUCB")
HOST = "127.0.0.1"


class Items(StrEnum):
    """Which items to show."""

    auto = "auto"
    dishes = "dishes"
    movielens = "movielens"


def serve_page(items: Items, data: Path | None, port: int) -> None:
    """Serve the page on this machine until stopped."""
    check_installed("thali demo --web")
    from thali.catalog.file import save_catalog
    from thali.service.http.settings import LearnerSetting, Settings

    check_free(HOST, port)
    catalog, description = choose(items, data)
    typer.echo(f"{description}.{first_start()}", err=True)
    with tempfile.TemporaryDirectory(prefix="thali-demo-") as folder:
        file = Path(folder) / "catalog.parquet"
        save_catalog(catalog, file)
        settings = Settings(
            catalog=str(file),
            store=f"sqlite:///{folder}/thali.db",
            learners=tuple(
                LearnerSetting(name, name, min(K, len(catalog)), share=float(name == POLICIES[0])) for name in POLICIES
            ),
            hosts=(*LOOPBACK, HOST),
            log_requests=False,
        )
        run(settings, HOST, port, 1, f"Open {address(HOST, port)} in a browser. Press Ctrl-C to stop.")


def choose(items: Items, data: Path | None) -> tuple[Catalog, str]:
    """Return a catalog and its description: films if MovieLens 1M is found, else the dishes included in thali."""
    from thali.catalog.catalog import Catalog
    from thali.datasets import dishes, fetch

    if data is not None and items is Items.dishes:
        raise ValueError(f"data cannot be used with --items dishes, got {data}")
    films = None if items is Items.dishes else fetch.found("ml-1m", data)
    if items is Items.movielens and films is None:
        films = fetch.folder("ml-1m", data)
    if films is not None:
        catalog = movielens(films)
        return catalog, f"Showing the {len(catalog):,} most rated films of MovieLens 1M, from {films}"
    if data is not None and items is Items.auto:
        raise ValueError(f"data must be a folder that contains ml-1m, got {data}")
    catalog = Catalog(*dishes())
    return (
        catalog,
        f"Showing {len(catalog)} dishes. To show films, set --data or $THALI_DATA to a folder that contains ml-1m",
    )


def movielens(folder: Path) -> Catalog:
    """Return a catalog of the paper's films and weights, with films named by title."""
    from thali.catalog.catalog import Catalog
    from thali.datasets import movielens as read
    from thali.datasets import movielens_titles

    catalog = Catalog.estimate(read(folder).most_active(users=1000, items=1000).attracted(at_least=5))
    titles: Mapping[Any, str] = movielens_titles(folder)
    names = [titles[film] for film in catalog.items]
    shared = {title for title, times in Counter(names).items() if times > 1}
    items = [f"{name} [{film}]" if name in shared else name for film, name in zip(catalog.items, names, strict=True)]
    return Catalog(catalog.csr, items=items, topics=list(catalog.topics))
