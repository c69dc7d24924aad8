"""Experiments with real people: those whose likes are known, and those who saw real lists.

Likes: a person clicks the first item of a list that they like, and is not shown again what they have examined. Each
split holds out its own people. Everything that a policy knows comes from the others.

Lists: a policy predicts what a person clicks in their next list, after it has learned from the lists before.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.datasets.estimation import preferences
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.lab.problems import Known
from thali.lab.rivals import RIVALS, KnownLikes
from thali.lab.settings import FIT, FIT_PARTS, RIVAL_NAMES, TUNED
from thali.policies import POLICIES, CascadeLSB, LSBGreedy, MostPopular, Policy, Prior
from thali.starting import Start, fit
from thali.tools.randomness import stream
from thali.tools.types import Integers

#: How people click in these experiments (:attr:`thali.lab.settings.Experiment.clicks`).
LIKES, LISTS = "likes", "lists"
#: The policies of each kind of experiment that know something about the training people.
KNOWING = {
    LIKES: (*RIVAL_NAMES, "CascadeLSB", "CascadeLSB-prior", *FIT_PARTS),
    LISTS: ("Popular", "LSBGreedy", *FIT_PARTS),
}
# Those that need given topics, besides the parts of thali.fit that say so.
_WITH_TOPICS = ("CascadeLSB", "CascadeLSB-prior", "LSBGreedy")


def needs_topics(name: str) -> bool:
    """Whether a policy of these experiments can only be used with data that have topics."""
    return name in _WITH_TOPICS or FIT_PARTS.get(name, {}).get("topics") in ("given", "both")


def folds(data: Interactions, sizes: list[int], seed: int, least: int = 1) -> tuple[list[Integers], Integers]:
    """The people of each split, with these sizes, and the people who are in none. No person is in two splits.

    least: people with fewer likes are in no split. They stay among the training people.
    """
    count = np.bincount(data.user, minlength=len(data.users))
    order = stream(seed, "people by likes").permutation(len(data.users))
    able = order[count[order] >= least]
    if sum(sizes) >= len(able):
        enough = "a like" if least == 1 else f"at least {least} likes"
        raise ValueError(f"users must be fewer than the people with {enough} ({len(able)}), got {sum(sizes)}")
    parts = np.split(able[: sum(sizes)], np.cumsum(sizes)[:-1])
    return [np.sort(part) for part in parts], np.sort(np.setdiff1d(order, able[: sum(sizes)]))


def likes_policy(name: str, known: Known, given: int, K: int, source: str, **settings: Any) -> Policy:
    """Create a policy of the experiments with likes, which knows the likes of the training people.

    The names of rivals are those of :data:`thali.lab.rivals.RIVALS`, at the settings that were chosen on training
    people (:data:`thali.lab.settings.TUNED`). CascadeLSB has the paper's weights of given topics, and its default
    settings. CascadeLSB-prior also has a prior from the preferences of the training people. Those in
    :data:`thali.lab.settings.FIT_PARTS` use :func:`thali.fit`, with some of its parts. All others are classes of the
    registry, such as your own. They are called with the catalog of CascadeLSB, or with that of thali.fit if the data
    have no topics, and K.

    given: how many given topics to use, those with the most items.
    settings: those of a class of the registry.
    """
    train = known.train
    assert isinstance(train, Interactions)
    if name in RIVALS:
        likes = KnownLikes(train)
        return RIVALS[name](likes.catalog, K, likes, **tuned(source, name))
    _check_topics(name, train, source)
    some = train.top_topics(min(given, len(train.topics))) if train.topics else train
    if name in FIT_PARTS:
        return fitted(name, some, K, source, CascadeLSB)
    catalog = Catalog.estimate(some) if some.topics else start_of(some).catalog
    if name == "CascadeLSB-prior":
        return CascadeLSB(catalog, K, prior=Prior.from_preferences(preferences(some), some.topics))
    return POLICIES[name](catalog, K, **settings)


def lists_policy(name: str, known: Known, source: str, **settings: Any) -> Policy:
    """Create a policy of the experiments with real lists, which knows the lists of the training people.

    Popular: the share of clicks when an item was examined, shrunk. LSBGreedy: given topics, weighted by that share,
    with the paper's start. Those in :data:`thali.lab.settings.FIT_PARTS` use :func:`thali.fit`. If people examine all
    positions of a list, as in RankLens, these learn from all positions. All others are classes of the registry, such as
    your own. They are called with the catalog of LSBGreedy, which has learned topics if the log has none, and with K=1.

    settings: those of a class of the registry.
    """
    train = known.train
    assert isinstance(train, Log)
    _check_topics(name, train, source)
    if name in FIT_PARTS:
        return fitted(name, train, 1, source, LSBGreedy if train.examined == "all" else CascadeLSB)
    start = start_of(train, "given" if train.topics else "learned")
    if name == "Popular":
        popular = MostPopular(start.catalog, 1, popularity=start.quality.mean)
        popular.predicts_probabilities = True  # it is a share
        return popular
    topics = start.catalog.topics[:-1]  # the last one is quality
    catalog = Catalog(start.catalog.csr[:, np.arange(len(topics))], start.catalog.items, topics)
    return POLICIES[name](catalog, 1, **settings)


def _check_topics(name: str, train: Interactions | Log, source: str) -> None:
    if needs_topics(name) and not train.topics:
        raise ValueError(f"policies must not include {name} for data without topics, got it for {source!r}")


def tuned(source: str, name: str) -> dict[str, Any]:
    """The settings of a policy that were chosen on training people of a data set; none for other data."""
    return dict(TUNED.get(source, {}).get(name, {}))


def fitted(name: str, train: Interactions | Log, K: int, source: str, kind: Any) -> Policy:
    """Create the policy that has these parts of thali.fit."""
    settings = tuned(source, FIT) | FIT_PARTS[name]
    start = start_of(train, settings.get("topics"), settings.get("d"), quality=settings.get("quality", True))
    return part_of(start, K, kind, prior=settings.get("prior", True), fading=settings.get("fading", True))


def start_of(
    train: Interactions | Log, topics: str | None = None, d: int | None = None, *, quality: bool = True
) -> Start:
    """Return thali.fit of the training people. If they or their items are fewer than d, it has fewer topics."""
    if d is not None:
        likes = train.interactions() if isinstance(train, Log) else train
        d = min(d, len(np.unique(likes.user)), len(train.items))
    return fit(train, topics, d, quality=quality)


def part_of(start: Start, K: int, kind: Any, *, prior: bool = True, fading: bool = True) -> Policy:
    """The policy of a start, or of a part of it: without its prior, or with topics that do not fade."""
    catalog = start.catalog
    if not fading:
        catalog = Catalog(catalog.csr, catalog.items, catalog.topics, fading=np.zeros(catalog.d, dtype=np.bool_))
    policy: Policy = kind(catalog, K, prior=start.prior if prior else None)
    return policy


def described(known: Known) -> str:
    """A digest of everything that is known, for the names of stored rows."""
    digest = sha256(repr(TUNED).encode())
    for part in (known.train, known.test):
        more = (part.start, part.clicked, part.examined) if isinstance(part, Log) else (part.value,)
        for entry in (part.user, part.item, part.membership.indptr, part.membership.indices, *more):
            digest.update(entry.encode() if isinstance(entry, str) else np.ascontiguousarray(entry).tobytes())
        digest.update(repr((part.users, part.items, part.topics)).encode())
    return digest.hexdigest()
