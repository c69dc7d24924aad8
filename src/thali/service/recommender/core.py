"""Named users and items, several learners, and a store that loses nothing."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy as np

from thali.catalog.catalog import Catalog
from thali.policies.linear.policy import LinearPolicy
from thali.service.recommender import answers
from thali.service.recommender.batch import Batch
from thali.service.recommender.handlers import HANDLERS
from thali.service.recommender.learners import Learner, Learners
from thali.service.recommender.operations import (
    ExportUser,
    Feedback,
    Forget,
    History,
    Look,
    LookItems,
    LookUser,
    Operation,
    Prune,
    PutItem,
    Recommend,
    Refused,
    RemoveItem,
    Stats,
    TimeOut,
    Undo,
    Unknown,
    checked,
    id_bytes,
)
from thali.service.recommender.tastes import Taste, Tastes
from thali.service.stores import SqlStore, StoreError, open_store
from thali.service.stores.records import Change, Counts, Heading, Statistics, id_floor
from thali.service.stores.topics import Topics
from thali.tools import checks

DAY_S = 86_400.0
#: How long to wait for another process (a replay, an import) that holds the store.
PATIENCE_S = 10.0
#: After every id.
AFTER_ALL = b"\xff" * 16


class Recommender:
    """Shows lists to named users, learns from their clicks, and keeps both in a store: exactly once, and durable.

    A list is in the store before it is returned; what is learned from feedback is there before :meth:`feedback`
    returns, and is learned from the gains as the list was shown. Feedback may come late, again, in any order and from
    several threads or processes. From now on the catalog is changed through :meth:`put_item` and :meth:`remove_item`.

    Parameters
    ----------
    policy: of the linear family, exploring by optimism and not forgetting; or several by name, on the same catalog.
    store: ``sqlite:///FILE``, or ``postgresql://…`` for several machines.
    shares: of the users that each of several policies gets, in proportion; equal by default. A user's is chosen by a
        hash of the name, and statistics are kept for each user and policy.
    no_click_after: seconds after which an impression without feedback counts as no click (by :meth:`tidy`; feedback
        that comes later corrects it); by default it is unknown, and nothing is learned from it.
    keep: seconds for which impressions are kept and can be answered; what was learned stays. 30 days by default.
    cache: bytes of memory for tastes in use; more are read from the store when needed.
    new_catalog: whether a catalog other than the store's may take its place although items were put or removed by
        hand since; those changes are then gone.

    Cost: docs/performance.md. Stored for a user and policy: 4·d·(d+3) bytes and some 100 more.

    Examples
    --------
    >>> import thali, tempfile
    >>> films = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]], items=["Heat", "Ronin", "Fargo"])
    >>> folder = tempfile.TemporaryDirectory()
    >>> rec = thali.Recommender(thali.CascadeLSB(films, K=2), store=f"sqlite:///{folder.name}/taste.db")
    >>> shown = rec.recommend("ana")
    >>> [item.item for item in shown.items]
    ['Heat', 'Fargo']
    >>> rec.feedback(shown.id, clicked=[1]).clicked
    [1]
    >>> [round(topic.estimate, 2) for topic in rec.user("ana").learners["default"].taste]
    [0.0, 1.92]
    >>> rec.close(); folder.cleanup()

    """

    def __init__(
        self,
        policy: LinearPolicy | Mapping[str, LinearPolicy],
        store: str | SqlStore = "sqlite:///thali.db",
        *,
        shares: Mapping[str, float] | None = None,
        no_click_after: float | None = None,
        keep: float = 30 * DAY_S,
        cache: int = 256 << 20,
        most_K: int = 100,
        new_catalog: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.learners = Learners(policy, shares)
        self.catalog: Catalog = self.learners.catalog
        self.keep = checks.number("keep of Recommender", keep, low=0.0, strict=True)
        self.no_click_after = (
            None
            if no_click_after is None
            else checks.number("no_click_after of Recommender", no_click_after, low=0.0, high=self.keep)
        )
        self.most_K = checks.integer("most_K of Recommender", most_K, low=1, high=1000)
        self.clock = clock
        self.worker = secrets.token_hex(4)
        check_names(self.catalog)
        self._topic_at = {str(name): j for j, name in enumerate(self.catalog.topics)}
        self.tastes = Tastes(checks.integer("cache of Recommender", cache, low=0), self.catalog.d)
        #: Called after each commit with what was added to the counters.
        self.on_counts: Callable[[Counts], None] | None = None
        self._lock = Lock()
        self._stale = False  # whether the catalog is to see changes that this process made
        # Weights of items as the catalog had them, where changed since; None for items that it did not have.
        self._original: dict[Any, dict[Any, float] | None] = {}
        self._digest = content_digest(self.catalog)
        self._identity = ""
        self._blank: Statistics | None = None
        self._blanks: dict[str, Taste] = {}
        self.store = open_store(store) if isinstance(store, str) else store
        try:
            self._transaction(lambda: self._set_up(new_catalog))
        except BaseException:
            self.store.close()
            raise

    def _set_up(self, new_catalog: bool) -> None:
        """Tables, topics, learners and catalog: as they are, or as they become; in a transaction."""
        store = self.store
        store.migrate()
        identity = store.meta("id")
        if identity is None:
            identity = secrets.token_hex(16)
            store.set_meta("id", identity)
        sets, topics = store.topic_sets(), list(map(str, self.catalog.topics))
        if not sets or sets[-1] != topics:
            store.add_topics(len(sets), topics)
            sets = [*sets, topics]
        self.topics = Topics(sets)
        known = store.learners()
        self._learning = {**self.learners.retired(known), **self.learners}
        self._blanks.clear()
        for name, learner in self.learners.items():
            settings = json.loads(json.dumps(learner.settings))
            if name not in known:
                store.add_learner(name, settings)
            elif known[name] != settings:
                other = {what: known[name].get(what) for what in settings if known[name].get(what) != settings[what]}
                raise ValueError(
                    f"learner {name!r} must be as the store knows it, with {other}; got "
                    f"{ ({what: settings[what] for what in other}) }. Give the new one another name"
                )
        running = json.dumps(self.learners.told())
        if store.meta("running") != running:
            store.set_meta("running", running)
        heading = store.heading()
        if heading is None or heading.digest != self._digest:
            if heading is not None and heading.changes and not new_catalog:
                raise ValueError(
                    f"the catalog is not the one of the store, in which {heading.changes} items were put or removed "
                    "by hand; new_catalog (--new-catalog) lets it take that one's place, without those changes"
                )
            heading = Heading(1 if heading is None else heading.epoch + 1, self._digest, 0)
            store.add_catalog(heading.epoch, self._digest)
        self.epoch = heading.epoch
        self._changes = 0
        self._generation = store.generation()
        self._apply_changes()
        self._identity = identity  # last: what fails before is tried again

    # Words of its own

    @property
    def blank(self) -> Statistics:
        """The statistics of a user of whom nothing is known, as the store keeps them."""
        if self._blank is None or self._blank.topics != self.topics.now:
            self._blank = self.blank_taste(next(iter(self.learners))).written(self.topics)
        return self._blank

    def blank_taste(self, learner: str) -> Taste:
        """The same in memory."""
        if learner not in self._blanks:
            self._blanks[learner] = Taste.blank(self.learning(learner).policy)
        return self._blanks[learner]

    def learning(self, learner: str) -> Learner:
        """A learner of the store, whether it runs here or not; in a transaction."""
        if learner not in self._learning:  # another process has added it since
            self._learning.update(self.learners.retired(self.store.learners()))
        return self._learning[learner]

    def learner_of(self, user: Any, name: Any) -> Learner | None:
        """A learner by name, or the user's; None where either name cannot be."""
        try:
            return self.find_learner(user, name)
        except Refused:
            return None

    def find_learner(self, user: Any, name: Any) -> Learner:
        """The same, or a refusal."""
        user = self.user_name(user)
        if name is not None and name not in self.learners:
            raise Refused("learner", f"must be one of {', '.join(self.learners)}, got {name!r:.80}")
        return self.learners.assigned(user) if name is None else self.learners[name]

    @staticmethod
    def user_name(user: Any) -> str:
        """A user's name, or a refusal: it is part of addresses, so it has no slash in it and is not dots only."""
        name: str = checked("user", checks.text_name, user)
        if "/" in name or name in (".", ".."):
            raise Refused("user", f"must be a name without '/', and not '.' or '..', got {name!r:.80}")
        return name

    def oldest(self, now: float) -> bytes:
        """No impression before this id is kept."""
        return id_floor(max(0.0, now - self.keep))

    # Operations

    def perform(self, operations: Sequence[Operation], *, whole: bool = False) -> list[Any]:
        """All in one transaction, durable when this returns; for each its answer, or the exception that is its answer.

        whole: if one of them is refused, none is done, and the refusal is raised.
        A :class:`thali.service.stores.StoreError` is raised if the store cannot be used; then none of them is done.
        """
        with self._lock:
            self.store.begin_in_turn(PATIENCE_S)
            batch, outcomes = self.prepare(operations)
            refusals = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            if whole and refusals:
                self.abandon()
                raise refusals[0]
            try:
                self.store.commit()
            except BaseException:
                self.abandon()
                raise
            self.conclude(batch)
        return outcomes

    # perform in its three parts, for those who wait for the store elsewhere: between store.begin and conclude, or
    # abandon, nothing else may be asked of this object.

    def prepare(self, operations: Sequence[Operation]) -> tuple[Batch, list[Any]]:
        """In a transaction that has begun, everything but the commit."""
        try:
            self._catch_up()
            batch = Batch(self)
            outcomes = batch.run(operations, HANDLERS)
            batch.flush()
        except BaseException:
            self.abandon()
            raise
        return batch, outcomes

    def conclude(self, batch: Batch) -> None:
        """After the commit: go on from what is durable now."""
        if not self.store.shared:
            for user in batch.forgotten:
                self.tastes.drop(user)
            for key, taste in batch.tastes.items():
                if key[0] not in batch.forgotten:
                    self.tastes.keep(key, taste)
        if batch.forgotten:
            self.store.scrub()
        self._stale = self._stale or bool(batch.changed)
        if self.on_counts is not None:
            self.on_counts(batch.counted)

    def abandon(self) -> None:
        """Instead of a commit, or after one that failed."""
        self.store.rollback()
        self.tastes.clear()

    def _transaction(self, work: Callable[[], None]) -> None:
        self.store.begin_in_turn(PATIENCE_S)
        try:
            work()
            self.store.commit()
        except BaseException:
            self.abandon()
            raise

    def _catch_up(self) -> None:
        """See what other processes have changed."""
        generation = self.store.generation()
        others = generation is None or generation != self._generation
        if others:
            self.tastes.clear()
            if self.store.meta("id") != self._identity:
                self._begin_anew()
        if others or self._stale:
            self._apply_changes()
            self._stale = False
        self._generation = generation  # last: what fails before is tried again the next time

    def _begin_anew(self) -> None:
        """Another store has taken the place of this one (a backup was restored)."""
        heading = self.store.heading()
        if heading is None or heading.digest != self._digest:
            raise StoreError("the store was replaced by one of another catalog: start again with that")
        for item, weights in self._original.items():
            self._put(item, weights)
        self._original.clear()
        try:
            self._set_up(new_catalog=False)
        except ValueError as error:
            raise StoreError(f"the store was replaced by one that does not fit: {error}") from error

    def _apply_changes(self) -> None:
        """Put and remove what was put and removed since; in a transaction."""
        if self.store.changes_made(self.epoch) != self._changes:
            for change in self.store.changes(self.epoch, self._changes):
                self._apply(change)
                self._changes = change.seq

    def _apply(self, change: Change) -> None:
        e = self.catalog.find(change.item)
        self._original.setdefault(change.item, None if e is None else self.weights_of(e))
        self._put(change.item, change.weights)

    def _put(self, item: Any, weights: dict[Any, float] | None) -> None:
        if weights is None:
            if self.catalog.find(item) is not None:
                self.catalog.remove(item)
            return
        row = np.zeros(self.catalog.d)
        for topic, weight in weights.items():
            row[self._topic_at[str(topic)]] = weight  # as text it comes from the store
        self.catalog.put(item, row)

    def weights_of(self, e: int) -> dict[Any, float]:
        """The weights of an item by topic."""
        begin, end, topics, weights = self.catalog.sparse
        its = slice(int(begin[e]), int(end[e]))
        names = self.catalog.topics
        return {names[j]: w for j, w in zip(topics[its].tolist(), weights[its].tolist(), strict=True)}

    def _one(self, operation: Operation) -> Any:
        outcome = self.perform([operation])[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    # The same, one by one

    def recommend(
        self,
        user: str,
        *,
        K: int | None = None,
        candidates: Sequence[Any] | None = None,
        exclude: Sequence[Any] | None = None,
        learner: str | None = None,
        alpha: float | None = None,
    ) -> answers.Shown:
        """A list for a user, by names of items to choose from or to leave out; durable as an impression."""
        shown: answers.Shown = self._one(Recommend(user, K, candidates, exclude, learner, alpha))
        return shown

    def feedback(self, impression: str, clicked: Sequence[int]) -> answers.Answer:
        """Learn which positions of a list were clicked, [] for none; what it learned is durable when it returns.

        Sent again, it does nothing and answers the same. Other positions than were recorded are a
        :class:`Conflict`, an impression that is not kept is :class:`Unknown`.
        """
        answer: answers.Answer = self._one(Feedback(id_bytes(impression), clicked))
        return answer

    def undo(self, impression: str) -> answers.Answer:
        """Take feedback back: statistics are as if it had never come.

        To the last bit where all that the user's statistics were learned from is still kept, and is no more than 300
        impressions; else up to rounding, by subtraction.
        """
        answer: answers.Answer = self._one(Undo(id_bytes(impression)))
        return answer

    def impression(self, impression: str) -> answers.Seen:
        """A list as it was shown, and the answer to it."""
        seen: answers.Seen = self._one(Look(id_bytes(impression)))
        return seen

    def user(self, name: str) -> answers.User:
        """What is known of a user: learned taste with intervals, counts."""
        user: answers.User = self._one(LookUser(name))
        return user

    def history(self, user: str, *, before: str | None = None, limit: int = 100) -> list[answers.Seen]:
        """A user's impressions before one of them, the latest first."""
        page: list[answers.Seen] = self._one(
            History(user, AFTER_ALL if before is None else id_bytes(before, "before"), limit)
        )
        return page

    def impressions(self, user: str) -> Iterator[answers.Seen]:
        """All impressions of a user that are kept, the latest first."""
        before = None
        while page := self.history(user, before=before, limit=500):
            yield from page
            before = page[-1].impression

    def forget(self, user: str) -> answers.Forgotten:
        """Remove all of a user: statistics and impressions."""
        forgotten: answers.Forgotten = self._one(Forget(user))
        return forgotten

    def export(self, user: str) -> dict[str, Any]:
        """All that is kept of a user: statistics by learner, and impressions, the oldest first."""
        learned: dict[str, answers.Learned] = self._one(ExportUser(user))
        seen = list(self.impressions(user))[::-1]
        if not learned and not seen:
            raise Unknown(f"user {user!r} is not known")
        return {"user": user, "exported_at": self.clock(), "learners": learned, "impressions": seen}

    def items(self, *, offset: int = 0, limit: int = 100, contains: str = "") -> answers.Items:
        """A page of the items whose names hold some text."""
        page: answers.Items = self._one(LookItems(offset, limit, contains))
        return page

    def put_item(self, name: Any, weights: Mapping[Any, float]) -> answers.Item:
        """Add an item, or change its weights by topic. It can be recommended at once; nothing is learned anew."""
        item: answers.Item = self._one(PutItem(name, weights))
        return item

    def remove_item(self, name: Any) -> answers.Item:
        """Show an item no more. What was learned from it stays."""
        item: answers.Item = self._one(RemoveItem(name))
        return item

    def tidy(self, limit: int = 1000) -> answers.Tidied:
        """Give time-outs and remove impressions that are kept no longer, up to so many of each; again while any are."""
        return answers.Tidied(self._one(TimeOut(limit)), self._one(Prune(limit)))

    def stats(self, hours: int = 24) -> answers.Statistics:
        """How the learners do: click rates with intervals, diversity, exploration, calibration."""
        stats: answers.Statistics = self._one(Stats(hours))
        return stats

    def words(self, prefix: str) -> dict[str, str]:
        """What :class:`~thali.service.recommender.operations.Mark` has stored under names that begin with prefix."""
        found: dict[str, str] = {}
        with self._lock:
            self._transaction(lambda: found.update(self.store.metas(prefix)))
        return found

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_names(catalog: Catalog) -> None:
    """An error unless the store can keep the names: items as text or whole numbers, topics as text."""
    for name in catalog.items:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise TypeError(f"items of Recommender's catalog must be text or whole numbers, got {name!r:.80}")
    if len(set(map(str, catalog.topics))) < catalog.d:
        raise ValueError(f"topics of Recommender's catalog must differ as text, got {catalog.topics!r:.80}")


def content_digest(catalog: Catalog) -> str:
    """A digest of all that a catalog holds: items present, topics, weights, coverage. Cost: a pass over them."""
    coverage = catalog.coverage if catalog.custom is None else type(catalog.custom).__qualname__
    names = [name for name, there in zip(catalog.items, catalog.present.tolist(), strict=True) if there]
    digest = sha256(json.dumps([coverage, list(catalog.topics), names], default=str).encode())
    kept = catalog.csr[np.flatnonzero(catalog.present)]
    for part in (kept.indptr.astype("<i8"), kept.indices.astype("<i8"), kept.data.astype("<f8")):
        digest.update(part.tobytes())
    return digest.hexdigest()
