"""A catalog as one Parquet file, from which a service starts and which other tools can write."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Mapping
from hashlib import file_digest
from io import BytesIO
from itertools import compress
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import KINDS
from thali.datasets.files import codes_of, polars
from thali.datasets.parquet import read_columns, unreadable
from thali.tools import checks
from thali.tools.files import atomic_file
from thali.tools.types import Floats, Integers

if TYPE_CHECKING:
    import polars as pl

# The key in the file's metadata under which the order of the topics and the coverage are stored, as JSON.
KEY = "thali"
FORMAT = "thali-catalog-1"
# The format of a catalog with steady topics. Versions of thali that do not support them reject it.
STEADY_FORMAT = "thali-catalog-2"
COLUMNS = ("item", "topics", "weights")


def save_catalog(
    catalog: Catalog,
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a catalog to one Parquet file, atomically. Removed items are not written, so later items get lower numbers.

    The file has one row for each item, in the order of the item numbers, with the columns ``item`` (text), ``topics``
    (a list of text) and ``weights`` (a list of numbers). The metadata of the file contain all topics, in order, the
    coverage and, if some topics are steady, which topics fade. Names are converted to text, so that 5 becomes "5". It
    is an error if two names become the same text, or if the catalog has a custom coverage object.

    columns: more columns of the file by name, with one number for each item (L,), in the order of the item numbers.
    metadata: more metadata of the file, as text by key. :func:`load_catalog` reads neither of them.

    Cost: O(nnz + L), about 2 s for a million items with 3 topics each.
    """
    checks.instance("catalog of save_catalog", catalog, Catalog)
    if catalog.custom is not None:
        raise ValueError(
            f"coverage of a catalog to save must be {' or '.join(map(repr, KINDS))}, because a custom coverage object "
            f"cannot be saved, got {catalog.coverage!r}"
        )
    if not len(catalog):
        raise ValueError("catalog of save_catalog must have at least one item that has not been removed, got none")
    extra = _extra_columns(catalog, columns or {})
    if KEY in (metadata or {}):
        raise ValueError(f"metadata of save_catalog must not have the key {KEY!r}, which describes the catalog")
    pl = polars()
    items = _texts("items", compress(catalog.items, catalog.present))
    topics = _texts("topics", catalog.topics)
    matrix = catalog.csr if len(catalog) == catalog.L else catalog.csr[np.flatnonzero(catalog.present)]
    entries = pl.DataFrame(
        {
            "row": np.repeat(np.arange(len(items), dtype=np.uint32), np.diff(matrix.indptr)),
            "topics": pl.Series(topics, dtype=pl.String).gather(matrix.indices),
            "weights": matrix.data,
        }
    )
    lists = entries.group_by("row", maintain_order=True).agg("topics", "weights")
    frame = (
        pl.DataFrame({"item": items})
        .with_row_index("row")
        .join(lists, on="row", how="left")
        .sort("row")
        .with_columns(pl.col("topics").fill_null([]), pl.col("weights").fill_null([]))
    )
    about: dict[str, Any] = {"format": FORMAT, "topics": topics, "coverage": catalog.coverage}
    if not catalog.fading.all():
        about = {**about, "format": STEADY_FORMAT, "fading": catalog.fading.tolist()}
    written = BytesIO()  # so that a full disk raises OSError, not an error of polars
    frame = frame.select(COLUMNS).with_columns(pl.Series(name, values) for name, values in extra.items())
    frame.write_parquet(written, metadata={KEY: json.dumps(about), **(metadata or {})})
    with atomic_file(path) as file:
        file.write(written.getbuffer())


