"""Measure how fast thali builds lists and learns, compared with textbook NumPy, and update the docs.

`make bench` takes several minutes. It prints each table, and writes it to docs/performance-tables.md or, for the table
of all policies, docs/policies.md. It also draws docs/speed.png, and writes the summary in docs/performance.md. NumPy
must use one thread, as thali does; `make bench` sees to that.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cases
import klucb
import numpy as np
import pages
import speed
from pages import table

import thali
from thali.lists.engine import SearchIndex

# The page of each table; performance-tables.md for all others.
PAGES = {"policies": "policies.md", "summary": "performance.md"}
TABLES = "performance-tables.md"
PER_STEP = "µs per user and step"
RECOMMEND = f"thali, `recommend` alone: {PER_STEP}"
SIZES = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def spread(values: np.ndarray, digits: int = 1, scale: float = 1.0) -> str:
    """Return the median (lower quartile-upper quartile) as text."""
    middle, low, high = np.quantile(values * scale, [0.5, 0.25, 0.75])
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def steps() -> str:
    """A thousand items, 100 users per batch."""
    has_movielens = cases.data_folder() is not None
    named: dict[str, tuple[Callable[[np.random.Generator], cases.Case], int]] = {}
    if has_movielens:
        named["MovieLens 1M, L=1000, d=18, K=12"] = cases.movielens(18), 12
        named["MovieLens 1M, L=1000, d=5, K=4"] = cases.movielens(5), 4
    named["random sparse, L=1000, d=40, K=8"] = cases.random_sparse, 8
    named["MovieLens-like, L=1000, d=18, K=12"] = cases.like_movielens, 12
    named["MovieLens-like with evenly spread popularity"] = cases.even_films, 12
    rows = []
    for name, (make, K) in named.items():
        for alpha in (None, "theory"):
            for warm in (1, 100, 1000):
                times = speed.measure(make, K, alpha=alpha, warm=warm, repeats=60)
                recommend = f"{np.median(times['recommend']) * 1e6:.1f}"
                rows.append(
                    (name, alpha or "default", warm, spread(times["thali"], 1, 1e6), recommend,
                     spread(times["numpy"], 0, 1e6), spread(times["ratio"], 0))
                )  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
    return table(
        f"case | α | after steps | thali: {PER_STEP} | {RECOMMEND} | NumPy: {PER_STEP} | times faster",
        rows,
    )


def quality() -> str:
    """MovieLens 1M with a steady column, 100 users per batch. Lists are compared with those of the plain loop."""
    makes = {"without": cases.movielens(18)}
    makes.update({kind: cases.movielens_with_quality(kind) for kind in ("share", "stars", "random")})
    rows = []
    for alpha in (0.5, None, "theory"):
        for warm in (1, 100, 1000):
            taken = speed.recommend(makes, 12, alpha=alpha, warm=warm, repeats=200)
            medians = [float(np.median(values)) * 1e6 for values in taken.values()]
            cells = [f"{median:.1f} ({median / medians[0]:.2f} times)" for median in medians[1:]]
            rows.append((alpha or "default", warm, f"{medians[0]:.1f}", *cells))
            print(*rows[-1], sep=" | ", flush=True)
    return table(
        "α | after steps | without quality: µs per list | share of users attracted | mean stars | random numbers", rows
    )


def learned() -> str:
    """Items with learned topics and a quality column, K=10. Lists are compared with those of the plain loop."""
    rows = []
    for L, users, repeats in ((1000, 100, 60), (100_000, 10, 20)):
        for s, d in ((3, 30), (5, 30), (8, 30), (11, 60)):
            times = speed.compared_with_plain(cases.learned(s, L, users, d), 10, repeats=repeats)
            rows.append(
                (f"{L:,}", f"{s} of {d}", users, spread(times["thali"], 1, 1e6), spread(times["plain"], 0, 1e6),
                 spread(times["ratio"], 0))
            )  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    return table(
        "items (L) | topics per item | users per batch | thali: µs per list | plain loop: µs per list | times faster",
        rows,
    )


def sparse(L: int) -> Callable[[np.random.Generator], cases.Case]:
    """Return a function that creates one user and L items, each with 1 to 3 of 40 topics."""
    return lambda rng: cases.random_sparse(rng, users=1, L=L)


def large() -> str:
    """A million items, one user."""
    rows = []
    for alpha in (None, "theory"):
        for warm in (0, 100, 1000):
            times = speed.measure(sparse(1_000_000), 10, alpha=alpha, warm=warm, repeats=30, every=30)
            rows.append(
                (alpha or "default", warm, spread(times["recommend"], 2, 1e3), spread(times["thali"], 2, 1e3),
                 f"{times['numpy'][0]:.1f}", f"{times['numpy'][0] / np.median(times['thali']):,.0f}")
            )  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    return table("α | after steps | thali: ms per list | thali: ms per step | NumPy: s per step | times faster", rows)


def growth() -> str:
    """From a thousand to a million items, one user."""
    rows: list[tuple[str, ...]] = []
    seconds: dict[str, list[float]] = {"new": [], "learned": [], "numpy": []}
    for L in SIZES:
        every = 10 if L <= 100_000 else 30
        times = {warm: speed.measure(sparse(L), 10, warm=warm, repeats=30, every=every) for warm in (0, 100)}
        seconds["new"].append(float(np.median(times[0]["recommend"])))
        seconds["learned"].append(float(np.median(times[100]["recommend"])))
        seconds["numpy"].append(float(np.median(times[100]["numpy"])))
        rows.append(
            (f"{L:,}", spread(times[0]["recommend"], 0, 1e6), spread(times[100]["recommend"], 0, 1e6),
             f"{seconds['numpy'][-1] * 1e6:,.0f}")
        )  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    small, large = SIZES.index(10_000), SIZES.index(1_000_000)
    factors = [f"{taken[large] / taken[small]:.1f} times" for taken in seconds.values()]
    rows.append(("1,000,000 compared with 10,000", *factors))
    return table(
        "items (L) | thali, new user: µs per list | thali, after 100 steps: µs per list | NumPy: µs per step", rows
    )


def draw(docs: Path) -> None:
    """Draw the table of growth(): time against the number of items, both axes logarithmic."""
    rows = [row for row in pages.rows(docs / TABLES, "growth") if row[0].replace(",", "").isdigit()]
    numbers = np.array([[float(cell.split(" (")[0].replace(",", "")) for cell in row] for row in rows])
    items, new, learned, numpy = numbers.T
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for taken, label, style, color in (
        (numpy, "textbook NumPy, list and update", "s-", "#888888"),
        (learned, "thali, after 100 steps", "o-", "#b5452c"),
        (new, "thali, new user", "o--", "#b5452c"),
    ):
        axes.loglog(items, taken / 1e6, style, label=label, color=color)
    axes.set(xlabel="items in the catalog, L", ylabel="seconds per list")
    axes.set_title("Items with 1 to 3 of 40 topics, lists of K = 10 items, one user", fontsize=10)
    axes.grid(alpha=0.3, which="major")
    axes.legend(frameon=False)
    figure.savefig(docs / "speed.png", dpi=150)
    plt.close(figure)


def dense() -> str:
    """A hundred thousand items with a weight on every topic."""
    rows = []
    for kind in ("Dirichlet(0.1)", "Dirichlet(1)", "uniform"):
        for alpha in (None, "theory"):
            for warm in (0, 100, 1000):
                times = speed.measure(cases.dense(kind), 10, alpha=alpha, warm=warm, repeats=9, every=3)
                rows.append(
                    (kind, alpha or "default", warm, spread(times["thali"], 2, 1e3), spread(times["numpy"], 0, 1e3),
                     spread(times["ratio"], 0 if np.median(times["ratio"]) > 20 else 1))
                )  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
    return table("weights | α | after steps | thali: ms per step | NumPy: ms per step | times faster", rows)


def kl_ucb() -> str:
    """CascadeKL-UCB compared with bisection."""
    makes = {"MovieLens 1M": cases.movielens(18)} if cases.data_folder() is not None else {}
    rows = []
    for name, make in {**makes, "MovieLens-like": cases.like_movielens}.items():
        for warm in (1, 100, 1000, 10_000):
            times = klucb.measure(make, 12, warm=warm, repeats=60)
            rows.append(
                (name, warm, spread(times["thali"], 2, 1e6), f"{np.median(times['recommend']) * 1e6:.2f}",
                 spread(times["numpy"], 0, 1e6), spread(times["ratio"], 0))
            )  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    return table(f"case | after steps | thali: {PER_STEP} | {RECOMMEND} | NumPy: {PER_STEP} | times faster", rows)


def index() -> str:
    """The search index of a million items: its memory, building it, and changing it."""
    rng = np.random.default_rng(0)
    weights = cases.sparse_weights(rng, 1_000_000, 40)
    builds = []
    for _ in range(5):
        catalog = thali.Catalog(weights)
        begin = time.perf_counter()
        built = catalog.derived(SearchIndex)
        builds.append(time.perf_counter() - begin)
    weight_bytes = sum(array.nbytes for array in catalog.sparse)
    rows: list[tuple[object, ...]] = [
        ("memory of the search index, bytes per item", f"{built.nbytes / catalog.L:.0f}"),
        ("memory of the weights themselves, bytes per item", f"{weight_bytes / catalog.L:.0f}"),
        ("building the search index, s", spread(np.array(builds), 2)),
    ]
    policy = thali.CascadeLSB(catalog, 10)
    state = policy.init(1)
    new = cases.sparse_weights(rng, 3000, 40).toarray()
    # Call everything once, so that no compilation is measured.
    policy.recommend(state)
    catalog.put("first", new[0])
    catalog.put(0, new[1])
    catalog.put(0, 0.5 * new[1])
    catalog.remove(0)
    for what, do in (
        ("adding an item", lambda n: catalog.put(f"new {n}", new[n])),
        ("changing an item", lambda n: catalog.put(n + 1, new[1000 + n])),
        ("removing an item", lambda n: catalog.remove(2000 + n)),
    ):
        taken = []
        for n in range(1000):
            begin = time.perf_counter()
            do(n)
            taken.append(time.perf_counter() - begin)
        label = f"{what}, µs: median (quartiles); slowest of {len(taken):,}"
        rows.append((label, f"{spread(np.array(taken), 0, 1e6)}; {max(taken) * 1e6:,.0f}"))
    begin = time.perf_counter()
    policy.recommend(state)
    rows.append(("building the next list after these changes, ms", f"{(time.perf_counter() - begin) * 1e3:.2f}"))
    for row in rows:
        print(*row, sep=" | ", flush=True)
    return table("1,000,000 items with 1 to 3 of 40 topics | measured", rows)


def candidates() -> str:
    """Lists from some of a million items, and from all except some."""
    rng = np.random.default_rng(0)
    case = cases.random_sparse(rng, users=1, L=1_000_000)
    policy = thali.CascadeLSB(case.catalog, 10)
    state = policy.init(1)
    for _ in range(100):
        lists = policy.recommend(state)
        policy.update(state, lists, case.model.sample(lists, rng))
    rows = []
    for what in ("candidates", "exclude"):
        for size in (100, 1000, 10_000, 100_000):
            chosen = rng.choice(case.catalog.L, size=size, replace=False)
            taken = []
            for _ in range(20):
                begin = time.perf_counter()
                policy.recommend(state, **{what: chosen})
                taken.append(time.perf_counter() - begin)
            rows.append((f"`{what}`: {size:,} of 1,000,000 items", spread(np.array(taken), 3, 1e3)))
            print(*rows[-1], sep=" | ", flush=True)
    return table("one user, after 100 steps | ms per list", rows)


def threads() -> str:
    """Many users at once, on one thread and on two."""
    rng = np.random.default_rng(0)
    case = (cases.movielens(18, users=500) if cases.data_folder() is not None else cases.like_movielens)(rng)
    users = case.model.users
    rows = []
    policies = {n: thali.CascadeLSB(case.catalog, 12, threads=n) for n in (1, 2)}
    state = policies[1].init(users)
    for _ in range(100):
        lists = policies[2].recommend(state)
        policies[2].update(state, lists, case.model.sample(lists, rng))
    taken: dict[str, list[float]] = {}
    halves = [state.take(range(users // 2)), state.take(range(users // 2, users))]

    def both() -> None:
        workers = [threading.Thread(target=policies[1].recommend, args=(half,)) for half in halves]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    ways: dict[str, Callable[[], object]] = {
        "threads=1": lambda: policies[1].recommend(state),
        "threads=2": lambda: policies[2].recommend(state),
        "two Python threads, each with half of the users": both,
    }
    for _ in range(40):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            taken.setdefault(name, []).append((time.perf_counter() - begin) / users)
    for name, values in taken.items():
        gain = np.array(taken["threads=1"]) / np.array(values)
        rows.append((name, spread(np.array(values), 2, 1e6), f"{1 / np.median(values):,.0f}", spread(gain, 2)))
        print(*rows[-1], sep=" | ", flush=True)
    return table(f"{users} users per call | µs per list | lists per second | speedup over threads=1", rows)


def priors() -> str:
    """CascadeLSB with a prior and without one, measured in turns."""
    rows = []
    for make, name, K in ((cases.like_movielens, "MovieLens-like", 12), (cases.random_sparse, "random sparse", 8)):
        for users in (100, 1):
            case = make(np.random.default_rng(0), users=users)
            d = case.catalog.d
            known = thali.Prior.from_preferences(cases.narrow_tastes(np.random.default_rng(1), 500, d))
            same: dict[str, Any] = {"sigma": 0.3, "alpha": 1.0}
            prior = thali.Prior(0.0, np.eye(d))
            kinds: tuple[dict[str, Any], ...] = (same, {**same, "prior": prior}, {}, {"prior": known})
            pair = [thali.CascadeLSB(case.catalog, K, **kind) for kind in kinds]
            for warm in (1, 100, 1000):
                taken = speed.compared(pair, case.model, warm=warm, repeats=6000 // (users + 19))
                times = [f"{np.median(taken[n]) * 1e6:.1f}" for n in (2, 3)]
                rows.append(
                    (f"{name}, d={d}, K={K}", users, warm, *times, spread(taken[3] / taken[2], 2),
                     spread(taken[1] / taken[0], 2))
                )  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
    return table(
        f"case | users per batch | after steps | without a prior: {PER_STEP} | with a prior | ratio | "
        "ratio with N(0, I), at the same σ and α",
        rows,
    )


def policies() -> str:
    """Every policy, 50 users per batch, steps 1101 to 1300, so that windows are full. Includes simulated clicks."""
    has_movielens = cases.data_folder() is not None
    rng = np.random.default_rng(0)
    case = (cases.movielens(18, users=50) if has_movielens else lambda rng: cases.like_movielens(rng, users=50))(rng)
    rows = []
    for name, make in thali.POLICIES.items():
        policy = make(case.catalog, 12)
        size = sum(array.nbytes for array in policy.init(1).arrays.values())
        rows.append((f"`{name}`", spread(speed.step(policy, case.model, warm=1100), 1, 1e6), f"{size:,}"))
        print(*rows[-1], sep=" | ", flush=True)
    data = "MovieLens 1M" if has_movielens else "MovieLens-like weights"
    return table(
        f"{data}, L=1000, d=18, K=12 | {PER_STEP}, median (lower to upper quartile) | bytes of saved state per user",
        rows,
    )


FILMS = "1,000 films, 18 genres, lists of 12"
DENSE = "100,000 items, lists of 10; each item has weights on all 20 topics"
# The rows of the summary: label; the table it is from; the first cells of its row there; the columns of thali's time,
# NumPy's time and their ratio; and the units of the two times.
SUMMARY = (
    (f"MovieLens 1M: {FILMS}", "steps", ("MovieLens 1M, L=1000, d=18, K=12", "default", "100"), (3, 5, 6), "µs", "µs"),
    ("1,000 items with 1 to 3 of 40 topics, lists of 8", "steps",
     ("random sparse, L=1000, d=40, K=8", "default", "100"), (3, 5, 6), "µs", "µs"),
    ("1,000,000 items with 1 to 3 of 40 topics, lists of 10", "large", ("default", "100"), (3, 4, 5), "ms", "s"),
    (f"{DENSE}, but most of its weight is on a few", "dense", ("Dirichlet(0.1)", "default", "100"), (3, 4, 5), "ms",
     "ms"),
    (f"{DENSE}, drawn uniformly", "dense", ("uniform", "default", "100"), (3, 4, 5), "ms", "ms"),
    (f"CascadeKL-UCB on MovieLens 1M: {FILMS}", "kl_ucb", ("MovieLens 1M", "100"), (2, 4, 5), "µs", "µs"),
)  # fmt: skip


def summary(docs: Path) -> str:
    """The main rows of the other tables: medians after 100 steps, at the default α."""
    rows = []
    for label, name, first_cells, columns, unit, numpy_unit in SUMMARY:
        for row in pages.rows(docs / TABLES, name):
            if tuple(row[: len(first_cells)]) == first_cells:
                own, numpy, ratio = (row[column].split(" (")[0] for column in columns)
                rows.append((label, f"{own} {unit}", f"{numpy} {numpy_unit}", ratio))
    text = table("case | thali: time per user and step | NumPy: time per user and step | times faster", rows)
    *_, (_, _, factor, numpy_factor) = pages.rows(docs / TABLES, "growth")
    growth = (
        f"Building a list from 1,000,000 items takes {factor} as long as building one from 10,000 items "
        f"(NumPy: {numpy_factor})."
    )
    return f"{text}\n\n{growth}"


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part
    for part in (steps, quality, learned, large, growth, dense, kl_ucb, index, candidates, threads, priors, policies)
}

#: The tables that are left out without MovieLens 1M.
NEED_MOVIELENS = ("quality",)


def main() -> None:
    """Measure, and update the pages."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=[*PARTS, "summary"], help="Measure and update only this table.")
    pages.add_docs_option(options)
    chosen = options.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        raise SystemExit("OPENBLAS_NUM_THREADS must be 1, so that NumPy uses one thread as thali does; use make bench")
    for name, part in PARTS.items():
        if name in NEED_MOVIELENS and cases.data_folder() is None:
            if chosen.only == name:
                raise SystemExit(f"{name} needs MovieLens 1M; set THALI_DATA to the folder that contains ml-1m")
        elif chosen.only in (None, name):
            print(f"\n{name}: {part.__doc__}", flush=True)
            pages.write(chosen.docs / PAGES.get(name, TABLES), name, part())
    pages.write(chosen.docs / PAGES["summary"], "summary", summary(chosen.docs))
    if chosen.only in (None, "growth"):
        draw(chosen.docs)


if __name__ == "__main__":
    main()
