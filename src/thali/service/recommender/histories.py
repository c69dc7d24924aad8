"""Histories: learning what people are known to like from before thali, such as ratings, purchases or logged lists.

A person's history is learned once under a name. The same data again change nothing, and other data replace it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from thali.datasets.files import Duplicates
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.datasets.tables import tables
from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import AddHistory, FindItems, Refused, RemoveHistory, Unknown, checked
from thali.service.recommender.recommender import Recommender
from thali.service.recommender.transaction import PATIENCE_S
from thali.starting.known import Known
from thali.starting.weight import noise
from thali.tools import checks
from thali.tools.types import Floats, Integers

# How many people are learned or removed in one transaction. If histories of people with hundreds of lists are replaced,
# each takes some milliseconds, and requests wait meanwhile.
PAGE = 50
#: A file whose name ends in one of these is a log of lists.
LOG_SUFFIXES = (".jsonl", ".jsonl.gz")


class Learned(NamedTuple):
    """The result of learning from a file."""

    people: int = 0
    """The number of people whose history was learned or replaced."""
    known: int = 0
    """The number of people whose history was already known, with the same data."""
    used: int = 0
    """The number of likes, or of lists, of the people who were learned."""
    unit: str = "like"
    """What ``used`` counts: "like" or "list"."""
    skipped: int = 0
    """The number of people in the file about whom nothing is left to learn."""
    unanswered: int = 0
    """The number of lists in the file that were left out, because it is not known what was clicked."""
    missing: Mapping[str, int] = MappingProxyType({})
    """The names of items that the catalog does not have, and how many interactions or positions in lists were left out
    because of each."""
    replaced: int = 0
    """Of ``people``, the number of those who had a history of this name before, with other data."""
    removed: int = 0
    """The number of people whose history was removed, because nothing in the file counts any more."""
    rated: bool = False
    """Whether the values in a table differ, as ratings do."""


class LearningInterrupted(KeyboardInterrupt):
    """Learning from a file was interrupted. done: what was learned by then, except perhaps a page just committed."""

    def __init__(self, done: Learned) -> None:
        super().__init__(f"learning was interrupted after {done.people + done.known} people")
        self.done = done


@dataclass(frozen=True, slots=True)
class Person:
    """What a file says about one person."""

    user: str
    number: int
    """The number of the person in the data."""
    liked: tuple[Any, ...]
    """The names of the liked items that the catalog has, the latest last."""
    used: int
    """The number of likes, or of lists, with items that the catalog has."""
    digest: str


class Likes:
    """People's likes in a table of interactions. Each person counts as having met every item of the catalog once.

    Sums as :func:`thali.starting.known.state_of_likes` makes them: S = weight·Σ_e xxᵀ over all present items, which
    everybody shares, and B = weight·Σ_liked x, where x is the weights of the item.
    """

    unit = "like"

    def __init__(self, recommender: Recommender, data: Interactions, weight: float | None) -> None:
        self._data, self._weight = data, weight
        catalog = recommender.catalog
        self._present, self._weights = np.flatnonzero(catalog.present), catalog.csr
        number, self.missing = _numbers(recommender, data.items, data.item)
        kept = number[data.item] >= 0
        shape = len(data.users), self._weights.shape[0]
        self.likes = sp.csr_array((np.ones(int(kept.sum())), (data.user[kept], number[data.item[kept]])), shape=shape)
        self._items, self._number, self.unanswered = catalog.items, number, 0
        self._topics = sorted(map(str, catalog.topics))
        self._prior_learners = recommender.prior_learners
        self._S: dict[float, Floats] = {}  # by the weight of a like
        self._spread: float | None = None
        self.rated = bool((data.value != data.value[:1]).any())

    def people(self) -> Iterator[tuple[Any, Person]]:
        """Yield the name of each person in the data, and what the file says about the person."""
        data = self._data
        time = np.zeros(len(data)) if data.time is None else data.time
        rows = np.lexsort((time, data.user))  # stable, so rows without a time stay in the order of the file
        begins = np.searchsorted(data.user[rows], np.arange(len(data.users) + 1))
        for n, user in enumerate(data.users):
            own = data.item[rows[begins[n] : begins[n + 1]]].tolist()
            liked = tuple(self._items[e] for e in self._number[own].tolist() if e >= 0)
            names = sorted(str(data.items[item]) for item in own)
            digest = _digest("likes", names, sorted(map(str, liked)), self._topics, self._weight)
            yield user, Person(str(user), n, liked, len(liked), digest)

    def weight(self, learner: Learner) -> float:
        """Return how much a like counts: as given, or as :func:`thali.starting.weight.noise` suggests.

        The latter depends on σ. If a learner learns its prior, that is the σ with a prior, which it will soon have.
        """
        if self._weight is not None:
            return self._weight
        if self._spread is None:
            liked = np.asarray(self.likes.sum(axis=0), dtype=np.float64).ravel()[self._present]
            people = (np.diff(self.likes.indptr) > 0).astype(np.float64)
            self._spread = noise(Known(self.likes, people, np.full(liked.size, people.sum()), liked))[1]
        learns = learner.name in self._prior_learners
        sigma = learner.start.sigma_with_prior if learns else learner.start.sigma
        return sigma**2 / self._spread

    def sums(self, person: Person, learner: Learner) -> tuple[Floats, Floats]:
        """Return S and B of a person."""
        weight = self.weight(learner)
        if weight not in self._S:
            present = self._weights[self._present]
            S = weight * (present.T @ present).toarray()
            self._S[weight] = checks.read_only((S + S.T) / 2.0)
        own = self.likes[[person.number]]
        return self._S[weight], weight * (own @ self._weights).toarray()[0]


class Lists:
    """Lists that people saw. Sums as :func:`thali.starting.known.state_of_log` makes them.

    S = Σ xxᵀ and B = Σ x·click over the positions that the person examined, by the rule of their learner, where x is
    the weights of the item. Items that the catalog does not have are left out as :meth:`thali.Log.within` describes.
    """

    unit = "list"

    def __init__(self, recommender: Recommender, log: Log) -> None:
        self._log, self._catalog = log, recommender.catalog
        self._weights, self.unanswered = recommender.catalog.csr, log.unanswered
        number, self.missing = _numbers(recommender, log.items, log.item)
        self._number = number
        self._kept = [name for name, e in zip(log.items, number.tolist(), strict=True) if e >= 0]
        self._kept_number = number[number >= 0]
        self._pairs: dict[str, tuple[Integers, Integers, Any]] = {}
        self._topics = sorted(map(str, self._catalog.topics))
        self.rated = False

    def people(self) -> Iterator[tuple[Any, Person]]:
        """Yield the name of each person in the log, and what it says about the person."""
        log = self._log
        names = [str(name) for name in log.items]
        begins = np.searchsorted(log.user, np.arange(len(log.users) + 1))
        for n, user in enumerate(log.users):
            lists, liked, known, used = [], dict[int, None](), set[str](), 0
            for shown in (log[at] for at in range(begins[n], begins[n + 1])):
                clicks = np.flatnonzero(shown.clicked).tolist()
                lists.append([[names[item] for item in shown.items], clicks])
                numbers = self._number[shown.items]
                known.update(names[item] for item in shown.items[numbers >= 0])
                used += bool((numbers >= 0).any())
                for e in numbers[shown.clicked].tolist():
                    liked.pop(e, None)  # so that the last click on an item decides on its place
                    liked[e] = None
            digest = _digest("lists", sorted(map(json.dumps, lists)), sorted(known), self._topics)
            yield user, Person(str(user), n, tuple(self._catalog.items[e] for e in liked if e >= 0), used, digest)

    def sums(self, person: Person, learner: Learner) -> tuple[Floats, Floats]:
        """Return S and B of a person."""
        user, item, clicked = self._examined(learner.policy.examined)
        part = slice(*np.searchsorted(user, [person.number, person.number + 1]))
        x: Floats = self._weights[item[part]].toarray()
        S = x.T @ x
        return (S + S.T) / 2.0, clicked[part].astype(np.float64) @ x

    def _examined(self, rule: str) -> tuple[Integers, Integers, Any]:
        """Return the user, the item's number in the catalog and the click of every position examined by a rule."""
        if rule not in self._pairs:
            log = self._log
            ruled = Log(
                *(log.users, log.items, log.topics),
                user=log.user,
                start=log.start,
                item=log.item,
                clicked=log.clicked,
                time=log.time,
                membership=log.membership,
                examined=rule,
            )
            user, item, clicked = ruled.within(self._kept).pairs()
            self._pairs[rule] = user.astype(np.int64), self._kept_number[item], clicked
        return self._pairs[rule]


