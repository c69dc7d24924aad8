"""Measure what the quality that learns from clicks brings in people's first lists, and update docs/live.md.

`make live DATA=folder` runs this after prior_check.py; it takes about four minutes. People with known likes use a
Recommender with a store in a temporary folder, in groups of 20 who see ten lists each. They click the first item of a
list that they like, and are not shown again what they have examined. The same people are served twice: with the quality
of the catalog file, and with one that is refreshed from their clicks after each group.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass

import numpy as np
import pages
from cases import data_folder
from prior_check import SEED, K, likes, percent, serve

import thali
from thali.datasets.interactions import Interactions
from thali.lab.sources import liked
from thali.service.recommender import Recommender
from thali.service.recommender.operations import PutItem
from thali.starting import Start
from thali.tools.randomness import stream
from thali.tools.types import Booleans, Floats, Integers

PAGE, GROUP = "live.md", 20
#: How many lists of each person a log contains.
LOGGED = 10


@dataclass(frozen=True)
class Case:
    """Where the catalog file comes from, and who is served."""

    title: str
    """The catalog file, in words, with {} for the number of people behind it."""
    source: str
    people: int | None = None
    """How many people the catalog file comes from at most."""
    served: int = 600
    added: int = 0
    """How many items are not in the file, and are added with their topics."""
    log: bool = False
    """Whether the file comes from lists of random items, the popular ones more often, instead of all likes."""


CASES = tuple(
    Case(f"{title}, {rest}", source, **more)
    for title, source in (("MovieLens", "movielens"), ("Last.fm", "songs-hetrec"), ("Yelp, 40-core", "yelp-core40"))
    for rest, more in (
        ("{} people", {}),
        ("{} people", {"people": 60}),
        ("log of {} people", {"log": True}),
        ("{} people, 20 items added", {"added": 20}),
    )
)


@dataclass(frozen=True)
class Result:
    """What happened in one case."""

    case: Case
    people: int
    """The number of people behind the catalog file."""
    fixed: Floats
    """Whether each list had a click, with the quality of the file (served, LISTS)."""
    learned: Floats
    """The same, with the quality that learns."""

    def row(self) -> tuple[object, ...]:
        """A row of the table."""
        difference = self.learned - self.fixed
        cells = [f"{percent(values.mean(axis=1)):.1f}" for values in (self.fixed, self.learned)]
        cells += [f"{percent(values):+.1f}" for values in (difference.mean(axis=1), difference[:, 0])]
        return self.case.title.format(f"{self.people:,}"), *cells


def measure(case: Case, data: str) -> Result:
    """Serve the same people with and without a quality that learns."""
    known = liked(case.source, data)
    order = stream(SEED, "people").permutation(np.flatnonzero(np.bincount(known.user, minlength=len(known.users))))
    served, others = np.split(order, [min(case.served, len(order) // 2)])
    file = np.sort(others[: case.people])
    added = stream(SEED, "added").choice(len(known.items), case.added, replace=False)
    start = (fitted_to_log if case.log else fitted)(known, file, added)
    likes_of = known.matrix().astype(bool)
    number = {item: e for e, item in enumerate(known.items)}
    kept = [number[item] for item in start.catalog.items]
    flags = likes_of[served][:, [*kept, *added.tolist()]].toarray()
    new = [PutItem(known.items[e], topics=_topics(known, e, start)) for e in added.tolist()]
    return Result(case, len(file), _served(start, flags, new, learns=False), _served(start, flags, new, learns=True))


def fitted(known: Interactions, people: Integers, added: Integers) -> Start:
    """Fit to all likes of these people, except those of added items."""
    part = known.take_users(people)
    left_out = set(added.tolist())
    rows = [
        (part.users[user], part.items[item], 1)
        for user, item in zip(part.user.tolist(), part.item.tolist(), strict=True)
        if item not in left_out
    ]
    topics = {known.items[e]: _names(known, e) for e in range(len(known.items)) if e not in left_out}
    return thali.fit(Interactions.of(rows, topics), "both")


def fitted_to_log(known: Interactions, people: Integers, added: Integers) -> Start:
    """Fit to lists of ten items each, of which people clicked the first that they like."""
    rng, likes_of = stream(SEED, "log"), known.matrix().astype(bool)
    share = np.bincount(known.item, minlength=len(known.items)) ** 0.7
    lists = []
    for user in people.tolist():
        own = set(likes_of[[user]].indices.tolist())
        for _ in range(LOGGED):
            shown = rng.choice(len(share), K, replace=False, p=share / share.sum()).tolist()
            clicked = [k for k, item in enumerate(shown) if item in own][:1]
            lists.append((known.users[user], [known.items[item] for item in shown], clicked))
    return thali.fit(thali.Log.of(lists, {known.items[e]: _names(known, e) for e in range(len(known.items))}))


def _names(known: Interactions, item: int) -> list[str]:
    return [known.topics[j] for j in known.membership[[item]].indices.tolist()]


def _topics(known: Interactions, item: int, start: Start) -> list[str]:
    """The topics of an added item that the catalog has, or its first one: an item needs a topic."""
    there = [topic for topic in _names(known, item) if topic in start.catalog.topics]
    return there or [str(start.catalog.topics[0])]


def _served(start: Start, flags: Booleans, new: list[PutItem], *, learns: bool) -> Floats:
    """Return which lists of each person have a click (people, LISTS). flags: what they like, new items last."""
    catalog = thali.Catalog(
        start.catalog.weights, start.catalog.items, start.catalog.topics, fading=start.catalog.fading
    )
    policy = thali.CascadeLSB(catalog, K, prior=start.prior)
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Recommender(policy, f"sqlite:///{folder}/store.db", hide="examined", quality=start.quality) as recommender,
    ):
        if new:
            recommender.put_items(new)
            recommender.perform([])  # so that the catalog has the new items
        for begin in range(0, len(flags), GROUP):
            found.append(serve(recommender, catalog, flags[begin : begin + GROUP], likes, f"group {begin}"))
            if learns:
                recommender.refresh_quality()
    return np.concatenate(found)


def main() -> None:
    """Measure, print the table, and write it to the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default=data_folder(), help="Folder of the data sets (default: $THALI_DATA).")
    options.add_argument("--cases", type=int, nargs="*", help="Measure only these rows, counted from 0.")
    pages.add_docs_option(options)
    given = options.parse_args()
    if given.data is None:
        options.error("--data must be the folder that contains ml-1m, hetrec2011-lastfm-2k and yelp-core40")
    rows = []
    for case in CASES if given.cases is None else [CASES[n] for n in given.cases]:
        rows.append(measure(case, str(given.data)).row())
        print(*rows[-1], sep=" | ", flush=True)
    header = "catalog file from | quality of the file, % | quality that learns, % | difference, points | in first lists"
    if given.cases is None:
        pages.write(given.docs / PAGE, "qualities", pages.table(header, rows))


if __name__ == "__main__":
    main()
