"""Handlers for histories: what is known about users from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.service.recommender import counters
from thali.service.recommender.operations import AddHistory, Refused, RemoveHistory, Unknown, checked
from thali.service.recommender.seen import SeenLists, item_hashes
from thali.service.recommender.tastes import Sums, Taste
from thali.service.stores.records import History
from thali.tools import checks
from thali.tools.types import Floats

if TYPE_CHECKING:
    from thali.service.recommender.transaction import Transaction


def add_history(transaction: Transaction, operation: AddHistory) -> bool:
    """Learn a history, once. Returns whether anything was learned.

    If a history was imported, what the user has seen of it is recorded when it is to be learned again.
    """
    recommender, store = transaction.recommender, transaction.store
    learner = recommender.find_learner(operation.user, operation.learner)
    name: str = checked("history", checks.path_name, operation.history)
    d, key = transaction.topics.d, (operation.user, learner.name)
    S: Floats = checked("S", checks.floats, operation.S, shape=(d, d), meaning="(d, d)")
    B: Floats = checked("B", checks.floats, operation.B, shape=(d,), meaning="(d,)")
    if (S != S.T).any():
        raise Refused("S", "must be symmetric")
    taste = transaction.taste(key)
    old = next((h for h in store.histories(*key) if h.name == name), None)
    if old is not None:
        # A topic that the catalog lost and got again is not in the sums any more.
        if old.digest == operation.digest and (transaction.topics.positions(old.topics) >= 0).all():
            if operation.liked and (taste.seen is None or old.sequence not in taste.seen.sequences):
                transaction.set_taste(key, _with_liked(transaction, taste, old.sequence, operation.liked))
            return False
        sums = Sums.from_history(old, store, transaction.topics)
        taste = transaction.unlearned(taste, learner, key, old.sequence, sums)
        store.drop_history(old)
    elif taste.sequence == 0:
        transaction.writes.count(counters.ALL_TIME, learner.name, users=1.0)
    sums = Sums(S, B)
    taste = taste.learn(learner, sums)
    if operation.liked:  # also without a rule that hides it, because there may be one later
        taste = _with_liked(transaction, taste, taste.sequence, operation.liked)
    numbers, shared = sums.to_store(shared=operation.shared)
    digest = None if shared is None else sha256(shared).hexdigest()
    store.add_history(
        History(
            *key, name, transaction.topics.current, digest, numbers, operation.digest, transaction.now, taste.sequence
        ),
        shared,
    )
    transaction.set_taste(key, taste)
    return True


def _with_liked(transaction: Transaction, taste: Taste, sequence: int, liked: Sequence[Any]) -> Taste:
    """Return a taste whose user has seen and clicked the items of a history, which it learned at this sequence."""
    hashes = item_hashes(liked)
    seen = (taste.seen or SeenLists.empty()).with_list(sequence, transaction.now, hashes, np.ones(hashes.size, bool))
    return replace(taste, seen=seen)


def remove_history(transaction: Transaction, operation: RemoveHistory) -> int:
    """Remove a history, so that the statistics are as if it had never been added. Return for how many learners."""
    store = transaction.store
    user = transaction.recommender.user_name(operation.user)
    name: str = checked("history", checks.text_name, operation.history)
    # A history that another process has added since the statistics were locked is not known yet.
    found = [
        h
        for h in store.histories(user, operation.learner)
        if h.name == name and (user, h.learner) in transaction.fetched
    ]
    if not found:
        raise Unknown(f"history {name!r:.80} of user {user!r:.80} is not known")
    for history in found:
        key = user, history.learner
        learner = transaction.recommender.in_use.known_learner(history.learner)
        sums = Sums.from_history(history, store, transaction.topics)
        taste = transaction.unlearned(transaction.taste(key), learner, key, history.sequence, sums)
        store.drop_history(history)
        transaction.set_taste(key, taste)
    return len(found)
