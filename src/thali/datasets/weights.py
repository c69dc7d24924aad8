"""Weights w̄ of your own, known already, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from thali.datasets.files import Kind, codes_of, polars
from thali.datasets.tables import reads_whole, table_of

COLUMNS: dict[str, Kind] = {"item": "text", "topic": "text", "weight": "number"}


class Weights(NamedTuple):
    """What ``thali.Catalog(*weights)`` takes."""

    weights: sp.csr_array
    items: list[Any]
    topics: list[Any]


def weights(path: str | Path, items: str | Path | None = None) -> Weights:
    """w̄ from a table with columns item, topic, weight, as CSV or Parquet (by the suffix .parquet).

    Parameters
    ----------
    path: each item and topic once; a weight from 0 to 1. Further columns are not read.
    items: a table with a column item that has every item, also those without any topic; by default those of path.

    Items and topics are in ascending order of name; items as numbers where all of them read so. What is wrong is an
    error that names file and line (in Parquet, the row, from 1). Cost: a few passes over the rows at polars' speed.

    """
    pl = polars()
    table = table_of(Path(path), COLUMNS)
    frame = table.read()
    if not len(frame):
        raise ValueError(f"{path} must have at least one weight, got none")
    weight = frame["weight"].to_numpy()
    row = _first((frame["weight"] < 0.0) | (frame["weight"] > 1.0))
    if row is not None:
        raise ValueError(f"{path}, line {table.line(row)}: weight must be from 0 to 1, got {float(weight[row])!r}")
    names = frame["item"] if items is None else _listed(Path(items))
    if reads_whole(names) and reads_whole(frame["item"]):
        names, frame = names.cast(pl.Int64), frame.with_columns(pl.col("item").cast(pl.Int64))
    every, _ = codes_of(names)
    present, item = codes_of(frame["item"])
    topics, topic = codes_of(frame["topic"])
    at = {name: e for e, name in enumerate(every)}
    place = np.array([at.get(name, -1) for name in present], dtype=np.int32)[item]
    row = _first(pl.Series(place < 0))
    if row is not None:
        raise ValueError(f"{path}, line {table.line(row)}: item {frame['item'][row]!r} is not in {items}")
    row = _first(~pl.Series(place.astype(np.int64) * len(topics) + topic).is_first_distinct())
    if row is not None:
        name, of = frame["item"][row], frame["topic"][row]
        raise ValueError(f"{path}, line {table.line(row)}: item {name!r} has topic {of!r} already")
    return Weights(sp.csr_array((weight, (place, topic)), shape=(len(every), len(topics))), every, topics)


def _listed(path: Path) -> Any:
    """The column item of a table, each name once."""
    table = table_of(path, {"item": "text"})
    names = table.read()["item"]
    row = _first(~names.is_first_distinct())
    if row is not None:
        raise ValueError(f"{path}, line {table.line(row)}: item {names[row]!r} is here already")
    return names


def _first(bad: Any) -> int | None:
    """The first row of a column that is true."""
    return int(bad.arg_max()) if bad.any() else None
