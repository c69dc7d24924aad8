"""Items and topics of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ItemQuality:
    """How good an item is beyond its topics, as it was last refreshed."""

    examined: float
    """Examinations, including those that the catalog file came with."""
    clicked: float
    mean: float
    """The estimated quality. It is that of the catalog file if the item is clicked as often as expected."""
    deviation: float
    """Its uncertainty, as a standard deviation."""


@dataclass(frozen=True, slots=True)
class ItemsChanged:
    """How many items a bulk update has added, changed or removed."""

    changed: int


@dataclass(frozen=True, slots=True)
class CatalogLoaded:
    """The catalog that was put into use."""

    items: int
    topics: list[str]


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the catalog and its topic weights w̄."""

    item: Any
    weights: dict[Any, float]
    quality: ItemQuality | None = None
    """How often the item is clicked, if the catalog has a quality."""


@dataclass(frozen=True, slots=True)
class Items:
    """A page of items."""

    total: int
    """Number of items on all pages."""
    items: list[Item]
    next: int | None
    """Offset of the next page; None on the last page."""


@dataclass(frozen=True, slots=True)
class Topics:
    """All topics, in the order of the catalog."""

    topics: list[str]