def load_catalog(path: str | os.PathLike[str]) -> Catalog:
    """Load a catalog from a file written by :func:`save_catalog` or by another tool. Weights are restored exactly.

    The file needs the columns ``item``, ``topics`` and ``weights`` (see :func:`save_catalog`). If it does not have the
    metadata that :func:`save_catalog` writes, topics are sorted by name, the coverage is probabilistic, and every topic
    fades. Names of items and topics are text of 1 to 256 characters; items that are whole numbers are converted to
    text. It is an error if a row has missing values, lists of different lengths, a duplicate topic, a weight outside
    [0, 1], or the same item as an earlier row. The message names the file and the row, counted from 1.

    Cost: O(nnz log nnz + L), about 2 s for a million items with 3 topics each.
    """
    target = Path(path)
    frame = read_columns(target, COLUMNS)
    if not len(frame):
        raise ValueError(f"{target} must have at least one row, got none")
    frame = _typed(target, frame)
    items = frame["item"].to_list()
    _check_names(target, items)
    sizes = _sizes(target, frame)
    rows = np.repeat(np.arange(len(items)), sizes)
    full = frame.filter(sizes > 0)  # polars before 2 turns an empty list into a null
    weights = _weights(target, full["weights"].explode(), rows)
    topics, coverage, fading, codes = _topics(target, full["topics"].explode(), rows)
    indptr = np.append(0, np.cumsum(sizes))
    try:
        matrix = sp.csr_array((weights, codes, indptr), shape=(len(items), len(topics)))
        return Catalog(matrix, items, topics, coverage, fading)
    except ValueError as error:
        raise ValueError(f"{target}: {error}") from error


def catalog_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 digest of a catalog file as 64 hexadecimal digits. It identifies the catalog."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def file_metadata(path: str | os.PathLike[str], key: str) -> str | None:
    """Return the text with this key in the metadata of a Parquet file, or None if there is none."""
    try:
        found: str | None = polars().read_parquet_metadata(path).get(key)
    except unreadable() as error:
        raise ValueError(f"{path} is not a complete Parquet file: {error}") from error
    return found


def _extra_columns(catalog: Catalog, columns: Mapping[str, Any]) -> dict[str, Floats]:
    """Check columns of numbers, and return them without the removed items."""
    checked = {}
    for name, values in columns.items():
        if name in COLUMNS:
            raise ValueError(f"columns of save_catalog must not be called {', '.join(COLUMNS)}, got {name!r}")
        numbers = checks.floats(f"column {name!r} of save_catalog", values, (catalog.L,), "(L,)")
        checked[name] = numbers[catalog.present]
    return checked


def _texts(what: str, names: Iterable[Hashable]) -> list[str]:
    """Return names as text. Raise ValueError if two names become the same text."""
    texts: dict[str, Hashable] = {}
    for name in names:
        text = checks.text_name(f"{what} to save", str(name) if isinstance(name, Real) else name)
        if text in texts:
            raise ValueError(
                f"{what} to save must stay distinct when converted to text, got {texts[text]!r} and {name!r}"
            )
        texts[text] = name
    return list(texts)


