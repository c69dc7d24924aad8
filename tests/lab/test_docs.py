"""The pages that benchmarks/reproduction.py and first_lists.py fill in: they have the words of the code, and a place
for each part.
"""

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from thali.lab.claims import CLAIMS
from thali.lab.report import markdown
from thali.lab.settings import SUITES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load(name):
    sys.path.insert(0, str(ROOT / "benchmarks"))  # as for a script that is run: it imports pages
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(ROOT / "benchmarks"))
    return module


@pytest.fixture(scope="module")
def script():
    return load("reproduction")


def table(page, name):
    """The rows of the table between two markers of a page, as lists of cells, without the header."""
    [part] = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end -->", (DOCS / page).read_text(), re.DOTALL)
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return lines[0], [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_claims_in_the_docs_have_the_words_of_the_code():
    header, rows = table("claims.md", "ledger")
    assert header == markdown([]).splitlines()[0]
    claims = {claim.number: claim for claim in CLAIMS}
    more = [*table("first-lists.md", "verdicts on real people")[1], *table("first-lists-model.md", "verdicts")[1]]
    assert {row[0] for row in (*rows, *more)} == set(claims)
    assert {row[0] for row in rows}.isdisjoint(row[0] for row in more)
    for number, statement, holds_if, *_ in more:
        assert (f"(not in the paper) {statement}", holds_if) == (claims[number].statement, claims[number].holds_if)
    for number, section, statement, holds_if, *_ in rows:
        claim = claims[number]
        assert (section, statement, holds_if) == (claim.section, claim.statement, claim.holds_if)


def test_suites_in_the_docs_have_the_titles_of_the_code():
    _, rows = table("reproduction.md", "summary")
    assert len(rows) > 10
    for suite, title, _ in rows:
        assert title == SUITES[suite]


def test_the_summary_counts_the_verdicts_of_the_ledger():
    _, rows = table("claims.md", "ledger")
    verdicts = Counter(re.match(r"[✓✗?] ([a-z ]+)", row[8])[1] for row in rows)
    summary = " ".join((DOCS / "reproduction.md").read_text().split())
    assert f"There are {len(rows)} verdicts on {len({row[0] for row in rows})} claims" in summary
    for verdict, count in verdicts.items():
        assert f'"{verdict}" in {count} cases' in summary


def test_every_part_has_a_place_in_its_page(script, monkeypatch):
    class Empty:
        """A matrix without rows."""

        paragraph = tables = staticmethod(lambda: "")

    monkeypatch.setattr(script.Matrix, "of", lambda results, source: Empty)
    for name in ("summary", "approximation", "numbers"):
        monkeypatch.setattr(script, name, lambda *_: "")
    parts = script.parts(None, [])
    for page, texts in parts.items():
        assert re.findall(r"<!-- (?!end)(.*?) -->", (DOCS / page).read_text()) == list(texts)
    marked = {page.name for page in DOCS.glob("*.md") if "<!-- end -->" in page.read_text()}
    assert marked >= set(parts)


def test_every_part_on_the_first_lists_has_a_place_in_its_page(monkeypatch):
    first_lists = load("first_lists")
    for kind in (first_lists.Shares, first_lists.Clicked, first_lists.Predicted):
        monkeypatch.setattr(kind, "every", lambda *_: [])
    for page, texts in first_lists.parts(None, []).items():
        places = re.findall(r"<!-- (?!end)(.*?) -->", (DOCS / page).read_text())
        assert places == list(texts)


def test_parts_are_filled_in_and_figures_are_copied(script, tmp_path):
    page, figures = tmp_path / "docs" / "page.md", tmp_path / "results"
    page.parent.mkdir()
    figures.mkdir()
    (figures / "a.png").write_bytes(b"picture")
    page.write_text("# Page\n\n<!-- words -->\nold\n<!-- end -->\n\n![a](figures/a.png)\n")
    script.fill(page, {"words": "one two " * 20 + "\n\n| a |\n| --- |\n| " + "b" * 130 + " |\n"}, figures)
    lines = page.read_text().splitlines()
    assert "old" not in lines
    assert lines[2] == "<!-- words -->"
    assert all(len(line) <= 120 for line in lines if not line.startswith("|"))
    assert lines[-3:] == ["<!-- end -->", "", "![a](figures/a.png)"]
    assert (page.parent / "figures" / "a.png").read_bytes() == b"picture"
    before = page.read_text()
    with pytest.raises(ValueError, match="must contain the marker <!-- other --> once, got 0"):
        script.fill(page, {"other": ""}, figures)
    (figures / "a.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"must contain the figures that page.md shows, but lacks a.png"):
        script.fill(page, {"words": "new"}, figures)
    assert page.read_text() == before, "a page is not changed if a figure is missing"
