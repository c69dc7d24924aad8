"""Every policy with every kind of person: the people, the numbers, and a paragraph that follows from the numbers."""

from dataclasses import replace

import numpy as np
import pytest
from publisher import write_movielens
from running import Inline, thali_command

import thali
from thali.lab import evidence
from thali.lab.intervals import Estimate
from thali.lab.kinds import DESCRIPTIONS, PEOPLE
from thali.lab.report import build
from thali.lab.results import Results
from thali.lab.robustness import CEILING, Cell, Matrix
from thali.lab.runner import Store, run
from thali.lab.settings import EXPERIMENTS, KINDS, PRACTICAL, robustness
from thali.lab.sources import fitted, problem
from thali.lab.tasks import tasks_of

POLICIES = ("CascadeLSB", "CascadeLinUCB", "Random", "Oracle")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_movielens(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def results(data, tmp_path_factory):
    """Results of a small matrix."""
    folder = tmp_path_factory.mktemp("results")
    asked = [replace(e, users=6, splits=3, steps=40) for e in robustness("movielens", 6, 4, POLICIES)]
    return Results(folder, run(asked, Store(folder), Inline(), data=data))


def test_people_are_of_the_requested_kind_with_the_rates_of_the_data(data):
    assert tuple(PEOPLE) == tuple(DESCRIPTIONS) == KINDS
    rates = fitted("movielens", data, 6, 4)
    people = {e.clicks: problem(replace(e, users=6, splits=3), 0, seed=0, data=data).model for e in SMALL}
    assert people["dependent-click"].going_on == rates.going_on
    assert people["dynamic-bayesian"].satisfaction == rates.satisfaction
    np.testing.assert_array_equal(people["position-based"].examined, rates.examined)
    assert (people["noisy-cascade"].extra, people["noisy-cascade"].skip) == (0.05, 0.3), "fixed, not estimated"
    first = people["diverse-cascade"]
    for model in people.values():
        np.testing.assert_array_equal(model.theta, first.theta)
        np.testing.assert_array_equal(model.catalog.dense, first.catalog.dense)
    assert len({type(model) for model in people.values()}) == len(KINDS)


SMALL = robustness("movielens", 6, 4, POLICIES)
SUFFIX = "-d6-K4"


def test_other_people_are_another_task(data):
    names = set()
    asked = [*SMALL, replace(SMALL[0], drift="abrupt"), replace(SMALL[3], rates=(("going_on", 0.5),))]
    for e in asked:
        e = replace(e, name="robustness/one", users=6, splits=3, steps=40)
        names.add(tasks_of(e, seed=0)[0].name(problem(e, 0, seed=0, data=data)))
    assert len(names) == len(asked)


def test_numbers_follow_from_the_rows(results):
    matrix = Matrix.of(results, "movielens", suffix=SUFFIX)
    assert matrix.kinds == KINDS
    worst = {}
    for policy in POLICIES:
        lost = []
        for kind in KINDS:
            rows = results.rows.filter(experiment=f"robustness/movielens{SUFFIX}-{kind}", policy=policy)
            last = rows.filter(step=40).sort("split", "user")
            cell = matrix.cells[policy, kind]
            assert cell.regret.value == pytest.approx(last["regret"].mean())
            assert cell.regret.low < cell.regret.value < cell.regret.high or policy == CEILING
            lost.append(float((last["regret"] / (40 * last["best"])).mean()))
            assert cell.lost.value == pytest.approx(lost[-1])
            late = rows.filter(rows["step"] > 36)["intra_list_distance"].mean()
            assert cell.diversity.value == pytest.approx(late)
        worst[policy] = max(lost)
    assert list(matrix.policies) == sorted(POLICIES, key=worst.get)
    assert min(worst, key=worst.get) == CEILING
    safest = min((p for p in POLICIES if p != CEILING), key=worst.get)
    assert matrix.paragraph().startswith(f"{safest} is the safest of the 3 policies compared")
    assert f"people, with whom it loses {worst[safest]:.1%}" in matrix.paragraph()
    text = matrix.markdown()
    for policy in POLICIES:
        assert f"| {policy} | " in text
        assert f"{worst[policy]:.1%} |" in text


def cell(lost, spread=0.0):
    """A cell of four people who lose this share on average."""
    people = np.array([lost - spread, lost + spread, lost - spread, lost + spread])
    share = Estimate(lost, lambda level: (lost - spread, lost + spread))
    return Cell(share, share, Estimate.exact(0.5), people, np.arange(4))


def test_the_paragraph_says_what_the_numbers_say():
    losses = {"A": (0.10, 0.10), "B": (0.02, 0.30), "C": (0.11, 0.09), CEILING: (0.01, 0.00)}
    cells = {
        (p, k): cell(loss, 0.005)
        for p, row in losses.items()
        for k, loss in zip(("cascade", "noisy-cascade"), row, strict=True)
    }
    kinds = ("cascade", "noisy-cascade")
    said = Matrix("movielens", "now", kinds, ("Oracle", "A", "C", "B"), cells).paragraph()
    assert "A is the safest of the 3 policies compared" in said
    assert "Its worst case is cascade people, with whom it loses 10.0% [9.5%, 10.5%] of the best list's click" in said
    assert "It is not the best policy for any kind of person." in said
    assert (
        "Other policies lose less with the other kinds: B with cascade people (2.0% instead of 10.0%) and C with "
        "noisy-cascade people (9.0% instead of 10.0%)."
    ) in said
    assert "The next safest is C, which loses 11.0% [10.5%, 11.5%] in its worst case (cascade people)." in said
    assert "The difference of 1.0 percentage points [1.0, 1.0] is statistically significant." in said
    assert "B has the largest loss, 30%." in said
    assert "loses at most 1.0% [0.5%, 1.5%] (cascade people)." in said
    close = {**cells, ("C", "cascade"): cell(0.101, 0.05)}
    assert "may be due to chance" in Matrix("movielens", "now", kinds, ("Oracle", "A", "C", "B"), close).paragraph()
    twins = {**cells, ("D", "cascade"): cell(0.10), ("D", "noisy-cascade"): cell(0.10)}
    said = Matrix("movielens", "now", kinds, ("A", "D", "B"), twins).paragraph()
    assert "A is the safest of the 3 policies compared (tied with D)." in said
    assert "No policy loses less with noisy-cascade people." in said
    assert "The next safest is B" in said
    said = Matrix("movielens", "now", kinds, ("A",), cells).paragraph()
    assert said == "A loses at most 10.0% [9.5%, 10.5%] of the best list's click probability (cascade people)."
    assert Matrix("movielens", "now", kinds, ("Oracle",), cells).paragraph().startswith("Oracle, which knows every")
    gains = {("A", k): cell(-0.01) for k in kinds} | {("B", k): cell(0.1) for k in kinds}
    assert "it loses nothing of the best list's" in Matrix("movielens", "now", kinds, ("A", "B"), gains).paragraph()


def test_rows_without_a_complete_matrix_are_left_out_of_the_report_and_rejected_by_name(data, tmp_path):
    some = [replace(e, users=6, splits=3, steps=20) for e in SMALL[:2]]
    other = replace(some[1], policies=("CombLinUCB",))
    run([some[0], other], Store(tmp_path), Inline(), data=data)
    with pytest.raises(
        ValueError, match="results of robustness/movielens-d6-K4 at alpha=8 sigma=0.1 must contain at least one policy"
    ):
        Matrix.of(Results(tmp_path), "movielens", suffix=SUFFIX)
    assert Matrix.every(Results(tmp_path)) == []
    assert build(tmp_path).page.exists()
    run([some[1]], Store(tmp_path), Inline(), data=data)
    results = Results(tmp_path)
    (matrix,) = Matrix.every(results)
    assert set(matrix.policies) == set(POLICIES)
    assert set(Matrix.of(results, "movielens", ("Random", "Oracle"), SUFFIX).policies) == {"Random", "Oracle"}


def test_first_and_last_click_give_the_same_rows_if_nobody_continues(data, tmp_path):
    asked = [
        replace(EXPERIMENTS[f"several-clicks/going-on-{going_on}"], d=6, K=4, users=6, splits=3, steps=80)
        for going_on in ("0", "0.9")
    ]
    results = Results(tmp_path, run(asked, Store(tmp_path), Inline(), data=data))
    for e, same in zip(asked, (True, False), strict=True):
        for pair in (("CascadeLSB", "CascadeLSB-last-click"), ("CascadeKLUCB", "DcmKLUCB")):
            first, last = (results.curve(e.name, policy, str(PRACTICAL)) for policy in pair)
            assert (first.lists == last.lists).all() == same, pair


def test_tastes_change_to_those_of_others_in_the_middle(data):
    for kind, changed_at in (("abrupt", 20), ("back-and-forth", 10), ("gradual", 10)):
        e = replace(EXPERIMENTS[f"drift/movielens-{kind}"], d=6, K=4, users=6, splits=3, steps=40)
        model = problem(e, 0, seed=0, data=data).model
        before, after = model.at(changed_at - 1).theta, model.at(changed_at).theta
        assert (before != after).any()
        np.testing.assert_array_equal(before, model.at(0).theta)
        np.testing.assert_array_equal(before, problem(replace(e, drift=""), 0, seed=0, data=data).theta)
        back = model.at(39 if kind != "back-and-forth" else 20).theta
        assert np.array_equal(back, before) == (kind == "back-and-forth")


def test_claims_on_changing_tastes_are_measured_from_the_change(tmp_path):
    e = replace(
        EXPERIMENTS["drift/generated-abrupt"], users=10, steps=400, policies=("CascadeLSB", "CascadeLSB-discount")
    )
    results = Results(tmp_path, run([e], Store(tmp_path), Inline()))
    [check] = evidence.since("CascadeLSB", "CascadeLSB-discount", 0.5, 1.0)(results, e.name, str(PRACTICAL))
    above, below = results.paired(e.name, ("CascadeLSB", "CascadeLSB-discount"), str(PRACTICAL))
    half = list(above.steps).index(200)
    grown = [(curve.regret[:, -1] - curve.regret[:, half]).mean() for curve in (above, below)]
    assert check.estimate.value == pytest.approx(grown[0] / grown[1])
    same = replace(e, name="drift/generated-none", drift="")
    results = Results(tmp_path, run([e, same], Store(tmp_path), Inline()))
    [follows] = evidence.follows("CascadeLSB", 0.95)(results, e.name, str(PRACTICAL))
    reached = []
    for curve in (above, results.curve(same.name, "CascadeLSB", str(PRACTICAL))):
        lost = (curve.regret[:, -1] - curve.regret[:, list(curve.steps).index(360)]) / 40
        reached.append((1 - lost / curve.best).mean())
    assert follows.estimate.value == pytest.approx(reached[0] / reached[1])
    assert follows.estimate.value < 1


@pytest.mark.slow
def test_the_command_prints_the_matrix_and_writes_it(data, tmp_path):
    words = ("robustness", "movielens", "--data", data, "--d", "6", "--K", "4", "--users", "6", "--steps", "40")
    done = thali_command(*words, "--policies", ",".join(POLICIES), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "robustness-movielens.md").read_text()
    matrix = Matrix.of(Results(tmp_path), "movielens", suffix=SUFFIX)
    assert written == matrix.markdown()
    assert matrix.paragraph().partition(".")[0] in " ".join(done.stdout.split())
    for kind in KINDS:
        assert f"{kind}: {DESCRIPTIONS[kind]}"[:60] in done.stdout
    for form in ("png", "svg"):
        assert (tmp_path / "figures" / f"robustness-movielens.{form}").stat().st_size > 10_000
    page = build(tmp_path).page.read_text()
    assert "is the safest of the 3 policies compared" in page
    for wrong, said in (
        (("robustness", "films"), "source must be one of movielens, "),
        ((*words, "--policies", "Best"), "policies must be among CascadeLSB, "),
    ):
        refused = thali_command(*wrong, "--out", str(tmp_path))
        assert refused.returncode == 1
        assert said in refused.stderr


def test_every_policy_has_an_entry_in_the_docs():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    headings = {name.strip() for line in page.splitlines() if line.startswith("### ") for name in line[4:].split(",")}
    assert headings == set(thali.POLICIES)
