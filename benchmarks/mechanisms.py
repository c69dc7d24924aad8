"""Measure what each mechanism of the search engine brings, and update docs/performance.md.

    make mechanisms

For each mechanism in ``switched_off.py``, this program makes a copy of thali in which the mechanism is switched off,
and compares it with the unchanged engine. Both run in processes that stay alive, and that are asked in turns to build
the lists of each case, so that other load on the machine affects them equally. Times are CPU times. The program stops
if a copy returns a list that differs from the unchanged engine's.

A ratio is the time without the mechanism, divided by the unchanged engine's time in the same round. The same code can
be 10% slower in one process than in another. So each ratio is the median over some
processes. The row "nothing" compares the unchanged engine with itself, and shows how exact the ratios are.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from switched_off import MECHANISMS, Mechanism

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "src" / "thali"
UNCHANGED = "unchanged"
NOTHING = Mechanism("nothing", "the unchanged engine, in another process", (), ("lists", "candidates", "update"))
# Edits of these files change the search index. All other copies of thali use the index that the unchanged engine built,
# so that they need not compile the kernels that build it.
INDEX_FILES = {f"lists/engine/{name}.py" for name in ("partition", "index", "layout", "groups")}
# A measurement repeats a call for about this long, in seconds of CPU time, but not more often than this.
LONG_ENOUGH, MOST_CALLS = 0.01, 40


class Setting(NamedTuple):
    """A catalog to measure on: the group of its cases in the table, how to make it, and the length of lists."""

    name: str
    group: str
    make: Callable[[np.random.Generator], Any]
    K: int


def settings() -> list[Setting]:
    """Return the catalogs of `make bench`."""
    import cases

    few, million, dense = "1,000 items", "1,000,000 items", "100,000 dense items"
    films = []
    if cases.data_folder() is not None:
        films = [
            Setting("MovieLens, d=18", few, cases.movielens(18), 12),
            Setting("MovieLens, d=5", few, cases.movielens(5), 4),
        ]
    return [
        *films,
        Setting("random sparse", few, cases.random_sparse, 8),
        Setting("MovieLens-like", few, cases.like_movielens, 12),
        Setting("even popularity", few, cases.even_films, 12),
        Setting("a million", million, lambda rng: cases.random_sparse(rng, users=1, L=1_000_000), 10),
        *(Setting(kind, dense, cases.dense(kind), 10) for kind in ("Dirichlet(0.1)", "Dirichlet(1)", "uniform")),
    ]


# The states that are measured: the name, α, and the number of steps before.
STATES = (("new", None, 0), ("100 steps", None, 100), ("100 steps, α of theory", "theory", 100))
# How many items of the million are the candidates, or are excluded.
CANDIDATES, EXCLUDED = (100, 1000, 10_000), (1000, 100_000)


def prepare(folder: Path) -> None:
    """Write the catalogs, the states and the list of all cases to a folder."""
    import scipy.sparse as sp

    import thali

    listed: list[dict[str, Any]] = []
    for setting in settings():
        rng = np.random.default_rng(0)
        case = setting.make(rng)
        sp.save_npz(folder / f"{setting.name}.npz", case.catalog.csr, compressed=False)
        save_index(case.catalog, folder / f"{setting.name}.index")
        for name, alpha, steps in STATES:
            policy = thali.CascadeLSB(case.catalog, setting.K, alpha=alpha, horizon=20_000)
            state = policy.init(case.model.users)
            for _ in range(steps):
                lists = policy.recommend(state)
                policy.update(state, lists, case.model.sample(lists, rng))
            file = f"{setting.name}, {name}"
            np.savez(
                folder / f"{file}.state.npz", M=state.M, B=state.B, estimate=policy.estimate(state),
                inverse=policy.posterior(state).inverse, alpha=policy.optimism(state),
            )  # fmt: skip
            about = {"name": file, "state": file, "catalog": setting.name, "K": setting.K}
            listed.append({**about, "part": "lists", "group": setting.group})
            if setting.name == "a million" and (alpha, steps) == (None, 100):
                for count in EXCLUDED:
                    what = {"name": f"a million, {count:,} excluded", "exclude": count, "part": "lists"}
                    listed.append({**about, "group": setting.group, **what})
                for count in CANDIDATES:
                    what = {"name": f"{count:,} candidates", "candidates": count, "part": "candidates"}
                    listed.append({**about, "group": "candidates", **what})
            if (alpha, steps) == (None, 100) and setting.group != "100,000 dense items":
                listed.append({**about, "name": f"{setting.name}, update", "part": "update", "group": "update"})
    (folder / "cases.json").write_text(json.dumps(listed), encoding="utf-8")


def save_index(catalog: Any, path: Path) -> None:
    """Write the search index of a catalog to a file."""
    from thali.lists.engine import SearchIndex

    path.write_bytes(pickle.dumps(catalog.derived(SearchIndex)))


def load_index(catalog: Any, path: Path) -> None:
    """Give a catalog the search index that the unchanged engine has built for it."""
    from thali.lists.engine import SearchIndex

    index = pickle.loads(path.read_bytes())
    index.layout = index._views()  # a pickle has separate copies of the arrays and of the views of them
    catalog._derived[SearchIndex] = index


class Measured:
    """The cases, as a measuring process sees them. Catalogs are loaded when they are first needed.

    own_index: whether to build the search index, instead of loading that of the unchanged engine.
    """

    def __init__(self, folder: Path, own_index: bool) -> None:
        self.folder, self.own_index = folder, own_index
        self.cases = {case["name"]: case for case in json.loads((folder / "cases.json").read_text(encoding="utf-8"))}
        self.catalogs: dict[str, Any] = {}
        self.calls: dict[str, Callable[[], np.ndarray]] = {}

    def call(self, name: str) -> Callable[[], np.ndarray]:
        """Return the function that is timed. It returns what must not depend on any mechanism."""
        if name not in self.calls:
            case = self.cases[name]
            with np.load(self.folder / f"{case['state']}.state.npz") as file:
                arrays = dict(file)
            make = self.update if case["part"] == "update" else self.lists
            self.calls[name] = make(case, arrays)
        return self.calls[name]

    def update(self, case: dict[str, Any], arrays: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """Return a function that computes M⁻¹ and M⁻¹B from M and B."""
        from thali.policies.linear import batches
        from thali.policies.linear.posterior import Reading

        d = arrays["B"].shape[1]
        reading = Reading(np.eye(d), np.zeros(d), 1.0, 1.0)
        inverse, solution, logdet = np.empty_like(arrays["M"]), np.empty_like(arrays["B"]), np.empty(len(arrays["B"]))

        def call() -> np.ndarray:
            batches.refresh(arrays["M"], arrays["B"], reading, inverse, solution, logdet)
            return inverse

        return call

    def lists(self, case: dict[str, Any], arrays: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """Return a function that builds the lists of all users."""
        import scipy.sparse as sp

        import thali
        from thali.catalog.candidates import allowed
        from thali.lists import engine

        if case["catalog"] not in self.catalogs:
            weights = sp.load_npz(self.folder / f"{case['catalog']}.npz")
            self.catalogs[case["catalog"]] = thali.Catalog(weights)
            if not self.own_index:
                load_index(self.catalogs[case["catalog"]], self.folder / f"{case['catalog']}.index")
        catalog, users, K = self.catalogs[case["catalog"]], len(arrays["alpha"]), case["K"]
        some = {
            what: np.random.default_rng(case[what]).choice(catalog.L, size=case[what], replace=False)
            for what in ("candidates", "exclude")
            if what in case
        }
        choice = allowed(catalog, users, K, some.get("candidates"), some.get("exclude"))
        belief = arrays["estimate"], arrays["inverse"], np.broadcast_to(arrays["alpha"], users).copy()
        return lambda: engine.build(catalog, *belief, K=K, choice=choice)

    def seconds(self, name: str) -> tuple[float, str]:
        """Return the median CPU time of a call, and a digest of its result."""
        call = self.call(name)
        result, first = timed(call)
        taken = [timed(call)[1] for _ in range(int(min(MOST_CALLS, max(2, LONG_ENOUGH / first))))]
        return float(np.median(taken)), sha256(result.tobytes()).hexdigest()


def timed(call: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the result of a call, and its CPU time."""
    begin = time.thread_time()
    result = call()
    return result, time.thread_time() - begin


