"""What can be asked of a recommender, and the ways in which it can say no."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID


class Refused(ValueError):  # noqa: N818 (what happened, as HTTP says it too)
    """What was asked for breaks a rule. Nothing was done."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}")
        self.field = field


class Unknown(LookupError):  # noqa: N818
    """There is no such user, item or impression: never was, expired, or forgotten. Nothing was done."""


class Conflict(ValueError):  # noqa: N818
    """It differs from what is recorded already. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Recommend:
    """A list for a user, by the learner that the user is assigned to unless one is named."""

    user: str
    K: int | None = None
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] | None = None
    learner: str | None = None
    alpha: float | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Which positions of an impression were clicked, () for none; or that the time for an answer is over."""

    id: bytes
    clicked: Sequence[int]
    answer: str = "feedback"


@dataclass(frozen=True, slots=True)
class Undo:
    """Take the feedback of an impression back."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Past:
    """A list that was shown elsewhere, when, and what was clicked (None if that is not known)."""

    user: str
    items: Sequence[Any]
    clicked: Sequence[int] | None
    at: float | None = None
    learner: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A word to keep in the store (None: no more), durable with the rest of the batch: how far a replay is.

    was: what it must have been, if that matters; else it is a :class:`Conflict`.
    """

    name: str
    value: str | None
    was: Any = ...


@dataclass(frozen=True, slots=True)
class Look:
    """An impression."""

    id: bytes


@dataclass(frozen=True, slots=True)
class LookUser:
    """What is known of a user."""

    user: str


@dataclass(frozen=True, slots=True)
class ExportUser:
    """A user's statistics, as they are."""

    user: str


@dataclass(frozen=True, slots=True)
class History:
    """A user's impressions before an id, the latest first."""

    user: str
    before: bytes
    limit: int


@dataclass(frozen=True, slots=True)
class Forget:
    """All of a user."""

    user: str


@dataclass(frozen=True, slots=True)
class LookItem:
    """An item."""

    item: Any


@dataclass(frozen=True, slots=True)
class LookItems:
    """A page of the items whose names hold some text, in the order of the catalog."""

    offset: int = 0
    limit: int = 100
    contains: str = ""


@dataclass(frozen=True, slots=True)
class PutItem:
    """An item with its weights by topic, new or changed."""

    item: Any
    weights: Mapping[Any, float]


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """An item that is to be shown no more."""

    item: Any


@dataclass(frozen=True, slots=True)
class TimeOut:
    """Give time-outs, to up to so many impressions."""

    limit: int


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove what is kept no longer, up to so many impressions. In a transaction of its own: it locks the oldest."""

    limit: int


@dataclass(frozen=True, slots=True)
class Stats:
    """How the learners do, over the last so many hours."""

    hours: int


@dataclass(frozen=True, slots=True)
class Size:
    """How many bytes the store takes on disk."""


Operation = (
    Recommend
    | Feedback
    | Undo
    | Past
    | Mark
    | Look
    | LookUser
    | ExportUser
    | History
    | Forget
    | LookItem
    | LookItems
    | PutItem
    | RemoveItem
    | TimeOut
    | Prune
    | Stats
    | Size
)


def checked(field: str, check: Callable[..., Any], value: Any, **rule: Any) -> Any:
    """A value that passes a check, or a refusal of the field."""
    try:
        return check(field, value, **rule)
    except (TypeError, ValueError) as error:
        raise Refused(field, str(error).removeprefix(f"{field} ")) from None


def id_bytes(id: Any, field: str = "impression") -> bytes:
    """The bytes of an impression's id, written as a UUID."""
    if isinstance(id, str) and len(id) == 36:
        try:
            return UUID(id).bytes
        except ValueError:
            pass
    raise Refused(field, f"must be an impression's id, a UUID of 36 characters, got {id!r:.80}")


def id_text(id: bytes) -> str:
    """The id as a UUID is written."""
    text = id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
