"""Write the tables and figures of a full reproduction into docs/: python benchmarks/reproduction.py results [docs].

``results`` is a folder of rows that ``thali reproduce --full`` and ``thali robustness movielens --full`` have written.
The second argument is the folder of the pages to fill in; by default it is docs/ of this repository. The script
replaces the text between the markers ``<!-- name -->`` and ``<!-- end -->`` in each page of ``parts``, and copies the
figures that these pages show.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pages import DOCS, replaced

from thali.lab.first_lists import ARRIVING, FIRST
from thali.lab.ledger import Finding
from thali.lab.report import build, data_label, label, markdown, regrets, table_1
from thali.lab.results import DIVERSITY, Results, scale_label
from thali.lab.robustness import Matrix
from thali.lab.settings import SUITES

#: The suites that docs/robustness.md is about.
ROBUSTNESS = ("ranked", "several-clicks", "drift")
#: The suites of docs/first-lists.md, which benchmarks/first_lists.py fills in.
FIRST_LISTS = (FIRST, ARRIVING)
#: The suites of docs/reproduction.md that have a table of numbers.
PAPER = tuple(
    s for s in SUITES if s not in ("approximation", "optimism", "robustness", "tuning", *ROBUSTNESS, *FIRST_LISTS)
)


def parts(results: Results, findings: list[Finding]) -> dict[str, dict[str, str]]:
    """All generated parts, by page and by the name of their marker."""
    findings = [finding for finding in findings if finding.suite.partition("/")[0] not in FIRST_LISTS]
    matrix = Matrix.of(results, "movielens")
    return {
        "reproduction.md": {"summary": summary(results, findings), "table 1": approximation(results)},
        "claims.md": {"ledger": markdown(findings)},
        "results.md": {"numbers": numbers(results, PAPER)},
        "robustness.md": {"safest": matrix.paragraph()},
        "robustness-tables.md": {"matrix": matrix.tables(), "numbers": numbers(results, ROBUSTNESS)},
    }


def summary(results: Results, findings: list[Finding]) -> str:
    """How often each verdict was given, and the scale at which each suite was run."""
    tally = Counter(finding.verdict for finding in findings)
    lines = [
        f'There are {len(findings)} verdicts on {len({f.claim.number for f in findings})} claims: "holds" in '
        f'{tally["holds"]} cases, "does not hold" in {tally["does not hold"]} cases, and "not decided" in '
        f"{tally['not decided']} cases.",
        "",
        "| suite | what it shows | scale |",
        "| --- | --- | --- |",
    ]
    for suite, title in SUITES.items():
        scales = sorted({scale_label(results.scales[name]) for name in results.experiments(f"{suite}/")})
        if scales and suite not in FIRST_LISTS:
            lines.append(f"| {suite} | {title} | {'; '.join(scales)} |")
    return "\n".join(lines)


def approximation(results: Results) -> str:
    """The ratios of the paper's Table 1 next to the measured ones."""
    lines = [
        "| K | paper, mean ratio | measured, mean ratio | greedy list is optimal for | lowest ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for K, paper, measured, optimal, lowest in table_1(results):
        lines.append(f"| {K} | {paper:.4f} | {measured:.4f} | {optimal:.0%} of people | {lowest:.4f} |")
    return "\n".join(lines)


def numbers(results: Results, suites: Iterable[str]) -> str:
    """Final regret, clicks and diversity in every experiment of these suites."""
    lines = [f"| data | experiment | α | policy | final regret | clicks per step | {' | '.join(DIVERSITY.values())} |"]
    lines.append("| --- " * (6 + len(DIVERSITY)) + "|")
    for suite in suites:
        for name, settings, policy, regret, clicks, diverse in regrets(results, suite):
            measures = " | ".join(f"{diverse[key].value:.3f}" for key in DIVERSITY)
            lines.append(
                f"| {data_label(suite)} | {name.partition('/')[2]} | {label(settings)} | {policy} | {regret:,.1f} | "
                f"{clicks.value:.4f} | {measures} |"
            )
    return "\n".join(lines)


def wrapped(text: str) -> str:
    """Break lines of more than 120 characters, except those of tables."""
    wrapper = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if line.startswith("|") else wrapper.fill(line) for line in text.splitlines())


def fill(page: Path, texts: dict[str, str], figures: Path) -> None:
    """Write each text between its markers in a page, and copy the figures that the page shows from a folder."""
    content = page.read_text(encoding="utf-8")
    for name, text in texts.items():
        content = replaced(content, name, wrapped(text.strip()))
    shown = re.findall(r"\(figures/([^)]+\.png)\)", content)
    missing = [name for name in shown if not (figures / name).exists()]
    if missing:
        raise FileNotFoundError(f"{figures} must contain the figures that {page.name} shows, but lacks {missing[0]}")
    page.write_text(content, encoding="utf-8")
    for name in shown:
        (page.parent / "figures").mkdir(exist_ok=True)
        shutil.copy(figures / name, page.parent / "figures" / name)


def main() -> None:
    """Fill in all pages."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: python benchmarks/reproduction.py results [docs]")
    folder, docs = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else DOCS
    findings = build(folder).findings
    for page, texts in parts(Results(folder), findings).items():
        fill(docs / page, texts, folder / "figures")


if __name__ == "__main__":
    main()
