"""Everything that can be asked of a recommender, and the ways in which it can refuse.

An operation is plain data. :mod:`thali.service.recommender.handlers` says what each does, and
:mod:`thali.service.recommender.transaction` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

#: After every id of an impression.
AFTER_ALL = b"\xff" * 16


class Refused(ValueError):  # noqa: N818 (what happened, as HTTP says it too)
    """A request breaks a rule. Nothing was done."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}")
        self.field = field


class Unknown(LookupError):  # noqa: N818
    """There is no such user, item or impression: it never existed, expired, or was forgotten. Nothing was done."""


class Conflict(ValueError):  # noqa: N818
    """A request differs from what is recorded already. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Recommend:
    """Choose a list for a user, by the learner that the user is assigned to unless one is named."""

    user: str
    K: int | None = None
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] | None = None
    learner: str | None = None
    alpha: float | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Learn which positions of an impression were clicked, () for none; or that the time for an answer is over."""

    id: bytes
    clicked: Sequence[int]
    answer: str = "feedback"


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back the feedback on an impression."""

    id: bytes


@dataclass(frozen=True, slots=True)
class AddPast:
    """Add a list that was shown elsewhere, with what was clicked (None if unknown) and when (now by default)."""

    user: str
    items: Sequence[Any]
    clicked: Sequence[int] | None
    at: float | None = None
    learner: str | None = None


@dataclass(frozen=True, slots=True)
class SetMeta:
    """Store a value under a name, or remove it (None), in the same transaction as the other operations.

    was: the value that must be there now, if given; otherwise the operation is a :class:`Conflict`.
    """

    name: str
    value: str | None
    was: Any = ...


@dataclass(frozen=True, slots=True)
class GetImpression:
    """One impression."""

    id: bytes


@dataclass(frozen=True, slots=True)
class GetUser:
    """What is known of a user."""

    user: str


@dataclass(frozen=True, slots=True)
class GetStatistics:
    """M and B of a user, by learner."""

    user: str


@dataclass(frozen=True, slots=True)
class GetHistory:
    """A user's impressions before an id, latest first."""

    user: str
    before: bytes
    limit: int


@dataclass(frozen=True, slots=True)
class ForgetUser:
    """Remove everything about a user."""

    user: str


@dataclass(frozen=True, slots=True)
class GetItem:
    """One item and its weights."""

    item: Any


@dataclass(frozen=True, slots=True)
class FindItems:
    """A page of the items whose names contain a text, in the order of the catalog."""

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
    """Treat missing feedback as no click where it is overdue, for at most ``limit`` impressions."""

    limit: int


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove at most ``limit`` expired impressions. Needs a transaction of its own: it locks the oldest impressions."""

    limit: int


@dataclass(frozen=True, slots=True)
class GetStats:
    """How the learners do, over the last hours."""

    hours: int


@dataclass(frozen=True, slots=True)
class GetStoreSize:
    """How many bytes the store takes on disk."""


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
    """A value that passes a check of :mod:`thali.tools.checks`; otherwise the field is refused."""
    try:
        return check(field, value, **rule)
    except (TypeError, ValueError) as error:
        raise Refused(field, str(error).removeprefix(f"{field} ")) from None


def id_bytes(id: Any, field: str = "impression") -> bytes:
    """The bytes of an impression's id, which is written as a UUID."""
    if isinstance(id, str) and len(id) == 36:
        try:
            return UUID(id).bytes
        except ValueError:
            pass
    raise Refused(field, f"must be an impression's id, a UUID of 36 characters, got {id!r:.80}")


def id_text(id: bytes) -> str:
    """The id, written as a UUID."""
    text = id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
