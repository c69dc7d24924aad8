"""Load published data sets and your own tables as :class:`Interactions`, and a sample catalog as :class:`Weights`.

- Films: ``movielens_100k`` to ``movielens_32m``, and ``movielens`` for any folder of MovieLens files.
- Music: ``taste_profile`` (songs) and ``hetrec_lastfm`` (artists).
- Restaurants: ``yelp``, ``yelp_core40`` and ``yelp_hin``.
- Your own tables: ``tables``.
- A sample catalog, which needs no data: ``dishes``.
"""

from thali.datasets.dishes import dishes
from thali.datasets.interactions import Interactions
from thali.datasets.movielens import (
    movielens,
    movielens_1m,
    movielens_10m,
    movielens_20m,
    movielens_25m,
    movielens_32m,
    movielens_100k,
    movielens_titles,
)
from thali.datasets.songs import hetrec_lastfm, taste_profile
from thali.datasets.tables import tables
from thali.datasets.weights import Weights
from thali.datasets.yelp import yelp, yelp_core40, yelp_hin

__all__ = [
    "Interactions",
    "Weights",
    "dishes",
    "hetrec_lastfm",
    "movielens",
    "movielens_1m",
    "movielens_10m",
    "movielens_20m",
    "movielens_25m",
    "movielens_32m",
    "movielens_100k",
    "movielens_titles",
    "tables",
    "taste_profile",
    "yelp",
    "yelp_core40",
    "yelp_hin",
]
