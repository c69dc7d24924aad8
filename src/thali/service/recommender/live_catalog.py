"""The catalog in memory, kept up to date with the store, where this and other processes may change items."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import compress
from math import ceil
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.snapshot import weights_by_topic
from thali.lists.explain import Explanation
from thali.policies.linear.policy import LinearPolicy
from thali.policies.quality import Quality
from thali.policies.relative_quality import RelativeQuality, expected_clicks
from thali.service.recommender.seen import ItemNumbers
from thali.service.stores.records import Change, Heading, StoreError
from thali.service.stores.sql import SqlStore
from thali.tools.types import Booleans, Floats

# Longer texts are not numbers. Python refuses to convert very long ones.
MOST_DIGITS = 100
#: The name of the steady topic that holds the quality of items.
QUALITY = "quality"
# An item that was added to the catalog is tried until it has this many examinations: see Quality.values, and
# docs/quality.md and docs/live.md for measurements. Only few are tried at a time, so that a list has room for what
# people like when many items are new.
TRIAL, MOST_TRIED = 50.0, 2


class DifferentCatalog(ValueError):  # noqa: N818 (named after what was found)
    """The catalog is not the one that the store uses."""


class LiveCatalog:
    """A catalog, with the changes that a store has recorded for it.

    An *epoch* is the period in which a store has the same catalog file. Its number grows by one when another catalog
    replaces that file. Changes are numbered within an epoch, and every process applies them in that order. Methods that
    take a store must be called in a transaction.

    The name of an item is text or a whole number, and a number and its text are the same name: 5 and "5" are one item.
    Names become text in files and URLs, where the two could not be told apart.
    """

    def __init__(self, catalog: Catalog, quality: Quality | None = None, numbers: ItemNumbers | None = None) -> None:
        """quality: the counts that the catalog file came with, if its column "quality" learns from clicks. numbers:
        those of the catalog, if they were prepared before.
        """
        check_names(catalog)
        self.catalog = catalog
        if quality is not None and (QUALITY not in map(str, catalog.topics) or quality.L != catalog.L):
            raise ValueError(
                f"quality of Recommender needs a catalog with the topic {QUALITY!r} and as many items, got {catalog!r} "
                f"and {quality!r}"
            )
        if quality is not None and catalog.fading[list(map(str, catalog.topics)).index(QUALITY)]:
            raise ValueError(
                f"the topic {QUALITY!r} of Recommender's catalog must be steady, which is fading=False in "
                "thali.Catalog, got one that fades"
            )
        self._start_quality = quality
        #: The quality of all items as it was last refreshed, or None if the catalog has none.
        self.quality = None if quality is None else RelativeQuality(quality)
        # How many more examinations each tried item needs, by its name as text, as far as this process knows.
        self._needed: dict[str, int] = {}
        self._start_column = None if quality is None else catalog.dense_column(QUALITY)
        self.numbers = ItemNumbers(catalog) if numbers is None else numbers
        self.epoch = 0
        self._digest = content_digest(catalog)
        self._applied = 0  # how many changes of this epoch were applied
        self._topic_number = {str(name): j for j, name in enumerate(catalog.topics)}
        # Changed items by their names as text: name, and weights before the first change or None if it did not exist.
        self._original: dict[str, tuple[Any, dict[Any, float] | None]] = {}

    def set_up(self, store: SqlStore, now: float, *, replace: bool, same: bool = False) -> None:
        """Apply the changes in the store. If the store has another catalog, first begin a new epoch.

        replace: whether a new epoch may discard changes that were made to items of the other catalog. same: raise
        :class:`DifferentCatalog` instead of replacing the catalog of the store. now: the time, in seconds since 1970.
        """
        heading = store.heading()
        if heading is None or heading.digest != self._digest:
            changes = 0
            if heading is not None:
                if same:
                    raise DifferentCatalog("catalog must be the one that the store uses, got a different one")
                store.lock_catalog(heading.epoch)  # waits for changes that other processes have not committed yet
                changes = store.item_change_count(heading.epoch)
            if changes and not replace:
                raise ValueError(
                    "catalog must be the one that the store already uses: with another catalog, the changes made to "
                    f"items through the API would be lost (number of changes: {changes}). To discard them, use "
                    "--new-catalog (new_catalog=True) or, with POST /v1/catalog, discard_changes"
                )
            heading = Heading(1 if heading is None else heading.epoch + 1, self._digest, 0)
            store.add_catalog(heading.epoch, self._digest)
            if self._start_quality is not None and store.quality():  # clicks that were counted with earlier catalogs
                seq = store.next_change(heading.epoch)
                store.add_changes(heading.epoch, [Change(seq, None, None, now)])
                heading = heading._replace(changes=seq)
        self.epoch, self._applied = heading.epoch, 0
        self.apply_changes(store, heading.changes)

    def apply_changes(self, store: SqlStore, count: int) -> None:
        """Apply the changes that were recorded since the last call. count: their number in the store.

        The quality of all items is refreshed where the latest refresh was recorded, between the changes of items.
        """
        if count != self._applied:
            changes = store.changes(self.epoch, self._applied)
            latest = max((change.seq for change in changes if change.item is None), default=None)
            for change in changes:
                if change.item is not None:
                    original = self.own_name(change.item), self.weights(change.item)
                    self._original.setdefault(str(change.item), original)
                    self._put(change.item, change.weights)
                elif change.seq == latest:
                    self._refresh_quality(store)
                self._applied = change.seq
            # Changes that were committed after the count was read have been applied, too.
            self._applied = max(self._applied, count)

    def _refresh_quality(self, store: SqlStore) -> None:
        """Compute the quality of all items from the counts of the catalog file and of the store."""
        if self._start_quality is None:
            return
        counts = np.zeros((4, self.catalog.L))
        for name, *numbers in store.quality():
            e = self.find(name)
            if e is not None:
                counts[:, e] = numbers
        counts[:2] = np.maximum(0.0, counts[:2])
        quality, new = self._quality_of_file(counts)
        tried = quality.refresh(self.catalog, self.quality_topic, trial=TRIAL, most_tried=MOST_TRIED, new=new)
        self.quality = quality
        self._needed = {str(self.catalog.items[e]): ceil(TRIAL - counts[0, e]) for e in tried.tolist()}

    def _quality_of_file(self, since: Floats | None = None) -> tuple[RelativeQuality, Booleans]:
        """Return the quality that the catalog file came with, and what was counted since, by the current item numbers.

        Also returns which items are new (L,): they were never in the file.
        """
        start = self._start_quality
        assert start is not None
        new = np.arange(self.catalog.L) >= start.L
        # The file cannot tell whether items that nobody chose are new or bad. They are new if they were changed since.
        unchosen = [e for e in map(self.find, self._original) if e is not None and e < start.L and not start.clicked[e]]
        new[unchosen] = True
        examined, again = start.examined.copy(), list(self._added_again())
        examined[[*unchosen, *(old for old, _ in again if not start.clicked[old])]] = 0.0
        quality = Quality.from_counts(examined, start.clicked, rule=start.rule)
        quality.grow(self.catalog.L)
        for old, now in again:
            quality.move(old, now)
            new[now] = not start.clicked[old]
        return RelativeQuality(quality, since, prior=start.prior), new

    @property
    def expected_or_none(self) -> Callable[[LinearPolicy, Explanation, Floats], tuple[Floats, float]] | None:
        """A function that returns what to expect of the items of a list. None if the catalog has no quality."""
        return None if self.quality is None else self._expected

    def _expected(self, policy: LinearPolicy, parts: Explanation, estimate: Floats) -> tuple[Floats, float]:
        return expected_clicks(policy, parts, self._topic_number[QUALITY], estimate)

    def note_examined(self, items: Sequence[str], times: int) -> None:
        """Note that items were examined, so that :attr:`waits_for_refresh` becomes true in time."""
        if self._needed:
            for item in items:
                if item in self._needed:
                    self._needed[item] -= times

    @property
    def waits_for_refresh(self) -> bool:
        """Whether the quality should be refreshed soon: a tried item has enough examinations, or one can be tried."""
        if self.quality is not None and len(self._needed) < MOST_TRIED and self.catalog.L > self.quality.L:
            return True
        return any(needed <= 0 for needed in self._needed.values())

    def _added_again(self) -> Iterator[tuple[int, int]]:
        """Yield the old and the new number of each item of the file that was removed and added again."""
        assert self._start_column is not None
        for old in np.flatnonzero(~self.catalog.present[: self._start_column.size]).tolist():
            name: Any = self.catalog.items[old]
            new = self.find(name)
            if new is not None:
                yield old, new

    def current_quality(self, item: Any) -> float:
        """Return the quality that an item has in the catalog. For a new item, that of the average item."""
        assert self.quality is not None
        weights = self.weights(item)
        return self.quality.prior.mean if weights is None else float(weights.get(self.quality_topic, 0.0))

    @property
    def quality_topic(self) -> Any:
        """The topic that holds the quality of items."""
        return next(topic for topic in self.catalog.topics if str(topic) == QUALITY)

    def reset(self, store: SqlStore) -> None:
        """Undo all changes. Call this after the contents of the store were replaced, for example by a backup."""
        heading = store.heading()
        if heading is None or heading.digest != self._digest:
            raise StoreError(
                "the contents of the store were replaced by data of another catalog: restart this process with that "
                "catalog"
            )
        for item, weights in self._original.values():
            self._put(item, weights)
        self._original.clear()
        if self._start_column is not None:
            column = np.zeros(self.catalog.L)
            column[: self._start_column.size] = self._start_column
            for old, new in self._added_again():
                column[new] = self._start_column[old]
            self.catalog.put_column(self.quality_topic, column)
            self.quality = self._quality_of_file()[0]
            self._needed = {}

    def weights(self, item: Any) -> dict[Any, float] | None:
        """Return the weights of an item by topic, or None if there is no such item."""
        e = self.find(item)
        return None if e is None else weights_by_topic(self.catalog.sparse, self.catalog.topics, e)

    def find(self, item: str | int) -> int | None:
        """Return the number of an item in the catalog, or None if there is no such item."""
        found = self.catalog.find(item)
        return self.catalog.find(_other_form(item)) if found is None else found

    def own_name(self, item: str | int) -> Any:
        """Return the name that an item has in the catalog, such as 5 for "5". If there is no such item, return item."""
        e = self.find(item)
        return item if e is None else self.catalog.items[e]

    def _put(self, item: Any, weights: dict[Any, float] | None) -> None:
        name = self.own_name(item)
        if weights is None:
            if self.catalog.find(name) is not None:
                self.catalog.remove(name)
            return
        row = np.zeros(self.catalog.d)
        for topic, weight in weights.items():
            row[self._topic_number[str(topic)]] = weight  # the store keeps the names of topics as text
        self.catalog.put(name, row)


def _other_form(item: str | int) -> str | int | None:
    """Return the text of a whole number, or the whole number that a text writes in the usual way (not as "05")."""
    if not isinstance(item, str):
        return str(item)
    usual = item.isascii() and item.removeprefix("-").isdigit() and len(item) <= MOST_DIGITS and str(int(item)) == item
    return int(item) if usual else None


def check_names(catalog: Catalog) -> None:
    """Check that a store can keep the names of a catalog: items as text or whole numbers, and topics as text."""
    for name in catalog.items:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise TypeError(f"items of Recommender's catalog must be text or whole numbers, got {name!r:.80}")
    if len(set(map(type, catalog.items))) > 1:
        numbers = {str(name) for name in compress(catalog.items, catalog.present) if isinstance(name, int)}
        for name in compress(catalog.items, catalog.present):
            if isinstance(name, str) and name in numbers:
                raise ValueError(
                    f"items of Recommender's catalog must be different when written as text, got {int(name)} and "
                    f"{name!r:.80}"
                )
    if len(set(map(str, catalog.topics))) < catalog.d:
        raise ValueError(
            f"topics of Recommender's catalog must be different when written as text, got {catalog.topics!r:.80}"
        )


def content_digest(catalog: Catalog) -> str:
    """Return a digest of everything in a catalog: the present items, topics, weights, coverage and steady topics.

    Cost: one pass over the catalog.
    """
    coverage = catalog.coverage if catalog.custom is None else type(catalog.custom).__qualname__
    names = [name for name, present in zip(catalog.items, catalog.present.tolist(), strict=True) if present]
    steady = [] if catalog.fading.all() else [catalog.fading.tolist()]
    digest = sha256(json.dumps([coverage, list(catalog.topics), names, *steady], default=str).encode())
    kept = catalog.csr[np.flatnonzero(catalog.present)]
    for part in (kept.indptr.astype("<i8"), kept.indices.astype("<i8"), kept.data.astype("<f8")):
        digest.update(part.tobytes())
    return digest.hexdigest()
