"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from thali.lab import first_lists
from thali.lab.compare import Summary
from thali.lab.intervals import mean
from thali.lab.ledger import Finding
from thali.lab.report import data_label, label, regrets, verdict_of
from thali.lab.results import DIVERSITY, Results, scale_label
from thali.lab.robustness import Matrix
from thali.lab.settings import EVERY, EXPERIMENTS, PAPER, Experiment


def _experiment_row(name: str) -> tuple[str, ...]:
    """An experiment as a row: name, data set, d, K, steps, people in splits, policies, α."""
    e = EXPERIMENTS[name]
    named = {PAPER: "the paper's", EVERY: "all"}
    policies = named.get(e.policies, e.policies[0] if len(e.policies) == 1 else f"{len(e.policies)}")
    alphas = dict.fromkeys(s.alpha if isinstance(s.alpha, str) else f"{s.alpha:g}" for s in e.settings)
    people = f"{e.users} in {e.splits}"
    return e.name, data_label(e.source), str(e.d), str(e.K), f"{e.steps:,}", people, policies, " ".join(alphas)


def experiments_table() -> Table:
    """All experiments as a table."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    rows = [_experiment_row(name) for name in EXPERIMENTS]
    for at, name in enumerate(("name", "data set", "d", "K", "steps", "people", "policies", "α")):
        whole = name not in ("data set", "policies")  # these two columns may wrap in a narrow terminal
        width = max(len(row[at]) for row in rows) if whole else 6
        table.add_column(name, justify="right" if name in ("d", "K", "steps") else "left", min_width=width)
    for row in rows:
        table.add_row(*row)
    return table


def demo_table(rows: list[Summary]) -> Table:
    """Summaries as a table."""
    table = Table(
        caption="± one standard error over seeds. Slope: regret per step in the last tenth of the run. Last list: the "
        "most frequent one, and its share of seeds. Optimal: the share of seeds whose last list is as good as the best."
    )
    table.add_column("policy")
    for name in ("final regret", "slope", "last list", "optimal"):
        table.add_column(name, justify="right")
    for row in rows:
        several = row.regret_error == row.regret_error  # NaN for a single seed
        items, share = row.ends_on
        table.add_row(
            row.policy,
            f"{row.regret:.1f}" + (f" ± {row.regret_error:.1f}" if several else ""),
            f"{row.slope:.5f}" + (f" ± {row.slope_error:.5f}" if several else ""),
            f"{', '.join(map(str, items))} ({share:.0%})",
            f"{row.on_best:.0%}",
        )
    return table


def ledger_table(findings: Sequence[Finding]) -> Table:
    """The ledger as a table."""
    colours = {"holds": "green", "does not hold": "red", "not decided": "yellow"}
    table = Table(title="The paper's claims, measured", show_lines=False)
    for name in ("claim", "the paper says", "experiments", "α", "measured [95% interval]", "verdict"):
        table.add_column(name)
    table.caption = "; ".join(dict.fromkeys(f"{data_label(f.suite)}: {f.scale}" for f in findings if f.scale))
    for f in findings:
        verdict = f"[{colours[f.verdict]}]{verdict_of(f)}[/]"
        measured = f.measured.replace("[", r"\[")
        table.add_row(f.claim.number, f.claim.statement, data_label(f.suite), label(f.settings), measured, verdict)
    return table


def outcomes_table(results: Results, names: Sequence[str]) -> Table:
    """Final regret, clicks and diversity as a table."""
    title = "; ".join(f"{name}: {scale_label(results.scales[name])}" for name in names)
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    for heading in ("policy", "α", "final regret [95%]", "clicks per step", *DIVERSITY.values()):
        longest = max((len(policy) for name in names for policy in results.policies(name)), default=0)
        whole = longest if heading == "policy" else 8 if heading == "final regret [95%]" else None
        table.add_column(heading, justify="left" if heading in ("policy", "α") else "right", min_width=whole)
    for suite in dict.fromkeys(name.partition("/")[0] for name in names):
        for name, settings, policy, regret, clicks, diverse in regrets(results, suite):
            if name in names:
                numbers = [f"{regret:,.1f}".replace("[", r"\["), f"{clicks.value:.4f}"]
                table.add_row(policy, label(settings), *numbers, *(f"{diverse[key].value:.3f}" for key in DIVERSITY))
    return table


def robustness_tables(matrix: Matrix) -> list[Table]:
    """Tables by policy and kind of person: final regret with half the width of its interval, and diversity."""
    regret = Table(
        title=f"Final regret ± half its 95% interval ({scale_label(matrix.scale)})",
        caption="Regret compares the list shown with the greedy list that is built with the true click model of the "
        "person. Worst case: the largest share of the best list's click probability that a policy loses with any kind "
        "of person. Policies are sorted by this share.",
    )
    diverse = Table(title="Diversity: intra-list distance over the last tenth of the run")
    for table in (regret, diverse):
        table.box, table.padding = None, (0, 1, 0, 0)
        table.add_column("policy", no_wrap=True)
        for kind in matrix.kinds:
            table.add_column(kind.replace("-", "-\n"), justify="right", no_wrap=True)
    regret.add_column("worst\ncase", justify="right")
    for policy in matrix.policies:
        cells = [matrix.cells[policy, kind] for kind in matrix.kinds]
        regret.add_row(policy, *(c.short for c in cells), f"{matrix.worst(policy)[1].lost.value:.0%}")
        diverse.add_row(policy, *(f"{c.diversity.value:.3f}" for c in cells))
    return [regret, diverse]


def share_table(shares: first_lists.Table) -> Table:
    """A table on the first lists, or on arriving people."""
    table = Table(title=shares.title, box=None, padding=(0, 2, 0, 0))
    table.add_column("policy", no_wrap=True)
    for column in shares.columns:
        table.add_column(column, justify="right")
    for cells in shares.cells():
        table.add_row(*cells)
    return table


def sweep_table(results: Results, experiment: Experiment, policy: str) -> Table:
    """Final regret by α and σ as a table."""
    table = Table(
        title=f"{policy} on {experiment.name} ({scale_label(results.scales[experiment.name])}): final regret [95%]"
    )
    alphas = list(dict.fromkeys(setting.alpha for setting in experiment.settings))
    sigmas = list(dict.fromkeys(setting.sigma for setting in experiment.settings))
    table.add_column("α")
    for sigma in sigmas:
        table.add_column(f"σ = {sigma:g}", justify="right")
    for alpha in alphas:
        cells = []
        for sigma in sigmas:
            setting = next((s for s in experiment.settings if (s.alpha, s.sigma) == (alpha, sigma)), None)
            curve = results.curve(experiment.name, policy, str(setting))
            cells.append("" if curve is None else f"{mean(curve.final, curve.split):,.1f}".replace("[", r"\["))
        table.add_row(str(alpha) if isinstance(alpha, str) else f"{alpha:g}", *cells)
    return table
