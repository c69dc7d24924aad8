"""Load data sets as :class:`Interactions`, lists as :class:`thali.Log`, and a sample catalog as :class:`Weights`.

- Films: ``movielens_100k`` to ``movielens_32m``, and ``movielens`` for any folder of MovieLens files.
- Music: ``taste_profile`` (songs) and ``hetrec_lastfm`` (artists).
- Restaurants: ``yelp``, ``yelp_core40`` and ``yelp_hin``.
- Your own tables: ``tables``.
- Lists of films that were shown to people, and what they clicked: ``ranklens``. Your own lists: :meth:`thali.Log.read`.
- A sample catalog, which needs no data: ``dishes``.
"""

from thali.datasets.dishes import dishes
from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
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
from thali.datasets.ranklens import ranklens
from thali.datasets.songs import hetrec_lastfm, taste_profile
from thali.datasets.tables import tables
from thali.datasets.weights import Weights
from thali.datasets.yelp import yelp, yelp_core40, yelp_hin

__all__ = [
    "Interactions",
    "Log",
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
    "ranklens",
    "tables",
    "taste_profile",
    "yelp",
    "yelp_core40",
    "yelp_hin",
]
