"""Figures of runs and results, laid out as in the paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thali import theory
from thali.lab.intervals import Estimate, mean
from thali.lab.results import DIVERSITY, Curve, Results, d_and_K, scale_label
from thali.lab.settings import EXPERIMENTS, GROWING, LEARNED_PRIOR, PRACTICAL, PRIOR, STATIC, THEORY, Setting
from thali.lab.simulate import Run
from thali.tools.types import Floats, Integers

# One color per policy in all figures. Together with the labels, color-blind readers can distinguish them too.
COLORS = {
    "CascadeLSB": "#0072b2",
    "LSBGreedy": "#e69f00",
    "CascadeLinUCB": "#cc79a7",
    "CascadeKLUCB": "#555555",
    "CascadeLSB-last-click": "#56b4e9",
    "CascadeLSB-discount": "#d55e00",
    "CascadeLSB-window": "#009e73",
    "CascadeLSB-TS": "#7b3294",
    "DcmKLUCB": "#a6761d",
    "CascadeUCB1": "#999999",
    "RankedUCB1": "#b2182b",
    "RankedKLUCB": "#ef8a62",
    "RankedExp3": "#66a61e",
    "IndependentBandits": "#1b1b1b",
    PRIOR: "#228833",
    LEARNED_PRIOR: "#ff7f00",
    GROWING: "#ff7f00",
    STATIC: "#333333",
    "MostPopular": "#c49c94",
    # The names in the figure of real likes.
    "thali.fit": "#0072b2",
    "EASE": "#d55e00",
    "CascadeLSB, as in the paper": "#cc79a7",
    "popular items": "#555555",
}
#: The colors of bars, which differ for color-blind readers.
BARS = ("#0072b2", "#e69f00", "#009e73")
# For all other policies, such as your own: colors that differ from those above and from each other, also for
# color-blind readers. No two of the first twenty policies have both the same color and the same dashes.
OTHER_COLORS = ("#7800ff", "#004b00", "#b45aff", "#000096", "#3c004b")
DASHES = ("--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
MARKERS = ("s", "^", "D", "v", "P", "X", "*")
# The maximum number of panels in a row.
MAX_COLUMNS = 5


@dataclass(frozen=True)
class Look:
    """How a policy is drawn: the color, the dashes of its line, and the marker of its points."""

    color: str
    dashes: Any = "-"
    marker: str = "o"


def looks(policies: Iterable[str]) -> dict[str, Look]:
    """How to draw each of these policies. Those without a color in COLORS are numbered in the order of their names."""
    others = sorted(set(policies) - set(COLORS))
    return {name: Look(color) for name, color in COLORS.items()} | {
        name: Look(
            OTHER_COLORS[at % len(OTHER_COLORS)], dashes=DASHES[at % len(DASHES)], marker=MARKERS[at % len(MARKERS)]
        )
        for at, name in enumerate(others)
    }


def regret_figure(runs: dict[str, Run], path: Path, title: str) -> None:
    """Plot mean regret by step with 95% bands, one labeled line per policy. The file's suffix sets the format."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    ends = []
    look = looks(runs)
    for name, run in runs.items():
        ends.append(_line(axes, name, look[name], run.steps, run.regret, np.zeros(len(run.regret))))
    _style(axes)
    axes.set(xlabel="step n", ylabel="cumulative regret R(n)", title=title, xlim=(0, run.steps[-1]), ylim=(0, None))
    _label_ends(axes, ends)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def grid(results: Results, suite: str, settings: str, folder: Path) -> Path | None:
    """Plot regret by step for every experiment of a suite.

    If the experiments are named by d and K, and both vary, there is a row per d and a column per K. Otherwise the
    panels fill the rows one after another.
    """
    names = [name for name in results.experiments(f"{suite}/") if _curves(results, name, settings)]
    if not names:
        return None
    look = looks(results.all_policies)
    sizes = [d_and_K(name) for name in names]
    rows, columns = sorted({d for d, _ in sizes}), sorted({K for _, K in sizes})
    by_size = len(set(sizes)) == len(sizes) and all(d and K for d, K in sizes)
    flat = not by_size or len(rows) == 1 or len(columns) == 1
    across = len(names) if len(names) <= MAX_COLUMNS else MAX_COLUMNS - 1
    shape = (-(-len(names) // across), across) if flat else (len(rows), len(columns))
    plt = _pyplot()
    figure, grid = plt.subplots(
        *shape, figsize=(3.1 * shape[1] + 0.6, 2.5 * shape[0] + 0.5), layout="constrained", squeeze=False
    )
    for at, (name, (d, K)) in enumerate(zip(names, sizes, strict=True)):
        axes = grid[divmod(at, across)] if flat else grid[rows.index(d), columns.index(K)]
        curves = _curves(results, name, settings)
        for curve in curves:
            _line(axes, curve.policy, look[curve.policy], curve.steps, curve.regret, curve.split)
        _style(axes)
        title = f"d={d}, K={K}" if by_size else short_name(curves[0])
        axes.set(title=title, xlim=(0, curves[0].n), ylim=(0, _height(curves)))
        _label_cut_curves(axes, curves, look)
    for axes in grid[-1]:
        axes.set_xlabel("step n")
    for axes in grid[:, 0]:
        axes.set_ylabel("regret R(n)")
    for axes in grid.flat[len(names) :] if flat else ():
        axes.set_visible(False)
    _legend(figure, grid.flat, ncols=4)
    return _save(figure, folder, _file(suite, settings))


def diversity(results: Results, suite: str, settings: str, folder: Path) -> Path | None:
    """Plot the diversity of the lists in the last tenth of the run: one panel per measure, experiments side by side."""
    names = [name for name in results.experiments(f"{suite}/") if _curves(results, name, settings)]
    if not names:
        return None
    look = looks(results.all_policies)
    plt = _pyplot()
    figure, panels = plt.subplots(1, len(DIVERSITY), figsize=(3.4 * len(DIVERSITY), 3.0), layout="constrained")
    for axes, (measure, title) in zip(panels, DIVERSITY.items(), strict=True):
        for at, name in enumerate(names):
            curves = _curves(results, name, settings)
            for place, curve in enumerate(curves):
                late = curve.diversity[measure][:, -max(1, len(curve.steps) // 10) :].mean(axis=1)
                estimate = mean(late, curve.split)
                axes.errorbar(
                    at + (place - (len(curves) - 1) / 2) * min(0.17, 0.8 / len(curves)),
                    estimate.value,
                    yerr=[[_gap(estimate.value, estimate.low)], [_gap(estimate.high, estimate.value)]],
                    fmt=look[curve.policy].marker,
                    markersize=4,
                    color=look[curve.policy].color,
                    label=curve.policy,
                )
        _style(axes, thousands=False)
        axes.set(title=title, ylim=(0, None))
        labels = [short_name(_curves(results, name, settings)[0]).replace("-", "\n") for name in names]
        axes.set_xticks(range(len(names)), labels, fontsize=8)
    _legend(figure, panels[:1])
    return _save(figure, folder, f"{_file(suite, settings)}-diversity")


def sweep(results: Results, experiment: str, folder: Path) -> Path | None:
    """Plot final regret by α, one line per policy and σ.

    The theoretical α comes last, because it differs between policies and is not a single value.
    """
    settings = results.settings(experiment)
    if len(settings) < 2:
        return None
    look = looks(results.all_policies)
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.5, 4.0), layout="constrained")
    sigmas = list(dict.fromkeys(text.split("sigma=")[1] for text in settings))
    alphas = list(dict.fromkeys(text.split()[0].replace("alpha=", "") for text in settings))
    for policy in results.policies(experiment):
        for sigma, style in zip(sigmas, ("-", "--", ":", "-.") * len(sigmas), strict=False):
            points = []
            for at, alpha in enumerate(alphas):
                curve = results.curve(experiment, policy, f"alpha={alpha} sigma={sigma}")
                if curve is not None:
                    points.append((at, mean(curve.final, curve.split)))
            if points:
                x = [at for at, _ in points]
                label = policy if len(sigmas) == 1 else f"{policy}, σ={sigma}"
                (line,) = axes.plot(
                    x, [estimate.value for _, estimate in points], style, marker=look[policy].marker, markersize=3,
                    color=look[policy].color, label=label,
                )  # fmt: skip
                low, high = [estimate.low for _, estimate in points], [estimate.high for _, estimate in points]
                axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    _style(axes)
    title = f"{experiment}: {scale_label(results.scales[experiment])}"
    axes.set(title=title, xlabel="α", ylabel="final regret", yscale="log")
    axes.set_xticks(range(len(alphas)), alphas)
    axes.legend(frameon=False, fontsize=8)
    return _save(figure, folder, f"{experiment.replace('/', '-')}-sweep")


def bounds(results: Results, folder: Path) -> Path | None:
    """Plot Theorem 2: regret by n with its bound, and final regret by K with √K for comparison."""
    names = results.experiments("theory/")
    if not names or results.curve(names[0], "CascadeLSB", str(THEORY)) is None:
        return None
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.0), layout="constrained")
    shades = plt.get_cmap("viridis")(np.linspace(0.1, 0.85, len(names)))
    for name, color in zip(names, shades, strict=True):
        curve = results.curve(name, "CascadeLSB", str(THEORY))
        assert curve is not None
        d, K, sigma = EXPERIMENTS[name].d, d_and_K(name)[1], THEORY.sigma
        gamma, alpha = float(np.median(curve.gamma)), theory.optimism(d, K, curve.n, sigma)
        bound = [theory.regret_bound(d, K, int(n), sigma, alpha, gamma) for n in curve.steps]
        left.plot(curve.steps, curve.regret.mean(axis=0), color=color, label=f"K={K}")
        left.plot(curve.steps, bound, color=color, linestyle="--", linewidth=1)
        steps = curve.steps
    left.plot(steps, steps, color="#999999", linestyle=":", label="n (every click lost)")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="step n",
        ylabel="regret",
        title="R(n) with γ=1 (solid), bound on R^γ(n) (dashed)",
    )
    left.legend(frameon=False, fontsize=8)
    for setting, color in ((PRACTICAL, "#0072b2"), (THEORY, "#d55e00"), (Setting("theory", 1.0), "#009e73")):
        curves = [(d_and_K(name)[1], results.curve(name, "CascadeLSB", str(setting))) for name in names]
        finals = [(K, mean(curve.final, curve.split)) for K, curve in curves if curve is not None]
        if finals:
            right.errorbar(
                [K for K, _ in finals],
                [e.value for _, e in finals],
                yerr=[[_gap(e.value, e.low) for _, e in finals], [_gap(e.high, e.value) for _, e in finals]],
                marker="o",
                markersize=4,
                color=color,
                label=str(setting).replace("alpha", "α").replace("sigma", "σ"),
            )
            lengths = np.array([K for K, _ in finals])
            root = finals[0][1].value * np.sqrt(lengths / lengths[0])
            right.plot(lengths, root, color=color, linestyle=":", linewidth=1)
    right.set(xscale="log", yscale="log", xlabel="K", ylabel="final regret", title="Growth with K (dotted: √K)")
    right.set_xticks([d_and_K(name)[1] for name in names], [str(d_and_K(name)[1]) for name in names])
    right.minorticks_off()
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    return _save(figure, folder, "theory")


