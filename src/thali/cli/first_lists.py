"""``thali first-lists``: compare policies over each person's first lists."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from thali.lab.settings import Experiment

#: The names of your own data among the sources.
OWN_TABLES, OWN_LOG = "own-tables", "own-log"


class By(StrEnum):
    """How people click."""

    likes = "likes"
    model = "model"


def first_lists(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Data sets: movielens, songs-hetrec, yelp-core40 or yelp-hin, where people's likes are known, or "
            "ranklens, with real lists.",
        ),
    ] = None,
    by: Annotated[
        By,
        typer.Option(
            help="How people click: the first item that they really like (likes), or as in the paper's click model "
            "(model). Has no effect on real lists."
        ),
    ] = By.likes,
    interactions: Annotated[
        Path | None,
        typer.Option(help="Your own table of likes, with the columns user and item, as CSV or Parquet."),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(help="The topics of your items, with the columns item and topics. Only needed for given topics."),
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(help="Count only interactions whose value is at least this (default: all).")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Your own log of lists: a JSON object per line, as for 'thali replay', or Metarank's events."
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="A log of other people, in the format of ranklens or --log. Only these people are judged, and nothing "
            "is learned from them (default: hold out people)."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own policy, as module:Class, such as mine:Best for the class Best in mine.py. The class is "
            "called with a catalog and K. Can be used several times."
        ),
    ] = None,
    d: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of given topics (default: 18 for movielens, 40 for songs-hetrec, 10 for others). Has "
            "no effect on real lists.",
        ),
    ] = None,
    K: Annotated[int, typer.Option("--K", min=1, help="Number of items per list. Has no effect on real lists.")] = 10,
    users: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of people from each data set (default: 1,000 or 1,500, at most half of your own table; all "
            "for real lists).",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of lists of each person (default: 30, or fewer if there are not enough items; 1,000 with --by "
            "model; 5 real lists).",
        ),
    ] = None,
    splits: Splits = None,
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Compare policies over each person's first lists.

    What you would use instead is among the policies, such as popular items, item kNN and EASE. With likes, some people
    are held out. They click the first item of a list that they like, and are not shown again what they have seen. The
    tables show the share of lists that get a click. With real lists, policies predict what each person clicks in their
    next list. With --by model, people click as in the paper's model, and the tables show the share of the best list's
    clicks. Then draw figures. You can stop with Ctrl-C; the same command then resumes where it stopped.

    Example: thali first-lists movielens --users 50

    Example: thali first-lists ranklens --test more-people.jsonl

    Example: thali first-lists --interactions likes.csv

    Example: thali first-lists movielens yelp-core40 --by model --policy mine:Best
    """
    require("thali first-lists", "lab", *FIGURES, *workers_need(cluster))
    from rich.console import Console

    from thali.lab.compare import add_policy
    from thali.lab.sources import check_source
    from thali.lab.terminal import share_table

    console = Console(width=max(WIDE, Console().width))
    own = tuple(policy or ())
    if own and "" not in sys.path:
        sys.path.insert(0, "")  # the current folder, which 'python -m thali' can import from, and thali cannot
    for name in own:
        add_policy(name)
    names = [*map(check_source, dict.fromkeys(sources or ())), *_add_own(interactions, items, at_least, log, test)]
    if not names:
        raise ValueError("first-lists needs a SOURCE, --interactions or --log, got none of them")
    _judge(test, names)
    chosen = [_experiment(name, by, d, K, own, users, steps, splits, data) for name in names]
    results = perform(chosen, data, out, workers, cluster, seed, console)
    tables, figures = _results(results, chosen, out)
    for table in tables:
        console.print(share_table(table), "")
    page = out / "first-lists.md"
    page.write_text("\n\n".join(table.markdown() for table in tables) + "\n", encoding="utf-8")
    drawn = f"Figures: {', '.join(map(str, figures))}; " if figures else ""
    console.print(f"{drawn}tables: {page}; results: {out / 'rows'}", soft_wrap=True)