def compile_all(parts: Sequence[str], folder: Path) -> dict[str, float]:
    """Compile the kernels of these parts, and return the CPU time of each."""
    import thali
    from thali.catalog.candidates import Choice
    from thali.lists import engine
    from thali.policies.linear import batches

    two = Choice(np.array([0, 2]), np.array([0, 2]), only=True)
    catalog, index = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]]), folder / "smallest.index"
    theta, inverse, alpha = np.zeros((1, 2)), np.eye(2)[None], np.ones(1)
    if "index" not in parts:
        load_index(catalog, index)
    do: dict[str, Callable[[], object]] = {
        "index": lambda: catalog.derived(engine.SearchIndex),
        "lists": lambda: engine.build(catalog, theta, inverse, alpha, K=2),
        "candidates": lambda: engine.build(catalog, theta, inverse, alpha, K=2, choice=two),
        "update": batches.example,
    }
    taken = {}
    for part in parts:
        begin = time.process_time()
        do[part]()
        taken[part] = time.process_time() - begin
    if not index.exists():
        save_index(catalog, index)
    return taken


def answer(folder: Path, own_index: bool) -> None:
    """Answer the names of cases on standard input with times, until there are no more."""
    measured = Measured(folder, own_index)
    for line in sys.stdin:
        print(json.dumps(measured.seconds(json.loads(line))), flush=True)


