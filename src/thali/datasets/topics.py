"""Topics that are learned from who liked what, and their names."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from re import fullmatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.tools.types import Booleans, Floats

# Likes are divided by these powers of the number of likes of the person and of the item (docs/decisions.md).
PERSON_POWER, ITEM_POWER = 0.3, 0.3
# The iterations: with people's factors that are not negative, then with any factors, then with few topics per item.
FIRST, FREE, FINAL = 30, 25, 10
# Weights this much smaller than the length of their column are removed in each iteration before the last ones.
THRESHOLD = 0.005
# The ridge of people's factors, as a share of the mean variance.
RIDGE = 1e-3
#: The largest weight of a learned topic.
LARGEST = 0.1
# In the name of a learned topic: how many items, how many characters of each, and how many digits of the digest.
NAMED, LONGEST, DIGITS = 2, 40, 6
# Divisors are at least this, so that 0/0 is 0.
TINY = 1e-300


class Factors:
    """Factors of likes F (people, items) ≈ U·Wᵀ, where W (items, d) is not negative and sparse, and U is free.

    This is a semi-nonnegative matrix factorization (Ding et al. 2010), by alternating least squares. The entries of W
    are updated column by column (HALS). F is scaled first: a like counts n_u^-0.3·n_i^-0.3, so that people and items
    with many likes do not dominate. One more column of W is fixed: the quality of the items. Topics therefore describe
    what people like beyond what everybody likes. At first, U is not negative either, because W then becomes sparser.
    Then each item keeps its ``most`` largest entries, and these are computed again.

    Parameters
    ----------
    likes: F (people, items), how much each like counts.
    quality: (items,), positive.

    Cost: O((likes + (people + items)·d)·d) for each of 65 iterations.

    """

    def __init__(self, likes: sp.csr_array, quality: Floats) -> None:
        people, items = (np.maximum(1.0, np.asarray(likes.sum(axis=axis)).ravel()) for axis in (1, 0))
        self.item_scale: Floats = items**ITEM_POWER
        scaled = sp.csr_array(sp.diags_array(people**-PERSON_POWER) @ likes @ sp.diags_array(1.0 / self.item_scale))
        self.likes = scaled / max(TINY, float(scaled.data.mean()))
        self.by_item = sp.csr_array(self.likes.T)
        fixed = quality / self.item_scale
        self.fixed: Floats = fixed / np.linalg.norm(fixed)

    def learn(self, d: int, most: int, rng: np.random.Generator) -> Floats:
        """Return W (items, d), each column with a largest entry of 1, except for columns of zeros."""
        W = self._nonnegative(d, rng)
        for _ in range(FREE):
            U, spread = self._people(W)
            W = _normal(_updated(self._columns(W), d, self.by_item @ U, spread, threshold=THRESHOLD))
        _, spread = self._people(W)
        allowed = largest(W * np.sqrt(np.diag(spread)[:d]), most)
        W = W * allowed
        for _ in range(FINAL):
            U, spread = self._people(W)
            W = _normal(_updated(self._columns(W), d, self.by_item @ U, spread, allowed=allowed))
        W = W * self.item_scale[:, None]
        return np.asarray(W / np.maximum(TINY, W.max(axis=0)))

    def fold_in(self, W: Floats, known: Booleans, most: int) -> Floats:
        """Return W (items, d) in which the rows of items that are not known are computed from the others.

        People's factors come from their likes of known items. The row of each other item is then the best one for these
        factors. The rows of known items stay as they are. Cost: O(likes·d + (people + new items)·d²).
        """
        d, new = W.shape[1], np.flatnonzero(~known)
        scaled = W[known] / self.item_scale[known, None]
        length = np.linalg.norm(scaled, axis=0)
        columns = np.column_stack([_normal(scaled), self.fixed[known]])
        U = _solved(columns, self.likes[:, np.flatnonzero(known)] @ columns)
        spread, products = U.T @ U, self.by_item[new] @ U
        rows, fixed = np.zeros((len(new), d)), self.fixed[new]
        for _ in range(FINAL):
            rows = _updated(np.column_stack([rows, fixed]), d, products, spread, threshold=THRESHOLD)
        allowed = largest(rows * np.sqrt(np.diag(spread)[:d]), most)
        rows = rows * allowed
        for _ in range(FINAL):
            rows = _updated(np.column_stack([rows, fixed]), d, products, spread, allowed=allowed)
        folded = W.copy()
        folded[new] = rows * length * self.item_scale[new, None]
        return folded

    def _nonnegative(self, d: int, rng: np.random.Generator) -> Floats:
        """The first iterations, in which people's factors are not negative either."""
        people, items = self.likes.shape
        U, W = rng.random((people, d)), rng.random((items, d))
        for _ in range(FIRST):
            W = _updated(W, d, self.by_item @ U, U.T @ U, least=1e-12)
            W /= np.maximum(TINY, W.max(axis=0))
            U = _updated(U, d, self.likes @ W, W.T @ W, least=1e-12)
        return _normal(W)

    def _people(self, W: Floats) -> tuple[Floats, Floats]:
        """People's factors U (people, d + 1), and UᵀU. The last column belongs to the fixed one."""
        columns = self._columns(W)
        U = _solved(columns, self.likes @ columns)
        return U, U.T @ U

    def _columns(self, W: Floats) -> Floats:
        return np.column_stack([W, self.fixed])


