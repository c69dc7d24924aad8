"""People in groups who like the same items, as interactions."""

import numpy as np

from thali.datasets import Interactions


def likes_of_groups(people=(24, 24, 24), items=8, *, own=0.8, other=0.05, seed=0, topics=None):
    """Likes of several groups. Group g likes the items "a0", "a1", ... with the letter of its number.

    people: the size of each group. items: the number of items of each group. own, other: how likely it is that a person
    likes an item of their own group, and of another one.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for group, size in enumerate(people):
        for n in range(size):
            for letter in range(len(people)):
                share = own if letter == group else other
                liked = np.flatnonzero(rng.random(items) < share)
                rows += [(f"{'abcdef'[group]}-fan {n:03}", f"{'abcdef'[letter]}{e}", 1) for e in liked]
    return Interactions.of(rows, topics)


def shuffled(data, seed=0):
    """The same interactions with their rows in another order."""
    order = np.random.default_rng(seed).permutation(len(data))
    return data._with(
        user=data.user[order],
        item=data.item[order],
        value=data.value[order],
        time=None if data.time is None else data.time[order],
    )


def only_items(data, names):
    """The interactions with these items only."""
    return data._take(np.arange(len(data.users)), np.array([data.items.index(name) for name in names]))
