"""A header and named arrays in one portable file: a zip of header.json and .npy arrays, without pickle."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.tools.files import atomic_file

HEADER = "header.json"
#: The errors that reading a damaged or foreign file can raise.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile)


def write_arrays(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and arrays to one file, atomically."""
    with atomic_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_arrays(path: str | os.PathLike[str], form: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file whose header says that it has this format.

    Raise one of UNREADABLE if it is another or a damaged file.
    """
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read(HEADER))
        if header["format"] != form:
            raise ValueError(f"format must be {form!r}, got {header['format']!r}")
        for name in archive.namelist():
            if name != HEADER:
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return header, arrays
