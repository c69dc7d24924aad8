"""What the service replies, as dataclasses. Fields that a newer service adds are not read; one missing is an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thali.client.connection import ERRORS, ServiceError


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list, and why it is there."""

    position: int
    item: str
    topics: tuple[str, ...]
    gains: dict[str, float]
    """What it adds to those before it, by topic."""
    belief: float
    """How attractive it is believed to be."""
    exploration: float
    """What was added for not knowing."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A list as it was shown, and its answer."""

    id: str
    user: str
    learner: str
    shown_at: float
    click_probability: float
    """Of at least one click, as believed."""
    items: tuple[Item, ...]
    clicked: tuple[int, ...] | None = None
    """Positions; None while there is no answer."""
    answer: str | None = None
    """Where the answer came from."""
    answered_at: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is recorded as the answer to an impression."""

    impression: str
    clicked: tuple[int, ...] | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Taste:
    """What is learned of a user and a topic."""

    topic: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Learned:
    """What one learner knows of a user."""

    updates: int
    assigned: bool
    """Whether it is the one that serves them."""
    taste: tuple[Taste, ...]


@dataclass(frozen=True, slots=True)
class User:
    """What is known of a user."""

    user: str
    impressions: int
    answered: int
    clicked: int
    learners: dict[str, Learned]


def _positions(clicked: list[int] | None) -> tuple[int, ...] | None:
    return None if clicked is None else tuple(clicked)


def read_shown(reply: Any) -> Shown:
    """POST /v1/recommend, GET /v1/impressions/{id}."""
    return Shown(
        id=reply["impression"],
        user=reply["user"],
        learner=reply["learner"],
        shown_at=reply["shown_at"],
        click_probability=reply["click_probability"],
        items=tuple(
            Item(
                position=one["position"],
                item=one["item"],
                topics=tuple(one["topics"]),
                gains=dict(one["gains"]),
                belief=one["belief"],
                exploration=one["exploration"],
            )
            for one in reply["items"]
        ),
        clicked=_positions(reply.get("clicked")),
        answer=reply.get("answer"),
        answered_at=reply.get("answered_at"),
    )


def read_answer(reply: Any) -> Answer:
    """POST /v1/feedback, DELETE /v1/impressions/{id}/feedback."""
    return Answer(reply["impression"], _positions(reply["clicked"]), reply["answer"])


def read_answers(asked: list[dict[str, Any]], reply: Any) -> list[Answer | ServiceError]:
    """POST /v1/feedback with several: one result for each."""
    results: list[Answer | ServiceError] = []
    for one, result in zip(asked, reply["results"], strict=True):
        if result["impression"] != one["impression"]:
            raise ValueError(f"results must be in the order of the request, got {result['impression']!r}")
        status = result["status"]
        if status == 200:
            results.append(read_answer(result))
        else:
            results.append(ERRORS.get(status, ServiceError)(result["error"], status))
    return results


def read_user(reply: Any) -> User:
    """GET /v1/users/{user}."""
    learners = {
        name: Learned(
            learned["updates"],
            learned["assigned"],
            tuple(Taste(one["topic"], one["estimate"], one["low"], one["high"]) for one in learned["taste"]),
        )
        for name, learned in reply["learners"].items()
    }
    return User(reply["user"], reply["impressions"], reply["answered"], reply["clicked"], learners)


def read_weights(reply: Any) -> dict[str, float]:
    """/v1/items/{item}."""
    return dict(reply["weights"])


def read_items(reply: Any) -> tuple[list[tuple[str, dict[str, float]]], int | None]:
    """GET /v1/items: a page, and where the next begins."""
    return [(one["item"], read_weights(one)) for one in reply["items"]], reply["next"]


def read_history(reply: Any) -> tuple[list[Shown], str | None]:
    """GET /v1/users/{user}/impressions: a page, and what the next is before."""
    return [read_shown(one) for one in reply["impressions"]], reply["next"]


def read_topics(reply: Any) -> list[str]:
    """GET /v1/topics."""
    return list(reply["topics"])


def read_object(reply: Any) -> dict[str, Any]:
    """Whatever object there is."""
    if not isinstance(reply, dict):
        raise TypeError(f"a reply must be an object, got {type(reply).__name__}")
    return reply
