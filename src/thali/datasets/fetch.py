"""Publishers' archives: name, address, SHA-256, and the folder they are kept in."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str, root: str | Path | None) -> Path:
    base = Path(root) if root is not None else Path(os.environ["THALI_DATA"])
    return base / name
