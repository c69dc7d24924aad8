"""The commands for experiments: reproduce, experiments, run, sweep, robustness and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.lab.results import Results
    from thali.lab.settings import Experiment

Data = Annotated[
    Path | None,
    typer.Option(help="The folder that holds the data sets (ml-1m/, ...); $THALI_DATA, else fetched, by default."),
]
Out = Annotated[Path, typer.Option(help="The folder of results: rows, figures, report.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes on this machine; one a core by default.")]
Cluster = Annotated[str | None, typer.Option(help="The scheduler of a Dask cluster, such as tcp://host:8786.")]
Seed = Annotated[int, typer.Option(min=0, help="From which splits, people and luck follow.")]

# Columns that wide tables need, whatever the width of the terminal.
WIDE = 130


def reproduce(
    suites: Annotated[
        list[str] | None,
        typer.Argument(help="Suites or names of 'thali experiments'; all but tuning and robustness if none."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="At the paper's scale: hours instead of minutes.")] = False,
    at: Annotated[str, typer.Option(help="The optimism: practical, theory, or all that the experiments have.")] = "all",
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Run the paper's experiments and judge its claims. Stop with Ctrl-C and run again to go on where it stopped."""
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
        raise ValueError("nothing to run: the data sets asked for are not there")
    _perform(kept if full else [experiment.shrunk() for experiment in kept], data, out, workers, cluster, seed, console)
    console.print("Drawing figures and report ...")
    report = build(out)
    console.print(ledger_table(report.findings))
    console.print(f"Report: {report.page}; figures: {out / 'figures'}; rows: {out / 'rows'}", soft_wrap=True)


def experiments() -> None:
    """What experiments there are, as a table."""
    from rich.console import Console

    from thali.lab.settings import SUITES
    from thali.lab.terminal import experiments_table

    console = Console(width=max(WIDE, Console().width))
    console.print(experiments_table())
    console.print("\nPeople: how many, in how many random splits. Suites:")
    for suite, description in SUITES.items():
        console.print(f"  {suite}: {description}", highlight=False)