def _typed(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns as text, lists of text and lists of float64. Raise ValueError if a column has another type."""
    pl = polars()
    text = (pl.String, pl.Categorical, pl.Enum)
    item = frame["item"].dtype
    if not (item in text or item.is_integer()):
        raise ValueError(f"{path}: item must be a column of text or of whole numbers, got {item}")
    for name, what in (("topics", "text"), ("weights", "numbers")):
        kind = frame[name].dtype
        inner = getattr(kind, "inner", None) if kind in (pl.List, pl.Array) else None
        # If all lists are empty, the tool that wrote the file may not have stored their type.
        if inner is None or not (
            inner == pl.Null or (inner in text if name == "topics" else inner.is_integer() or inner.is_float())
        ):
            raise ValueError(f"{path}: {name} must be a column of lists of {what}, got {kind}")
    return frame.with_columns(
        pl.col("item").cast(pl.String),
        pl.col("topics").cast(pl.List(pl.String)),
        pl.col("weights").cast(pl.List(pl.Float64)),
    )


def _check_names(path: Path, items: list[Any]) -> None:
    """Raise ValueError unless every item has a valid, unique name."""
    seen: set[str] = set()
    for row, name in enumerate(items, start=1):
        try:
            seen.add(checks.text_name("item", name))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, row {row}: {error}") from None
        if len(seen) < row:
            raise ValueError(f"{path}, row {row}: item {name!r} appears twice")


def _sizes(path: Path, frame: pl.DataFrame) -> Integers:
    """Return the number of topics of each item."""
    pl = polars()
    lengths = frame.select(pl.col("topics", "weights").list.len())
    bad = lengths["topics"].ne_missing(lengths["weights"]) | lengths["topics"].is_null()
    if bad.any():
        row = int(bad.arg_true()[0])
        topics, weights = frame.row(row)[1:]
        raise ValueError(
            f"{path}, row {row + 1}: topics and weights must be lists of the same length, got {topics} and {weights}"
        )
    return np.asarray(lengths["topics"].cast(pl.Int64).to_numpy())


def _weights(path: Path, column: pl.Series, rows: Integers) -> Any:
    """Check that all weights are from 0 to 1, and return them."""
    weights = column.to_numpy()  # a null becomes NaN
    bad = np.flatnonzero(~((weights >= 0.0) & (weights <= 1.0)))
    if bad.size:
        got = column[int(bad[0])]
        raise ValueError(f"{path}, row {rows[bad[0]] + 1}: a weight must be a number from 0 to 1, got {got!r}")
    return weights


def _topics(path: Path, column: pl.Series, rows: Integers) -> tuple[list[str], str, Any, Integers]:
    """Return the names of all topics, the coverage, which topics fade, and the topic number of each entry."""
    if column.null_count():
        row = int(rows[column.is_null().arg_true()[0]])
        raise ValueError(f"{path}, row {row + 1}: a topic must not be empty, got None")
    present, codes = codes_of(column)
    about = _about(path)
    topics, coverage, fading = (present, "probabilistic", None) if about is None else about
    at = {name: j for j, name in enumerate(topics)}
    for code, name in enumerate(present):
        try:
            checks.text_name("a topic", name)
            if name not in at:
                raise ValueError(f"topic {name!r} is not in the list of topics in the file's metadata")
        except ValueError as error:
            raise ValueError(f"{path}, row {rows[np.argmax(codes == code)] + 1}: {error}") from None
    if not topics:
        raise ValueError(f"{path} must have at least one topic, got none")
    place = np.array([at[name] for name in present], dtype=np.int64)[codes] if present else np.empty(0, dtype=np.int64)
    keys = rows * len(topics) + place
    order = np.argsort(keys, kind="stable")
    again = order[1:][np.diff(keys[order]) == 0]
    if again.size:
        entry = again.min()
        raise ValueError(f"{path}, row {rows[entry] + 1}: topic {topics[place[entry]]!r} appears twice")
    return topics, coverage, fading, place


def _about(path: Path) -> tuple[list[str], str, Any] | None:
    """Return the topics in order, the coverage and which topics fade, from the file's metadata.

    Return None if another tool wrote the file.
    """
    found = file_metadata(path, KEY)
    if found is None:
        return None
    try:
        about = json.loads(found)
        if not isinstance(about, dict) or about.get("format") not in (FORMAT, STEADY_FORMAT):
            raise ValueError(f"format must be {FORMAT!r} or {STEADY_FORMAT!r}, got {found[:80]!r}")
        topics = [checks.text_name("a topic", name) for name in checks.sequence("topics", about.get("topics"))]
        if len(set(topics)) < len(topics):
            raise ValueError(f"topics must be unique, got {topics}")
        fading = None
        if about["format"] == STEADY_FORMAT:
            fading = checks.booleans("fading", about.get("fading"), (len(topics),), "(d,)", "one for each topic")
        return topics, checks.one_of("coverage", about.get("coverage"), list(KINDS)), fading
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: the metadata {KEY!r} must be as written by save_catalog: {error}") from error
