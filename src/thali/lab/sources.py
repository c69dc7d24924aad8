"""The people and items of each experiment, set up for each data set as in the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thali import datasets
from thali.catalog.catalog import Catalog
from thali.datasets.estimation import Behaviour, behaviour, preferences
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.lab.kinds import PEOPLE, drifting
from thali.lab.likes import LIKES, LISTS, described, folds
from thali.lab.problems import Known, Problem, generated, single_items, synthetic
from thali.lab.rivals import KnownLikes
from thali.lab.settings import EXPERIMENTS, KINDS, Experiment
from thali.people import ClickModel, DiverseCascade, Likes
from thali.tools import checks
from thali.tools.randomness import stream
from thali.tools.types import Floats


@dataclass(frozen=True)
class Source:
    """A data set and how the experiments use it. The defaults are those of the paper.

    load: called with the folder of the data sets, or None.
    at_least: an item attracts a user if the value of their interaction is at least this; None for any value.
    by: whether the most active users and items are chosen by the number of interactions or by their total value.
    most: how many users and items to keep; None for all.
    liked: an item counts as liked, in the experiments with likes, if its value is at least this; None for any value.
        These experiments use all users, and the 4,000 items with the most likes.
    least_likes: in the experiments with likes, people with fewer likes are not held out.
    """

    title: str
    load: Callable[[str | Path | None], Interactions]
    at_least: float | None
    by: Literal["count", "value"] = "count"
    most: int | None = 1000
    liked: float | None = None
    least_likes: int = 1


@dataclass(frozen=True)
class LogSource:
    """Real lists.

    load: called with the folder of the data sets, or None.
    test: the lists of the people to judge, from whom nothing is learned, not even from their lists in the log. If it is
        None, people are held out of the log.
    """

    title: str
    load: Callable[[str | Path | None], Log]
    test: Log | None = None


#: The data sets of the experiments on real data.
SOURCES: dict[str, Source] = {
    "movielens": Source("MovieLens 1M", datasets.movielens_1m, 5, liked=4),
    "songs": Source("Taste Profile", datasets.taste_profile, 5, "value"),
    "songs-tagtraum": Source("Taste Profile, genres", partial(datasets.taste_profile, topics="tagtraum"), 5, "value"),
    "songs-hetrec": Source("HetRec Last.fm", datasets.hetrec_lastfm, 5, "value"),
    "yelp": Source("Yelp", datasets.yelp, 4, liked=4, least_likes=10),
    "yelp-core40": Source("Yelp, 40-core", datasets.yelp_core40, 4, liked=4),
    "yelp-hin": Source("Yelp, sparser", datasets.yelp_hin, 4, liked=4, least_likes=10),
}
#: The sources of real lists.
LOGS: dict[str, LogSource] = {"ranklens": LogSource("RankLens", datasets.ranklens)}
#: How many items the experiments with likes use at most, because EASE inverts a matrix of this size.
MOST_LIKED = 4000


#: The data sets of the paper and substitutes for them. The paper makes claims about these.
PUBLISHED = frozenset(SOURCES)
#: The published data sets of real lists.
PUBLISHED_LOGS = frozenset(LOGS)
#: The problems that are not built from a data set.
ARTIFICIAL = ("synthetic", "single-items", "generated")


def add_source(name: str, data: Interactions, *, title: str | None = None, at_least: float | None = None) -> None:
    """Make your own data usable in experiments, as the source with this name. Replace what was added under it before.

    data: all users and items to use, such as ``thali.datasets.tables(...)`` returns them.
    title: the name of the data for readers (default: the name of the source).
    at_least: an item attracts a user if the value of their interaction is at least this (default: any value).
    """
    _check_name("add_source", name, LOGS)
    checks.instance("data of add_source", data, Interactions)
    SOURCES[name] = Source(title or name, lambda root: data, at_least, most=None, liked=at_least)


def add_log(name: str, log: Log, *, title: str | None = None, test: Log | None = None) -> None:
    """Make your own log usable in experiments with real lists. Replace what was added under this name before.

    test: the lists of the people to judge, from whom nothing is learned. Nor is anything learned from people with the
        same names in the log. By default, people are held out of the log.
    """
    _check_name("add_log", name, SOURCES)
    checks.instance("log of add_log", log, Log)
    if test is not None:
        checks.instance("test of add_log", test, Log)
    LOGS[name] = LogSource(title or name, lambda root: log, test)


def _check_name(function: str, name: str, others: Mapping[str, object]) -> None:
    """Raise ValueError if a name belongs to thali's own sources, or to added sources of the other kind."""
    if name in PUBLISHED or name in PUBLISHED_LOGS or name in ARTIFICIAL:
        raise ValueError(f"name of {function} must not be the name of a source of thali's own, got {name!r}")
    if name in others:
        raise ValueError(f"name of {function} must not be the name of a source of another kind, got {name!r}")


