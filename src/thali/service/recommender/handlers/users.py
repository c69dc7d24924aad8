"""Handlers for users: what is known about them, their history, and forgetting them."""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import TYPE_CHECKING

from thali.policies.linear.policy import LinearPolicy
from thali.service.recommender import counters
from thali.service.recommender.handlers.lists import describe
from thali.service.recommender.operations import ForgetUser, GetHistory, GetStatistics, GetUser, Unknown, checked
from thali.service.recommender.seen import SeenLists
from thali.service.recommender.tastes import Sums, Taste
from thali.service.stores.sql import FORGETS
from thali.tools import checks
from thali_client.types import Forgotten, HistorySums, Impression, LearnerStatistics, LearnerTaste, SeenItems, User

if TYPE_CHECKING:
    from thali.service.recommender.transaction import Transaction


def get_user(transaction: Transaction, operation: GetUser) -> User:
    """Return what is known about a user."""
    recommender = transaction.recommender
    user = recommender.user_name(operation.user)
    assigned = recommender.learners.assigned(user).name
    topics, histories = recommender.catalog.topics, _histories(transaction, user)
    learners = {
        name: LearnerTaste(taste.updates, name == assigned, taste.by_topic(policy, topics), histories[name])
        for name, policy, taste in _tastes(transaction, user)
    }
    counts = transaction.store.counts_of_user(user)
    if not learners and not counts:
        raise Unknown(f"user {user!r} is not known")
    shown, answered, clicked = (sum(count[column] for count in counts.values()) for column in range(3))
    return User(user, shown, answered, clicked, learners)


def _tastes(transaction: Transaction, user: str) -> list[tuple[str, LinearPolicy, Taste]]:
    """Return the learner's name, its policy and the user's taste, for each learner that has learned about the user."""
    recommender = transaction.recommender
    return [
        (
            name,
            recommender.in_use.known_learner(name).policy,
            recommender.in_use.blank_taste(name).from_store(row, transaction.topics),
        )
        for name, row in transaction.store.statistics_of_user(user).items()
        if row.sequence
    ]


def _histories(transaction: Transaction, user: str) -> dict[str, list[str]]:
    """Return the names of a user's histories, by learner."""
    names: dict[str, list[str]] = defaultdict(list)
    for history in transaction.store.histories(user):
        names[history.learner].append(history.name)
    return names


def get_statistics(transaction: Transaction, operation: GetStatistics) -> dict[str, LearnerStatistics]:
    """Return a user's statistics M and B, by learner."""
    recommender = transaction.recommender
    user = recommender.user_name(operation.user)
    histories: dict[str, list[HistorySums]] = defaultdict(list)
    for history in transaction.store.histories(user):
        S, B = Sums.from_history(history, transaction.store, transaction.topics)
        histories[history.learner].append(HistorySums(history.name, history.at, S.tolist(), B.tolist()))
    return {
        name: LearnerStatistics(
            updates=taste.updates,
            topics=list(recommender.catalog.topics),
            M=taste.state.M[0].tolist(),
            B=taste.state.B[0].tolist(),
            estimate=policy.estimate(taste.state)[0].tolist(),
            histories=[history.name for history in histories[name]],
            sums=histories[name],
            seen=[] if taste.seen is None else _seen(transaction, taste.seen),
        )
        for name, policy, taste in _tastes(transaction, user)
    }


def _seen(transaction: Transaction, seen: SeenLists) -> list[SeenItems]:
    """Return the lists that a user has seen, with the names of items."""
    recommender, lists, begin = transaction.recommender, [], 0
    items = recommender.catalog.items
    names = [None if e < 0 else items[e] for e in recommender.live.numbers.find(seen.items).tolist()]
    for at, size in zip(seen.times.tolist(), seen.sizes.tolist(), strict=True):
        end = begin + size
        if size:
            lists.append(SeenItems(at, names[begin:end], seen.clicked[begin:end].tolist()))
        begin = end
    return lists


def get_history(transaction: Transaction, operation: GetHistory) -> list[Impression]:
    """Return a page of a user's impressions."""
    user = transaction.recommender.user_name(operation.user)
    limit = checked("limit", checks.integer, operation.limit, low=1, high=1000)
    return [describe(transaction, shown) for shown in transaction.store.history(user, operation.before, limit)]


def forget_user(transaction: Transaction, operation: ForgetUser) -> Forgotten:
    """Remove everything about a user."""
    user = transaction.recommender.user_name(operation.user)
    transaction.write()
    store = transaction.store
    # Also learners about which nothing is known: another process may be learning a history of this user.
    store.lock_user(user, store.learners(), transaction.recommender.in_use.blank)
    answered = store.answered_impressions(user)
    impressions, learned = store.forget(user)
    if not impressions and not any(sequence for _, sequence in learned.values()):
        raise Unknown(f"user {user!r} is not known")
    for shown in answered:
        transaction.examine(shown, shown.clicked or [], -1)
    store.set_meta(FORGETS, secrets.token_hex(8))
    transaction.forgotten.add(user)
    for learner, (_, sequence) in learned.items():
        if sequence:
            transaction.writes.count(counters.ALL_TIME, learner, users=-1.0)
    for key in [key for key in transaction.tastes if key[0] == user]:
        del transaction.tastes[key]
    return Forgotten(user, impressions, sum(updates for updates, _ in learned.values()))
