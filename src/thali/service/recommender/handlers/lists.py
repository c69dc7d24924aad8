"""Handlers for lists: recommend, learn from feedback, undo feedback, and learn from lists that were shown elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.catalog.candidates import TooFewItems
from thali.policies.linear.policy import LinearPolicy
from thali.service.recommender import showing
from thali.service.recommender.learners import FIRST_LISTS, Learner
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
    item_name,
)
from thali.service.recommender.seen import HideRule, SeenLists, still_hidden
from thali.service.recommender.tastes import Taste
from thali.service.stores.records import Impression, new_id, unpack_shown
from thali.tools import checks
from thali.tools.types import Integers
from thali_client.types import Answer, Shown
from thali_client.types import Impression as ImpressionResponse

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender
    from thali.service.recommender.transaction import Transaction

# The largest α that a request may use. An even larger one would make no difference.
MAX_ALPHA = 1e6


def recommend(transaction: Transaction, operation: Recommend) -> Shown:
    """Choose a list, and record it as an impression. It has fewer than K items if fewer are left to choose from."""
    recommender = transaction.recommender
    learner = recommender.find_learner(operation.user, operation.learner)
    alpha = _check_options(recommender, operation)
    taste = transaction.taste((operation.user, learner.name))
    state = taste.state
    policy, chosen = _choose(transaction, learner, alpha, taste, operation)
    # The check of learned priors needs what the prior of the start would have predicted for people's first lists.
    judged = learner.learned and learner.start.prior is not None and taste.updates < FIRST_LISTS
    expected = recommender.live.expected_or_none
    measured = showing.measure(policy, state, chosen, start=learner.start if judged else None, expected=expected)
    names = recommender.catalog.items
    items = [names[e] for e in chosen.tolist()]
    shown = transaction.show(new_id(transaction.now), operation.user, learner.name, items, measured)
    transaction.writes.shown.append(shown)
    parts = showing.by_topic(policy, state, measured.numbers) if operation.explain else None
    response: Shown = showing.describe(shown, measured.numbers, transaction.topics.sets[-1], Shown, parts)
    return response


def _check_options(recommender: Recommender, operation: Recommend) -> float | None:
    """Check the requested K and α. Return α, or None for that of the learner."""
    checked("explain", checks.flag, operation.explain)
    if operation.K is not None:
        checked("K", checks.integer, operation.K, low=1, high=recommender.most_K)
    if operation.alpha is None:
        return None
    alpha: float = checked("alpha", checks.number, operation.alpha, low=0.0, high=MAX_ALPHA)
    return alpha


def _choose(
    transaction: Transaction, learner: Learner, alpha: float | None, taste: Taste, operation: Recommend
) -> tuple[LinearPolicy, Integers]:
    """Return the items of a list, and the policy that chose them: the learner's, with K as the most items."""
    recommender, state = transaction.recommender, taste.state
    candidates = None if operation.candidates is None else _items(recommender, "candidates", operation.candidates)
    # Names that do not exist are ignored: an item may have been removed after the user saw it.
    exclude = None if operation.exclude is None else _items(recommender, "exclude", operation.exclude, missing=True)
    policy = learner.variant(operation.K, alpha)
    rule = recommender.hide if operation.hide is None else _requested(recommender, operation.hide)
    if taste.seen is not None and not rule.hides_nothing:
        hidden = _hidden(transaction, rule, taste.seen, policy.K, candidates, exclude)
        exclude = hidden if exclude is None else np.union1d(exclude, hidden)
    try:
        lists = policy.recommend(state, candidates=candidates, exclude=exclude)
    except TooFewItems as error:
        if error.left == 0:
            raise _nothing_left(operation) from None
        policy = learner.variant(error.left, alpha)
        lists = policy.recommend(state, candidates=candidates, exclude=exclude)
    return policy, np.asarray(lists[0])


def _requested(recommender: Recommender, hide: Any) -> HideRule:
    """Return the rule of a request, which must not need more than what the recommender records."""
    rule = HideRule.read(hide)
    if not recommender.hide.records(rule):
        allowed = "'nothing'" if recommender.hide.hides_nothing else "'nothing' or a rule about clicked items"
        raise Refused(
            "hide",
            f"must be {allowed}, because that is all the service records with its own rule {recommender.hide_text!r} "
            f"(thali serve --hide), got {hide!r:.80}",
        )
    return rule


def _hidden(
    transaction: Transaction,
    rule: HideRule,
    seen: SeenLists,
    K: int,
    candidates: Integers | None,
    exclude: Integers | None,
) -> Integers:
    """Return the items that a rule hides. If fewer than K others are left, those not seen for longest return."""
    recommender = transaction.recommender
    hashes, last = rule.hidden(seen, transaction.now)
    numbers = recommender.live.numbers.find(hashes)
    kept = numbers >= 0
    if candidates is not None:
        kept &= np.isin(numbers, candidates)
    if exclude is not None:
        kept &= np.isin(numbers, exclude, invert=True)
    available = len(recommender.catalog) if candidates is None else np.unique(candidates).size
    if exclude is not None:
        among = exclude if candidates is None else exclude[np.isin(exclude, candidates)]
        available -= np.unique(among).size
    return still_hidden(numbers[kept], last[kept], K - (available - int(np.count_nonzero(kept))))


