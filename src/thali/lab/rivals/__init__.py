"""What people would use instead of thali, as policies: popular items, one diverse list, item kNN, iALS and EASE.

They know the likes of other people (:class:`KnownLikes`), and what a person examined and clicked so far.
"""

from collections.abc import Callable
from functools import partial

from thali.lab.rivals.base import LikesPolicy
from thali.lab.rivals.diverse import StaticDiverse
from thali.lab.rivals.factors import IALS
from thali.lab.rivals.items import EASE, ItemKNN
from thali.lab.rivals.likes import KnownLikes
from thali.lab.rivals.popular import Popular
from thali.lab.rivals.tuning import GRIDS, Trial, Tuning, lists_with_a_click, tune

#: For each name, a class (or a class with some settings) that creates the policy from a catalog, K and likes.
RIVALS: dict[str, Callable[..., LikesPolicy]] = {
    "Popular": Popular,
    "Popular-learning": partial(Popular, learning="learning"),
    "StaticDiverse": StaticDiverse,
    "ItemKNN": ItemKNN,
    "IALS": IALS,
    "EASE": EASE,
}

__all__ = [
    "EASE",
    "GRIDS",
    "IALS",
    "RIVALS",
    "ItemKNN",
    "KnownLikes",
    "LikesPolicy",
    "Popular",
    "StaticDiverse",
    "Trial",
    "Tuning",
    "lists_with_a_click",
    "tune",
]
