"""People whose likes are known, from a data set: they click the first item that they like."""

from __future__ import annotations

from collections.abc import Hashable
from reprlib import repr as short
from typing import Any, Self

import numpy as np

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.people.cascade import Cascade
from thali.tools import checks
from thali.tools.types import Booleans


class Likes(Cascade):
    """People who click the first item in the list that they like, and then leave. If they like none, they do not click.

    This is a cascade in which an item attracts with probability 1 or 0, so nothing is random. A policy may find out in
    one list what a person likes, and then show it again and again. To measure what is found beyond that, hide what was
    clicked or examined: ``simulate(..., hide="examined")``. Memory: 1 byte for each user and item.

    Attributes
    ----------
    names: the names of the users, if the model was made by :meth:`of`; otherwise their numbers.
    unknown: the number of interactions that :meth:`of` left out, because the catalog does not have the item.

    Examples
    --------
    >>> import thali
    >>> people = thali.Likes([[False, True, False, True]])
    >>> people.respond([[0, 3, 1]], uniforms=[[0.5, 0.5, 0.5]])
    array([[False,  True, False]])
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Heat", 5), ("ana", "Fargo", 2), ("bob", "Ronin", 4), ("bob", "Solaris", 5)],
    ...     {"Heat": ["crime"], "Fargo": ["crime", "comedy"], "Ronin": ["crime"], "Solaris": []},
    ... )
    >>> catalog = thali.Catalog([[1.0], [0.5], [0.8]], items=["Fargo", "Heat", "Ronin"])
    >>> people = thali.Likes.of(data.attracted(at_least=4), catalog)
    >>> people.names, people.best_lists(1), people.unknown    # "Solaris" is not in the catalog
    (('ana', 'bob'), array([[1],
           [2]]), 1)

    """

    names: tuple[Hashable, ...]
    unknown: int = 0

    def __init__(self, liked: Any) -> None:
        """liked: bool (users, L), whether each user likes each item."""
        each = "one for each user and item"
        own = checks.booleans("liked of Likes", liked, (None, None), "(users, L)", each).copy()
        own.flags.writeable = False
        self._attraction: Any = own
        self.users, self.L = own.shape
        self.names = tuple(range(self.users))

    @property
    def liked(self) -> Booleans:
        """Whether each user likes each item (users, L), read-only."""
        return np.asarray(self._attraction)

    @classmethod
    def of(cls, interactions: Interactions, catalog: Catalog, *, drop: bool = False) -> Self:
        """Return the users of a data set, who like every item that they interacted with.

        Every interaction counts, so keep only the likes first: ``interactions.attracted(at_least=4)``.

        Parameters
        ----------
        interactions: users, items and the interactions between them.
        catalog: the catalog of the policy. Items are matched by name. Interactions with items that it does not have
            are left out and counted in ``unknown``.
        drop: what happens to users who like no item of the catalog. False: they are an error. True: they are left out;
            ``names`` says who remains.

        """
        checks.instance("interactions of Likes.of", interactions, Interactions)
        checks.instance("catalog of Likes.of", catalog, Catalog)
        checks.flag("drop of Likes.of", drop)
        found = [catalog.find(name) for name in interactions.items]
        number = np.array([-1 if e is None else e for e in found], dtype=np.int64)[interactions.item]
        known = number >= 0
        liked = np.zeros((len(interactions.users), catalog.L), dtype=np.bool_)
        liked[interactions.user[known], number[known]] = True
        likes_any = liked.any(axis=1)
        if not drop and not likes_any.all():
            without = [interactions.users[user] for user in np.flatnonzero(~likes_any)]
            raise ValueError(
                "users of Likes.of must each like at least one item of the catalog (drop=True leaves the others out), "
                f"got {len(without)} without: {short(without)}"
            )
        if not likes_any.any():
            raise ValueError("users of Likes.of must like at least one item of the catalog, got none who does")
        model = cls(liked[likes_any])
        model.catalog = catalog
        model.names = tuple(interactions.users[user] for user in np.flatnonzero(likes_any))
        model.unknown = int((~known).sum())
        return model
