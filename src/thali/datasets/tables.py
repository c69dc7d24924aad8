"""Anyone's own tables: interactions and items, as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thali.datasets.files import Duplicates, Kind, Table, collect, polars
from thali.datasets.interactions import Interactions
from thali.datasets.parquet import Parquet, column_names, read_columns

if TYPE_CHECKING:
    import polars as pl

COLUMNS: dict[str, Kind] = {"user": "text", "item": "text", "value": "number"}


def tables(
    interactions: str | Path, items: str | Path, *, separator: str = "|", duplicates: Duplicates = "error"
) -> Interactions:
    """Interactions from two tables of your own, each CSV or Parquet (by the suffix .parquet).

    Parameters
    ----------
    interactions: columns user, item, value; further ones are not read. Without a column value, as in a log of clicks,
        each row counts 1.
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
    table = table_of(rows_path, COLUMNS, optional="value")
    frame = table.read()
    pl = polars()
    if "value" not in frame.columns:
        frame = frame.with_columns(value=pl.lit(1.0))
    listed = pl.Series("item", list(topics), dtype=pl.String)
    whole = {"user": reads_whole(frame["user"]), "item": reads_whole(frame["item"]) and reads_whole(listed)}
    frame = frame.with_columns(pl.col(name).cast(pl.Int64) for name, is_whole in whole.items() if is_whole)
    names = [int(name) for name in topics] if whole["item"] else list(topics)
    return collect(table, names, list(topics.values()), items_path=items_path, duplicates=duplicates, frame=frame)


def table_of(path: Path, columns: dict[str, Kind], *, optional: str = "") -> Any:
    """A table of these columns, CSV or Parquet by its suffix; without the optional one where the file has none."""
    parquet = path.suffix == ".parquet"
    if optional and optional not in (column_names(path) if parquet else Table(path, columns).header_names()):
        columns = {name: kind for name, kind in columns.items() if name != optional}
    return Parquet(path, columns) if parquet else Table(path, columns)


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
    frame = read_columns(path, ("item", "topics"))
    kind = frame["topics"].dtype
    listed = kind in (pl.List, pl.Array)
    if not listed and kind not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise ValueError(f"{path}: topics must be a column of text or of lists, got {kind}")
    for row, (name, topics) in enumerate(frame.with_columns(pl.col("item").cast(pl.String)).iter_rows(), start=1):
        if listed and None in (topics or ()):
            raise ValueError(f"{path}, row {row}: a topic must not be empty, got {topics}")
        yield row, name, [str(topic) for topic in topics or ()] if listed else (topics or "").split(separator)


def reads_whole(column: pl.Series) -> bool:
    """Whether all of a column of text reads as whole numbers, each written in one way only."""
    return bool(column.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all())
