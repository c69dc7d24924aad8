"""A Beta distribution of click rates over items, learned from the clicks on many items (empirical Bayes)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thali.tools.types import Floats

# The range in which a learned strength lies, and how far the logit of a learned mean may be from 0.
LEAST_STRENGTH, MOST_STRENGTH, MOST_LOGIT = 1e-2, 1e6, 14.0
# The penalty on the strength s: log s is normal around log 10, with this deviation. So with few items, or few
# examinations, click rates of 0 or 1 are not believed. Without any, the result is Beta(5, 5).
USUAL_STRENGTH, STRENGTH_DEVIATION = 10.0, 1.0


class Beta(NamedTuple):
    """The distribution Beta(a, b) of click rates over items: as if each item had a clicks in a + b examinations."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        """The mean click rate, a / (a + b)."""
        return self.a / (self.a + self.b)

    @property
    def strength(self) -> float:
        """How many examinations the distribution counts as, a + b."""
        return self.a + self.b


def learn_beta(examined: Floats, clicked: Floats) -> Beta:
    """Return the Beta(a, b) under which the clicks are most likely, up to a weak penalty.

    Each item has a click rate r ~ Beta(a, b), and c of its n examinations have a click. This maximizes

        Σ_e log(B(a + c_e, b + n_e - c_e) / B(a, b)) + ½·log(m·(1 - m)) - ½·log²(s/10),   m = a/s, s = a + b,

    by L-BFGS from a start by the method of moments. The penalty keeps m away from 0 and 1 if there are no clicks or
    only clicks, and s finite if all items have the same rate. With few items or examinations, s is near 10. Without
    any, the result is Beta(5, 5).

    examined, clicked: n and c (items,), with 0 ≤ c ≤ n. They need not be whole numbers.

    Cost: a sort of the items, and then O(pairs) for each of about 10 iterations, where pairs is the number of different
    (n, c).
    """
    from scipy.optimize import minimize
    from scipy.special import digamma, expit, gammaln, logit

    seen = examined > 0.0
    pairs, counts = np.unique(examined[seen] + 1j * clicked[seen], return_counts=True)
    n, c = pairs.real, pairs.imag
    items: Floats = counts.astype(np.float64)
    count = float(items.sum())

    def loss(at: Floats) -> tuple[float, Floats]:
        """Return minus the penalized likelihood and its gradient, at (logit m, log s)."""
        m, s = float(expit(at[0])), float(np.exp(at[1]))
        a, b = m * s, (1.0 - m) * s
        value = items @ (gammaln(a + c) + gammaln(b + n - c) - gammaln(s + n))
        value += count * (gammaln(s) - gammaln(a) - gammaln(b))
        both = count * digamma(s) - items @ digamma(s + n)
        by_a = both + items @ digamma(a + c) - count * digamma(a)
        by_b = both + items @ digamma(b + n - c) - count * digamma(b)
        off = (at[1] - np.log(USUAL_STRENGTH)) / STRENGTH_DEVIATION
        value += 0.5 * np.log(m * (1.0 - m)) - 0.5 * off**2
        by_logit = m * (1.0 - m) * s * (by_a - by_b) + 0.5 - m
        by_log = a * by_a + b * by_b - off / STRENGTH_DEVIATION
        return -float(value), np.array([-by_logit, -by_log])

    mean, strength = _moments(n, c, items)
    bounds = [(-MOST_LOGIT, MOST_LOGIT), (np.log(LEAST_STRENGTH), np.log(MOST_STRENGTH))]
    found = minimize(loss, np.array([logit(mean), np.log(strength)]), jac=True, method="L-BFGS-B", bounds=bounds).x
    m, s = float(expit(found[0])), float(np.exp(found[1]))
    return Beta(m * s, (1.0 - m) * s)


def _moments(n: Floats, c: Floats, items: Floats) -> tuple[float, float]:
    """Return the mean and strength of a Beta distribution by the method of moments, within sensible bounds."""
    total, count = float(items @ n), float(items.sum())
    mean = (float(items @ c) + 0.5) / (total + 1.0)
    if count < 2.0:
        return mean, USUAL_STRENGTH
    # E[Σ n·(c/n - m)²] = m·(1 - m)·(count - 1 + (total - Σn²/total - count + 1)/(s + 1)), from the beta-binomial
    spread = float(items @ (n * (c / n - mean) ** 2)) / (mean * (1.0 - mean))
    room = total - float(items @ n**2) / total - (count - 1.0)
    share = (spread - (count - 1.0)) / room if room > 0.0 else 0.5
    return mean, 1.0 / min(max(share, 1e-3), 0.9) - 1.0
