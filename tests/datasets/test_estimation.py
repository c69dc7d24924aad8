"""Interactions, w̄ and θ* against a transcription of the paper's Real-World Datasets in dicts, sets and loops."""

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import thali
from thali.datasets import Interactions

# Numbers whose order differs from that of their digits, and words.
NAMES = st.sampled_from([[2, 3, 10, 20, 100, 7], ["b", "ab", "a", "B", "10", "2"]])
STARS = st.integers(-2, 10).map(lambda halves: halves / 2)


@st.composite
def tables(draw, users=None):
    """Values {(user, item): stars} and topics {item: topics}: at least one of each, and so few that ties are common."""
    people, films = draw(NAMES)[: draw(st.integers(1, 6)) if users is None else users], draw(NAMES)
    genres = draw(st.sampled_from(["x", "xy", "yxz", "zywxv"]))
    topics = draw(st.dictionaries(st.sampled_from(films), st.sets(st.sampled_from(genres)), min_size=1))
    topics[next(iter(topics))] |= {genres[0]}
    pairs = st.tuples(st.sampled_from(people), st.sampled_from(list(topics)))
    return draw(st.dictionaries(pairs, STARS, min_size=1, max_size=25)), topics


def interactions(values, topics):
    return Interactions.of([(u, i, value) for (u, i), value in values.items()], topics)


def as_table(data):
    """Back to {(user, item): value} and {item: set of topics}, by name."""
    values = {}
    for u, i, value in zip(data.user.tolist(), data.item.tolist(), data.value.tolist(), strict=True):
        values[data.users[u], data.items[i]] = value
    assert len(values) == len(data)
    return values, {name: set(data.topics_of(name)) for name in data.items}


def most(totals, n):
    """The names of the n largest totals, in ascending order. Ties go to the smaller name."""
    return sorted(sorted(totals, key=lambda name: (-totals[name], name))[:n])


def plain_attraction(users, items, topics, F, G):
    """w̄(i, j) of Section 7.4: Σ_u F(u,i)G(i,j) over the users with some F(u,i')G(i',j) > 0; 0 if there are none."""
    liked_by = {i: [u for u in users if (u, i) in F] for i in items}
    w = {}
    for j in topics:
        fans = set()
        for i in items:
            if j in G[i]:
                fans |= set(liked_by[i])
        for i in items:
            hits = len(liked_by[i]) if j in G[i] else 0
            w[i, j] = Fraction(hits, len(fans)) if fans else Fraction(0)
    return [[float(w[i, j]) for j in topics] for i in items]


def plain_preferences(users, items, topics, F, G):
    """θ*_j of each user, Section 7.4: Σ_i F(u,i)G(i,j) over Σ_j' Σ_i F(u,i)G(i,j'); 0 if that is 0."""
    theta = []
    for u in users:
        liked = {j: sum(1 for i in items if (u, i) in F and j in G[i]) for j in topics}
        total = sum(liked.values())
        theta.append([liked[j] / total if total else 0.0 for j in topics])
    return theta


def agrees(data):
    """Check that w̄ and θ* of the interactions equal those of the transcription."""
    values, G = as_table(data)
    plain = data.users, data.items, data.topics, set(values), G
    catalog, theta = thali.Catalog.estimate(data), thali.preferences(data)
    assert (catalog.items, catalog.topics) == (data.items, data.topics)
    np.testing.assert_allclose(catalog.dense, plain_attraction(*plain), rtol=0, atol=1e-12)
    np.testing.assert_allclose(theta.tolist(), plain_preferences(*plain), rtol=0, atol=1e-12)
    assert catalog.dense.min() >= 0.0
    assert catalog.dense.max() <= 1.0
    nothing = [not any(G[i] for u, i in values if u == name) for name in data.users]
    np.testing.assert_allclose(theta.sum(axis=1), np.where(nothing, 0.0, 1.0), rtol=0, atol=1e-12)


