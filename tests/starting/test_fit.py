"""thali.fit: planted tastes are found, everything is reproducible, and bad input is refused."""

import re

import numpy as np
import pytest
from tastes import likes_of_groups, only_items, shuffled

import thali
from thali.datasets import Interactions, Log
from thali.datasets.topics import is_learned, most_topics
from thali.starting.weight import WEIGHTS


def same(one, other):
    """Whether two results are the same, bit for bit."""
    return (
        list(one.catalog.topics) == list(other.catalog.topics)
        and list(one.catalog.items) == list(other.catalog.items)
        and np.array_equal(one.catalog.dense, other.catalog.dense)
        and one.prior == other.prior
        and one.quality == other.quality
        and (one.weight, one.people) == (other.weight, other.people)
    )


def log_of(data, K=5, lists=4, seed=0, **settings):
    """A log of random lists of the items, in which each person clicks what they like."""
    rng = np.random.default_rng(seed)
    liked, rows = data.matrix().toarray() > 0, []
    for u, name in enumerate(data.users):
        for n in range(lists):
            items = rng.permutation(len(data.items))[:K]
            clicked = np.flatnonzero(liked[u, items]).tolist()
            rows.append((name, [data.items[e] for e in items], clicked, 10.0 * n))
    return Log.of(rows, **settings)


GENRES = {f"{letter}{e}": [f"genre {letter}", "film"] for letter in "abc" for e in range(8)}


# Reproducible


@pytest.mark.parametrize("how", [{}, {"topics": "both", "d": 2}, {"half_life": 3.0, "d": 3}])
def test_the_seed_determines_every_bit_whatever_the_order_of_rows(how):
    data = likes_of_groups(topics=GENRES)
    data = data._with(time=np.random.default_rng(0).integers(10, size=len(data)).astype(float))
    start = thali.fit(data, **how)
    assert same(thali.fit(data, **how, seed=0), start)
    assert same(thali.fit(shuffled(data), **how), start)
    assert list(thali.fit(data, **how, seed=1).catalog.topics) != list(start.catalog.topics)


def test_a_log_in_another_order_gives_the_same():
    log = log_of(likes_of_groups((12, 12), items=6))
    rows = [
        (log.users[s.user], [log.items[e] for e in s.items], np.flatnonzero(s.clicked).tolist(), s.time) for s in log
    ]
    mixed = Log.of([rows[n] for n in np.random.default_rng(0).permutation(len(rows))])
    assert same(thali.fit(mixed, d=2), thali.fit(log, d=2))


# Planted tastes


def test_learned_topics_are_sparse_unique_and_named_after_planted_groups():
    data = likes_of_groups((30, 30), own=0.9, other=0.02)
    titles = {name: {"a": "Alien ", "b": "Brazil "}[name[0]] + name[1] for name in data.items}
    start = thali.fit(data, d=2, titles=titles)
    assert repr(start) == "Start(16 items, 2 learned and 0 given topics, quality; prior from 60 people)"
    assert start.catalog.topics[-1] == "quality"
    assert start.catalog.fading.tolist() == [True, True, False]
    learned = list(start.catalog.topics[:-1])
    assert sorted(re.fullmatch(r"like (\w+) \d, (\w+) \d #[0-9a-f]{6}", name).groups() for name in learned) == [
        ("Alien", "Alien"),
        ("Brazil", "Brazil"),
    ]
    weights = start.catalog.dense
    assert weights.min() >= 0.0
    assert weights.max() <= 1.0
    other = thali.fit(likes_of_groups((30, 30), own=0.9, other=0.02, seed=1), d=2, titles=titles)
    assert set(other.catalog.topics) & set(learned) == set()  # because their digests differ
    many = thali.fit(likes_of_groups((40, 40, 40)), d=20).catalog
    assert len(set(many.topics)) == many.d <= 21
    assert (many.dense[:, :-1] > 0.0).sum(axis=1).max() <= most_topics(20) == 8


