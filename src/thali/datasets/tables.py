"""Your own tables of interactions and items, as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.datasets.files import Duplicates, Kind, Table, collect, polars
from thali.datasets.interactions import Interactions
from thali.datasets.parquet import Parquet, column_names, read_columns

if TYPE_CHECKING:
    import polars as pl

COLUMNS: dict[str, Kind] = {"user": "text", "item": "text", "value": "number", "time": "number"}


class LeftOut(NamedTuple):
    """What :func:`tables_of_known_items` has left out."""

    interactions: int
    """The number of rows."""
    items: tuple[str, ...]
    """The names of their items, in the order in which they first appear."""


def tables(
    interactions: str | Path, items: str | Path | None = None, *, separator: str = "|", duplicates: Duplicates = "error"
) -> Interactions:
    """Load interactions from your own tables of interactions and, if there is one, of items.

    Each table is a CSV file or, if its name ends in .parquet, a Parquet file.

    Parameters
    ----------
    interactions: the file with the columns user, item, value and time. Other columns are not read. Without a column
        value, as in a log of clicks, each row has the value 1. The time is a number, such as seconds. Without a column
        time, the times are unknown.
    items: the file with the columns item and topics. The topics of an item are joined by the separator; in Parquet,
        they can also be a list. An item without topics is kept. Without this file, the items are those of the
        interactions, and they have no topics (:func:`thali.fit` needs none).
    separator: the text between two topics.
    duplicates: what to do if a pair of user and item is repeated: raise an "error", keep the "last" value and time, or
        "sum" the values and keep the latest time.

    If the names of all users are whole numbers, they are converted to whole numbers, and the same for items. Otherwise
    they stay text. This determines their order. An item that is not in the file of items, an empty field, and a value
    that is not a number are errors. The message names the file and the line (in Parquet, the row, counted from 1).

    Cost: a few passes over the rows with polars, and a sort of the pairs.

    """
    found, _ = _tables(Path(interactions), None if items is None else Path(items), separator, duplicates, False)
    return found


def tables_of_known_items(
    interactions: str | Path, items: str | Path, *, separator: str = "|", duplicates: Duplicates = "error"
) -> tuple[Interactions, LeftOut]:
    """Load interactions as :func:`tables` does, but leave out those with items that are not in the file of items.

    Such items have usually been removed from the file since. Users who have no other interactions are left out too.
    Return the interactions, and what was left out.
    """
    return _tables(Path(interactions), Path(items), separator, duplicates, True)


def _tables(
    rows_path: Path, items_path: Path | None, separator: str, duplicates: Duplicates, only_known: bool
) -> tuple[Interactions, LeftOut]:
    if duplicates not in ("error", "last", "sum"):
        raise ValueError(f"duplicates of tables must be 'error', 'last' or 'sum', got {duplicates!r}")
    topics = {} if items_path is None else item_topics(items_path, separator)
    table = table_of(rows_path, COLUMNS, optional=("value", "time"))
    frame = table.read()
    pl = polars()
    if "value" not in frame.columns:
        frame = frame.with_columns(value=pl.lit(1.0))
    frame = frame.select(name for name in COLUMNS if name in frame.columns)
    if items_path is None:
        topics = {name: [] for name in frame["item"].unique().to_list()}
    listed = pl.Series("item", list(topics), dtype=pl.String)
    rows, left_out = None, LeftOut(0, ())
    if only_known:
        known = frame["item"].is_in(listed.implode()).to_numpy()
        unknown = frame.filter(~known)["item"]
        left_out = LeftOut(len(unknown), tuple(unknown.unique(maintain_order=True).to_list()))
        frame, rows = frame.filter(known), np.flatnonzero(known)
    whole = {"user": reads_whole(frame["user"]), "item": reads_whole(frame["item"]) and reads_whole(listed)}
    frame = frame.with_columns(pl.col(name).cast(pl.Int64) for name, is_whole in whole.items() if is_whole)
    names = [int(name) for name in topics] if whole["item"] else list(topics)
    files = {"items_path": items_path, "frame": frame, "rows": rows}
    return collect(table, names, list(topics.values()), duplicates=duplicates, **files), left_out


def table_of(path: Path, columns: dict[str, Kind], *, optional: tuple[str, ...] = ()) -> Any:
    """Return a table with these columns, CSV or Parquet by suffix. Omit an optional column if the file lacks it."""
    parquet = path.suffix == ".parquet"
    if optional:
        present = column_names(path) if parquet else Table(path, columns).header_names()
        columns = {name: kind for name, kind in columns.items() if name in present or name not in optional}
    return Parquet(path, columns) if parquet else Table(path, columns)


def item_topics(path: Path, separator: str) -> dict[str, list[str]]:
    """Return the topics of each item in a table with the columns item and topics, CSV or Parquet by suffix."""
    topics_of: dict[str, list[str]] = {}
    for place, name, topics in _item_rows(path, separator):
        if name is None or name == "":
            raise ValueError(f"{path}, {place}: item must not be empty, got {name!r}")
        if name in topics_of:
            raise ValueError(f"{path}, {place}: item {name!r} appears twice")
        topics_of[name] = [topic.strip() for topic in topics if topic.strip()]
    return topics_of


def _item_rows(path: Path, separator: str) -> Iterable[tuple[str, Any, Iterable[str]]]:
    """Yield where each row is, the item and its topics."""
    if path.suffix != ".parquet":
        for line, (name, topics) in Table(path, {"item": "text", "topics": "text"}).rows():
            yield f"line {line}", name, topics.split(separator)
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
        yield f"row {row}", name, [str(topic) for topic in topics or ()] if listed else (topics or "").split(separator)


def reads_whole(column: pl.Series) -> bool:
    """Return whether every text in a column is a whole number in canonical form (no leading zeros or plus signs)."""
    return bool(column.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all())
