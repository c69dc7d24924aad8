"""The sample catalog included in thali: dishes from around the world, to try thali without your own data."""

from pathlib import Path

from thali.datasets.weights import Weights, weights


def dishes() -> Weights:
    """Load 200 dishes, each with 1 to 4 of 16 topics such as bread, soup and spicy, for ``thali.Catalog(*dishes())``.

    The dishes are real. Each weight w̄ is our judgment, in steps of 0.05, of how strongly the dish attracts someone who
    loves the topic. It is 0.6 or more for the topics that the dish is known for, and less for its other topics. The
    list was compiled for thali and has the same license. It is in the file dishes.csv next to this module.

    Cost: each call reads the file, which takes a few milliseconds. The first call also imports polars.

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
