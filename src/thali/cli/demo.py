"""``thali demo``: the paper's synthetic experiment, or a web page with ``--web``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from thali.cli import page
from thali.tools.extras import require

# Options that can only be used with --web, and those that can only be used without it.
PAGE_OPTIONS = {"port", "items", "data"}
EXPERIMENT_OPTIONS = {"steps", "seeds", "seed", "alpha", "sigma", "out"}


def demo(
    context: typer.Context,
    web: Annotated[bool, typer.Option("--web", help="Serve a web page instead of running the experiment.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="With --web: port of the page.")] = 8000,
    items: Annotated[
        page.Items,
        typer.Option(
            help="With --web: items to show. 'auto' shows films if MovieLens 1M is found, and otherwise dishes."
        ),
    ] = page.Items.auto,
    data: Annotated[
        Path | None,
        typer.Option(help="With --web: folder that contains MovieLens 1M as ml-1m/ (default: $THALI_DATA)."),
    ] = None,
    steps: Annotated[int, typer.Option(min=2, help="Number of lists shown to each person.")] = 20_000,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of simulated people, each with different random clicks.")
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    alpha: Annotated[
        str | None,
        typer.Option(help="Exploration parameter α of the linear policies: a number, or 'theory' (default: 0.8/σ)."),
    ] = None,
    sigma: Annotated[float, typer.Option(help="Learning rate σ of the linear policies.")] = 0.1,
    out: Annotated[Path, typer.Option(help="File for the figure: .png, .svg or .pdf.")] = Path("demo.png"),
) -> None:
    """Run a small experiment, or try thali in the browser.

    Without --web, run the paper's synthetic experiment. Four policies learn the same taste, with lists of 2 out of 53
    items. Print a table, and draw the regret of each policy.

    With --web, serve a web page. There you click items and see what thali learns about your taste, or watch how it
    learns the tastes of simulated people.

    Example: thali demo --steps 2000

    Example: thali demo --web
    """
    given = {name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")}
    misplaced = given & (EXPERIMENT_OPTIONS if web else PAGE_OPTIONS)
    if misplaced:
        raise ValueError(f"--{min(misplaced)} can only be used {'without' if web else 'with'} --web")
    if web:
        page.serve_page(items, data, port)
        return
    require("thali demo", "lab", "matplotlib")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from thali.lab.compare import compare, policies_for, summarize
    from thali.lab.figures import regret_figure
    from thali.lab.problems import synthetic
    from thali.lab.terminal import demo_table

    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"out must end in .png, .svg or .pdf, got {out}")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise ValueError(f"out must be in a folder that you can write to, got {out}")
    console = Console()
    problem = synthetic(users=seeds)
    policies = policies_for(problem, alpha=_alpha(alpha), sigma=sigma, horizon=steps)
    best = problem.model.best_lists(problem.K)[0].tolist()
    console.print(
        f"Synthetic experiment: L=53, d=3, K=2, θ*=(0.6, 0.4, 0), {steps:,} steps, {seeds} seeds. "
        f"Best list: items {best[0]} and {best[1]}, counted from 0."
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
    console.print(demo_table([summarize(name, run) for name, run in runs.items()]))
    regret_figure(runs, out, f"The paper's synthetic problem, {seeds} seeds")
    console.print(f"Figure: {out}")


def _alpha(text: str | None) -> float | str | None:
    """Return a number if the text is one, else the text unchanged. The policy checks it."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
