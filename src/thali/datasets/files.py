"""Read text files with one row per line. Valid files are read fast; others are read line by line to find the error."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from thali.datasets.interactions import Interactions, memberships
from thali.tools.extras import require

if TYPE_CHECKING:
    import polars as pl
    from polars import DataFrame

Kind = Literal["whole", "number", "text", "name"]
Duplicates = Literal["error", "last", "sum"]


@dataclass(frozen=True)
class Table:
    """A text file with one row per line, and the names and kinds of its columns.

    columns: the kind of each column by name. If the file has a header, these are the columns to read, in any order.
    Otherwise, they are the first columns, in the order of the file. Other columns are not read. The kind "name" is for
    text that occurs many times, which is stored as a code. Empty lines are skipped.
    """

    path: Path
    columns: dict[str, Kind]
    separator: str = ","
    header: bool = True
    quoted: bool = True
    encoding: str = "utf8"

    def read(self) -> pl.DataFrame:
        """Return the columns as Int64, Float64, String and Categorical. Raise an error that names a malformed line.

        Cost: that of reading the file with polars. A file with a malformed line is read again, line by line, to find
        the line.
        """
        self._exists()
        try:
            frame = self._scan()
        except polars().exceptions.PolarsError as error:
            self._raise_first_error()
            raise ValueError(f"{self.path} cannot be read: {error}") from error
        # In text columns, a quoted empty field reads as "".
        bad = [
            (frame[name] == "" if kind != "number" else ~frame[name].is_finite()).any()
            for name, kind in self.columns.items()
            if kind != "whole"
        ]
        if any(frame.null_count().row(0)) or any(bad):
            self._raise_first_error()
            # No line is malformed, so the nulls come from empty lines.
            frame = frame.filter(~polars().all_horizontal(polars().all().is_null()))
            if any(frame.null_count().row(0)):
                raise ValueError(f"{self.path} has an empty field")
        return frame

    def header_names(self) -> list[str]:
        """Return the names in the first line, or none if the file is empty."""
        self._exists()
        for _, row in self._lines():
            return row
        return []

    def _exists(self) -> None:
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path} does not exist")

    def _scan(self) -> pl.DataFrame:
        pl = polars()
        types = {"whole": pl.Int64, "number": pl.Float64, "text": pl.String, "name": pl.Categorical}
        # polars accepts only a single character as separator. It reads a::b as three columns, the second one empty.
        step = len(self.separator)
        names = list(self.columns)
        if not self.header:
            with self.path.open(encoding=self._codec, errors="replace", newline="") as file:
                width = file.readline().count(self.separator) + 1
            if width < len(names):
                self._raise_first_error()
                raise ValueError(f"{self.path} must have {len(names)} fields in its first line, got {width}")
            places = {f"column_{1 + step * at}": name for at, name in enumerate(names)}
            schema = {f"column_{at}": pl.String for at in range(1, step * (width - 1) + 2)}
            schema |= {place: types[self.columns[name]] for place, name in places.items()}
        lazy = pl.scan_csv(
            self.path,
            separator=self.separator[0],
            has_header=self.header,
            quote_char='"' if self.quoted else None,
            encoding="utf8" if self._codec == "utf-8" else "utf8-lossy",
            **(
                {"schema_overrides": {name: types[kind] for name, kind in self.columns.items()}}
                if self.header
                else {"schema": schema}
            ),
            infer_schema=False,
            glob=False,
        )
        if self.header:
            found = lazy.collect_schema().names()
            for name in names:
                if name not in found:
                    raise ValueError(f"{self.path} must have a column {name!r} in its first line, got {found}")
            wanted = [pl.col(name) for name in names]
        else:
            wanted = [pl.col(place).alias(name) for place, name in places.items()]
        between = [f"column_{1 + step * at + gap}" for at in range(len(names) - 1) for gap in range(1, step)]
        if between:  # if a separator such as :: is malformed, as in a:x:b, these columns are not empty
            wanted.append(pl.any_horizontal(pl.col(between).is_not_null()).alias("between"))
        frame = lazy.select(wanted).collect()
        if between and frame["between"].any():
            self._raise_first_error()
            raise ValueError(f"{self.path} must have fields separated by {self.separator!r}")
        chosen: DataFrame = frame.select(names)
        return chosen

    @property
    def _codec(self) -> str:
        return "utf-8" if self.encoding == "utf8" else self.encoding

    def rows(self, *, exact: bool = True) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each line and its fields as text, in the order of columns. Slow, but with exact checks.

        exact: whether a line with more fields than the first one is an error. (``read`` notices such a line only if it
        reads all columns.)
        """
        order, width = list(range(len(self.columns))), 0
        for number, row in self._lines():
            text = self.separator.join(row)
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"{self.path}, line {number}: the line must be {self._codec} text, got {text[:80]!r}"
                ) from None
            if not width:
                width = len(row)
                if self.header:
                    for name in self.columns:
                        if name not in row:
                            raise ValueError(f"{self.path} must have a column {name!r} in its first line, got {row}")
                    order = [row.index(name) for name in self.columns]
                    continue
            if len(row) <= max(order) or (exact and len(row) > width):
                fields = f"{width}" if width <= max(order) + 1 else f"{max(order) + 1} to {width}"
                raise ValueError(
                    f"{self.path}, line {number}: the line must have {fields} fields separated by {self.separator!r}, "
                    f"got {text[:80]!r}"
                )
            yield number, [row[at] for at in order]
        if not width:
            raise ValueError(f"{self.path} is empty")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number and fields of every non-empty line. Undecodable bytes become lone surrogates."""
        codec = "utf-8-sig" if self._codec == "utf-8" else self._codec
        with self.path.open(encoding=codec, errors="surrogateescape", newline="") as file:
            if len(self.separator) == 1 and self.quoted:
                reader = csv.reader(file, delimiter=self.separator)
                try:
                    yield from ((reader.line_num, row) for row in reader if row)
                except csv.Error as error:
                    raise ValueError(f"{self.path}, line {reader.line_num} cannot be read: {error}") from error
            else:
                for number, line in enumerate(file, start=1):
                    if text := line.rstrip("\r\n"):
                        yield number, text.split(self.separator)

    def place(self, row: int) -> str:
        """Return where a row is, for error messages. Rows are numbered from 0, lines from 1."""
        for at, (number, _) in enumerate(self.rows(exact=False)):
            if at == row:
                return f"line {number}"
        raise AssertionError(f"{self.path} has no line for row {row}")

    def _raise_first_error(self) -> None:
        """Raise an error for the first bad line, if there is one."""
        for number, row in self.rows():
            for (name, kind), text in zip(self.columns.items(), row, strict=True):
                if not _fits(text, kind):
                    rule = {
                        "whole": "be a whole number",
                        "number": "be a finite number",
                        "text": "not be empty",
                        "name": "not be empty",
                    }[kind]
                    raise ValueError(f"{self.path}, line {number}: {name} must {rule}, got {text!r}")


def _fits(text: str, kind: Kind) -> bool:
    if kind in ("text", "name"):
        return text != ""
    if kind == "whole":
        return re.fullmatch(r" *[+-]?[0-9]+", text) is not None and -(2**63) <= int(text) < 2**63
    try:
        return isfinite(float(text)) and "_" not in text and text == text.strip()
    except ValueError:
        return False


def collect(
    table: Table,
    names: Sequence[Any],
    topics: Sequence[Iterable[str]],
    *,
    items_path: Path | None,
    duplicates: Duplicates | None = None,
    lowest: float = -np.inf,
    highest: float = np.inf,
    frame: pl.DataFrame | None = None,
    rows: np.ndarray | None = None,
) -> Interactions:
    """Create Interactions from a table with the columns user, item, value and optionally time, in this order.

    names, topics: the names of all items, and the topics of each. An item that is not in names, or a value that is not
    between lowest and highest, is an error that names the line. items_path: the file that the names are from, for this
    message. duplicates: what to do with a repeated pair of user and item: raise an "error", keep the "last" value and
    time, or "sum" the values and keep the latest time. None also raises an error; use it if the user cannot choose.
    frame: the rows of the table in the order of the file, if they have already been read. rows: if some of them have
    been left out, the number of each in the file, from 0.
    """
    pl = polars()
    frame = table.read() if frame is None else frame

    def place(row: Any) -> str:
        return table.place(int(row if rows is None else rows[row]))

    user_name, item_name, value_name, *rest = frame.columns
    time = {"time": frame[rest[0]].cast(pl.Float64).to_numpy()} if rest else {}
    value = frame[value_name].cast(pl.Float64).to_numpy()
    wrong = np.flatnonzero((value < lowest) | (value > highest) | ~np.isfinite(value))
    if wrong.size:
        rule = f"from {lowest:g} to {highest:g}" if isfinite(highest) else f"at least {lowest:g}"
        raise ValueError(f"{table.path}, {place(wrong[0])}: {value_name} must be {rule}, got {value[wrong[0]]:g}")
    order = sorted(range(len(names)), key=lambda at: names[at])
    items = [names[at] for at in order]
    users, user = codes_of(frame[user_name])
    present, codes = codes_of(frame[item_name])
    index = {name: at for at, name in enumerate(items)}
    known = np.array([index.get(name, -1) for name in present], dtype=np.int32)
    item = known[codes] if len(codes) else codes
    unknown = np.flatnonzero(item < 0)
    if unknown.size:
        row = int(unknown[0])
        raise ValueError(f"{table.path}, {place(row)}: {item_name} {frame[item_name][row]!r} is not in {items_path}")
    all_topics, membership = memberships([topics[at] for at in order])
    arrays = {"user": user, "item": item, "value": value, **time}
    interactions = Interactions(users, items, all_topics, membership=membership, **arrays)
    repeated = interactions.repeated()
    if repeated is None:
        return interactions
    if duplicates is None or duplicates == "error":
        choice = " (to allow this, set duplicates to 'last' or 'sum')" if duplicates else ""
        raise ValueError(
            f"{table.path}, {place(repeated)}: user {users[user[repeated]]!r} and item "
            f"{items[item[repeated]]!r} appear twice{choice}"
        )
    by_pair = pl.DataFrame(arrays).group_by("user", "item", maintain_order=True)
    last, total = [pl.col("value", *time).last()], [pl.col("value").sum(), *(pl.col(name).max() for name in time)]
    merged = by_pair.agg(last if duplicates == "last" else total)
    arrays = {name: np.array(merged[name].to_numpy()) for name in merged.columns}
    return Interactions(users, items, all_topics, membership=membership, **arrays)


def codes_of(column: pl.Series) -> tuple[list[Any], np.ndarray]:
    """Return the distinct names in a column in ascending order, and for each row the number of its name."""
    pl = polars()
    if column.dtype == pl.String:
        names = column.unique().sort()
        return names.to_list(), column.cast(pl.Enum(names)).to_physical().cast(pl.Int32).to_numpy()
    if column.dtype == pl.Categorical and len(column):
        distinct = column.unique()
        order = distinct.cast(pl.String).arg_sort()
        old = distinct.gather(order).to_physical().to_numpy()
        new = np.zeros(int(old.max()) + 1, dtype=np.int32)
        new[old] = np.arange(len(old), dtype=np.int32)
        return distinct.gather(order).cast(pl.String).to_list(), new[column.to_physical().to_numpy()]
    values = column.to_numpy()
    if not values.size:
        return [], np.empty(0, dtype=np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low < 10 * values.size + 1000:  # few gaps: count instead of sorting
        present = np.zeros(high - low + 1, dtype=bool)
        present[values - low] = True
        position = np.cumsum(present, dtype=np.int32) - np.int32(1)
        return (np.flatnonzero(present) + low).tolist(), position[values - low]
    unique, codes = np.unique(values, return_inverse=True)
    return unique.tolist(), codes.astype(np.int32)


def polars() -> Any:
    """Import polars and return it. If it is missing, raise an error that says what to install."""
    require("thali.datasets", "lab", "polars")
    import polars as library

    return library