def _nothing_left(operation: Recommend) -> Refused:
    if operation.candidates is None and operation.exclude is None:
        return Refused("catalog", "must have at least one item to choose from, got none")
    field = "exclude" if operation.candidates is None else "candidates"
    return Refused(field, "must leave at least one item to choose from, got none")


def _items(recommender: Recommender, field: str, names: Any, *, missing: bool = False) -> Integers:
    """Return the item numbers of names. missing: whether to ignore names that are not in the catalog."""
    numbers = []
    for index, name in enumerate(checked(field, checks.sequence, names)):
        e = recommender.live.find(name if type(name) is str else item_name(f"{field}[{index}]", name))
        if e is not None:
            numbers.append(e)
        elif not missing:
            raise Refused(f"{field}[{index}]", f"must be an item in the catalog, got {name!r:.80}")
    return np.array(numbers, dtype=np.int64)


def feedback(transaction: Transaction, operation: Feedback) -> Answer:
    """Learn from feedback or a time-out, once. A duplicate changes nothing, and different feedback is a conflict."""
    timing_out = operation.answer == "time-out"
    # A time-out may come after the impression has expired: it was due earlier.
    shown = transaction.impression(operation.id, expired=timing_out)
    clicked = positions(operation.clicked, len(shown.items))
    if shown.answer is None or (shown.answer == "time-out" and not timing_out):  # late feedback replaces a time-out
        transaction.learn(shown, clicked, operation.answer)
    elif shown.clicked != clicked and not timing_out:
        conflict = Conflict(
            f"clicked must be {shown.clicked}, as already recorded for impression {id_text(operation.id)}, "
            f"got {clicked}. To change it, undo the recorded feedback first"
        )
        conflict.field = "clicked"
        raise conflict
    return answer_of(shown)


def undo(transaction: Transaction, operation: Undo) -> Answer:
    """Undo the answer to an impression, so that the statistics are as if it had never been given."""
    shown = transaction.impression(operation.id)
    if shown.clicked is not None:
        transaction.learn(shown, None, None)
    return answer_of(shown)


def positions(clicked: Any, K: int) -> list[int]:
    """Check clicked positions, and return them in ascending order."""
    checked_positions = [
        checked(f"clicked[{index}]", checks.integer, k, low=0, high=K - 1)
        for index, k in enumerate(checked("clicked", checks.sequence, clicked))
    ]
    if len(set(checked_positions)) != len(checked_positions):
        raise Refused("clicked", f"must not contain a position twice, got {checked_positions}")
    return sorted(checked_positions)


def answer_of(shown: Impression) -> Answer:
    """Return the recorded answer to an impression."""
    return Answer(id_text(shown.id), shown.clicked, shown.answer)


class CheckedPast(NamedTuple):
    """A list that was shown elsewhere, after its fields were checked."""

    learner: Learner
    at: float
    names: list[Any]
    items: Integers
    clicked: list[int] | None


def add_past(transaction: Transaction, operation: AddPast) -> Answer:
    """Learn from a list that was shown elsewhere, with the current gains of its items.

    A list that is too old to be kept is learned, but not stored as an impression.
    """
    recommender = transaction.recommender
    learner, at, names, items, clicked = check_past(recommender, operation, transaction.now)
    policy, state = learner.variant(len(names), 0.0), transaction.taste((operation.user, learner.name)).state
    measured = showing.measure(policy, state, items, expected=recommender.live.expected_or_none)
    shown = transaction.show(new_id(at), operation.user, learner.name, names, measured)
    if clicked is not None:
        transaction.learn(shown, clicked, "feedback")
        del transaction.writes.answered[shown.id]  # the impression is not in the store yet, so it cannot be updated
    if shown.id >= recommender.oldest(transaction.now):
        transaction.writes.shown.append(shown)
    return answer_of(shown)


def check_past(recommender: Recommender, operation: AddPast, now: float) -> CheckedPast:
    """Check the fields of a list that was shown elsewhere."""
    learner = recommender.find_learner(operation.user, operation.learner)
    at = now if operation.at is None else checked("time", checks.number, operation.at, low=0.0, high=now + 60.0)
    names = checked("items", checks.sequence, operation.items)
    checked("items", _length, names, longest=min(recommender.most_K, len(recommender.catalog)))
    items = _items(recommender, "items", names)
    if np.unique(items).size != items.size:
        raise Refused("items", f"must not contain an item twice, got {names!r:.200}")
    clicked = None if operation.clicked is None else positions(operation.clicked, len(names))
    return CheckedPast(learner, at, names, items, clicked)


def _length(field: str, names: Sequence[Any], *, longest: int) -> None:
    if not 1 <= len(names) <= longest:
        raise ValueError(f"{field} must contain between 1 and {longest} items, got {len(names)}")


def get_impression(transaction: Transaction, operation: GetImpression) -> ImpressionResponse:
    """Return an impression as it was shown, with its answer."""
    return describe(transaction, transaction.impression(operation.id))


def describe(transaction: Transaction, shown: Impression) -> ImpressionResponse:
    """Convert a stored impression to the form that the API returns."""
    transaction.topics.positions(shown.topics)  # raises an exception if this process does not have its topics yet
    response: ImpressionResponse = showing.describe(
        shown,
        unpack_shown(shown.numbers, len(shown.items)),
        transaction.topics.sets[shown.topics],
        ImpressionResponse,
        clicked=shown.clicked,
        answer=shown.answer,
        answered_at=shown.answered_at,
    )
    return response
