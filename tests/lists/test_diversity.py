"""Each measure of diversity against a loop over its definition, its bounds, and whether it depends on order."""

import itertools
import math

import numpy as np
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st
from instances import covers

import thali
from thali.lists import diversity


@st.composite
def served(draw, d=None):
    """Weights with some zero rows, two lists of equal length (1 to all items), and a θ per list that sums to 1 or 0."""
    W = draw(covers(draw(st.integers(1, 5)) if d is None else d))
    W[draw(st.lists(st.sampled_from(range(len(W))), max_size=2))] = 0.0
    K = draw(st.integers(1, len(W)))
    lists = [draw(st.permutations(range(len(W))))[:K] for _ in range(2)]
    theta = np.array([draw(st.lists(st.integers(0, 5), min_size=W.shape[1], max_size=W.shape[1])) for _ in range(2)])
    return W, lists, theta / np.maximum(1, theta.sum(axis=1, keepdims=True))


def topics(W, item):
    return {j for j in range(W.shape[1]) if W[item, j] > 0}


def plain_coverage(W, items, kind):
    """The mean over topics of c_j(A)."""
    return sum(reference.coverage(W, items, kind).tolist()) / W.shape[1]


def plain_distance(W, items):
    """The mean over pairs of 1 - |A∩B| / sqrt(|A|·|B|), which is 1 minus the cosine of two sets.

    A pair with an empty set counts as 0. If there are no pairs, the result is 1.
    """
    distances = []
    for a, b in itertools.combinations(items, 2):
        A, B = topics(W, a), topics(W, b)
        distances.append(1 - len(A & B) / math.sqrt(len(A) * len(B)) if A and B else 0.0)
    return sum(distances) / len(distances) if distances else 1.0


def plain_entropy(W, items):
    """-Σ_j p_j log p_j / log d. p_j is topic j's share of the votes; each item divides one vote among its topics."""
    votes = dict.fromkeys(range(W.shape[1]), 0.0)
    for item in items:
        for j in topics(W, item):
            votes[j] += 1 / len(topics(W, item))
    total = sum(votes.values())
    if total == 0 or W.shape[1] == 1:
        return 0.0
    return -sum(v / total * math.log(v / total) for v in votes.values() if v > 0) / math.log(W.shape[1])


def plain_err_ia(W, items, theta):
    """Σ_j θ_j Σ_k (1/k)·w̄(a_k,j)·Π_{i<k}(1 - w̄(a_i,j)): a user with intent j who stops at position k adds 1/k."""
    total = 0.0
    for j in range(W.shape[1]):
        reaches = 1.0
        for k, item in enumerate(items, start=1):
            total += theta[j] * reaches * W[item, j] / k
            reaches *= 1 - W[item, j]
    return total


MEASURES = {
    "coverage": (diversity.topic_coverage, lambda W, items: plain_coverage(W, items, "probabilistic")),
    "distance": (diversity.intra_list_distance, plain_distance),
    "entropy": (diversity.topic_entropy, plain_entropy),
}


@pytest.mark.parametrize("name", MEASURES)
@given(case=served())
@example(case=(np.zeros((2, 3)), [[0, 1], [1, 0]], np.full((2, 3), 1 / 3)))
@example(case=(np.ones((3, 3)), [[0, 1, 2], [1, 0, 2]], np.full((2, 3), 1 / 3)))
def test_each_measure_equals_its_definition_in_any_order_and_is_from_0_to_1(name, case):
    W, lists, _ = case
    measure, plain = MEASURES[name]
    values = measure(thali.Catalog(W), lists)
    np.testing.assert_allclose(values, [plain(W, items) for items in lists], rtol=1e-12, atol=1e-12)
    assert (values >= -1e-12).all()
    assert (values <= 1 + 1e-12).all()
    values_reversed = measure(thali.Catalog(W), [items[::-1] for items in lists])
    np.testing.assert_allclose(values_reversed, values, rtol=1e-12, atol=1e-12)


