"""Operations in one transaction: each gets its outcome, and all become durable together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thali.service.recommender import figures
from thali.service.recommender.answers import Answer
from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import (
    Conflict,
    Feedback,
    Look,
    Operation,
    Past,
    Recommend,
    Refused,
    Undo,
    Unknown,
    checked,
    id_text,
)
from thali.service.recommender.showing import Measured
from thali.service.recommender.tastes import Lesson, Taste
from thali.service.stores.records import Counts, Impression, Key, Statistics, StoreError, Unusable, Writes, pack_shown
from thali.tools import checks

if TYPE_CHECKING:
    from thali.service.recommender.core import Recommender

# Up to so many impressions are learned anew where one is taken back: some 20 ms. Beyond, it is subtracted.
RELEARN = 300


class Batch:
    """Some operations, from the begin of a transaction to its commit.

    What is learned is computed in memory, on tastes that the store holds for this transaction, and written at the end.
    """

    def __init__(self, recommender: Recommender) -> None:
        self.home = recommender
        self.store, self.topics = recommender.store, recommender.topics
        self.now: float = recommender.clock()
        self.writes = Writes()
        self.counted: Counts = {}
        self.impressions: dict[bytes, Impression] = {}
        self.tastes: dict[Key, Taste] = {}
        self.unusable: dict[Key, Unusable] = {}
        self.forgotten: set[str] = set()
        #: Items put (weights by topic) or removed (None) in this batch; the catalog sees them with the next.
        self.changed: dict[Any, dict[Any, float] | None] = {}

    def run(self, operations: Sequence[Operation], handlers: dict[type, Callable[[Batch, Any], Any]]) -> list[Any]:
        """The outcome of each: its answer, or the exception that is its answer."""
        self._fetch(operations)
        return [self._outcome(operation, handlers[type(operation)]) for operation in operations]

    def _outcome(self, operation: Operation, handle: Callable[[Batch, Any], Any]) -> Any:
        try:
            return handle(self, operation)
        except Unusable as error:
            return error
        except StoreError:
            raise  # the whole transaction is lost
        except Exception as error:  # one bad request must not take the others of its batch along
            return error

    def _fetch(self, operations: Sequence[Operation]) -> None:
        """Impressions and statistics that are needed, in as few calls as possible; what is to change is held."""
        ids = {operation.id for operation in operations if isinstance(operation, Feedback | Undo | Look)}
        if ids:
            self.impressions.update(self.store.impressions(sorted(ids)))
        looked_at: set[Key] = set()
        changed: set[Key] = set()
        for operation in operations:
            if isinstance(operation, Recommend | Past):
                learner = self.home.learner_of(operation.user, operation.learner)
                if learner is not None:
                    learns = isinstance(operation, Past) and operation.clicked is not None
                    (changed if learns else looked_at).add((operation.user, learner.name))
            elif isinstance(operation, Feedback | Undo):
                shown = self.impressions.get(operation.id)
                if shown is not None and not (isinstance(operation, Feedback) and shown.answer == "feedback"):
                    changed.add((shown.user, shown.learner))
        if not self.store.shared:  # what is kept in memory is what the store has, and nobody else can change it now
            for key in (looked_at | changed) - self.tastes.keys():  # what this batch has learned is newer
                kept = self.home.tastes.get(key)
                if kept is not None:
                    self.tastes[key] = kept
            looked_at, changed = looked_at - self.tastes.keys(), changed - self.tastes.keys()
        if changed:
            self._read(self.store.hold(sorted(changed), self.home.blank))
        if looked_at := looked_at - changed:
            self._read(self.store.statistics(sorted(looked_at)))

    def _read(self, found: dict[Key, Statistics]) -> None:
        for key, kept in found.items():
            if kept is not self.home.blank:
                try:
                    self.tastes[key] = self.home.blank_taste(key[1]).read(kept, self.topics)
                except Unusable as error:  # said to those who ask for this user, not to all of the batch
                    self.unusable[key] = error

    def taste(self, key: Key) -> Taste:
        """What is known of a user, under a learner."""
        if key in self.unusable:
            raise self.unusable[key]
        if key not in self.tastes:
            self.tastes[key] = self.home.blank_taste(key[1])
        return self.tastes[key]

    def shown(self, id: bytes, *, expired: bool = False) -> Impression:
        """An impression that is kept; or expired, if it is still there."""
        shown = self.impressions.get(id)
        too_old = not expired and id < self.home.oldest(self.now)
        if shown is None or shown.user in self.forgotten or too_old:
            raise Unknown(f"impression {id_text(id)} is not known: it never was, is expired, or its user was forgotten")
        return shown

    def show(self, id: bytes, user: str, learner: str, items: list[Any], measured: Measured) -> Impression:
        """A list as it is shown now, to be written with this batch."""
        shown = Impression(id, user, learner, self.topics.now, items, pack_shown(measured.numbers), measured.predicted)
        self.count(shown, impressions=1.0, diversity=measured.diversity, exploration=measured.exploration)
        return shown

    def count(self, shown: Impression, **amounts: float) -> None:
        """Add to the counters of the hour of showing."""
        self.writes.count(figures.hour(shown.shown_at), shown.learner, **amounts)

    def feedback(self, told: Feedback) -> Answer:
        """Learn from an answer, once."""
        timing_out = told.answer == "time-out"
        shown = self.shown(told.id, expired=timing_out)  # the time for an answer was over before it expired
        clicked = positions(told.clicked, len(shown.items))
        if shown.answer is None or (shown.answer == "time-out" and not timing_out):  # an answer, if late
            self.learn(shown, clicked, told.answer)
        elif shown.clicked != clicked and not timing_out:
            raise Conflict(
                f"clicked must be what was recorded for impression {id_text(told.id)}, {shown.clicked}, "
                f"got {clicked}; undo it first"
            )
        return answer_of(shown)

    def undo(self, asked: Undo) -> Answer:
        """Take an answer back: statistics as if it had never come."""
        shown = self.shown(asked.id)
        if shown.clicked is not None:
            self.learn(shown, None, None)
        return answer_of(shown)

    def learn(self, shown: Impression, clicked: list[int] | None, answer: str | None) -> None:
        """Put this answer, or none, in the place of what was learned from an impression."""
        key = shown.user, shown.learner
        learner = self.home.learning(shown.learner)
        taste = self.taste(key)
        users = 1.0 if taste.sequence == 0 else 0.0
        if shown.clicked is not None and shown.sequence is not None:  # else an import has taken its place
            taste = self._without(taste, learner, shown)
        if clicked is not None:
            taste = taste.learned(learner, Lesson.of(shown, clicked, self.topics))
        # Only now: what fails before leaves no count behind.
        self.writes.count(figures.ALWAYS, shown.learner, users=users)
        for told, times in ((shown.clicked, -1.0), (clicked, 1.0)):
            if told is not None:
                self.count(shown, **figures.answered(shown.predicted, told, times))
        self.tastes[key] = taste
        self.writes.statistics[key] = taste.written(self.topics)
        shown.clicked, shown.answer = clicked, answer
        shown.answered_at = None if clicked is None else self.now
        shown.sequence = None if clicked is None else taste.sequence
        self.writes.answered[shown.id] = shown

    def _without(self, taste: Taste, learner: Learner, shown: Impression) -> Taste:
        """A taste without an impression: learned anew from all the others if they are still kept, else by subtraction.

        The first is the same to the last bit as if it had never come; the second up to rounding.
        """
        assert shown.clicked is not None
        if taste.updates <= RELEARN:
            self.flush()
            others = [other for other in self.store.learned(shown.user, shown.learner) if other.id != shown.id]
            if len(others) == taste.updates - 1:
                lessons = [Lesson.of(other, other.clicked or [], self.topics) for other in others]
                return replace(
                    self.home.blank_taste(shown.learner).learned(learner, *lessons), sequence=taste.sequence + 1
                )
        return taste.learned(learner, Lesson.of(shown, shown.clicked, self.topics), times=-1)

    def flush(self) -> None:
        """Give the store what was to be written so far."""
        self.store.write(self.writes, self.home.worker)
        for key, amount in self.writes.counts.items():
            self.counted[key] = self.counted.get(key, 0.0) + amount
        self.writes = Writes()


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
    """What is recorded of an impression."""
    return Answer(id_text(shown.id), shown.clicked, shown.answer)
