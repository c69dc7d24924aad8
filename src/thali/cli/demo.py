"""``thali demo``: the paper's synthetic experiment, or with ``--web`` a web page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from thali.cli import page

# Options that need --web.
WEB = {"port", "items", "data"}


def demo(
    context: typer.Context,
    web: Annotated[bool, typer.Option("--web", help="Serve a page instead, on which you see it learn.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="With --web: the port of the page.")] = 8000,
    items: Annotated[
        page.Items, typer.Option(help="With --web: what lists are made of; auto is films where MovieLens is there.")
    ] = page.Items.auto,
    data: Annotated[
        Path | None, typer.Option(help="With --web: the folder that holds MovieLens' ml-1m/; $THALI_DATA by default.")
    ] = None,
    steps: Annotated[int, typer.Option(min=2, help="Lists shown to each person.")] = 20_000,
    seeds: Annotated[int, typer.Option(min=1, help="People with the same preferences, each with their own luck.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="From which all luck follows.")] = 0,
    alpha: Annotated[
        str | None, typer.Option(help="Optimism α of the linear policies: a number or 'theory'; 0.8/σ if not given.")
    ] = None,
    sigma: Annotated[float, typer.Option(help="Learning rate σ of the linear policies.")] = 0.1,
    out: Annotated[Path, typer.Option(help="Where the figure goes; its suffix says the format.")] = Path("demo.png"),
) -> None:
    """The paper's synthetic experiment: four policies, 53 items, one person's taste; a table and a regret figure.

    With --web: a page on which you click and it learns, and on which you watch simulated people.
    """
    given = {name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")}
    misplaced = given & {"steps", "seeds", "seed", "alpha", "sigma", "out"} if web else given & WEB
    if misplaced:
        raise ValueError(f"--{min(misplaced)} must come {'without' if web else 'with'} --web")
    if web:
        page.serve_page(items, data, port)
        return
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
    console.print(demo_table([summarize(name, run) for name, run in runs.items()]))
    regret_figure(runs, out, f"The paper's synthetic problem, {seeds} seeds")
    console.print(f"Figure: {out}")


def _alpha(text: str | None) -> float | str | None:
    """Parse a number if possible, else return the text unchanged (the policy validates it)."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
