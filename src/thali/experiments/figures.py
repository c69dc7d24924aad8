"""Pictures of runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thali.experiments.compare import standard_error
from thali.simulate import Run

# One colour a policy, everywhere; chosen to differ for colour-blind readers too.
COLOURS = {"CascadeLSB": "#0072b2", "LSBGreedy": "#e69f00", "CascadeLinUCB": "#cc79a7", "CascadeKLUCB": "#555555"}
# 95% of a normal distribution.
BAND = 1.96


def regret_figure(runs: dict[str, Run], path: Path, title: str) -> None:
    """Mean regret against steps with its 95% band, one line a policy, labelled at its end; format by the suffix."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    ends: list[tuple[float, str, object]] = []
    for name, run in runs.items():
        mean = run.regret.mean(axis=0)
        half = BAND * np.array([standard_error(column) for column in run.regret.T])
        (line,) = axes.plot(run.steps, mean, color=COLOURS.get(name), label=name, linewidth=1.8)
        axes.fill_between(run.steps, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
        ends.append((float(mean[-1]), name, line.get_color()))
    axes.set(xlabel="step n", ylabel="cumulative regret R(n)", title=title, xlim=(0, run.steps[-1]), ylim=(0, None))
    # Names at the ends of the lines, pushed up where they would cover one another.
    height, lowest = axes.get_ylim()[1], 0.0
    for end, name, colour in sorted(ends, key=lambda entry: entry[0]):
        at = max(end, lowest)
        axes.text(1.01, at / height, name, transform=axes.transAxes, va="center", color=colour, fontsize=9)
        lowest = at + 0.045 * height
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    figure.savefig(path, dpi=150)
    plt.close(figure)
