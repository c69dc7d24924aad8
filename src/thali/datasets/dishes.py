"""The catalog that comes with thali: dishes of the world, to play without data of one's own."""

from pathlib import Path

from thali.datasets.weights import Weights, weights


def dishes() -> Weights:
    """200 dishes, each with 1 to 4 of 16 topics such as bread, soup and spicy, for ``thali.Catalog(*dishes())``.

    The dishes are real; their weights w̄ are our judgement, in steps of 0.05: how strongly the dish attracts someone who
    loves the topic. 0.6 and more is what it is known for, less what it has as well. They were compiled for thali, are
    under its licence, and lie in dishes.csv beside this file.
    Cost: the file is read at each call, in some milliseconds; the first call also imports polars.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog(*thali.datasets.dishes())
    >>> catalog.L, catalog.d
    (200, 16)
    >>> theta = [[{"noodles": 0.6, "sweet": 0.4}.get(topic, 0.0) for topic in catalog.topics]]
    >>> [catalog.items[e] for e in thali.greedy_lists(catalog, theta, K=4)[0]]
    ['tonkotsu ramen', 'baklava', 'pad thai', 'jalebi']

    """
    return weights(Path(__file__).with_name("dishes.csv"))
