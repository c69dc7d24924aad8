"""The command ``thali``: thin, so that ``--help`` answers at once; each command imports what it needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

try:
    import typer
except ImportError:  # the commands are part of the lab
    sys.exit("The command thali needs the extra 'lab': in a clone of thali, pip install '.[lab]'")

if TYPE_CHECKING:
    from thali.experiments.compare import Summary

app = typer.Typer(
    name="thali",
    help="Learns, click by click, which diverse list of items to show each person.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point; a wrong setting is a sentence, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"thali: {error}")


@app.callback(invoke_without_command=True)
def thali(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    """Learns, click by click, which diverse list of items to show each person."""
    if version:
        from importlib.metadata import version as installed

        print(installed("thali"))
        raise typer.Exit


@app.command()
def demo(
    steps: Annotated[int, typer.Option(min=2, help="Lists shown to each person.")] = 20_000,
    seeds: Annotated[int, typer.Option(min=1, help="People with the same preferences, each with their own luck.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="From which all luck follows.")] = 0,
    alpha: Annotated[
        str | None, typer.Option(help="Optimism α of the linear policies: a number or 'theory'; 0.8/σ if not given.")
    ] = None,
    sigma: Annotated[float, typer.Option(help="Learning rate σ of the linear policies.")] = 0.1,
    out: Annotated[Path, typer.Option(help="Where the figure goes; its suffix says the format.")] = Path("demo.png"),
) -> None:
    """The paper's synthetic experiment: four policies, 53 items, one person's taste; a table and a regret figure."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from thali.experiments.compare import compare, policies_for, summarize
    from thali.experiments.figures import regret_figure
    from thali.experiments.problems import synthetic

    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"out must end in .png, .svg or .pdf, got {out}")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise ValueError(f"out must be in a folder that can be written, got {out}")
    console = Console()
    problem = synthetic(users=seeds)
    policies = policies_for(problem, alpha=_alpha(alpha), sigma=sigma, horizon=steps)
    best = problem.model.best_lists(problem.K)[0].tolist()
    console.print(
        f"Synthetic experiment: L=53, d=3, K=2, θ*=(0.6, 0.4, 0), {steps:,} steps, {seeds} seeds. "
        f"Best list: {tuple(best)}, counted from 0."
    )
    with Progress(
        TextColumn("{task.description:13}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    ) as bars:
        tasks = {name: bars.add_task(name, total=steps) for name in policies}
        runs = compare(
            problem,
            policies,
            steps=steps,
            seed=seed,
            progress=lambda name, made: bars.advance(tasks[name], made),
        )
    console.print(_table([summarize(name, run) for name, run in runs.items()]))
    regret_figure(runs, out, f"The paper's synthetic problem, {seeds} seeds")
    console.print(f"Figure: {out}")


def _alpha(text: str | None) -> float | str | None:
    """A number where it reads as one, else as given (the policy says what it takes)."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _table(rows: list[Summary]) -> object:
    """Summaries as a table for the terminal."""
    from rich.table import Table

    table = Table(
        caption="± one standard error over seeds. Slope: regret a step in the last tenth. Ends on: the most frequent "
        "last list and its share of seeds. Best list: share of seeds whose last list loses nothing."
    )
    table.add_column("policy")
    for name in ("final regret", "slope", "ends on", "best list"):
        table.add_column(name, justify="right")
    for row in rows:
        several = row.regret_error == row.regret_error  # not of a single seed
        items, share = row.ends_on
        table.add_row(
            row.policy,
            f"{row.regret:.1f}" + (f" ± {row.regret_error:.1f}" if several else ""),
            f"{row.slope:.5f}" + (f" ± {row.slope_error:.5f}" if several else ""),
            f"{', '.join(map(str, items))} ({share:.0%})",
            f"{row.on_best:.0%}",
        )
    return table
