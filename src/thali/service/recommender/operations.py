"""The operations of a recommender, and the exceptions with which it rejects them.

An operation is a request as plain data. The functions in :mod:`thali.service.recommender.handlers` carry operations
out, in transactions that :mod:`thali.service.recommender.transaction` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple
from uuid import UUID

from thali.policies.linear.prior import Prior
from thali.tools.types import Floats

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

    #: The field of the request that contradicts it.
    field: str | None = None
    #: If users were forgotten while a prior was learned from them, their names.
    forgotten: frozenset[str] = frozenset()
    #: The value of the store that changes when a user is forgotten, at the time of the conflict.
    forgets: str | None = None


@dataclass(frozen=True, slots=True)
class Recommend:
    """Choose a list for a user. If no learner is given, the user's assigned learner chooses it."""

    user: str
    K: int | None = None
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] | None = None
    learner: str | None = None
    alpha: float | None = None
    hide: Any = None
    """The rule by which items are hidden, as text, instead of that of the service."""
    explain: bool = False
    """Whether to return the parts of each item by topic, and reasons in words."""


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
class AddHistory:
    """Learn what is known about a user from elsewhere, such as ratings or purchases. Does nothing the second time.

    S = Σ c·xxᵀ (d, d) and B = Σ c·x·like (d,), where x is the weights of an item that the user met, and c is how much
    it counts. They are added to M and B as M + σ⁻²S and B + B. People may share one S. liked: the names of the liked
    items, the latest last, which are hidden if clicked items are. digest: of the user's data. A history with the same
    name and digest is already known, so nothing changes. One with another digest is replaced.
    """

    user: str
    history: str
    S: Floats
    B: Floats
    liked: Sequence[Any]
    digest: str
    learner: str | None = None
    shared: bool = True
    """Whether other people have the same S, which is then stored once and says nothing about a person."""


@dataclass(frozen=True, slots=True)
class RemoveHistory:
    """Remove a user's history with this name from the statistics of all learners, as if it had never been added.

    learner: if given, only from the statistics of this learner.
    """

    user: str
    history: str
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
    """Add an item, or change its weights by topic.

    topics: the names of its topics, instead of weights. It then gets the weights that items with these topics usually
    have.
    """

    item: Any
    weights: Mapping[Any, float] | None = None
    topics: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class PutItems:
    """Add, change or remove many items: all of them or, if one is not valid, none."""

    changes: Sequence[PutItem | RemoveItem]
    typical: Mapping[tuple[str, ...], Mapping[Any, float]] = field(default_factory=dict)
    """The usual weights by sets of topics that were computed before (:func:`usual_weights`)."""
    epoch: int | None = None
    """The epoch of the catalog from which they were computed."""


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """Remove an item from the catalog."""

    item: Any


@dataclass(frozen=True, slots=True)
class GetPrior:
    """Return the priors of the learners."""


class Basis(NamedTuple):
    """From what a prior was learned."""

    store: str | None
    """The identity of the contents of the store, which changes when a backup is restored."""
    topics: int
    """The number of the topics, in the store."""
    start: str | None
    """A digest of the prior and the counts of the catalog file from which the learning started."""
    forgets: str | None
    """The value of the store that changes when a user is forgotten, as it was when the users were read."""
    users: Mapping[str, bytes]
    """The users, with a digest of their statistics. One of them must not have been forgotten."""


@dataclass(frozen=True, slots=True)
class SetPrior:
    """Put a learned prior of a learner into use or, with None, the prior from which the learner started.

    people: the number of people from whom it was learned. fell_back: whether the service itself has decided to return
    to the prior from which the learner started, because the learned one made worse predictions.
    """

    learner: str
    prior: Prior | None
    people: int = 0
    fell_back: bool = False
    basis: Basis | None = None
    """From what it was learned. If that has changed meanwhile, the operation fails with Conflict."""
    instead_of: int | None = None
    """If given, and another version of the prior is in use by now, the operation fails with Conflict."""


@dataclass(frozen=True, slots=True)
class UseCatalog:
    """Put another catalog into use, for all processes. Must be alone in its transaction.

    loaded: a :class:`thali.service.recommender.loading.LoadedCatalog`. path: its file, for other processes.
    """

    loaded: Any
    path: str
    discard_changes: bool = False


@dataclass(frozen=True, slots=True)
class RefreshQuality:
    """Count the clicks since the last call for the quality of items, and put the new values into use."""


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
    | AddHistory
    | RemoveHistory
    | PutItems
    | GetPrior
    | SetPrior
    | RefreshQuality
    | UseCatalog
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
