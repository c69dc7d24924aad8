"""Measure first lists, histories and learned priors through a running service, and update docs/live.md.

`make live DATA=folder` takes about a minute and a half on two cores. It starts `thali serve` in a process of its own,
with a store in a temporary folder. Each simulated person asks for a list over HTTP, clicks, and asks for the next
one. With other numbers of people or orders than the default ones, it prints the tables, but does not write them.

likes: held-out people of MovieLens click what they like. Compared with thali.simulate, on the same people.
arriving: a service without a prior learns one from its first 50 people.
history: what a service shows to people if it knows half of their likes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pages
from cases import data_folder
from serve import service

import thali
from thali.datasets.interactions import Interactions
from thali.lab.intervals import Estimate, mean
from thali.lab.likes import start_of, tuned
from thali.lab.problems import Problem
from thali.lab.settings import EXPERIMENTS, FIT
from thali.lab.sources import problem
from thali.starting import Start
from thali.tools.randomness import stream, streams
from thali.tools.types import Booleans, Floats, Integers

PAGE = "live.md"
LIKES, ARRIVING = EXPERIMENTS["likes/movielens-K10"], EXPERIMENTS["arriving/movielens-d18-K10"]
K, LISTS, THREADS, SEED = 10, 30, 4, 0
#: Lists 1 to 10, and lists 11 to 30.
RANGES = ((0, 10), (10, 30))
#: How many people are held out with their likes, and with a history; how many arrive before and after a prior is
#: learned, and in how many orders.
PEOPLE, WITH_HISTORY, ARRIVALS, ORDERS = 300, 1000, 50, 10
# Long after the end of a run: the quality must stay as the library has it.
NEVER = "1000000000"


@dataclass(frozen=True)
class HeldOut:
    """Held-out people with likes, and what thali.fit finds in the likes of everybody else."""

    problem: Problem
    start: Start

    @property
    def train(self) -> Interactions:
        """The likes of everybody else."""
        return self._known[0]

    @property
    def test(self) -> Interactions:
        """The likes of the held-out people."""
        return self._known[1]

    @property
    def _known(self) -> tuple[Interactions, Interactions]:
        known = self.problem.known
        assert known is not None
        assert isinstance(known.train, Interactions)
        assert isinstance(known.test, Interactions)
        return known.train, known.test

    @property
    def liked(self) -> Booleans:
        """Whether each held-out person likes each item (people, L)."""
        assert isinstance(self.problem.model, thali.Likes)
        return self.problem.model.liked


def hold_out(data: str, people: int) -> HeldOut:
    """Hold out people as the suite "likes" does. The first 300 are its first split."""
    found = problem(replace(LIKES, users=people, splits=1), 0, seed=SEED, data=data)
    assert found.known is not None
    assert isinstance(found.known.train, Interactions)
    return HeldOut(found, start_of(found.known.train, **tuned(LIKES.source, FIT)))


# People who are served over HTTP.


def browse(url: str, people: range, catalog: thali.Catalog, respond: Callable[[int, int, Any], Any]) -> Integers:
    """Show each person their lists over HTTP, and send their clicks. Return the lists (people, LISTS, K).

    people: their numbers. respond: called with the number of the person, that of the list, and the list (1, K), returns
    the clicks (1, K). Each person waits for the answer to one list before the next one. Several people are served at
    the same time.
    """
    number = {str(name): e for e, name in enumerate(catalog.items)}

    def live(person: int) -> Integers:
        shown = np.empty((LISTS, K), dtype=np.int64)
        for step in range(LISTS):
            reply = client.recommend(f"person {person}")
            shown[step] = [number[item.item] for item in reply.items]
            clicked = np.flatnonzero(respond(person, step, shown[[step]])[0])
            client.feedback(reply.impression, clicked.tolist())
        return shown

    with thali.Client(url, timeout=60.0, deadline=120.0) as client, ThreadPoolExecutor(THREADS) as threads:
        return np.stack(list(threads.map(live, people)))


# Real likes.


@dataclass(frozen=True)
class Compared:
    """The same people with the service and with the library."""

    served: Integers
    """The lists of the service (people, LISTS, K)."""
    simulated: Integers
    """Those of the library."""
    liked: Booleans
    """Whether each person likes each item (people, L)."""
    seconds: float
    """How long the service took."""

    @property
    def same(self) -> Booleans:
        """Whether a list is the same, item by item (people, LISTS)."""
        return np.asarray((self.served == self.simulated).all(axis=2))

    def clicked(self, lists: Integers) -> Booleans:
        """Whether a list has a click (people, LISTS)."""
        return np.asarray(np.take_along_axis(self.liked[:, None], lists, axis=2).any(axis=2))

    def table(self) -> str:
        """The shares of lists with a click, of both."""
        rows = []
        for name, lists in (("`thali serve`", self.served), ("`thali.simulate`", self.simulated)):
            clicked = self.clicked(lists)
            rows.append((name, *(percent(clicked[:, begin:end].mean(axis=1)) for begin, end in RANGES)))
        difference = self.clicked(self.served).astype(float) - self.clicked(self.simulated)
        rows.append(("difference, in points", *(percent(difference[:, low:high].mean(axis=1)) for low, high in RANGES)))
        people, lists_each, _ = self.served.shape
        return (
            pages.table("people get their lists from | lists 1 to 10 | lists 11 to 30", rows)
            + f"\n\n{self.same.sum():,} of {self.same.size:,} lists ({self.same.mean():.2%}) are identical, item by "
            f"item. {int(self.same.all(axis=1).sum()):,} of {people:,} people saw the same {lists_each} lists.\n"
            f"The service took {self.seconds:.0f} s for {2 * self.same.size:,} requests from {THREADS} threads."
        )


def likes(held_out: HeldOut, folder: Path, people: int) -> Compared:
    """Show lists to the first people with both."""
    start, liked = held_out.start, held_out.liked[:people]
    everybody = thali.Likes(liked)
    simulated = thali.simulate(start.policy(K), everybody, LISTS, SEED, points=LISTS, hide="examined").lists
    file = folder / "likes.parquet"
    start.save(file)
    models = [thali.Likes(one[None]) for one in liked]
    luck = np.full((1, K), 0.5)  # a like is certain, so this has no effect
    with service(
        folder, file, "--hide", "examined", "--quality-every", NEVER, store=_store(folder, "likes")
    ) as running:
        begin = perf_counter()
        served = browse(
            running.url, range(people), start.catalog, lambda at, step, shown: models[at].respond(shown, luck)
        )
        seconds = perf_counter() - begin
    return Compared(served, simulated, liked, seconds)


# People who arrive at a service without a prior.


@dataclass(frozen=True)
class Arrived:
    """Shares of the best list's clicks, over all lists of each person (orders, people)."""

    service: Floats
    """With the service, which learned a prior after the first half of the people."""
    without: Floats
    """With CascadeLSB in the library, which never has a prior."""
    static: Floats
    """With the same list for everybody, the greedy list for the mean taste of the people behind the catalog."""

    def half(self, shares: Floats, which: int) -> Estimate:
        """The mean over the first or second half of the arrivals, in percent; the interval is over orders."""
        orders, people = shares.shape
        part = 100.0 * shares[:, which * (people // 2) : (which + 1) * (people // 2)]
        return mean(part.ravel(), np.repeat(np.arange(orders), people // 2))

    def table(self) -> str:
        """The means of both halves."""
        names = {
            "`thali serve --prior learn`": self.service,
            "CascadeLSB, which never has a prior": self.without,
            "the same list for everybody": self.static,
        }
        rows = [(name, *(_cell(self.half(shares, which)) for which in (0, 1))) for name, shares in names.items()]
        size = self.service.shape[1] // 2
        return pages.table(f"lists | people 1 to {size} | people {size + 1} to {2 * size}", rows)


def arriving(data: str, folder: Path, orders: int) -> Arrived:
    """Let people arrive, in several random orders with a service each."""
    found = [_arrive(problem(ARRIVING, order, seed=SEED, data=data), folder, order) for order in range(orders)]
    return Arrived(*(np.stack(part) for part in zip(*found, strict=True)))


def _arrive(setting: Problem, folder: Path, order: int) -> tuple[Floats, Floats, Floats]:
    """Return the share of each person: with the service, without a prior, and with a static list (people,) each."""
    model: Any = setting.model
    file, people = folder / f"arriving{order}.parquet", 2 * ARRIVALS
    thali.save_catalog(setting.catalog, file)
    luck = [generator.random((LISTS, K)) for generator in streams(SEED, "luck", range(people))]
    models = [model.with_theta(setting.theta[[person]]) for person in range(people)]
    best = model.click_probability(model.best_lists(K))

    def respond(person: int, step: int, shown: Any) -> Any:
        return models[person].respond(shown, luck[person][[step]])

    with service(folder, file, "--prior", "learn", store=_store(folder, f"arriving{order}")) as running:
        earlier = browse(running.url, range(ARRIVALS), setting.catalog, respond)
        with thali.Client(running.url, timeout=120.0, deadline=120.0) as client:
            learned = client.learn_prior()
            if learned.people != ARRIVALS:
                raise RuntimeError(f"the prior must come from {ARRIVALS} people, got {learned.people}")
        served = np.concatenate([earlier, browse(running.url, range(ARRIVALS, people), setting.catalog, respond)])
    value = sum(model.click_probability(np.ascontiguousarray(served[:, step])) for step in range(LISTS))
    without = thali.simulate(thali.CascadeLSB(setting.catalog, K), model, LISTS, SEED, points=1)
    assert setting.others is not None
    assert setting.others.theta is not None
    static = thali.Oracle(setting.catalog, K, theta=setting.others.theta.mean(axis=0))
    same = model.click_probability(static.recommend(static.init(people)))
    return value / (LISTS * best), without.value[:, -1] / (LISTS * best), same / best


# People whose history is known.


@dataclass(frozen=True)
class Found:
    """Whether the list holds a like that is not in the history, by the way in which it was chosen (people,)."""

    flags: dict[str, Booleans]
    by_time: bool
    """Whether the other likes are later than the history. Otherwise the history is a random half."""

    def difference(self, one: str, other: str) -> Estimate:
        """The paired difference between two ways, in percentage points."""
        values = 100.0 * (self.flags[one].astype(float) - self.flags[other])
        return mean(values, np.zeros(values.size))

    def table(self) -> str:
        """The shares, and the differences to the service with histories."""
        rows = []
        for name, flags in self.flags.items():
            cell = "" if name == WITH else f"{self.difference(WITH, name):+.1f}"
            rows.append((name, percent(flags), cell))
        return pages.table("list | people with another like in it | service with the history, minus this", rows)


POPULAR, GREEDY = "popular films", "greedy list under `thali.preferences(history)`"
WITHOUT, WITH = "service without the history", "service with the history"


def history(held_out: HeldOut, folder: Path) -> Found:
    """Show one list to each person with at least two likes, half of which are known."""
    train, start, liked = held_out.train, held_out.start, held_out.liked
    known, by_time = first_halves(held_out.test)
    has = np.zeros_like(liked)
    has[known.user, known.item] = True
    able = np.flatnonzero(has.any(axis=1))
    has, others = has[able], (liked & ~has)[able]

    def hit(lists: Any) -> Booleans:
        return np.asarray(np.take_along_axis(others, np.asarray(lists), axis=1).any(axis=1))

    popular = thali.MostPopular(start.catalog, K, popularity=np.bincount(train.item, minlength=len(train.items)))
    genres = train.top_topics(len(train.topics))
    mine = known.top_topics(len(known.topics))
    if mine.topics != genres.topics:
        raise RuntimeError(f"topics must be the same, got {mine.topics} and {genres.topics}")
    greedy = thali.Oracle(thali.Catalog.estimate(genres), K, theta=thali.preferences(mine)[able])
    flags = {
        POPULAR: hit(popular.recommend(popular.init(len(able)), exclude=has)),
        GREEDY: hit(greedy.recommend(greedy.init(len(able)), exclude=has)),
    }
    flags |= {name: hit(lists) for name, lists in _with_histories(start, folder, has).items()}
    return Found(flags, by_time)


def first_halves(likes: Interactions) -> tuple[Interactions, bool]:
    """Return the earlier half of each person's likes, and True. Without times, return a random half, and False."""
    luck = stream(SEED, "halves").random(len(likes))
    order = np.lexsort((luck, luck if likes.time is None else likes.time, likes.user))
    count = np.bincount(likes.user, minlength=len(likes.users))
    place = np.arange(len(likes)) - np.repeat(np.cumsum(count) - count, count)  # among the likes of the person
    kept = np.sort(order[place < np.repeat(count // 2, count)])
    half = Interactions(
        likes.users,
        likes.items,
        likes.topics,
        user=likes.user[kept],
        item=likes.item[kept],
        value=likes.value[kept],
        membership=likes.membership,
        time=None if likes.time is None else likes.time[kept],
    )
    return half, likes.time is not None


def _with_histories(start: Start, folder: Path, has: Booleans) -> dict[str, Integers]:
    """Return the first lists of a service, for new people and for people with a history (people, K) each.

    Neither of them are shown what is in the history, which ``thali learn-from`` reads from a table.
    """
    file, store, table = folder / "history.parquet", _store(folder, "history"), folder / "likes.csv"
    start.save(file)
    names = [str(name) for name in start.catalog.items]
    histories = [[names[e] for e in np.flatnonzero(row)] for row in has]
    rows = (f"known {at},{name}\n" for at, liked in enumerate(histories) for name in liked)
    table.write_text("user,item\n" + "".join(rows))
    number = {name: e for e, name in enumerate(names)}
    with (
        service(folder, file, "--hide", "clicked", "--quality-every", NEVER, store=store) as running,
        thali.Client(running.url, timeout=60.0) as client,
    ):
        command = [sys.executable, "-m", "thali", "learn-from", str(table), "--store", store]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

        def ask(user: str, **rule: Any) -> list[int]:
            return [number[item.item] for item in client.recommend(user, **rule).items]

        return {
            WITHOUT: np.array([ask(f"new {at}", exclude=liked) for at, liked in enumerate(histories)]),
            WITH: np.array([ask(f"known {at}") for at in range(len(histories))]),
        }


# The program.


def percent(shares: Any) -> str:
    """The mean of shares (people,) in percent, with its 95% interval over people."""
    values = 100.0 * np.asarray(shares, dtype=np.float64)
    return _cell(mean(values, np.zeros(values.size)))


def _cell(estimate: Estimate) -> str:
    return f"{estimate:.1f}"


def _store(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db"


def measure(given: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Measure what was asked for, and return the tables by their markers."""
    wanted = [given.only] if given.only else ["likes", "arriving", "history"]
    tables = {}
    if "likes" in wanted:
        tables["likes"] = likes(hold_out(given.data, given.people), folder, given.people).table()
    if "arriving" in wanted:
        tables["arriving"] = arriving(given.data, folder, given.orders).table()
    if "history" in wanted:
        found = history(hold_out(given.data, given.with_history), folder)
        halves = "the first half by time" if found.by_time else "a random half, because these data have no times"
        people = found.flags[WITH].size
        tables["history"] = f"{people:,} people. The history is {halves}.\n\n{found.table()}"
    return tables


def main() -> None:
    """Measure, print the tables, and write them to the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default=data_folder(), help="Folder of the data sets (default: $THALI_DATA).")
    options.add_argument("--people", type=int, default=PEOPLE, help=f"People with likes (default: {PEOPLE}).")
    options.add_argument("--orders", type=int, default=ORDERS, help=f"Orders of arrival (default: {ORDERS}).")
    options.add_argument(
        "--with-history", type=int, default=WITH_HISTORY, help=f"People with a history (default: {WITH_HISTORY})."
    )
    options.add_argument("--only", choices=("likes", "arriving", "history"), help="Measure only this.")
    pages.add_docs_option(options)
    given = options.parse_args()
    if given.data is None:
        options.error("--data must be the folder that contains ml-1m")
    given.data = str(given.data)
    with tempfile.TemporaryDirectory() as folder:
        tables = measure(given, Path(folder))
    for name, table in tables.items():
        print(f"\n{name}\n\n{table}")
        if (given.people, given.orders, given.with_history) == (PEOPLE, ORDERS, WITH_HISTORY):
            pages.write(given.docs / PAGE, name, table)


if __name__ == "__main__":
    main()
