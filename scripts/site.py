"""Build the documentation as a web site: what `make docs` runs.

The pages are copied to a temporary folder first, because the site also contains the project's README (as about.md) and
changelog (as changelog.md), which are not in docs/. Links to them are adjusted in the copy, and links to source files
become plain text. zensical then builds the site, and fails if a link or an anchor leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Files outside docs/ that the site contains, and their names there.
OUTSIDE = {"README.md": "about.md", "CHANGELOG.md": "changelog.md"}
COLOR = re.compile(r"\x1b\[[0-9;]*m")
SOURCE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:src|tests|benchmarks|client)/[^)]*\)")


def main() -> None:
    """Build site/, or the folder given as the argument."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(folder))
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(COLOR.sub("", done.stderr).partition("Traceback")[0])
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(Path(folder) / "site", target)
    print(f"open {target / 'index.html'}")


def copy(folder: Path) -> None:
    """Copy the configuration, the pages and the files outside docs/, with their links adjusted."""
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name, new in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        (folder / "docs" / new).write_text(text.replace("](docs/", "]("), encoding="utf-8")
    for page in (folder / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name, new in OUTSIDE.items():
            text = text.replace(f"](../{name}", f"]({new}")
            if page.name in OUTSIDE.values():  # the copies link to each other by their old names
                text = text.replace(f"]({name}", f"]({new}")
        page.write_text(SOURCE_LINK.sub(r"`\1`", text), encoding="utf-8")


if __name__ == "__main__":
    main()
