"""Experiments from data to ledger: rows that do not depend on the executor, and verdicts that follow from rows."""

import html
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from math import inf, nan

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from publisher import write_movielens
from running import Inline, thali_command, thali_here
from scipy import stats

import thali
from thali.lab import evidence, intervals
from thali.lab.claims import CLAIMS
from thali.lab.intervals import Estimate
from thali.lab.ledger import ledger
from thali.lab.likes import KNOWING
from thali.lab.report import build
from thali.lab.results import DIVERSITY, Curve, Results
from thali.lab.runner import Store, processes, run
from thali.lab.settings import EXPERIMENTS, INFORMED, PRACTICAL, SUITES, THEORY, chosen
from thali.lab.sources import problem, selected, shares
from thali.lab.tasks import perform, tasks_of
from thali.lab.verdicts import Check


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_movielens(tmp_path_factory.mktemp("data")))


SMALL = replace(EXPERIMENTS["movielens/d5-K4"], users=6, steps=60, splits=3)


@pytest.mark.slow
def test_rows_do_not_depend_on_the_executor(data, tmp_path):
    run([SMALL], Store(tmp_path / "inline"), Inline(), data=data)
    with processes(2) as pool:
        run([SMALL], Store(tmp_path / "processes"), pool, data=data)
    inline, pooled = (Store(tmp_path / name).rows() for name in ("inline", "processes"))
    assert_frame_equal(inline, pooled)
    assert inline.height == 6 * 60 * 7  # people × points × (three policies at two settings, and one without)
    assert set(inline["version"]) == {thali.__version__}
    assert inline["step"].max() == 60


def test_a_person_does_not_depend_on_the_policies_and_settings_that_run(data):
    alone = replace(SMALL, policies=("LSBGreedy",), settings=(THEORY,))
    task = tasks_of(alone, seed=3)[1]
    [same] = [t for t in tasks_of(SMALL, seed=3) if (t.policy, t.setting, t.split) == ("LSBGreedy", THEORY, 1)]
    of_task = problem(alone, 1, seed=3, data=data)
    assert_frame_equal(perform(task, of_task), perform(same, problem(SMALL, 1, seed=3, data=data)))
    assert task.name(of_task) == same.name(of_task)


def test_an_interrupted_run_resumes_and_gives_the_same_rows(data, tmp_path):
    class Stopped(BaseException):
        pass

    def stop(done, total, last):
        if done > 0.4 * total:
            raise Stopped

    store = Store(tmp_path / "twice")
    with pytest.raises(Stopped):
        run([SMALL], store, Inline(), data=data, progress=stop)
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "twice").rglob("*.parquet")}
    assert 0 < len(first) < 21
    run([SMALL], store, Inline(), data=data)
    assert all(path.stat().st_mtime_ns == when for path, when in first.items()), "finished tasks do not run again"
    run([SMALL], Store(tmp_path / "once"), Inline(), data=data)
    assert_frame_equal(store.rows(), Store(tmp_path / "once").rows())


def test_other_data_or_another_seed_is_another_task(data, tmp_path):
    other = str(write_movielens(tmp_path, seed=1))
    task = tasks_of(SMALL, seed=0)[0]
    name = task.name(problem(SMALL, 0, seed=0, data=data))
    assert name != task.name(problem(SMALL, 0, seed=0, data=other))
    assert name != replace(task, seed=1).name(problem(SMALL, 0, seed=0, data=data))


def test_a_problem_is_split_as_in_the_paper(data):
    drawn = problem(SMALL, 1, seed=0, data=data)
    everyone = selected("movielens", data).top_topics(5)
    assert drawn.catalog.topics == drawn.model.catalog.topics == everyone.topics
    assert (drawn.catalog.dense != drawn.model.catalog.dense).any(), (
        "the learner's weights and the people come from different halves"
    )
    # Each person's θ* comes from their own attractions, in either half.
    theta = dict(zip(map(str, everyone.users), thali.preferences(everyone), strict=True))
    for name, row in zip(drawn.people, drawn.theta, strict=True):
        assert row == pytest.approx(theta[name])
    tuned = problem(replace(SMALL, people="train"), 1, seed=0, data=data)
    test_half = set(everyone.users) - set(_train_half(everyone, 1))
    assert not {int(name) for name in tuned.people} & test_half
    assert {int(name) for name in drawn.people} <= test_half


