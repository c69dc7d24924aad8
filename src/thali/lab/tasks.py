"""Tasks, the units of work: one policy at one setting on the people of one split.

The rows of a task depend only on the task and its problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from thali import theory
from thali.catalog.catalog import Catalog
from thali.datasets.log import Log
from thali.lab.code import CODE, own_code
from thali.lab.compare import add_policy, policies_for
from thali.lab.informed import arrive
from thali.lab.likes import KNOWING, LIKES, LISTS, likes_policy, lists_policy
from thali.lab.next_list import next_lists
from thali.lab.problems import Problem
from thali.lab.settings import GROWING, INFORMED, KINDS, Experiment, Setting
from thali.lab.simulate import simulate
from thali.lab.sources import ARTIFICIAL, shares
from thali.lists import diversity, greedy_lists, optimal_list
from thali.people import DiverseCascade
from thali.policies import POLICIES, Oracle, Policy, class_of, optimistic
from thali.tools.randomness import stream
from thali.tools.types import Floats, Integers

if TYPE_CHECKING:
    import polars as pl

#: The number of steps recorded in each run, unless the experiment says which.
POINTS = 100
#: The number of items in the approximation experiment.
FEW_ITEMS = 100
#: The policy name of greedy lists for known preferences, in the approximation experiment.
GREEDY = "Greedy"


@dataclass(frozen=True)
class Task:
    """What to run. The rows depend only on this and on the problem."""

    experiment: Experiment
    policy: str
    setting: Setting | None
    split: int
    seed: int

    @property
    def settings(self) -> str:
        """The settings as text, as the rows store them; empty for a policy without settings."""
        return "" if self.setting is None else str(self.setting)

    @property
    def interactions(self) -> int:
        """The number of lists shown."""
        return shares(self.experiment)[self.split] * self.experiment.steps

    @property
    def cost(self) -> float:
        """A rough measure of how long the task takes, to show progress."""
        return self.interactions * (5.0 + 0.008 * self.experiment.K * self.experiment.d**2)

    def signed(self, rows: pl.DataFrame, problem: Problem) -> pl.DataFrame:
        """Return the rows of this task, which a worker computed, with digests of the code that made them."""
        import polars as pl

        made_by = rows["code"][0]
        if made_by != CODE:
            raise RuntimeError(
                f"all workers must run the same code of thali ({CODE}), got {made_by}; if the code changed during the "
                "run, run the same command again"
            )
        return rows.with_columns(code=pl.lit(self.code(problem)), policy_code=pl.lit(self.policy_code))

    def code(self, problem: Problem) -> str:
        """A digest of the code that the rows of all policies depend on: thali's, and that of your own click model."""
        people = own_code(problem.model.at(0))
        return f"{CODE}+{people}" if people else CODE

    @property
    def policy_code(self) -> str:
        """A digest of the policy's own settings, and of its code if that is outside thali; empty if it has neither."""
        return own_code(POLICIES[self.policy]) if self.policy in POLICIES else ""

    def name(self, problem: Problem) -> str:
        """A file name with a digest of everything that the rows depend on."""
        e = self.experiment
        fields: tuple[object, ...] = (e.name, e.source, e.people, e.d, e.K, e.steps, e.users, e.splits)
        if e.clicks != KINDS[0] or e.drift:
            fields = (*fields, e.clicks, e.drift, problem.description)
        if e.hide != "nothing":
            fields = (*fields, e.hide)
        if e.points:
            fields = (*fields, e.points)
        by = (self.code(problem), self.policy_code)
        text = repr((fields, self.policy, self.settings, self.split, self.seed, POINTS, problem.people, by))
        digest = sha256(text.encode())
        if problem.known is not None:  # its description has a digest of everything
            return f"{self.label}-{digest.hexdigest()[:12]}.parquet"
        for part in (problem.catalog, problem.weights):
            for array in (part.csr.indptr, part.csr.indices, part.csr.data):
                digest.update(array.tobytes())
        digest.update(problem.theta.tobytes())
        if problem.others is not None and problem.others.theta is not None:
            digest.update(problem.others.theta.tobytes())
        return f"{self.label}-{digest.hexdigest()[:12]}.parquet"

    @property
    def label(self) -> str:
        """The part of the file name before the digest."""
        policy = self.policy.replace(":", ".")  # a class of your own is named module:Class
        label = "-".join(filter(None, (policy, self.settings.replace(" ", "-"), f"split{self.split}")))
        return f"{self.experiment.name}/{label}"


