"""The sample catalog that comes with thali: dishes of the world, to try thali without your own data."""

from pathlib import Path

from thali.datasets.weights import Weights, weights


def dishes() -> Weights:
    """200 dishes, each with 1 to 4 of 16 topics such as bread, soup and spicy, for ``thali.Catalog(*dishes())``.

    The dishes are real. Their weights w̄ are our judgement, in steps of 0.05, of how strongly the dish attracts someone
    who loves the topic: 0.6 and more for what it is known for, less for its other topics. The list was compiled for
    thali, has the same licence, and is in dishes.csv beside this file.
    Cost: each call reads the file, in a few milliseconds; the first call also imports polars.

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
