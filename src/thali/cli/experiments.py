"""The commands for experiments: reproduce, experiments, run, sweep, robustness and report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thali.cli.tables import AtLeast, DuplicatesOption, MostActiveItems, MostActiveUsers, Separator, Tables
from thali.tools.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.lab.results import Results
    from thali.lab.settings import Experiment

Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder that contains the data sets, such as ml-1m/ "
        "(default: $THALI_DATA; data sets that are not there are downloaded if possible)."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for results, figures and the report.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Number of processes on this machine (default: one per core).")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, such as tcp://host:8786. The tasks then run on its cluster instead of on "
        "this machine."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Users = Annotated[int | None, typer.Option(min=1, help="Number of simulated people (default: as in the experiment).")]
Steps = Annotated[
    int | None, typer.Option(min=2, help="Number of lists shown to each person (default: as in the experiment).")
]
Splits = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of times that the data set's users are split randomly into two halves "
        "(default: as in the experiment).",
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        help="Name of an experiment, as listed by 'thali experiments'. "
        "With --interactions, a name of your choice of the form suite/experiment."
    ),
]
InteractionsTable = Annotated[
    Path | None,
    typer.Option(
        help="Run the experiment on the people of your own table, with columns user, item and value. "
        "If there is no 'value' column, each row counts as 1. Needs --items."
    ),
]
ItemsTable = Annotated[
    Path | None, typer.Option(help="With --interactions: table of all items, with columns item and topics.")
]
Topics = Annotated[
    int | None,
    typer.Option(
        "--d", min=1, help="With --interactions: number of topics, those with the most items (default: all topics)."
    ),
]
Length = Annotated[
    int | None, typer.Option("--K", min=1, help="With --interactions: number of items per list (default: 4).")
]

# The modules that rows need, and those that figures need in addition. They are checked before a command does any work.
ROWS = ("polars",)
FIGURES = (*ROWS, "matplotlib")
# The width that wide tables need, in columns, even if the terminal is narrower.
WIDE = 130


def reproduce(
    suites: Annotated[
        list[str] | None,
        typer.Argument(
            help="Suites or experiments to run, as listed by 'thali experiments' "
            "(default: all suites except tuning and robustness)."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Run at the paper's scale, which takes hours instead of minutes.")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            help="Which exploration parameter α to use: 'practical' (α = 8), 'theory' (the value that the paper's "
            "analysis prescribes), or 'all' (every α that 'thali experiments' lists for the experiment)."
        ),
    ] = "all",
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Run the paper's experiments and check its claims.

    Write figures and a report, and print a verdict on each claim. You can stop with Ctrl-C; the same command then
    resumes where it stopped.

    Example: thali reproduce movielens

    Example: thali reproduce --full --at practical
    """
    require("thali reproduce", "lab", *FIGURES, *workers_need(cluster))
    from rich.console import Console

    from thali.lab.report import build
    from thali.lab.settings import SUITES, at_setting, chosen
    from thali.lab.sources import available
    from thali.lab.terminal import ledger_table

    console = Console()
    experiments = at_setting(chosen(suites or [suite for suite in SUITES if suite not in ("tuning", "robustness")]), at)
    kept, missing = available(experiments, None if data is None else str(data))
    for reason in missing:
        console.print(f"[yellow]left out[/]: {reason}", soft_wrap=True)
    if not kept:
        raise ValueError("nothing to run: no data set of these experiments was found")
    perform(kept if full else [experiment.shrunk() for experiment in kept], data, out, workers, cluster, seed, console)
    console.print("Writing figures and report ...")
    report = build(out)
    console.print(ledger_table(report.findings))
    console.print(f"Report: {report.page}; figures: {out / 'figures'}; results: {out / 'rows'}", soft_wrap=True)


def experiments() -> None:
    """List the available experiments.

    Print a table of all experiments, and then a list of the suites. A suite is a group of experiments.
    """
    from rich.console import Console

    from thali.lab.settings import SUITES
    from thali.lab.terminal import experiments_table

    console = Console(width=max(WIDE, Console().width))
    console.print(experiments_table())
    console.print(
        "\nThe column 'people' shows the number of simulated people, and the number of random splits of the data set "
        "from which they come.\nSuites:"
    )
    for suite, description in SUITES.items():
        console.print(f"  {suite}: {description}", highlight=False)