@pytest.mark.parametrize("make", [lambda data: data, lambda data: log_of(data, K=8, lists=6, examined="all")])
def test_after_a_click_the_next_list_has_items_that_the_same_people_like(make):
    data = likes_of_groups(own=0.8, other=0.03)
    start = thali.fit(make(data), d=3)
    policy = start.policy(K=4)
    first = policy.recommend(policy.init(1))[0]
    for letter in "abc":
        state = policy.init(1)
        clicked = next(e for e, name in enumerate(data.items) if name[0] == letter and e not in first)
        shown = [clicked, *(e for e in first if data.items[e][0] != letter)][:4]
        shown += [e for e in range(24) if data.items[e][0] != letter and e not in shown][: 4 - len(shown)]
        policy.update(state, [shown], [[True, False, False, False]])
        found = [data.items[e] for e in policy.recommend(state, exclude=shown)[0]]
        assert sum(name[0] == letter for name in found) >= 3


def test_the_first_list_earns_at_least_what_popular_items_earn_and_later_lists_earn_more():
    first, later = np.zeros(2), np.zeros(2)
    for seed in range(3):
        # The groups have different sizes, so the most popular items are those of one group.
        train, test = likes_of_groups((60, 45, 30), items=10, own=0.5, other=0.1, seed=seed).hold_out(40, seed)
        start = thali.fit(train, d=3)
        people = thali.Likes.of(test, start.catalog)
        quality = thali.Catalog(start.catalog.dense[:, -1:], start.catalog.items, fading=[False])
        popular = thali.CascadeLSB(quality, 5, prior=thali.Prior(1.0, [[1e-9]]), alpha=0.0)
        for n, policy in enumerate((start.policy(K=5), popular)):
            first[n] += people.click_probability(policy.recommend(policy.init(40))).mean()
            later[n] += thali.simulate(policy, people, steps=5, seed=0, hide="examined").value[:, -1].mean()
    assert first[0] >= first[1]
    assert later[0] > 1.05 * later[1]


def test_every_item_can_be_shown_even_if_nobody_likes_it():
    topics = GENRES | {"new": ["genre a"], "strange": ["nobody's genre"], "bare": []}
    for kind in ("learned", "given", "both"):
        data = likes_of_groups(topics=topics)
        catalog = thali.fit(data, kind, 4).catalog
        assert (catalog.dense[:, -1] > 0.0).all()
        if kind != "learned":
            given = {topic: catalog.topic_index(topic) for topic in catalog.topics if not is_learned(topic)}
            del given["quality"]
            for name, own in topics.items():
                for topic in set(own) & set(given) - {"nobody's genre"}:
                    assert catalog.dense[catalog.item(name), given[topic]] > 0.0
        start = thali.fit(data, kind, 4)
        policy = start.policy(K=3)
        state, seen = policy.init(1), []
        assert (catalog.dense @ policy.estimate(state)[0] > 0.0).all()  # every item is expected to attract somebody
        while len(seen) < catalog.L:
            seen += policy.recommend(state, exclude=seen)[0].tolist()
        assert sorted(seen) == list(range(catalog.L))


def test_given_topics_are_those_of_the_data_with_smoothed_weights():
    data = likes_of_groups(topics=GENRES)
    start = thali.fit(data, "given", 4)
    assert list(start.catalog.topics) == ["film", "genre a", "genre b", "genre c", "quality"]
    np.testing.assert_array_equal(start.catalog.dense[:, :-1], thali.Catalog.estimate(data, smoothing=1.0).dense)
    assert repr(start).startswith("Start(24 items, 0 learned and 4 given topics, quality;")
    assert list(thali.fit(data, "given", 2).catalog.topics) == ["film", "genre a", "quality"]  # those with most items
    both = thali.fit(data, "both", 4).catalog
    assert list(both.topics[:4]) == list(start.catalog.topics[:4])
    assert [is_learned(name) for name in both.topics] == [False] * 4 + [True] * 4 + [False]
    # By default a tenth of the people or items.
    assert thali.fit(data).catalog.d == 2 + 1


def test_quality_is_the_share_of_people_who_like_an_item_shrunk():
    data = likes_of_groups(topics=GENRES | {"new": []})
    silent = data._with(users=[*data.users, "somebody who likes nothing"])
    for each in (data, silent):
        start = thali.fit(each, d=2)
        likes = np.bincount(each.item, minlength=25)
        np.testing.assert_array_equal(start.quality.examined, np.full(25, 72.0))
        np.testing.assert_array_equal(start.quality.clicked, likes)
        np.testing.assert_array_equal(start.catalog.dense[:, -1], start.quality.mean)
        assert start.people == 72
    assert 0.0 < start.catalog.dense[start.catalog.item("new"), -1] < start.catalog.dense[:-1, -1].min()
    start.quality.refresh(start.catalog, beta=0.0)  # it belongs to this catalog


