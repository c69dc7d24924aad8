"""Write files atomically: a reader sees either the old file or the new one, never an incomplete one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder. Its content replaces path when the block ends without an error.

    The new content is written to disk before it replaces the old content. After an error, the temporary file is removed
    and path is unchanged. An error that names the temporary file is raised as one that names path.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield part
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        os.replace(part, target)
    except OSError as error:
        if error.filename not in (part, str(part)):
            raise
        raise type(error)(f"{target} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Like :func:`atomic_path`, but yields an open binary file to write to."""
    with atomic_path(path) as part, open(part, "xb") as file:
        yield file