def learn_history(
    recommender: Recommender,
    path: str | Path,
    *,
    name: str = "history",
    weight: float | None = None,
    at_least: float | None = None,
    duplicates: Duplicates | None = None,
    learner: str | None = None,
    progress: Callable[[int], None] = lambda people: None,
) -> Learned:
    """Learn what people are known to like from a file, once for each person.

    Parameters
    ----------
    path: a table of interactions, CSV or Parquet, with the columns user and item and optionally value and time
        (:func:`thali.datasets.tables`), each of which counts as a like. Or, if its name ends in .jsonl or .jsonl.gz, a
        log of lists that were shown (:meth:`thali.Log.read`); its field learner is not used.
    name: the name of the history. A person can have several.
    weight: how much a known like counts, compared with an examined position of a list, as ``weight`` of what
        :func:`thali.fit` returns. By default, σ² of the learner (with a prior, if it learns one) divided by the mean
        variance of the likes in the file.
    at_least: count only interactions whose value is at least this. By default, all count.
    duplicates: what to do if a pair of user and item is repeated: "error" (the default), "last" or "sum".
    learner: by default, each person's assigned learner.
    progress: called with the number of people after each page of them.

    weight, at_least and duplicates are for tables only.

    The whole file is checked before anything is learned. Interactions and positions with items that the catalog does
    not have are left out, counted and named. If this is interrupted, which raises :class:`LearningInterrupted`, call
    it again with the same file: people who are already known with the same data are skipped. If the data of a person
    have changed, they replace what was learned under this name before; if none of their likes counts any more, they
    lose their history. People who are not in the file any more keep it (:func:`forget_history` removes it).

    Cost: O(d²) for each person, plus one pass over the file. A log also takes O(d²) for each examined position.

    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"file must be an existing table of interactions or log, found nothing at {source}")
    checked("history", checks.path_name, name)
    if learner is not None and learner not in recommender.learners:
        raise Refused("learner", f"must be one of {', '.join(recommender.learners)}, got {learner!r:.80}")
    recommender.perform([FindItems(limit=1)])  # so that the catalog has the changes of other processes
    with_history = _users_with_history(recommender, name)
    data: Likes | Lists
    if source.name.endswith(LOG_SUFFIXES):
        for option, value in (("weight", weight), ("at_least", at_least), ("duplicates", duplicates)):
            if value is not None:
                raise ValueError(f"{option} can only be used with a table of interactions, got {value!r} with {source}")
        data = Lists(recommender, Log.read(source))
    else:
        if weight is not None:
            weight = checks.number("weight", weight, low=0.0, strict=True)
        if at_least is not None:
            at_least = checks.number("at_least", at_least, low=-np.inf)
        found = tables(source, duplicates=duplicates or "error")
        data = Likes(recommender, found if at_least is None else found.attracted(at_least), weight)
    people = _people(recommender, data, source)
    learnable = [person for person in people if person.used]
    if not learnable:  # a wrong threshold or a wrong file must not remove what is known about everybody
        rule = "" if at_least is None else f" with a value of at least {at_least:g}"
        what = "a list" if data.unit == "list" else "an interaction"
        raise ValueError(f"{source} must contain {what}{rule} with an item of the catalog, got none")
    # Somebody about whom nothing is left may have had more data in an earlier file, which must not stay.
    emptied = [person for person in people if not person.used and person.user in with_history]
    done = Learned(
        unit=data.unit,
        skipped=len(people) - len(learnable),
        unanswered=data.unanswered,
        missing=data.missing,
        rated=data.rated,
    )
    try:
        for page in _pages(learnable):
            changed = recommender.perform([_operation(recommender, data, p, name, learner) for p in page], whole=True)
            new = [person for person, change in zip(page, changed, strict=True) if change]
            done = done._replace(
                replaced=done.replaced + sum(person.user in with_history for person in new),
                people=done.people + len(new),
                known=done.known + changed.count(False),
                used=done.used + sum(person.used for person in new),
            )
            progress(len(page))
        for page in _pages(emptied):
            count = _remove(recommender, name, [person.user for person in page], learner)
            done = done._replace(removed=done.removed + count)
            progress(len(page))
    except KeyboardInterrupt:
        raise LearningInterrupted(done) from None
    return done


def forget_history(
    recommender: Recommender, name: str, user: str | None = None, progress: Callable[[int], None] = lambda people: None
) -> int:
    """Remove the history with this name, of a user or of everybody who has one. Return the number of people.

    Raises :class:`Unknown` if this user has no such history.
    """
    checked("history", checks.text_name, name)
    if user is not None:
        recommender.perform([RemoveHistory(user, name)], whole=True)
        progress(1)
        return 1
    removed, after = 0, ""
    while users := _page(recommender, name, after):
        count = _remove(recommender, name, users)
        removed, after = removed + count, users[-1]
        progress(count)
    return removed


def _remove(recommender: Recommender, name: str, users: Sequence[str], learner: str | None = None) -> int:
    """Remove the history with this name of some users, for one or all learners. Return how many of them had one."""
    results = recommender.perform([RemoveHistory(one, name, learner) for one in users])
    for result in results:
        # Unknown: another process has removed it in the meantime.
        if isinstance(result, BaseException) and not isinstance(result, Unknown):
            raise result
    return sum(not isinstance(result, Unknown) for result in results)


def _pages(people: Sequence[Person]) -> Iterator[Sequence[Person]]:
    return (people[begin : begin + PAGE] for begin in range(0, len(people), PAGE))


def _people(recommender: Recommender, data: Likes | Lists, source: Path) -> list[Person]:
    """Return the people of a file, after their names were checked."""
    people = []
    for user, person in data.people():
        try:
            recommender.user_name(person.user)
        except Refused as refusal:
            raise ValueError(f"{source}, user {user!r:.80}: {refusal}") from None
        people.append(person)
    if not people:
        what = "a list whose clicks are known" if data.unit == "list" else "an interaction"
        raise ValueError(f"{source} must contain {what}, got none")
    return people


def _operation(
    recommender: Recommender, data: Likes | Lists, person: Person, name: str, learner: str | None
) -> AddHistory:
    S, B = data.sums(person, recommender.find_learner(person.user, learner))
    return AddHistory(person.user, name, S, B, person.liked, person.digest, learner, isinstance(data, Likes))


def _numbers(recommender: Recommender, names: tuple[Any, ...], items: Any) -> tuple[Integers, dict[str, int]]:
    """Return the number of each item in the catalog, or -1, and how often each item that it does not have occurs."""
    found = [recommender.live.find(name) for name in names]
    times = np.bincount(items, minlength=len(names)).tolist()
    missing = Counter({str(name): n for name, e, n in zip(names, found, times, strict=True) if e is None and n})
    return np.array([-1 if e is None else e for e in found], dtype=np.int64), dict(missing.most_common())


def _digest(kind: str, content: list[str], known: list[str], topics: list[str], weight: float | None = None) -> str:
    """Return a digest of what a file says about a person, which items of it the catalog has, and how much they count.

    So a person is learned again when the catalog has got an item of their history, or a topic, that it did not have.
    """
    return sha256(json.dumps([kind, content, known, topics, weight]).encode()).hexdigest()


def _users_with_history(recommender: Recommender, name: str) -> set[str]:
    users: set[str] = set()
    after = ""
    while page := _page(recommender, name, after):
        users.update(page)
        after = page[-1]
    return users


def _page(recommender: Recommender, name: str, after: str) -> list[str]:
    with recommender.store.transaction(PATIENCE_S, write=False):
        return recommender.store.users_with_history(name, after, PAGE)
