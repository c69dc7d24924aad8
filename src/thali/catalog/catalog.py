"""The catalog: items, topics, and the weights of items on topics."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from threading import RLock
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from thali.catalog.columns import replace_column
from thali.catalog.coverage import custom_gain, custom_gains, list_gains, resolve
from thali.catalog.items import Items
from thali.catalog.names import NameList, Names
from thali.catalog.snapshot import Snapshot, digest
from thali.datasets.estimation import attractiveness
from thali.datasets.interactions import Interactions
from thali.tools import checks
from thali.tools.growing import GrowingArray
from thali.tools.types import Booleans, Floats, Indices, Integers

# Positions of entries, which are nonzero weights, must fit into 32 bits.
MOST_ENTRIES = 2**32
# Entries that put() has replaced are dropped when they outnumber those in use by more than this.
MOST_REPLACED = 1000


class Derived(Protocol):
    """An object that is computed from a catalog, and updated when items are added, changed or removed."""

    def put(self, item: int, topics: Indices, weights: Floats) -> None:
        """Set the topics (in ascending order) and the weights of an item. The item number of a new item is L."""
        ...

    def remove(self, item: int) -> None:
        """Remove an item."""
        ...

    @property
    def needs_rebuild(self) -> bool:
        """Whether the object should be computed again from scratch, because many items have changed."""
        ...


D = TypeVar("D", bound=Derived)


class Catalog:
    """L items with weights w̄(e,j) in [0, 1] on d topics, and the coverage c(S) that is computed from the weights.

    Items are numbered from 0. They can be added, changed and removed in place (:meth:`put`, :meth:`put_column`,
    :meth:`remove`), but not while another thread chooses items from the catalog. To read the items in another thread
    while they change, use a :meth:`snapshot`. An item number is never reused: L includes removed items and never
    decreases, while ``len(catalog)`` is the number of items that have not been removed.

    Parameters
    ----------
    weights: (L, d), dense or scipy.sparse; d is at most 65,535.
    items, topics: unique names; by default, the numbers 0, 1, 2, ...
    coverage: ``"probabilistic"``, ``"max"``, or a custom coverage object (:mod:`thali.catalog.coverage`).
    fading: (d,) booleans; by default, every topic fades. The gain of an item on a topic that fades shrinks as the items
        above it cover the topic. False is for a *steady* topic, on which an item always adds its full weight, such as
        the quality of items or the score of another model. It cannot be given with a custom coverage object.

    Cost: O(nnz + L log L) to build, where nnz is the number of nonzero weights. The search index is built when the
    first list is requested (docs/engine.md).

    Examples
    --------
    >>> import thali
    >>> films = thali.Catalog([[0.5, 0.0], [0.4, 0.2]], items=["Heat", "Fargo"], topics=["crime", "comedy"])
    >>> films.L, films.d, films.item("Fargo")
    (2, 2, 1)
    >>> films.gains([[0, 1]])
    array([[[0.5, 0. ],
            [0.2, 0.2]]])
    >>> films.put("Ronin", [0.6, 0.0]), films.remove("Heat")
    (2, 0)
    >>> films.L, len(films), thali.greedy_lists(films, [[1.0, 0.0]], K=1)
    (3, 2, array([[2]]))

    With a steady topic, each item adds its full weight to it:

    >>> rated = thali.Catalog([[0.5, 0.9], [0.4, 0.8]], topics=["crime", "quality"], fading=[True, False])
    >>> rated.gains([[0, 1]])
    array([[[0.5, 0.9],
            [0.2, 0.8]]])

    """

    def __init__(
        self,
        weights: Any,
        items: Iterable[Hashable] | None = None,
        topics: Iterable[Hashable] | None = None,
        coverage: Any = "probabilistic",
        fading: Any = None,
    ) -> None:
        matrix = _sparse(weights)
        L, d = (int(n) for n in matrix.shape)
        names, topic_names = Names("items", items, L), Names("topics", topics, d)
        start = Snapshot(
            version=0,
            sparse=_items(matrix, _fading(fading, d, coverage)),
            present=np.ones(L, dtype=np.bool_),
            items=names,
            topics=topic_names,
            coverage=coverage,
            given_sparse=sp.issparse(weights),
        )
        self._begin(start, names, topic_names)

    def _begin(self, start: Snapshot, items: Names, topics: Names) -> None:
        """Set all attributes from a snapshot, whose arrays are copied."""
        self.L, self.d = len(items), len(topics)
        self._items = items
        self.topics: Sequence[Hashable] = topics
        self.coverage = start.coverage
        self._given_sparse = start.given_sparse
        self.kind, self.custom = resolve(self.coverage, self.d)
        #: Increases whenever items or weights change.
        self.version = start.version
        self._arrays = _growing(start.sparse)
        #: The topics and weights of each item, as arrays for the kernels.
        self.sparse = Items(*(array.view for array in self._arrays))
        self._present = GrowingArray.of(start.present, np.bool_)
        self._removed = self.L - len(start)
        # How many entries of the arrays are in use. And how many of them, from the start, may belong to a snapshot.
        self._entries = int((self.sparse.end - self.sparse.begin).sum(dtype=np.int64))
        self._shared_entries = 0
        # Whoever changes or reads several of these attributes holds the lock.
        self._lock = RLock()
        self._snapshot: Snapshot | None = None
        self._derived: dict[Callable[[Catalog], Any], Any] = {}

    @classmethod
    def estimate(
        cls,
        interactions: Interactions,
        coverage: Any = "probabilistic",
        fading: Any = None,
        *,
        smoothing: float = 0.0,
    ) -> Catalog:
        """Return a catalog with weights estimated from interactions. Each interaction counts as an attraction.

        Among the users attracted to topic j, w̄(i,j) is the share of those who are attracted to item i. This is the
        paper's estimate for real data (Section 7.4). With smoothing, no item of a topic has weight 0. See
        :func:`thali.datasets.estimation.attractiveness`.
        """
        weights = attractiveness(interactions, smoothing=smoothing)
        return cls(weights, interactions.items, interactions.topics, coverage, fading)

    def __repr__(self) -> str:
        steady = self.d - int(self.fading.sum())
        return f"Catalog(L={self.L}, d={self.d}, coverage={self.coverage!r}{f', steady={steady}' if steady else ''})"

    def __len__(self) -> int:
        """The number of items that have not been removed."""
        return self.L - self._removed

    @property
    def items(self) -> Sequence[Hashable]:
        """The names of all items by item number (L,), including removed items."""
        return self._items

    def snapshot(self) -> Snapshot:
        """Return the items as they are now. The snapshot never changes, and any thread can take and read it.

        Cost: O(1). The first :meth:`put` that then changes an item copies 8·L bytes, and the first :meth:`remove`
        copies L bytes. Adding an item copies nothing.
        """
        with self._lock:
            if self._snapshot is None:
                self._arrays.begin.share()
                self._arrays.end.share()
                self._shared_entries = len(self.sparse.weights)
                present = self._present.share().view()
                present.flags.writeable = False
                self._snapshot = Snapshot(
                    version=self.version,
                    sparse=self.sparse,
                    present=present,
                    items=self._items.unchanging(),
                    topics=self.topics,
                    coverage=self.coverage,
                    given_sparse=self._given_sparse,
                )
            return self._snapshot

    @cached_property
    def fading(self) -> Booleans:
        """Whether the gains of each topic shrink as the topic is covered (d,), read-only. If not, it is steady."""
        fading: Booleans = self.sparse.fading.copy()
        fading.flags.writeable = False
        return fading

    @property
    def weights(self) -> Any:
        """w̄ (L, d), read-only: a NumPy array, or a scipy.sparse.csr_array if the weights were given as sparse.

        Removed items keep their weights.
        """
        return self.snapshot().weights

    @property
    def csr(self) -> sp.csr_array:
        """w̄ as a scipy.sparse.csr_array, read-only."""
        return self.snapshot().csr

    @property
    def dense(self) -> Floats:
        """w̄ as a NumPy array, read-only."""
        return self.snapshot().dense

    @property
    def present(self) -> Booleans:
        """Whether each item is in the catalog, that is, has not been removed (L,), read-only."""
        return self.snapshot().present

    @property
    def items_digest(self) -> str:
        """A short digest of the item names, by which a policy checks that a state belongs to its catalog."""
        return self.snapshot().items_digest

    def derived(self, make: Callable[[Catalog], D]) -> D:
        """Return make(catalog). It is computed on the first call and then updated with every change of the catalog.

        The search engine uses this for its search index. After many changes, the next call computes it from scratch.
        """
        found = self._derived.get(make)
        if found is None:
            with self._lock:  # so that no change is missed
                found = self._derived.get(make)
                if found is None:
                    found = self._derived[make] = make(self)
        return cast(D, found)

    def put(self, name: Hashable, weights: Any = None, *, topics: Any = None) -> int:
        """Add an item, or change the weights (d,) of the item with this name. Return its item number.

        topics: the names of the item's topics, instead of its weights. The item then gets the weights that other items
            with these topics have on average, also on steady topics
            (:func:`thali.catalog.columns.typical_weights`). This costs O(nnz).

        The change takes effect with the next list, and nothing has to be learned again. A new item gets the number L.
        An item that was removed and is added again counts as a new item. States with counts for each item, such as
        those of CascadeKL-UCB, do not fit a catalog with more items, so policies reject them.

        Cost: O(s) for s topics, plus O(n) to find a changed item among n items with the same topics. If a
        :meth:`snapshot` was taken since the last change, changing an item also copies 8·L bytes. When the arrays have
        no spare capacity left, they are copied to larger ones. When the number of changes exceeds about half the number
        of items, the search index is built again.
        """
        self._items.check(name)
        if (weights is None) == (topics is None):
            raise ValueError(
                f"weights of put must be given, or topics instead, got {'neither' if weights is None else 'both'}"
            )
        with self._lock:
            found = self._items.find(name)
            row = self._typical(found, topics) if weights is None else weights
            row = checks.floats("weights of put", row, (self.d,), "(d,)")
            checks.within("weights of put", row, 0.0, 1.0)
            numbers = np.flatnonzero(row).astype(np.uint32)
            values = row[numbers]
            e = self.L if found is None else found
            at = self._place(e, numbers.size)
            self.sparse.topics[at : at + numbers.size], self.sparse.weights[at : at + numbers.size] = numbers, values
            for derived in self._derived.values():
                derived.put(e, numbers, values)
            if found is None:
                self._items.add(name)
                self._present.extend(1)[:] = True
                self.L += 1
            self._changed()
        return e

    def _typical(self, item: int | None, topics: Any) -> Floats:
        """Return :meth:`typical` for an item that may be in the catalog already."""
        return self.typical(topics, other_than=item)

    def typical(self, topics: Any, *, other_than: int | None = None) -> Floats:
        """Check the names of topics. Return the weights (d,) that items other than this one have on average on them.

        See :meth:`Snapshot.typical`. Cost: O(nnz).
        """
        numbers = [self.topic_index(name) for name in checks.sequence("topics of put", topics)]
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"topics of put must be one or more different names, got {topics!r}")
        row = self.snapshot().typical(numbers, other_than=other_than)
        if row is None:
            raise ValueError(
                "topics of put must be those of a catalog in which some other item has a weight above 0 on a topic "
                f"that fades, got none. Use weights instead of the topics {topics!r}"
            )
        return row

    def put_column(self, topic: Hashable, values: Any) -> None:
        """Replace the weights of all items on one topic by values (L,), in the order of item numbers.

        This is for values that change together, such as the quality of items (:class:`thali.Quality`). Removed items
        have values, too. Earlier snapshots keep the old weights.

        Cost: O(nnz). The next list builds the search index again. docs/quality.md has measurements of both.

        Examples
        --------
        >>> import thali
        >>> rated = thali.Catalog([[0.5, 0.9], [0.4, 0.8]], topics=["crime", "quality"], fading=[True, False])
        >>> rated.put_column("quality", [0.1, 0.7])
        >>> rated.weights
        array([[0.5, 0.1],
               [0.4, 0.7]])

        """
        number = self.topic_index(topic)
        with self._lock:
            column = checks.floats("values of put_column", values, (self.L,), "(L,)")
            checks.within("values of put_column", column, 0.0, 1.0)
            matrix = replace_column(self.csr, number, column)
            if matrix.nnz >= MOST_ENTRIES:
                raise ValueError(f"weights of Catalog must have fewer than 2³² nonzero entries, got {matrix.nnz}")
            self._set_entries(matrix)
            self._derived = {}
            self._changed()

    def dense_column(self, topic: Hashable) -> Floats:
        """Return the weights of all items on one topic (L,), as a new array. Cost: O(nnz)."""
        return np.asarray(self.csr[:, [self.topic_index(topic)]].toarray()).ravel()

    def _place(self, e: int, size: int) -> int:
        """Return where to write the topics and weights of item e, if it has ``size`` topics.

        This is where the item had them before, if they fit and no snapshot has them. Otherwise it is at the end.
        """
        new = e == self.L
        before = 0 if new else int(self.sparse.begin[e])
        old_size = 0 if new else int(self.sparse.end[e]) - before
        if not new and size == old_size and before >= self._shared_entries:
            return before
        if self._entries - old_size + size >= MOST_ENTRIES:
            raise ValueError(
                f"weights of Catalog must have fewer than 2³² nonzero entries, got {self._entries - old_size + size}"
            )
        at = len(self.sparse.weights)
        if at > 2 * self._entries + MOST_REPLACED or at + size >= MOST_ENTRIES:
            self._drop_replaced()
            at = len(self.sparse.weights)
        self._arrays.topics.extend(size)
        self._arrays.weights.extend(size)
        if new:
            self._arrays.begin.extend(1)[:] = at
            self._arrays.end.extend(1)[:] = at + size
        else:
            self._arrays.begin.own()[e] = at
            self._arrays.end.own()[e] = at + size
        self._entries += size - old_size
        self.sparse = Items(*(array.view for array in self._arrays))
        return at

    def _drop_replaced(self) -> None:
        """Copy the entries that are in use to new arrays, without those that :meth:`put` has replaced."""
        self._set_entries(self.csr)

    def _set_entries(self, matrix: sp.csr_array) -> None:
        """Copy all weights from a matrix (L, d) to new arrays, so that snapshots keep the old ones."""
        self._arrays = _growing(_items(matrix, self.sparse.fading))
        self.sparse = Items(*(array.view for array in self._arrays))
        self._entries, self._shared_entries = int(matrix.nnz), 0

    def remove(self, name: Hashable) -> int:
        """Remove an item, so that it is no longer shown. Return its item number, which is never reused.

        What was learned from the item is kept. Its weights are kept too, for feedback that arrives late. Cost: O(n) for
        n items with the same topics. If a :meth:`snapshot` was taken since the last change, this also copies L bytes.
        """
        with self._lock:
            e = self.item(name)
            for derived in self._derived.values():
                derived.remove(e)
            self._present.own()[e] = False
            self._removed += 1
            self._items.drop(name)
            self._changed()
        return e

    def _changed(self) -> None:
        self.version += 1
        self._snapshot = None
        self._derived = {make: derived for make, derived in self._derived.items() if not derived.needs_rebuild}

    def __getstate__(self) -> Snapshot:
        """Return one version of the catalog, even if another thread changes it meanwhile."""
        return self.snapshot()

    def __setstate__(self, state: Snapshot) -> None:
        assert isinstance(state.items, NameList)
        assert isinstance(state.topics, NameList)
        items = Names.restore("items", state.items, state.present.tolist())
        self._begin(state, items, Names.restore("topics", state.topics, [True] * len(state.topics)))

    def item(self, name: Hashable) -> int:
        """Return the number of the item with this name. Raise ValueError if there is no such item."""
        return _find("item", name, self._items)

    def find(self, name: Hashable) -> int | None:
        """Return the number of the item with this name, or None if there is no such item."""
        return self._items.find(name)

    def topic_index(self, name: Hashable) -> int:
        """Return the number of the topic with this name. Raise ValueError if there is no such topic."""
        assert isinstance(self.topics, Names)
        return _find("topic", name, self.topics)

    @cached_property
    def topics_digest(self) -> str:
        """A short digest of the topic names, by which a policy checks that a state belongs to its catalog.

        If some topics are steady, it also depends on which ones.
        """
        steady = np.flatnonzero(~self.fading).tolist()
        return digest([*self.topics, "steady", *steady] if steady else self.topics)

    def gains(self, lists: Any) -> Floats:
        """Return the gain Δ(a_k | a_1..a_{k-1}) of the item at every position (users, K, d) (Section 2.2).

        On a steady topic, it is the weight of the item.

        Cost: O(K·d) for each user.
        """
        lists = checks.item_lists("lists", lists, None, self.L)
        users, K = lists.shape
        out = np.zeros((users, K, self.d))
        if self.custom is None:
            list_gains(self.kind, self.sparse, lists, out)
            return out
        for user in range(users):
            covered = np.zeros(self.d)
            for k in range(K):
                shown = lists[user, : k + 1]
                out[user, k], covered = custom_gain(self.custom, shown, self.dense[shown], covered)
        return out

    def item_gains(self, lists: Any) -> Floats:
        """Return Δ(a_k | ∅) for every position (users, K, d): what each item would add to an empty list."""
        lists = checks.item_lists("lists", lists, None, self.L)
        return self.gains(lists.reshape(-1, 1)).reshape(*lists.shape, self.d)

    def all_gains(self, chosen: Integers) -> Floats:
        """Return Δ(e | chosen) for all items (L, d). Only for a custom coverage object."""
        assert self.custom is not None, "compiled coverages are searched by kernels"
        return custom_gains(self.custom, chosen, self.dense[chosen], self.dense)

    def check_same_items(self, other: Catalog, whose: str) -> None:
        """Raise ValueError unless the other catalog has the same items as this one, which is the learner's.

        Weights and topics may differ. For example, the learner may know only an estimate of the weights, or may have
        learned its own topics.
        """
        mine, theirs = self.items, other.items
        if len(mine) != len(theirs):
            raise ValueError(
                f"catalog of {whose} must have the same items as the learner's catalog, which has {len(mine)}, "
                f"got {len(theirs)}"
            )
        if mine is theirs or mine == theirs:
            return
        at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), None)
        if at is not None:
            raise ValueError(
                f"catalog of {whose} must have the same items as the learner's catalog, "
                f"where number {at} is {mine[at]!r}, got {theirs[at]!r}"
            )


def _sparse(weights: Any) -> sp.csr_array:
    """Check the weights. Return a copy in canonical CSR format, as float64 and without stored zeros."""
    if sp.issparse(weights):
        if weights.ndim != 2:
            raise ValueError(f"weights of Catalog must be 2-D (L, d), got shape {weights.shape}")
        if weights.dtype.kind not in "fiub":
            raise TypeError(f"weights of Catalog must be an array of numbers (L, d), got sparse {weights.dtype}")
        try:
            matrix = sp.csr_array(weights.astype(np.float64))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"weights of Catalog must be a well-formed sparse matrix: {error}") from error
        matrix.sum_duplicates()
    else:
        array = checks.floats("weights of Catalog", weights, (None, None), "(L, d)")
        matrix = sp.csr_array(array)
    if matrix.shape[1] >= 2**16:
        raise ValueError(f"weights of Catalog must have fewer than 65,536 topics, got {matrix.shape[1]}")
    if 0 in matrix.shape:
        raise ValueError(f"weights of Catalog must have at least one item and one topic, got shape {matrix.shape}")
    if not np.isfinite(matrix.data).all():
        raise ValueError("weights of Catalog must be finite, got NaN or infinity")
    checks.within("weights of Catalog", matrix.data, 0.0, 1.0)
    if matrix.nnz >= MOST_ENTRIES:
        raise ValueError(f"weights of Catalog must have fewer than 2³² nonzero entries, got {matrix.nnz}")
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _fading(fading: Any, d: int, coverage: Any) -> Booleans:
    """Check which topics fade, and return them (d,). By default, all of them do."""
    if fading is None:
        return np.ones(d, dtype=np.bool_)
    if not isinstance(coverage, str):
        raise ValueError(
            "fading of Catalog must not be given with a custom coverage object, which itself defines how topics fade, "
            f"got {fading!r:.80}"
        )
    return checks.booleans("fading of Catalog", fading, (d,), "(d,)", "one for each topic")


def _items(matrix: sp.csr_array, fading: Booleans) -> Items:
    return Items(matrix.indptr[:-1], matrix.indptr[1:], matrix.indices, matrix.data, fading)


def _growing(items: Items) -> Any:
    """Return copies that can grow of the arrays of items."""
    types = Items(begin=np.uint32, end=np.uint32, topics=np.uint32, weights=np.float64, fading=np.bool_)
    return Items(*(GrowingArray.of(array, dtype) for array, dtype in zip(items, types, strict=True)))


def _find(what: str, name: Hashable, names: Names) -> int:
    number = names.find(name)
    if number is None:
        raise ValueError(f"{what} must be in the catalog, got {name!r}")
    return number