@given(table=tables())
def test_of_contains_its_input_with_names_in_ascending_order(table):
    values, topics = table
    data = interactions(values, topics)
    assert as_table(data) == (values, topics)
    assert data.users == tuple(sorted({u for u, _ in values}))
    assert data.items == tuple(sorted(topics))
    assert data.topics == tuple(sorted(set().union(*topics.values())))


@given(table=tables(), at_least=STARS)
@example(table=({("a", 1): 5.0, ("b", 2): 1.0}, {1: {"x"}, 2: {"y"}, 3: set()}), at_least=5.0)
def test_estimates_equal_those_of_the_paper(table, at_least):
    values, topics = table
    everything = interactions(values, topics)
    data = everything.attracted(at_least=at_least)
    assert as_table(data) == ({pair: value for pair, value in values.items() if value >= at_least}, topics)
    assert (data.users, data.items, data.topics) == (everything.users, everything.items, everything.topics)
    agrees(everything)
    agrees(data)


@given(table=tables(), smoothing=st.sampled_from([0.0, 0.25, 1.0, 30.0]))
def test_smoothing_adds_average_people_to_each_topic_and_0_adds_none(table, smoothing):
    values, topics = table
    data = interactions(values, topics)
    liked = {i: {u for u, item in values if item == i} for i in topics}
    expected = np.zeros((len(data.items), len(data.topics)))
    for j, topic in enumerate(data.topics):
        members = [i for i in data.items if topic in topics[i]]
        fans = len(set().union(*(liked[i] for i in members)))
        average = sum(len(liked[i]) for i in members) / max(1, fans) / len(members)
        for i in members:
            more = (smoothing * average, smoothing) if smoothing else (0, 0)
            total = fans + more[1] or 1
            expected[data.items.index(i), j] = (len(liked[i]) + more[0]) / total
    weights = thali.Catalog.estimate(data, smoothing=smoothing).dense
    if smoothing == 0.0:  # the paper's estimate, bit for bit
        np.testing.assert_array_equal(weights, expected)
        np.testing.assert_array_equal(weights, thali.Catalog.estimate(data).dense)
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)
    assert weights.max() <= 1.0
    for j, topic in enumerate(data.topics):
        if smoothing and any(topic in topics[i] for _, i in values):
            assert all(weights[data.items.index(i), j] > 0.0 for i in topics if topic in topics[i])


@given(table=tables(users=1))
def test_all_weights_of_one_user_are_0_or_1(table):
    data = interactions(*table)
    agrees(data)
    assert set(thali.Catalog.estimate(data).dense.ravel().tolist()) <= {0.0, 1.0}


@given(table=tables(), users=st.none() | st.integers(1, 7), items=st.none() | st.integers(1, 7), by=st.booleans())
def test_most_active_counts_all_data_and_prefers_the_smaller_name_in_ties(table, users, items, by):
    values, topics = table
    per_user, per_item = {u: 0 for u, _ in values}, dict.fromkeys(topics, 0)
    for (u, i), value in values.items():
        per_user[u] += 1 if by else value
        per_item[i] += 1 if by else value
    kept_users, kept_items = most(per_user, users), most(per_item, items)
    data = interactions(values, topics).most_active(users=users, items=items, by="count" if by else "value")
    assert (data.users, data.items) == (tuple(kept_users), tuple(kept_items))
    assert as_table(data) == (
        {(u, i): value for (u, i), value in values.items() if u in kept_users and i in kept_items},
        {i: topics[i] for i in kept_items},
    )
    agrees(data)


def test_most_active_counts_items_before_it_removes_users():
    rows = [("a", 1, 1.0), ("a", 2, 1.0), ("a", 3, 1.0), ("b", 3, 1.0), ("c", 3, 1.0)]
    data = Interactions.of(rows, {1: ["x"], 2: ["x"], 3: ["x"]}).most_active(users=1, items=1)
    assert (data.users, data.items) == (("a",), (3,))  # among the rows of user a, items 1, 2 and 3 are tied


