"""Everything about speed: tables and the picture in docs/performance.md and docs/policies.md, measured here.

make bench takes several minutes and writes them into the pages; what is between markers is written by this script.
--only NAME measures one part and prints it. It holds BLAS to one thread, so run it by make.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cases
import klucb
import numpy as np
import speed

import thali
from thali.lists.engine import SearchIndex

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
PAGES = {"policies": PAGE.with_name("policies.md")}
SEVERAL = "µs a user-step, median (lower to upper quartile)"


def spread(values: np.ndarray, digits: int = 1, scale: float = 1.0) -> str:
    """Median (lower to upper quartile)."""
    middle, low, high = np.quantile(values * scale, [0.5, 0.25, 0.75])
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def table(header: str, rows: Sequence[tuple[object, ...]]) -> str:
    """A table in Markdown."""
    columns = header.split(" | ")
    lines = [f"| {header} |", "|---" * len(columns) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def steps() -> str:
    """Steps of a thousand items, 100 users a batch."""
    here = cases.data_folder() is not None
    named: dict[str, tuple[Callable[[np.random.Generator], cases.Case], int]] = {}
    if here:
        named["MovieLens 1M, L=1000, d=18, K=12"] = cases.movielens(18), 12
        named["MovieLens 1M, L=1000, d=5, K=4"] = cases.movielens(5), 4
    named["random sparse, L=1000, d=40, K=8"] = cases.random_sparse, 8
    named["MovieLens-like, L=1000, d=18, K=12"] = cases.like_movielens, 12
    named["the same sets, even films"] = cases.even_films, 12
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
    return table(f"case | α | after steps | thali, {SEVERAL} | of which recommend | NumPy, µs | times faster", rows)


def sparse(L: int) -> Callable[[np.random.Generator], cases.Case]:
    """One user, and so many items with 1 to 3 of 40 topics."""
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
    return table("α | after steps | a list, ms | a step, ms | NumPy's step, s | times faster", rows)


def growth() -> str:
    """A list from a thousand to a million items, and the picture."""
    sizes = [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    found: dict[tuple[str, int], float] = {}
    rows: list[tuple[str, ...]] = []
    for L in sizes:
        every = 10 if L <= 100_000 else 30
        times = {warm: speed.measure(sparse(L), 10, warm=warm, repeats=30, every=every) for warm in (0, 100)}
        found["fresh", L], found["learned", L] = (float(np.median(times[warm]["recommend"])) for warm in (0, 100))
        found["numpy", L] = float(np.median(times[100]["numpy"]))
        rows.append(
            (f"{L:,}", spread(times[0]["recommend"], 0, 1e6), spread(times[100]["recommend"], 0, 1e6),
             f"{found['numpy', L] * 1e6:,.0f}")
        )  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    times_as_long = {who: found[who, 1_000_000] / found[who, 10_000] for who in ("fresh", "learned", "numpy")}
    rows.append(
        ("1,000,000 over 10,000", *(f"{times_as_long[who]:.1f} times" for who in ("fresh", "learned", "numpy")))
    )
    draw(sizes, found)
    return table("L | a list, µs: nothing known | after 100 steps | NumPy, µs", rows)


def draw(sizes: list[int], found: dict[tuple[str, int], float]) -> None:
    """Time a list against L, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for who, label, style in (
        ("numpy", "textbook NumPy", "s-"),
        ("learned", "thali, after 100 steps", "o-"),
        ("fresh", "thali, nothing known", "o--"),
    ):
        axes.loglog(
            sizes, [found[who, L] for L in sizes], style, label=label, color={"numpy": "#888888"}.get(who, "#b5452c")
        )
    axes.set(xlabel="items in the catalog, L", ylabel="seconds a list")
    axes.set_title("The same lists: 1 to 3 of 40 topics an item, K = 10, one user", fontsize=10)
    axes.grid(alpha=0.3, which="major")
    axes.legend(frameon=False)
    figure.savefig(PAGE.parent / "speed.png", dpi=150)
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
    return table("rows | α | after steps | a step, ms | NumPy, ms | times faster", rows)


