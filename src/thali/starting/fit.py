"""Fit a catalog and a prior to what is known about other people: their likes, or the lists they saw."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.datasets.topics import is_learned
from thali.policies import CascadeLSB, Prior
from thali.policies.quality import Quality
from thali.starting.columns import QUALITY, Columns, check_like, given_topics, learned_topics, topics_like
from thali.starting.known import Known, known_of, state_of_likes, state_of_log
from thali.starting.prior import learned_prior
from thali.starting.weight import noise, weight_of_a_like
from thali.tools import checks
from thali.tools.randomness import stream

TOPICS = ("given", "learned", "both")
#: The default number of topics, if there are ten times as many people and items.
MOST_LEARNED = 60
#: The default for the largest number of given topics.
MOST_TOPICS_GIVEN = 60
#: With fewer likes, the default number of topics is their square root divided by this (docs/decisions.md).
LIKES_PER_TOPIC = 8.0
#: A prior is learned from at most this many people.
MOST_PEOPLE = 5000
#: The default α of a policy with a fitted prior is this times sqrt(log(1 + t)) (docs/decisions.md).
OPTIMISM = 0.1
# The quality of an item in a catalog is at least this, so that every item can be shown.
LEAST_QUALITY = 1e-6


@dataclass(frozen=True, repr=False)
class Start:
    """What :func:`fit` returns: everything that a policy needs to be good from the first list.

    :meth:`policy` returns a policy that uses it, and :meth:`save` writes it to a file.
    """

    catalog: Catalog
    """The items with their topics. The last topic is "quality", which is steady."""
    prior: Prior
    """What is believed about a person before their first click. It also says which σ and α suit these people."""
    quality: Quality
    """How often each item is liked, with its uncertainty. It can go on learning from clicks."""
    weight: float
    """How much a known like counts, compared with an examined position of a list; 1 if the data are a log."""
    people: int
    """The number of people from whom the prior was learned."""

    def __repr__(self) -> str:
        topics = self.catalog.topics[:-1]
        learned = sum(map(is_learned, topics))
        return (
            f"Start({len(self.catalog)} items, {learned} learned and {len(topics) - learned} given topics, quality; "
            f"prior from {self.people:,} people)"
        )

    def policy(self, K: int, **settings: Any) -> CascadeLSB:
        """Return CascadeLSB with this catalog and prior. settings: those of CascadeLSB."""
        return CascadeLSB(self.catalog, K, **{"prior": self.prior, **settings})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one catalog file, atomically. ``thali serve`` and :func:`thali.load_catalog` read it.

        Names of items and topics are converted to text. :func:`thali.starting.load_catalog_file` loads everything
        again, bit for bit.
        """
        from thali.starting.file import save_start

        save_start(self, path)


