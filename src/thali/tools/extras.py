"""Optional dependencies: check that they are installed, and say how to install them."""

from __future__ import annotations

from importlib.util import find_spec


def require(what: str, extra: str, *modules: str) -> None:
    """Raise ModuleNotFoundError if a module is not installed, and say which extra installs it.

    what: the command or package that needs the modules. extra: 'lab' or 'serve', or both with a comma.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(f"{what} needs {' and '.join(missing)}. {advice(extra)}")


def advice(extra: str) -> str:
    """Return a sentence that says how to install an extra."""
    return f"In a clone of thali, run: pip install '.[{extra}]'. Elsewhere, run: pip install 'thali[{extra}]'"
