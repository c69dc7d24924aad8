"""Verdicts: when a claim is confirmed or refuted, when it is left open, and how the ledger says so."""

from math import inf

import numpy as np
import pytest
from scipy import stats

from thali.lab import evidence, figures, intervals
from thali.lab.claims import CLAIMS
from thali.lab.intervals import Estimate
from thali.lab.ledger import Finding, ledger
from thali.lab.report import counted, markdown, table_1
from thali.lab.results import DIVERSITY, Curve, Results, scale_label
from thali.lab.settings import EXPERIMENTS, PRACTICAL, THEORY
from thali.lab.verdicts import Check

PEOPLE = tuple((split, f"{split}-{at}") for split in range(5) for at in range(4))
CLAIM = {claim.number: claim for claim in CLAIMS}
ALPHA = str(PRACTICAL)


def curve(experiment, policy, settings, final, *, power=0.5, people=PEOPLE, n=20_000):
    """A curve whose regret grows like n^power to the given final values (people,); the best list has f = 0.5."""
    steps, count = np.arange(1, 101) * (n // 100), len(people)
    regret = np.broadcast_to(final, count)[:, None] * (steps / n) ** power
    values, none = np.full(count, 0.5), np.zeros((count, 100))
    lists = np.zeros((count, 100, 2), dtype=int)
    return Curve(
        experiment, policy, settings, steps, people, regret, none, values, values, lists, dict.fromkeys(DIVERSITY, none)
    )


def results(*curves, setups=None):
    """Results with these curves, without files."""
    made = object.__new__(Results)
    made.curves = {(c.experiment, c.policy, c.settings): c for c in curves}
    made.scales = {c.experiment: f"{len(c.people)} people in 5 splits x {c.n} steps" for c in curves}
    made.setups = setups or {}
    return made


def finding(number, made, settings=""):
    """The only finding on a claim at these settings."""
    [found] = [f for f in ledger(made) if (f.claim.number, f.settings) == (number, settings)]
    return found


def noise(seed, scale=0.01):
    return np.random.default_rng(seed).uniform(1.0 - scale, 1.0 + scale, len(PEOPLE))


def test_a_true_claim_is_refuted_in_at_most_5_percent_of_ledgers_whatever_the_number_of_checks():
    rng, splits = np.random.default_rng(0), np.repeat(np.arange(5), 20)

    def check(truth):
        people = rng.gamma(1.5, 1.0, 100)
        a, b = people * rng.normal(truth, 0.3, 100), people * rng.normal(1.0, 0.3, 100)
        return Check("a/b", intervals.ratio(a, b, splits), 1.0)

    refuted = alone = confirmed = 0
    for _ in range(400):
        checks = tuple(check(1.0) for _ in range(27))
        refuted += Finding(CLAIM["C23"], "movielens", "", "", checks).verdict == "does not hold"
        alone += any(one.verdict() == "does not hold" for one in checks)
        # The same claim, when it is false in one of the experiments: that ratio is not above 1.
        easy = tuple(Check("a/b", Estimate.exact(2.0), 1.0) for _ in range(26))
        confirmed += Finding(CLAIM["C23"], "movielens", "", "", (*easy, checks[0])).verdict == "holds"
    assert refuted / 400 <= 0.05
    assert confirmed / 400 <= 0.05
    assert alone / 400 > 0.4, "without the correction, about half of these ledgers refute a true claim"


def test_joint_intervals_are_wider_for_every_kind_of_interval():
    rng, splits = np.random.default_rng(1), np.repeat(np.arange(8), 5)
    values = rng.normal(5.0, 2.0, 40)
    means = values.reshape(8, 5).mean(axis=1)
    student = stats.t.interval(1 - 0.05 / 27, 7, means.mean(), stats.sem(means))
    assert intervals.mean(values, splits).jointly(27) == pytest.approx(student)
    binomial = stats.binomtest(17, 20).proportion_ci(1 - 0.05 / 3, method="exact")
    assert intervals.share([True] * 17 + [False] * 3).jointly(3) == pytest.approx((binomial.low, binomial.high))
    factor = intervals.ratio(values, values[::-1], splits)
    power = intervals.growth(values, values[::-1], splits, 2.0)
    assert power.jointly(9) == pytest.approx(tuple(np.log2(factor.jointly(9))))
    assert Estimate.exact(3.0).jointly(9) == (3.0, 3.0)
    assert np.isnan(intervals.growth([3.0], [2.0], [0], 2.0).jointly(9)).all(), "one person has no interval"


def test_the_interval_of_a_mean_fraction_lies_between_0_and_1():
    splits = np.repeat(np.arange(5), 20)
    values = np.ones(100)
    values[[3, 50, 51]] = 0.9924, 0.9981, 0.9966
    found = intervals.mean_fraction(values, splits)
    assert found.value == values.mean()
    assert intervals.mean(values, splits).high > 1.0
    for level in (0.5, 0.95, 0.9999, 1.0 - 1e-15):
        low, high = found.interval(level)
        assert 0.0 <= low < found.value < high <= 1.0
    assert intervals.mean_fraction(np.ones(100), splits).interval(0.95) == (1.0, 1.0)
    # Far from 0 and 1, it is the Student interval.
    middle = np.random.default_rng(2).uniform(0.49, 0.51, 100)
    plain, logit = intervals.mean(middle, splits), intervals.mean_fraction(middle, splits)
    assert (logit.low, logit.high) == pytest.approx((plain.low, plain.high), abs=1e-6)


def test_table_1_and_claim_9_have_no_ratio_above_1():
    lost = np.zeros(len(PEOPLE))
    lost[2] = 0.01  # times f = 0.5: the greedy list of one person reaches 98% of the optimum
    made = results(*(curve(f"approximation/K{K}", "Greedy", "", lost * (K > 2)) for K in (1, 2, 3, 4)))
    assert all(measured.high <= 1.0 for _, _, measured, _, _ in table_1(made))
    assert finding("C9", made).least_favorable.estimate.high <= 1.0


def test_a_large_local_exponent_does_not_refute_a_bound_with_logarithmic_factors():
    def at(power):
        names = [name for name in EXPERIMENTS if name.startswith("theory/")]
        return results(*(curve(name, evidence.LSB, str(THEORY), 100 * noise(1), power=power) for name in names))

    linear = finding("C7", at(1.0), str(THEORY))
    assert linear.verdict == "not decided"
    assert "does not refute a bound with logarithmic factors" in linear.reason
    assert finding("C7", at(0.4), str(THEORY)).verdict == "holds"


@pytest.mark.parametrize(
    ("number", "key", "own"),
    [("C30", "density", "songs"), ("C36", "density", "yelp"), ("C37", "median_weight", "yelp")],
)
def test_statements_about_the_papers_own_data_are_not_decided_on_a_substitute(number, key, own):
    claim = CLAIM[number]
    for suite in claim.suites:
        for value in (0.025, 0.06):
            [check] = claim.measure(results(setups={suite: {key: value}}), f"{suite}/", "")
            found = Finding(claim, suite, "", "", (check,))
            expected = "holds" if value == 0.025 else "does not hold"
            assert found.verdict == (expected if suite == own else "not decided")
            assert ("substitute" in found.reason) == (suite != own)


@pytest.mark.parametrize(
    ("cascading", "times", "verdict"),
    [(8000, 1.05, "not decided"), (8000, 3.0, "not decided"), (1000, 3.0, "holds"), (1000, 1.5, "does not hold")],
)
def test_policies_that_have_not_learned_anything_decide_nothing(cascading, times, verdict):
    """A policy that loses 8,000 of the best list's 10,000 clicks at a constant rate has not learned anything."""
    made = results(
        *(
            curve(f"robustness/movielens-{kind}", policy, "", final * noise(at), power=1.0)
            for kind in ("diverse-cascade", "cascade")
            for at, (policy, final) in enumerate(
                {
                    "CascadeKLUCB": cascading,
                    "CascadeUCB1": cascading,
                    "RankedKLUCB": times * cascading,
                    "RankedUCB1": times * cascading,
                }.items()
            )
        )
    )
    found = finding("C47", made)
    assert found.verdict == verdict
    assert ("has hardly learned (it gets 20% of the best list's clicks" in found.reason) == (verdict == "not decided")


@pytest.mark.parametrize(
    ("mine", "verdict", "reason"),
    [
        (50, "does not hold", "CascadeLSB does better than claimed"),
        (80, "holds", ""),
        (120, "does not hold", "CascadeLSB does worse than claimed"),
    ],
)
def test_the_ledger_says_whether_cascadelsb_does_better_or_worse_than_claimed(mine, verdict, reason):
    made = results(
        *(
            curve(f"movielens/d18-K{K}", policy, ALPHA, final * noise(K))
            for K in (4, 8, 12)
            for policy, final in ((evidence.LSB, mine), (evidence.LSB_GREEDY, 100))
        )
    )
    found = finding("C24", made, ALPHA)
    assert (found.verdict, found.reason) == (verdict, reason)
    assert reason in markdown([found])


def test_the_best_alpha_is_chosen_on_other_people():
    """α = 1 is best for the people of split 0, and α = 2 for everybody else; one user is in splits 0 and 1."""
    people = ((0, "a"), (0, "b"), (1, "a"), (1, "c"), (2, "d"), (2, "e"))
    finals = {"alpha=1 sigma=0.1": [10, 10, 50, 50, 50, 50], "alpha=2 sigma=0.1": [30, 30, 20, 20, 20, 20]}
    name = "optimism/movielens-d18-K12"
    sweep = [
        curve(name, p, s, f, people=people)
        for p in ("CascadeLSB", "LSBGreedy", "CascadeLinUCB")
        for s, f in finals.items()
    ]
    made = results(*sweep, curve(name, "CascadeKLUCB", "", [60] * 6, people=people))
    checks = evidence.own_best(made, name, "")
    # Everybody is judged at α = 2: for split 0, this is the best α of the others, although it is not their own.
    assert checks[-1].label == "regret of CascadeKLUCB (no α) / CascadeLSB (α = 2)"
    assert checks[-1].estimate.value == pytest.approx(6 * 60 / (2 * 30 + 4 * 20))
    # If user a, who is also in split 0, loses much at α = 2 in split 1, this does not change the choice for split 0.
    for one in sweep:
        one.regret[2] *= 100.0 if "alpha=2" in one.settings else 1.0
    judged = evidence._tuned([c for c in sweep if c.policy == "CascadeLSB"])[0]
    assert judged[:2] == pytest.approx([30, 30])


def test_a_best_alpha_that_is_only_luck_gives_no_advantage():
    """If α makes no difference, the policy with the most α to choose from has the same regret as the others."""
    rng, name, ratios = np.random.default_rng(3), "optimism/movielens-d18-K12", []
    for _ in range(200):
        luck = lambda: rng.gamma(4.0, 25.0, len(PEOPLE))  # noqa: E731
        sweep = [curve(name, "CascadeLSB", f"alpha={a} sigma=0.1", luck()) for a in range(1, 8)]
        others = [curve(name, p, "alpha=1 sigma=0.1", luck()) for p in ("LSBGreedy", "CascadeLinUCB")]
        checks = evidence.own_best(results(*sweep, *others, curve(name, "CascadeKLUCB", "", luck())), name, "")
        ratios += [check.estimate.value for check in checks]
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)


