"""Known weights w̄, read from your own table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from thali.datasets.files import Kind, codes_of, polars
from thali.datasets.tables import reads_whole, table_of

COLUMNS: dict[str, Kind] = {"item": "text", "topic": "text", "weight": "number"}


class Weights(NamedTuple):
    """The arguments of ``thali.Catalog(*weights)``."""

    weights: sp.csr_array
    items: list[Any]
    topics: list[Any]


def weights(path: str | Path, items: str | Path | None = None) -> Weights:
    """Load the weights w̄ from a table, which is a CSV file or, if its name ends in .parquet, a Parquet file.

    Parameters
    ----------
    path: the file with the columns item, topic and weight. Each pair of item and topic appears once, with a weight from
        0 to 1. Other columns are not read.
    items: a file with a column item that lists every item, including items without topics. By default, the items are
        those in path.

    Items and topics are in ascending order of their names. If the names of all items are whole numbers, they are
    converted to whole numbers. Error messages name the file and the line (in Parquet, the row, counted from 1). Cost: a
    few passes over the rows with polars.

    """
    pl = polars()
    table = table_of(Path(path), COLUMNS)
    frame = table.read()
    if not len(frame):
        raise ValueError(f"{path} must have at least one weight, got none")
    weight = frame["weight"].to_numpy()
    row = _first((frame["weight"] < 0.0) | (frame["weight"] > 1.0))
    if row is not None:
        raise ValueError(f"{path}, {table.place(row)}: weight must be from 0 to 1, got {float(weight[row])!r}")
    names = frame["item"] if items is None else _listed(Path(items))
    if reads_whole(names) and reads_whole(frame["item"]):
        names, frame = names.cast(pl.Int64), frame.with_columns(pl.col("item").cast(pl.Int64))
    all_items, _ = codes_of(names)
    present, item = codes_of(frame["item"])
    topics, topic = codes_of(frame["topic"])
    at = {name: e for e, name in enumerate(all_items)}
    number = np.array([at.get(name, -1) for name in present], dtype=np.int32)[item]
    row = _first(pl.Series(number < 0))
    if row is not None:
        raise ValueError(f"{path}, {table.place(row)}: item {frame['item'][row]!r} is not in {items}")
    row = _first(~pl.Series(number.astype(np.int64) * len(topics) + topic).is_first_distinct())
    if row is not None:
        name, its_topic = frame["item"][row], frame["topic"][row]
        raise ValueError(f"{path}, {table.place(row)}: item {name!r} and topic {its_topic!r} appear twice")
    return Weights(sp.csr_array((weight, (number, topic)), shape=(len(all_items), len(topics))), all_items, topics)


def _listed(path: Path) -> Any:
    """Return the column item of a table. A repeated name is an error."""
    table = table_of(path, {"item": "text"})
    names = table.read()["item"]
    row = _first(~names.is_first_distinct())
    if row is not None:
        raise ValueError(f"{path}, {table.place(row)}: item {names[row]!r} appears twice")
    return names


def _first(bad: Any) -> int | None:
    """Return the first row in which a boolean column is true, or None."""
    return int(bad.arg_max()) if bad.any() else None
