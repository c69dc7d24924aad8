"""The operations of a recommender, and the exceptions with which it rejects them.

An operation is a request as plain data. The functions in :mod:`thali.service.recommender.handlers` carry operations
out, in transactions that :mod:`thali.service.recommender.transaction` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any
from uuid import UUID

#: Greater than the id of every impression.
AFTER_ALL = b"\xff" * 16


class Refused(ValueError):  # noqa: N818 (named after what happened)
    """A request breaks a rule. Nothing was changed."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}")
        self.field = field


class Unknown(LookupError):  # noqa: N818
    """There is no such user, item or impression: it never existed, has expired, or was removed. Nothing was changed."""


class Conflict(ValueError):  # noqa: N818
    """A request contradicts what is already recorded. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Recommend:
    """Choose a list for a user. If no learner is given, the user's assigned learner chooses it."""

    user: str
    K: int | None = None
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] | None = None
    learner: str | None = None
    alpha: float | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Learn which positions of an impression were clicked, or () if none was.

    answer: "feedback", or "time-out" if the time for feedback has passed.
    """

    id: bytes
    clicked: Sequence[int]
    answer: str = "feedback"


@dataclass(frozen=True, slots=True)
class Undo:
    """Undo the feedback on an impression."""

    id: bytes


@dataclass(frozen=True, slots=True)
class AddPast:
    """Learn from a list that was shown elsewhere.

    clicked: the clicked positions, or None if they are unknown. at: when the list was shown, by default now.
    """

    user: str
    items: Sequence[Any]
    clicked: Sequence[int] | None
    at: float | None = None
    learner: str | None = None


@dataclass(frozen=True, slots=True)
class SetMeta:
    """Store a value under a name, or remove the stored value (None), in the same transaction as other operations.

    expected: if given, the value that must be stored now. If it is not, the operation fails with :class:`Conflict`.
    """

    name: str
    value: str | None
    expected: Any = ...


@dataclass(frozen=True, slots=True)
class GetImpression:
    """Return an impression."""

    id: bytes


@dataclass(frozen=True, slots=True)
class GetUser:
    """Return a user's tastes and counts."""

    user: str


@dataclass(frozen=True, slots=True)
class GetStatistics:
    """Return a user's statistics M and B, by learner."""

    user: str


@dataclass(frozen=True, slots=True)
class GetHistory:
    """Return a user's impressions before an id, latest first."""

    user: str
    before: bytes
    limit: int


@dataclass(frozen=True, slots=True)
class ForgetUser:
    """Remove everything about a user."""

    user: str


@dataclass(frozen=True, slots=True)
class GetItem:
    """Return an item and its weights."""

    item: Any


@dataclass(frozen=True, slots=True)
class FindItems:
    """Return a page of the items whose names contain a text, in the order of the catalog."""

    offset: int = 0
    limit: int = 100
    contains: str = ""


@dataclass(frozen=True, slots=True)
class PutItem:
    """Add an item, or change its weights by topic."""

    item: Any
    weights: Mapping[Any, float]


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """Remove an item from the catalog."""

    item: Any


@dataclass(frozen=True, slots=True)
class TimeOut:
    """Treat overdue feedback as no click, for at most ``limit`` impressions."""

    limit: int


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove at most ``limit`` expired impressions. Must be alone in its transaction, because it locks impressions."""

    limit: int


@dataclass(frozen=True, slots=True)
class GetStats:
    """Return the stats of the learners over the last hours."""

    hours: int


@dataclass(frozen=True, slots=True)
class GetStoreSize:
    """Return how many bytes the store uses on disk."""


Operation = (
    Recommend
    | Feedback
    | Undo
    | AddPast
    | SetMeta
    | GetImpression
    | GetUser
    | GetStatistics
    | GetHistory
    | ForgetUser
    | GetItem
    | FindItems
    | PutItem
    | RemoveItem
    | TimeOut
    | Prune
    | GetStats
    | GetStoreSize
)


def checked(field: str, check: Callable[..., Any], value: Any, **rule: Any) -> Any:
    """Return a value after a check of :mod:`thali.tools.checks`. Raises :class:`Refused` if the check fails."""
    try:
        return check(field, value, **rule)
    except (TypeError, ValueError) as error:
        raise Refused(field, str(error).removeprefix(f"{field} ")) from None


def item_name(field: str, name: Any) -> str | int:
    """Check that something can be the name of an item: text, or a whole number."""
    if isinstance(name, str):
        return name
    if isinstance(name, Integral) and not isinstance(name, bool):
        return int(name)
    raise Refused(field, f"must be text or a whole number, got {name!r:.80}")


def id_bytes(id: Any, field: str = "impression") -> bytes:
    """Return the bytes of an impression's id, which is written as a UUID."""
    if isinstance(id, str) and len(id) == 36:
        try:
            return UUID(id).bytes
        except ValueError:
            pass
    raise Refused(field, f"must be the id of an impression, a UUID of 36 characters, got {id!r:.80}")


def id_text(id: bytes) -> str:
    """Write an impression's id as a UUID."""
    text = id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
