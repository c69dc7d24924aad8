"""The options for your own tables and logs, which several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from thali.datasets.interactions import Interactions
    from thali.datasets.log import Log

# At most this many names of items that were left out are printed.
MOST_NAMES = 5


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

    def refuse(self, reason: str, *, separator: bool = True, **others: Any) -> None:
        """Raise ValueError if one of these options except --interactions and --items, or of others, is given.

        separator: whether --separator is refused too.
        """
        given = {
            "separator": self.separator if separator else None,
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
        """Read both tables, keep the interactions that count, and print how many there are."""
        self._need_items()
        return self.read_known(only_known=False)

    def read_known(self, *, needs_items: bool = False, only_known: bool = True) -> Interactions:
        """Read the tables, keep the interactions that count, and print how many there are.

        needs_items: whether --items must be given. only_known: whether interactions with items that --items does not
        have are left out. What was left out is printed. Otherwise, such an interaction is an error.
        """
        from thali.datasets.tables import tables, tables_of_known_items

        if needs_items:
            self._need_items()
        assert self.interactions is not None
        separator = "|" if self.separator is None else self.separator
        duplicates: Any = (self.duplicates or Duplicates.error).value
        left_out = ""
        if self.items is not None and only_known:
            data, unknown = tables_of_known_items(
                self.interactions, self.items, separator=separator, duplicates=duplicates
            )
            if unknown.interactions:
                number, rows = len(unknown.items), unknown.interactions
                said = f"{_count(rows, 'interaction')} with {_count(number, 'item')} that {self.items} does not have "
                said += "was left out" if rows == 1 else "were left out"
                left_out = f"{self.interactions}: {said}: {_some(unknown.items, number)}\n"
        else:
            data = tables(self.interactions, self.items, separator=separator, duplicates=duplicates)
        kept = data.most_active(users=self.most_active_users, items=self.most_active_items)
        counted = kept if self.at_least is None else kept.attracted(self.at_least)
        if not len(counted):
            rule = "" if self.at_least is None else f" with a value of at least {self.at_least:g}"
            rule += f" with an item that {self.items} has" if left_out else ""
            ones = " (without a column 'value', each row counts as 1)" if (kept.value == 1.0).all() else ""
            raise ValueError(f"{self.interactions} must contain an interaction{rule}, got none among {len(kept)}{ones}")
        print(f"{left_out}{self.interactions}: {len(data):,} interactions, {len(counted):,} of them counted")
        if self.at_least is None and (data.value != data.value[:1]).any():
            note_ratings(self.interactions)
        return counted

    def _need_items(self) -> None:
        if self.interactions is None or self.items is None:
            raise ValueError("--interactions needs --items, a table with the topics of each item")


def note_ratings(path: Path) -> None:
    """Say that low ratings count as likes, too."""
    typer.echo(
        f"Note: every row of {path} counts as something that the person liked, although the values differ. If they are "
        "ratings, use --at-least.",
        err=True,
    )


def read_log(path: Path, items: Path | None, separator: str | None) -> Log:
    """Read a log of lists, and print how many lists there are.

    If there is a table of items, other items are left out of the lists. What was left out is printed.
    """
    from thali.datasets.log import Log
    from thali.datasets.tables import item_topics

    separator = "|" if separator is None else separator
    log = Log.read(path, items, separator=separator)
    if items is not None:
        listed = item_topics(items, separator)
        log = log.within([name for name in log.items if str(name) in listed])
        dropped = log.dropped
        if dropped.items:
            were = "was" if dropped.items == 1 else "were"
            print(
                f"{path}: {_count(dropped.items, 'item')} that {items} does not have {were} left out of the lists "
                f"({_count(dropped.positions, 'position')}): {_some(dropped.names, dropped.items)}"
            )
    if not log.clicked.any():
        rule = "" if items is None else f" on an item that {items} has"
        raise ValueError(f"{path} must contain a click{rule}, got none in {_count(len(log), 'list')}")
    unknown = f" ({_count(log.unanswered, 'list')} without known clicks left out)" if log.unanswered else ""
    print(f"{path}: {_count(len(log), 'list')}, {_count(int(log.clicked.sum()), 'click')}{unknown}")
    return log


def _some(names: Sequence[Any], number: int) -> str:
    """Return some of these names, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return f"{shown} and {number - MOST_NAMES:,} more" if number > MOST_NAMES else shown


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