def run(
    name: Name,
    users: Users = None,
    steps: Steps = None,
    splits: Splits = None,
    policies: Annotated[
        str | None, typer.Option(help="Policies, separated by commas (default: as in the experiment).")
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Values of the exploration parameter α, separated by commas: numbers or 'theory' "
            "(default: as in the experiment)."
        ),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(
            help="Values of the learning rate σ, separated by commas (default: 0.1). Can only be used with --alpha."
        ),
    ] = None,
    interactions: InteractionsTable = None,
    items: ItemsTable = None,
    d: Topics = None,
    K: Length = None,
    separator: Separator = None,
    duplicates: DuplicatesOption = None,
    at_least: AtLeast = None,
    most_active_users: MostActiveUsers = None,
    most_active_items: MostActiveItems = None,
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Run one experiment.

    Options such as --steps replace the settings of the experiment. Print a table of regret, clicks and diversity, and
    store the results as Parquet files. You can stop with Ctrl-C; the same command then resumes where it stopped.

    Example: thali run synthetic/20k --users 4 --steps 1000

    Example: thali run mine/first --interactions clicks.csv --items items.csv
    """
    require("thali run", "lab", *ROWS, *workers_need(cluster))
    from rich.console import Console

    from thali.lab.terminal import outcomes_table

    console = Console(width=max(WIDE, Console().width))
    tables = Tables(interactions, items, separator, duplicates, at_least, most_active_users, most_active_items)
    experiment = changed(_experiment(name, tables, d, K, data), users, steps, splits, policies, alpha, sigma)
    results = perform([experiment], data, out, workers, cluster, seed, console)
    console.print(outcomes_table(results, [experiment.name]))
    console.print(
        f"Results: {out / 'rows' / experiment.name}. To draw figures, run: thali report {out}", soft_wrap=True
    )


def sweep(
    name: Name,
    alpha: Annotated[
        str, typer.Option(help="Values of the exploration parameter α, separated by commas: numbers or 'theory'.")
    ],
    sigma: Annotated[str, typer.Option(help="Values of the learning rate σ, separated by commas.")] = "0.1",
    policies: Annotated[str, typer.Option(help="Policies, separated by commas.")] = "CascadeLSB",
    users: Users = None,
    steps: Steps = None,
    splits: Splits = None,
    interactions: InteractionsTable = None,
    items: ItemsTable = None,
    d: Topics = None,
    K: Length = None,
    separator: Separator = None,
    duplicates: DuplicatesOption = None,
    at_least: AtLeast = None,
    most_active_users: MostActiveUsers = None,
    most_active_items: MostActiveItems = None,
    data: Data = None,
    out: Out = Path("results/sweep"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Compare final regret over a grid of α and σ.

    Run one experiment with each combination of the values of --alpha and --sigma. Print a table for each policy, and
    draw a figure.

    Example: thali sweep synthetic/20k --alpha 1,8,theory --sigma 0.1,1
    """
    require("thali sweep", "lab", *FIGURES, *workers_need(cluster))
    from rich.console import Console

    from thali.lab.figures import sweep as draw
    from thali.lab.terminal import sweep_table
    from thali.policies import POLICIES, optimistic

    console = Console()
    tables = Tables(interactions, items, separator, duplicates, at_least, most_active_users, most_active_items)
    experiment = changed(_experiment(name, tables, d, K, data), users, steps, splits, policies, alpha, sigma)
    without_alpha = [policy for policy in experiment.policies if policy in POLICIES and not optimistic(policy)]
    if without_alpha:
        raise ValueError(f"policies of sweep must have the parameter alpha, got {', '.join(without_alpha)}")
    results = perform([experiment], data, out, workers, cluster, seed, console)
    for policy in experiment.policies:
        console.print(sweep_table(results, experiment, policy))
    console.print(f"Figure: {draw(results, experiment.name, out / 'figures')}", soft_wrap=True)


