"""iALS: factors of people and items, from weighted least squares."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.lab.rivals.base import PersonalPolicy
from thali.lab.rivals.likes import KnownLikes
from thali.tools import checks, extras
from thali.tools.types import Floats


class IALS(PersonalPolicy):
    """Implicit alternating least squares (Hu et al. 2008), fitted by the library ``implicit``.

    The factors x of people and y of items minimize Σ_ui c_ui·(F_ui - x_u·y_i)² + λ·(Σ_u ‖x_u‖² + Σ_i ‖y_i‖²). If person
    u likes item i, F_ui = 1 and c_ui = c, the ``confidence``. Otherwise, F_ui = 0 and c_ui = 1. The x of a new person
    minimizes the same sum with fixed Y, and with clicks as likes: x = (YᵀY + (c - 1)·Σ_i y_i y_iᵀ + λI)⁻¹ c·Σ_i y_i,
    where the sums are over the items that the person clicked. The score of an item is x·y.

    Parameters
    ----------
    likes, popularity: as in :class:`PersonalPolicy`.
    factors: the length f of x and y, at least 1.
    regularization: λ, above 0.
    confidence: c, at least 1. ``implicit`` calls it alpha.
    iterations: how often to fit x and then y, at least 1.
    seed: random seed for the first factors.

    Cost for each user: O(f³ + f²·clicks + f·L) to recommend. Fitting takes O(iterations·(f·likes + f²·(n + L))) with
    the conjugate gradient method, and one thread, so that the result depends only on the settings.

    """

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        likes: Interactions | KnownLikes,
        *,
        factors: int = 64,
        regularization: float = 10.0,
        confidence: float = 15.0,
        iterations: int = 15,
        seed: int = 0,
        popularity: float = 0.0,
        threads: int = 1,
    ) -> None:
        extras.require(self.name, "lab", "implicit")
        super().__init__(catalog, K, likes, popularity=popularity, threads=threads)
        self.factors = checks.integer(f"factors of {self.name}", factors, low=1)
        self.regularization = checks.number(f"regularization of {self.name}", regularization, low=0.0, strict=True)
        self.confidence = checks.number(f"confidence of {self.name}", confidence, low=1.0)
        self.iterations = checks.integer(f"iterations of {self.name}", iterations, low=1)
        self.seed = checks.integer(f"seed of {self.name}", seed, low=0)

    @cached_property
    def item_factors(self) -> Floats:
        """Y (L, f). It is computed when it is first needed."""
        return np.asarray(self.fit().item_factors, dtype=np.float64)

    def fit(self) -> Any:
        """Return implicit's own model, fitted to the likes."""
        settings = self.factors, self.regularization, self.confidence, self.iterations, self.seed
        return self.likes.fitted("factors", settings, self._fit)

    def _fit(self) -> Any:
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, "blas"):  # implicit warns of more
            model = AlternatingLeastSquares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=self.confidence,
                iterations=self.iterations,
                num_threads=1,
                random_state=self.seed,
            )
            model.fit(sp.csr_matrix(self.likes.matrix), show_progress=False)
        return model

    def person_factors(self, clicked: sp.csr_array) -> Floats:
        """Return x (users, f), given what each user clicked, as in :meth:`personal`."""
        Y = self.item_factors
        shared = Y.T @ Y + self.regularization * np.eye(self.factors)
        own = [Y[clicked.indices[a:b]] for a, b in zip(clicked.indptr[:-1], clicked.indptr[1:], strict=True)]
        left = np.stack([shared + (self.confidence - 1.0) * (y.T @ y) for y in own])
        right = np.stack([self.confidence * y.sum(axis=0) for y in own])
        return np.asarray(np.linalg.solve(left, right[:, :, None])[:, :, 0])

    def personal(self, clicked: sp.csr_array) -> Floats:
        """Return x·y for each user and item. Each user is computed alone, so the others change nothing."""
        return np.asarray((self.item_factors @ self.person_factors(clicked)[:, :, None])[:, :, 0])
