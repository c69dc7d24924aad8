"""``thali catalog``: build and inspect catalog files."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thali.cli.tables import AtLeast, DuplicatesOption, MostActiveItems, MostActiveUsers, Separator, Tables

if TYPE_CHECKING:
    from thali.catalog.catalog import Catalog

app = typer.Typer(
    help="Build and inspect catalog files.\n\nA catalog file contains items, topics and weights.", no_args_is_help=True
)

# Wide enough for a digest of 64 digits, even if the terminal is narrower.
WIDE = 100


class CoverageName(StrEnum):
    """The coverages that a catalog file can use."""

    probabilistic = "probabilistic"
    max = "max"


@app.command()
def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="Catalog file to write.")],
    interactions: Annotated[
        Path | None,
        typer.Option(
            help="Estimate weights from this table, with columns user, item and value. "
            "If there is no 'value' column, each row counts as 1."
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Use the weights of this table, with columns item, topic and weight.")
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Table of all items, with columns item and topics. "
            "Required with --interactions. With --weights, only its 'item' column is read."
        ),
    ] = None,
    separator: Separator = None,
    duplicates: DuplicatesOption = None,
    at_least: AtLeast = None,
    most_active_users: MostActiveUsers = None,
    most_active_items: MostActiveItems = None,
    top_topics: Annotated[
        int | None, typer.Option(min=1, help="Keep only this many topics: those with the most items (default: all).")
    ] = None,
    coverage: Annotated[CoverageName, typer.Option(help="Formula for how well a list covers a topic.")] = (
        CoverageName.probabilistic
    ),
    steady: Annotated[
        list[str] | None,
        typer.Option(
            help="Topic on which an item always adds its full weight, such as its quality. "
            "Repeat the option for several topics."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the catalog file if it exists.")] = False,
) -> None:
    """Build a catalog file from tables.

    Use --interactions to estimate the weights as in the paper, or --weights if you already have them. Tables are CSV
    files, or Parquet files if their name ends in .parquet.

    Example: thali catalog build --interactions clicks.csv --items items.csv -o films.parquet

    Example: thali catalog build --weights weights.csv -o films.parquet
    """
    if (interactions is None) == (weights is None):
        raise ValueError("catalog build needs exactly one of --interactions and --weights")
    if out.exists() and not force:
        raise ValueError(f"out must be a new file, but {out} exists; use --force to overwrite it")
    tables = Tables(interactions, items, separator, duplicates, at_least, most_active_users, most_active_items)
    if weights is not None:
        tables.refuse("got it with --weights", top_topics=top_topics)

    from thali.catalog.catalog import Catalog
    from thali.catalog.file import catalog_digest, save_catalog
    from thali.datasets.weights import weights as weight_table

    if weights is not None:
        matrix, names, topics = weight_table(weights, items)
        catalog = Catalog(matrix, names, topics, coverage.value, _fading(topics, steady))
    else:
        counted = tables.read()
        counted = counted if top_topics is None else counted.top_topics(top_topics)
        catalog = Catalog.estimate(counted, coverage.value, _fading(counted.topics, steady))
    out.parent.mkdir(parents=True, exist_ok=True)
    save_catalog(catalog, out)
    print(f"{out}: {len(catalog):,} items, {catalog.d:,} topics, digest {catalog_digest(out)}")


@app.command()
def info(path: Annotated[Path, typer.Argument(help="Catalog file to read.")]) -> None:
    """Show what a catalog file contains.

    Print the number of items and topics, the kind of coverage (probabilistic or max), the steady topics if there are
    any, the number of items whose weights are all 0, and the digest of the file. Then print each topic with its number
    of items and its largest weight.
    """
    from rich.console import Console

    from thali.catalog.file import catalog_digest, load_catalog

    catalog = load_catalog(path)
    console = Console(width=max(WIDE, Console().width))
    all_zero = int((catalog.sparse.begin == catalog.sparse.end).sum())
    for name, value in (
        ("items (L)", f"{catalog.L:,}"),
        ("topics (d)", f"{catalog.d:,}"),
        ("coverage", catalog.coverage),
        *([] if catalog.fading.all() else [("steady topics", ", ".join(_steady(catalog)))]),
        ("items with zero weights", f"{all_zero:,}"),
        ("digest", catalog_digest(path)),
    ):
        console.print(f"{name:24}{value}", highlight=False, markup=False)
    console.print(_topics_table(catalog))


def _fading(topics: Sequence[Any], steady: list[str] | None) -> list[bool] | None:
    """Return which topics fade, or None if no topic is steady."""
    unknown = [name for name in steady or [] if name not in topics]
    if unknown:
        raise ValueError(f"steady must be among the topics {', '.join(map(str, topics))}, got {unknown[0]!r}")
    return [topic not in steady for topic in topics] if steady else None


def _steady(catalog: Catalog) -> list[str]:
    return [str(topic) for topic, fades in zip(catalog.topics, catalog.fading, strict=True) if not fades]


def _topics_table(catalog: Catalog) -> Any:
    """Return a table of topics with the number of items and the largest weight of each."""
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
        table.add_row(Text(str(topic)), f"{count:,}", f"{weight:.6g}")  # Text, because a name may look like markup
    return table