def tasks_of(experiment: Experiment, *, seed: int) -> list[Task]:
    """All tasks of an experiment. A policy without α and σ runs only once, not once per setting."""
    tasks = []
    for policy in experiment.policies:
        real = experiment.clicks in KNOWING
        known = policy == GREEDY or policy in KNOWING.get(experiment.clicks, INFORMED)
        if not known:
            _find(policy)
        if real and not known and issubclass(class_of(policy), Oracle):
            raise ValueError(
                f"policies of {experiment.name} must not include {policy}, which needs the preferences of people; the "
                "clicks of an oracle are recorded with those of every policy"
            )
        if (policy == GREEDY) != (experiment.suite == "approximation"):
            allowed = f"must be {GREEDY}" if experiment.suite == "approximation" else f"must not include {GREEDY}"
            raise ValueError(f"policies of {experiment.name} {allowed}, got {policy!r}")
        if not real and policy in INFORMED and experiment.source in ARTIFICIAL:
            raise ValueError(
                f"policies of {experiment.name} must not include {policy}, which knows something about other people: "
                "only experiments on a data set have other people"
            )
        with_alpha = not known and optimistic(policy)
        settings: tuple[Setting | None, ...] = (experiment.settings if with_alpha else ()) or (None,)
        for setting in settings:
            tasks += [Task(experiment, policy, setting, split, seed) for split in range(len(shares(experiment)))]
    return tasks


def _find(policy: str) -> None:
    """Check that a policy is in the registry. A class of your own, module:Class, is first added to it."""
    if ":" in policy:
        add_policy(policy)
    class_of(policy)


def perform(task: Task, problem: Problem) -> pl.DataFrame:
    """Run a task and return its rows, one for each person and recorded step."""
    if task.policy == GREEDY:
        return _approximation(task, problem)
    if task.experiment.clicks == LIKES:
        return _likes(task, problem)
    if task.experiment.clicks == LISTS:
        return _lists(task, problem)
    e, people = task.experiment, _people(task)
    points = [step for step in e.points if step <= e.steps] or POINTS
    if task.policy == GROWING:
        run = arrive(problem, e.steps, task.seed, points=points, people=people)
    else:
        policy = _policy(task, problem)
        run = simulate(policy, problem.model, e.steps, task.seed, points=points, people=people)
    known = (problem.weights, problem.theta_at(run.steps - 1))
    return _rows(task, known, _names(task, problem), run.steps, run.lists, run.regret, run.clicks, run.best)


def _likes(task: Task, problem: Problem) -> pl.DataFrame:
    """Show lists to people with known likes, and record the clicks after each list."""
    e = task.experiment
    assert problem.known is not None
    if task.policy not in KNOWING[LIKES]:
        _find(task.policy)
    policy = likes_policy(task.policy, problem.known, e.d, e.K, e.source, **_given(task))
    run = simulate(policy, problem.model, e.steps, task.seed, points=e.steps, people=_people(task), hide=e.hide)
    unknown = np.full(run.clicks.shape, np.nan)
    names = _names(task, problem)
    rows = _columns(task, names, run.steps, run.lists, unknown, run.clicks, unknown[:, 0])
    if run.oracle_clicks is not None:
        rows["oracle_clicks"] = run.oracle_clicks.astype(np.float64).ravel()
    return _frame(rows)


def _lists(task: Task, problem: Problem) -> pl.DataFrame:
    """Predict each person's lists, each after learning from those before it. Step n is the n-th list."""
    e, known = task.experiment, problem.known
    assert known is not None
    assert isinstance(known.test, Log)
    if task.policy not in KNOWING[LISTS]:
        _find(task.policy)
    policy = lists_policy(task.policy, known, e.source, **_given(task))
    steps = np.arange(1, e.steps + 1)
    found = next_lists(policy, known.test, after=(steps - 1).tolist())
    unknown = np.full(found.auc.shape, np.nan)
    nothing = np.full((*found.auc.shape, 1), -1)
    clicks = np.full(found.auc.shape, -1)
    columns = _columns(task, _names(task, problem), steps, nothing, unknown, clicks, unknown[:, 0])
    return _frame(columns | {"auc": found.auc.ravel(), "log_loss": found.log_loss.ravel()})


def _policy(task: Task, problem: Problem) -> Policy:
    """The policy of a task."""
    if task.policy not in INFORMED:
        _find(task.policy)
    return policies_for(problem, [task.policy], **_given(task))[task.policy]


