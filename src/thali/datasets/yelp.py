"""Reviews of restaurants on Yelp: the original JSON files, and two samples as tables."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thali.datasets import fetch
from thali.datasets.files import collect, polars
from thali.datasets.interactions import Interactions
from thali.datasets.tables import tables

if TYPE_CHECKING:
    import polars as pl
    from polars import DataFrame

#: Businesses with this category are the items. The category itself is not a topic.
RESTAURANTS = "Restaurants"

#: The number of bytes of reviews to read at a time.
CHUNK = 1 << 26

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2})?"


def yelp(root: str | Path | None = None) -> Interactions:
    """Load the stars that users gave to restaurants, from Yelp's ``review.json`` and ``business.json``.

    The files may also be called ``yelp_academic_dataset_review.json`` and ``yelp_academic_dataset_business.json``.
    Items are the businesses with the category "Restaurants". Their other categories, if any, are the topics. Reviews of
    other businesses are ignored, but a review of a business that is not listed is an error. If a user reviewed a
    restaurant several times, only the review with the latest date counts. If dates are equal or missing, the last line
    counts. Malformed lines, missing fields and stars outside 1..5 are errors that name the file and line. Empty lines
    are skipped.

    root: the folder that contains ``yelp/``; by default ``$THALI_DATA``. thali cannot download these files.
    Cost: reviews are read in chunks, so memory depends on their number, not on the length of their text.
    """
    folder = fetch.folder("yelp", root)
    restaurants, others = _businesses(_file(folder, "business.json"))
    path = _file(folder, "review.json")
    reviews = _reviews(path, restaurants, others)
    names, topics = list(restaurants), list(restaurants.values())
    # Every line has been checked above, so collect() needs only the path of this table.
    table: Any = _CheckedFile(path)
    return collect(table, names, topics, items_path=folder / "business.json", duplicates="last", frame=reviews)


def yelp_core40(root: str | Path | None = None) -> Interactions:
    """Load a 40-core sample of the restaurants in round 12 of Yelp, from ``interactions.csv`` and ``items.csv``.

    root: the folder that contains ``yelp-core40/``; by default ``$THALI_DATA``.
    """
    folder = fetch.folder("yelp-core40", root)
    return tables(folder / "interactions.csv", folder / "items.csv")


def yelp_hin(root: str | Path | None = None) -> Interactions:
    """Load a sparser sample of Yelp, whose categories have no names, from ``interactions.csv`` and ``items.csv``.

    root: the folder that contains ``yelp-hin/``; by default ``$THALI_DATA``.
    """
    folder = fetch.folder("yelp-hin", root)
    return tables(folder / "interactions.csv", folder / "items.csv")


class _CheckedFile:
    """A file that has been read and is valid."""

    def __init__(self, path: Path) -> None:
        self.path = path


def _file(folder: Path, name: str) -> Path:
    """Return the path of a file, which may have its old or its new name."""
    for path in (folder / name, folder / f"yelp_academic_dataset_{name}"):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder} must contain {name} or yelp_academic_dataset_{name}, got neither")


def _businesses(path: Path) -> tuple[dict[str, list[str]], set[str]]:
    """Return the topics of each restaurant, and the businesses that are not restaurants."""
    restaurants: dict[str, list[str]] = {}
    others: set[str] = set()
    line = 0
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            fields = _object(path, line, text)
            name, given = _text(path, line, fields, "business_id"), fields.get("categories")
            if "categories" not in fields:
                raise ValueError(f"{path}, line {line}: the object must have a field categories, got {sorted(fields)}")
            categories = given.split(",") if isinstance(given, str) else [] if given is None else given
            if not isinstance(categories, list) or not all(isinstance(category, str) for category in categories):
                raise ValueError(
                    f"{path}, line {line}: categories must be a string or a list of strings, got {given!r}"
                )
            if name in restaurants or name in others:
                raise ValueError(f"{path}, line {line}: business {name!r} appears twice")
            topics = [category.strip() for category in categories if category.strip()]
            if RESTAURANTS in topics:
                restaurants[name] = [topic for topic in topics if topic != RESTAURANTS]
            else:
                others.add(name)
    if not line:
        raise ValueError(f"{path} is empty")
    return restaurants, others


def _reviews(path: Path, restaurants: dict[str, list[str]], others: set[str]) -> pl.DataFrame:
    """Return user, business and stars of the reviews of restaurants, ordered by date, then by line."""
    pl = polars()
    schema = {"user_id": pl.String, "business_id": pl.String, "stars": pl.Float64, "date": pl.String}
    wanted = pl.Series("business_id", list(restaurants), dtype=pl.String)
    known = pl.concat([wanted, pl.Series("business_id", list(others), dtype=pl.String)]).implode()
    pieces = [pl.DataFrame(schema=schema)]
    dated: bool | None = None
    for start, text in _pieces(path):
        try:
            piece = pl.read_ndjson(io.BytesIO(text), schema=schema)
        except pl.exceptions.PolarsError as error:
            _raise_first_error(path, start, text, dated, restaurants, others)
            raise ValueError(f"{path}, after line {start}: the reviews cannot be read: {error}") from error
        if dated is None:
            dated = piece["date"][0] is not None if len(piece) else None
        valid = (
            (pl.col("user_id").fill_null("") != "")
            & pl.col("business_id").is_in(known).fill_null(False)
            & pl.col("stars").is_between(1, 5).fill_null(False)
            & (pl.col("date").str.contains(f"^{_DATE}$").fill_null(False) if dated else pl.col("date").is_null())
        )
        if not piece.select(valid.all()).item():
            _raise_first_error(path, start, text, dated, restaurants, others)
            raise ValueError(f"{path}, after line {start}: a review is malformed")
        pieces.append(piece.filter(pl.col("business_id").is_in(wanted.implode())))
    if dated is None:
        raise ValueError(f"{path} is empty")
    rows = pl.concat(pieces)
    if dated:
        rows = rows.sort("date", maintain_order=True)
    reviews: DataFrame = rows.select("user_id", "business_id", "stars")
    return reviews


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, about CHUNK bytes at a time, together with the number of lines before them."""
    lines = 0
    with path.open("rb") as file:
        while text := file.read(CHUNK):
            text += file.readline()
            text += b"" if text.endswith(b"\n") else b"\n"
            yield lines, text
            lines += text.count(b"\n")