def _train_half(everyone, split):
    from thali.tools.randomness import stream

    return everyone.split_users(int(stream(0, "splits", split).integers(2**31)))[0].users


def test_more_people_than_the_data_has_are_rejected(data):
    with pytest.raises(ValueError, match="users of movielens/d5-K4 must be at most 30 per split, got 200"):
        problem(replace(SMALL, users=200, splits=1), 0, seed=0, data=data)


def test_every_experiment_is_valid():
    assert {e.suite for e in EXPERIMENTS.values()} == set(SUITES)
    for e in EXPERIMENTS.values():
        for scale in (e, e.shrunk()):
            assert sum(shares(scale)) == scale.users
        known = KNOWING.get(e.clicks, ("Greedy", *INFORMED))
        assert all(policy in thali.POLICIES or policy in known for policy in e.policies)
    paper = [e for e in EXPERIMENTS.values() if e.suite == "movielens"]
    assert sum(e.users * e.steps * len(e.policies) for e in paper) == 72_000_000
    with pytest.raises(ValueError, match="got 'films'"):
        chosen(["films"])


def test_intervals_are_student_intervals():
    rng = np.random.default_rng(0)
    values, splits = rng.normal(5.0, 2.0, 40), np.repeat(np.arange(8), 5)
    means = values.reshape(8, 5).mean(axis=1)
    low, high = stats.t.interval(0.95, 7, means.mean(), stats.sem(means))
    found = intervals.mean(values, splits)
    assert (found.value, found.low, found.high) == pytest.approx((values.mean(), low, high))
    single = intervals.mean(values, np.zeros(40))
    assert (single.low, single.high) == pytest.approx(stats.t.interval(0.95, 39, values.mean(), stats.sem(values)))
    assert np.isnan(intervals.mean([3.0], [0]).low)


def test_95_percent_of_ratio_intervals_contain_the_truth():
    rng = np.random.default_rng(1)
    inside = 0
    splits = np.repeat(np.arange(5), 20)
    for _ in range(2000):
        people = rng.gamma(1.5, 1.0, 100)  # what two policies share for each person, with the spread of real data
        a, b = people * rng.normal(1.5, 0.3, 100), people * rng.normal(1.0, 0.3, 100)
        found = intervals.ratio(a, b, splits)
        inside += found.low <= 1.5 <= found.high
    assert 0.93 <= inside / 2000 <= 0.97
    assert intervals.ratio(people, people, splits).low == pytest.approx(1.0)


def test_share_is_the_exact_binomial_interval():
    for k, n in ((0, 8), (3, 8), (20, 20), (17, 20)):
        found = intervals.share([True] * k + [False] * (n - k))
        exact = stats.binomtest(k, n).proportion_ci(method="exact")
        assert (found.value, found.low, found.high) == pytest.approx((k / n, exact.low, exact.high))