def most_topics(d: int) -> int:
    """Return the largest number of learned topics of an item: 8, or a quarter of all d topics if that is more."""
    return max(8, d // 4)


def largest(values: Floats, most: int) -> Booleans:
    """Return which entries are positive, and among the ``most`` largest of their row. Ties go to the first ones."""
    chosen = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(chosen, np.argsort(-values, axis=1, kind="stable")[:, :most], True, axis=1)
    return np.asarray(chosen & (values > 0.0))


def _updated(
    columns: Floats,
    d: int,
    products: Floats,
    spread: Floats,
    *,
    least: float = 0.0,
    threshold: float = 0.0,
    allowed: Booleans | None = None,
) -> Floats:
    """Return the first d columns of W, updated one after another by least squares: F ≈ U·Wᵀ.

    products, spread: FᵀU and UᵀU. No entry becomes smaller than ``least``. All entries are reduced by the threshold,
    and those that are not allowed become 0.
    """
    columns = columns.copy()
    for k in range(d):
        own = max(TINY, float(spread[k, k]))
        column = columns[:, k] + (products[:, k] - columns @ spread[:, k]) / own - threshold
        columns[:, k] = np.maximum(least, column if allowed is None else column * allowed[:, k])
    return columns[:, :d]


def _normal(W: Floats) -> Floats:
    """Columns of length 1. A column of zeros stays."""
    length = np.linalg.norm(W, axis=0)
    return np.asarray(W / np.where(length > 0.0, length, 1.0))


def _solved(columns: Floats, products: Floats) -> Floats:
    """Least squares with a small ridge: products·(columnsᵀcolumns + ridge·I)⁻¹."""
    gram = columns.T @ columns
    ridge = RIDGE * np.trace(gram) / len(gram) + TINY
    return np.asarray(np.linalg.solve(gram + ridge * np.eye(len(gram)), np.asarray(products).T).T)


def learned_names(W: Floats, items: Sequence[Hashable], titles: Mapping[Any, str] | None = None) -> list[str]:
    """Name each learned topic after its most typical items, with a digest of all of its weights.

    An item is typical if its weight is large, both absolutely and compared with its other topics. The digest depends on
    the names and weights of all items, so different topics have different names, even if they are typical of the same
    items. In titles, characters that cannot be printed become spaces, and long titles are cut.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.datasets.topics import learned_names
    >>> learned_names(np.array([[0.2, 0], [0.1, 0], [0, 0.2]]), [1, 2, 3], {1: "Alien", 2: "Heat", 3: "Emma"})
    ['like Alien, Heat #2fb940', 'like Emma #f2fa39']

    """
    share = W / np.maximum(TINY, W.sum(axis=1, keepdims=True))
    known: Mapping[Any, str] = titles or {}
    names: list[str] = []
    for column, score in zip(W.T, (W * share).T, strict=True):
        typical = [items[int(e)] for e in np.argsort(-score, kind="stable")[:NAMED] if score[e] > 0.0]
        text = ", ".join(_short(str(known.get(name, name))) for name in typical) or "nothing"
        content = sha256(repr([str(items[int(e)]) for e in np.flatnonzero(column)]).encode())
        content.update(column[column != 0.0].tobytes())
        while (name := f"like {text} #{content.hexdigest()[:DIGITS]}") in names:
            content.update(b"another topic with the same weights")
        names.append(name)
    return names


def is_learned(topic: Hashable) -> bool:
    """Return whether a topic has the name of a learned one."""
    return fullmatch(rf"like .* #[0-9a-f]{{{DIGITS}}}", str(topic)) is not None


def _short(text: str) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split()) or "?"
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