def test_the_prior_brings_its_sigma_and_optimism_and_the_weight_is_one_of_three():
    data = likes_of_groups()
    start = thali.fit(data, d=3)
    share = np.bincount(data.item) / 72
    assert start.prior.sigma == pytest.approx(np.sqrt((share * (1 - share)).mean()), rel=1e-12)
    assert any(
        start.weight == pytest.approx(times, rel=1e-9) for times in (1.0, *WEIGHTS)
    )  # all items are popular, so σ² = spread
    policy = start.policy(K=3)
    assert (policy.name, policy.prior, policy.sigma) == ("CascadeLSB", start.prior, start.prior.sigma)
    state = policy.init(1)
    for t in range(4):
        np.testing.assert_allclose(policy.optimism(state), start.prior.optimism * np.sqrt(np.log(1 + t)), rtol=1e-12)
        policy.update(state, policy.recommend(state), [[False] * 3])
    assert start.policy(K=3, sigma=0.2, alpha=1.0).sigma == 0.2
    assert start.policy(K=3, prior=None).prior is None
    few = thali.fit(likes_of_groups((4, 4), items=6), d=2)  # too few people to hold any out
    assert few.weight == pytest.approx(1.0)


# Files


def test_a_fitted_catalog_and_prior_survive_their_files_whatever_the_titles_are(tmp_path):
    data = likes_of_groups()
    titles = {name: f"\x00\x1b[31m{name}\n\ud800" + "x" * 300 for name in data.items}
    start = thali.fit(data, d=3, titles=titles)
    thali.save_catalog(start.catalog, tmp_path / "catalog.parquet")
    start.prior.save(tmp_path / "prior.json")
    catalog, prior = thali.load_catalog(tmp_path / "catalog.parquet"), thali.Prior.load(tmp_path / "prior.json")
    assert (list(catalog.topics), list(catalog.items)) == (list(start.catalog.topics), list(start.catalog.items))
    np.testing.assert_array_equal(catalog.dense, start.catalog.dense)
    assert prior == start.prior
    assert (prior.sigma, prior.optimism) == (start.prior.sigma, start.prior.optimism)
    one, other = start.policy(K=4), thali.CascadeLSB(catalog, 4, prior=prior)
    state = one.init(2)
    one.update(state, one.recommend(state), np.eye(2, 4, dtype=bool))
    np.testing.assert_array_equal(one.recommend(state), other.recommend(state))


# like


def test_like_keeps_topics_and_weights_and_folds_new_items_in():
    data = likes_of_groups((30, 30, 30), topics=GENRES)
    fresh = ["a7", "b7", "c0"]
    before = only_items(data, [name for name in data.items if name not in fresh])
    for kind in ("learned", "both"):
        old = thali.fit(before, kind, 3)
        new = thali.fit(data, like=old.catalog)
        assert list(new.catalog.topics) == list(old.catalog.topics)
        assert new.catalog.topics_digest == old.catalog.topics_digest
        assert list(new.catalog.items) == list(data.items)
        learned = np.array([is_learned(name) for name in old.catalog.topics])
        was, now = old.catalog.dense, new.catalog.dense
        for name in before.items:
            np.testing.assert_array_equal(
                now[new.catalog.item(name), learned], was[old.catalog.item(name), learned], err_msg=name
            )
        groups = np.array([[name[0] == letter for name in before.items] for letter in "abc"])
        for name in fresh:
            row = now[new.catalog.item(name), learned]
            own = groups["abc".index(name[0])] @ was[:, learned]
            assert row.argmax() == own.argmax()
            assert 0.5 * was[:, learned].max() < row.max() <= 1.0
            assert 0 < (row > 0.0).sum() <= most_topics(3)
        # What was taught to a policy on the old catalog is used by one on the new catalog.
        policy, after = old.policy(K=4), new.policy(K=4)
        state = policy.init(1)
        clicked = old.catalog.item("b3")
        shown = [clicked, *(e for e in range(21) if before.items[e][0] != "b")][:4]
        policy.update(state, [shown], [[True, False, False, False]])
        found = [data.items[e] for e in after.recommend(state)[0]]
        assert sum(name[0] == "b" for name in found) >= 3
        np.testing.assert_allclose(
            after.estimate(state), thali.CascadeLSB(old.catalog, 4, prior=new.prior).estimate(state)
        )
        # Prior, quality and σ come from the new data.
        assert new.quality.L == 24
        assert new.prior != old.prior


