"""Write the tables and figures of docs/first-lists.md and docs/first-lists-tables.md.

python benchmarks/first_lists.py results [docs]

``results`` is a folder of rows that ``thali reproduce likes lists first-lists arriving --full`` has written. Parts
without rows stay as they are. The second argument is the folder of the pages to fill in; by default it is docs/ of this
repository.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from pages import DOCS, table
from reproduction import fill

from thali.lab.first_lists import ARRIVING, FIRST, Shares, Table, markdown
from thali.lab.ledger import Finding
from thali.lab.likes import LIKES, LISTS
from thali.lab.real_people import Clicked, Predicted, draw
from thali.lab.report import build, data_label, verdict_of
from thali.lab.results import Results

#: The experiment of the picture in the README.
PICTURE = "likes/movielens-K10"


def parts(results: Results, findings: list[Finding]) -> dict[str, dict[str, str]]:
    """All generated parts, by page and by the name of their marker. Those without rows are empty."""
    first, arriving = Shares.every(results, FIRST), Shares.every(results, ARRIVING)
    clicked, predicted = Clicked.every(results), Predicted.every(results)
    hidden = [one for one in clicked if "-hide-" not in one.name]
    return {
        "first-lists.md": {
            "likes": _joined(one.tables()[0] for one in hidden),
            "difference": _joined(one.tables()[2] for one in hidden if one.name == PICTURE),
            "hide": _joined(one.tables()[0] for one in clicked if one not in hidden),
            "lists": _joined(table for one in predicted for table in one.tables()[:2]),
            "verdicts on real people": verdicts(findings, (LIKES, LISTS)),
        },
        "first-lists-model.md": {
            "first lists": _joined(shares.tables()[0] for shares in first),
            "arriving": _joined(shares.arrivals() for shares in arriving),
            "verdicts": verdicts(findings, (FIRST, ARRIVING)),
        },
        "first-lists-tables.md": {
            "differences": _joined(one.tables()[2] for one in hidden if one.name != PICTURE),
            "tables": markdown(first) if first else "",
        },
    }


def _joined(tables: Iterable[Table]) -> str:
    return "\n\n".join(one.markdown() for one in tables)


def verdicts(findings: list[Finding], suites: tuple[str, ...]) -> str:
    """The verdicts on the claims about these suites; empty if there are none."""
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
        if f.suite.partition("/")[0] in suites
    ]
    header = "claim | statement | it holds if | experiments | measured [95% interval] | verdict"
    return table(header, rows) if rows else ""


def main() -> None:
    """Fill in both pages."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: python benchmarks/first_lists.py results [docs]")
    folder, docs = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else DOCS
    findings, results = build(folder).findings, Results(folder)
    for page, texts in parts(results, findings).items():
        measured = {name: text for name, text in texts.items() if text}
        if measured:
            fill(docs / page, measured, folder / "figures")
    for clicked in Clicked.every(results):
        if clicked.name == PICTURE:  # the picture of the README
            drawn = draw([clicked], folder / "figures", "likes-movielens")
            assert drawn is not None
            drawn = drawn.with_suffix(".png")
            shutil.copy(drawn, docs / "figures" / drawn.name)


if __name__ == "__main__":
    main()
