"""Read and check columns of Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thali.datasets.files import Kind, polars

if TYPE_CHECKING:
    import polars as pl
    from polars import DataFrame


@dataclass(frozen=True)
class Parquet:
    """A Parquet file with columns of text and numbers. It has the same methods as :class:`thali.datasets.files.Table`.

    columns: the kind of each column by name, "text" or "number". Other columns of the file are not read. Where a Table
    has lines, this class has rows.
    """

    path: Path
    columns: dict[str, Kind]

    def read(self) -> pl.DataFrame:
        """Return the columns as String and Float64. Raise an error that names the row if a field is not valid."""
        pl = polars()
        frame = read_columns(self.path, tuple(self.columns))
        for name, kind in self.columns.items():
            if kind == "number" and not frame[name].dtype.is_numeric():
                raise ValueError(f"{self.path}: {name} must be a column of numbers, got {frame[name].dtype}")
        frame = frame.with_columns(
            pl.col(name).cast(pl.Float64 if kind == "number" else pl.String) for name, kind in self.columns.items()
        )
        for name, kind in self.columns.items():
            fits = pl.col(name).is_finite() if kind == "number" else pl.col(name) != ""
            row = frame.select((~fits.fill_null(False)).arg_true().first()).item()
            if row is not None:
                rule = "be a finite number" if kind == "number" else "not be empty"
                raise ValueError(f"{self.path}, row {row + 1}: {name} must {rule}, got {frame[name][row]!r}")
        return frame

    def place(self, row: int) -> str:
        """Return where a row is, for error messages. They count rows from 1."""
        return f"row {row + 1}"


def read_columns(path: Path, names: tuple[str, ...]) -> pl.DataFrame:
    """Return these columns of a file, unchanged. A missing or invalid file or a missing column is an error."""
    pl = polars()
    require_file(path)
    found = column_names(path)
    for name in names:
        if name not in found:
            raise ValueError(f"{path} must have a column {name!r}, got {found}")
    try:
        frame: DataFrame = pl.scan_parquet(path, glob=False).select(names).collect()
    except unreadable() as error:
        raise ValueError(f"{path} is not a complete Parquet file: {error}") from error
    return frame


def column_names(path: Path) -> list[str]:
    """Return the names of the columns of a file."""
    pl = polars()
    require_file(path)
    try:
        names: list[str] = pl.scan_parquet(path, glob=False).collect_schema().names()
    except unreadable() as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from error
    return names


def require_file(path: Path) -> None:
    """Raise an error unless path is a file. (Given a folder, polars would read all files in it.)"""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_file():
        raise ValueError(f"{path} must be a file, got a folder")


def unreadable() -> tuple[type[BaseException], ...]:
    """Return what polars raises for invalid bytes. This includes panics, which are not a subclass of Exception."""
    errors = polars().exceptions
    return errors.PolarsError, errors.PanicException
