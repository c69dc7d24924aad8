"""Read lists that were shown: the log of ``thali replay``, or Metarank's events. For :meth:`thali.Log.read`."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from thali.datasets.tables import item_topics
from thali.tools import checks

#: The fields of a line in the log of ``thali replay``. The first three are required.
FIELDS = ("user", "items", "clicked", "time", "learner")
#: The number of a line and the JSON object in it.
Line = tuple[int, dict[str, Any]]
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_ALL_DIGITS = re.compile(r"-?[0-9]{1,18}")


class Shown(NamedTuple):
    """A list that was shown."""

    user: Any
    items: Sequence[Any]
    clicked: Sequence[int]
    """The clicked positions, from 0."""
    time: float
    """In seconds; NaN if unknown."""


class Content(NamedTuple):
    """What a file of lists contains."""

    rows: list[Shown]
    topics: Mapping[Any, Iterable[Hashable]]
    """The topics of every item that is listed in the file or in a table of items, whether it was shown or not."""
    titles: dict[Any, str]
    unanswered: int
    """The number of lists for which it is not known what was clicked. They are not in rows."""


def shown(user: Any, items: Any, clicked: Any, time: Any) -> Shown | None:
    """Check one list, and return it, or None if clicked is None. An error does not say where the list is."""
    names = checks.sequence("items", items)
    if not names:
        raise ValueError("items must contain at least one item, got []")
    for name in names:
        if not isinstance(name, Hashable):
            raise TypeError(f"items must be hashable, got {name!r:.80}")
    if len(set(names)) < len(names):
        twice = next(name for n, name in enumerate(names) if name in names[:n])
        raise ValueError(f"items must not contain an item twice, got {twice!r} twice")
    at = nan if time is None else checks.number("time", time, low=-checks.MOST_COUNT, high=checks.MOST_COUNT)
    if clicked is None:
        return None
    positions = [checks.integer("clicked", k, low=0, high=len(names) - 1) for k in checks.sequence("clicked", clicked)]
    if len(set(positions)) < len(positions):
        raise ValueError(f"clicked must not contain a position twice, got {positions}")
    return Shown(user, names, positions, at)


def read(path: Path, items: Path | None, separator: str, topics: str) -> Content:
    """Read a file in one of the two formats, plain or compressed by gzip. The first line tells which format it is.

    items: a table of items and topics, or None. separator: the text between two topics in this table. topics: the field
    of Metarank's item events that contains the topics. An error names the file and the line.
    """
    table = {} if items is None else item_topics(items, separator)
    lines = _objects(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path} is empty")
    if "event" in first[1]:
        content = _metarank(path, chain([first], lines), topics)
        content = content._replace(topics={**content.topics, **table})
    else:
        content = _replay(path, chain([first], lines), table)
    return _whole_names(content)


def _objects(path: Path) -> Iterator[Line]:
    """Yield the number of every line that is not empty, and the JSON object in it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be an existing file with lines of JSON, found none")
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    number = 0
    try:
        with gzip.open(path) if compressed else path.open("rb") as lines:
            for number, text in enumerate(lines, start=1):
                line = text.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else text.strip()
                if line:
                    yield number, _object(path, number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} must be a complete gzip file, got an error after line {number}: {error}") from None


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}: the line must be valid JSON, got {line[:80]!r}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}, line {number}: the line must be a JSON object, got {line[:80]!r}")
    return found


def _replay(path: Path, lines: Iterable[Line], table: dict[str, Any]) -> Content:
    """Read the log of ``thali replay``. table: the topics of items."""
    rows: list[Shown] = []
    unanswered = 0
    for number, line in lines:
        if not {*FIELDS[:3]} <= line.keys() <= set(FIELDS):
            raise ValueError(
                f"{path}, line {number}: the object must have the fields user, items and clicked, and optionally time "
                f"and learner, got {', '.join(line) or 'none'}"
            )
        try:
            names = [_name("an item", name) for name in checks.sequence("items", line["items"])]
            row = shown(_name("user", line["user"]), names, line["clicked"], line.get("time"))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if row is None:
            unanswered += 1
        else:
            rows.append(row)
    return Content(rows, table, {}, unanswered)


