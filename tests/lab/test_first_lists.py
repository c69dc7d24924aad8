"""The first lists and arriving people: the shares, what each policy knows, the tables, the claims and the command."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from publisher import write_movielens
from running import Inline, assert_refused, thali_command, thali_here
from scipy import stats

import thali
from thali.lab import informed, runner
from thali.lab.claims import CLAIMS
from thali.lab.first_lists import Shares
from thali.lab.informed import arrive
from thali.lab.ledger import ledger
from thali.lab.report import build
from thali.lab.results import DIVERSITY, Curve, Results
from thali.lab.runner import Store, run
from thali.lab.settings import EXPERIMENTS, GROWING, INFORMED, LEARNED_PRIOR, PRIOR, STATIC, arriving, first_lists
from thali.lab.sources import problem, selected
from thali.lab.tasks import tasks_of
from thali.policies.linear.policy import PRIOR_SIGMA
from thali.tools.randomness import stream, streams

STEPS = 12
FIRST = replace(first_lists("movielens", 6, 4), users=6, splits=3, steps=STEPS, points=tuple(range(1, STEPS + 1)))
COMING = replace(arriving("movielens"), name="arriving/movielens-d6-K4", d=6, K=4, users=24, splits=2, steps=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_movielens(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def results(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return Results(folder, run([FIRST, COMING], Store(folder), Inline(), data=data))


def clicked(weights, theta, items):
    """The probability of a click on a list."""
    left, none = np.ones(len(theta)), 1.0
    for e in items:
        none *= 1.0 - (left * weights[e]) @ theta
        left = left * (1.0 - weights[e])
    return 1.0 - none


def most_clicked(weights, theta, K):
    """The probability of a click on the greedy list."""
    best = []
    for _ in range(K):
        rest = [e for e in range(len(weights)) if e not in best]
        best.append(max(rest, key=lambda e: clicked(weights, theta, [*best, e])))
    return clicked(weights, theta, best)


def test_the_share_so_far_is_the_clicks_earned_divided_by_those_of_the_best_list(results, data):
    for split in range(FIRST.splits):
        drawn = problem(FIRST, split, seed=0, data=data)
        weights = drawn.weights.dense
        for name, theta in zip(drawn.people, drawn.theta, strict=True):
            best = most_clicked(weights, theta, 4)
            for policy in FIRST.policies:
                curve = results.curve(FIRST.name, policy, "")
                at = curve.people.index((split, name))
                earned = np.cumsum([clicked(weights, theta, items) for items in curve.lists[at].tolist()])
                assert curve.shares[at] == pytest.approx(earned / (best * np.arange(1, STEPS + 1)))


def test_what_policies_know_comes_from_the_half_without_the_people(data):
    drawn = problem(FIRST, 1, seed=0, data=data)
    everyone = selected("movielens", data).top_topics(6)
    train, test = everyone.split_users(int(stream(0, "splits", 1).integers(2**31)))
    assert {int(name) for name in drawn.people} <= set(test.users)
    tastes = thali.preferences(train)
    assert sorted(map(tuple, drawn.others.theta)) == sorted(map(tuple, tastes[tastes.sum(axis=1) > 0]))
    mean = drawn.others.theta.mean(axis=0)
    static = informed.informed(STATIC, drawn)
    [shown] = {tuple(items) for items in static.recommend(static.init(5)).tolist()}
    weights = drawn.catalog.dense
    assert clicked(weights, mean, shown) == pytest.approx(most_clicked(weights, mean, 4))
    policy = informed.informed(PRIOR, drawn)
    assert policy.prior == thali.Prior.from_preferences(drawn.others.theta, drawn.catalog.topics)
    assert (policy.sigma, policy.alpha) == (PRIOR_SIGMA, "default"), "the library's defaults"


def test_a_prior_is_learned_from_the_clicks_of_others_who_saw_the_lists_of_the_default_policy(data, monkeypatch):
    monkeypatch.setattr(informed, "PEOPLE", 5)
    monkeypatch.setattr(informed, "LISTS", 7)
    drawn = problem(FIRST, 0, seed=0, data=data)
    world = thali.DiverseCascade(drawn.weights, drawn.others.theta[:5])
    today = thali.CascadeLSB(drawn.catalog, 4)
    state, luck = today.init(5), streams(drawn.others_seed, "luck", range(5))
    draws = np.stack([generator.random((7, 4)) for generator in luck], axis=1)
    for step in range(7):
        lists = today.recommend(state)
        today.update(state, lists, world.respond(lists, draws[step]))
    expected = thali.Prior.learn(thali.CascadeLSB(drawn.catalog, 4), state)
    assert informed.informed(LEARNED_PRIOR, drawn).prior == expected


def test_people_who_come_one_after_another_start_from_what_was_learned_from_the_earlier_ones(data):
    drawn = problem(COMING, 1, seed=0, data=data)
    catalog, users = drawn.catalog, len(drawn.theta)
    numbers = range(40, 40 + users)
    found = arrive(drawn, 4, 0, points=4, people=numbers)
    today = thali.CascadeLSB(catalog, 4)
    everybody, policy, regret = today.init(users), today, []
    for person in range(users):
        if person in (1, 2, 3, 5, 7, 10):
            prior = thali.Prior.learn(thali.CascadeLSB(catalog, 4), everybody)
            policy = thali.CascadeLSB(catalog, 4, prior=prior)
        alone = thali.DiverseCascade(drawn.weights, drawn.theta[[person]])
        one = thali.simulate(policy, alone, 4, 0, points=4, people=[numbers[person]], state=everybody.take([person]))
        everybody.put([person], one.state)
        regret.append(one.regret[0])
        np.testing.assert_array_equal(found.lists[person], one.lists[0])
    assert found.regret == pytest.approx(np.array(regret))
    np.testing.assert_array_equal(found.state.M, everybody.M)
    # Nobody is affected by those who come later.
    turned = replace(drawn, model=thali.DiverseCascade(drawn.weights, np.r_[drawn.theta[:6], drawn.theta[6:, ::-1]]))
    np.testing.assert_array_equal(arrive(turned, 4, 0, points=4, people=numbers).lists[:6], found.lists[:6])


def test_rows_say_in_which_order_people_came(results, data):
    for policy in COMING.policies:
        curve = results.curve(COMING.name, policy, "")
        for split in range(COMING.splits):
            names = problem(COMING, split, seed=0, data=data).people
            came = {curve.arrival[at]: name for at, (where, name) in enumerate(curve.people) if where == split}
            assert tuple(came[at] for at in range(len(names))) == names
    growing, today = (results.curve(COMING.name, policy, "") for policy in (GROWING, "CascadeLSB"))
    first = growing.arrival == 0
    np.testing.assert_array_equal(growing.regret[first], today.regret[first])
    some = growing.restricted_to({growing.people[at] for at in (3, 7)})
    np.testing.assert_array_equal(some.number, growing.number[[3, 7]])


def half_width(values):
    return stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)


def test_tables_are_means_over_people_with_paired_intervals(results):
    shares = Shares.of(results, FIRST.name)
    assert list(shares.curves)[-1] == "Oracle"
    so_far, from_static, from_today, lowest = shares.tables()
    assert so_far.columns == ("1 list", "5 lists", "10 lists", "12 lists")
    rows = results.rows.filter(experiment=FIRST.name, step=5).with_columns(
        share=100 - 100 * pl.col("regret") / (5 * pl.col("best"))
    )
    by_policy = {key: part.sort("split", "user") for (key,), part in rows.partition_by("policy", as_dict=True).items()}
    for table, base in ((so_far, None), (from_static, STATIC), (from_today, "CascadeLSB")):
        assert {policy for policy, _ in table.rows} == set(FIRST.policies) - {base}
        for policy, numbers in table.rows:
            values = by_policy[policy]["share"] - (0 if base is None else by_policy[base]["share"])
            means = values.to_numpy().reshape(3, 2).mean(axis=1)
            assert numbers[1].value == pytest.approx(means.mean())
            assert numbers[1].high - numbers[1].value == pytest.approx(half_width(means), abs=1e-9)
    assert dict(lowest.rows)["CascadeLSB"][1].value == pytest.approx(by_policy["CascadeLSB"]["share"].min())
    text = from_static.markdown()
    assert text.startswith("MovieLens 1M, d=6, K=4 (6 people in 3 splits, 12 steps). Difference of that share from")
    value = dict(from_static.rows)["CascadeLSB"][1]
    assert f" {value.value:+.1f} ± {(value.high - value.low) / 2:.1f} |" in text


def test_the_table_of_arrivals_is_a_mean_over_orders(results):
    table = Shares.of(results, COMING.name).arrivals()
    assert table.columns == ("person 1", "people 2 to 10", "people 11 to 12")
    assert "12 people in each of 2 orders of arrival, 4 lists each" in table.title
    curve = results.curve(COMING.name, GROWING, "")
    for (low, high), number in zip(((0, 1), (1, 10), (10, 12)), dict(table.rows)[GROWING], strict=True):
        means = [
            100 * curve.shares[(curve.split == split) & (curve.arrival >= low) & (curve.arrival < high), -1].mean()
            for split in range(2)
        ]
        assert number.value == pytest.approx(np.mean(means))
        assert number.high - number.value == pytest.approx(half_width(means))


def made_up(experiment, policy, lost, people, steps):
    """A curve of people who lose this share of the best list's clicks at every step, give or take a little."""
    losses = lost + np.random.default_rng(0).uniform(-0.001, 0.001, len(people))
    regret, shape = 0.5 * losses[:, None] * steps, (len(people), len(steps))
    halves, lists = np.full(len(people), 0.5), np.zeros((*shape, 2), dtype=int)
    nothing = np.zeros(shape)
    diverse = dict.fromkeys(DIVERSITY, nothing)
    numbers = np.arange(len(people))
    return Curve(experiment, policy, "", steps, people, regret, nothing, halves, halves, lists, diverse, numbers)