#: The MovieLens id of Star Wars, the film in the paper's example.
STAR_WARS = 260


def check_source(name: str) -> str:
    """Return the name of a data set, or raise ValueError if it is unknown."""
    if name not in SOURCES and name not in LOGS:
        raise ValueError(f"source must be one of {', '.join((*SOURCES, *LOGS))}, got {name!r}")
    return name


def selected(source: str, data: str | None) -> Interactions:
    """The most active users and items of a source, with the attractive pairs among them and all topics."""
    return _selected(SOURCES[source], data)


def fitted(source: str, data: str | None, d: int, K: int) -> Behaviour:
    """Browsing behavior estimated from a source's data; fixed values for artificial problems."""
    return _fitted(SOURCES[source], data, d, K) if source in SOURCES else _assumed_behavior(K)


@cache
def _active(source: Source, data: str | None) -> Interactions:
    """The most active users and items of a source, with all interactions between them and all topics."""
    return source.load(data).most_active(users=source.most, items=source.most, by=source.by)


@cache
def _selected(source: Source, data: str | None) -> Interactions:
    everything = _active(source, data)
    return everything if source.at_least is None else everything.attracted(source.at_least)


@cache
def _fitted(source: Source, data: str | None, d: int, K: int) -> Behaviour:
    everything = _active(source, data)
    at_least = float(everything.value.min()) if source.at_least is None else source.at_least
    return behaviour(everything.top_topics(d), at_least=at_least, K=K)


def _assumed_behavior(K: int) -> Behaviour:
    depth = np.array([0.9**k for k in range(K)])
    return Behaviour(0.5, 0.9, 0.5, depth, extra=0.05, skip=0.3, intercept=0.05, slope=0.65)


def problem(experiment: Experiment, split: int, *, seed: int, data: str | None = None) -> Problem:
    """The people of one split, with the learner's catalog.

    The result depends only on the data, the experiment, the split and the seed. The same people are drawn for every K.
    They are also the same for every d, except that people without a θ* in those topics are left out.
    """
    users = shares(experiment)[split]
    if experiment.clicks == LIKES:
        return _likes(experiment, split, seed, data)
    if experiment.clicks == LISTS:
        return _lists(experiment, split, seed, data)
    if experiment.source not in (*ARTIFICIAL, *SOURCES):
        raise ValueError(
            f"source of {experiment.name} must be one of {', '.join((*ARTIFICIAL, *SOURCES))}, or one that was added "
            f"with add_source, got {experiment.source!r}"
        )
    if experiment.clicks not in PEOPLE:
        raise ValueError(
            f"clicks of {experiment.name} must be one of {', '.join(PEOPLE)}, got {experiment.clicks!r}; to use your "
            "own click model, add it to thali.lab.kinds.PEOPLE"
        )
    if experiment.source in SOURCES:
        catalog, weights, theta, after, others, names = _draw_people(experiment, split, users, seed, data)
    else:
        base = _artificial(experiment, split, users, seed)
        catalog, weights, theta, others, names = base.catalog, base.weights, base.theta, None, None
        after = np.roll(theta, 1, axis=1)
    make, rates, description = PEOPLE[experiment.clicks], _assumed_behavior(experiment.K), ""
    if experiment.clicks != KINDS[0]:
        given: dict[str, Any] = dict(experiment.rates)
        rates = replace(fitted(experiment.source, data, experiment.d, experiment.K), **given)
        description = repr({**asdict(rates), "examined": rates.examined.tolist()})
    model: ClickModel = make(weights, theta, rates)
    if experiment.drift:
        model = drifting(experiment.drift, make(weights, theta, rates), make(weights, after, rates), experiment.steps)
        description += sha256(theta.tobytes() + after.tobytes()).hexdigest()
    known = None if others is None else make(weights, others, rates)
    draw = int(stream(seed, "clicks of others", split).integers(2**31))
    return Problem(experiment.name, catalog, model, experiment.K, names, description, known, draw)


