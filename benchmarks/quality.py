"""Measure what the quality of items brings, what exploring items costs, and whether a good new item finds its audience.

`make quality` takes about two minutes on one core and writes the tables of docs/quality.md. There are 1,000 items.
People click under the diverse cascade model with a steady column for the true quality of items. The learner knows the
topics, has a prior over people, and learns the quality from clicks (thali.Quality). It refreshes its column after each
batch of 50 new people with 5 lists each. For a quick look without writing the tables, use --seeds 2.

With the real data sets (--data), it also compares ways to guess the weights of an item whose topics are known.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pages
from cases import data_folder

import thali
from thali.catalog import columns
from thali.lab.sources import SOURCES, selected
from thali.tools.randomness import stream
from thali.tools.types import Floats

L, D, K = 1000, 10, 10
PEOPLE, LISTS = 50, 5
BATCH = PEOPLE * LISTS
#: The number of batches: of the run from nothing, and of the run with a new item.
FROM_NOTHING, WITH_NEW = 20, 32
#: A person's attraction: half of it is due to quality, half to topics, and it sums to this.
ATTRACTION = 0.5
#: The number of random lists that were shown before the run with a new item: about 145 examinations of each item.
HISTORY = 20_000
#: The true quality of the new item. Those of the others are drawn from Beta(2, 6), with a mean of 0.25.
GOOD, ORDINARY = 0.8, 0.25
ORDINARY_ITEMS, TRIAL, WINDOW, SEEDS = 20, 50, 2, 10
#: Source, number of topics.
DATA = (("movielens", 18), ("songs-hetrec", 40), ("yelp-core40", 10), ("yelp-hin", 10))
TOPICS = [*(f"topic {j}" for j in range(D)), "quality"]


@dataclass(frozen=True)
class Rule:
    """How the column is refreshed: from nothing, by a true value, or by thali.Quality."""

    name: str
    beta: float = 0.0
    draw: bool = False
    trial: float = 0.0
    column: str = "learned"

    def refresh(self, quality: thali.Quality, catalog: thali.Catalog, seed: int, batch: int) -> None:
        """Write the column, unless it stays as it is."""
        if self.column == "learned":
            rng = stream(seed, "draws", batch) if self.draw else None
            quality.refresh(catalog, beta=self.beta, rng=rng, trial=self.trial)


RULES = [*(Rule(f"β = {beta}", beta) for beta in (0, 1, 2, 3)), Rule("draws", draw=True)]
TRIED = [Rule(f"β = {beta}, trial = {TRIAL}", beta, trial=TRIAL) for beta in (0, 1)]
BASE = RULES[0].name


class World:
    """Items with true weights and quality, people, and a prior over people. Item 0 is good, with typical weights."""

    def __init__(self, seed: int) -> None:
        rng = stream(seed, "world")
        self.seed = seed
        self.weights = np.zeros((L, D + 1))
        for e in range(L):
            topics = rng.choice(D, size=rng.integers(1, 3), replace=False)
            self.weights[e, topics] = rng.uniform(0.3, 0.5, size=topics.size)
        self.weights[:, D] = rng.beta(2.0, 6.0, size=L)
        self.topics = rng.choice(D, size=2, replace=False)
        self.weights[0] = 0.0
        self.weights[0, self.topics], self.weights[0, D] = 0.4, GOOD
        self.history = self.shown_at_random(HISTORY)
        self.prior = self.learned_prior()

    def catalog(self, quality: Any = None) -> thali.Catalog:
        """Return a catalog with the true weights, or with another quality."""
        weights = self.weights.copy()
        if quality is not None:
            weights[:, D] = quality
        return thali.Catalog(weights, topics=TOPICS, fading=[True] * D + [False])

    def people(self, name: str, batch: int, count: int) -> Floats:
        """Return the tastes of some people (count, D + 1)."""
        tastes = stream(self.seed, name, batch).dirichlet(np.full(D, 0.3), size=count)
        return ATTRACTION * np.hstack([0.5 * tastes, np.full((count, 1), 0.5)])

    def shown_at_random(self, count: int, first: int | None = None) -> thali.Quality:
        """Return the quality learned from random lists, with a certain item at the top or any."""
        rng = stream(self.seed, "history")
        lists = np.argsort(rng.random((count, L - 1)), axis=1)[:, :K] + 1
        if first is None:
            lists = (lists + rng.integers(L, size=(count, 1))) % L
        else:
            lists[:, 0] = first
        quality = thali.Quality(L)
        model = thali.DiverseCascade(self.catalog(), self.people("history", 0, count))
        quality.add(lists, model.sample(lists, rng))
        return quality

    def learned_prior(self) -> thali.Prior:
        """Return the prior learned from 300 other people with 10 lists each."""
        catalog = self.catalog(self.history.mean)
        policy = thali.CascadeLSB(catalog, K, sigma=0.3)
        model = thali.DiverseCascade(self.catalog(), self.people("others", 0, 300))
        state: Any = thali.simulate(policy, model, steps=10, seed=self.seed, points=1).state
        return thali.Prior.learn(policy, state)


@dataclass(frozen=True)
class Run:
    """What happened in each batch."""

    clicks: Floats
    """The probability of a click on a list, its mean over the batch (batches,)."""
    shown: Floats
    """The share of the lists with the item, among the fifth of people whose taste fits it best (batches,)."""


def run(
    world: World, rule: Rule, mine: thali.Catalog, true: thali.Catalog, quality: thali.Quality, batches: int, item: int
) -> Run:
    """Show lists to new people, batch after batch."""
    clicks, shown = np.zeros(batches), np.zeros(batches)
    for batch in range(batches):
        rule.refresh(quality, mine, world.seed, batch)
        theta = world.people("people", batch, PEOPLE)
        model, rng = thali.DiverseCascade(true, theta), stream(world.seed, "clicks", batch)
        fits = np.argsort(-theta[:, :D] @ world.weights[0, :D], kind="stable")[: PEOPLE // 5]
        policy = thali.CascadeLSB(mine, K, prior=world.prior)
        state = policy.init(PEOPLE)
        for _ in range(LISTS):
            lists = policy.recommend(state)
            clicked = model.sample(lists, rng)
            policy.update(state, lists, clicked)
            quality.add(lists, clicked)
            clicks[batch] += model.click_probability(lists).mean() / LISTS
            shown[batch] += (lists[fits] == item).any(axis=1).mean() / LISTS
    return Run(clicks, shown)


def from_nothing(world: World, rule: Rule) -> Run:
    """Start without knowing the quality of any item."""
    start = None if rule.column == "true" else float(world.history.mean.mean())
    return run(world, rule, world.catalog(start), world.catalog(), thali.Quality(L), FROM_NOTHING, 0)


def with_known(world: World, rule: Rule) -> Run:
    """Show the good item among 999 others after everybody has met it: its quality is known from 5,000 more lists."""
    quality = world.history.copy()
    more = world.shown_at_random(5000, first=0)
    one = np.arange(L) == 0
    quality.merge(thali.Quality.from_counts(one * more.examined, one * more.clicked))
    return run(world, rule, world.catalog(0.0), world.catalog(), quality, WITH_NEW, 0)


def with_new(world: World, rule: Rule, true_quality: float = GOOD, count: int = 1) -> Run:
    """Replace the good item by new ones of which only the topics are known, and which have this true quality."""
    quality, mine, true = world.history.copy(), world.catalog(0.0), world.catalog()
    weights = world.weights[0].copy()
    weights[D] = true_quality
    mine.remove(0), true.remove(0)
    for n in range(count):
        true.put(f"new {n}", weights)
        mine.put(f"new {n}", topics=[TOPICS[j] for j in world.topics])
    return run(world, rule, mine, true, quality, WITH_NEW, L)


def lists_until(shown: Floats, known: Floats) -> float:
    """Return after how many lists the item is shown at least 90% as often as if it were known, in some 500 lists."""
    window = np.convolve(shown, np.full(WINDOW, 1.0 / WINDOW), "valid")
    enough = np.flatnonzero(window >= 0.9 * known.mean())
    return float((enough[0] + WINDOW) * BATCH) if enough.size else np.inf


def interval(values: Any) -> str:
    """Return the mean over seeds and its 95% interval, by Student's t."""
    from scipy.special import stdtrit

    n = len(values)
    half = stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(n)
    return f"{np.mean(values):+.2f} ± {half:.2f}"


