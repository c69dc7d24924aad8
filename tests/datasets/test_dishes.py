"""The catalog of dishes in thali: its format, its documented properties, and that diverse lists help on it."""

import csv
import unicodedata
from pathlib import Path

import numpy as np

import thali


def test_the_file_has_one_layout():
    """Sorted, composed UTF-8, LF, weights in steps of 0.05 written in one way. So a diff shows only real changes."""
    text = Path(thali.datasets.__file__).with_name("dishes.csv").read_bytes().decode()
    assert text == unicodedata.normalize("NFC", text)
    header, *rows = csv.reader(text.splitlines())
    assert header == ["item", "topic", "weight"]
    assert rows == sorted(rows)
    assert all(weight == f"{round(float(weight) * 20) / 20:g}" for _, _, weight in rows)
    assert text == "".join(",".join(row) + "\n" for row in [header, *rows])


def test_names_are_short_and_easy_to_tell_apart():
    _, items, topics = thali.datasets.dishes()
    assert 190 <= len(items) <= 210
    assert 12 <= len(topics) <= 16
    assert all(topic.isascii() and topic.isalpha() and topic.islower() for topic in topics)
    assert max(map(len, items)) <= 28
    assert items == [name.strip() for name in items]
    plain = {"".join(filter(str.isalnum, unicodedata.normalize("NFD", name))).casefold() for name in items}
    assert len(plain) == len(items)


def test_every_topic_has_enough_dishes_and_every_dish_its_own_weights():
    stored = thali.datasets.dishes().weights
    assert 0.2 <= stored.data.min() <= stored.data.max() < 1
    weights = stored.toarray()
    given = weights > 0
    assert set(given.sum(axis=1)) == {1, 2, 3, 4}
    assert 2.2 <= given.sum(axis=1).mean() <= 2.6
    assert 14 <= given.sum(axis=0).min() <= given.sum(axis=0).max() <= 60
    assert (weights >= 0.7).sum(axis=0).min() >= 4
    assert (weights >= 0.9).sum() <= 10
    assert len(np.unique(weights, axis=0)) == len(weights)


def test_diverse_lists_please_everyone_better():
    """As on the page: after 2,000 lists, none of 20 people is better off with the learner that is not diverse."""
    catalog = thali.Catalog(*thali.datasets.dishes())
    people = thali.DiverseCascade(catalog, np.random.default_rng(0).dirichlet(np.full(catalog.d, 0.5), size=20))
    diverse, plain = (
        thali.simulate(policy(catalog, K=6), people, steps=2_000, seed=0, points=1).regret[:, -1]
        for policy in (thali.CascadeLSB, thali.CascadeLinUCB)
    )
    assert diverse.mean() < plain.mean() / 2
    assert (diverse < plain).all()