class Copy:
    """A copy of thali in which a mechanism is switched off, and the process that measures it."""

    def __init__(self, folder: Path, mechanism: Mechanism) -> None:
        self.mechanism, self.cases = mechanism, folder / "cases"
        self.own_index = any(edit.file in INDEX_FILES for edit in mechanism.edits)
        self.folder = folder / (sha256(mechanism.name.encode()).hexdigest()[:12] if mechanism.edits else UNCHANGED)
        fresh = self.folder / "fresh" / "thali"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(PACKAGE, fresh, ignore=shutil.ignore_patterns("__pycache__", "web"))
        for file, text in mechanism.edited(PACKAGE).items():
            (fresh / file).write_text(text, encoding="utf-8")
        self.digest = sha256(b"".join(path.read_bytes() for path in sorted(fresh.rglob("*.py")))).hexdigest()
        self.stored = self.folder / f"{self.digest[:12]}.json"
        if not self.stored.exists():
            shutil.rmtree(self.folder / "src", ignore_errors=True)
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            fresh.parent.rename(self.folder / "src")
        self.process: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Return the command that runs this program with the copy, and its environment."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        path = os.pathsep.join([str(self.folder / "src"), str(HERE.parent / "client" / "src"), str(HERE)])
        environment = {**os.environ, **threads, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(self.folder / "cache")}
        return [sys.executable, str(Path(__file__).resolve()), *arguments], environment

    def run(self, *arguments: str) -> str:
        """Run this program with the copy, and return its output."""
        command, environment = self.command(*arguments)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.mechanism.name}: {done.stderr[-3000:]}")
        return done.stdout

    def compiled(self) -> dict[str, float]:
        """Compile the copy if needed, and return the CPU seconds that it took, by part."""
        if not self.stored.exists():
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            parts = [*["index"] * (self.own_index or not self.mechanism.edits), *self.mechanism.parts]
            self.stored.write_text(self.run("--answer", str(self.cases), "--compile", *parts), encoding="utf-8")
            print(f"compiled: {self.mechanism.name}", flush=True)
        taken: dict[str, float] = json.loads(self.stored.read_text(encoding="utf-8"))
        return taken

    def start(self) -> None:
        """Start the process that measures."""
        command, environment = self.command("--answer", str(self.cases), *["--own-index"] * self.own_index)
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, case: str) -> tuple[float, str]:
        """Ask the process for the time of a case, and a digest of the lists."""
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(case), file=process.stdin, flush=True)
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.mechanism.name}: the process ended at case {case!r}")
        seconds, digest = json.loads(line)
        return seconds, digest

    def stop(self) -> None:
        """End the process."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


# For each case, the ratios of several processes.
Ratios = dict[str, list[float]]


def compare(unchanged: Copy, copies: Sequence[Copy], cases: Sequence[dict[str, Any]], rounds: int) -> dict[str, Ratios]:
    """Start the processes of some copies and of the unchanged engine, measure them in turns, and end them.

    Returns, for each mechanism and case, a list with one number: the median of the ratios of all rounds.
    """
    everyone = [unchanged, *copies]
    for each in everyone:
        each.start()
    ratios: dict[str, Ratios] = {copy.mechanism.name: {} for copy in copies}
    parts = {part for copy in copies for part in copy.mechanism.parts}
    for number in range(rounds):
        turn = number % len(everyone)
        for case in (case for case in cases if case["part"] in parts):
            found = {
                each.mechanism.name: each.seconds(case["name"])
                for each in everyone[turn:] + everyone[:turn]
                if case["part"] in each.mechanism.parts
            }
            own, right = found.pop(unchanged.mechanism.name)
            for name, (seconds, digest) in found.items():
                if digest != right:
                    raise SystemExit(f"without {name}, the result of case {case['name']!r} differs")
                ratios[name].setdefault(case["name"], []).append(seconds / own)
    for each in everyone:
        each.stop()
    return {
        name: {case: [float(np.median(values))] for case, values in measured.items()}
        for name, measured in ratios.items()
    }


def stored(path: Path) -> Ratios:
    """Return the ratios in a file."""
    ratios: Ratios = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return ratios


def add(path: Path, new: Ratios) -> None:
    """Add new ratios to those that a file has from earlier runs."""
    path.parent.mkdir(exist_ok=True)
    old = stored(path)
    path.write_text(json.dumps({case: old.get(case, []) + values for case, values in new.items()}), encoding="utf-8")


def in_groups(copies: Sequence[Copy], most: int) -> Iterator[list[Copy]]:
    """Divide the copies into groups of at most ``most``, those with the same parts together."""
    ordered = sorted(copies, key=lambda copy: copy.mechanism.parts != ("lists",))
    for first in range(0, len(ordered), most):
        yield ordered[first : first + most]


def row(mechanism: Mechanism, ratios: Ratios, groups: dict[str, str], saved: float) -> tuple[object, ...]:
    """Return the row of a mechanism in the table."""
    medians = {case: float(np.median(values)) for case, values in ratios.items()}
    cells = []
    for group in dict.fromkeys(groups.values()):
        own = [ratio for case, ratio in medians.items() if groups[case] == group]
        cells.append(f"{max(own):.2f}" if own else "")
    most = max(medians, key=lambda case: medians[case])
    spread = f"{medians[most]:.2f} ({min(ratios[most]):.2f}-{max(ratios[most]):.2f}): {most}"
    middle = f"{np.median(list(medians.values())):.2f}"
    return (mechanism.name, mechanism.instead, *cells, spread, middle, len(ratios[most]), f"{saved:+.1f}")


def main() -> None:
    """Measure, print the table, and update the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--starts",
        type=int,
        default=7,
        help="Number of processes for each mechanism (default: 7). With 0, show what --folder has.",
    )
    options.add_argument("--rounds", type=int, default=3, help="Number of turns of each process (default: 3).")
    options.add_argument("--only", nargs="+", metavar="WORD", help="Measure only mechanisms whose name has a WORD.")
    options.add_argument("--at-once", type=int, default=5, help="Number of mechanisms measured in turns (default: 5).")
    options.add_argument(
        "--folder", type=Path, help="Keep compiled code and ratios here. A later run reuses and adds to them."
    )
    options.add_argument("--docs", type=Path, default=HERE.parent / "docs", help="Folder of the pages to update.")
    options.add_argument("--compile", nargs="+", help=argparse.SUPPRESS)
    options.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--own-index", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.compile:
        print(json.dumps(compile_all(chosen.compile, chosen.answer)))
    elif chosen.prepare:
        prepare(chosen.prepare)
    elif chosen.answer:
        answer(chosen.answer, chosen.own_index)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            measure(chosen, (chosen.folder or Path(temporary)).resolve())