def test_like_takes_given_topics_from_the_data_and_leaves_unknown_ones_out():
    data = likes_of_groups(topics=GENRES)
    old = thali.fit(data, "given", 4).catalog
    more = {name: [*topics, "new genre"] for name, topics in GENRES.items()}
    renamed = {name: ["genre a"] for name in more} | {"a0": ["new genre"]}
    new = thali.fit(likes_of_groups(topics=renamed, seed=3), like=old).catalog
    assert list(new.topics) == list(old.topics)
    estimate = thali.Catalog.estimate(likes_of_groups(topics=renamed, seed=3), smoothing=1.0)
    at = new.topic_index("genre a")
    np.testing.assert_array_equal(new.dense[:, at], estimate.dense[:, estimate.topic_index("genre a")])
    # Topics that the data do not have keep the weights that they had.
    for topic in ("film", "genre b"):
        j = new.topic_index(topic)
        np.testing.assert_array_equal(new.dense[:, j], old.dense[:, j])


def test_like_may_come_from_a_file_in_which_all_names_are_text(tmp_path):
    letters = likes_of_groups((20, 20), items=6)
    data = Interactions.of(
        [(letters.users[u], int(e), 1) for u, e in zip(letters.user, letters.item, strict=True)],
        {e: [1, 2] if e < 6 else [2] for e in range(12)},
    )
    old = thali.fit(data, "both", 2)
    thali.save_catalog(old.catalog, tmp_path / "catalog.parquet")
    new = thali.fit(data, like=thali.load_catalog(tmp_path / "catalog.parquet"))
    np.testing.assert_array_equal(new.catalog.dense, old.catalog.dense)
    assert (list(new.catalog.items), list(new.catalog.topics)) == (list(range(12)), list(map(str, old.catalog.topics)))
    assert new.catalog.topics_digest == old.catalog.topics_digest


# Times


def timed(rows):
    return Interactions.of([(user, item, 1, time) for user, item, time in rows])


def test_with_a_half_life_older_likes_count_less():
    data = timed([("ana", "x", 20), ("ana", "y", 10), ("bob", "x", 0), ("bob", "z", 10), ("eve", "z", 20)])
    start = thali.fit(data, d=1, half_life=10)
    np.testing.assert_allclose(start.quality.clicked, [1 + 1 / 4, 1 / 2, 1 / 2 + 1], rtol=1e-12)
    np.testing.assert_allclose(start.quality.examined, 1 + 1 / 2 + 1, rtol=1e-12)  # bob's latest like is 10 old
    a, b = start.quality.prior
    np.testing.assert_allclose(start.catalog.dense[:, -1], (a + np.array([1.25, 0.5, 1.5])) / (a + b + 2.5), rtol=1e-12)


def test_an_endless_half_life_is_none_and_likes_that_are_far_too_old_count_nothing():
    data = likes_of_groups(own=0.8)
    times = np.random.default_rng(0).uniform(0, 100, len(data))
    assert same(thali.fit(data._with(time=times), d=3, half_life=1e30), thali.fit(data, d=3))
    rows = [(data.users[u], data.items[e], 0) for u, e in zip(data.user, data.item, strict=True)]
    past = [(f"{name} before", "c7", -1e6) for name in data.users]
    recent, now = thali.fit(timed(rows + past), d=3, half_life=10), thali.fit(data, d=3)
    assert recent.quality == now.quality
    assert (recent.people, now.people) == (72, 72)
    with pytest.raises(ValueError, match="likes of at least 2 people, got 1"):
        thali.fit(timed([("ana", "x", 0), ("bob", "x", 1e9)]), half_life=1.0)


