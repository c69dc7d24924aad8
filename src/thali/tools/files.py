"""Write files atomically: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder. What is written there replaces path when the block ends without an error.

    The new content is on disk before it replaces the old. After an error the temporary file is removed and path is as
    it was.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield part
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The same as an open binary file to write to."""
    with atomic_path(path) as part, open(part, "xb") as file:
        yield file
