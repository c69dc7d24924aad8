"""What a process uses, its catalog, topics, learners and priors, and how it follows what other processes change."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection

from thali.catalog.catalog import Catalog
from thali.policies.linear.prior import Prior
from thali.service.recommender.learners import Learner, Learners
from thali.service.recommender.live_catalog import DifferentCatalog, LiveCatalog, content_digest
from thali.service.recommender.loading import LoadedCatalog
from thali.service.recommender.prior_check import BEGAN
from thali.service.recommender.tastes import Taste, Tastes
from thali.service.stores import SqlStore, StoreError
from thali.service.stores.records import Statistics, StoredPrior, different_settings
from thali.service.stores.sql import PRIOR_VERSION, START
from thali.service.stores.topics import Topics


class InUse:
    """The catalog, topics, learners and priors that a process uses, and its cache of tastes.

    All of them must agree with the store, where other processes may change them. Every transaction therefore begins
    with :meth:`catch_up`, and ends with :meth:`after_commit` or :meth:`after_failure`. All other methods must be called
    in a transaction.

    Parameters
    ----------
    live: the catalog of the learners.
    cache: bytes of memory for tastes.
    hide: the rule for what users are not shown again. It is stored for commands such as ``thali learn-from``.
    prior_learners: the names of learners that use learned priors.
    keep_prior: the names of learners whose own prior stays when another catalog file is put into use.
    catalog_path, start_digest: the catalog file, and a digest of the prior and the counts in it.
    clock: returns the time, in seconds since 1970.

    """

    def __init__(
        self,
        store: SqlStore,
        learners: Learners,
        live: LiveCatalog,
        *,
        cache: int,
        hide: str,
        prior_learners: Collection[str],
        keep_prior: Collection[str],
        catalog_path: str | None,
        start_digest: str | None,
        clock: Callable[[], float],
    ) -> None:
        self.store, self.learners = store, learners
        self._hide, self._prior_learners, self._keep_prior = hide, prior_learners, keep_prior
        self._clock, self._cache = clock, cache
        #: The catalog, with the changes that the store has recorded.
        self.live = live
        self.tastes = Tastes(cache, learners.catalog.d)
        self.topics = Topics([list(map(str, learners.catalog.topics))])
        #: The learned priors that are in use, as the store has them, by learner.
        self.priors: dict[str, StoredPrior] = {}
        #: A digest of the prior and the counts in the catalog file, if the catalog comes from a file.
        self.start_digest = start_digest
        #: If set, called with the path of a catalog file that another process has put into use.
        self.load_catalog: Callable[[str], LoadedCatalog] | None = None
        #: If set, called with a sentence if this process cannot use that catalog.
        self.on_problem: Callable[[str], None] | None = None
        #: If set, called after each commit that has put another catalog file into use.
        self.on_catalog: Callable[[LoadedCatalog], None] | None = None
        self._catalog_path = catalog_path
        self._prior_version = 0
        # All learners in the store, also those that no longer run.
        self._known: dict[str, Learner] = {}
        self._blank: Statistics | None = None
        self._blanks: dict[str, Taste] = {}
        # What the store said when this process last caught up.
        self._identity = ""
        self._generation: int | None = None
        # Whether this process committed changes that it has not read again yet.
        self._stale = False
        # The epoch of a catalog that this process could not use, and the version of the priors then.
        self._unusable: tuple[int, int] | None = None
        # Of a transaction that is not committed yet: the new catalog, how to return to the one before, and whether
        # everything was set up again.
        self._new: LoadedCatalog | None = None
        self._return: Callable[[], None] | None = None
        self._was_reset = False

    @property
    def catalog(self) -> Catalog:
        """The catalog that all learners share."""
        return self.live.catalog

    def begin(self, *, new_catalog: bool, same_catalog: bool) -> None:
        """Prepare the store for what this process uses. Call this first.

        new_catalog: whether this catalog may replace a different one in the store, even if changes to that one's items
        are lost. same_catalog: whether this catalog and its start must be what the store uses, if it uses one already.
        """
        self._set_up(new_catalog=new_catalog, same_catalog=same_catalog)
        if same_catalog:
            if self.start_digest is not None and self.store.meta(START) not in (None, self.start_digest):
                raise DifferentCatalog("the prior and the counts of catalog must be those that the store uses")
        elif self._catalog_path is not None:
            self.store.set_meta("catalog", self._catalog_path)
            self._announce(self.start_digest)

    def catch_up(self) -> None:
        """Apply what other processes have changed."""
        generation = self.store.generation()
        changed = generation is None or generation != self._generation
        if changed:
            self.tastes.clear()
            if self.store.meta("id") != self._identity:
                self._reset()
        if changed or self._stale:
            epoch, changes, priors = self.store.versions()
            again = False
            follows = self.load_catalog is not None and (epoch, priors) != self._unusable
            if epoch != self.live.epoch and follows:
                again = self._follow_catalog(epoch, priors)
            elif epoch == self.live.epoch:  # otherwise, this process goes on with the catalog it has
                self.live.apply_changes(self.store, changes)
                if priors != self._prior_version and follows:
                    start = self.store.meta(START)
                    if start not in (None, self.start_digest):
                        again = self._follow_catalog(epoch, priors)
            if priors != self._prior_version:
                self._use_priors(priors)
            self._stale = again
        self._generation = generation  # last, so that everything is tried again after a failure

    def put_catalog(self, loaded: LoadedCatalog, path: str, *, discard_changes: bool = False) -> None:
        """Use the catalog of a file, and let other processes use it too."""
        self._use_catalog(loaded, discard_changes=discard_changes)
        self.store.set_meta("catalog", path)
        self._catalog_path = path
        self._announce(loaded.start_digest, again=True)

    def after_commit(self, *, stale: bool) -> None:
        """Note that a transaction was committed. stale: whether it changed the catalog or priors."""
        loaded, self._new = self._new, None
        self._return, self._was_reset = None, False
        if loaded is not None and self.on_catalog is not None:
            self.on_catalog(loaded)
        self._stale = self._stale or stale

    def after_failure(self) -> None:
        """Return to what was in use before a transaction that failed. Call this after the rollback."""
        if self._return is not None:
            self._return()
        if self._was_reset:  # set up once more
            self._identity, self._generation, self._was_reset = "", None, False
        self._stale = True  # the commit may have succeeded nevertheless
        self.tastes.clear()

    @property
    def blank(self) -> Statistics:
        """The statistics of a new user, in the form that the store keeps."""
        if self._blank is None or self._blank.topics != self.topics.current:
            self._blank = self.blank_taste(next(iter(self.learners))).to_store(self.topics)
        return self._blank

    def blank_taste(self, learner: str) -> Taste:
        """Return the taste of a new user under a learner."""
        if learner not in self._blanks:
            self._blanks[learner] = Taste.blank(self.known_learner(learner))
        return self._blanks[learner]

    def known_learner(self, name: str) -> Learner:
        """Return a learner that is in the store, even if it no longer runs."""
        if name not in self._known:  # another process has added it
            self._known.update(self.learners.retired(self.store.learners()))
        return self._known[name]

    def _set_up(self, *, new_catalog: bool, same_catalog: bool = False) -> None:
        """Create or migrate the tables, and register topics, learners and catalog."""
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
        self._set_up_learners(keep_settings=same_catalog)
        self.live.set_up(store, self._clock(), replace=new_catalog, same=same_catalog)
        self._use_priors(store.versions()[2])
        self._note_learned_priors()
        self._generation = store.generation()
        self._identity = identity  # last, so that everything is tried again after a failure

    def _set_up_learners(self, *, keep_settings: bool) -> None:
        store = self.store
        known = store.learners()
        self._known = {**self.learners.retired(known), **self.learners}
        self._blanks.clear()
        for name, learner in self.learners.items():
            settings = json.loads(json.dumps(learner.settings))
            if name not in known:
                store.add_learner(name, settings)
            elif stored := different_settings(known[name], settings):
                different = {key: settings.get(key) for key in stored}
                raise ValueError(
                    f"learner {name!r} must have the settings that the store has for it, {stored}, got {different}. "
                    "To use different settings, give the learner a new name"
                )
            learner.stored_sigma = known.get(name, settings)["sigma"]
        if keep_settings:
            return
        if store.meta("hide") != self._hide:
            store.set_meta("hide", self._hide)
        running = json.dumps(self.learners.describe(self._prior_learners, self._keep_prior))
        if store.meta("running") != running:
            store.set_meta("running", running)

    def _use_priors(self, version: int) -> None:
        """Use the priors in the store. Statistics stay as they are: a posterior is computed again with its prior."""
        self.priors = {name: kept for name, kept in self.store.priors().items() if name in self._prior_learners}
        for name in self._prior_learners:
            kept = self.priors.get(name)
            try:
                prior = None if kept is None or kept.prior is None else Prior.from_content(json.loads(kept.prior))
                self.learners[name].use(prior)
            except ValueError:  # it has the topics of an earlier catalog
                del self.priors[name]
                self.learners[name].use(None)
        self._prior_version = version

    def _note_learned_priors(self, *, again: bool = False) -> None:
        """Keep in the store since when each learner has had learned priors, and the same start, without interruption.

        again: whether the start has just changed.
        """
        for name in self.learners:
            in_use = name in self.priors and self.priors[name].prior is not None
            began = self.store.meta(BEGAN + name)
            if in_use and (began is None or again):
                self.store.set_meta(BEGAN + name, repr(self._clock()))
            elif not in_use and began is not None:
                self.store.drop_meta(BEGAN + name)

    def _announce(self, start_digest: str | None, *, again: bool = False) -> None:
        """Let other processes notice that the prior or the counts of the catalog file have changed.

        again: also if they have not changed, so that a process that could not use the file tries again.
        """
        changed = start_digest is not None and self.store.meta(START) != start_digest
        if changed:
            self.store.set_meta(START, str(start_digest))
            self._note_learned_priors(again=True)
        if changed or again:
            self._prior_version = self.store.versions()[2] + 1
            self.store.set_meta(PRIOR_VERSION, str(self._prior_version))

    def _reset(self) -> None:
        """Set up again, because the contents of the store were replaced: a backup was restored."""
        self._was_reset = True
        self.live.reset(self.store)
        try:
            self._set_up(new_catalog=False)
            if self._catalog_path is not None:  # the backup may be of a time when another file was in use
                self.store.set_meta("catalog", self._catalog_path)
                self._announce(self.start_digest)
        except ValueError as error:
            raise StoreError(
                f"the contents of the store were replaced by data that this process cannot use: {error}"
            ) from error

    def _follow_catalog(self, epoch: int, priors: int) -> bool:
        """Use the catalog file that another process has put into use. If that fails, go on with the old one.

        Returns whether yet another one is in use by now, which the next transaction has to follow. epoch, priors: what
        the store said at the beginning. If the file cannot be used, it is tried again when one of them changes.
        """
        assert self.load_catalog is not None
        path = self.store.meta("catalog")
        try:
            loaded = self.load_catalog(str(path))
            # Loading takes time. From here on, no other process can put another catalog into use.
            self.store.lock_setup()
            heading, start = self.store.heading(), self.store.meta(START)
            if heading is None or heading.epoch != epoch or self.store.versions()[2] != priors:
                return True
            if content_digest(loaded.catalog) != heading.digest or start not in (None, loaded.start_digest):
                raise ValueError(f"{path} has other contents here, or has changed since")
            self._use_catalog(loaded)
            self._catalog_path = path
        except (ValueError, TypeError, OSError) as error:
            self._unusable = epoch, priors
            if self.on_problem is not None:
                self.on_problem(
                    "another process uses another catalog. This process goes on with the old one, because it cannot "
                    f"use that catalog: {error}"
                )
        return False

    def _use_catalog(self, loaded: LoadedCatalog, *, discard_changes: bool = False) -> None:
        """Use another catalog with all learners. If it cannot be used, nothing changes.

        What was learned about users is kept for topics that have the same name. discard_changes: whether changes that
        were made to items of the other catalog may be lost.
        """
        live = LiveCatalog(loaded.catalog, loaded.quality, loaded.numbers)
        before = dict(vars(self))
        kept = [(learner, learner.start, learner.policy) for learner in self.learners.values()]

        def undo() -> None:
            vars(self).update(before)
            for learner, start, policy in kept:
                learner.start = start
                learner.use(None)
                learner.policy = policy
            self._blanks.clear()

        self._return, self._new = undo, loaded
        self.store.execute("SAVEPOINT new_catalog")
        try:
            for name, learner in self.learners.items():
                learner.use(learner.start.prior if name in self._keep_prior else loaded.prior, loaded.catalog)
            self.live, self.start_digest = live, loaded.start_digest
            self.tastes = Tastes(self._cache, loaded.catalog.d)
            self._set_up(new_catalog=discard_changes)
        except BaseException as error:
            undo()
            if not isinstance(error, StoreError):  # otherwise, the whole transaction fails
                self.store.execute("ROLLBACK TO SAVEPOINT new_catalog")
            raise
        self._unusable = None
