"""The documentation: every page is in the contents, is short and names its audience, and its links work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "client" / "README.md"]
LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_and_names_its_audience_and_requirements(page):
    lines = page.read_text().splitlines()
    assert len(lines) <= 300
    assert lines[0].startswith("# ")
    audience = page.read_text().split("\n\n")[1]
    assert audience.startswith("*For ")
    assert "need" in audience


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_no_wrapped_line_becomes_a_list_item(text):
    """A line of prose that begins with "8. " or "- 1/e" would start a list in the middle of a sentence."""
    prose = re.sub(r"^```.*?^```", "", text.read_text(), flags=re.M | re.S)
    numbers = [int(number) for number in re.findall(r"^\s*(\d+)\. ", prose, flags=re.M)]
    assert all(number == 1 or number - 1 in numbers[:at] for at, number in enumerate(numbers))
    assert re.findall(r"^\s*[-+*] [\d=<≤].*", prose, flags=re.M) == []


def test_every_page_is_in_the_table_of_contents():
    linked = set(LINK.findall((DOCS / "README.md").read_text()))
    assert {page.name for page in PAGES} - {"README.md"} == {link for link in linked if "/" not in link}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_links_lead_to_files_and_no_page_names_a_folder_outside_the_repository(text):
    content = text.read_text()
    missing = [link for link in LINK.findall(content) if "://" not in link and not (text.parent / link).exists()]
    assert missing == []
    assert "../shared" not in content


def test_the_site_builds_without_warnings_and_loads_nothing_from_another_host(tmp_path):
    """Broken links and anchors are warnings, which fail the build."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "site.py", tmp_path / "site"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").glob("*.html"))
    assert {page.stem for page in PAGES} - {"README"} | {"index", "about", "changelog"} <= {page.stem for page in pages}
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")
    styles = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^)\"';]+)")
    foreign = [(page.name, host) for page in pages for host in loaded.findall(page.read_text())]
    foreign += [(sheet.name, host) for sheet in tmp_path.rglob("*.css") for host in styles.findall(sheet.read_text())]
    assert foreign == []
