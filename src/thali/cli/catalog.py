"""``thali catalog``: build a catalog file from tables, and inspect one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from thali.catalog.catalog import Catalog

app = typer.Typer(help="Catalog files: items, topics and weights, for the service.", no_args_is_help=True)

# Wide enough for a digest of 64 digits, whatever the width of the terminal.
WIDE = 100


class Duplicates(StrEnum):
    """What to do with a repeated pair of user and item."""

    error = "error"
    last = "last"
    sum = "sum"


class CoverageName(StrEnum):
    """The coverages that a catalog file can use."""

    probabilistic = "probabilistic"
    max = "max"


@app.command()
def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="The catalog file to write.")],
    interactions: Annotated[
        Path | None,
        typer.Option(help="Estimate weights from this: columns user, item, value (1 where there is none)."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Take weights as they are here: columns item, topic, weight.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="Every item: columns item, topics; with --weights, only item is read.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="What divides topics in --items; | if not given.")] = None,
    duplicates: Annotated[
        Duplicates | None, typer.Option(help="A user and item that come again; an error if not given.")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(help="The value from which an interaction is an attraction; all are if not given.")
    ] = None,
    most_active_users: Annotated[
        int | None, typer.Option(min=1, help="Only the users with the most interactions.")
    ] = None,
    most_active_items: Annotated[
        int | None, typer.Option(min=1, help="Only the items with the most interactions.")
    ] = None,
    top_topics: Annotated[int | None, typer.Option(min=1, help="Only the topics with the most items.")] = None,
    coverage: Annotated[CoverageName, typer.Option(help="How items of a list cover a topic.")] = (
        CoverageName.probabilistic
    ),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """A catalog file, from interactions (the paper's estimate of w̄) or from weights. Tables are CSV or .parquet."""
    if (interactions is None) == (weights is None):
        raise ValueError("catalog build must have exactly one of --interactions and --weights")
    if out.exists() and not force:
        raise ValueError(f"out must be a new file, or come with --force to write over it, got {out}")
    if weights is not None:
        for name, value in (
            ("--separator", separator),
            ("--duplicates", duplicates),
            ("--at-least", at_least),
            ("--most-active-users", most_active_users),
            ("--most-active-items", most_active_items),
            ("--top-topics", top_topics),
        ):
            if value is not None:
                raise ValueError(f"{name} must come with --interactions, got it with --weights")
    elif items is None:
        raise ValueError("--interactions must come with --items, the topics of each item")

    from thali.catalog.catalog import Catalog
    from thali.catalog.file import catalog_digest, save_catalog
    from thali.datasets import tables
    from thali.datasets.weights import weights as weight_table

    if weights is not None:
        catalog = Catalog(*weight_table(weights, items), coverage=coverage.value)
    else:
        assert interactions is not None
        assert items is not None
        repeats = Duplicates.error if duplicates is None else duplicates
        data = tables(interactions, items, separator="|" if separator is None else separator, duplicates=repeats.value)
        kept = data.most_active(users=most_active_users, items=most_active_items)
        attractions = kept if at_least is None else kept.attracted(at_least)
        if not len(attractions):
            raise ValueError(f"{interactions} must have an interaction that is an attraction, got none of {len(kept)}")
        print(f"{interactions}: {len(data):,} interactions, {len(attractions):,} of them taken as attractions")
        attractions = attractions if top_topics is None else attractions.top_topics(top_topics)
        catalog = Catalog.estimate(attractions, coverage=coverage.value)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_catalog(catalog, out)
    print(f"{out}: {len(catalog):,} items, {catalog.d:,} topics, digest {catalog_digest(out)}")


@app.command()
def info(path: Annotated[Path, typer.Argument(help="A catalog file.")]) -> None:
    """What is in a catalog file: its size, its digest, and each topic with its items and largest weight."""
    from rich.console import Console

    from thali.catalog.file import catalog_digest, load_catalog

    catalog = load_catalog(path)
    console = Console(width=max(WIDE, Console().width))
    uncovering = int((catalog.sparse.begin == catalog.sparse.end).sum())
    for name, value in (
        ("items (L)", f"{catalog.L:,}"),
        ("topics (d)", f"{catalog.d:,}"),
        ("coverage", catalog.coverage),
        ("items covering nothing", f"{uncovering:,}"),
        ("digest", catalog_digest(path)),
    ):
        console.print(f"{name:24}{value}", highlight=False, markup=False)
    console.print(_topics_table(catalog))


def _topics_table(catalog: Catalog) -> Any:
    """Each topic with its number of items and its largest weight."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    counts = np.bincount(catalog.sparse.topics, minlength=catalog.d)
    largest = catalog.csr.max(axis=0).toarray()
    table = Table()
    table.add_column("topic", overflow="fold")
    for name in ("items", "largest weight"):
        table.add_column(name, justify="right")
    for topic, count, weight in zip(catalog.topics, counts, largest, strict=True):
        table.add_row(Text(str(topic)), f"{count:,}", f"{weight:.6g}")  # Text: a name is not markup
    return table