def test_people_count_as_much_as_their_latest_like_in_the_prior():
    """Fans of b stopped long ago. With a half-life, they hardly count, so people are expected to like a."""
    data = likes_of_groups((30, 30), items=6)
    of_b = np.array([name[0] == "b" for name in data.users])[data.user]
    data = data._with(time=np.where(of_b, 0.0, 100.0))
    a = [name[0] == "a" for name in data.items]
    expected = {}
    for half_life in (None, 20.0):
        start = thali.fit(data, d=2, half_life=half_life)
        value = start.catalog.dense @ start.prior.mean
        expected[half_life] = value[a].mean() / value[np.invert(a)].mean()
    assert 0.8 < expected[None] < 1.25
    assert expected[20.0] > 2.0


# Logs


def test_a_log_gives_quality_from_examined_positions_and_a_prior_from_all_who_saw_a_list():
    data = likes_of_groups((20, 20), items=6, own=0.7)
    log = log_of(data)
    rows = [(f"silent {n}", list(data.items[:4]), [], 0.0) for n in range(5)]
    kept = [
        (log.users[s.user], [log.items[e] for e in s.items], np.flatnonzero(s.clicked).tolist(), s.time) for s in log
    ]
    log = Log.of([*kept, *rows], {name: [f"genre {name[0]}"] for name in data.items})
    start = thali.fit(log, "both", 2)
    met, liked = np.zeros(12), np.zeros(12)
    for shown in log:
        for e, click in zip(shown.items, shown.clicked, strict=True):
            met[e] += 1
            liked[e] += click
            if click:
                break
    np.testing.assert_array_equal(start.quality.examined, met)
    np.testing.assert_array_equal(start.quality.clicked, liked)
    assert (start.weight, start.people, start.quality.rule) == (1.0, 45, "first-click")
    assert list(start.catalog.topics[:2]) == ["genre a", "genre b"]
    weights = np.where(
        [[name[0] == "a", name[0] == "b"] for name in data.items], 0.25 * start.quality.mean[:, None], 0.0
    )
    np.testing.assert_allclose(start.catalog.dense[:, :2], weights, rtol=1e-12)
    # People who never click teach the prior that people click less.
    least = start.catalog.dense @ start.prior.mean
    clickers = thali.fit(Log.of(kept, {name: [f"genre {name[0]}"] for name in data.items}), "both", 2)
    assert least.mean() < (clickers.catalog.dense @ clickers.prior.mean).mean()
    assert thali.fit(log, "given", 2, half_life=10.0).quality.examined.sum() < met.sum()


def test_items_of_a_log_that_a_catalog_lacks_are_counted_and_named():
    data = likes_of_groups((20, 20), items=6)
    log = log_of(data)
    known = log.within([*data.items[:-1], "never shown"])
    assert (known.dropped.items, known.dropped.names) == (1, ("b5",))
    assert known.dropped.positions > 0
    start = thali.fit(known, d=2)
    assert list(start.catalog.items) == [*data.items[:-1], "never shown"]
    assert start.catalog.dense[-1, -1] > 0.0
    again = thali.fit(log, like=start.catalog)  # and back: the item is new
    assert "b5" in again.catalog.items


def test_titles_of_a_log_name_its_topics():
    log = log_of(likes_of_groups((20, 20), items=6))
    named = log._with(titles={name: f"Film {name}" for name in log.items})
    assert all(name.startswith("like Film ") for name in thali.fit(named, d=2).catalog.topics[:-1])
    other = thali.fit(named, d=2, titles=dict.fromkeys(log.items, "X"))
    assert all(name.startswith("like X, X #") for name in other.catalog.topics[:-1])


# Bad input

DATA = likes_of_groups((6, 6), items=5, topics=None)
FITTED = thali.fit(DATA, d=2).catalog
EMPTY = DATA.attracted(at_least=2)
NAN = DATA._with(value=np.where(np.arange(len(DATA)) == 3, np.nan, 1.0))
STAMPED = DATA._with(time=np.arange(len(DATA), dtype=float))