def run(
    name: Annotated[str, typer.Argument(help="An experiment, as 'thali experiments' lists it.")],
    users: Annotated[int | None, typer.Option(min=1, help="People.")] = None,
    steps: Annotated[int | None, typer.Option(min=2, help="Lists shown to each person.")] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Random splits of the users into halves.")] = None,
    policies: Annotated[str | None, typer.Option(help="Policies, divided by commas.")] = None,
    alpha: Annotated[str | None, typer.Option(help="Optimism α: numbers or 'theory', divided by commas.")] = None,
    sigma: Annotated[str | None, typer.Option(help="Learning rate σ, with --alpha: numbers divided by commas.")] = None,
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Run one experiment, as it is or changed; a table of regret, clicks and diversity, and its rows as Parquet."""
    from rich.console import Console

    from thali.lab.terminal import outcomes_table

    console = Console(width=max(WIDE, Console().width))
    experiment = _changed(name, users, steps, splits, policies, alpha, sigma)
    results = _perform([experiment], data, out, workers, cluster, seed, console)
    console.print(outcomes_table(results, [experiment.name]))
    console.print(f"Rows: {out / 'rows' / experiment.name}; figures: thali report {out}", soft_wrap=True)


def sweep(
    name: Annotated[str, typer.Argument(help="An experiment, as 'thali experiments' lists it.")],
    alpha: Annotated[str, typer.Option(help="Optimism α: numbers or 'theory', divided by commas.")],
    sigma: Annotated[str, typer.Option(help="Learning rates σ, divided by commas.")] = "0.1",
    policies: Annotated[str, typer.Option(help="Policies, divided by commas.")] = "CascadeLSB",
    users: Annotated[int | None, typer.Option(min=1, help="People.")] = None,
    steps: Annotated[int | None, typer.Option(min=2, help="Lists shown to each person.")] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Random splits of the users into halves.")] = None,
    data: Data = None,
    out: Out = Path("results/sweep"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Final regret over a grid of α and σ: a table and a figure."""
    from rich.console import Console

    from thali.lab.figures import sweep as draw
    from thali.lab.terminal import sweep_table
    from thali.policies import POLICIES, optimistic

    console = Console()
    experiment = _changed(name, users, steps, splits, policies, alpha, sigma)
    without_alpha = [policy for policy in experiment.policies if policy in POLICIES and not optimistic(policy)]
    if without_alpha:
        raise ValueError(f"policies of sweep must have an α, got {', '.join(without_alpha)}")
    results = _perform([experiment], data, out, workers, cluster, seed, console)
    for policy in experiment.policies:
        console.print(sweep_table(results, experiment, policy))
    console.print(f"Figure: {draw(results, experiment.name, out / 'figures')}", soft_wrap=True)


def robustness(
    source: Annotated[str, typer.Argument(help="A data set: movielens, songs-hetrec, yelp-core40, yelp-hin, ...")],
    full: Annotated[
        bool, typer.Option("--full", help="50 people and 5,000 steps: half an hour, not a minute.")
    ] = False,
    d: Annotated[int, typer.Option(min=1, help="Topics.")] = 18,
    K: Annotated[int, typer.Option("--K", min=1, help="Items a list.")] = 12,
    users: Annotated[int | None, typer.Option(min=2, help="People of each kind.")] = None,
    steps: Annotated[int | None, typer.Option(min=10, help="Lists shown to each person.")] = None,
    policies: Annotated[str | None, typer.Option(help="Policies, divided by commas; all if none.")] = None,
    data: Data = None,
    out: Out = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    seed: Seed = 0,
) -> None:
    """Every policy against people who click otherwise: what each loses, how diverse it is, and which is safest."""
    from dataclasses import replace

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
    results = _perform(chosen, data, out, workers, cluster, seed, console)
    matrix = Matrix.of(results, source, named, robustness_cell(d, K))
    for line in matrix.describe_kinds(fitted(source, None if data is None else str(data), d, K)):
        console.print(line, highlight=False)
    for table in robustness_tables(matrix):
        console.print(table)
    console.print(f"\n{matrix.paragraph()}\n", highlight=False)
    page = out / f"robustness-{source}.md"
    page.write_text(matrix.markdown(), encoding="utf-8")
    console.print(f"Figure: {matrix.draw(out / 'figures')}; tables: {page}", soft_wrap=True)


def report(folder: Annotated[Path, typer.Argument(help="A folder of results, from reproduce, run or sweep.")]) -> None:
    """Rebuild figures, ledger and report.html from stored rows."""
    from rich.console import Console

    from thali.lab.report import build
    from thali.lab.terminal import ledger_table

    console = Console()
    made = build(folder)
    console.print(ledger_table(made.findings))
    console.print(f"Report: {made.page}; {len(made.pictures)} figures in {folder / 'figures'}", soft_wrap=True)


def _changed(
    name: str,
    users: int | None,
    steps: int | None,
    splits: int | None,
    policies: str | None,
    alpha: str | None,
    sigma: str | None,
) -> Experiment:
    """Return an experiment with the given settings changed."""
    from dataclasses import replace

    from thali.lab.settings import EXPERIMENTS, setting_of

    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be a name that 'thali experiments' lists, got {name!r}")
    experiment = EXPERIMENTS[name]
    if users is not None:
        experiment = replace(experiment, users=users, splits=min(experiment.splits, users))
    if splits is not None:
        experiment = replace(experiment, splits=splits)
    if experiment.splits > experiment.users:
        raise ValueError(f"splits must be at most the {experiment.users} people, got {experiment.splits}")
    if steps is not None:
        experiment = replace(experiment, steps=steps)
    if policies is not None:
        experiment = replace(experiment, policies=tuple(part.strip() for part in policies.split(",")))
    if sigma is not None and alpha is None:
        raise ValueError(f"sigma must come with alpha, as the width goes with their product, got sigma {sigma} alone")
    if alpha is not None:
        sigmas = (sigma or "0.1").split(",")
        settings = [setting_of(a.strip(), s.strip()) for s in sigmas for a in alpha.split(",")]
        experiment = replace(experiment, settings=tuple(dict.fromkeys(settings)))
    return experiment


def _perform(
    experiments: Sequence[Experiment],
    data: Path | None,
    out: Path,
    workers: int | None,
    cluster: str | None,
    seed: int,
    console: Any,
) -> Results:
    """Run what is not stored yet, with a progress bar; return the results."""
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
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    try:
        with (
            runner.cluster(cluster) if cluster is not None else runner.processes(workers) as executor,
            Progress(*columns, console=console, speed_estimate_period=300.0) as bars,
        ):
            bar = bars.add_task("starting", total=None)
            runner.run(
                experiments,
                runner.Store(out),
                executor,
                seed=seed,
                data=None if data is None else str(data),
                progress=lambda done, total, last: bars.update(
                    bar, completed=done, total=total, description=last or "starting"
                ),
            )
    except KeyboardInterrupt:
        console.print("Stopped. What was finished is stored: run the same command again to go on.")
        raise typer.Exit(130) from None
    return Results(out, experiments, seed=seed)