def per_100(runs: list[Run], part: slice = slice(None)) -> Floats:
    """Return the clicks per 100 lists of each run."""
    return np.array([100.0 * one.clicks[part].mean() for one in runs])


def start_table(runs: dict[str, list[Run]]) -> str:
    """Clicks per 100 lists from nothing, by quarter, and the difference to β = 0."""
    quarter = FROM_NOTHING // 4
    rows = []
    for name, found in runs.items():
        parts = [f"{per_100(found, slice(q * quarter, (q + 1) * quarter)).mean():.1f}" for q in range(4)]
        rows.append((name, *parts, interval(per_100(found) - per_100(runs[BASE])) if name != BASE else ""))
    span = quarter * BATCH
    names = " | ".join(f"lists {q * span + 1:,} to {(q + 1) * span:,}" for q in range(4))
    return pages.table(f"quality | {names} | all, less {BASE}", rows)


def new_table(runs: dict[str, list[Run]], known: list[Run]) -> str:
    """When the new item is found, how often it is shown, and the difference in clicks."""
    rows: list[tuple[object, ...]] = []
    for name, found in [*runs.items(), ("known", known)]:
        until = [lists_until(one.shown, k.shown) for one, k in zip(found, known, strict=True)]
        middle = median(until)
        rows.append(
            (
                name,
                f"{np.isfinite(until).sum()} of {len(until)}",
                f"{middle:,.0f}" if np.isfinite(middle) else "not in half of the runs",
                f"{100 * np.mean([one.shown[-8:].mean() for one in found]):.0f}%",
                f"{per_100(found).mean():.1f}",
                interval(per_100(found) - per_100(runs[BASE])) if name != BASE else "",
            )
        )
    return pages.table(f"rule | found | after lists | shown at the end | clicks per 100 lists | less {BASE}", rows)


