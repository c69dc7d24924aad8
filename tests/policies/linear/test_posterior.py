"""The posterior computed from M and B: the plain code against NumPy and long double, the batch code against both."""

import numpy as np
import pytest
from instances import weights

import thali
from thali.catalog import catalog as catalog_module
from thali.policies.linear import batches, posterior
from thali.policies.linear.policy import LinearPolicy
from thali.theory import LEAST_SIGMA


def paper(d):
    """How M and B are read without a prior."""
    return posterior.Reading(np.eye(d), np.zeros(d), 1.0, 1.0)


def refreshed(M, B):
    """The result of the plain code, which must equal that of the code for batches, bit for bit."""
    results = []
    for code in (posterior, batches):
        arrays = np.full_like(M, np.nan), np.full_like(B, np.nan), np.full(len(B), np.nan)
        code.refresh(M, B, paper(B.shape[1]), *arrays)
        results.append(arrays)
    for plain, fast in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, fast)
    return results[0]


def exactly(M, B):
    """M⁻¹, M⁻¹B and log det M of one user in long double: LDLᵀ with two steps of refinement."""
    M, B, d = M.astype(np.longdouble), B.astype(np.longdouble), len(B)
    L, left = np.eye(d, dtype=np.longdouble), M.copy()
    for j in range(d):
        L[j + 1 :, j] = left[j + 1 :, j] / left[j, j]
        left[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], left[j, j + 1 :])
    D = np.diag(left)

    def solve(right):
        x = right.copy()
        for j in range(d):
            x[j + 1 :] -= np.outer(L[j + 1 :, j], x[j])
        x /= D[:, None]
        for j in range(d - 1, -1, -1):
            x[:j] -= np.outer(L[j, :j], x[j])
        return x

    right = np.column_stack([np.eye(d, dtype=np.longdouble), B])
    x = solve(right)
    for _ in range(2):
        x = x + solve(right - M @ x)
    return x[:, :d], x[:, d], np.log(D).sum()


def learned(kind, d, rng):
    """Return M and B of one user after lists with features x (n, d), and x."""
    if kind == "well":
        x, times = rng.random((3 * d, d)), np.full(3 * d, 0.01)
    elif kind == "sparse":  # some topics never seen, others a million times
        x = rng.random((2 * d, d)) * (rng.random((2 * d, d)) < 0.2)
        times = 10.0 ** rng.uniform(0, 6, 2 * d)
    else:  # four dense lists: a million times each, or so often that entries nearly reach 1e12
        x, times = rng.random((4, d)), np.full(4, {"repeated": 1e6, "huge": 2e9}[kind])
    M = np.eye(d) + 100.0 * (x.T * times) @ x
    return (M + M.T) / 2, x.T @ (times * rng.random(len(x))), x


def condition_error(M):
    return np.linalg.cond(M) * np.finfo(float).eps


@pytest.mark.parametrize("d", [1, 2, 5, 18, 40])
@pytest.mark.parametrize("kind", ["well", "sparse", "repeated", "huge"])
def test_inverse_solution_and_determinant_are_as_exact_as_doubles_allow(kind, d):
    rng = np.random.default_rng(d)
    problems = [learned(kind, d, rng) for _ in range(10)]
    inverse, solution, logdet = refreshed(np.array([M for M, _, _ in problems]), np.array([B for _, B, _ in problems]))
    assert (inverse == inverse.transpose(0, 2, 1)).all()
    for user, (M, B, x) in enumerate(problems):
        true_inverse, true_solution, true_logdet = exactly(M, B)
        limit = condition_error(M) + d * 1e-16
        assert np.abs(inverse[user] - true_inverse).max() <= limit * np.abs(true_inverse).max()
        assert np.abs(solution[user] - true_solution).max() <= limit * np.abs(true_solution).max()
        assert abs(logdet[user] - true_logdet) <= limit * max(1.0, abs(true_logdet))
        # Backward stable: relative to ‖M‖·‖M⁻¹B‖, the residual is only rounding, for any condition number.
        residual = np.abs(M @ solution[user].astype(np.longdouble) - B).max()
        assert residual <= 4e-16 * np.abs(M).sum(axis=0).max() * np.abs(true_solution).max()
        # Therefore click probabilities of lists that were shown have many more correct digits than θ̄.
        shown = np.abs(x @ (solution[user] - true_solution)).max()
        if kind in ("well", "repeated"):
            assert shown <= 1e-12 * np.abs(x @ true_solution).max()


