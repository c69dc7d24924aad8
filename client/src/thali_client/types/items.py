"""Items and topics of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the catalog and its topic weights w̄."""

    item: Any
    weights: dict[Any, float]


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