@given(table=tables(), data=st.data())
def test_top_topics_are_those_with_the_most_selected_items(table, data):
    """Selects twice, the second time among fewer items."""
    selected = interactions(*table)
    for _ in range(2):
        before = selected.most_active(items=data.draw(st.integers(1, 6)))
        values, topics = as_table(before)
        size = {j: sum(1 for i in topics if j in topics[i]) for j in before.topics}
        d = data.draw(st.integers(1, len(size)))
        order = sorted(size, key=lambda j: (-size[j], j))[:d]
        selected = before.top_topics(d)
        assert selected.topics == tuple(order)
        assert selected.topic_counts().tolist() == [size[j] for j in order]
        assert as_table(selected) == (values, {i: topics[i] & set(order) for i in topics})
        agrees(selected)


def test_ties_of_topics_are_broken_by_name_even_if_topics_are_not_in_ascending_order():
    data = Interactions.of([("a", 1, 1.0), ("b", 1, 1.0), ("a", 2, 1.0)], {1: ["x", "y"], 2: ["y"]}).top_topics(2)
    assert data.topics == ("y", "x")
    assert data.most_active(items=1).top_topics(2).topics == ("x", "y")


@given(table=tables(), seed=st.integers(0, 2**40))
def test_split_gives_two_halves_of_the_users_with_all_items_and_topics(table, seed):
    data = interactions(*table)
    train, test = data.split_users(seed)
    assert sorted(train.users + test.users) == list(data.users)
    assert (len(train.users), len(test.users)) == (len(data.users) // 2, (len(data.users) + 1) // 2)
    values, topics = as_table(data)
    for half in (train, test):
        assert half.users == tuple(sorted(half.users))
        assert (half.items, half.topics) == (data.items, data.topics)
        assert as_table(half) == ({pair: value for pair, value in values.items() if pair[0] in half.users}, topics)
        agrees(half)


@given(table=tables(), seed=st.integers(0, 100))
def test_split_depends_on_the_seed_and_the_users_only(table, seed):
    """Not on the order of rows, the values, the items or the topics."""
    values, topics = table
    halves = [half.users for half in interactions(values, topics).split_users(seed)]
    assert [half.users for half in interactions(values, topics).split_users(seed=seed)] == halves
    other = Interactions.of([(u, "one", 1.0) for u in sorted({u for u, _ in values}, reverse=True)], {"one": ["t"]})
    assert [half.users for half in other.split_users(seed)] == halves


def test_split_treats_all_users_equally():
    """Each of 5 users is in the test half of 3 in three fifths of 2000 seeds, within five standard errors."""
    data = Interactions.of([(u, "one", 1.0) for u in range(5)], {"one": ["t"]})
    often = np.zeros(5)
    for seed in range(2000):
        often[list(data.split_users(seed)[1].users)] += 1
    assert (np.abs(often / 2000 - 0.6) <= 5 * np.sqrt(0.6 * 0.4 / 2000)).all()


def arrays(data):
    return (data.user, data.item, data.value, data.membership.data, data.membership.indices, data.membership.indptr)


@given(table=tables(), at_least=STARS)
def test_nothing_is_changed_in_place(table, at_least):
    data = interactions(*table)
    before, names = [array.copy() for array in arrays(data)], (data.users, data.items, data.topics)
    results = [data.most_active(users=1, items=1), data.attracted(at_least), data.top_topics(1), *data.split_users(1)]
    thali.Catalog.estimate(data)
    thali.preferences(data)
    assert (data.users, data.items, data.topics) == names
    for array, was in zip(arrays(data), before, strict=True):
        np.testing.assert_array_equal(array, was)
    for selected in (data, *results):
        assert not any(array.flags.writeable for array in arrays(selected))


@given(table=tables(), seed=st.integers(0, 100))
def test_times_follow_their_rows_through_every_selection(table, seed):
    values, topics = table
    rng = np.random.default_rng(seed)
    times = {pair: float(rng.integers(-5, 5)) for pair in values}
    data = Interactions.of([(u, i, value, times[u, i]) for (u, i), value in values.items()], topics)
    selected = [data.attracted(1.0), data.most_active(users=2, items=2), data.top_topics(1), *data.split_users(seed)]
    if len(data.users) > 1:
        selected += data.hold_out(1, seed)
    for part in (data, *selected):
        assert not part.time.flags.writeable
        pairs = zip(part.user, part.item, part.time, strict=True)
        assert {(part.users[u], part.items[i]): time for u, i, time in pairs} == {
            p: times[p] for p in as_table(part)[0]
        }
    assert interactions(values, topics).time is None


@given(table=tables())
def test_without_topics_the_items_are_those_of_the_rows(table):
    values, _ = table
    data = interactions(values, None)
    assert as_table(data) == (values, {i: set() for _, i in values})
    assert (data.items, data.topics) == (tuple(sorted({i for _, i in values})), ())
    assert Interactions.of([]).items == ()


@given(table=tables(), seed=st.integers(0, 100), people=st.integers(1, 5))
def test_people_are_held_out_with_all_their_rows(table, seed, people):
    values, topics = table
    more = {(f"person {n}", next(iter(topics))): 1.0 for n in range(6)}
    data = interactions({(str(u), i): value for (u, i), value in values.items()} | more, topics)
    others, held = data.hold_out(people, seed)
    assert (len(held.users), sorted(others.users + held.users)) == (people, list(data.users))
    assert (others.items, held.items) == (data.items, data.items)
    rows = [as_table(part)[0] for part in (others, held)]
    assert rows[0] | rows[1] == as_table(data)[0]
    assert [part.users for part in data.hold_out(people, seed)] == [others.users, held.users]


def test_of_copies_its_arguments():
    rows, topics = [("a", 1, 5.0)], {1: ["x"]}
    data = Interactions.of(rows, topics)
    rows.append(("b", 1, 1.0))
    topics[1].append("y")
    assert as_table(data) == ({("a", 1): 5.0}, {1: {"x"}})


DATA = Interactions.of([("a", 1, 5.0), ("b", 2, 4.0)], {1: ["x"], 2: ["x", "y"]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Interactions.of([("a", 9, 1.0)], {1: ["x"]}),
            r"topics must have an entry for every item in rows, but item 9 of user 'a' has none",
        ),
        (
            lambda: Interactions.of([("a", 1, 1.0)] * 2, {1: ["x"]}),
            r"rows must contain each pair of user and item only once, got user 'a' and item 1 twice",
        ),
        (
            lambda: Interactions.of([("a", 1, np.nan)], {1: ["x"]}),
            r"value of 'a' and 1 must be a finite number, got nan",
        ),
        (lambda: Interactions.of([("a", 1, "5")], {1: ["x"]}), r"value of 'a' and 1 must be a finite number, got '5'"),
        (
            lambda: Interactions.of([("a", 1, 1.0)], {1: "xy"}),
            r"topics of an item must be a list of names, not a single string, got 'xy'",
        ),
        (
            lambda: Interactions.of([("a", 1, 1.0, 3.0), ("b", 1, 1.0)]),
            r"rows must all have a time, or none of them, got \('a', 1, 1.0, 3.0\) and \('b', 1, 1.0\)",
        ),
        (lambda: Interactions.of([("a", 1, 1.0, np.inf)]), r"time of 'a' and 1 must be a finite number, got inf"),
        (lambda: Interactions.of([("a", 1, 1.0, "now")]), r"time of 'a' and 1 must be a finite number, got 'now'"),
        (lambda: Interactions.of([("a", 1)]), r"rows must be tuples \(user, item, value\) or .* got \('a', 1\)"),
        (lambda: DATA.hold_out(2), r"people of hold_out must be a whole number from 1 to 1, got 2"),
        (lambda: thali.Catalog.estimate(DATA, smoothing=-1), r"smoothing must be a number of at least 0, got -1"),
        (lambda: thali.Catalog.estimate(DATA, smoothing=np.nan), r"smoothing must be a number of at least 0, got nan"),
        (lambda: DATA.most_active(users=0), r"users of most_active must be a whole number of at least 1, got 0"),
        (lambda: DATA.most_active(items=-1), r"items of most_active must be a whole number of at least 1, got -1"),
        (lambda: DATA.most_active(items=1.5), r"items of most_active must be a whole number of at least 1, got 1.5"),
        (lambda: DATA.most_active(users=True), r"users of most_active must be a whole number of at least 1, got True"),
        (lambda: DATA.most_active(by="stars"), r"argument 'by' of most_active must be 'count' or 'value', got 'stars'"),
        (lambda: DATA.attracted(np.nan), r"at_least of attracted must be a finite number, got nan"),
        (lambda: DATA.attracted("5"), r"at_least of attracted must be a finite number, got '5'"),
        (lambda: DATA.top_topics(0), r"d of top_topics must be a whole number of at least 1, got 0"),
        (lambda: DATA.top_topics(3), r"d of top_topics must be at most the number of topics \(2\), got 3"),
        (lambda: DATA.top_topics(1.0), r"d of top_topics must be a whole number of at least 1, got 1.0"),
        (lambda: DATA.split_users(-1), r"seed must be a whole number of at least 0, got -1"),
        (lambda: DATA.split_users(None), r"seed must be a whole number of at least 0, got None"),
        (lambda: DATA.topics_of(3), r"item must be in the data, got 3"),
        (
            lambda: thali.Catalog.estimate([("a", 1)]),
            r"interactions must be a thali.datasets.Interactions, got \[\('a', 1\)\]",
        ),
        (lambda: thali.preferences(None), r"interactions must be a thali.datasets.Interactions, got None"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def shared_data():
    """The folder of data sets: $THALI_DATA if it is set, otherwise shared/data next to the repository."""
    return Path(os.environ.get("THALI_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.slow
def test_movielens_1m_equals_the_transcription_applied_to_the_publishers_files():
    folder = shared_data() / "ml-1m"
    if not (folder / "ratings.dat").is_file():
        pytest.skip(f"MovieLens 1M is not at {folder}: set $THALI_DATA to the folder that holds ml-1m/")
    with open(folder / "movies.dat", encoding="latin-1") as file:
        G = {int(line.split("::")[0]): set(line.rstrip("\n").split("::")[2].split("|")) for line in file}
    rated, per_user, per_item = {}, {}, dict.fromkeys(G, 0)
    with open(folder / "ratings.dat", encoding="latin-1") as file:
        for line in file:
            u, i, stars = (int(field) for field in line.split("::")[:3])
            rated[u, i] = stars
            per_user[u] = per_user.get(u, 0) + 1
            per_item[i] += 1
    users, items = most(per_user, 1000), most(per_item, 1000)
    size = {}
    for i in items:
        for j in G[i]:
            size[j] = size.get(j, 0) + 1
    topics = sorted(size, key=lambda j: (-size[j], j))[:18]
    F = {(u, i) for (u, i), stars in rated.items() if stars == 5} & {(u, i) for u in users for i in items}

    chosen = thali.datasets.movielens_1m(shared_data()).most_active(users=1000, items=1000)
    data = chosen.attracted(at_least=5).top_topics(18)
    assert [int(u) for u in data.users] == users
    assert [int(i) for i in data.items] == items
    assert list(data.topics) == topics
    assert len(data) == len(F)
    assert 0.07 < data.density < 0.09  # "about 8% of user-item pairs in our dataset are attractive"
    for half in data.split_users(seed=0):
        plain = [int(u) for u in half.users], items, topics, F, G
        np.testing.assert_allclose(thali.Catalog.estimate(half).dense, plain_attraction(*plain), rtol=0, atol=1e-12)
        np.testing.assert_allclose(thali.preferences(half), plain_preferences(*plain), rtol=0, atol=1e-12)
