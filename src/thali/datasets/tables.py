"""Anyone's own tables: interactions and items, as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thali.datasets.files import Duplicates, Kind, Table, collect, polars
from thali.datasets.interactions import Interactions

if TYPE_CHECKING:
    import polars as pl
    from polars import DataFrame

COLUMNS: dict[str, Kind] = {"user": "text", "item": "text", "value": "number"}


def tables(
    interactions: str | Path, items: str | Path, *, separator: str = "|", duplicates: Duplicates = "error"
) -> Interactions:
    """Interactions from two tables of your own, each CSV or Parquet (by the suffix .parquet).

    Parameters
    ----------
    interactions: columns user, item, value; further ones are not read.
    items: columns item, topics; the topics joined by the separator, or in Parquet a list. No topics are allowed: such
        an item is kept and covers nothing.
    duplicates: a user and item that come again are an "error", or the "last" row counts, or their "sum".

    Users and items are whole numbers where all of them read so, else text: that decides which name is the smaller. An
    item that is not among the items, an empty field, or a value that is no number are errors that name file and line
    (in Parquet, the row, from 1).

    Cost: a few passes over the rows at polars' speed, and a sort of the pairs.

    """
    if duplicates not in ("error", "last", "sum"):
        raise ValueError(f"duplicates of tables must be 'error', 'last' or 'sum', got {duplicates!r}")
    rows_path, items_path = Path(interactions), Path(items)
    topics = _items(items_path, separator)
    table: Any = _Parquet(rows_path) if rows_path.suffix == ".parquet" else Table(rows_path, COLUMNS)
    frame = table.read()
    pl = polars()
    listed = pl.Series("item", list(topics), dtype=pl.String)
    whole = {"user": _whole(frame["user"]), "item": _whole(frame["item"]) and _whole(listed)}
    frame = frame.with_columns(pl.col(name).cast(pl.Int64) for name, is_whole in whole.items() if is_whole)
    names = [int(name) for name in topics] if whole["item"] else list(topics)
    return collect(table, names, list(topics.values()), items_path=items_path, duplicates=duplicates, frame=frame)


def _items(path: Path, separator: str) -> dict[str, list[str]]:
    """The topics of each item."""
    found: dict[str, list[str]] = {}
    for line, name, topics in _item_rows(path, separator):
        if name is None or name == "":
            raise ValueError(f"{path}, line {line}: item must not be empty, got {name!r}")
        if name in found:
            raise ValueError(f"{path}, line {line}: item {name!r} is here already")
        found[name] = [topic.strip() for topic in topics if topic.strip()]
    return found


def _item_rows(path: Path, separator: str) -> Iterable[tuple[int, Any, Iterable[str]]]:
    if path.suffix != ".parquet":
        for line, (name, topics) in Table(path, {"item": "text", "topics": "text"}).rows():
            yield line, name, topics.split(separator)
        return
    pl = polars()
    frame = _columns(path, ("item", "topics"))
    kind = frame["topics"].dtype
    listed = kind in (pl.List, pl.Array)
    if not listed and kind not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise ValueError(f"{path}: topics must be a column of text or of lists, got {kind}")
    for row, (name, topics) in enumerate(frame.with_columns(pl.col("item").cast(pl.String)).iter_rows(), start=1):
        if listed and None in (topics or ()):
            raise ValueError(f"{path}, row {row}: a topic must not be empty, got {topics}")
        yield row, name, [str(topic) for topic in topics or ()] if listed else (topics or "").split(separator)


@dataclass(frozen=True)
class _Parquet:
    """Interactions in Parquet; a row stands for a line."""

    path: Path

    def read(self) -> pl.DataFrame:
        """The columns as text and numbers; an empty field is an error that names its row."""
        pl = polars()
        frame = _columns(self.path, tuple(COLUMNS))
        if not frame["value"].dtype.is_numeric():
            raise ValueError(f"{self.path}: value must be a column of numbers, got {frame['value'].dtype}")
        frame = frame.with_columns(
            pl.col("user").cast(pl.String), pl.col("item").cast(pl.String), pl.col("value").cast(pl.Float64)
        )
        bad = frame.select(
            (
                (pl.col("user").fill_null("") == "")
                | (pl.col("item").fill_null("") == "")
                | ~pl.col("value").is_finite().fill_null(False)
            )
            .arg_true()
            .first()
        ).item()
        if bad is not None:
            raise ValueError(
                f"{self.path}, row {bad + 1}: user and item must not be empty and value a finite number, "
                f"got {frame.row(bad)}"
            )
        return frame

    def line(self, row: int) -> int:
        """The number of the row, from 1."""
        return row + 1


def _columns(path: Path, names: tuple[str, ...]) -> pl.DataFrame:
    pl = polars()
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there")
    try:
        lazy = pl.scan_parquet(path, glob=False)
        found = lazy.collect_schema().names()
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from error
    for name in names:
        if name not in found:
            raise ValueError(f"{path} must have a column {name!r}, got {found}")
    frame: DataFrame = lazy.select(names).collect()
    return frame


def _whole(column: pl.Series) -> bool:
    """Whether all of a column of text reads as whole numbers, each written in one way only."""
    return bool(column.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all())
