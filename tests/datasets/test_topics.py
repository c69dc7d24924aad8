"""Topics that are learned from likes: planted groups are found, and names are safe and unique."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tastes import likes_of_groups

from thali.datasets.topics import LONGEST, Factors, is_learned, largest, learned_names
from thali.tools import checks


def factors(data):
    likes = data.matrix().astype(np.float64)
    return Factors(likes, likes.sum(axis=0) / len(data.users))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), d=st.integers(1, 12), share=st.floats(0.02, 1.0), most=st.integers(1, 9))
def test_weights_are_within_0_and_1_and_every_item_has_few_topics(seed, d, share, most):
    rng = np.random.default_rng(seed)
    liked = rng.random((15, 12)) < share
    liked[0, 0] = True
    likes = sp.csr_array(liked.astype(np.float64))
    W = Factors(likes, (1.0 + likes.sum(axis=0)) / 17.0).learn(d, most, np.random.default_rng(seed))
    assert W.shape == (12, d)
    assert W.min() >= 0.0
    assert set(W.max(axis=0).round(12)) <= {0.0, 1.0}
    assert (W > 0.0).sum(axis=1).max() <= most


@given(
    values=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6), min_size=1),
    most=st.integers(1, 8),
)
def test_the_largest_entries_are_chosen_and_ties_go_to_the_first(values, most):
    found = largest(np.array(values), most)
    for row, chosen in zip(values, found.tolist(), strict=True):
        best = sorted(range(6), key=lambda j: (-row[j], j))[:most]
        assert chosen == [j in best and row[j] > 0.0 for j in range(6)]


def test_each_planted_group_becomes_a_topic_that_is_named_after_its_items():
    data = likes_of_groups((30, 30), own=0.9, other=0.02)
    W = factors(data).learn(2, 8, np.random.default_rng(0))
    letters = np.array([name[0] for name in data.items])
    names = learned_names(W, data.items, {name: f"Film {name}" for name in data.items})
    groups = []
    for column, name in zip(W.T, names, strict=True):
        inside = max("ab", key=lambda letter: column[letters == letter].sum())
        assert column[letters == inside].min() > column[letters != inside].max()
        assert column[letters == inside].mean() > 5 * column[letters != inside].mean()
        best = np.argsort(-column)[:2]
        assert all(f"Film {inside}" in part for part in name.split(", "))
        assert name.startswith("like Film ")
        assert {data.items[e][0] for e in best} == {inside}
        groups.append(inside)
    assert sorted(groups) == ["a", "b"]


def test_an_item_that_is_folded_in_gets_nearly_the_weights_it_would_have_learned():
    data = likes_of_groups((40, 40, 40), own=0.7)
    every = factors(data)
    W = every.learn(3, 8, np.random.default_rng(0))
    for e in (0, 9, 23):
        known = np.arange(24) != e
        hidden = np.where(known[:, None], W, 0.0)
        folded = every.fold_in(hidden, known, 8)
        np.testing.assert_array_equal(folded[known], W[known])
        assert folded[e].argmax() == W[e].argmax()
        np.testing.assert_allclose(folded[e], W[e], atol=0.3)
        assert folded[e] @ W[e] > 0.9 * np.linalg.norm(folded[e]) * np.linalg.norm(W[e])
    assert (every.fold_in(W, np.ones(24, dtype=bool), 8) == W).all()
    few = every.fold_in(np.where(np.arange(24)[:, None] < 20, W, 0.0), np.arange(24) < 20, 1)
    assert ((few[20:] > 0.0).sum(axis=1) <= 1).all()


def test_names_are_unique_and_depend_on_all_weights():
    W = np.array([[0.2, 0.2, 0.2, 0.0], [0.1, 0.1, 0.1, 0.0], [0.0, 0.0, 0.01, 0.0]])
    names = learned_names(W, ["x", "y", "z"])
    assert len(set(names)) == 4
    assert [name.rpartition(" #")[0] for name in names] == ["like x, y", "like x, y", "like x, y", "like nothing"]
    assert learned_names(W, ["x", "y", "z"]) == names
    other = W.copy()
    other[2, 2] = np.nextafter(0.01, 1.0)
    assert [a == b for a, b in zip(learned_names(other, ["x", "y", "z"]), names, strict=True)] == [
        True,
        True,
        False,
        True,
    ]
    assert learned_names(W, ["x", "y", "Z"])[2] != names[2]
    assert learned_names(W, ["x", "y", "Z"])[0] == names[0]  # which does not contain this item
    assert all(map(is_learned, names))
    assert not any(map(is_learned, ["like Alien", "crime", "like x #12345", "like x #12345g", 7, "quality"]))


@settings(max_examples=100)
@given(titles=st.lists(st.text(st.characters(exclude_categories=[])) | st.just("x" * 300), min_size=3, max_size=3))
def test_whatever_the_titles_are_the_names_are_safe_in_every_file(titles):
    W = np.array([[0.2, 0.0], [0.0, 0.1], [0.15, 0.0]])
    for name in learned_names(W, [1, 2, 3], dict(zip([1, 2, 3], titles, strict=True))):
        assert checks.text_name("topic", name) == name
        assert is_learned(name)
        assert len(name) <= 2 * LONGEST + 20


@pytest.mark.parametrize(
    ("title", "text"), [("a\x00b\n c", "a b c"), ("\ud800", "?"), ("", "?"), ("y" * 50, "y" * 39 + "…")]
)
def test_titles_are_made_printable_and_short(title, text):
    assert learned_names(np.array([[0.2]]), ["item"], {"item": title})[0].startswith(f"like {text} #")
