"""Build the figures, the ledger, and one HTML page that contains both, from stored rows."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from thali.lab import figures, first_lists, real_people
from thali.lab.claims import CLAIMS
from thali.lab.evidence import reached
from thali.lab.first_lists import ARRIVING, FIRST, Shares
from thali.lab.intervals import Estimate, mean, mean_fraction
from thali.lab.ledger import Finding, ledger
from thali.lab.likes import LIKES, LISTS
from thali.lab.real_people import Clicked, Predicted
from thali.lab.results import DIVERSITY, Results, d_and_K, scale_label
from thali.lab.robustness import Matrix
from thali.lab.runner import installed
from thali.lab.settings import PRACTICAL, SUITES, THEORY
from thali.lab.sources import LOGS, SOURCES
from thali.lab.verdicts import Verdict

LABELS = {PRACTICAL: f"practical α = {PRACTICAL.alpha:g}", THEORY: "theoretical α"}
#: Table 1 of the paper.
TABLE_1 = {1: 1.0000, 2: 0.9926, 3: 0.9997, 4: 0.9986}
#: What the experiments of a suite are about, after the name of their data set.
SHORT = {FIRST: "first lists", ARRIVING: "arriving people", LIKES: "real likes", LISTS: "real lists"}
MARKS = {"holds": "✓", "does not hold": "✗", "not decided": "?"}
#: The color of each verdict on the page: the name of a CSS class.
KINDS: dict[Verdict, str] = {"holds": "holds", "does not hold": "fails", "not decided": "open"}


@dataclass(frozen=True)
class Report:
    """The HTML page, the verdicts and the figures that were built."""

    page: Path
    findings: list[Finding]
    pictures: list[Path]
    made_by: list[str]
    """The versions of thali that made the rows, with digests of their code."""


def build(folder: Path) -> Report:
    """Build the figures (SVG and PNG), ledger.md and report.html from the rows in a folder.

    Cost: seconds per figure.
    """
    results = Results(folder)
    findings = ledger(results)
    pictures: dict[str, list[tuple[str, Path]]] = {}
    target = folder / "figures"

    def add(suite: str, label: str, path: Path | None) -> None:
        if path is not None:
            pictures.setdefault(suite, []).append((label, path))

    for suite in suites(results):
        if suite in ("approximation", "theory", "optimism", "robustness", "tuning", *SHORT):
            continue
        drawn = {settings: label(settings) or "policies without α" for settings in _drawn(results, suite)}
        for settings, text in drawn.items():
            add(suite, text, figures.grid(results, suite, settings, target))
        for settings, text in drawn.items():
            add(suite, f"diversity, {text}", figures.diversity(results, suite, settings, target))
    for matrix in Matrix.every(results):
        add("robustness", data_label(matrix.source), matrix.draw(target))
    add("theory", "bound and growth", figures.bounds(results, target))
    if shares := Shares.every(results, FIRST):
        add(FIRST, "share of the best list's clicks so far", first_lists.draw(shares, target))
    if shares := Shares.every(results, ARRIVING):
        add(ARRIVING, "share of the best list's clicks over time", first_lists.draw_arriving(shares, target))
    if clicked := Clicked.every(results):
        add(LIKES, "lists with a click", real_people.draw(clicked, target))
        for one in clicked:
            add(LIKES, f"parts, {one.title}", real_people.draw_parts(one, target))
    for name in results.scales:
        swept = len(results.settings(name)) > 2 and not name.startswith("theory/")
        if swept:
            add(name.partition("/")[0], name, figures.sweep(results, name, target))
    (folder / "ledger.md").write_text(markdown(findings), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(_page(results, findings, pictures), encoding="utf-8")
    return Report(page, findings, [path for entries in pictures.values() for _, path in entries], results.made_by)


def suites(results: Results) -> list[str]:
    """The suites that have rows: thali's own in their order, then yours."""
    found = {name.partition("/")[0] for name in results.scales}
    return [suite for suite in SUITES if suite in found] + sorted(found - set(SUITES))


def _drawn(results: Results, suite: str) -> list[str]:
    """The settings at which the curves of a suite are drawn; other settings of an experiment with a sweep are not."""
    names = results.experiments(f"{suite}/")
    usual = [str(setting) for setting in LABELS]
    found = [settings for name in names for settings in results.settings(name)]
    few = [s for name in names if len(results.settings(name)) <= 2 for s in results.settings(name)]
    return [s for s in usual if s in found] + [s for s in dict.fromkeys(few) if s not in usual] if found else [""]


def label(settings: str) -> str:
    """Settings as text for readers."""
    for setting, text in LABELS.items():
        if settings == str(setting):
            return text
    text = settings.replace("alpha=theory", "theoretical α").replace("alpha=", "α = ")
    return text.replace(" sigma=", ", σ = ")