def kl_ucb() -> str:
    """CascadeKL-UCB next to bisection."""
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
    return table(f"case | after steps | thali, {SEVERAL} | of which recommend | NumPy, µs | times faster", rows)


def index() -> str:
    """Memory of the index of a million items, building it, and changing it."""
    rng = np.random.default_rng(0)
    weights = cases.sparse_weights(rng, 1_000_000, 40)
    builds = []
    for _ in range(5):
        catalog = thali.Catalog(weights)
        begin = time.perf_counter()
        groups = catalog.derived(SearchIndex)
        builds.append(time.perf_counter() - begin)
    items = sum(array.nbytes for array in catalog.sparse)
    rows: list[tuple[object, ...]] = [
        ("bytes an item: index", f"{groups.nbytes / catalog.L:.0f}"),
        ("bytes an item: the weights themselves", f"{items / catalog.L:.0f}"),
        ("building, s", spread(np.array(builds), 2)),
    ]
    policy = thali.CascadeLSB(catalog, 10)
    state = policy.init(1)
    new = cases.sparse_weights(rng, 3000, 40).toarray()
    # Everything compiled.
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
        rows.append(
            (f"{what}, µs (and the slowest of 1000)", f"{spread(np.array(taken), 0, 1e6)}; {max(taken) * 1e6:,.0f}")
        )
    begin = time.perf_counter()
    policy.recommend(state)
    rows.append(("the next list after all that, ms", f"{(time.perf_counter() - begin) * 1e3:.2f}"))
    for row in rows:
        print(*row, sep=" | ", flush=True)
    return table("L=1,000,000, d=40, 1 to 3 topics | median (lower to upper quartile)", rows)


def candidates() -> str:
    """A list from some of a million items, and from all but some."""
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
            rows.append((f"{what}= {size:,} of 1,000,000", spread(np.array(taken), 3, 1e3)))
            print(*rows[-1], sep=" | ", flush=True)
    return table("one user, after 100 steps | a list, ms: median (lower to upper quartile)", rows)


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
        "two Python threads, half of the users each": both,
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
    return table(f"{users} users a call | µs a list | lists a second | times threads=1", rows)


def policies() -> str:
    """A step of every policy, people included: 50 users a batch, steps 1101 to 1300, so that windows are full."""
    here = cases.data_folder() is not None
    rng = np.random.default_rng(0)
    case = (cases.movielens(18, users=50) if here else lambda rng: cases.like_movielens(rng, users=50))(rng)
    rows = []
    for name, make in thali.POLICIES.items():
        policy = make(case.catalog, 12)
        size = sum(array.nbytes for array in policy.init(1).arrays.values())
        rows.append((f"`{name}`", spread(speed.step(policy, case.model, warm=1100), 1, 1e6), f"{size:,}"))
        print(*rows[-1], sep=" | ", flush=True)
    data = "MovieLens 1M" if here else "MovieLens-like weights"
    return table(f"{data}, L=1000, d=18, K=12 | {SEVERAL} | bytes of state a user, as saved", rows)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (steps, large, growth, dense, kl_ucb, index, candidates, threads, policies)
}


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=PARTS)
    only = options.parse_args().only
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        raise SystemExit(
            "OPENBLAS_NUM_THREADS must be 1, so that NumPy takes one thread as thali does; make bench sets it"
        )
    for name, part in PARTS.items() if only is None else [(only, PARTS[only])]:
        print(f"\n{name}: {part.__doc__}", flush=True)
        found = part()
        page = PAGES.get(name, PAGE)
        before, rest = page.read_text().split(f"<!-- {name} -->\n")
        page.write_text(f"{before}<!-- {name} -->\n{found}\n{rest[rest.index('<!-- end -->') :]}")


if __name__ == "__main__":
    main()
