"""``thali catalog``: build and inspect catalog files."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thali.cli.tables import AtLeast, DuplicatesOption, MostActiveItems, MostActiveUsers, Separator, Tables, read_log

if TYPE_CHECKING:
    from thali.catalog.catalog import Catalog
    from thali.datasets.interactions import Interactions
    from thali.datasets.log import Log
    from thali.starting import CatalogFile, Start

app = typer.Typer(
    help="Build and inspect catalog files.\n\nA catalog file contains items, topics and weights. It can also contain a "
    "prior: what people like on average.",
    no_args_is_help=True,
)

# Wide enough for a digest of 64 digits, even if the terminal is narrower.
WIDE = 100


class TopicsName(StrEnum):
    """The topics that a fitted catalog can have."""

    given = "given"
    learned = "learned"
    both = "both"


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
            help="Table of who liked what, with columns user and item, and optionally value and time. Each row that "
            "counts is a like."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Log of lists that were shown: a JSON object per line, as for 'thali replay', or Metarank's events."
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Use the weights of this table, with columns item, topic and weight.")
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Table of all items, with columns item and topics. Interactions and positions of lists with other "
            "items are left out. With --weights, other items are an error, and only the column item is read."
        ),
    ] = None,
    separator: Separator = None,
    duplicates: DuplicatesOption = None,
    at_least: AtLeast = None,
    most_active_users: MostActiveUsers = None,
    most_active_items: MostActiveItems = None,
    topics: Annotated[
        TopicsName | None,
        typer.Option(
            help="Use the topics of --items, learn topics, or both (default: both if the items have topics, else "
            "learned; with --log, given if the items have topics)."
        ),
    ] = None,
    d: Annotated[
        int | None,
        typer.Option(
            "--d", min=1, help="Number of learned topics, and largest number of given ones (default: depends on data)."
        ),
    ] = None,
    quality: Annotated[
        bool | None,
        typer.Option("--quality/--no-quality", help="Whether to add a topic with the quality of items (default: yes)."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Catalog file from an earlier build. The new file has the same topics, so what people taught the "
            "service stays valid."
        ),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(
            help="Age at which a like counts half as much, compared with the latest like, in the unit of the column "
            "time (default: all count the same)."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed (default: 0).")] = None,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Estimate the weights as in the paper, without learned topics, quality or prior."),
    ] = False,
    top_topics: Annotated[
        int | None,
        typer.Option(
            min=1, help="Keep only this many topics: those with the most items (default: all). Implies --paper."
        ),
    ] = None,
    coverage: Annotated[
        CoverageName | None,
        typer.Option(
            help="Formula for how well a list covers a topic (default: probabilistic). With --interactions, implies "
            "--paper."
        ),
    ] = None,
    steady: Annotated[
        list[str] | None,
        typer.Option(
            help="Topic on which an item always adds its full weight, such as its quality. "
            "Repeat the option for several topics. With --interactions, implies --paper."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the catalog file if it exists.")] = False,
) -> None:
    """Build a catalog file from what people liked.

    From --interactions or --log, learn topics, the quality of items, and a prior: what people like on average. With
    these, the first list for a new person is a good one. Or use --weights if you already have weights. Tables are CSV
    files, or Parquet files if their name ends in .parquet.

    Example: thali catalog build --interactions clicks.csv -o films.parquet

    Example: thali catalog build --interactions clicks.csv --items items.csv -o films.parquet

    Example: thali catalog build --log lists.jsonl --items items.csv -o films.parquet

    Example: thali catalog build --interactions clicks.csv --like films.parquet -o new.parquet

    Example: thali catalog build --weights weights.csv -o films.parquet
    """
    sources = {"--interactions": interactions, "--log": log, "--weights": weights}
    given = [name for name, path in sources.items() if path is not None]
    if len(given) != 1:
        raise ValueError(
            "catalog build needs exactly one of --interactions, --log and --weights, got "
            f"{' and '.join(given) or 'none of them'}"
        )
    if out.exists() and not force:
        raise ValueError(f"out must be a new file, but {out} exists; use --force to overwrite it")
    tables = Tables(interactions, items, separator, duplicates, at_least, most_active_users, most_active_items)
    for_fit = {"topics": topics, "d": d, "quality": quality, "like": like, "half_life": half_life, "seed": seed}
    for_paper = {"paper": paper or None, "top_topics": top_topics, "coverage": coverage, "steady": steady or None}
    _check_options(given[0], tables, for_fit, for_paper)

    from thali.catalog.catalog import Catalog
    from thali.catalog.file import catalog_digest, save_catalog

    formula = (coverage or CoverageName.probabilistic).value
    start: Start | None = None
    if weights is not None:
        from thali.datasets.weights import weights as weight_table

        matrix, names, given_topics = weight_table(weights, items)
        catalog = Catalog(matrix, names, given_topics, formula, _fading(given_topics, steady))
    elif _given(for_paper):
        counted = tables.read_known(needs_items=True)
        counted = counted if top_topics is None else counted.top_topics(top_topics)
        catalog = Catalog.estimate(counted, formula, _fading(counted.topics, steady))
    else:
        start = _fit(tables, log, for_fit)
        catalog = start.catalog
    out.parent.mkdir(parents=True, exist_ok=True)
    if start is None:
        save_catalog(catalog, out)
    else:
        start.save(out)
    learned = "" if start is None else f"prior from {start.people:,} people, "
    print(f"{out}: {len(catalog):,} items, {catalog.d:,} topics, {learned}digest {catalog_digest(out)}")
    if start is not None:
        _note_unchosen(start)


@app.command()
def info(path: Annotated[Path, typer.Argument(help="Catalog file to read.")]) -> None:
    """Show what a catalog file contains.

    Print the number of items and topics, the kind of coverage (probabilistic or max), the steady topics if there are
    any, the number of items whose weights are all 0, and the digest of the file. Also print whether it has a prior, and
    from how many people, how much a known like counts, and how often items were seen and liked. Then print each topic
    with its number of items and its largest weight.

    Example: thali catalog info films.parquet
    """
    from rich.console import Console

    from thali.catalog.file import catalog_digest
    from thali.starting import load_catalog_file

    content = load_catalog_file(path)
    catalog = content.catalog
    console = Console(width=max(WIDE, Console().width))
    all_zero = int((catalog.sparse.begin == catalog.sparse.end).sum())
    for name, value in (
        ("items (L)", f"{catalog.L:,}"),
        ("topics (d)", f"{catalog.d:,}"),
        ("coverage", catalog.coverage),
        *([] if catalog.fading.all() else [("steady topics", ", ".join(_steady(catalog)))]),
        ("items with zero weights", f"{all_zero:,}"),
        *_fitted(content),
        ("digest", catalog_digest(path)),
    ):
        console.print(f"{name:24}{value}", highlight=False, markup=False)
    console.print(_topics_table(catalog))


def _note_unchosen(start: Start) -> None:
    """Say how many items nobody chose: the file cannot tell whether they are new or bad."""
    import numpy as np

    from thali.cli.tables import MOST_NAMES

    unchosen = np.flatnonzero(start.quality.clicked == 0.0)
    if unchosen.size:
        names = ", ".join(repr(start.catalog.items[e])[:80] for e in unchosen[:MOST_NAMES])
        more = f" and {unchosen.size - MOST_NAMES:,} more" if unchosen.size > MOST_NAMES else ""
        typer.echo(
            f"Note: nobody chose {names}{more}. People will hardly see such items. If some of them are new, send them "
            "to PUT /v1/items, with their topics, once the service has loaded this file. Then it tries them.",
            err=True,
        )


def _given(options: dict[str, Any]) -> list[str]:
    """Return the names of the options that are given, as on the command line."""
    return [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]


def _check_options(source: str, tables: Tables, for_fit: dict[str, Any], for_paper: dict[str, Any]) -> None:
    """Raise ValueError if there are options that cannot be used with this source, or with one another."""
    fits, papers = _given(for_fit), _given(for_paper)
    fits = ["--no-quality" if name == "--quality" and not for_fit["quality"] else name for name in fits]
    if source == "--weights":
        tables.refuse("got it with --weights", paper=for_paper["paper"], top_topics=for_paper["top_topics"])
        if fits:
            raise ValueError(f"{fits[0]} can only be used with --interactions or --log, got it with --weights")
        return
    if source == "--log":
        tables.refuse("got it with --log", separator=False, **for_paper)
    if tables.separator is not None and tables.items is None:
        raise ValueError(f"--separator can only be used with --items, got {tables.separator!r} without --items")
    if fits and papers:
        raise ValueError(
            f"{fits[0]} cannot be used with {papers[0]}, which estimates the weights as in the paper, without learned "
            "topics, quality or prior"
        )
    if for_fit["like"] is not None:
        for name in ("--topics", "--d", "--no-quality"):
            if name in fits:
                value = "" if name == "--no-quality" else f", got {str(for_fit[name[2:]])!r}"
                raise ValueError(f"{name} cannot be used with --like, whose topics are kept{value}")


def _fit(tables: Tables, log: Path | None, options: dict[str, Any]) -> Start:
    """Read the tables or the log, and fit to them."""
    from thali.catalog.file import load_catalog
    from thali.starting import fit

    like = None if options["like"] is None else load_catalog(options["like"])
    data: Interactions | Log
    if log is None:
        data = tables.read_known()
    else:
        data = read_log(log, tables.items, tables.separator)
    topics = None if options["topics"] is None else options["topics"].value
    if topics is None and like is None and log is None and data.topics:
        topics = TopicsName.both.value
    if topics in ("given", "both") and not data.topics:
        raise ValueError(f"--topics {topics} needs items with topics, in the table --items, got none")
    quality = options["quality"]
    if quality is None:
        quality = like is None or not like.fading.all()
    seed = options["seed"] or 0
    return fit(data, topics, options["d"], quality=quality, like=like, half_life=options["half_life"], seed=seed)


def _fitted(content: CatalogFile) -> list[tuple[str, str]]:
    """Return what to print about the parts of a file that come from thali.fit."""
    if content.prior is None or content.quality is None:
        return [("prior", "none")]
    quality = content.quality
    return [
        ("prior", f"from {content.people:,} people"),
        ("weight of a like", f"{content.weight:.6g}"),
        ("quality", f"{quality.clicked.sum():,.6g} likes, {quality.examined.sum():,.6g} times seen ({quality.rule})"),
    ]


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
