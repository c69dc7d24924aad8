"""The options for your own tables of interactions and items, which several commands have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from thali.datasets.interactions import Interactions


class Duplicates(StrEnum):
    """What to do if a user and item appear together more than once."""

    error = "error"
    last = "last"
    sum = "sum"


Separator = Annotated[str | None, typer.Option(help="Character between the topics of an item in --items (default: |).")]
DuplicatesOption = Annotated[
    Duplicates | None,
    typer.Option(
        help="What to do if a user and an item appear together in more than one row: stop with an error, keep the "
        "last value, or add up the values (default: error)."
    ),
]
AtLeast = Annotated[
    float | None,
    typer.Option(help="Count only interactions whose value is at least this (default: count all)."),
]
MostActiveUsers = Annotated[
    int | None,
    typer.Option(min=1, help="Keep only this many users: those with the most interactions (default: all)."),
]
MostActiveItems = Annotated[
    int | None,
    typer.Option(min=1, help="Keep only this many items: those with the most interactions (default: all)."),
]


@dataclass(frozen=True)
class Tables:
    """The values of these options. They can only be used with --interactions."""

    interactions: Path | None
    items: Path | None
    separator: str | None
    duplicates: Duplicates | None
    at_least: float | None
    most_active_users: int | None
    most_active_items: int | None

    def refuse(self, reason: str, **others: Any) -> None:
        """Raise ValueError if one of these options except --interactions and --items, or of others, is given."""
        given = {
            "separator": self.separator,
            "duplicates": self.duplicates,
            "at_least": self.at_least,
            "most_active_users": self.most_active_users,
            "most_active_items": self.most_active_items,
            **others,
        }
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"--{name.replace('_', '-')} can only be used with --interactions, {reason}")

    def read(self) -> Interactions:
        """Read the tables, keep the interactions that count, and print how many there are."""
        from thali.datasets import tables

        if self.interactions is None or self.items is None:
            raise ValueError("--interactions needs --items, a table with the topics of each item")
        data = tables(
            self.interactions,
            self.items,
            separator="|" if self.separator is None else self.separator,
            duplicates=(self.duplicates or Duplicates.error).value,
        )
        kept = data.most_active(users=self.most_active_users, items=self.most_active_items)
        counted = kept if self.at_least is None else kept.attracted(self.at_least)
        if not len(counted):
            rule = "" if self.at_least is None else f" with a value of at least {self.at_least:g}"
            raise ValueError(f"{self.interactions} must contain an interaction{rule}, got none among {len(kept)}")
        print(f"{self.interactions}: {len(data):,} interactions, {len(counted):,} of them counted")
        return counted