@pytest.mark.parametrize("kind", ["well", "sparse", "repeated"])
@pytest.mark.parametrize("d", [3, 18, 40])
def test_agrees_with_numpy(kind, d):
    rng = np.random.default_rng(100 + d)
    problems = [learned(kind, d, rng) for _ in range(7)]
    M, B = np.array([M for M, _, _ in problems]), np.array([B for _, B, _ in problems])
    inverse, solution, logdet = refreshed(M, B)
    limit = 2 * max(condition_error(m) for m in M) + 1e-13
    theirs = np.linalg.inv(M)
    assert (np.abs(inverse - theirs) <= limit * np.abs(theirs).max(axis=(1, 2), keepdims=True)).all()
    theirs = np.linalg.solve(M, B[:, :, None])[:, :, 0]
    assert (np.abs(solution - theirs) <= limit * np.abs(theirs).max(axis=1, keepdims=True)).all()
    np.testing.assert_allclose(logdet, np.linalg.slogdet(M)[1], rtol=limit)


def test_a_user_in_a_batch_gets_the_same_bits_as_alone():
    rng = np.random.default_rng(2)
    for d in range(1, 42):
        problems = [learned(("well", "sparse", "repeated", "huge")[user % 4], d, rng) for user in range(9)]
        M, B = np.array([M for M, _, _ in problems]), np.array([B for _, B, _ in problems])
        alone = [refreshed(M[[user]], B[[user]]) for user in range(9)]
        for users in range(1, 10):
            for batch, each in zip(refreshed(M[:users], B[:users]), zip(*alone, strict=True), strict=True):
                np.testing.assert_array_equal(batch, np.concatenate(each[:users]))


def test_invalid_neighbors_in_the_batch_do_not_affect_a_user():
    rng = np.random.default_rng(3)
    M, B, _ = learned("sparse", 6, rng)
    batch = np.array([np.full((6, 6), np.nan), M, np.full((6, 6), np.inf), np.zeros((6, 6)), M])
    results = refreshed(batch, np.array([B * np.nan, B, B, B, B]))
    for array, alone in zip(results, refreshed(M[None], B[None]), strict=True):
        np.testing.assert_array_equal(array[1], alone[0])
        np.testing.assert_array_equal(array[4], alone[0])


def parallel_items(policy_class, **settings):
    """A policy for 20 parallel items with weights on all 20 topics, shown all at once: M - I has rank 1."""
    rng = np.random.default_rng(0)
    catalog = thali.Catalog(rng.uniform(0.5, 1.0, (20, 1)) * rng.random(20))
    return policy_class(catalog, 20, **settings)


def test_learning_is_refused_before_rounding_errors_make_the_posterior_wrong():
    """With the smallest σ, until update refuses. The exact M⁻¹ is known, because M = I + c·xxᵀ."""
    policy = parallel_items(thali.CascadeLinUCB, sigma=LEAST_SIGMA)
    state, lists, clicks = policy.init(1), [list(range(20))], [[False] * 20]
    x = policy.catalog.weights[0]
    each = sum((row @ row) / (x @ x) for row in policy.catalog.weights) / LEAST_SIGMA**2
    message = ""
    count = 0
    while not message:
        try:
            policy.update(state, lists, clicks)
            count += 1
        except ValueError as error:
            message = str(error)
    assert message.startswith("sigma of CascadeLinUCB must be larger to learn from so many lists")
    assert message.endswith(f"got sigma=0.001 after {count} lists for user 0")
    assert 5_000 < count < 50_000
    assert state.updates[0] == count
    c = count * each
    exact = np.eye(20) - (c / (1.0 + c * (x @ x))) * np.outer(x, x)
    np.testing.assert_allclose(policy.posterior(state).inverse[0], exact, rtol=0, atol=0.1)