def with_topics(*names):
    return likes_of_groups((6, 6), items=5, topics={name: list(names) for name in DATA.items})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: thali.fit(DATA, d=13),
            r"d of fit must be at most the number of people who like something \(12\) and of items \(10\), got 13",
        ),
        (lambda: thali.fit(DATA, d=11), r"items \(10\), got 11"),
        (lambda: thali.fit(DATA, d=0), r"d of fit must be a whole number of at least 1, got 0"),
        (lambda: thali.fit(DATA, d=2.0), r"d of fit must be a whole number of at least 1, got 2.0"),
        (lambda: thali.fit(DATA, "genres"), r"topics of fit must be one of 'given', 'learned', 'both', got 'genres'"),
        (lambda: thali.fit(DATA, 30), r"topics of fit must be one of 'given', 'learned', 'both', got 30"),
        (
            lambda: thali.fit(DATA, "given"),
            r"data of fit must have topics unless topics is 'learned', got data without",
        ),
        (lambda: thali.fit(DATA, "both", 2), r"data of fit must have topics unless topics is 'learned'"),
        (lambda: thali.fit(with_topics("quality"), "given"), r"must not be called 'quality', .* got 'quality'"),
        (lambda: thali.fit(with_topics("like x #123abc"), "both"), r"nor like a learned topic, got 'like x #123abc'"),
        (lambda: thali.fit(EMPTY), r"data of fit must contain at least one like, got none"),
        (lambda: thali.fit(Interactions.of([])), r"data of fit must contain at least one like, got none"),
        (lambda: thali.fit(Log.of([("ana", ["x"], []), ("bob", ["x"], [])])), r"at least one like, got none"),
        (lambda: thali.fit(Interactions.of([("ana", "x", 1), ("ana", "y", 1)])), r"likes of at least 2 people, got 1"),
        (lambda: thali.fit(NAN), r"data of fit must have finite values, got nan"),
        (
            lambda: thali.fit([("ana", "x", 1)]),
            r"data of fit must be a thali.datasets.Interactions or a thali.Log, got \[",
        ),
        (lambda: thali.fit(FITTED), r"data of fit must be a thali.datasets.Interactions or a thali.Log, got Catalog"),
        (lambda: thali.fit(DATA, seed=-1), r"seed of fit must be a whole number of at least 0, got -1"),
        (lambda: thali.fit(DATA, seed=None), r"seed of fit must be a whole number of at least 0, got None"),
        (
            lambda: thali.fit(DATA, titles=["x"]),
            r"titles of fit must be a mapping from items to their titles, got \['x'\]",
        ),
        (
            lambda: thali.fit(DATA, half_life=3),
            r"half_life of fit needs data with times, got half_life=3 and data without",
        ),
        (lambda: thali.fit(STAMPED, half_life=0), r"half_life of fit must be a number above 0, got 0"),
        (lambda: thali.fit(STAMPED, half_life=np.inf), r"half_life of fit must be a number above 0, got inf"),
        (lambda: thali.fit(STAMPED, half_life="day"), r"half_life of fit must be a number above 0, got 'day'"),
        (
            lambda: thali.fit(STAMPED._with(time=STAMPED.time * np.nan), half_life=3),
            r"all times are finite, got half_life=3",
        ),
        (
            lambda: thali.fit(log_of(DATA)._with(time=np.append(np.nan, np.ones(47))), half_life=3),
            r"all times are finite",
        ),
        (lambda: thali.fit(DATA, d=2, like=FITTED), r"d of fit must not be given with like, .* got 2"),
        (
            lambda: thali.fit(DATA, "learned", like=FITTED),
            r"topics of fit must not be given with like, .* got 'learned'",
        ),
        (
            lambda: thali.fit(DATA, like=thali.Catalog([[0.5], [0.4]])),
            r"like of fit must be a catalog from thali.fit, .* last topic 0",
        ),
        (
            lambda: thali.fit(DATA, like=thali.Catalog([[0.5, 0.1]], topics=["crime", "quality"])),
            r"like of fit must be a catalog from thali.fit, whose last topic 'quality' is its only steady one, or",
        ),
        (lambda: thali.fit(DATA, like=thali.fit(DATA, d=2)), r"like of fit must be a thali.Catalog, got Start"),
        (
            lambda: thali.fit(Interactions.of([("ana", "x", 1), ("bob", "y", 1)]), like=FITTED),
            r"like of fit must have at least one item of the data, got Catalog\(L=10, d=3.*\) with none of them",
        ),
    ],
)
def test_bad_input_is_refused_with_argument_rule_and_value(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