def curve(regret, lists=None, K=2):
    """A curve of 100 points for 12 people in 3 splits, each with their own factor."""
    factor = np.random.default_rng(2).uniform(1.0, 3.0, 12)[:, None]
    steps = np.arange(200, 20_001, 200)
    people = tuple((at // 4, str(at)) for at in range(12))
    shape = (12, 100)
    lists = np.zeros((*shape, K), dtype=int) if lists is None else lists
    flat = {name: np.zeros(shape) for name in DIVERSITY}
    values = np.full(12, 0.5)
    return Curve(
        "x/d5-K2", "P", "", steps, people, factor * regret(steps), np.zeros(shape), values, values, lists, flat
    )


class Fake:
    """Results of one experiment with one curve for every policy."""

    def __init__(self, one):
        self.one = one

    def experiments(self, prefix):
        return ["x/d5-K2"]

    def paired(self, name, policies, settings):
        return [self.one] * len(policies)


@pytest.mark.parametrize(
    ("regret", "power"),
    [
        (lambda n: 0.05 * n, 1.0),
        (lambda n: 4000 + 0.03 * n, 1.0),  # the cost of initial exploration does not count
        (lambda n: 3.0 * np.sqrt(n), 0.5),
        (lambda n: 50.0 * np.log(n), 0.0),
        (lambda n: np.minimum(n, 3000.0), -inf),
    ],
)
def test_growth_of_regret_does_not_depend_on_earlier_losses(regret, power):
    [check] = evidence.exponent("P", -inf, inf)(Fake(curve(regret)), "x/", "")
    assert check.estimate.value == pytest.approx(power, abs=1e-9)
    assert check.verdict() == "holds"


def test_last_lists_and_oscillation():
    lists = np.zeros((12, 100, 2), dtype=int)
    lists[:, :, 1] = 1
    lists[:9, -1] = (2, 1)  # the last list of nine people is optimal; before, they were shown the other one
    results = Fake(curve(lambda n: n * 1.0, lists))
    [best] = evidence.ends_on("P", evidence.BEST, "optimal")(results, "x/", "")
    [same] = evidence.ends_on("P", evidence.SAME_TOPIC, "the two items of the preferred topic")(results, "x/", "")
    [both] = evidence.oscillates(results, "x/", "")
    assert (best.estimate.value, same.estimate.value, both.estimate.value) == (0.75, 0.25, 0.75)


@pytest.mark.parametrize(
    ("estimate", "verdict"),
    [
        ((1.5, 1.2, 1.8), "holds"),
        ((0.7, 0.5, 0.9), "does not hold"),
        ((1.1, 0.9, 1.3), "not decided"),
        ((2.5, 1.9, 3.1), "not decided"),
        ((3.0, 2.1, 3.9), "does not hold"),
        ((1.5, nan, nan), "not decided"),
    ],
)
def test_a_verdict_follows_from_the_whole_interval(estimate, verdict):
    value, *interval = estimate
    assert Check("x", Estimate(value, lambda level: tuple(interval)), 1.0, 2.0).verdict() == verdict


def generate_rows(folder, final, power):
    """Store rows in which each policy's regret is final·(n/N)^power, for the experiments of a small MovieLens."""
    rng = np.random.default_rng(0)
    steps = np.arange(200, 20_001, 200)
    for d in (5, 10, 18):
        for K in (4, 8, 12):
            for policy in final:
                for settings in ("",) if policy == "CascadeKLUCB" else (str(PRACTICAL), str(THEORY)):
                    rows = []
                    for split in range(5):
                        for user in range(4):
                            regret = d * final[policy] * (steps / 20_000) ** power[policy] * rng.uniform(0.99, 1.01)
                            rows.append(
                                pl.DataFrame(
                                    {
                                        "experiment": f"movielens/d{d}-K{K}",
                                        "scale": "20 people in 5 splits x 20000 steps",
                                        "policy": policy,
                                        "settings": settings,
                                        "split": pl.Series([split] * 100, dtype=pl.Int16),
                                        "user": str(user),
                                        "step": steps,
                                        "regret": regret,
                                        "clicks": steps // 4,
                                        "list": [list(range(K))] * 100,
                                        "best": 0.5,
                                        "gamma": 0.3,
                                        "topic_coverage": 0.2,
                                        "intra_list_distance": 0.5,
                                        "topic_entropy": 0.9,
                                        "err_ia": 0.1,
                                        "version": thali.__version__,
                                        "seed": 0,
                                    }
                                )
                            )
                    name = f"movielens/d{d}-K{K}/{policy}{settings.replace(' ', '-')}.parquet"
                    Store(folder).put(name, pl.concat(rows))
    return Results(folder)


@pytest.mark.slow
def test_missing_rows_decide_nothing(tmp_path):
    generate_rows(tmp_path, AS_THE_PAPER_SAYS, GROWTH)
    statement = "CascadeLSB has the lowest regret for all d and K"
    assert verdicts(Results(tmp_path))[statement] == "holds"
    removed = next((tmp_path / "rows" / "movielens" / "d10-K8").glob("CascadeLinUCB*alpha=8*"))
    rows = pl.read_parquet(removed)
    removed.unlink()
    assert verdicts(Results(tmp_path))[statement] == "not decided"
    assert "no rows of CascadeLinUCB and CascadeLSB" in build(tmp_path).page.read_text()
    # If a policy was stopped early, its people are compared with the same people of the other policy.
    Store(tmp_path).put("movielens/d10-K8/CascadeLinUCB.parquet", rows.filter(pl.col("split") >= 2))
    lin, lsb = Results(tmp_path).paired("movielens/d10-K8", ("CascadeLinUCB", "CascadeLSB"), str(PRACTICAL))
    assert lin.people == lsb.people
    assert set(lin.split) == {2, 3, 4}
    assert verdicts(Results(tmp_path))[statement] == "holds"


def test_two_runs_on_different_data_at_the_same_scale_are_rejected(data, tmp_path):
    other = str(write_movielens(tmp_path / "other", seed=1))
    for root in (data, other):
        run([SMALL], Store(tmp_path / "results"), Inline(), data=root)
    with pytest.raises(ValueError, match="come from different data sets, but have the same numbers of people"):
        list(Results(tmp_path / "results").curves)


AS_THE_PAPER_SAYS = {"CascadeLSB": 8.0, "LSBGreedy": 10.0, "CascadeLinUCB": 20.0, "CascadeKLUCB": 90.0}
GROWTH = {"CascadeLSB": 0.4, "LSBGreedy": 0.6, "CascadeLinUCB": 1.0, "CascadeKLUCB": 0.9}


def verdicts(results):
    return {f.claim.statement: f.verdict for f in ledger(results) if f.settings in ("", str(PRACTICAL))}


@pytest.mark.slow
def test_the_ledger_says_what_the_rows_say(tmp_path):
    found = verdicts(generate_rows(tmp_path / "as", AS_THE_PAPER_SAYS, GROWTH))
    films = [claim.statement for claim in CLAIMS if claim.suites == ("movielens",) and claim.settings != (None,)]
    assert {statement: found[statement] for statement in films} == dict.fromkeys(films, "holds")
    worse = AS_THE_PAPER_SAYS | {"LSBGreedy": 7.0, "CascadeKLUCB": 15.0}
    found = verdicts(generate_rows(tmp_path / "not", worse, GROWTH | {"CascadeLinUCB": 0.5}))
    assert found["CascadeLSB has the lowest regret for all d and K"] == "does not hold"
    assert found["At d=18 CascadeLSB's regret is almost 20% lower than LSBGreedy's"] == "does not hold"
    assert found["CascadeKL-UCB performs the worst"] == "does not hold"
    assert found["CascadeLinUCB's regret is linear"] == "does not hold"
    equal = verdicts(generate_rows(tmp_path / "equal", AS_THE_PAPER_SAYS | {"LSBGreedy": 8.0}, GROWTH))
    assert equal["CascadeLSB has the lowest regret for all d and K"] == "not decided"


@pytest.mark.slow
def test_the_report_is_one_page_with_every_figure_and_finding(tmp_path):
    results = generate_rows(tmp_path, AS_THE_PAPER_SAYS, GROWTH)
    made = build(tmp_path)
    page = made.page.read_text()
    assert 'src="http' not in page
    assert "<script" not in page
    assert page.count("data:image/svg+xml;base64,") == len(made.pictures) == 4
    for path in made.pictures:
        assert path.exists()
        assert path.with_suffix(".png").exists()
    for finding in ledger(results):
        assert f"<td>{finding.claim.number}</td>" in page
        assert html.escape(finding.measured) in page
    assert (tmp_path / "ledger.md").read_text().count("\n") == len(made.findings) + 2
    before = {path: path.read_bytes() for path in made.pictures}
    assert {path: path.read_bytes() for path in build(tmp_path).pictures} == before, "the same rows, the same figures"


def test_of_several_scales_the_largest_is_used(data, tmp_path):
    large = replace(SMALL, steps=80)
    run([large], Store(tmp_path), Inline(), data=data)
    small = run([SMALL], Store(tmp_path), Inline(), data=data)
    assert set(Results(tmp_path).rows["step"].unique()) == set(range(1, 81))
    assert set(Results(tmp_path, small).rows["step"].unique()) == set(range(1, 61))


@pytest.mark.slow
def test_run_sweep_and_report_from_the_command_line(data, tmp_path):
    out = str(tmp_path / "results")
    common = ("--data", data, "--out", out, "--users", "6", "--steps", "40", "--workers", "1")
    wide = os.environ | {"COLUMNS": "200"}
    done = thali_command("run", "movielens/d5-K4", *common, "--policies", "CascadeLSB,LSBGreedy", env=wide)
    assert done.returncode == 0, done.stderr
    assert "CascadeLSB" in done.stdout
    assert "CascadeKLUCB" not in done.stdout
    swept = thali_command("sweep", "movielens/d5-K4", *common, "--alpha", "1,theory", "--sigma", "0.1,1", env=wide)
    assert swept.returncode == 0, swept.stderr
    assert "σ = 1" in swept.stdout
    assert thali_command("report", out).returncode == 0
    assert (tmp_path / "results" / "report.html").exists()


@pytest.mark.slow
def test_reproduce_judges_claims_and_names_missing_data(data, tmp_path):
    out = tmp_path / "results"
    words = ("movielens/d5-K4", "songs", "yelp", "--data", data, "--out", str(out), "--workers", "1")
    done = thali_command("reproduce", *words, env=os.environ | {"COLUMNS": "250"})
    assert done.returncode == 0, done.stderr
    for source in ("songs", "songs-hetrec", "yelp", "yelp-core40"):
        assert f"left out: {source} (" in done.stdout
    assert "CascadeLSB has the lowest regret for all d and K" in done.stdout
    assert (out / "report.html").exists()
    assert set(Store(out).rows()["experiment"]) == {"movielens/d5-K4"}
    alone = thali_command("reproduce", "yelp", "--data", data, "--out", str(out))
    assert alone.returncode == 1
    assert "nothing to run" in alone.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "films"), "experiment must be a name that 'thali experiments' lists, got 'films'"),
        (("run", "synthetic/20k", "--policies", "Best"), "policies must be among"),
        (
            ("run", "synthetic/20k", "--policies", "Greedy"),
            "policies of synthetic/20k must not include Greedy, got 'Greedy'",
        ),
        (("run", "synthetic/20k", "--sigma", "1"), "sigma can only be set together with alpha"),
        (
            ("sweep", "synthetic/20k", "--alpha", "much"),
            "alpha must be a number or 'theory' and sigma must be a number, got alpha 'much'",
        ),
        (("reproduce", "everything"), "experiment must be one of the suites"),
        (("run", "movielens/d5-K4", "--data", "nowhere"), "nowhere"),
        (("report", "nowhere"), "must contain rows of experiments"),
        pytest.param(
            ("run", "synthetic/20k", "--users", "4", "--steps", "9", "--cluster", "tcp://127.0.0.1:1"),
            "Dask scheduler",
            marks=pytest.mark.slow,  # waits for a scheduler
        ),
    ],
)
def test_a_wrong_command_is_one_sentence(words, said, tmp_path):
    done = thali_here(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_finished_tasks_and_a_resumed_run_gives_the_same_rows(data, tmp_path):
    words = ("run", "movielens/d5-K4", "--data", data, "--users", "12", "--splits", "6", "--steps", "12000")
    command = [sys.executable, "-m", "thali", *words, "--out", str(tmp_path / "stopped"), "--workers", "2"]
    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while len(list((tmp_path / "stopped").rglob("*.parquet"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    going.send_signal(signal.SIGINT)
    out, error = going.communicate(timeout=60)
    assert going.returncode == 130, error
    assert "run the same command again" in out
    assert "Traceback" not in error
    stored = len(list((tmp_path / "stopped").rglob("*.parquet")))
    assert 3 <= stored < 42
    assert not list((tmp_path / "stopped").rglob("*.part"))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert thali_command(*words, "--out", str(tmp_path / "whole"), "--workers", "1").returncode == 0
    assert_frame_equal(Store(tmp_path / "stopped").rows(), Store(tmp_path / "whole").rows())


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_rows(data, tmp_path):
    """A scheduler and two workers, each in its own process; one worker is killed while it works."""
    bin_dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    info = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [*bin_dask, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(info)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    workers = []
    try:
        _until(info.exists, 60)
        address = json.loads(info.read_text())["address"]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
        for _ in range(2):
            workers.append(
                subprocess.Popen([*worker, "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
        words = ("run", "movielens/d5-K4", "--data", data, "--users", "12", "--splits", "6", "--steps", "8000")
        command = [sys.executable, "-m", "thali", *words, "--out", str(tmp_path / "dask"), "--cluster", address]
        going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _until(lambda: len(list((tmp_path / "dask").rglob("*.parquet"))) >= 4, 240)
        workers[0].kill()
        _, error = going.communicate(timeout=400)
        assert going.returncode == 0, error
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
    assert thali_command(*words, "--out", str(tmp_path / "here"), "--workers", "2").returncode == 0
    assert_frame_equal(Store(tmp_path / "dask").rows(), Store(tmp_path / "here").rows())


def _until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