@pytest.mark.parametrize("how", [{}, {"discount": 0.9}, {"window": 3}])
@pytest.mark.parametrize("late", [False, True])
def test_a_refused_update_changes_nothing(how, late):
    policy = parallel_items(thali.CascadeLSB, **how)
    state = policy.init(2)
    state.M[1, 3, 3] = 1e15
    before = {name: array.copy() for name, array in state.arrays.items()}
    inverse = policy.posterior(state).inverse.copy()
    lists = np.tile(np.arange(20), (2, 1))
    more = {"gains": policy.gains(lists)} if late else {}
    with pytest.raises(ValueError, match="for user 1"):
        policy.update(state, lists, np.ones((2, 20), dtype=bool), **more)
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(array, before[name])
    np.testing.assert_array_equal(policy.posterior(state).inverse, inverse)


def test_a_policy_that_forgets_can_learn_forever():
    """M stays bounded, and so do its rounding errors, however many lists there were."""
    for how in ({"discount": 0.99}, {"window": 50}):
        policy = parallel_items(thali.CascadeLinUCB, sigma=LEAST_SIGMA, **how)
        state = policy.init(1)
        state.updates[:] = 10**15
        for _ in range(300):
            policy.update(state, [list(range(20))], [[False] * 20])
        assert state.updates[0] == 10**15 + 300


def test_determinants_beyond_the_range_of_doubles():
    for size in (1e12, 1e30, 1e150):
        M = np.eye(40)[None] * size
        _, _, logdet = refreshed(M, np.ones((1, 40)))
        assert logdet[0] == pytest.approx(40 * np.log(size), rel=1e-14)


def test_pivots_lost_to_rounding_are_replaced_by_a_minimum():
    """Above 1e16, rounding removes the identity from M. The inverse must stay finite, with a positive diagonal."""
    rng = np.random.default_rng(4)
    for d in (2, 5, 18, 40):
        for scale in (1e13, 1e16, 1e20):
            x = rng.random((2, d))
            M = np.eye(d) + scale * x.T @ x
            M = (M + M.T) / 2
            inverse, solution, logdet = refreshed(M[None], (x.T @ np.ones(2))[None])
            assert np.isfinite(inverse).all()
            assert np.isfinite(solution).all()
            assert np.isfinite(logdet).all()
            assert (np.diagonal(inverse[0]) > 0).all()


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("style", ["sparse", "dense", "extremes"])
def test_learning_directly_from_the_weights_equals_learning_from_gains_bit_for_bit(coverage, style):
    rng = np.random.default_rng(6)
    catalog = thali.Catalog(weights(style, 30, 6, rng), coverage=coverage)
    for kind in (thali.CascadeLSB, thali.LSBGreedy, thali.CascadeLinUCB):
        policy = kind(catalog, 5)
        direct, given = policy.init(7), policy.init(7)
        for _ in range(50):
            lists = np.array([rng.permutation(30)[:5] for _ in range(7)])
            clicks = rng.random((7, 5)) < 0.2
            policy.update(direct, lists, clicks)
            policy.update(given, lists, clicks, gains=policy.gains(lists))
        for name, array in direct.arrays.items():
            np.testing.assert_array_equal(array, given.arrays[name])
        for ours, theirs in zip(policy.posterior(direct), policy.posterior(given), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_overridden_gains_and_learn_are_used():
    class Halved(thali.CascadeLSB):
        def gains(self, lists):
            return super().gains(lists) / 2

    class Deaf(thali.CascadeLSB):
        def learn(self, state, lists, clicks, gains):
            super().learn(state, lists, np.zeros_like(clicks), gains)

    catalog = thali.Catalog(np.eye(3))
    model = thali.DiverseCascade(catalog, [[0.9, 0.1, 0.0]])
    for kind in (Halved, Deaf):
        policy = kind(catalog, 2)
        state = policy.init(1)
        policy.update(state, [[0, 1]], [[False, True]])
        simulated = thali.simulate(policy, model, steps=1, seed=1).state
        if kind is Halved:
            np.testing.assert_allclose(np.diagonal(state.M[0]), [26, 26, 1])
            assert simulated.M[0].max() == pytest.approx(26)
        else:
            assert not state.B.any()
            assert not simulated.B.any()
    assert LinearPolicy.learn_now is not thali.Policy.learn_now


def test_the_gains_array_is_not_computed_if_it_is_not_needed(monkeypatch):
    catalog = thali.Catalog(np.eye(3))
    policy = thali.CascadeLSB(catalog, 2)
    state = policy.init(1)
    monkeypatch.setattr(catalog_module, "list_gains", None)
    policy.update(state, [[0, 1]], [[False, True]])
    assert state.updates.tolist() == [1]
