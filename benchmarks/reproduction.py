"""Put the figures and the ledger of a full reproduction into docs/: python benchmarks/reproduction.py results.

What stands between the markers in docs/reproduction.md and docs/robustness.md is written by this script, and the
figures beside them are copies.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from thali.lab.ledger import Finding
from thali.lab.report import build, data_label, label, markdown, regrets, table_1
from thali.lab.results import DIVERSITY, Results
from thali.lab.robustness import Matrix
from thali.lab.settings import SUITES

DOCS = Path(__file__).parent.parent / "docs"


def summary(results: Results, findings: list[Finding]) -> str:
    """How many findings hold, and at which scale each suite was run."""
    tally = Counter(finding.verdict for finding in findings)
    said = ", ".join(f"{tally[verdict]} {verdict}" for verdict in ("holds", "does not hold", "not decided"))
    lines = [f"{len(findings)} findings on {len({f.claim.number for f in findings})} claims: {said}.", ""]
    lines += ["| experiments | scale |", "| --- | --- |"]
    for suite, told in SUITES.items():
        scales = sorted({results.scales[name] for name in results.experiments(f"{suite}/")})
        if scales:
            lines.append(f"| {suite}: {told} | {'; '.join(scales)} |")
    return "\n".join(lines)


def approximation(results: Results) -> str:
    """The paper's Table 1 beside ours."""
    lines = ["| K | the paper | measured | people with the optimum | least |", "| --- | --- | --- | --- | --- |"]
    for K, paper, found, exact, least in table_1(results):
        lines.append(f"| {K} | {paper:.4f} | {found:.4f} | {exact:.0%} | {least:.4f} |")
    return "\n".join(lines)


#: Groups that docs/robustness.md is about.
OURS = ("ranked", "several-clicks", "drift")


def numbers(results: Results, suites: Iterable[str]) -> str:
    """Final regret, clicks and diversity of every cell of these suites."""
    lines = [f"| data | cell | at | policy | final regret | clicks a step | {' | '.join(DIVERSITY.values())} |"]
    lines.append("| --- " * (6 + len(DIVERSITY)) + "|")
    for suite in suites:
        for name, settings, policy, regret, clicks, diverse in regrets(results, suite):
            measures = " | ".join(f"{diverse[key].value:.3f}" for key in DIVERSITY)
            lines.append(
                f"| {data_label(suite)} | {name.partition('/')[2]} | {label(settings)} | {policy} | {regret:,.1f} | "
                f"{clicks.value:.4f} | {measures} |"
            )
    return "\n".join(lines)


def fill(page: Path, parts: dict[str, str], folder: Path) -> None:
    """Write parts between their markers, and copy the figures that the page shows."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        if text.count(begin) != 1:
            raise ValueError(f"{page} must have one place for {name}, got {text.count(begin)}")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{part.strip()}\n{end}{rest.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")
    for used in re.findall(r"\(figures/([^)]+\.png)\)", text):
        (DOCS / "figures").mkdir(exist_ok=True)
        shutil.copy(folder / "figures" / used, DOCS / "figures" / used)


def main() -> None:
    """Fill in both pages."""
    folder = Path(sys.argv[1])
    results, findings = Results(folder), build(folder).findings
    paper = [suite for suite in SUITES if suite not in ("approximation", "optimism", "robustness", "tuning", *OURS)]
    fill(
        DOCS / "reproduction.md",
        {
            "summary": summary(results, findings),
            "table 1": approximation(results),
            "ledger": markdown(findings),
            "numbers": numbers(results, paper),
        },
        folder,
    )
    ours = [f for f in findings if f.suite.partition("/")[0] in (*OURS, "robustness")]
    fill(
        DOCS / "robustness.md",
        {
            "matrix": Matrix.of(results, "movielens").markdown(),
            "findings": markdown(ours),
            "numbers": numbers(results, OURS),
        },
        folder,
    )


if __name__ == "__main__":
    main()