def fit(
    data: Interactions | Log,
    topics: str | None = None,
    d: int | None = None,
    *,
    quality: bool = True,
    like: Catalog | None = None,
    titles: Mapping[Any, str] | None = None,
    half_life: float | None = None,
    seed: int = 0,
) -> Start:
    """Return a catalog and a prior that make the first lists good, from who liked what. No topics are needed.

    The catalog has three kinds of columns:

    - *Learned topics* come from who liked what: items that the same people like share topics
      (:class:`thali.datasets.topics.Factors`). They are named after their most typical items.
    - *Given topics* are those of the data. The weight of an item is the paper's estimate, the share of people who like
      the item among those who like anything in the topic, smoothed so that it is never 0. For a log, it is the quality
      of the item.
    - *Quality* is the share of people who like an item, shrunk towards the mean of all items (:class:`thali.Quality`).
      For a log, it is clicks over examinations. It is a steady topic, so it does not fade in a list.

    The prior is learned from what each person liked (:meth:`thali.Prior.learn`). All other items count as not liked.
    For a log, it is learned from the positions that each person examined.

    Parameters
    ----------
    data: interactions, of which each counts as a like (so call ``attracted`` first), or a log of lists. At least 2
        people must like something.
    topics: "given", "learned" or "both". By default "given" for a log with topics, and "learned" otherwise.
    d: the number of learned topics and the largest number of given ones, at most the number of people and of items.
        Learned topics that turn out to be empty are left out. By default √likes/8, but at most 60 and a tenth of the
        people or items; and up to 60 given topics.
    quality: whether the catalog has a quality column.
    like: a catalog that fit has returned before. The new one has the same topics, so what people have taught a policy
        stays valid. It has the items of the data. Those of ``like`` keep their weights in learned topics, and other
        items get weights that fit. Given topics that ``like`` does not have are left out. topics and d must not be
        given, and quality must be False if ``like`` has none.
    titles: readable names of items, for the names of learned topics. By default those of the log.
    half_life: in the unit of the data's times. A like, or an examined position of a log, counts half as much if it is
        so much older than the latest one. A person counts as much as their latest like.
    seed: random seed. The same seed and data give the same result on the same kind of processor. Another one may round
        sums differently, and learn other topics, which are about as good.

    Cost: for n likes, O(n·d) for each of 65 iterations, plus O(d³) for each iteration of Prior.learn. With a log or a
    half-life, this is O(d³) for each of at most 5,000 people. A million likes with d=60 take less than a minute
    (tests/test_speed.py).

    Examples
    --------
    >>> import thali
    >>> fans = [(f"fan {n}", ["Alien", "Dune"] if n % 2 else ["Emma", "Clue"]) for n in range(20)]
    >>> data = thali.datasets.Interactions.of([(fan, film, 1) for fan, films in fans for film in films])
    >>> start = thali.fit(data, d=2)
    >>> start
    Start(4 items, 2 learned and 0 given topics, quality; prior from 20 people)
    >>> policy = start.policy(K=1)
    >>> state = policy.init(users=1)
    >>> dune = start.catalog.item("Dune")
    >>> policy.update(state, [[dune]], [[True]])
    >>> [start.catalog.items[e] for e in policy.recommend(state, exclude=[dune])[0]]
    ['Alien']

    """
    if like is not None:
        like = check_like(like, quality)
        for name, setting in (("topics", topics), ("d", d)):
            if setting is not None:
                raise ValueError(
                    f"{name} of fit must not be given with like, which has its own topics, got {setting!r}"
                )
    if topics is None:
        topics = "given" if isinstance(data, Log) and data.topics else "learned"
    kind = checks.one_of("topics of fit", topics, TOPICS)
    if titles is not None and not isinstance(titles, Mapping):
        raise TypeError(f"titles of fit must be a mapping from items to their titles, got {checks.short(titles)}")
    seed = checks.integer("seed of fit", seed, low=0)
    known = known_of(data, half_life)
    most_given = MOST_TOPICS_GIVEN if d is None else d
    d = _dimension(d, int(np.count_nonzero(known.people)), len(data.items), known.likes.nnz)
    rule = data.examined if isinstance(data, Log) else "first-click"
    counted = Quality.from_counts(known.met, np.minimum(known.liked, known.met), rule=rule)
    value = np.clip(counted.mean, LEAST_QUALITY, 1.0)
    if like is not None:
        parts = [topics_like(like, data, known, value)]
    else:
        parts = [] if kind == "learned" else [given_topics(data, value, most_given)]
        if kind != "given":
            parts.append(learned_topics(data, known.likes, value, d, titles, stream(seed, "topics")))
    if quality:
        parts.append(Columns(sp.csr_array(value[:, None]), [QUALITY]))
    catalog = _catalog(data, parts)
    prior, weight, people = _prior(catalog, known, seed)
    return Start(catalog, prior, counted, weight, people)


def _dimension(d: int | None, people: int, items: int, likes: int) -> int:
    if d is None:
        return max(1, min(MOST_LEARNED, people // 10, items // 10, int(sqrt(likes) / LIKES_PER_TOPIC)))
    d = checks.integer("d of fit", d, low=1)
    if d > min(people, items):
        raise ValueError(
            f"d of fit must be at most the number of people who like something ({people}) and of items ({items}), got "
            f"{d}"
        )
    return d


def _catalog(data: Interactions | Log, parts: list[Columns]) -> Catalog:
    weights = sp.csr_array(sp.hstack([part.weights for part in parts]))
    names = [name for part in parts for name in part.names]
    return Catalog(weights, data.items, names, fading=[name != QUALITY for name in names])


def _prior(catalog: Catalog, known: Known, seed: int) -> tuple[Prior, float, int]:
    """Return the prior, how much a known like counts in it, and the number of people from whom it is learned."""
    sigma, spread = noise(known)
    policy = CascadeLSB(catalog, 1, sigma=sigma)
    everybody = np.flatnonzero(known.people) if known.log is None else np.unique(known.log.user)
    order = stream(seed, "people to learn from").permutation(everybody)
    people = np.sort(order[:MOST_PEOPLE])
    if known.log is None:
        weight = weight_of_a_like(policy, known, order, spread)
        state = state_of_likes(policy, known.likes[people], weight, known.people[people])
    else:
        weight = 1.0
        state = state_of_log(policy, known.log, people, known.positions)
    learned = learned_prior(policy, state)
    mean, covariance, topics, known_people = learned.mean, learned.covariance, learned.topics, learned.people
    prior = Prior(mean, covariance, topics, sigma=sigma, optimism=OPTIMISM, people=known_people)
    return prior, weight, len(people)
