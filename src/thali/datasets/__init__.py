"""Publishers' files and your own tables → :class:`Interactions`."""

from thali.datasets.interactions import Interactions
from thali.datasets.movielens import (
    movielens,
    movielens_1m,
    movielens_10m,
    movielens_20m,
    movielens_25m,
    movielens_32m,
    movielens_100k,
)
from thali.datasets.tables import tables

__all__ = [
    "Interactions",
    "movielens",
    "movielens_1m",
    "movielens_10m",
    "movielens_20m",
    "movielens_25m",
    "movielens_32m",
    "movielens_100k",
    "tables",
]
