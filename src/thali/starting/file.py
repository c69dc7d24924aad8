"""A catalog file with everything that :func:`thali.fit` returns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from thali.catalog.catalog import Catalog
from thali.catalog.file import KEY as CATALOG_KEY
from thali.catalog.file import file_metadata, load_catalog, save_catalog
from thali.datasets.parquet import read_columns
from thali.policies import Prior
from thali.policies.quality import Quality
from thali.tools import checks
from thali.tools.types import Floats

if TYPE_CHECKING:
    from thali.starting.fit import Start

#: The key in the file's metadata under which the prior and everything else that is not a column is stored, as JSON.
KEY = "thali-start"
FORMAT = "thali-start-1"
#: The columns with the counts of the quality.
COUNTS = ("examined", "clicked")
# The fields of the JSON that must be there.
FIELDS = ("prior", "weight", "people", "rule")


class CatalogFile(NamedTuple):
    """What a catalog file contains. If :func:`thali.fit` has not made it, everything but the catalog is None."""

    catalog: Catalog
    prior: Prior | None
    """What is believed about a person before their first click."""
    quality: Quality | None
    """How often each item is liked. Its items have the numbers that they have in the catalog."""
    weight: float | None
    """How much a known like counts, compared with an examined position of a list."""
    people: int | None
    """The number of people from whom the prior was learned."""


def save_start(start: Start, path: str | os.PathLike[str]) -> None:
    """Write what :func:`thali.fit` returned to one catalog file, atomically.

    It is a file of :func:`thali.save_catalog`, which :func:`thali.load_catalog` can load, with two more columns,
    ``examined`` and ``clicked``: the counts of the quality. The prior, the weight of a like, the number of people and
    the rule of the quality are in the metadata. Names are converted to text, and removed items are not written.
    Items that were added to the catalog after the fit have no counts.
    """
    from thali.starting.fit import Start

    checks.instance("start of save_start", start, Start)
    catalog, quality = start.catalog, start.quality.copy()
    if quality.L > catalog.L:
        raise ValueError(
            f"quality of a start to save must have the items of the catalog ({catalog.L}), got {quality.L} items"
        )
    quality.grow(catalog.L)
    start.prior.arranged("a start to save", catalog.topics)
    about: dict[str, Any] = {
        "format": FORMAT,
        "prior": {"people": None, **start.prior.content},
        "weight": _weight(start.weight),
        "people": _people(start.people),
        "rule": quality.rule,
    }
    beta = _given_beta(quality)
    if beta is not None:
        about["beta"] = beta
    columns = {"examined": quality.examined, "clicked": quality.clicked}
    save_catalog(catalog, path, columns=columns, metadata={KEY: json.dumps(about)})


def load_catalog_file(path: str | os.PathLike[str]) -> CatalogFile:
    """Load everything that a catalog file contains. All numbers are the same as before, bit for bit.

    A file of :func:`thali.save_catalog`, or of another tool, contains only a catalog. It is an error if the parts of a
    file from :func:`thali.fit` are damaged, or do not fit together.
    """
    catalog = load_catalog(path)
    found = file_metadata(path, KEY)
    if found is None:
        return CatalogFile(catalog, None, None, None, None)
    try:
        about = _about(found)
        if file_metadata(path, CATALOG_KEY) is None:
            raise ValueError(f"the metadata {CATALOG_KEY!r}, which describes the catalog, is missing")
        weight, people = _weight(about["weight"]), _people(about["people"])
        prior = _loaded_prior(about["prior"], catalog, people)
        examined, clicked = _counts(Path(path), catalog.L)
        quality = Quality.from_counts(examined, clicked, rule=about["rule"], prior=about.get("beta"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} must be a complete file written by start.save: {error}") from error
    return CatalogFile(catalog, prior, quality, weight, people)


def _about(text: str) -> dict[str, Any]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata {KEY!r} must be valid JSON, got {text[:80]!r}: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"the metadata {KEY!r} must have the format {FORMAT!r}, got {text[:80]!r}")
    missing = [name for name in FIELDS if name not in about]
    if missing:
        raise ValueError(f"the metadata {KEY!r} must have the field {missing[0]!r}, got {', '.join(about)}")
    return about


def _loaded_prior(content: Any, catalog: Catalog, people: int) -> Prior:
    try:
        if isinstance(content, dict):  # earlier versions wrote the number of people only beside the prior
            content = {"people": people, **content}
        prior = Prior.from_content(content)
    except ValueError as error:
        raise ValueError(f"prior in the metadata {KEY!r} is not valid: {error}") from error
    prior.arranged(f"the metadata {KEY!r}", catalog.topics)
    return prior


def _counts(path: Path, L: int) -> list[Floats]:
    """Return the counts of the quality. A missing number is NaN, which Quality refuses."""
    frame = read_columns(path, COUNTS)
    for name in COUNTS:
        if not frame[name].dtype.is_numeric():
            raise ValueError(f"{name} must be a column of numbers, got {frame[name].dtype}")
    counts = [checks.floats(name, frame[name].to_numpy(), (None,), "(L,)") for name in COUNTS]
    if len(frame) != L:
        raise ValueError(f"the file must have {L} rows, one for each item, got {len(frame)}")
    return counts


def _weight(weight: Any) -> float:
    return checks.number("weight of a like", weight, low=0.0, strict=True)


def _people(people: Any) -> int:
    return checks.integer("people", people, low=0)


def _given_beta(quality: Quality) -> list[float] | None:
    """Return the prior of the quality if it was given, or None if it is learned from the counts, as after a fit."""
    fixed = Quality.from_counts(quality.examined, quality.clicked, rule=quality.rule, prior=quality.prior)
    return list(quality.prior) if fixed == quality else None