def liked(source: str, data: str | None) -> Interactions:
    """The likes of all users of a source, for the items with the most likes."""
    return _liked(SOURCES[source], data)


@cache
def _liked(source: Source, data: str | None) -> Interactions:
    everything = source.load(data)
    likes = everything if source.liked is None else everything.attracted(source.liked)
    return likes.most_active(items=MOST_LIKED)


def people_with_likes(source: str, data: str | None) -> int:
    """How many people of a source can be held out in the experiments with likes."""
    return int((np.bincount(liked(source, data).user) >= SOURCES[source].least_likes).sum())


def most_lists(source: str, data: str | None, K: int) -> int:
    """How many lists a person can be shown in the experiments with likes, if nothing is shown twice."""
    return len(liked(source, data).items) // K


def _likes(experiment: Experiment, split: int, seed: int, data: str | None) -> Problem:
    """The likes of the people of one split, and of everybody else."""
    _check_known(experiment, SOURCES, "add_source")
    source = SOURCES[experiment.source]
    likes = _liked(source, data)
    most = most_lists(experiment.source, data, experiment.K)
    if experiment.hide == "examined" and experiment.steps > most:
        raise ValueError(
            f"steps of {experiment.name} must be at most {most}, because nothing is shown twice and there are "
            f"{len(likes.items)} items for lists of {experiment.K}, got {experiment.steps}"
        )
    people = folds(likes, shares(experiment), seed, source.least_likes)[0][split]
    judged = likes.take_users(people)
    known = Known(likes.without_users(people), judged)
    catalog = KnownLikes(likes).catalog
    names = tuple(str(likes.users[at]) for at in people)
    model = Likes.of(judged, catalog)
    return Problem(experiment.name, catalog, model, experiment.K, names, described(known), known=known)


def _check_known(experiment: Experiment, sources: Mapping[str, object], function: str) -> None:
    if experiment.source not in sources:
        raise ValueError(
            f"source of {experiment.name} must be one of {', '.join(sources)}, or one that was added with {function}, "
            f"got {experiment.source!r}"
        )


@cache
def _log(source: LogSource, data: str | None) -> Log:
    return source.load(data)


def people_in(source: str, data: str | None) -> int:
    """How many people of a log can be judged."""
    found = LOGS[source]
    return len((_log(found, data) if found.test is None else found.test).users)


def has_topics(source: str, data: str | None) -> bool:
    """Whether the items of a source of likes or real lists have topics."""
    return bool((_log(LOGS[source], data) if source in LOGS else liked(source, data)).topics)


def _lists(experiment: Experiment, split: int, seed: int, data: str | None) -> Problem:
    """The lists of the people of one split, and of everybody else. Or those of other people, who are all judged."""
    _check_known(experiment, LOGS, "add_log")
    source = LOGS[experiment.source]
    log, sizes = _log(source, data), shares(experiment)
    if source.test is None:
        if sum(sizes) > len(log.users) or max(sizes) == len(log.users):
            raise ValueError(
                f"users of {experiment.name} must be at most the number of people in the log ({len(log.users)}), in at "
                f"least 2 splits if they are all of them, got {experiment.users} in {experiment.splits}"
            )
        order = stream(seed, "people by lists").permutation(len(log.users))[: sum(sizes)]
        people = np.sort(np.split(order, np.cumsum(sizes)[:-1])[split])
        others = np.setdiff1d(np.arange(len(log.users)), people)
        known = Known(log.take_users(others), log.take_users(people))
    else:
        if sizes != [len(source.test.users)]:
            raise ValueError(
                f"users of {experiment.name} must be all {len(source.test.users)} people of its test, in 1 split, got "
                f"{experiment.users} in {experiment.splits}"
            )
        judged = set(map(str, source.test.users))  # a name may be a number in one file, and text in another
        others = np.array([at for at, name in enumerate(log.users) if str(name) not in judged], dtype=np.int64)
        known = Known(log if len(others) == len(log.users) else log.take_users(others), source.test)
    catalog = Catalog(np.ones((len(log.items), 1)), log.items)
    model = Likes(np.zeros((len(known.test.users), catalog.L), dtype=np.bool_))
    names = tuple(map(str, known.test.users))
    return Problem(experiment.name, catalog, model, experiment.K, names, described(known), known=known)