def _add_own(
    interactions: Path | None, items: Path | None, at_least: float | None, log: Path | None, test: Path | None
) -> list[str]:
    """Make your own data usable, and return their names among the sources."""
    from thali import datasets
    from thali.lab.sources import add_log, add_source

    names = []
    if interactions is not None:
        add_source(OWN_TABLES, datasets.tables(interactions, items), title=interactions.name, at_least=at_least)
        names.append(OWN_TABLES)
    elif at_least is not None:
        raise ValueError("--at-least can only be used with --interactions")
    if log is not None:
        known = datasets.Log.read(log, items)
        judged = None if test is None else datasets.Log.read(test, items, examined=known.examined)
        add_log(OWN_LOG, known, title=log.name, test=judged)
        names.append(OWN_LOG)
    elif items is not None and interactions is None:
        raise ValueError("--items can only be used with --interactions or --log")
    return names


def _judge(test: Path | None, names: list[str]) -> None:
    """Judge only the people of a file in the format of RankLens, or by default people who are held out."""
    from thali import datasets
    from thali.lab.sources import LOGS

    if "ranklens" in names:
        LOGS["ranklens"] = replace(LOGS["ranklens"], test=None if test is None else datasets.ranklens(test))
    elif test is not None and OWN_LOG not in names:
        raise ValueError(f"--test can only be used with ranklens or --log, got {', '.join(names)}")


def _experiment(
    source: str,
    by: By,
    d: int | None,
    K: int,
    own: tuple[str, ...],
    users: int | None,
    steps: int | None,
    splits: int | None,
    data: Path | None,
) -> Experiment:
    """The experiment on one source."""
    from thali.lab import settings
    from thali.lab.sources import LOGS, most_lists, people_in, people_with_likes, selected

    root = None if data is None else str(data)
    if source in LOGS:
        people, judged = people_in(source, root), LOGS[source].test is not None
        if judged and (users is not None or splits is not None):
            raise ValueError("--users and --splits cannot be used with --test, because all of its people are judged")
        experiment = settings.lists(source, people, 1 if judged else min(20, people), own)
        return changed(_without_topics(experiment, root), users, steps, splits, None, None, None)
    yours = source == OWN_TABLES
    if by is By.model:
        if yours and d is None:
            d = min(settings.first_lists(source).d, max(1, len(selected(source, root).topics)))
        experiment = settings.first_lists(source, d, K, own)
        return changed(experiment, users, steps, splits, None, None, None)
    experiment = settings.likes(source, K, own)
    experiment = replace(
        experiment, d=d or experiment.d, steps=max(1, min(experiment.steps, most_lists(source, root, K)))
    )
    if yours:
        experiment = replace(experiment, users=min(experiment.users, max(5, people_with_likes(source, root) // 2)))
    return changed(_without_topics(experiment, root), users, steps, splits, None, None, None)


def _without_topics(experiment: Experiment, data: str | None) -> Experiment:
    """The same experiment without the policies that need topics, if the data have none."""
    from thali.lab.likes import needs_topics
    from thali.lab.sources import has_topics

    if has_topics(experiment.source, data):
        return experiment
    return replace(experiment, policies=tuple(name for name in experiment.policies if not needs_topics(name)))


def _results(results: Any, chosen: list[Experiment], out: Path) -> tuple[list[Any], list[Path]]:
    """The tables and figures of the experiments."""
    from thali.lab import first_lists, real_people
    from thali.lab.likes import LIKES, LISTS

    shares = [first_lists.Shares.of(results, e.name) for e in chosen if e.clicks not in (LIKES, LISTS)]
    clicked = [real_people.Clicked(results, e.name) for e in chosen if e.clicks == LIKES]
    predicted = [real_people.Predicted(results, e.name) for e in chosen if e.clicks == LISTS]
    every: list[Any] = [*shares, *clicked, *predicted]
    folder = out / "figures"
    figures = [
        first_lists.draw(shares, folder) if shares else None,
        real_people.draw(clicked, folder),
        *(real_people.draw_parts(one, folder) for one in clicked),
    ]
    return [table for one in every for table in one.tables()], [path for path in figures if path is not None]