@given(case=served())
def test_topic_coverage_uses_the_coverage_of_the_catalog(case):
    W, lists, _ = case
    values = diversity.topic_coverage(thali.Catalog(W, coverage="max"), lists)
    np.testing.assert_allclose(values, [plain_coverage(W, items, "max") for items in lists], rtol=1e-12, atol=1e-12)


@given(case=served())
def test_err_ia_equals_its_definition_and_is_from_0_to_1(case):
    W, lists, theta = case
    values = diversity.err_ia(thali.Catalog(W), lists, theta)
    plain = [plain_err_ia(W, items, t) for items, t in zip(lists, theta, strict=True)]
    np.testing.assert_allclose(values, plain, rtol=1e-12, atol=1e-12)
    assert (values >= 0).all()
    assert (values <= 1 + 1e-12).all()


@given(W=covers(1), data=st.data())
def test_err_of_one_intent_is_largest_with_the_most_satisfying_items_first(W, data):
    items = data.draw(st.permutations(range(len(W))))[:5]
    orders = list(itertools.permutations(items))
    values = diversity.err_ia(thali.Catalog(W), orders, np.ones((len(orders), 1)))
    descending = tuple(sorted(items, key=lambda item: -W[item, 0]))
    assert values[orders.index(descending)] >= values.max() - 1e-12


@given(case=served())
def test_err_ia_does_not_fall_when_an_item_better_in_every_topic_moves_to_the_top(case):
    """Each swap with the item above adds Σ_j θ_j·Π_{i<k}(1 - w̄(a_i,j))·(w̄(better,j) - w̄(worse,j))·(1/k - 1/(k+1))."""
    W, (items, _), theta = case
    W[items[-1]] = W[items].max(axis=0)
    below, above = diversity.err_ia(thali.Catalog(W), [items, [items[-1], *items[:-1]]], theta[[0, 0]])
    assert above >= below - 1e-12


def test_known_values():
    """Order matters only to ERR-IA: the wanted item is worth 1 at the first position and 1/2 at the second."""
    catalog = thali.Catalog([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert diversity.err_ia(catalog, [[0, 1], [1, 0]], [[1.0, 0.0, 0.0]] * 2).tolist() == [1.0, 0.5]
    assert diversity.topic_coverage(catalog, [[0, 2], [0, 1]]).tolist() == [pytest.approx(1 / 3), 1.0]
    assert diversity.intra_list_distance(catalog, [[0, 2], [0, 1]]).tolist() == [0.0, 1.0]
    votes = 1.5 * math.log(2) / math.log(3)  # shares 1/2, 1/4, 1/4
    assert diversity.topic_entropy(catalog, [[0, 1], [0, 2]]).tolist() == [pytest.approx(votes), 0.0]


@pytest.mark.parametrize("measure", [m for m, _ in MEASURES.values()], ids=MEASURES)
def test_bad_lists_are_refused(measure):
    for d in (1, 2):
        with pytest.raises(ValueError, match="lists must contain distinct item numbers from 0 to 2 in each row, got"):
            measure(thali.Catalog(np.ones((3, d))), [[0, 3]])
        with pytest.raises(ValueError, match=r"lists must have shape .*, got \(2,\)"):
            measure(thali.Catalog(np.ones((3, d))), [0, 1])


@pytest.mark.parametrize(
    ("lists", "theta", "message"),
    [
        ([[0, 0]], [[0.5, 0.5]], r"lists must contain distinct item numbers from 0 to 2 in each row, got \[0, 0\]"),
        ([[0, 1]], [0.5, 0.5], r"theta must have shape \(lists, d\) = \(1, 2\), got \(2,\)"),
        ([[0, 1]], [[0.5, np.nan]], r"theta must be finite, got nan"),
    ],
)
def test_bad_input_to_err_ia_is_refused(lists, theta, message):
    with pytest.raises(ValueError, match=message):
        diversity.err_ia(thali.Catalog(np.ones((3, 2))), lists, theta)
