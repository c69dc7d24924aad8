"""Measure what learned priors bring, and whether the service notices a poor one, and update docs/live.md.

`make live DATA=folder` runs this after live.py; it takes about three minutes. People with known likes use a Recommender
with a store in a temporary folder. They click the first item of a list that they like, and are not shown again what
they have examined. The Recommender starts from the catalog and the prior that thali.fit learned from other people.

First, some people or programs see lists, and a prior is learned from them. Then others come, who are served both with
this prior and without it. They come in ten groups, so that the check gives ten verdicts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pages
from cases import data_folder

import thali
from thali.datasets.interactions import Interactions
from thali.lab.intervals import Estimate, mean
from thali.lab.likes import start_of, tuned
from thali.lab.settings import FIT
from thali.lab.sources import liked
from thali.service.recommender import Recommender
from thali.service.recommender.operations import Feedback, Recommend, SetPrior, id_bytes
from thali.tools.randomness import stream
from thali.tools.types import Booleans, Floats, Integers

PAGE, K, LISTS, GROUPS, SEED = "live.md", 10, 10, 10, 17
#: How people and programs answer lists, given which of their items they like (people, K) and a generator.
Answer = Callable[[Booleans, np.random.Generator], Booleans]


def _only(position: Integers | int, shape: tuple[int, ...]) -> Booleans:
    """A click at one position of each list."""
    clicks = np.zeros(shape, dtype=bool)
    clicks[np.arange(shape[0]), position] = True
    return clicks


def likes(liked: Booleans, rng: np.random.Generator) -> Booleans:
    """What people like."""
    return liked


def first(liked: Booleans, rng: np.random.Generator) -> Booleans:
    """The first item, always."""
    return _only(0, liked.shape)


def random(liked: Booleans, rng: np.random.Generator) -> Booleans:
    """One item, at random."""
    return _only(rng.integers(0, K, len(liked)), liked.shape)


def never(liked: Booleans, rng: np.random.Generator) -> Booleans:
    """Nothing."""
    return np.zeros_like(liked)


@dataclass(frozen=True)
class Case:
    """Where the catalog file comes from, and from whom a prior is learned."""

    file: str
    """The people of the catalog file, in words, with {} for their number."""
    crowd: str
    """Those from whom the prior is learned, in words, with {} for their number."""
    earlier: int
    answer: Answer = likes
    source: str = "movielens"
    later: int = 1000
    most: int | None = None
    """How many people the catalog file comes from at most."""
    ages: tuple[int, int] | None = None
    """The catalog file comes from people of at least this age, and the others are younger than this age."""


CASES = (
    Case("MovieLens, {} people", "{} people", 100),
    Case("MovieLens, {} people", "{} people", 1000),
    Case("MovieLens, {} people", "{} programs that click every first item", 1000, first),
    Case("MovieLens, {} people", "{} programs that click an item at random", 1000, random),
    Case("MovieLens, {} people", "{} programs that never click", 1000, never),
    Case("MovieLens, {} people", "{} people", 1000, most=50),
    Case("MovieLens, {} people of 45 and older", "{} people under 25", 700, later=600, ages=(45, 25)),
    Case("Last.fm, {} people", "{} people", 500, source="songs-hetrec", later=500),
)


@dataclass(frozen=True)
class Result:
    """What happened in one case."""

    case: Case
    people: int
    """The number of people of the catalog file."""
    verdicts: list[str]
    without: Floats
    """The share of the lists with a click of each person who came later, without the learned prior (later,)."""
    learned: Floats
    """The same, with it."""

    def row(self) -> tuple[object, ...]:
        """A row of the table."""
        counts = [self.verdicts.count(verdict) for verdict in ("better", "open", "worse")]
        shares = [f"{percent(values):.1f}" for values in (self.without, self.learned)]
        names = self.case.file.format(f"{self.people:,}"), self.case.crowd.format(f"{self.case.earlier:,}")
        return (*names, *shares, f"{percent(self.learned - self.without):+.1f}", *counts)


def percent(values: Floats) -> Estimate:
    """The mean over people, in percent."""
    return mean(100.0 * values, np.zeros(len(values)))


def serve(recommender: Recommender, catalog: thali.Catalog, liked: Booleans, answer: Answer, name: str) -> Floats:
    """Show lists to people, and learn from their answers. Return which lists have a like (people, LISTS)."""
    number = {item: e for e, item in enumerate(catalog.items)}
    rng = stream(SEED, f"answers of {name}")
    hits = np.zeros((len(liked), LISTS))
    for step in range(LISTS):
        shown = recommender.perform([Recommend(f"{name} {n}") for n in range(len(liked))], whole=True)
        lists = np.array([[number[item.item] for item in one.items] for one in shown])
        found = np.take_along_axis(liked, lists, axis=1)
        clicked = [np.flatnonzero(row)[:1].tolist() for row in answer(found, rng)]
        recommender.perform([Feedback(id_bytes(s.id), c) for s, c in zip(shown, clicked, strict=True)], whole=True)
        hits[:, step] = found.any(axis=1)
    return hits


def measure(case: Case, data: str, folder: Path, counted: int | None = None) -> Result:
    """Measure one case. counted: as how many people the prior of the file counts, by default as thali.fit says."""
    known = liked(case.source, data)
    file, earlier, later = split(case, known, data)
    start = start_of(known.take_users(file), **tuned(case.source, FIT))
    flags = known.matrix().astype(bool)
    prior, groups = start.prior, np.array_split(later, GROUPS)
    if counted is not None:
        prior = thali.Prior.from_content({**prior.content, "people": counted})
    policy = start.policy(K, prior=prior)
    without, learned, verdicts = list[Floats](), list[Floats](), list[str]()
    with Recommender(policy, f"sqlite:///{folder / 'without.db'}", hide="examined") as plain:
        for g, group in enumerate(groups):
            without.append(serve(plain, start.catalog, flags[group].toarray(), likes, f"group {g}").mean(axis=1))
    with Recommender(policy, f"sqlite:///{folder / 'learns.db'}", hide="examined", learn_prior=True) as recommender:
        serve(recommender, start.catalog, flags[earlier].toarray(), case.answer, "earlier")
        if recommender.learn_prior().people != case.earlier:
            raise RuntimeError(f"the prior must come from {case.earlier} people")
        found = recommender.learners["default"].policy.prior
        for g, group in enumerate(groups):
            recommender.perform([SetPrior("default", found, case.earlier)], whole=True)  # a version for each group
            shown = serve(recommender, start.catalog, flags[group].toarray(), likes, f"group {g}")
            learned.append(shown.mean(axis=1))
            check = recommender.check_prior()
            assert check is not None
            verdicts.append(check.verdict)
    return Result(case, len(file), verdicts, np.concatenate(without), np.concatenate(learned))


def split(case: Case, known: Interactions, data: str) -> tuple[Integers, Integers, Integers]:
    """Return the numbers of the people of the catalog file, of those who come first, and of those who come later."""
    count = np.bincount(known.user, minlength=len(known.users))
    order = stream(SEED, "people").permutation(np.flatnonzero(count))
    if case.ages is None:
        served, others = order[: case.later + case.earlier], order[case.later + case.earlier :]
    else:
        age = np.array([ages(data)[int(str(known.users[at]))] for at in order])
        served, others = order[age < case.ages[1]], order[age >= case.ages[0]]
    return np.sort(others[: case.most]), served[case.later : case.later + case.earlier], served[: case.later]


def ages(data: str) -> dict[int, int]:
    """Return the age group of each user of MovieLens 1M, by its lowest age."""
    lines = (Path(data) / "ml-1m" / "users.dat").read_text(encoding="latin-1").splitlines()
    return {int(user): int(age) for user, _, age, *_ in (line.split("::") for line in lines)}


def main() -> None:
    """Measure, print the table, and write it to the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default=data_folder(), help="Folder of the data sets (default: $THALI_DATA).")
    options.add_argument("--cases", type=int, nargs="*", help="Measure only these rows, counted from 0.")
    options.add_argument(
        "--counted", type=int, help="Count the prior of the file as this many people (default: as thali.fit says)."
    )
    pages.add_docs_option(options)
    given = options.parse_args()
    if given.data is None:
        options.error("--data must be the folder that contains ml-1m and hetrec2011-lastfm-2k")
    rows = []
    for case in CASES if given.cases is None else [CASES[n] for n in given.cases]:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(case, str(given.data), Path(folder), given.counted).row())
        print(*rows[-1], sep=" | ", flush=True)
    header = "catalog file from | prior learned from | without it, % | with it, % | difference, points"
    table = pages.table(f"{header} | better | open | worse", rows)
    if given.cases is None and given.counted is None:
        pages.write(given.docs / PAGE, "checks", table)


if __name__ == "__main__":
    main()
