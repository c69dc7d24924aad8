"""The paper's synthetic experiment: what Section 7.3 says about each algorithm, and after how many steps it appears."""

import numpy as np
import pytest

from thali.lab.compare import compare, policies_for
from thali.lab.problems import synthetic

BEST, WORSE = 0.44, 0.405  # f of (0, 2) and of (0, 1)


def test_the_problem_is_that_of_the_paper():
    problem = synthetic()
    assert (problem.catalog.L, problem.catalog.d, problem.K) == (53, 3, 2)
    np.testing.assert_array_equal(problem.model.best_lists(2), [[0, 2]])
    # 1 - 0.7·0.8 and 1 - 0.7·0.85
    np.testing.assert_allclose(problem.model.click_probability([[0, 2]]), BEST)
    np.testing.assert_allclose(problem.model.click_probability([[0, 1]]), WORSE)


@pytest.mark.slow
def test_four_algorithms_at_the_default_optimism():
    problem = synthetic(users=30)
    runs = compare(problem, policies_for(problem), steps=40_000, seed=1)
    lsb, lin, yue, kl = (runs[n] for n in ("CascadeLSB", "CascadeLinUCB", "LSBGreedy", "CascadeKLUCB"))
    # CascadeLSB's last list is the best one, and its regret flattens.
    assert (lsb.last_loss <= 1e-12).all()
    assert lsb.slope().mean() < 1e-4
    # CascadeLinUCB's regret is linear: it shows the two items of the preferred topic.
    assert (np.sort(lin.lists[:, -1]) == [0, 1]).all()
    np.testing.assert_allclose(lin.slope(0.5), BEST - WORSE, rtol=0.02)
    # LSBGreedy's regret is linear: it oscillates between items 1 and 2 below item 0, and the second half of the run
    # costs as much as the first.
    half = yue.regret[:, len(yue.steps) // 2 - 1].mean()
    assert 0.7 < (yue.regret[:, -1].mean() - half) / half < 1.5
    assert yue.slope().mean() > 100 * lsb.slope().mean()
    # CascadeKL-UCB's regret flattens (far below linear growth), an order of magnitude higher.
    assert kl.slope().mean() < 0.3 * kl.regret[:, -1].mean() / kl.steps[-1]
    assert kl.regret[:, -1].mean() > 10 * lsb.regret[:, -1].mean()


@pytest.mark.slow
def test_lsb_greedy_is_linear_at_theoretical_optimism_only_after_a_million_steps():
    """Up to 20,000 steps, its regret still looks like learning; after that, the regret per step does not fall."""
    problem, n = synthetic(users=4), 1_000_000
    policies = policies_for(problem, ("LSBGreedy", "CascadeLSB"), alpha="theory", horizon=n)
    runs = compare(problem, policies, steps=n, seed=2)
    yue, lsb = runs["LSBGreedy"], runs["CascadeLSB"]
    assert yue.slope(0.5).mean() > 20 * lsb.slope(0.5).mean()
    last, before = (yue.regret[:, b].mean() - yue.regret[:, a].mean() for a, b in ((149, 199), (99, 149)))
    assert 0.7 < last / before < 1.4