def _given(task: Task) -> dict[str, Any]:
    """The settings of the policy of a task; none if it uses its own defaults."""
    if task.setting is None:
        return {}
    return {"alpha": task.setting.alpha, "sigma": task.setting.sigma, "horizon": task.experiment.steps}


def _approximation(task: Task, problem: Problem) -> pl.DataFrame:
    """Table 1: what greedy lists lose compared with the exact optimum on a few random items, as regret of one step."""
    known = problem.weights
    items = np.sort(stream(task.seed, "items", task.split).choice(known.L, FEW_ITEMS, replace=False))
    few = type(known)(known.csr[items], [known.items[e] for e in items], known.topics)
    model = DiverseCascade(few, problem.theta)
    lists = greedy_lists(few, model.theta, problem.K)
    best = np.array([optimal_list(few, theta, problem.K) for theta in model.theta])
    optimum = model.click_probability(best)
    lost = (optimum - model.click_probability(lists))[:, None]
    one = np.array([1])
    drawn = np.full(lost.shape, -1)
    return _rows(task, (few, model.theta[:, None]), _names(task, problem), one, lists[:, None], lost, drawn, optimum)


def _rows(
    task: Task,
    known: tuple[Catalog, Floats],
    names: list[str],
    steps: Integers,
    lists: Integers,
    regret: Floats,
    clicks: Integers,
    best: Floats,
) -> pl.DataFrame:
    """Build the rows of a run from lists (users, points, K), regret and clicks (users, points), and best (users,).

    known: the weights by which people click, and their preferences at each point (users, points, d). The measures of
    diversity need them.
    """
    catalog, theta = known
    flat = lists.reshape(-1, lists.shape[2])
    points = lists.shape[1]
    gamma = [
        theory.approximation_ratio(lists.shape[2], float(c))
        for c in theory.largest_click_probability(catalog, theta[:, -1])
    ]
    return _frame(
        _columns(task, names, steps, lists, regret, clicks, best)
        | {
            "gamma": np.repeat(gamma, points),
            "topic_coverage": diversity.topic_coverage(catalog, flat),
            "intra_list_distance": diversity.intra_list_distance(catalog, flat),
            "topic_entropy": diversity.topic_entropy(catalog, flat),
            "err_ia": diversity.err_ia(catalog, flat, theta.reshape(len(flat), -1)),
        }
    )


def _columns(
    task: Task, names: list[str], steps: Integers, lists: Integers, regret: Floats, clicks: Integers, best: Floats
) -> dict[str, Any]:
    """The columns of the rows of a run. Measures that need the people's preferences are NaN."""
    import polars as pl

    from thali import __version__

    users, points, K = lists.shape
    e, rows = task.experiment, users * points
    unknown = np.full(rows, np.nan)
    return {
        "experiment": [e.name] * rows,
        "scale": [e.scale] * rows,
        "policy": [task.policy] * rows,
        "settings": [task.settings] * rows,
        "split": np.full(rows, task.split, dtype=np.int16),
        "user": np.repeat(names, points),
        "number": np.repeat(np.array(_people(task)), points),
        "step": np.tile(steps, users),
        "regret": regret.ravel(),
        "clicks": clicks.ravel(),
        "list": pl.Series(lists.reshape(-1, K).astype(np.int32), dtype=pl.Array(pl.Int32, K)).cast(pl.List(pl.Int32)),
        "best": np.repeat(best, points),
        "gamma": unknown,
        "topic_coverage": unknown,
        "intra_list_distance": unknown,
        "topic_entropy": unknown,
        "err_ia": unknown,
        "version": [__version__] * rows,
        "seed": np.full(rows, task.seed),
        "code": [CODE] * rows,
        "policy_code": [""] * rows,
    }


def _frame(columns: dict[str, Any]) -> pl.DataFrame:
    """The rows as a table. A number of clicks of -1 means that no clicks were drawn."""
    import polars as pl

    return pl.DataFrame(columns).with_columns(pl.when(pl.col("clicks") >= 0).then("clicks"))


def _people(task: Task) -> range:
    """The numbers of this split's people within the experiment; they determine each person's random numbers."""
    sizes = shares(task.experiment)
    first = sum(sizes[: task.split])
    return range(first, first + sizes[task.split])


def _names(task: Task, problem: Problem) -> list[str]:
    return list(problem.people) if problem.people is not None else [str(number) for number in _people(task)]