def test_regret_that_has_stopped_growing_is_said_in_words():
    stopped = curve("synthetic/20k", evidence.LSB, ALPHA, 5.0)
    stopped.regret[:] = stopped.regret[:, -1:]
    found = finding("C11", results(stopped), ALPHA)
    assert (found.verdict, found.least_favorable.estimate.value) == ("holds", -inf)
    assert found.measured == "20k, CascadeLSB: the second half of the run adds at most 1% of the regret"


def test_counts_agree_with_their_words():
    one, many = (Finding(CLAIM["C9"], "", "", "", (Check("x", Estimate.exact(v), 0.0),)) for v in (-1.0, 1.0))
    assert [(count, words) for _, count, words in counted([one, many, many])] == [
        (2, "hold"),
        (1, "does not hold"),
        (0, "not decided"),
    ]
    assert [words for _, _, words in counted([one, one, many])] == ["holds", "do not hold", "not decided"]
    assert scale_label("1 people in 1 splits x 1 steps") == "1 person in 1 split, 1 step"
    assert scale_label("21 people in 5 splits x 100 steps") == "21 people in 5 splits, 100 steps"


def test_panels_state_the_steps_that_were_run(tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(
        figures, "_save", lambda figure, folder, name: titles.extend(a.get_title() for a in figure.axes)
    )
    small = curve("synthetic/1M", evidence.LSB, ALPHA, 5.0, n=100_000)
    figures.grid(results(small), "synthetic", str(PRACTICAL), tmp_path)
    figures.grid(results(curve("ranked/K2", evidence.LSB, ALPHA, 5.0)), "ranked", str(PRACTICAL), tmp_path)
    assert titles == ["100,000 steps", "K2"]