def ordinary_table(runs: dict[str, list[Run]]) -> str:
    """The clicks per 100 lists with ordinary new items."""
    rows = [
        (name, f"{per_100(found).mean():.1f}", interval(per_100(found) - per_100(runs[BASE])) if name != BASE else "")
        for name, found in runs.items()
    ]
    return pages.table(f"rule | clicks per 100 lists | less {BASE}", rows)


def cost_table() -> str:
    """The time to write a column, to build the first list afterwards, and of the next ones."""
    rows = []
    for size in (1000, 100_000):
        rng = np.random.default_rng(0)
        weights = np.where(rng.random((size, D + 1)) < 0.15, rng.uniform(0.3, 0.5, size=(size, D + 1)), 0.0)
        weights[:, D] = 0.1
        catalog = thali.Catalog(weights, topics=TOPICS, fading=[True] * D + [False])
        examined = rng.integers(0, 200, size=size)
        quality = thali.Quality.from_counts(examined, rng.binomial(examined, rng.beta(4.0, 40.0, size=size)))
        policy = thali.CascadeLSB(catalog, K)
        state = policy.init(1)
        show = partial(policy.recommend, state)
        show()
        times = []
        for n in range(3 if size > 1000 else 9):
            quality.add([[n]], [[False]])
            prior = seconds(partial(getattr, quality, "prior"))
            column = seconds(partial(catalog.put_column, "quality", quality.values()))
            refresh = seconds(partial(quality.refresh, catalog))
            times.append((prior, column, refresh, seconds(show), seconds(show)))
        rows.append((f"{size:,}", *(f"{1000.0 * np.median(part):.1f}" for part in zip(*times, strict=True))))
    header = "items | learn the Beta prior | put_column | refresh after that | first list | next list"
    return pages.table(header, rows)


def typical_table(data: str | None) -> str:
    """The error of guessed weights on real data: each item's weights are guessed from all other items."""
    rows = []
    for source, d in DATA:
        train, _ = selected(source, data).top_topics(d).split_users(0)
        matrix = thali.Catalog.estimate(train).csr
        dense, number = matrix.toarray(), np.arange(matrix.shape[0])
        items = np.flatnonzero(np.diff(matrix.indptr))
        cells = []
        for wider in (1e-9, columns.WIDER_MEAN, 1e9, None):
            off = []
            for e in items:
                topics = np.flatnonzero(dense[e])
                if wider is None:
                    others = dense[number != e]
                    guess = np.array([np.median(others[others[:, j] > 0, j]) for j in topics])
                else:
                    columns.WIDER_MEAN, usual = wider, columns.WIDER_MEAN
                    row = columns.typical_weights(matrix[number != e], np.ones(d, dtype=np.bool_), topics)
                    columns.WIDER_MEAN = usual
                    assert row is not None
                    guess = row[topics]
                off.append(guess - dense[e, topics])
            error = np.concatenate(off)
            mean = dense[dense > 0].mean()
            cells.append(f"{np.sqrt(np.mean(error**2)) / mean:.3f} ({100 * error.mean() / mean:+.0f}%)")
        rows.append((SOURCES[source].title, *cells))
    return pages.table("data | same topics only | both (`put`) | all with the topic | median of these", rows)


def seconds(act: Any) -> float:
    """Return how long a call takes."""
    begin = perf_counter()
    act()
    return perf_counter() - begin


def main() -> None:
    """Measure everything, and print the tables or write them to the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=SEEDS, help=f"Number of runs of each rule (default: {SEEDS}).")
    options.add_argument("--data", default=data_folder(), help="Folder of the data sets (default: $THALI_DATA).")
    pages.add_docs_option(options)
    given = options.parse_args()
    begin = perf_counter()
    start_rules = [Rule("none", column="none"), *RULES, Rule("known", column="true")]
    start: dict[str, list[Run]] = {rule.name: [] for rule in start_rules}
    new: dict[str, list[Run]] = {rule.name: [] for rule in [*RULES, *TRIED]}
    ordinary: dict[str, list[Run]] = {rule.name: [] for rule in [RULES[0], *TRIED]}
    known: list[Run] = []
    for seed in range(given.seeds):
        world = World(seed)
        for rule in start_rules:
            start[rule.name].append(from_nothing(world, rule))
        for rule in [*RULES, *TRIED]:
            new[rule.name].append(with_new(world, rule))
        for rule in [RULES[0], *TRIED]:
            ordinary[rule.name].append(with_new(world, rule, ORDINARY, ORDINARY_ITEMS))
        known.append(with_known(world, Rule("known")))
        print(f"seed {seed} is done after {perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    tables = {
        "start": start_table(start),
        "new": new_table(new, known),
        "ordinary": ordinary_table(ordinary),
        "cost": cost_table(),
    }
    if given.data is not None:
        tables["typical"] = typical_table(given.data)
    for name, table in tables.items():
        print(f"\n{name}\n\n{table}")
        if given.seeds == SEEDS:
            pages.write(given.docs / "quality.md", name, table)


if __name__ == "__main__":
    main()
