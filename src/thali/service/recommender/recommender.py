"""Named users and items, several learners, and a store that loses nothing."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Self

from thali.catalog.catalog import Catalog
from thali.policies.linear.policy import LinearPolicy
from thali.service.recommender.learners import Learner, Learners
from thali.service.recommender.live_catalog import LiveCatalog
from thali.service.recommender.operations import (
    AFTER_ALL,
    Feedback,
    FindItems,
    ForgetUser,
    GetHistory,
    GetImpression,
    GetStatistics,
    GetStats,
    GetUser,
    Operation,
    Prune,
    PutItem,
    Recommend,
    Refused,
    RemoveItem,
    TimeOut,
    Undo,
    Unknown,
    checked,
    id_bytes,
)
from thali.service.recommender.tastes import Taste, Tastes
from thali.service.recommender.transaction import PATIENCE_S, Transaction, perform
from thali.service.stores import SqlStore, StoreError, open_store
from thali.service.stores.records import Counts, Statistics, id_floor
from thali.service.stores.topics import Topics
from thali.service.stores.waiting import BLOCKING, run_blocking
from thali.tools import checks
from thali_client.types import (
    Answer,
    Forgotten,
    Impression,
    Item,
    Items,
    LearnerStatistics,
    Shown,
    Stats,
    Tidied,
    User,
)

DAY_S = 86_400.0


class Recommender:
    """Shows lists to named users, learns from their clicks exactly once, and keeps both in a durable store.

    A list is in the store before it is returned, and what was learned from feedback is there before :meth:`feedback`
    returns. Feedback is learned with the gains as the list was shown; it may arrive late, twice, in any order and from
    several threads or processes. Change the catalog through :meth:`put_item` and :meth:`remove_item` only.

    Parameters
    ----------
    policy: of the linear family, exploring by optimism and not forgetting; or several by name, on the same catalog.
    store: ``sqlite:///FILE``, or ``postgresql://…`` for several machines.
    shares: the proportion of users that each of several policies gets; equal by default. A user's policy is chosen by a
        hash of the name, and statistics are kept for each user and policy.
    no_click_after: treat missing feedback as no click after this many seconds (by :meth:`tidy`; feedback that arrives
        later corrects it). By default nothing is learned from a list without feedback.
    keep: seconds for which impressions are kept and accept feedback; what was learned stays. 30 days by default.
    cache: bytes of memory for the statistics of recent users; others are read from the store when needed.
    most_K: the largest K that a request may ask for.
    new_catalog: whether a catalog other than the store's may replace it even if items were put or removed by hand;
        those changes are then lost.

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
        #: The catalog as the store has it.
        self.live = LiveCatalog(self.catalog)
        self.tastes = Tastes(checks.integer("cache of Recommender", cache, low=0), self.catalog.d)
        #: Called after each commit with what was added to the counters.
        self.on_counts: Callable[[Counts], None] | None = None
        self._lock = Lock()
        self._stale = False  # whether this process made changes that its catalog does not have yet
        self._identity = ""
        self._blank: Statistics | None = None
        self._blanks: dict[str, Taste] = {}
        self.store = open_store(store) if isinstance(store, str) else store
        try:
            with self.store.transaction(PATIENCE_S):
                self._set_up(new_catalog=new_catalog)
        except BaseException:
            self.store.close()
            raise

    def _set_up(self, *, new_catalog: bool) -> None:
        """Create or migrate the tables, and register topics, learners and catalog; in a transaction."""
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
        self._set_up_learners()
        self.live.set_up(store, replace=new_catalog)
        self._generation = store.generation()
        self._identity = identity  # last: what fails before is tried again

    def _set_up_learners(self) -> None:
        store = self.store
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
        running = json.dumps(self.learners.described())
        if store.meta("running") != running:
            store.set_meta("running", running)

    @property
    def blank(self) -> Statistics:
        """The statistics of a new user, as the store keeps them."""
        if self._blank is None or self._blank.topics != self.topics.now:
            self._blank = self.blank_taste(next(iter(self.learners))).written(self.topics)
        return self._blank

    def blank_taste(self, learner: str) -> Taste:
        """The same in memory."""
        if learner not in self._blanks:
            self._blanks[learner] = Taste.blank(self.learning(learner).policy)
        return self._blanks[learner]

    def learning(self, learner: str) -> Learner:
        """A learner that the store knows, whether it runs here or not; in a transaction."""
        if learner not in self._learning:  # another process has added it since
            self._learning.update(self.learners.retired(self.store.learners()))
        return self._learning[learner]

    def learner_of(self, user: Any, name: Any) -> Learner | None:
        """The learner of this name, or the user's if there is no name; None where either cannot be."""
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
        """A user's name, or a refusal. It is part of addresses, so it has no slash and is not only dots."""
        name: str = checked("user", checks.text_name, user)
        if "/" in name or name in (".", ".."):
            raise Refused("user", f"must be a name without '/', and not '.' or '..', got {name!r:.80}")
        return name

    def oldest(self, now: float) -> bytes:
        """No impression before this id is kept."""
        return id_floor(max(0.0, now - self.keep))

    # Transactions: see thali.service.recommender.transaction.

    def perform(self, operations: Sequence[Operation], *, whole: bool = False) -> list[Any]:
        """All operations in one transaction, durable when this returns; for each its result or its exception.

        whole: if one of them is refused, none is done, and the refusal is raised. A
        :class:`thali.service.stores.StoreError` means that none of them is done.
        """
        with self._lock:
            return run_blocking(perform(self, operations, BLOCKING, whole=whole))

    def catch_up(self) -> None:
        """See what other processes have changed; at the start of a transaction."""
        generation = self.store.generation()
        others = generation is None or generation != self._generation
        if others:
            self.tastes.clear()
            if self.store.meta("id") != self._identity:
                self._start_again()
        if others or self._stale:
            self.live.apply_changes(self.store)
            self._stale = False
        self._generation = generation  # last: what fails before is tried again the next time

    def _start_again(self) -> None:
        """Another store has replaced this one: a backup was restored."""
        self.live.start_again(self.store)
        try:
            self._set_up(new_catalog=False)
        except ValueError as error:
            raise StoreError(f"the store was replaced by one that does not fit: {error}") from error

    def conclude(self, transaction: Transaction) -> None:
        """After the commit: cache what is durable now."""
        if not self.store.shared:
            for user in transaction.forgotten:
                self.tastes.drop(user)
            for key, taste in transaction.tastes.items():
                if key[0] not in transaction.forgotten:
                    self.tastes.keep(key, taste)
        if transaction.forgotten:
            self.store.scrub()
        self._stale = self._stale or bool(transaction.changed)
        if self.on_counts is not None:
            self.on_counts(transaction.counted)

    def abandon(self) -> None:
        """Instead of a commit, or after one that failed: undo everything."""
        self.store.rollback()
        self.tastes.clear()

    def _one(self, operation: Operation) -> Any:
        outcome = self.perform([operation])[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    # One method for each operation.

    def recommend(
        self,
        user: str,
        *,
        K: int | None = None,
        candidates: Sequence[Any] | None = None,
        exclude: Sequence[Any] | None = None,
        learner: str | None = None,
        alpha: float | None = None,
    ) -> Shown:
        """Choose a list for a user; candidates and exclude are names of items. It is stored as an impression."""
        shown: Shown = self._one(Recommend(user, K, candidates, exclude, learner, alpha))
        return shown

    def feedback(self, impression: str, clicked: Sequence[int]) -> Answer:
        """Learn which positions of a list were clicked, [] for none; durable when this returns.

        A duplicate changes nothing and returns the same. Positions other than those recorded raise :class:`Conflict`;
        an impression that is not kept raises :class:`Unknown`.
        """
        answer: Answer = self._one(Feedback(id_bytes(impression), clicked))
        return answer

    def undo(self, impression: str) -> Answer:
        """Take feedback back: statistics are as if it had never come.

        Exact to the last bit if all impressions that the user's statistics were learned from are still kept and are no
        more than 300; otherwise up to rounding, by subtraction.
        """
        answer: Answer = self._one(Undo(id_bytes(impression)))
        return answer

    def impression(self, impression: str) -> Impression:
        """A list as it was shown, and the answer to it."""
        seen: Impression = self._one(GetImpression(id_bytes(impression)))
        return seen

    def user(self, name: str) -> User:
        """What is known of a user: learned taste with intervals, counts."""
        user: User = self._one(GetUser(name))
        return user

    def history(self, user: str, *, before: str | None = None, limit: int = 100) -> list[Impression]:
        """A user's impressions before one of them, the latest first."""
        page: list[Impression] = self._one(
            GetHistory(user, AFTER_ALL if before is None else id_bytes(before, "before"), limit)
        )
        return page

    def impressions(self, user: str) -> Iterator[Impression]:
        """All impressions of a user that are kept, the latest first."""
        before = None
        while page := self.history(user, before=before, limit=500):
            yield from page
            before = page[-1].impression

    def forget(self, user: str) -> Forgotten:
        """Remove all of a user: statistics and impressions."""
        forgotten: Forgotten = self._one(ForgetUser(user))
        return forgotten

    def export(self, user: str) -> dict[str, Any]:
        """All that is kept of a user: statistics by learner, and impressions, the oldest first."""
        learned: dict[str, LearnerStatistics] = self._one(GetStatistics(user))
        seen = list(self.impressions(user))[::-1]
        if not learned and not seen:
            raise Unknown(f"user {user!r} is not known")
        return {"user": user, "exported_at": self.clock(), "learners": learned, "impressions": seen}

    def items(self, *, offset: int = 0, limit: int = 100, contains: str = "") -> Items:
        """A page of the items whose names hold some text."""
        page: Items = self._one(FindItems(offset, limit, contains))
        return page

    def put_item(self, name: Any, weights: Mapping[Any, float]) -> Item:
        """Add an item, or change its weights by topic. The next list can already show it."""
        item: Item = self._one(PutItem(name, weights))
        return item

    def remove_item(self, name: Any) -> Item:
        """Remove an item. What was learned from it stays."""
        item: Item = self._one(RemoveItem(name))
        return item

    def tidy(self, limit: int = 1000) -> Tidied:
        """Time out overdue impressions and remove expired ones, at most ``limit`` of each; repeat until both are 0."""
        return Tidied(self._one(TimeOut(limit)), self._one(Prune(limit)))

    def stats(self, hours: int = 24) -> Stats:
        """How the learners do: click rates with intervals, diversity, exploration, calibration."""
        stats: Stats = self._one(GetStats(hours))
        return stats

    def metas(self, prefix: str) -> dict[str, str]:
        """What :class:`~thali.service.recommender.operations.SetMeta` has stored under names that begin with prefix."""
        with self._lock, self.store.transaction(PATIENCE_S):
            return self.store.metas(prefix)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
