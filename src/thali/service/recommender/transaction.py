"""The one path of every operation: begin, run the handlers, write, commit, and only then answer.

:func:`perform` is that path. It is written as a coroutine so that a caller that may block, as the library does, and
one in an event loop (:class:`thali.service.http.batcher.Batcher`) take the very same steps: they differ only in how
they wait for their turn and for the disk (:mod:`thali.service.stores.waiting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thali.service.recommender import counters
from thali.service.recommender.handlers import HANDLERS
from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import (
    AddPast,
    Feedback,
    GetImpression,
    Operation,
    Recommend,
    Undo,
    Unknown,
    id_text,
)
from thali.service.recommender.showing import Measured
from thali.service.recommender.tastes import Lesson, Taste
from thali.service.stores.records import Counts, Impression, Key, Statistics, StoreError, Unusable, Writes, pack_shown
from thali.service.stores.waiting import Waiting, begin

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender

#: How long to wait for another process (a replay, an import) that holds the store.
PATIENCE_S = 10.0
# With at most this many impressions, undo learns all the others again: some 20 ms. With more, it subtracts.
RELEARN = 300


async def perform(
    recommender: Recommender, operations: Sequence[Operation], waiting: Waiting, *, whole: bool = False
) -> list[Any]:
    """All operations in one transaction: for each its result, or the exception that is its result.

    Everything is on disk when this returns. whole: if one of them is refused, none is done, and the refusal is raised.
    A :class:`thali.service.stores.StoreError` means that none of them is done.

    From the begin to the end, nothing else may be asked of the recommender.
    """
    store = recommender.store
    await begin(store, waiting, PATIENCE_S)
    try:
        recommender.catch_up()
        transaction = Transaction(recommender)
        outcomes = transaction.run(operations)
        transaction.write()
        refused = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if whole and refused is not None:
            raise refused
        await waiting.commit(store)
    except BaseException:
        recommender.abandon()
        raise
    recommender.conclude(transaction)
    return outcomes


class Transaction:
    """What happens between begin and commit.

    What is learned is computed in memory, on statistics that the store holds for this transaction, and written at the
    end.
    """

    def __init__(self, recommender: Recommender) -> None:
        self.recommender = recommender
        self.store, self.topics = recommender.store, recommender.topics
        self.now: float = recommender.clock()
        self.writes = Writes()
        self.counted: Counts = {}
        self.impressions: dict[bytes, Impression] = {}
        self.tastes: dict[Key, Taste] = {}
        self.unusable: dict[Key, Unusable] = {}
        self.forgotten: set[str] = set()
        #: Items that this transaction put (weights by topic) or removed (None); the next one sees them in the catalog.
        self.changed: dict[Any, dict[Any, float] | None] = {}

    def run(self, operations: Sequence[Operation]) -> list[Any]:
        """The outcome of each operation: its result, or the exception that is its result."""
        self._fetch(operations)
        return [self._outcome(operation) for operation in operations]

    def _outcome(self, operation: Operation) -> Any:
        try:
            return HANDLERS[type(operation)](self, operation)
        except Unusable as error:
            return error
        except StoreError:
            raise  # the whole transaction is lost
        except Exception as error:  # one bad request must not spoil the others in its transaction
            return error

    def _fetch(self, operations: Sequence[Operation]) -> None:
        """Read the impressions and statistics that are needed, in as few calls as possible; lock what will change."""
        ids = {operation.id for operation in operations if isinstance(operation, Feedback | Undo | GetImpression)}
        if ids:
            self.impressions.update(self.store.impressions(sorted(ids)))
        read: set[Key] = set()
        changed: set[Key] = set()
        for operation in operations:
            if isinstance(operation, Recommend | AddPast):
                learner = self.recommender.learner_of(operation.user, operation.learner)
                if learner is not None:
                    learns = isinstance(operation, AddPast) and operation.clicked is not None
                    (changed if learns else read).add((operation.user, learner.name))
            elif isinstance(operation, Feedback | Undo):
                shown = self.impressions.get(operation.id)
                if shown is not None and not (isinstance(operation, Feedback) and shown.answer == "feedback"):
                    changed.add((shown.user, shown.learner))
        if not self.store.shared:  # the cache holds what the store has, and no other process can change it now
            for key in (read | changed) - self.tastes.keys():  # what this transaction has learned is newer
                cached = self.recommender.tastes.get(key)
                if cached is not None:
                    self.tastes[key] = cached
            read, changed = read - self.tastes.keys(), changed - self.tastes.keys()
        if changed:
            self._read(self.store.hold(sorted(changed), self.recommender.blank))
        if read := read - changed:
            self._read(self.store.statistics(sorted(read)))

    def _read(self, rows: dict[Key, Statistics]) -> None:
        for key, row in rows.items():
            if row is not self.recommender.blank:
                try:
                    self.tastes[key] = self.recommender.blank_taste(key[1]).read(row, self.topics)
                except Unusable as error:  # for those who ask for this user, not for everyone in the transaction
                    self.unusable[key] = error

    def taste(self, key: Key) -> Taste:
        """What is known of a user under a learner."""
        if key in self.unusable:
            raise self.unusable[key]
        if key not in self.tastes:
            self.tastes[key] = self.recommender.blank_taste(key[1])
        return self.tastes[key]

    def impression(self, id: bytes, *, expired: bool = False) -> Impression:
        """An impression that is kept; or an expired one, if it is still there."""
        shown = self.impressions.get(id)
        too_old = not expired and id < self.recommender.oldest(self.now)
        if shown is None or shown.user in self.forgotten or too_old:
            raise Unknown(f"impression {id_text(id)} is not known: it never was, is expired, or its user was forgotten")
        return shown

    def show(self, id: bytes, user: str, learner: str, items: list[Any], measured: Measured) -> Impression:
        """A list as it is shown now, counted; the caller writes it."""
        shown = Impression(id, user, learner, self.topics.now, items, pack_shown(measured.numbers), measured.predicted)
        self.count(shown, impressions=1.0, diversity=measured.diversity, exploration=measured.exploration)
        return shown

    def count(self, shown: Impression, **amounts: float) -> None:
        """Add to the counters of the hour in which the list was shown."""
        self.writes.count(counters.hour(shown.shown_at), shown.learner, **amounts)

    def learn(self, shown: Impression, clicked: list[int] | None, answer: str | None) -> None:
        """Record this answer to an impression, or none, in place of the one before; and learn accordingly."""
        key = shown.user, shown.learner
        learner = self.recommender.learning(shown.learner)
        taste = self.taste(key)
        users = 1.0 if taste.sequence == 0 else 0.0
        if shown.clicked is not None and shown.sequence is not None:  # else an import has replaced what was learned
            taste = self._without(taste, learner, shown)
        if clicked is not None:
            taste = taste.learned(learner, Lesson.of(shown, clicked, self.topics))
        # Only now, so that a failure above leaves no count behind.
        self.writes.count(counters.ALWAYS, shown.learner, users=users)
        for positions, times in ((shown.clicked, -1.0), (clicked, 1.0)):
            if positions is not None:
                self.count(shown, **counters.answered(shown.predicted, positions, times))
        self.tastes[key] = taste
        self.writes.statistics[key] = taste.written(self.topics)
        shown.clicked, shown.answer = clicked, answer
        shown.answered_at = None if clicked is None else self.now
        shown.sequence = None if clicked is None else taste.sequence
        self.writes.answered[shown.id] = shown

    def _without(self, taste: Taste, learner: Learner, shown: Impression) -> Taste:
        """A taste without an impression: learned again from all the others if they are still kept, else by subtraction.

        The first is the same to the last bit as if it had never come; the second up to rounding.
        """
        assert shown.clicked is not None
        if taste.updates <= RELEARN:
            self.write()
            others = [other for other in self.store.learned(shown.user, shown.learner) if other.id != shown.id]
            if len(others) == taste.updates - 1:
                lessons = [Lesson.of(other, other.clicked or [], self.topics) for other in others]
                return replace(
                    self.recommender.blank_taste(shown.learner).learned(learner, *lessons), sequence=taste.sequence + 1
                )
        return taste.learned(learner, Lesson.of(shown, shown.clicked, self.topics), times=-1)

    def write(self) -> None:
        """Write to the store what has been learned, shown and counted so far."""
        self.store.write(self.writes, self.recommender.worker)
        for key, amount in self.writes.counts.items():
            self.counted[key] = self.counted.get(key, 0.0) + amount
        self.writes = Writes()