def _artificial(experiment: Experiment, split: int, users: int, seed: int) -> Problem:
    """A problem that is not built from a data set."""
    if experiment.source == "synthetic":
        return synthetic(users)
    if experiment.source == "single-items":
        return single_items(experiment.K, users, experiment.d)
    draw = int(stream(seed, "generated", split).integers(2**31))
    return generated(200, experiment.d, experiment.K, top=0.2, users=users, seed=draw)


def _draw_people(
    experiment: Experiment, split: int, users: int, seed: int, data: str | None
) -> tuple[Catalog, Catalog, Floats, Floats, Floats, tuple[str, ...]]:
    """The learner's catalog, the people's catalog, their tastes, the tastes they may change to, those of the other
    half, and the people's names.
    """
    chosen = selected(experiment.source, data).top_topics(experiment.d)
    train, test = chosen.split_users(int(stream(seed, "splits", split).integers(2**31)))
    if experiment.people == "train":
        train, test = train.split_users(int(stream(seed, "quarters", split).integers(2**31)))
    theta = preferences(test)
    order = stream(seed, "people", split).permutation(len(test.users))
    known = [int(at) for at in order if theta[at].sum() > 0.0]
    if len(known) < users:
        raise ValueError(
            f"users of {experiment.name} must be at most {len(known)} per split, got {users}. Preferences are known "
            f"for only {len(known)} people"
        )
    drawn, later = known[:users], known[-users:]
    names = tuple(str(test.users[at]) for at in drawn)
    others = preferences(train)[stream(seed, "others", split).permutation(len(train.users))]
    others = others[others.sum(axis=1) > 0.0]
    return Catalog.estimate(train), Catalog.estimate(test), theta[drawn], theta[later], others, names


#: Data sets to use instead of missing ones.
SUBSTITUTES = {"songs": ("songs-hetrec",), "yelp": ("yelp-core40", "yelp-hin")}


def available(experiments: list[Experiment], data: str | None) -> tuple[list[Experiment], list[str]]:
    """The experiments whose data are available, with substitutes for the others; and why data are missing."""
    why: dict[str, str | None] = {}

    def has(source: str) -> bool:
        if source not in why:
            try:
                why[source] = None
                if source in SOURCES:
                    selected(source, data)
                elif source in LOGS:
                    _log(LOGS[source], data)
            except OSError as error:
                why[source] = f"{source} ({error})"
        return why[source] is None

    kept: list[Experiment] = []
    for experiment in experiments:
        if has(experiment.source):
            kept.append(experiment)
        else:
            substitutes = [name for name in SUBSTITUTES.get(experiment.suite, ()) if has(name)]
            kept += [other for other in EXPERIMENTS.values() if other.suite in substitutes]
    return list(dict.fromkeys(kept)), [reason for reason in why.values() if reason is not None]


def setup(source: str, data: str | None) -> dict[str, float]:
    """Compute numbers of a data set about which the paper makes claims, at d=10 topics (or all, if there are fewer).

    density: the share of attractive pairs.
    median_weight: the median of all w̄ above 0.
    gain_share: in the best lists of 4 items, the sum of the items' gains at their positions, ⟨Δ(a|S), θ*⟩, divided by
    the sum of the gains that they would have in first place, ⟨Δ(a|∅), θ*⟩.
    star_wars: the w̄ of the paper's example, for MovieLens only.
    """
    chosen = selected(source, data)
    few = chosen.top_topics(min(10, len(chosen.topics)))
    catalog, theta = Catalog.estimate(few), preferences(few)
    model = DiverseCascade(catalog, theta[theta.sum(axis=1) > 0.0])
    lists = model.best_lists(4)
    alone = np.einsum("ukd,ud->uk", catalog.item_gains(lists), model.theta)
    films = (
        {}
        if STAR_WARS not in catalog.items or "Sci-Fi" not in few.topics
        else {"star_wars": float(catalog.dense[catalog.item(STAR_WARS), catalog.topic_index("Sci-Fi")])}
    )
    return {
        "users": len(chosen.users),
        "items": len(chosen.items),
        "topics": len(chosen.topics),
        "pairs": len(chosen),
        "density": chosen.density,
        "median_weight": float(np.median(catalog.csr.data)),
        "gain_share": float(model.attraction(lists).sum() / alone.sum()),
        **films,
    }


def shares(experiment: Experiment) -> list[int]:
    """The number of people in each split; the numbers differ by at most one."""
    parts = np.array_split(np.arange(experiment.users), experiment.splits)
    return [len(part) for part in parts if len(part)]
