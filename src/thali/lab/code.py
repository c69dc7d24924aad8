"""Which code made the rows of an experiment: digests of the source files that the rows depend on."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from types import ModuleType
from typing import Any

import numpy as np

PACKAGE = Path(__file__).parents[1]
# The files and packages of thali that no row depends on. Every other file counts, so a new file counts too.
# tests/lab/test_code.py checks that no task loads any of these.
NOT_COUNTED = (
    "__main__.py",
    "cli",
    "client.py",
    "lab/claims.py",
    "lab/evidence.py",
    "lab/figures.py",
    "lab/first_lists.py",
    "lab/ledger.py",
    "lab/real_people.py",
    "lab/report.py",
    "lab/results.py",
    "lab/robustness.py",
    "lab/terminal.py",
    "lab/theorems.py",
    "lab/verdicts.py",
    "service",
)
# Installed packages are not code of the user's own, so a change in them is not noticed.
_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))
# Stands for code whose source cannot be read, such as a class from a notebook. It is different in each process.
_UNREADABLE = token_bytes(16)


def counted_files() -> list[Path]:
    """Return every file of thali that the rows of an experiment may depend on."""
    left_out = {PACKAGE / name for name in NOT_COUNTED}
    return [path for path in sorted(PACKAGE.rglob("*.py")) if left_out.isdisjoint((path, *path.parents))]


def _digest(parts: Iterable[bytes]) -> str:
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()[:12]


#: The digest of thali's own code, as it was when this process started.
CODE = _digest(path.read_bytes() for path in counted_files())


def described(version: str, code: str) -> str:
    """A version of thali and a digest of its code, as text for readers. Early versions did not record the digest."""
    return f"{version} (code {code or 'not recorded'})"


def own_code(*makers: Any) -> str:
    """Return a digest of the code outside thali that defines these objects, classes and functions; "" if there is none.

    It covers the file of each class, those of its base classes, and your own files that these import. If a maker is a
    partial, it also covers the settings. If a source cannot be read, the digest is different in each process.
    """
    files: dict[str, Path | None] = {}
    settings: list[str] = []
    for maker in makers:
        parts = [maker]
        if isinstance(maker, partial):
            parts = [maker.func, *maker.args, *maker.keywords.values()]
            settings += [*map(_text, maker.args), *(f"{name}={_text(at)}" for name, at in maker.keywords.items())]
        for part in parts:
            kind = part if hasattr(part, "__qualname__") else type(part)
            for base in getattr(kind, "__mro__", (kind,)):
                _collect(base.__module__ or type(base).__module__, files, defines=base.__qualname__.partition(".")[0])
    contents = sorted(_UNREADABLE if file is None else file.read_bytes() for file in files.values())
    return _digest([*contents, *(text.encode() for text in settings)]) if contents or settings else ""


def _collect(name: str, files: dict[str, Path | None], *, defines: str = "") -> None:
    """Add the source file of a module outside thali, and those of your own modules that it imports.

    defines: the class or function for which the module is read; empty for a module that another one imports.
    """
    top = name.partition(".")[0]
    if name in files or top == "thali" or top in sys.stdlib_module_names:
        return
    module = sys.modules.get(name)
    file = Path(getattr(module, "__file__", None) or "")
    if defines:
        files[name] = file if file.name and hasattr(module, defines) else None
    elif file.name and not any(folder in file.parents for folder in _INSTALLED):
        files[name] = file
    else:
        return
    for value in list(vars(module).values()) if module is not None else ():
        imported = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(imported, str):
            _collect(imported, files)


def _text(value: Any) -> str:
    """Return a setting as text that is the same in every process."""
    if hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if isinstance(value, np.ndarray):  # its repr leaves out most of a long array
        return f"array {value.dtype} {value.shape} {value.tolist()}"
    text = repr(value)
    return f"{type(value).__qualname__} {getattr(value, '__dict__', '')}" if text == object.__repr__(value) else text
