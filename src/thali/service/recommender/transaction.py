"""The steps that every operation goes through: begin, run the handlers, write, commit, and only then return.

:func:`perform` takes these steps. It is a coroutine, so that two kinds of callers can share it: the library, which may
block, and the service (:class:`thali.service.http.batcher.Batcher`), which runs in an event loop. They differ only in
how they wait for the store and for the disk (:mod:`thali.service.stores.waiting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.service.recommender import counters
from thali.service.recommender.handlers import HANDLERS
from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import (
    AddHistory,
    AddPast,
    Feedback,
    GetImpression,
    Operation,
    Recommend,
    Refused,
    RemoveHistory,
    SetMeta,
    SetPrior,
    Undo,
    Unknown,
    id_text,
)
from thali.service.recommender.seen import SeenLists, item_hashes
from thali.service.recommender.showing import Measured
from thali.service.recommender.tastes import Lesson, Sums, Taste
from thali.service.stores.records import (
    Counts,
    Impression,
    Key,
    Statistics,
    StoreError,
    UnusableRecord,
    Writes,
    pack_shown,
)
from thali.service.stores.waiting import Waiting, begin

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender

#: How long to wait while another process, such as a replay or an import, is using the store.
PATIENCE_S = 10.0
# If a taste was learned from at most this many impressions, undo learns it again from scratch, which takes up to about
# 20 ms. Otherwise it subtracts the impression.
RELEARN = 300
# Operations about an impression, those of them that change its answer, and those that need the learner of a user.
# They are tuples because isinstance is slow with unions, and every operation passes here.
OF_IMPRESSIONS, ANSWERS = (Feedback, Undo, GetImpression), (Feedback, Undo)
OF_LEARNERS = (Recommend, AddPast, AddHistory)


async def perform(
    recommender: Recommender, operations: Sequence[Operation], waiting: Waiting, *, whole: bool = False
) -> list[Any]:
    """Perform all operations in one transaction. Returns the result or exception of each.

    Everything is on disk when this returns. whole: if one operation fails, perform none of them and raise its
    exception. :class:`thali.service.stores.StoreError` means that no operation was performed, with one exception that
    its docstring describes.

    Until this returns, the recommender must not be used for anything else.
    """
    store = recommender.store
    await begin(store, waiting, PATIENCE_S)
    try:
        recommender.in_use.catch_up()
        transaction = Transaction(recommender)
        outcomes = transaction.run(operations)
        transaction.write()
        failure = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if whole and failure is not None:
            raise failure
        await waiting.commit(store)
    except BaseException:
        recommender.after_failure()
        raise
    recommender.after_commit(transaction)
    return outcomes


class Transaction:
    """The work between begin and commit.

    Statistics are locked in the store, updated in memory, and written at the end.
    """

    def __init__(self, recommender: Recommender) -> None:
        self.recommender = recommender
        self.store, self.topics = recommender.store, recommender.topics
        self.now: float = recommender.clock()
        self.writes = Writes()
        self.counted: Counts = {}
        self.impressions: dict[bytes, Impression] = {}
        self.tastes: dict[Key, Taste] = {}
        self.unusable: dict[Key, UnusableRecord] = {}
        #: The statistics that were locked, so that they can be changed.
        self.fetched: set[Key] = set()
        self.forgotten: set[str] = set()
        #: Items that this transaction added or changed (weights by topic) or removed (None), by their names as text.
        #: The catalog in memory changes only after the commit.
        self.changed: dict[str, dict[Any, float] | None] = {}
        #: Whether this transaction changed priors or the quality of items, which are read again after the commit.
        self.changes_catalog = False

    def run(self, operations: Sequence[Operation]) -> list[Any]:
        """Run the handlers of operations. Returns the result or exception of each."""
        self._fetch(operations)
        return [self._outcome(operation) for operation in operations]

    def _outcome(self, operation: Operation) -> Any:
        try:
            return HANDLERS[type(operation)](self, operation)
        except UnusableRecord as error:
            return error
        except StoreError:
            raise  # the whole transaction fails
        except Exception as error:  # one bad request must not affect the others in its transaction
            return error

    def _fetch(self, operations: Sequence[Operation]) -> None:
        """Read the impressions and statistics that operations need, in few calls. Lock those that will change."""
        # Before statistics, because a process that follows a new catalog file locks in this order.
        if any(isinstance(op, SetPrior) or (isinstance(op, SetMeta) and op.expected is not ...) for op in operations):
            self.store.lock_setup()
        ids = {operation.id for operation in operations if isinstance(operation, OF_IMPRESSIONS)}
        if ids:
            self.impressions.update(self.store.impressions(sorted(ids)))
        read: set[Key] = set()
        changed: set[Key] = set()
        for operation in operations:
            if isinstance(operation, ANSWERS):
                shown = self.impressions.get(operation.id)
                if shown is not None and not (isinstance(operation, Feedback) and shown.answer == "feedback"):
                    changed.add((shown.user, shown.learner))
            elif isinstance(operation, OF_LEARNERS):
                learner = self.recommender.find_learner_or_none(operation.user, operation.learner)
                if learner is not None:
                    learns = isinstance(operation, AddHistory) or (
                        isinstance(operation, AddPast) and operation.clicked is not None
                    )
                    (changed if learns else read).add((operation.user, learner.name))
            elif isinstance(operation, RemoveHistory) and isinstance(operation.user, str):
                changed.update((h.user, h.learner) for h in self.store.histories(operation.user))
        self.fetched = set(changed)
        if not self.store.shared:  # the cache agrees with the store, which no other process can change now
            for key in (read | changed) - self.tastes.keys():  # tastes of this transaction are newer than cached ones
                cached = self.recommender.tastes.get(key)
                if cached is not None:
                    self.tastes[key] = cached
            read, changed = read - self.tastes.keys(), changed - self.tastes.keys()
        if changed:
            self._read(self.store.lock_statistics(sorted(changed), self.recommender.in_use.blank))
        if read := read - changed:
            self._read(self.store.statistics(sorted(read)))

    def _read(self, rows: dict[Key, Statistics]) -> None:
        for key, row in rows.items():
            if row is not self.recommender.in_use.blank:
                try:
                    self.tastes[key] = self.recommender.in_use.blank_taste(key[1]).from_store(row, self.topics)
                except UnusableRecord as error:  # raised only by operations that need this taste
                    self.unusable[key] = error

    def taste(self, key: Key) -> Taste:
        """Return the taste of a user under a learner."""
        if key in self.unusable:
            raise self.unusable[key]
        if key not in self.tastes:
            self.tastes[key] = self.recommender.in_use.blank_taste(key[1])
        return self.tastes[key]

    def impression(self, id: bytes, *, expired: bool = False) -> Impression:
        """Return an impression. expired: whether it may already have expired."""
        shown = self.impressions.get(id)
        too_old = not expired and id < self.recommender.oldest(self.now)
        if shown is None or shown.user in self.forgotten or too_old:
            raise Unknown(
                f"impression {id_text(id)} is not known: it never existed, it has expired, or its user was forgotten"
            )
        return shown

    def show(self, id: bytes, user: str, learner: str, items: list[Any], measured: Measured) -> Impression:
        """Return the impression of a list that is shown, and count it. The caller writes it."""
        shown = Impression(
            id, user, learner, self.topics.current, items, pack_shown(measured.numbers), measured.predicted
        )
        shown.number = self.taste((user, learner)).updates + 1
        shown.rates_items = self.recommender.live.quality is not None
        shown.others = None if measured.others is None else measured.others.astype("<f8").tobytes()
        shown.start = measured.start
        if measured.expected is not None:
            by_topics, care = measured.expected
            shown.expected = np.append(by_topics, care).astype("<f8").tobytes()
        self.count(shown, impressions=1.0, diversity=measured.diversity, exploration=measured.exploration)
        return shown

    def count(self, shown: Impression, **amounts: float) -> None:
        """Add amounts to the counters of the hour in which a list was shown."""
        self.writes.count(counters.hour(shown.shown_at), shown.learner, **amounts)

    def learn(self, shown: Impression, clicked: list[int] | None, answer: str | None) -> None:
        """Replace the answer to an impression by this one, or by none (None), and learn accordingly."""
        key = shown.user, shown.learner
        learner = self.recommender.in_use.known_learner(shown.learner)
        taste = self.taste(key)
        users = 1.0 if taste.sequence == 0 else 0.0
        # If the sequence is None, an import has replaced the statistics that included the previous answer.
        if shown.clicked is not None and shown.sequence is not None:
            taste = self._without(taste, learner, shown)
        elif shown.clicked is not None and taste.seen is not None:
            taste = replace(taste, seen=taste.seen.without_shown(shown.shown_at, item_hashes(shown.items)))
        if clicked is not None:
            try:
                learner.variant(len(shown.items), None).check_precision(taste.state)
            except ValueError as error:
                message = str(error).removesuffix(" for user 0")
                raise Refused("impression", f"must not be learned from: {message}") from None
            taste = taste.learn(learner, Lesson.from_impression(shown, clicked, self.topics))
            taste.seen = self._seen(taste, learner, shown, clicked)
        # Count only now, so that a failure above leaves the counters unchanged.
        self.writes.count(counters.ALL_TIME, shown.learner, users=users)
        for positions, times in ((shown.clicked, -1.0), (clicked, 1.0)):
            if positions is not None:
                self.count(shown, **counters.answer_counts(shown.predicted, positions, times))
                self.examine(shown, positions, int(times))
        self.set_taste(key, taste)
        shown.clicked, shown.answer = clicked, answer
        shown.answered_at = None if clicked is None else self.now
        shown.sequence = None if clicked is None else taste.sequence
        self.writes.answered[shown.id] = shown

    def set_taste(self, key: Key, taste: Taste) -> None:
        """Replace the taste of a user under a learner."""
        self.tastes[key] = taste
        self.writes.statistics[key] = taste.to_store(self.topics)

    def examine(self, shown: Impression, clicked: list[int], times: int) -> None:
        """Count an answer for the quality of items. With times = -1, remove it again."""
        if shown.rates_items:
            live, names = self.recommender.live, list(map(str, shown.items))
            # The same rule for all learners, because they share the counts.
            rule = "first-click" if live.quality is None else live.quality.rule
            examined, (by_topics, care) = _examined(rule, len(names), clicked), shown.expected_clicks(clicked)
            self.writes.examine(names, clicked, by_topics[:examined], care, times)
            live.note_examined(names[:examined], times)

    def _seen(self, taste: Taste, learner: Learner, shown: Impression, clicked: list[int]) -> SeenLists | None:
        """Return what a user has seen after an answer, if it is recorded."""
        rule = self.recommender.hide
        if rule.hides_nothing:
            return taste.seen
        positions = np.array(sorted({*range(_examined(learner.policy.examined, len(shown.items), clicked)), *clicked}))
        hashes, hits = item_hashes(shown.items[k] for k in positions), np.isin(positions, clicked)
        if rule.only_clicked:  # and what has returned, so that it is not again what was not seen for longest
            known = hits if taste.seen is None else hits | np.isin(hashes, taste.seen.items)
            hashes, hits = hashes[known], hits[known]
        return (taste.seen or SeenLists.empty()).with_list(taste.sequence, shown.shown_at, hashes, hits)

    def _without(self, taste: Taste, learner: Learner, shown: Impression) -> Taste:
        """Return a taste without what was learned from an impression.

        If all the other impressions are still stored, and are not too many, the taste is learned from them again. The
        result is then exactly as if there had been no feedback on the impression. Otherwise the impression is
        subtracted, which is equal up to rounding.
        """
        assert shown.clicked is not None
        assert shown.sequence is not None
        own = Lesson.from_impression(shown, shown.clicked, self.topics)
        return self.unlearned(taste, learner, (shown.user, shown.learner), shown.sequence, own)

    def unlearned(self, taste: Taste, learner: Learner, key: Key, sequence: int, lesson: Lesson | Sums) -> Taste:
        """Return a taste without a lesson, which it learned at this sequence."""
        seen = None if taste.seen is None else taste.seen.without(sequence)
        if taste.updates <= RELEARN:
            self.write()
            lists, histories = self.store.learned_impressions(*key), self.store.histories(*key)
            if len(lists) == taste.updates:
                lessons: dict[int, Lesson | Sums] = {}
                for shown in lists:
                    assert shown.sequence is not None
                    lessons[shown.sequence] = Lesson.from_impression(shown, shown.clicked or [], self.topics)
                for history in histories:
                    lessons[history.sequence] = Sums.from_history(history, self.store, self.topics)
                del lessons[sequence]
                blank = self.recommender.in_use.blank_taste(key[1])
                again = blank.learn(learner, *(lessons[number] for number in sorted(lessons)))
                # Otherwise the taste contains something else: an import of what was learned from a history.
                if _close(again.learn(learner, lesson), taste):
                    return replace(again, sequence=taste.sequence + 1, seen=seen)
        return replace(taste.learn(learner, lesson, times=-1), seen=seen)

    def write(self) -> None:
        """Write everything that was learned, shown and counted so far to the store."""
        self.store.write(self.writes, self.recommender.worker)
        for key, amount in self.writes.counts.items():
            self.counted[key] = self.counted.get(key, 0.0) + amount
        self.writes = Writes()


def _close(one: Taste, other: Taste) -> bool:
    """Return whether two tastes are equal up to rounding."""
    mine, theirs = one.state.arrays, other.state.arrays
    scale = max(1.0, float(np.abs(theirs["M"]).max()))
    return all(np.allclose(mine[name], theirs[name], rtol=0.0, atol=1e-9 * scale) for name in ("M", "B"))


def _examined(rule: str, K: int, clicked: list[int]) -> int:
    """Return how many positions of a list count as examined."""
    if rule == "all" or not clicked:
        return K
    return (min(clicked) if rule == "first-click" else max(clicked)) + 1
