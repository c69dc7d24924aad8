"""What a policy has learned: named arrays whose first axis is users, which can be saved in one portable file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thali.tools.archives import UNREADABLE, read_arrays, write_arrays

FORMAT = "thali-state-1"


class State:
    """Everything that a policy has learned: named arrays whose first axis is users, such as ``state.M``.

    ``learner`` and ``settings`` are the name and the settings of the policy. A policy rejects a state with another
    ``learner`` or other ``settings``.
    """

    #: The class of each family, by the name stored in files. A file is loaded as an object of the class that saved it.
    families: ClassVar[dict[str, type[State]]] = {}
    family: ClassVar[str] = "plain"
    arrays: dict[str, NDArray[Any]]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "family" in cls.__dict__:
            State.families[cls.family] = cls

    def __init__(self, learner: str, settings: dict[str, Any], /, **arrays: NDArray[Any]) -> None:
        if not arrays:
            raise ValueError("arrays of State must contain at least one array, got none")
        for name in arrays:
            if hasattr(type(self), name) or name in ("learner", "settings"):
                raise ValueError(f"arrays of State must not have the name of an attribute of State, got {name!r}")
        arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        users = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
        if None in users.values() or len(set(users.values())) != 1:
            raise ValueError(
                f"arrays of State must all have users as their first axis, with the same length, got lengths {users}"
            )
        self.learner = learner
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))  # the same as after saving and loading
        self.arrays = arrays

    def __getattr__(self, name: str) -> NDArray[Any]:
        arrays = self.__dict__.get("arrays", {})
        if name in arrays:
            array: NDArray[Any] = arrays[name]
            return array
        raise AttributeError(f"{type(self).__name__} has no array {name!r}; it has {', '.join(arrays)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("arrays", {}):
            self.arrays[name] = np.asarray(value, order="C")
        else:
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"{type(self).__name__} of {self.learner}: {shapes}"

    @property
    def users(self) -> int:
        """The number of users."""
        return int(next(iter(self.arrays.values())).shape[0])

    def check(self) -> None:
        """Raise an error if the arrays are not valid for this family. Called when a file is loaded."""

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.learner, self.settings, **{name: array.copy() for name, array in self.arrays.items()})

    def take(self, users: Any) -> Self:
        """Return an independent state of some of the users, to recommend and learn only for them.

        users: the numbers of the users, from 0.
        """
        picked = self._index(users)
        return type(self)(self.learner, self.settings, **{name: array[picked] for name, array in self.arrays.items()})

    def put(self, users: Any, part: State) -> None:
        """Replace the part of these users by another state, such as one from :meth:`take` after it has been updated."""
        picked = self._index(users)
        shapes, own = ({name: a.shape[1:] for name, a in state.arrays.items()} for state in (part, self))
        whose, ours = ((state.learner, state.settings) for state in (part, self))
        if shapes != own or whose != ours or part.users != picked.size:
            raise ValueError(
                f"argument 'part' of put must be a state of the same policy with {picked.size} users and the same "
                f"arrays, got {part!r}"
            )
        for name, array in self.arrays.items():
            array[picked] = part.arrays[name]
        self.refresh()

    def refresh(self) -> None:
        """Recompute everything derived from the arrays. Subclasses override this. Here, there is nothing to do."""

    def _index(self, users: Any) -> NDArray[np.int64]:
        picked = np.atleast_1d(np.asarray(users))
        if picked.dtype.kind not in "iu" or picked.ndim != 1 or len(set(picked.tolist())) != picked.size:
            raise TypeError(f"users must be distinct whole numbers, got {users!r}")
        if not picked.size or picked.min() < 0 or picked.max() >= self.users:
            raise ValueError(f"users must be one or more numbers from 0 to {self.users - 1}, got {users!r}")
        return picked.astype(np.int64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one portable file, atomically: a zip of a JSON header and .npy arrays, without pickle."""
        header = {"format": FORMAT, "family": self.family, "learner": self.learner, "settings": self.settings}
        write_arrays(path, header, self.arrays)


State.families[State.family] = State


def load_state(path: str | os.PathLike[str]) -> State:
    """Load a state from a file written by :meth:`State.save`. It is equal to the saved state, bit for bit."""
    if not Path(path).exists():
        raise FileNotFoundError(f"path of load_state must be a file written by state.save, but {path} does not exist")
    try:
        header, arrays = read_arrays(path, FORMAT)
        state = State.families[header["family"]](header["learner"], header["settings"], **arrays)
        state.check()
    except UNREADABLE as error:
        raise ValueError(
            f"path of load_state must be a complete file written by state.save, got {path}: {error}"
        ) from error
    return state