@pytest.mark.parametrize(
    ("losses", "verdicts"),
    [
        ({PRIOR: 0.02, LEARNED_PRIOR: 0.025, STATIC: 0.02, "CascadeLSB": 0.13}, ["holds", "holds", "holds"]),
        (
            {PRIOR: 0.02, LEARNED_PRIOR: 0.04, STATIC: 0.02, "CascadeLSB": 0.11},
            ["holds", "does not hold", "does not hold"],
        ),
        ({PRIOR: 0.05, LEARNED_PRIOR: 0.02, STATIC: 0.02, "CascadeLSB": 0.15}, ["does not hold", "holds", "holds"]),
    ],
)
def test_claims_on_first_lists_follow_from_the_shares(losses, verdicts):
    people = tuple((at // 4, str(at)) for at in range(20))
    name, steps = "first-lists/movielens-d18-K10", np.array([1, 10, 100])
    found = object.__new__(Results)
    found.curves = {(name, p, ""): made_up(name, p, lost, people, steps) for p, lost in losses.items()}
    found.scales, found.setups = {name: "20 people in 5 splits x 100 steps"}, {}
    judged = {f.claim.number: f for f in ledger(found)}
    assert [judged[number].verdict for number in ("C53", "C54", "C55")] == verdicts
    assert len(judged["C53"].checks) == 3, "one for each number of lists"


@pytest.mark.parametrize(("early", "late", "verdict"), [(0.2, 0.05, "holds"), (0.02, 0.08, "does not hold")])
def test_the_claim_on_arriving_people_is_about_those_who_come_after_fifty_others(early, late, verdict):
    people = tuple((at // 60, str(at)) for at in range(240))
    name = "arriving/movielens-d18-K10"
    curve = made_up(name, GROWING, 0.0, people, np.array([30]))
    curve.regret[:, 0] += 0.5 * 30 * np.where(curve.arrival < 50, early, late)
    found = object.__new__(Results)
    found.curves, found.scales = {(name, GROWING, ""): curve}, {name: "240 people in 4 splits x 30 steps"}
    found.setups = {}
    [judged] = [f for f in ledger(found) if f.claim.number == "C56"]
    assert judged.verdict == verdict
    assert "people 51 to 60 in their 30 lists" in judged.measured


def test_experiments_claims_and_report_belong_together(results):
    for suite, count in (("first-lists", 4), ("arriving", 4)):
        names = [name for name in EXPERIMENTS if name.startswith(f"{suite}/")]
        claimed = {s for claim in CLAIMS for s in claim.suites if s.startswith(f"{suite}/")}
        assert len(names) == len(claimed) == count
        assert all(any(name.startswith(f"{prefix}-d") for name in names) for prefix in claimed)
    made = build(results.folder)
    page = made.page.read_text()
    assert {path.name for path in made.pictures} == {"first-lists.svg", "arriving.svg"}
    for suite in ("first-lists", "arriving"):
        assert f'<section id="{suite}">' in page
    for name in (FIRST.name, COMING.name):
        shares = Shares.of(results, name)
        for table in shares.tables() if name == FIRST.name else [shares.arrivals()]:
            assert all(f'<td class="n">{cell}</td>' in page for row in table.cells() for cell in row[1:])


def test_policies_that_know_other_people_need_a_data_set(tmp_path):
    e = replace(EXPERIMENTS["synthetic/20k"], users=2, steps=4, policies=(STATIC,))
    with pytest.raises(ValueError, match="policies of synthetic/20k must not include Static, which knows something"):
        run([e], Store(tmp_path), Inline())
    both = replace(e, source="movielens", policies=(*INFORMED, "CascadeLSB"), settings=())
    assert {task.setting for task in tasks_of(both, seed=0)} == {None}, "every policy at its own defaults"


MINE = """
import thali

class Mine(thali.MostPopular):
    def __init__(self, catalog, K):
        super().__init__(catalog, K)

class Other:
    pass
"""
SIZE = ("--d", "6", "--K", "4", "--users", "6", "--steps", "20")
WORDS = ("movielens", "--by", "model", *SIZE, "--workers", "1", "--out", "results")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "policy_of_ours.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = dict(thali.POLICIES)
    yield tmp_path
    thali.POLICIES.clear()
    thali.POLICIES.update(before)


def test_the_command_compares_policies_and_resumes(data, folder, monkeypatch):
    monkeypatch.setattr(runner, "processes", lambda workers: nullcontext(Inline()))
    words = ("first-lists", *WORDS, "--data", data, "--policy", "policy_of_ours:Mine")
    done = thali_here(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    written = (folder / "results" / "first-lists.md").read_text()
    for policy in (*FIRST.policies, "policy_of_ours:Mine"):
        assert f"| {policy} | " in written
        assert policy in done.stdout
    mine, popular = (
        [line.partition(" | ")[2] for line in written.splitlines() if line.startswith(f"| {name} | ")]
        for name in ("policy_of_ours:Mine", "MostPopular")
    )
    assert mine == popular
    assert (folder / "results" / "figures" / "first-lists.png").exists()
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert len(made) == 7 * 6
    assert thali_here(*words, cwd=folder).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == made, "nothing runs again"


@pytest.mark.slow
def test_workers_import_your_own_policy_from_the_current_folder(data, folder):
    words = ("first-lists", *WORDS, "--data", data, "--policy", "policy_of_ours:Mine")
    done = thali_command(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "policy_of_ours:Mine" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("films",), "source must be one of movielens, "),
        (("movielens", "synthetic"), "source must be one of movielens, "),
        (("movielens", "--policy", "CascadeLSB"), "policy must be module:Class, such as mine:Best for the class"),
        (("movielens", "--policy", "no_such_module:Mine"), "got 'no_such_module:Mine': No module named"),
        (("movielens", "--policy", "policy_of_ours:Nobody"), "has no attribute 'Nobody'"),
        (("movielens", "--policy", "policy_of_ours:Other"), "a subclass of thali.Policy, got 'policy_of_ours:Other'"),
        (
            ("movielens", "--by", "model", "--splits", "3000"),
            "splits must be at most the number of people (1000), got 3000",
        ),
        (("movielens", "--data", "nowhere"), "nowhere"),
    ],
)
def test_a_wrong_command_is_one_sentence(words, said, folder):
    assert_refused("first-lists", *words, said=said, folder=folder)
