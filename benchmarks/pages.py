"""Tables in Markdown, and the pages of the documentation that they are written to.

In a page, a measured table is between two markers: ``<!-- name -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def add_docs_option(options: argparse.ArgumentParser) -> None:
    """Add the option ``--docs``, which names the folder of the pages."""
    options.add_argument("--docs", type=Path, default=DOCS, help="Folder of the pages to update (default: docs).")


def table(header: str, rows: Sequence[tuple[object, ...]]) -> str:
    """Return a table in Markdown. The columns of header are separated by " | "."""
    columns = header.split(" | ")
    lines = [f"| {header} |", "|---" * len(columns) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def write(page: Path, name: str, text: str) -> None:
    """Replace the text between the markers of this name in a page."""
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def replaced(content: str, name: str, text: str) -> str:
    """Return the content of a page with another text between the markers of this name."""
    before, _, after = _split(content, name)
    return f"{before}{text}\n{after}"


def rows(page: Path, name: str) -> list[list[str]]:
    """Return the cells of the table between the markers of this name, row by row, without the header."""
    _, text, _ = _split(page.read_text(encoding="utf-8"), name)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _split(content: str, name: str) -> tuple[str, str, str]:
    """Return a page in three parts: up to the first marker, between the markers, and from the second marker on."""
    marker = f"<!-- {name} -->\n"
    if content.count(marker) != 1:
        raise ValueError(f"the page must contain the marker {marker.strip()} once, got {content.count(marker)}")
    before, _, after = content.partition(marker)
    end = after.index("<!-- end -->")
    return before + marker, after[:end], after[end:]
