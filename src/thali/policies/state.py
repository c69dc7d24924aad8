"""All that a policy has learned: named arrays with users as the first axis, and one portable file of them."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

FORMAT = "thali-state-1"


class State:
    """Arrays by name (``state.M``), users first, with the settings of the learner that they belong to.

    ``learner`` and ``settings`` say whose statistics these are; a policy refuses a state of another learner.
    """

    #: Classes by the family that their files name, so that a file comes back as what it was.
    families: ClassVar[dict[str, type[State]]] = {}
    family: ClassVar[str] = "plain"

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        State.families[cls.family] = cls

    def __init__(self, learner: str, settings: dict[str, Any], **arrays: NDArray[Any]) -> None:
        if not arrays:
            raise ValueError("arrays of State must hold at least one array")
        users = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
        if None in users.values() or len(set(users.values())) != 1:
            raise ValueError(f"arrays of State must have users as their first axis, got lengths {users}")
        self.learner = learner
        self.settings = settings
        self.arrays = arrays

    def __getattr__(self, name: str) -> NDArray[Any]:
        arrays = self.__dict__.get("arrays", {})
        if name in arrays:
            array: NDArray[Any] = arrays[name]
            return array
        raise AttributeError(f"{type(self).__name__} has no array {name!r}; it has {', '.join(arrays)}")

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"{type(self).__name__} of {self.learner}: {shapes}"

    @property
    def users(self) -> int:
        """The number of users."""
        return int(next(iter(self.arrays.values())).shape[0])

    def copy(self) -> Self:
        """An independent copy."""
        return type(self)(self.learner, dict(self.settings), **{k: v.copy() for k, v in self.arrays.items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one portable file (a zip of .npy arrays and a JSON header; no pickle), whole or not at all."""
        target = Path(path)
        header = {"format": FORMAT, "family": self.family, "learner": self.learner, "settings": self.settings}
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, header=np.array(json.dumps(header)), **self.arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise


State.families[State.family] = State


def load_state(path: str | os.PathLike[str]) -> State:
    """The state in a file written by :meth:`State.save`, equal to the last bit."""
    if not Path(path).exists():
        raise FileNotFoundError(f"path of load_state must be a file written by state.save, found nothing at {path}")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
        known = header["format"] == FORMAT
        family = State.families[header["family"]]
        learner, settings = header["learner"], header["settings"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"path of load_state must be a whole file written by state.save, got {path}: {error}"
        ) from error
    if not known:
        raise ValueError(f"path of load_state must hold format {FORMAT!r}, got {header['format']!r} in {path}")
    return family(learner, settings, **arrays)
