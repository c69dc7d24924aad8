"""Recommender: lists for named users, from one or several learners, with a durable store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Self

from thali.catalog.catalog import Catalog
from thali.policies.linear.policy import LinearPolicy
from thali.policies.quality import Quality
from thali.service.recommender.in_use import InUse
from thali.service.recommender.learners import Learner, Learners
from thali.service.recommender.live_catalog import LiveCatalog
from thali.service.recommender.operations import (
    AFTER_ALL,
    Conflict,
    Feedback,
    FindItems,
    ForgetUser,
    GetHistory,
    GetImpression,
    GetPrior,
    GetStatistics,
    GetStats,
    GetUser,
    Operation,
    Prune,
    PutItem,
    PutItems,
    Recommend,
    RefreshQuality,
    Refused,
    RemoveHistory,
    RemoveItem,
    SetMeta,
    TimeOut,
    Undo,
    Unknown,
    checked,
    id_bytes,
)
from thali.service.recommender.prior_check import PREFIX, Checker, to_store
from thali.service.recommender.prior_learning import PriorDraw, TooFewPeople
from thali.service.recommender.seen import HideRule
from thali.service.recommender.tastes import Tastes
from thali.service.recommender.transaction import PATIENCE_S, Transaction, perform
from thali.service.stores import SqlStore, open_store
from thali.service.stores.records import Counts, StoredPrior, id_floor
from thali.service.stores.topics import Topics
from thali.service.stores.waiting import BLOCKING, run_blocking
from thali.tools import checks
from thali_client.types import (
    Answer,
    Forgotten,
    Impression,
    Item,
    Items,
    LearnerPrior,
    LearnerStatistics,
    PriorCheck,
    Shown,
    Stats,
    Tidied,
    User,
)

DAY_S = 86_400.0


class Recommender:
    """Recommends lists to named users, learns from their clicks exactly once, and keeps both in a durable store.

    A list is in the store before :meth:`recommend` returns it. What is learned from feedback is in the store before
    :meth:`feedback` returns. Feedback is always learned with the gains that the list had when it was shown. Feedback
    may arrive late, twice, in any order, and from several threads or processes. Change the catalog only with
    :meth:`put_item` and :meth:`remove_item`.

    Names of users are text. Names of items are text or whole numbers, and a number and its text are the same name: 5
    and "5" are one item.

    Parameters
    ----------
    policy: a policy of the linear family that explores by optimism and does not forget. For several learners, a mapping
        from names to such policies, which must share one catalog object.
    store: ``sqlite:///FILE``, or ``postgresql://…`` for several machines.
    shares: the proportion of users for each of several learners, equal by default. A hash of the user's name decides
        which learner the user is assigned to. Statistics are kept per user and learner.
    no_click_after: treat missing feedback as no click after this many seconds. :meth:`tidy` does this, and feedback
        that arrives later corrects it. By default, nothing is learned from a list without feedback.
    keep: the number of seconds for which impressions are kept and accept feedback, by default 30 days. What was learned
        from them is kept permanently.
    cache: bytes of memory for the statistics of recent users. Other users' statistics are read from the store.
    most_K: the largest K that a request may use.
    hide: what users are not shown again: a rule such as "clicked", "examined:20" (for 20 lists), "examined:7d" (for 7
        days), "fading:5" (longer, the more often it was examined), or several with commas between them. By default,
        nothing is hidden. At most 1,000 items are remembered for each user and learner.
    quality: the quality of items that ``thali.fit`` has found, if it shall go on learning (:meth:`refresh_quality`).
        The catalog must have the steady topic "quality".
    learn_prior: whether learners use the priors that :meth:`learn_prior` learns, or the names of the learners that do.
        By default, learners keep the priors of their policies.
    keep_prior: the names of learners that keep the prior of their policy when another catalog file is put into use. The
        others then start with the prior in that file, if it has one.
    catalog_path: the file of the catalog. Other processes that use the same store load it.
    start_digest: a digest of the prior and the counts in this file, by which other processes notice new ones.
    new_catalog: whether this catalog may replace a different one in the store even if that one's items were changed by
        :meth:`put_item` or :meth:`remove_item`. Those changes are then lost.
    same_catalog: whether this catalog must be the one that the store uses, if it uses one already. This is for
        programs that open the store of a service for a short time, and for processes of a service that are restarted.
        They must not replace its catalog or its settings.

    Cost: see docs/performance.md. The store needs 4·d·(d+3) bytes and about 100 more per user and learner.

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
        hide: str = "nothing",
        quality: Quality | None = None,
        learn_prior: bool | Collection[str] = False,
        keep_prior: Collection[str] = (),
        catalog_path: str | None = None,
        start_digest: str | None = None,
        new_catalog: bool = False,
        same_catalog: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.learners = Learners(policy, shares)
        self.keep = checks.number("keep of Recommender", keep, low=0.0, strict=True)
        self.no_click_after = (
            None
            if no_click_after is None
            else checks.number("no_click_after of Recommender", no_click_after, low=0.0, high=self.keep)
        )
        self.most_K = checks.integer("most_K of Recommender", most_K, low=1, high=1000)
        self.clock = clock
        self.worker = secrets.token_hex(4)
        #: What users are not shown again.
        self.hide = HideRule.read(hide, "hide of Recommender")
        self.hide_text = hide
        cache = checks.integer("cache of Recommender", cache, low=0)
        #: The learners that use learned priors.
        chosen = () if learn_prior is False else self.learners if learn_prior is True else learn_prior
        self.prior_learners = self._some_learners("learn_prior", chosen)
        #: The learners whose own prior stays when another catalog file is put into use.
        self.keep_prior = self._some_learners("keep_prior", keep_prior)
        #: If set, called after each commit with the amounts that were added to the counters.
        self.on_counts: Callable[[Counts], None] | None = None
        self._lock = Lock()
        live = LiveCatalog(self.learners.catalog, quality)
        self.store = open_store(store) if isinstance(store, str) else store
        #: The catalog, topics, learners and priors that this process uses.
        self.in_use = InUse(
            self.store,
            self.learners,
            live,
            cache=cache,
            hide=hide,
            prior_learners=self.prior_learners,
            keep_prior=self.keep_prior,
            catalog_path=catalog_path,
            start_digest=start_digest,
            clock=clock,
        )
        try:
            with self.store.transaction(PATIENCE_S):
                self.in_use.begin(new_catalog=new_catalog, same_catalog=same_catalog)
        except BaseException:
            self.store.close()
            raise

    @property
    def catalog(self) -> Catalog:
        """The catalog that all learners share."""
        return self.in_use.live.catalog

    @property
    def live(self) -> LiveCatalog:
        """The catalog, with the changes that the store has recorded."""
        return self.in_use.live

    @property
    def topics(self) -> Topics:
        """The topics of the catalog, and those of earlier ones."""
        return self.in_use.topics

    @property
    def priors(self) -> dict[str, StoredPrior]:
        """The learned priors that are in use, by learner."""
        return self.in_use.priors

    @property
    def tastes(self) -> Tastes:
        """The cache of the statistics of recent users."""
        return self.in_use.tastes

    def _some_learners(self, argument: str, names: Any) -> frozenset[str]:
        """Check an argument that contains names of learners."""
        rule = f"{argument} of Recommender must contain names of learners, {', '.join(self.learners)}"
        if isinstance(names, str) or not isinstance(names, Collection):
            raise TypeError(f"{rule}, got {names!r:.80}")
        for name in names:
            if name not in self.learners:
                raise ValueError(f"{rule}, got {name!r:.80}")
        return frozenset(names)

    def find_learner_or_none(self, user: Any, name: Any) -> Learner | None:
        """Like :meth:`find_learner`, but return None instead of raising :class:`Refused`."""
        try:
            return self.find_learner(user, name)
        except Refused:
            return None

    def find_learner(self, user: Any, name: Any) -> Learner:
        """Return the learner with this name or, if name is None, the learner that the user is assigned to."""
        user = self.user_name(user)
        if name is not None and name not in self.learners:
            raise Refused("learner", f"must be one of {', '.join(self.learners)}, got {name!r:.80}")
        return self.learners.assigned(user) if name is None else self.learners[name]

    @staticmethod
    def user_name(user: Any) -> str:
        """Check a user's name and return it."""
        name: str = checked("user", checks.path_name, user)
        return name

    def oldest(self, now: float) -> bytes:
        """Return the id before which all impressions have expired."""
        return id_floor(max(0.0, now - self.keep))

    # Transactions: see thali.service.recommender.transaction.

    def perform(self, operations: Sequence[Operation], *, whole: bool = False) -> list[Any]:
        """Perform all operations in one transaction. Returns the result or exception of each.

        Everything is durable when this returns. whole: if one operation fails, perform none of them and raise its
        exception. :class:`thali.service.stores.StoreError` means that no operation was performed, with one exception
        that its docstring describes.
        """
        with self._lock:
            return run_blocking(perform(self, operations, BLOCKING, whole=whole))

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
        hide: str | None = None,
        explain: bool = False,
    ) -> Shown:
        """Recommend a list to a user, and store it as an impression.

        K and alpha: by default, those of the learner. K is the most items: the list is shorter if fewer items are left
        to choose from. If none is left, :class:`Refused` is raised. candidates: the names of the items to choose from,
        by default all items. exclude: the names of items not to show; names that do not exist are ignored. learner: by
        default, the one that the user is assigned to. hide: a rule for this list instead of that of the recommender,
        such as "nothing". It is refused if it needs more than the recommender records: only clicked items if its own
        rule needs no others, and nothing without a rule. explain: whether to explain each item by topic and in words.
        """
        shown: Shown = self._one(Recommend(user, K, candidates, exclude, learner, alpha, hide, explain))
        return shown

    def feedback(self, impression: str, clicked: Sequence[int]) -> Answer:
        """Learn which positions of a list were clicked, or [] if none was. It is durable when this returns.

        Sending the same feedback again changes nothing and returns the same answer. Raises :class:`Conflict` if
        different feedback is already recorded, and :class:`Unknown` if the impression is not stored (any more).
        """
        answer: Answer = self._one(Feedback(id_bytes(impression), clicked))
        return answer

    def undo(self, impression: str) -> Answer:
        """Undo feedback, so that the statistics are as if it had never been given.

        If the user's statistics were learned from at most 300 impressions, and all of them are still stored, the
        result is exact to the last bit. Otherwise the feedback is subtracted, and the result is exact up to rounding.
        """
        answer: Answer = self._one(Undo(id_bytes(impression)))
        return answer

    def impression(self, impression: str) -> Impression:
        """Return a list as it was shown, and the answer to it."""
        shown: Impression = self._one(GetImpression(id_bytes(impression)))
        return shown

    def user(self, name: str) -> User:
        """Return what is known about a user: the learned taste with intervals, and counts."""
        user: User = self._one(GetUser(name))
        return user

    def history(self, user: str, *, before: str | None = None, limit: int = 100) -> list[Impression]:
        """Return a page of a user's impressions, latest first. before: only impressions that precede this one."""
        page: list[Impression] = self._one(
            GetHistory(user, AFTER_ALL if before is None else id_bytes(before, "before"), limit)
        )
        return page

    def impressions(self, user: str) -> Iterator[Impression]:
        """Yield all stored impressions of a user, latest first."""
        before = None
        while page := self.history(user, before=before, limit=500):
            yield from page
            before = page[-1].impression

    def forget(self, user: str) -> Forgotten:
        """Remove everything about a user: statistics and impressions."""
        forgotten: Forgotten = self._one(ForgetUser(user))
        return forgotten

    def export(self, user: str) -> dict[str, Any]:
        """Return everything that is stored about a user: statistics by learner, and impressions, oldest first."""
        learned: dict[str, LearnerStatistics] = self._one(GetStatistics(user))
        shown = list(self.impressions(user))[::-1]
        if not learned and not shown:
            raise Unknown(f"user {user!r} is not known")
        return {"user": user, "exported_at": self.clock(), "learners": learned, "impressions": shown}

    def items(self, *, offset: int = 0, limit: int = 100, contains: str = "") -> Items:
        """Return a page of the items. contains: only items whose names contain this text."""
        page: Items = self._one(FindItems(offset, limit, contains))
        return page

    def put_item(
        self, name: Any, weights: Mapping[Any, float] | None = None, *, topics: Sequence[Any] | None = None
    ) -> Item:
        """Add an item, or change its weights by topic. The next list can already contain it.

        topics: the names of its topics, instead of weights (:meth:`thali.Catalog.put`).
        """
        item: Item = self._one(PutItem(name, weights, topics))
        return item

    def put_items(self, changes: Sequence[PutItem | RemoveItem]) -> int:
        """Add, change or remove many items in one transaction: all or, if one is not valid, none. Return how many."""
        count: int = self._one(PutItems(changes))
        return count

    def remove_history(self, user: str, history: str) -> int:
        """Remove what was learned about a user from a history (``thali learn-from``). Return for how many learners."""
        removed: int = self._one(RemoveHistory(user, history))
        return removed

    def refresh_quality(self) -> bool:
        """Refresh the quality of all items from the clicks so far. Return whether there were new clicks.

        Without ``quality=``, clicks are not counted.
        """
        found, more = False, True
        while more:
            counted, more = self._one(RefreshQuality())
            found = found or counted
        return found

    def prior(self) -> dict[str, LearnerPrior]:
        """Return the prior of each learner."""
        priors: dict[str, LearnerPrior] = self._one(GetPrior())
        return priors

    def learn_prior(self, learner: str | None = None) -> LearnerPrior:
        """Learn the prior of a learner from the statistics of other users, and put it into use.

        At most 20,000 users, drawn at random, are used, and fewer if their statistics would take more than 128 MB. The
        learning starts from the prior of the learner's policy, never from a learned one. So nothing of a user who was
        forgotten is left in the next prior. If fewer than 2 users are left, the learner returns to the prior with which
        it started, and :class:`Refused` is raised. learner: by default, the only one that learns its prior.
        """
        name = self.prior_learner(learner)
        draw = PriorDraw(self, name)
        try:
            draw.read(self.store)
        except TooFewPeople:
            if (withdrawal := draw.withdrawal()) is not None:
                self._one(withdrawal)
            raise
        while True:
            operation = draw.learn()
            try:
                self._one(operation)
            except Conflict as conflict:
                draw.drop(conflict)
            else:
                return self.prior()[name]

    def check_prior(self, learner: str | None = None) -> PriorCheck | None:
        """Compare the clicks that were predicted with a learned prior with those observed, and store the result.

        Returns None if no learned prior is in use. See :class:`thali.service.recommender.prior_check.Checker`.
        """
        name = self.prior_learner(learner)
        self.perform([])  # reads which prior is in use
        with self.store.new_connection() as connection:
            check = Checker(self, name).check(connection, self.clock())
        if check is not None:
            self._one(SetMeta(f"{PREFIX}{name}", to_store(check)))
        return check

    def prior_learner(self, name: str | None) -> str:
        """Check that a learner learns its prior, and return its name. None: the only one that does."""
        allowed = sorted(self.prior_learners)
        if name is None and len(allowed) == 1:
            return allowed[0]
        if not isinstance(name, str) or name not in self.prior_learners:
            if not allowed:
                rule = "must be one that learns its prior, which needs thali serve --prior learn (learn_prior=True)"
            else:
                rule = f"must be one of {', '.join(allowed)}, which learn their priors"
            got = "no learner does" if name is None and not allowed else f"got {name!r:.80}"
            raise Refused("learner", f"{rule}, {got}")
        return str(name)

    def remove_item(self, name: Any) -> Item:
        """Remove an item. It is no longer shown, but what was learned from it is kept."""
        item: Item = self._one(RemoveItem(name))
        return item

    def tidy(self, limit: int = 1000) -> Tidied:
        """Time out overdue impressions and remove expired ones, at most ``limit`` of each.

        Returns how many. Call it again until both numbers are 0.
        """
        return Tidied(self._one(TimeOut(limit)), self._one(Prune(limit)))

    def stats(self, hours: int = 24) -> Stats:
        """Return the learners' click rates with intervals, diversity, exploration and calibration."""
        stats: Stats = self._one(GetStats(hours))
        return stats

    # The end of a transaction: see thali.service.recommender.transaction.perform.

    def after_commit(self, transaction: Transaction) -> None:
        """Add the tastes of a transaction to the cache, now that they are durable."""
        self.in_use.after_commit(stale=transaction.changes_catalog or bool(transaction.changed))
        if not self.store.shared:
            for user in transaction.forgotten:
                self.tastes.remove(user)
            for key, taste in transaction.tastes.items():
                if key[0] not in transaction.forgotten:
                    self.tastes.add(key, taste)
        if transaction.forgotten:
            self.store.scrub()
        if self.on_counts is not None:
            self.on_counts(transaction.counted)

    def after_failure(self) -> None:
        """Roll back a transaction that failed, before or during its commit."""
        self.store.rollback()
        self.in_use.after_failure()

    def meta_with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the stored values whose names begin with prefix."""
        with self._lock, self.store.transaction(PATIENCE_S):
            return self.store.meta_with_prefix(prefix)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