def robustness(
    source: Annotated[str, typer.Argument(help="Data set, such as movielens, songs-hetrec, yelp-core40 or yelp-hin.")],
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Simulate 50 people of each kind for 5,000 steps each, which takes half an hour instead of a minute.",
        ),
    ] = False,
    d: Annotated[int, typer.Option(min=1, help="Number of topics.")] = 18,
    K: Annotated[int, typer.Option("--K", min=1, help="Number of items per list.")] = 12,
    users: Annotated[
        int | None,
        typer.Option(min=2, help="Number of simulated people of each kind (default: 10, or 50 with --full)."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=10, help="Number of lists shown to each person (default: 500, or 5,000 with --full)."),
    ] = None,
    policies: Annotated[str | None, typer.Option(help="Policies, separated by commas (default: all).")] = None,
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Compare policies on people who click in different ways.

    Run every policy with several kinds of simulated people. For each policy and each kind of person, print the regret
    and the diversity of the lists. Then print which policy is safest. The safest policy is the one that, in its worst
    case, misses the smallest share of the clicks that the best list would get.

    Example: thali robustness movielens --policies CascadeLSB,LSBGreedy
    """
    require("thali robustness", "lab", *FIGURES, *workers_need(cluster))
    from rich.console import Console

    from thali.lab.robustness import Matrix
    from thali.lab.settings import robustness as experiments_on
    from thali.lab.settings import robustness_cell
    from thali.lab.sources import check_source, fitted
    from thali.lab.terminal import robustness_tables

    console = Console(width=max(WIDE, Console().width))
    named = None if policies is None else tuple(part.strip() for part in policies.split(","))
    chosen = [e if full else e.shrunk() for e in experiments_on(check_source(source), d, K, named)]
    chosen = [replace(e, users=users or e.users, steps=steps or e.steps) for e in chosen]
    chosen = [replace(e, splits=min(e.splits, e.users)) for e in chosen]
    results = perform(chosen, data, out, workers, cluster, seed, console)
    matrix = Matrix.of(results, source, named, robustness_cell(d, K))
    for line in matrix.describe_kinds(fitted(source, None if data is None else str(data), d, K)):
        console.print(line, highlight=False)
    for table in robustness_tables(matrix):
        console.print(table)
    console.print(f"\n{matrix.paragraph()}\n", highlight=False)
    page = out / f"robustness-{source}.md"
    page.write_text(matrix.markdown(), encoding="utf-8")
    console.print(f"Figure: {matrix.draw(out / 'figures')}; tables: {page}", soft_wrap=True)


def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of results, written by reproduce, run, sweep, robustness or first-lists.")
    ],
) -> None:
    """Rebuild the report from stored results.

    Rewrite report.html and its figures, and print a verdict on each claim of the paper, without running any experiment.
    """
    require("thali report", "lab", *FIGURES)
    from rich.console import Console

    from thali.lab.report import build
    from thali.lab.runner import installed
    from thali.lab.terminal import ledger_table

    console = Console()
    made = build(folder)
    console.print(ledger_table(made.findings))
    if made.made_by != [installed()]:
        console.print(
            f"The rows were made by thali {', '.join(made.made_by)}. The installed version is {installed()}.",
            soft_wrap=True,
            highlight=False,
        )
    console.print(f"Report: {made.page}; {len(made.pictures)} figures in {folder / 'figures'}", soft_wrap=True)


def workers_need(cluster: str | None) -> tuple[str, ...]:
    """The modules that the workers need in addition."""
    return () if cluster is None else ("distributed",)


def _experiment(name: str, tables: Tables, d: int | None, K: int | None, data: Path | None) -> Experiment:
    """Return the experiment with this name, or a new one with the people of your own tables."""
    from thali.lab.settings import EXPERIMENTS, SUITES, Experiment
    from thali.lab.sources import PUBLISHED, add_source

    if tables.interactions is None:
        tables.refuse("got it without", items=tables.items, d=d, K=K)
        if name not in EXPERIMENTS:
            raise ValueError(
                f"experiment must be a name that 'thali experiments' lists, got {name!r}; to use your own tables, add "
                "--interactions and --items"
            )
        return EXPERIMENTS[name]
    if data is not None:
        raise ValueError(f"--data can only be used without --interactions, got {data}")
    experiment = Experiment(name, name.partition("/")[0], d=1, K=K or 4, steps=2000, users=20)
    if experiment.suite in SUITES or experiment.suite in PUBLISHED:
        raise ValueError(
            f"name must have a suite of your own before the slash, such as mine/first, got {name!r}: thali has its own "
            f"experiments in {experiment.suite!r}"
        )
    read = tables.read()
    add_source(experiment.source, read)
    return replace(experiment, d=d or len(read.topics))


def changed(
    experiment: Experiment,
    users: int | None,
    steps: int | None,
    splits: int | None,
    policies: str | None,
    alpha: str | None,
    sigma: str | None,
) -> Experiment:
    """Return an experiment with the given settings replaced."""
    from thali.lab.settings import setting_of

    if users is not None:
        experiment = replace(experiment, users=users, splits=min(experiment.splits, users))
    if splits is not None:
        experiment = replace(experiment, splits=splits)
    if experiment.splits > experiment.users:
        raise ValueError(f"splits must be at most the number of people ({experiment.users}), got {experiment.splits}")
    if steps is not None:
        experiment = replace(experiment, steps=steps)
    if policies is not None:
        experiment = replace(experiment, policies=tuple(part.strip() for part in policies.split(",")))
    if sigma is not None and alpha is None:
        raise ValueError(f"sigma can only be set together with alpha, got sigma {sigma} without alpha")
    if alpha is not None:
        sigmas = (sigma or "0.1").split(",")
        settings = [setting_of(a.strip(), s.strip()) for s in sigmas for a in alpha.split(",")]
        experiment = replace(experiment, settings=tuple(dict.fromkeys(settings)))
    return experiment


def perform(
    experiments: Sequence[Experiment],
    data: Path | None,
    out: Path,
    workers: int | None,
    cluster: str | None,
    seed: int,
    console: Any,
) -> Results:
    """Run the tasks whose rows are not stored yet, with a progress bar. Return the results of all."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from thali.lab import runner
    from thali.lab.results import Results

    columns = (
        TextColumn("{task.description:40}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    try:
        with (
            runner.cluster(cluster) if cluster is not None else runner.processes(workers) as executor,
            Progress(*columns, console=console, speed_estimate_period=300.0) as bars,
        ):
            bar = bars.add_task("starting", total=None)
            names = runner.run(
                experiments,
                runner.Store(out),
                executor,
                seed=seed,
                data=None if data is None else str(data),
                progress=lambda done, total, last: bars.update(
                    bar, completed=done, total=total, description=last or "starting"
                ),
                notice=lambda sentence: console.print(sentence, soft_wrap=True, highlight=False),
            )
    except KeyboardInterrupt:
        console.print("Stopped. Finished tasks are stored; run the same command again to resume.")
        raise typer.Exit(130) from None
    return Results(out, names)