def _metarank(path: Path, lines: Iterable[Line], topics_field: str) -> Content:
    """Read the events item, ranking and interaction. Events may be in any order. Each interaction counts as a click.

    If there are several events for an item, a field has the value in the last event that has this field.
    """
    rankings: dict[str, tuple[Shown, dict[str, int]]] = {}
    interactions: list[tuple[int, str, str]] = []
    topics: dict[str, list[str]] = {}
    titles: dict[str, str] = {}
    for number, event in lines:
        try:
            kind = event.get("event")
            if kind == "item":
                name, fields = _name("item", _field(event, "item")), _fields(event)
                topics.setdefault(name, [])
                if topics_field in fields:
                    topics[name] = _topics(topics_field, fields[topics_field])
                if isinstance(fields.get("title"), str):
                    titles[name] = fields["title"]
            elif kind == "ranking":
                key = _name("id", _field(event, "id"))
                if key in rankings:
                    raise ValueError(f"id must be different for each ranking, got {key!r} twice")
                names = [_name("id of an item", _field(item, "id")) for item in _list(event, "items")]
                row = shown(_name("user", _field(event, "user")), names, [], _seconds(_field(event, "timestamp")))
                assert row is not None
                rankings[key] = row, {name: k for k, name in enumerate(names)}
            elif kind == "interaction":
                ranking, item = (_name(field, _field(event, field)) for field in ("ranking", "item"))
                interactions.append((number, ranking, item))
            elif kind != "user":
                raise ValueError(f"event must be 'item', 'ranking', 'interaction' or 'user', got {kind!r}")
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    clicked: dict[str, set[int]] = {key: set() for key in rankings}
    for number, ranking, item in interactions:
        if ranking not in rankings:
            raise ValueError(f"{path}, line {number}: ranking must be the id of a ranking, got {ranking!r}")
        if item not in rankings[ranking][1]:
            raise ValueError(
                f"{path}, line {number}: item must be in the list that was shown as ranking {ranking!r}, got {item!r}"
            )
        clicked[ranking].add(rankings[ranking][1][item])
    rows = [row._replace(clicked=sorted(clicked[key])) for key, (row, _) in rankings.items()]
    return Content(rows, topics, titles, 0)


def _name(what: str, value: Any) -> str:
    """Check the name of a user or an item: text, or a whole number, which is converted to text."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{what} must be text that is not empty, or a whole number, got {value!r:.80}")


def _field(event: Any, name: str) -> Any:
    if not isinstance(event, dict) or name not in event:
        fields = ", ".join(event) if isinstance(event, dict) else f"{event!r:.80}"
        raise ValueError(f"the object must have a field {name}, got {fields}")
    return event[name]


def _list(event: dict[str, Any], name: str) -> list[Any]:
    value = _field(event, name)
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {value!r:.80}")
    return value


def _fields(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an item event by name. In the file, they are a list of objects with name and value."""
    given = _list(event, "fields") if event.get("fields") is not None else []
    return {str(_field(field, "name")): _field(field, "value") for field in given}


def _topics(field: str, value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"field {field} of an item must be text or a list of texts, got {value!r:.80}")
    return [name.strip() for name in names if name.strip()]


def _seconds(timestamp: Any) -> float:
    """Convert milliseconds since 1970, as text or as a whole number, to seconds."""
    text = str(timestamp) if isinstance(timestamp, int | str) else ""
    if not _ALL_DIGITS.fullmatch(text):
        raise ValueError(f"timestamp must be a whole number of milliseconds, got {timestamp!r:.80}")
    return int(text) / 1000.0


def _whole_names(content: Content) -> Content:
    """Convert the names of users to whole numbers if all of them are whole numbers, and the same for items."""
    rows, topics, titles, unanswered = content
    if all(_WHOLE.fullmatch(row.user) for row in rows):
        rows = [row._replace(user=int(row.user)) for row in rows]
    names = set(topics).union(*(row.items for row in rows))
    if all(map(_WHOLE.fullmatch, names)):
        number = {name: int(name) for name in names}
        rows = [row._replace(items=[number[name] for name in row.items]) for row in rows]
        topics = {number[name]: of_item for name, of_item in topics.items()}
        titles = {number[name]: title for name, title in titles.items()}
    return Content(rows, topics, titles, unanswered)
