"""Lists: recommend, learn from feedback, take feedback back, add lists that were shown elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.service.recommender import showing
from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import (
    AddPast,
    Conflict,
    Feedback,
    GetImpression,
    Recommend,
    Refused,
    Undo,
    checked,
    id_text,
)
from thali.service.stores.records import Impression, new_id, unpack_shown
from thali.tools import checks
from thali.tools.types import Integers
from thali_client.types import Answer, Shown
from thali_client.types import Impression as ImpressionAnswer

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender
    from thali.service.recommender.transaction import Transaction

# A larger α makes no difference any more.
MOST_ALPHA = 1e6


def recommend(transaction: Transaction, asked: Recommend) -> Shown:
    """Choose a list and write it down."""
    recommender = transaction.recommender
    learner = recommender.find_learner(asked.user, asked.learner)
    policy = _policy(recommender, learner, asked)
    state = transaction.taste((asked.user, learner.name)).state
    chosen = _choose(recommender, policy, state, asked)
    measured = showing.measure(policy, state, chosen)
    items = [recommender.catalog.items[e] for e in chosen.tolist()]
    shown = transaction.show(new_id(transaction.now), asked.user, learner.name, items, measured)
    transaction.writes.shown.append(shown)
    answer: Shown = showing.describe(shown, measured.numbers, transaction.topics.sets[-1], Shown)
    return answer


def _policy(recommender: Recommender, learner: Learner, asked: Recommend) -> LinearPolicy:
    """The learner's policy with the K and α asked for."""
    K, alpha, items = asked.K, asked.alpha, len(recommender.catalog)
    if K is not None:
        checked("K", checks.integer, K, low=1, high=recommender.most_K)
    if (K or learner.policy.K) > items:
        raise Refused("K", f"must be at most the {items} items there are, got {K or learner.policy.K}")
    if alpha is not None:
        alpha = checked("alpha", checks.number, alpha, low=0.0, high=MOST_ALPHA)
    return learner.variant(K, alpha)


def _choose(recommender: Recommender, policy: LinearPolicy, state: LinearState, asked: Recommend) -> Integers:
    if asked.candidates is None and asked.exclude is None:
        return np.asarray(policy.recommend(state)[0])
    candidates = None if asked.candidates is None else _items(recommender, "candidates", asked.candidates)
    # What does not exist is not shown anyway: it may have been removed since it was seen.
    exclude = None if asked.exclude is None else _items(recommender, "exclude", asked.exclude, missing=True)
    try:
        return np.asarray(policy.recommend(state, candidates=candidates, exclude=exclude)[0])
    except ValueError as error:
        raise Refused("exclude" if candidates is None else "candidates", f"must leave a list: {error}") from None


def _items(recommender: Recommender, field: str, names: Any, *, missing: bool = False) -> Integers:
    """Item numbers of names; an unknown name is refused, or left out if missing ones are allowed."""
    found = []
    for at, name in enumerate(checked(field, checks.sequence, names)):
        e = recommender.catalog.find(name)
        if e is not None:
            found.append(e)
        elif not missing:
            raise Refused(f"{field}[{at}]", f"must be an item of the catalog, got {name!r:.80}")
    return np.array(found, dtype=np.int64)


def feedback(transaction: Transaction, asked: Feedback) -> Answer:
    """Learn from an answer, once: a duplicate changes nothing, and a different one is a conflict."""
    timing_out = asked.answer == "time-out"
    shown = transaction.impression(asked.id, expired=timing_out)  # its time was over before it expired
    clicked = positions(asked.clicked, len(shown.items))
    if shown.answer is None or (shown.answer == "time-out" and not timing_out):  # an answer, even if late
        transaction.learn(shown, clicked, asked.answer)
    elif shown.clicked != clicked and not timing_out:
        raise Conflict(
            f"clicked must be what was recorded for impression {id_text(asked.id)}, {shown.clicked}, "
            f"got {clicked}; undo it first"
        )
    return answer_of(shown)


def undo(transaction: Transaction, asked: Undo) -> Answer:
    """Take an answer back: statistics are as if it had never come."""
    shown = transaction.impression(asked.id)
    if shown.clicked is not None:
        transaction.learn(shown, None, None)
    return answer_of(shown)


def positions(clicked: Any, K: int) -> list[int]:
    """Clicked positions, ascending, or a refusal."""
    found = [
        checked(f"clicked[{at}]", checks.integer, k, low=0, high=K - 1)
        for at, k in enumerate(checked("clicked", checks.sequence, clicked))
    ]
    if len(set(found)) != len(found):
        raise Refused("clicked", f"must be distinct positions, got {found}")
    return sorted(found)


def answer_of(shown: Impression) -> Answer:
    """What is recorded as the answer to an impression."""
    return Answer(id_text(shown.id), shown.clicked, shown.answer)


class CheckedPast(NamedTuple):
    """A list that was shown elsewhere, checked."""

    learner: Learner
    at: float
    names: list[Any]
    items: Integers
    clicked: list[int] | None


def add_past(transaction: Transaction, asked: AddPast) -> Answer:
    """Learn from a list that was shown elsewhere, with the gains that its items have now.

    A list older than what is kept is learned from, but not kept as an impression.
    """
    recommender = transaction.recommender
    learner, at, names, items, clicked = check_past(recommender, asked, transaction.now)
    policy, state = learner.variant(len(names), 0.0), transaction.taste((asked.user, learner.name)).state
    shown = transaction.show(new_id(at), asked.user, learner.name, names, showing.measure(policy, state, items))
    if clicked is not None:
        transaction.learn(shown, clicked, "feedback")
        del transaction.writes.answered[shown.id]  # it is written as a whole, if at all
    if shown.id >= recommender.oldest(transaction.now):
        transaction.writes.shown.append(shown)
    return answer_of(shown)


def check_past(recommender: Recommender, asked: AddPast, now: float) -> CheckedPast:
    """The list, checked, or a refusal."""
    learner = recommender.find_learner(asked.user, asked.learner)
    at = now if asked.at is None else checked("time", checks.number, asked.at, low=0.0, high=now + 60.0)
    names = checked("items", checks.sequence, asked.items)
    checked("items", _length, names, most=min(recommender.most_K, len(recommender.catalog)))
    items = _items(recommender, "items", names)
    if np.unique(items).size != items.size:
        raise Refused("items", "must be distinct")
    clicked = None if asked.clicked is None else positions(asked.clicked, len(names))
    return CheckedPast(learner, at, names, items, clicked)


def _length(field: str, names: Sequence[Any], *, most: int) -> None:
    if not 1 <= len(names) <= most:
        raise ValueError(f"{field} must be 1 to {most} items, got {len(names)}")


def get_impression(transaction: Transaction, asked: GetImpression) -> ImpressionAnswer:
    """An impression as it was shown, with its answer."""
    return describe(transaction, transaction.impression(asked.id))


def describe(transaction: Transaction, shown: Impression) -> ImpressionAnswer:
    """A stored impression as the API answers it."""
    transaction.topics.place(shown.topics)  # an error where its topics are newer than this process's
    answer: ImpressionAnswer = showing.describe(
        shown,
        unpack_shown(shown.numbers, len(shown.items)),
        transaction.topics.sets[shown.topics],
        ImpressionAnswer,
        clicked=shown.clicked,
        answer=shown.answer,
        answered_at=shown.answered_at,
    )
    return answer