def measure(chosen: argparse.Namespace, folder: Path) -> None:
    """Compile all copies, compare them, and write the table."""
    import pages

    wanted = [m for m in MECHANISMS if chosen.only is None or any(word in m.name for word in chosen.only)]
    unchanged = Copy(folder, NOTHING._replace(name=UNCHANGED))
    copies = [Copy(folder, mechanism) for mechanism in (NOTHING, *wanted)]

    def ratios_of(copy: Copy) -> Path:
        return folder / "ratios" / f"{copy.mechanism.name}, {unchanged.digest[:8]}-{copy.digest[:8]}.json"

    if not chosen.starts:
        copies = [copy for copy in copies if ratios_of(copy).exists()]
    (folder / "cases").mkdir(parents=True, exist_ok=True)
    usual = unchanged.compiled()
    with ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(Copy.compiled, copies))
    if not (folder / "cases" / "cases.json").exists():
        unchanged.run("--prepare", str(folder / "cases"))
    cases = json.loads((folder / "cases" / "cases.json").read_text(encoding="utf-8"))
    for group in in_groups(copies, chosen.at_once) if chosen.starts else ():
        for _ in range(chosen.starts):
            new = compare(unchanged, group, cases, chosen.rounds)
            for copy in group:
                add(ratios_of(copy), new[copy.mechanism.name])
        print("measured:", ", ".join(copy.mechanism.name for copy in group), flush=True)
    groups = {case["name"]: case["group"] for case in cases}
    rows = [
        row(copy.mechanism, stored(ratios_of(copy)), groups, sum(usual[part] - own[part] for part in own))
        for copy, own in zip(copies, compiled, strict=True)
    ]
    named = ("mechanism", "instead of it", *dict.fromkeys(groups.values()), "largest ratio (range): case", "median")
    text = pages.table(" | ".join((*named, "processes", "compile time saved, s")), rows)
    print(text)
    if chosen.only is None:
        pages.write(chosen.docs / "performance.md", "mechanisms", text)


if __name__ == "__main__":
    main()