class Line(NamedTuple):
    """A policy in a panel: its name, and its numbers with their intervals at each x."""

    policy: str
    x: Sequence[float]
    y: Sequence[Estimate]


def share_panels(
    panels: Sequence[tuple[str, Sequence[Line]]],
    folder: Path,
    name: str,
    *,
    xlabel: str,
    log: bool,
    ylabel: str = "share of the best list's clicks (%)",
) -> Path:
    """Draw shares in percent, with a titled panel for each experiment, two in a row."""
    look = looks({line.policy for _, lines in panels for line in lines})
    plt = _pyplot()
    columns = min(2, len(panels))
    shape = (-(-len(panels) // columns), columns)
    figure, grid = plt.subplots(
        *shape, figsize=(5.2 * shape[1], 3.4 * shape[0] + 0.6), layout="constrained", squeeze=False, sharey=True
    )
    for axes, (title, lines) in zip(grid.flat, panels, strict=False):
        for line in lines:
            color, low, high = look[line.policy].color, [e.low for e in line.y], [e.high for e in line.y]
            axes.plot(
                line.x, [e.value for e in line.y], color=color, linestyle=look[line.policy].dashes, label=line.policy
            )
            axes.fill_between(line.x, low, high, color=color, alpha=0.2, linewidth=0)
        if log:
            axes.set_xscale("log")
        _style(axes)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(title=title, xlabel=xlabel)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    _legend(figure, grid.flat, ncols=3)
    return _save(figure, folder, name)


def bars(
    names: Sequence[str],
    values: Mapping[str, Sequence[Estimate]],
    folder: Path,
    name: str,
    *,
    title: str,
    xlabel: str,
) -> Path:
    """Draw horizontal bars with their intervals: one group for each name, with a bar for each entry of values."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.6, 0.42 * len(names) + 1.4), layout="constrained")
    height = 0.8 / len(values)
    for at, (label, estimates) in enumerate(values.items()):
        y = [row + (at - (len(values) - 1) / 2) * height for row in range(len(names))]
        off = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
        axes.barh(y, [e.value for e in estimates], height, color=BARS[at], label=label, xerr=off, ecolor="#555555")
    _style(axes, thousands=False)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(0.0, color="#555555", linewidth=0.8)
    axes.set(title=title, xlabel=f"{xlabel} (percentage points)")
    _legend(figure, [axes])
    return _save(figure, folder, name)


def heatmaps(
    panels: Sequence[tuple[str, Floats, Sequence[Sequence[str]], str]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    folder: Path,
    name: str,
) -> Path:
    """Draw matrices side by side. Each panel is (title, values for the colors, text in the cells, color scale).

    The color scale is "log" or "linear".
    """
    plt = _pyplot()
    from matplotlib.colors import LogNorm, Normalize

    size = (1.2 + 0.95 * len(columns) * len(panels) + 1.6, 1.6 + 0.28 * len(rows))
    figure, grid = plt.subplots(1, len(panels), figsize=size, layout="constrained", sharey=True)
    for axes, (heading, values, written, colors) in zip(np.atleast_1d(grid), panels, strict=True):
        low, high = float(values.min()), float(values.max())
        log = colors == "log"
        floor = max(low, 1e-3 * high, 1e-9)
        norm = LogNorm(floor, max(high, 2.0 * floor), clip=True) if log else Normalize(low, high)
        axes.imshow(values, norm=norm, cmap="viridis_r" if log else "viridis", aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            dark = float(norm(max(value, floor))) > 0.5 if log else float(norm(value)) < 0.5
            ink = "white" if dark else "black"
            axes.text(j, i, written[i][j], ha="center", va="center", fontsize=7.5, color=ink)
        axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right", rotation_mode="anchor", fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        axes.set_title(heading, fontsize=10)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    figure.suptitle(title, fontsize=11)
    return _save(figure, folder, name)


def _curves(results: Results, experiment: str, settings: str) -> list[Curve]:
    """The curves of all policies at these settings, CascadeLSB first; empty if the experiment has only others."""
    all_curves = [results.curve(experiment, policy, settings) for policy in results.policies(experiment)]
    curves = sorted((curve for curve in all_curves if curve is not None), key=lambda curve: order(curve.policy))
    return curves if any(curve.settings for curve in curves) or not results.settings(experiment) else []


def short_name(curve: Curve) -> str:
    """The name of an experiment without its suite. If it states a number of steps, this is the number actually run."""
    name = curve.experiment.partition("/")[2]
    return f"{curve.n:,} steps" if re.fullmatch(r"\d+[kM]", name) else name


def order(policy: str) -> tuple[int, str]:
    """The sort key of policies in all figures and tables: the paper's policies come first, in its order."""
    known = list(COLORS)
    return (known.index(policy) if policy in known else len(known), policy)


def _line(axes: Any, name: str, look: Look, steps: Integers, regret: Floats, split: Any) -> tuple[float, str, str]:
    """Plot a mean with its band; returns the last value, the name and the color."""
    means = [mean(column, split) for column in regret.T]
    axes.plot(steps, [e.value for e in means], color=look.color, linestyle=look.dashes, label=name, linewidth=1.8)
    axes.fill_between(steps, [e.low for e in means], [e.high for e in means], color=look.color, alpha=0.2, linewidth=0)
    return means[-1].value, name, look.color


def _legend(figure: Any, panels: Iterable[Any], *, ncols: int | None = None) -> None:
    """Add one legend for all panels. A policy that is in several of them is listed once."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = min(ncols or len(handles), len(handles))
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=columns, frameon=False)


def _label_ends(axes: Any, ends: Iterable[tuple[float, str, str]]) -> None:
    """Write names at the ends of the lines, and move a name up if it would overlap with another."""
    height, lowest = axes.get_ylim()[1], 0.0
    for end, name, color in sorted(ends, key=lambda entry: entry[0]):
        at = max(end, lowest)
        axes.text(1.01, at / height, name, transform=axes.transAxes, va="center", color=color, fontsize=9)
        lowest = at + 0.045 * height


def _height(curves: list[Curve]) -> float:
    """The top of an axis.

    Policies that are far worse than the others (at most half of all) are cut off, so that the other curves are
    easy to distinguish.
    """
    finals = sorted((float(curve.final.mean()) for curve in curves), reverse=True)
    far = [at for at in range(1, len(finals) // 2 + 1) if at < len(finals) and finals[at - 1] > 2.5 * finals[at]]
    cut = max(far, default=0)
    return (1.15 + 0.08 * max(0, cut - 1)) * finals[cut] or 1.0


def _label_cut_curves(axes: Any, curves: list[Curve], look: dict[str, Look]) -> None:
    top = axes.get_ylim()[1]
    cut = [curve for curve in curves if float(curve.final.mean()) > top]
    for at, curve in enumerate(cut):
        axes.text(
            0.98, 0.97 - 0.09 * at, f"{curve.policy}: {float(curve.final.mean()):,.0f} ↑", transform=axes.transAxes,
            ha="right", va="top", fontsize=7, color=look[curve.policy].color,
        )  # fmt: skip


def _gap(high: float, low: float) -> float:
    return max(0.0, high - low) if high == high and low == low else 0.0


def _style(axes: Any, *, thousands: bool = True) -> None:
    if thousands:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value < 1e5 else f"{value / 1e6:g}M")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)


def _file(suite: str, settings: str) -> str:
    """The name of a figure's file, without its suffix."""
    return "-".join(filter(None, (suite, settings.replace(" ", "-").replace("=", "-"))))


def _save(figure: Any, folder: Path, name: str) -> Path:
    """Save as PNG and SVG; returns the path of the SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=130)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    _pyplot().close(figure)
    return folder / f"{name}.svg"


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "thali"  # makes SVG files reproducible
    import matplotlib.pyplot as plt

    return plt
