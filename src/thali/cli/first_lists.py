"""``thali first-lists``: compare policies over each person's first lists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from thali.cli.experiments import (
    FIGURES,
    WIDE,
    Cluster,
    Data,
    Out,
    Seed,
    Splits,
    Workers,
    changed,
    perform,
    workers_need,
)
from thali.tools.extras import require


def first_lists(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Data sets, such as movielens, songs-hetrec, yelp-core40 or yelp-hin."),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own policy, as module:Class, such as mine:Best for the class Best in mine.py. The class is "
            "called with a catalog and K. Can be used several times."
        ),
    ] = None,
    d: Annotated[
        int | None,
        typer.Option(min=1, help="Number of topics (default: 18 for movielens, 40 for songs-hetrec, 10 for yelp-*)."),
    ] = None,
    K: Annotated[int, typer.Option("--K", min=1, help="Number of items per list.")] = 10,
    users: Annotated[int, typer.Option(min=2, help="Number of simulated people from each data set.")] = 1000,
    steps: Annotated[int, typer.Option(min=1, help="Number of lists shown to each person.")] = 1000,
    splits: Splits = None,
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Compare policies over each person's first lists.

    Print which share of the best list's clicks each policy has earned after 1, 5, 10, 20, 50, 100 and 1,000 lists, and
    how much this differs from a list that is the same for everybody, and from CascadeLSB without a prior. Then draw a
    figure. You can stop with Ctrl-C; the same command then resumes where it stopped.

    Example: thali first-lists movielens --users 20 --steps 100

    Example: thali first-lists movielens yelp-core40 --policy mine:Best
    """
    require("thali first-lists", "lab", *FIGURES, *workers_need(cluster))
    from rich.console import Console

    from thali.lab.compare import add_policy
    from thali.lab.first_lists import Shares, draw, markdown
    from thali.lab.settings import first_lists as experiment_on
    from thali.lab.sources import check_source
    from thali.lab.terminal import share_table

    console = Console(width=max(WIDE, Console().width))
    own = tuple(policy or ())
    if own and "" not in sys.path:
        sys.path.insert(0, "")  # the current folder, which 'python -m thali' can import from, and thali cannot
    for name in own:
        add_policy(name)
    chosen = [experiment_on(check_source(source), d, K, own) for source in dict.fromkeys(sources)]
    chosen = [changed(e, users, steps, splits, None, None, None) for e in chosen]
    results = perform(chosen, data, out, workers, cluster, seed, console)
    every = [Shares.of(results, experiment.name) for experiment in chosen]
    for shares in every:
        for table in shares.tables():
            console.print(share_table(table), "")
    page = out / "first-lists.md"
    page.write_text(markdown(every), encoding="utf-8")
    console.print(f"Figure: {draw(every, out / 'figures')}; tables: {page}; results: {out / 'rows'}", soft_wrap=True)