def _raise_first_error(
    path: Path, start: int, text: bytes, dated: bool | None, restaurants: dict[str, list[str]], others: set[str]
) -> None:
    """Check a piece of the file line by line, and raise an error for the first malformed review."""
    for line, review in enumerate(io.BytesIO(text), start=start + 1):
        if not review.strip():
            continue
        fields = _object(path, line, review)
        _text(path, line, fields, "user_id")
        business = _text(path, line, fields, "business_id")
        stars, date = fields.get("stars"), fields.get("date")
        if isinstance(stars, bool) or not isinstance(stars, int | float) or not 1 <= stars <= 5:
            raise ValueError(f"{path}, line {line}: stars must be a number from 1 to 5, got {stars!r}")
        if business not in restaurants and business not in others:
            raise ValueError(f"{path}, line {line}: business_id {business!r} is not in the list of businesses")
        dated = date is not None if dated is None else dated
        if dated and not (isinstance(date, str) and re.fullmatch(_DATE, date)):
            raise ValueError(f"{path}, line {line}: date must have a form such as 2017-01-31, got {date!r}")
        if not dated and date is not None:
            raise ValueError(f"{path}, line {line}: date must be given in every line or in none, got {date!r}")


def _object(path: Path, line: int, text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: the line must be a JSON object, got {text[:80]!r}: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"{path}, line {line}: the line must be a JSON object, got {text[:80]!r}")
    return fields


def _text(path: Path, line: int, fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{path}, line {line}: {name} must be a string that is not empty, got {value!r}")
    return value
