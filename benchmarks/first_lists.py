"""Write the tables and figures of docs/first-lists.md and docs/first-lists-tables.md.

python benchmarks/first_lists.py results [docs]

``results`` is a folder of rows that ``thali reproduce first-lists arriving --full`` has written. The second argument is
the folder of the pages to fill in; by default it is docs/ of this repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pages import DOCS, table
from reproduction import fill

from thali.lab.first_lists import ARRIVING, FIRST, Shares, markdown
from thali.lab.ledger import Finding
from thali.lab.report import build, data_label, verdict_of
from thali.lab.results import Results


def parts(results: Results, findings: list[Finding]) -> dict[str, dict[str, str]]:
    """All generated parts, by page and by the name of their marker."""
    first, arriving = Shares.every(results, FIRST), Shares.every(results, ARRIVING)
    return {
        "first-lists.md": {
            "first lists": "\n\n".join(shares.tables()[0].markdown() for shares in first),
            "arriving": "\n\n".join(shares.arrivals().markdown() for shares in arriving),
            "verdicts": verdicts(findings),
        },
        "first-lists-tables.md": {"tables": markdown(first)},
    }


def verdicts(findings: list[Finding]) -> str:
    """The verdicts on the claims about first lists and arriving people."""
    rows = [
        (
            f.claim.number,
            f.claim.statement.removeprefix("(not in the paper) "),
            f.claim.holds_if,
            data_label(f.suite),
            f.measured,
            verdict_of(f),
        )
        for f in findings
        if f.suite.partition("/")[0] in (FIRST, ARRIVING)
    ]
    return table("claim | statement | it holds if | experiments | measured [95% interval] | verdict", rows)


def main() -> None:
    """Fill in both pages."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: python benchmarks/first_lists.py results [docs]")
    folder, docs = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else DOCS
    findings = build(folder).findings
    for page, texts in parts(Results(folder), findings).items():
        fill(docs / page, texts, folder / "figures")


if __name__ == "__main__":
    main()