def data_label(suite: str) -> str:
    """The name of the data set of a suite, or the suite's own name if it has none."""
    if suite.startswith("optimism/"):
        return f"{data_label(suite.removeprefix('optimism/').removesuffix('-d'))}, sweep of α"
    name, _, rest = suite.partition("/")
    rest = rest.rpartition("-K")[0] or rest
    known = {source: found.title for source, found in SOURCES.items()}
    known |= {source: found.title for source, found in LOGS.items()}
    if name in SHORT and rest in known:
        return f"{known[rest]}, {SHORT[name]}"
    return SOURCES[name].title if name in SOURCES else suite


def markdown(findings: list[Finding]) -> str:
    """The ledger as a Markdown table."""
    lines = [
        "| claim | § | the paper says | it holds if | experiments | α | scale | measured [95% interval] | verdict | "
        "holds in the sweep at α |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for f in findings:
        condition, measured, verdict = (t.replace("|", "\\|") for t in (f.claim.holds_if, f.measured, verdict_of(f)))
        lines.append(
            f"| {f.claim.number} | {f.claim.section} | {f.claim.statement} | {condition} | "
            f"{data_label(f.suite)} | {label(f.settings)} | {f.scale} | {measured} | {verdict} | {f.swept} |"
        )
    return "\n".join(lines) + "\n"


def counted(findings: list[Finding]) -> list[tuple[Verdict, int, str]]:
    """For each verdict: how many findings have it, and the words that follow this number."""
    tally = Counter(finding.verdict for finding in findings)
    plural: dict[Verdict, str] = {"holds": "hold", "does not hold": "do not hold", "not decided": "not decided"}
    return [(v, tally[v], v if tally[v] == 1 else words) for v, words in plural.items()]


def verdict_of(finding: Finding) -> str:
    """The verdict as text, with its reason if there is one."""
    reason = f": {finding.reason}" if finding.reason else ""
    return f"{MARKS[finding.verdict]} {finding.verdict}{reason}"


def regrets(results: Results, suite: str) -> list[tuple[str, str, str, Estimate, Estimate, dict[str, Estimate]]]:
    """For every experiment, setting and policy: final regret, clicks per step, and diversity over the last tenth."""
    rows = []
    for (name, policy, settings), curve in results.curves.items():
        if name.partition("/")[0] != suite:
            continue
        late = max(1, len(curve.steps) // 10)
        rows.append(
            (
                name,
                settings,
                policy,
                mean(curve.final, curve.split),
                mean(curve.clicks[:, -1] / curve.n, curve.split),
                {key: mean(values[:, -late:].mean(axis=1), curve.split) for key, values in curve.diversity.items()},
            )
        )
    return sorted(rows, key=lambda row: (d_and_K(row[0]), row[1] or "~", figures.order(row[2])))


def table_1(results: Results) -> list[tuple[int, float, Estimate, float, float]]:
    """For each K: the paper's ratio, ours, the share of people whose greedy list is optimal, and the lowest ratio."""
    rows = []
    for name in results.experiments("approximation/"):
        curve = results.curve(name, "Greedy", "")
        if curve is not None:
            K, shares = d_and_K(name)[1], reached(curve)
            exact = float(np.mean(shares >= 1.0 - 1e-12))
            rows.append((K, TABLE_1[K], mean_fraction(shares, curve.split), exact, float(shares.min())))
    return rows


# The page.

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #667; --paper: #fff; --card: #f6f7f9; --line: #dde;
  --good: #0a7d4f; --bad: #b3261e; --open: #8a6d00; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #9aa3ad; --paper: #14171a; --card: #1e2226;
  --line: #333a41; --good: #4cc38a; --bad: #ff8a80; --open: #e6c35c; --accent: #6cb8e6; } }
* { box-sizing: border-box; } body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
main { max-width: 1180px; margin: 0 auto; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 2rem; margin: 0 0 .3rem; } h2 { margin: 2.6rem 0 .6rem; font-size: 1.35rem; }
p.lead { color: var(--soft); margin: 0 0 1.4rem; max-width: 48rem; }
.tally { display: flex; gap: .8rem; flex-wrap: wrap; } .tally div { background: var(--card); border-radius: 12px;
  padding: .8rem 1.2rem; min-width: 9rem; } .tally b { display: block; font-size: 1.9rem; line-height: 1.1; }
.holds { color: var(--good); } .fails { color: var(--bad); } .open { color: var(--open); }
nav { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--line); padding: .5rem 0;
  margin: 1.5rem 0 0; display: flex; gap: 1rem; flex-wrap: wrap; font-size: .9rem; z-index: 2; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.tabs { margin: .6rem 0 0; } .tabs > input { position: absolute; opacity: 0; }
.tabs > label { display: inline-block; padding: .3rem .8rem; border-radius: 999px; cursor: pointer; font-size: .9rem;
  color: var(--soft); border: 1px solid var(--line); margin: 0 .3rem .5rem 0; }
.tabs > input:checked + label { background: var(--accent); border-color: var(--accent); color: var(--paper); }
.tabs > input:focus-visible + label { outline: 3px solid var(--accent); outline-offset: 2px; }
.tabs > figure { display: none; } figure { margin: 0; background: #fff; border: 1px solid var(--line);
  border-radius: 12px; padding: .6rem; } figure img { width: 100%; display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .87rem; }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
td small { color: var(--soft); display: block; } details { margin: .8rem 0; } summary { cursor: pointer;
  color: var(--accent); } .chip { white-space: nowrap; font-weight: 600; }
code { background: var(--card); padding: .1rem .35rem; border-radius: 5px; font-size: .9em; }
"""


def _page(results: Results, findings: list[Finding], pictures: dict[str, list[tuple[str, Path]]]) -> str:
    tally = "".join(f'<div class="{KINDS[v]}"><b>{count}</b>{words}</div>' for v, count, words in counted(findings))
    missing = [claim.number for claim in CLAIMS if claim.number not in {f.claim.number for f in findings}]
    shown = suites(results)
    sections = "".join(_section(results, suite, pictures.get(suite, []), findings) for suite in shown)
    links = " ".join(f'<a href="#{suite}">{escape(suite)}</a>' for suite in shown)
    seeds = ", ".join(map(str, sorted(results.rows["seed"].unique().to_list())))
    unmeasured = f"<p>Not measured, because there are no rows: {', '.join(missing)}.</p>" if missing else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>thali: the paper, reproduced</title><style>{_STYLE}</style></head><body><main>
<h1>The paper, reproduced</h1>
<p class="lead">Every table and figure of <em>Online Diverse Learning to Rank from Partial-Click Feedback</em>, and
every sentence of it that can be true or false, measured by thali {escape(", ".join(results.made_by))} with seed
{escape(seeds)}. Each verdict is computed from the rows in this page's folder. All intervals are 95% intervals over
people and random splits.</p>
<div class="tally">{tally}</div>
<nav><a href="#ledger">ledger</a> {links}</nav>
{sections}
<section id="ledger"><h2>Ledger of claims</h2>
<p>Each claim gets one verdict for each group of experiments and each value of α. An experiment is one combination of
data, d and K. A claim about several experiments or policies has several checks. It holds if every check holds, which
means that the whole 95% interval satisfies the condition. It does not hold if at least one check fails, which means
that its whole joint interval violates the condition. Otherwise it is not decided. The table shows one check per verdict
and says how many checks agree with it. Of these checks, it shows the one whose number is the least favorable to the
claim.</p>
<p>If a claim has m checks, the joint interval of each has a level of 1 - 0.05/m (Bonferroni). A true claim then gets
the verdict "does not hold" with a probability of at most 5%, however many checks it has. "Holds" needs no such
correction, because all checks must hold. There is no correction for the number of verdicts. Intervals take into account
which people and splits were drawn from the selected users, but not which users were selected.</p>
<p>The practical α was chosen for CascadeLSB and is used for all policies that have an α. The last column shows at which
values of α the claim holds when one experiment is repeated with many values of α (a sweep). The exponent p means that
regret grows like n^p. 2^p is the regret added in the second half of the run, divided by the regret added in the second
quarter.</p>
{_ledger(findings)}{unmeasured}</section>
<section><h2>How this page was made</h2><p><code>thali reproduce</code> wrote the rows, and
<code>thali report {escape(results.folder.name)}/</code> created the figures and this page from them, with thali
{installed()}. Bands and error bars are 95% Student intervals over random splits of the users, or over people if there
is only one split. Regret is the expected number of clicks lost compared with the greedy list that is built with the
true click model. That list is not always the best one, so regret can be negative.</p></section>
</main></body></html>
"""


def _section(results: Results, suite: str, pictures: list[tuple[str, Path]], findings: list[Finding]) -> str:
    scales = "; ".join(sorted({scale_label(results.scales[name]) for name in results.experiments(f"{suite}/")}))
    own = [f for f in findings if f.suite.partition("/")[0] == suite]
    verdicts = ", ".join(f"{count} {words}" for _, count, words in counted(own) if count)
    number = "1 verdict" if len(own) == 1 else f"{len(own)} verdicts"
    body = "".join(f"<p>{escape(m.paragraph())}</p>" for m in Matrix.every(results)) if suite == "robustness" else ""
    body += _tabs(suite, pictures)
    if suite in SHORT:
        body += _shares(results, suite)
    if suite in (LIKES, LISTS):  # they have no regret
        numbers = ""
    else:
        numbers = _approximation(results) if suite == "approximation" else _numbers(results, suite)
    body += numbers
    claims = f"<details><summary>{number}: {escape(verdicts)}</summary>{_ledger(own)}</details>" if own else ""
    title = SUITES.get(suite, suite)
    return f'<section id="{suite}"><h2>{escape(title)}</h2><p>{escape(scales)}.</p>{body}{claims}</section>'


def _tabs(suite: str, pictures: list[tuple[str, Path]]) -> str:
    """Figures in tabs, without JavaScript."""
    if not pictures:
        return ""
    rules, tabs, shown = [], [], []
    for at, (name, path) in enumerate(pictures):
        key = f"{suite}-{at}"
        rules.append(f"#{key}:checked ~ .{key} {{ display: block; }}")
        checked = " checked" if at == 0 else ""
        tabs.append(f'<input type="radio" name="{suite}" id="{key}"{checked}><label for="{key}">{escape(name)}</label>')
        image = b64encode(path.read_bytes()).decode()
        shown.append(
            f'<figure class="{key}"><img alt="{escape(SUITES.get(suite, suite))}: {escape(name)}" '
            f'src="data:image/svg+xml;base64,{image}"></figure>'
        )
    return f'<style>{"".join(rules)}</style><div class="tabs">{"".join(tabs)}{"".join(shown)}</div>'


def _approximation(results: Results) -> str:
    rows = "".join(
        f'<tr><td>{K}</td><td class="n">{paper:.4f}</td><td class="n">{ours:.4f}</td><td class="n">{exact:.0%}</td>'
        f'<td class="n">{least:.4f}</td></tr>'
        for K, paper, ours, exact, least in table_1(results)
    )
    return (
        "<div class='scroll'><table><tr><th>K</th><th>paper, mean ratio</th><th>measured, mean ratio</th>"
        f"<th>greedy list is optimal for</th><th>lowest ratio</th></tr>{rows}</table></div>"
    )


def _shares(results: Results, suite: str) -> str:
    """The tables of experiments about first lists. Only the first one of each experiment is open."""
    tables = []
    for found in _tables(results, suite):
        for at, table in enumerate(found):
            heads = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
            rows = "".join(
                f"<tr><td>{escape(policy)}</td>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
                for policy, *cells in table.cells()
            )
            opened = "" if at else " open"
            tables.append(
                f"<details{opened}><summary>{escape(table.title)}</summary><div class='scroll'><table><tr>"
                f"<th>policy</th>{heads}</tr>{rows}</table></div></details>"
            )
    return "".join(tables)


def _tables(results: Results, suite: str) -> list[list[first_lists.Table]]:
    """The tables of each experiment of a suite about first lists."""
    if suite == LIKES:
        return [clicked.tables() for clicked in Clicked.every(results)]
    if suite == LISTS:
        return [predicted.tables() for predicted in Predicted.every(results)]
    shares = Shares.every(results, suite)
    return [one.tables() if suite == FIRST else [one.arrivals()] for one in shares]


def _numbers(results: Results, suite: str) -> str:
    rows = "".join(
        f"<tr><td>{escape(name.partition('/')[2])}</td><td>{escape(label(settings))}</td><td>{escape(policy)}</td>"
        f'<td class="n">{regret:,.1f}</td><td class="n">{clicks:.4f}</td>'
        + "".join(f'<td class="n">{diverse[key].value:.3f}</td>' for key in DIVERSITY)
        + "</tr>"
        for name, settings, policy, regret, clicks, diverse in regrets(results, suite)
    )
    heads = "".join(f"<th>{escape(title)}</th>" for title in DIVERSITY.values())
    return (
        "<details><summary>numbers</summary><div class='scroll'><table><tr><th>experiment</th><th>α</th><th>policy</th>"
        f"<th>final regret</th><th>clicks per step</th>{heads}</tr>{rows}</table></div></details>"
    )


def _ledger(findings: list[Finding]) -> str:
    rows = "".join(
        f"<tr><td>{f.claim.number}</td><td>{escape(f.claim.statement)}<small>§ {escape(f.claim.section)}; it holds if: "
        f"{escape(f.claim.holds_if)}</small></td><td>{escape(data_label(f.suite))}<small>{escape(label(f.settings))}"
        f"</small><small>{escape(f.scale)}</small></td><td>{escape(f.measured)}</td>"
        f'<td><span class="chip {KINDS[f.verdict]}">{MARKS[f.verdict]} {f.verdict}</span>'
        f"<small>{escape(f.reason)}</small></td>"
        f"<td>{escape(f.swept)}</td></tr>"
        for f in findings
    )
    return (
        "<div class='scroll'><table><tr><th>claim</th><th>the paper says</th><th>experiments</th>"
        f"<th>measured [95% interval]</th><th>verdict</th><th>holds in the sweep at α</th></tr>{rows}</table></div>"
    )
