"""The prior: what is believed about a person's preferences before the first click. It is learned from other people."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali import theory
from thali.policies.linear.posterior import Reading
from thali.policies.linear.state import LinearState, compute
from thali.tools import checks
from thali.tools.files import atomic_file
from thali.tools.types import Floats, Integers

if TYPE_CHECKING:
    from thali.policies.linear.policy import LinearPolicy

FORMAT = "thali-prior-1"
# Eigenvalues of a covariance must be in this range, and the largest at most so many times the smallest. The entries of
# a mean must be at most so large. Otherwise rounding errors would make the posterior wrong, at once or later.
LEAST_VARIANCE, MOST_VARIANCE, MOST_CONDITION, MOST_MEAN = 1e-30, 1e6, 1e12, 1e6
# EM stops after this many iterations, or when an iteration raises the log-likelihood by less than this for each person.
MOST_ITERATIONS, SMALL_GAIN = 100, 1e-4
# In Prior.learn, the prior of the policy counts as at most this many people: those of a service may be different.
MOST_COUNTED = 1000
# The first iterations use at most this many people, and the last ones everybody. People are read in parts of this size.
FEW_PEOPLE, MOST_FINAL_ITERATIONS, PART = 1000, 5, 256


class Prior:
    """A normal distribution of preferences over people, θ ~ N(μ, Σ), from which every person starts.

    The paper starts every person at N(0, I) and learns everything about them from their own clicks. A policy with a
    prior (``prior=``) shows good lists from the first one on, because most people resemble others. What a state holds
    does not depend on the prior, so a better prior serves everybody at once.

    Parameters
    ----------
    mean: μ (d,), or one number for all topics.
    covariance: Σ (d, d), symmetric and positive definite. The eigenvalues must be at most 1e6, and at most 1e12 times
        the smallest one.
    topics: the names of the topics, in the order of the rows. A policy matches them with the topics of its catalog by
        name. By default, the topics of the catalog in their order.
    sigma: the σ that suits these people, at least 0.001. A policy with this prior uses it unless you set another one.
        By default 0.3.
    optimism: the default α of a policy with this prior is this times sqrt(log(1 + t)). By default 1.
    people: how many people's preferences it comes from. Somebody whose preferences are known only in part counts in
        part. When another prior is learned from this one (:meth:`learn`), it counts as so many people, but at most as
        1,000. By default, it counts as one person in the mean, and as d people in the covariance.

    Examples
    --------
    >>> import thali
    >>> tastes = [[0.8, 0.2, 0.0], [0.6, 0.3, 0.1], [0.7, 0.1, 0.2]]
    >>> prior = thali.Prior.from_preferences(tastes, topics=["crime", "comedy", "war"])
    >>> prior.mean.round(2)
    array([0.61, 0.23, 0.16])
    >>> catalog = thali.Catalog([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]], topics=["war", "crime", "comedy"])
    >>> policy = thali.CascadeLSB(catalog, K=2, prior=prior)
    >>> policy.recommend(policy.init(users=1))
    array([[1, 2]])

    """

    def __init__(
        self,
        mean: Any,
        covariance: Any,
        topics: Iterable[Hashable] | None = None,
        *,
        sigma: float | None = None,
        optimism: float | None = None,
        people: int | None = None,
    ) -> None:
        Sigma = checks.floats("covariance of Prior", covariance, (None, None), "(d, d)")
        d = len(Sigma)
        if Sigma.shape != (d, d) or d == 0:
            raise ValueError(f"covariance of Prior must have shape (d, d), got {Sigma.shape}")
        mu = np.full(d, mean) if np.ndim(mean) == 0 else mean
        #: μ (d,), read-only.
        self.mean: Floats = checks.read_only(
            _bounded("mean of Prior", checks.floats("mean of Prior", mu, (d,), "(d,)"))
        )
        #: Σ (d, d), read-only and exactly symmetric.
        self.covariance: Floats = checks.read_only(_symmetric(Sigma))
        self._variances = _eigenvalues(self.covariance)
        #: The names of the topics as text (d,), or None.
        self.topics: tuple[str, ...] | None = None if topics is None else _topics(topics, d)
        #: The σ and the factor of the default α for policies with this prior, or None for their own defaults.
        self.sigma = None if sigma is None else checks.number("sigma of Prior", sigma, low=theory.LEAST_SIGMA)
        self.optimism = None if optimism is None else checks.number("optimism of Prior", optimism, low=0.0, high=1e6)
        #: How many people's preferences it comes from, or None.
        self.people = None if people is None else checks.integer("people of Prior", people, low=0)

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value:g}" for name, value in self._settings.items() if value is not None)
        return f"Prior(d={self.d}, topics={None if self.topics is None else list(self.topics)}{settings})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Prior)
            and self.topics == other.topics
            and np.array_equal(self.mean, other.mean)
            and np.array_equal(self.covariance, other.covariance)
            and self._settings == other._settings
        )

    __hash__ = None  # type: ignore[assignment]  # priors are compared by value, and nothing needs their hash

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Prior, **self._settings), (self.mean, self.covariance, self.topics)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"sigma": self.sigma, "optimism": self.optimism, "people": self.people}

    @property
    def d(self) -> int:
        """The number of topics."""
        return len(self.mean)

    @property
    def largest_variance(self) -> float:
        """λ_max(Σ), the largest variance of x·θ for any x with ‖x‖₂ = 1."""
        return float(self._variances[-1])

    @cached_property
    def precision(self) -> Floats:
        """Σ⁻¹ (d, d), read-only and exactly symmetric."""
        inverse = np.linalg.inv(self.covariance)
        return checks.read_only((inverse + inverse.T) / 2.0)

    @cached_property
    def logdet(self) -> float:
        """The logarithm of det Σ⁻¹."""
        return float(np.linalg.slogdet(self.precision)[1])

    @classmethod
    def from_preferences(cls, theta: Any, topics: Iterable[Hashable] | None = None) -> Prior:
        """Return a prior from the known preferences of some people, theta (people, d).

        All-zero rows are dropped: nothing is known about these people. The mean and covariance of the others are shrunk
        as in :meth:`learn`, which also makes the covariance invertible. (Preferences that sum to 1 have a singular
        covariance.) Cost: O(people·d²).
        """
        tastes = checks.floats("theta of from_preferences", theta, (None, None), "(people, d)")
        known = tastes[tastes.any(axis=1)]
        if not known.size:
            raise ValueError(
                f"theta of from_preferences must have at least one row that is not all 0, got shape {tastes.shape}"
            )
        people, d = _bounded("theta of from_preferences", known).shape
        origin = known.mean(axis=0)
        off = known - origin
        moments = Moments(people, origin, off.sum(axis=0), off.T @ off)
        covariance = _spherical(_shrunk(moments, Default(_even(d), 1.0, 1.0)).covariance)
        default = Default(_even(d)._replace(covariance=covariance), 1.0, float(d))
        return cls(*_shrunk(moments, default), topics, people=people)

    @classmethod
    def learn(cls, policy: LinearPolicy, state: LinearState) -> Prior:
        """Return a prior that is learned from what a policy has learned about other people, from M and B alone.

        This is empirical Bayes: the prior under which the clicks of all people in the state are most likely, found by
        EM. Let P = Σ⁻¹ + σ⁻²Σ_t xxᵀ for each person, where σ is explained below. The E-step computes
        θ ~ N(m, P⁻¹) with m = P⁻¹(Σ⁻¹μ + σ⁻²Σ_t x·click). The M-step sets μ to the mean of m, and Σ to the mean of
        P⁻¹ + (m-μ)(m-μ)ᵀ, over all people.

        With few people, this would be far too certain. So the likelihood is penalized, which makes the M-step a mean
        over people and a default: the default counts as one person in μ, and as d people in Σ. The default is the prior
        of the policy, if it has one. If that prior says from how many ``people`` it comes, it counts as so many in both
        (in Σ as at least d, and in both as at most 1,000): a few lists say less about a person than the many likes of
        which :func:`thali.fit` knows (docs/live.md). Otherwise, the default is a taste that is spread evenly, with
        μ_j = 1/d for each topic and Σ = s²·I. Here s² is learned in the same way, with 1/d² as its default, which
        counts as one person. The penalized likelihood never decreases. EM stops when it hardly increases, after at most
        100 iterations.

        The learned prior says from how many ``people`` it comes: those of the default, and of the others the sum of
        1 - tr(Σ⁻¹P⁻¹)/d. This is the share of a person's preferences that is known: 0 without any lists (P⁻¹ = Σ), and
        1 if nothing is left to learn (P⁻¹ = 0).

        policy: a policy of the linear family. σ is the one that this policy has with a prior: the σ that you set or, by
        default, 0.3. The default without a prior, 0.1, is less than the noise of clicks. If you set such a small σ, the
        learned prior takes a part of the noise for differences between people. Pass a policy without a prior, or with
        one that comes from other people. With a prior that was learned from the same people, their clicks would count
        twice. The learned prior has the ``sigma`` and ``optimism`` of the policy's prior, if these are set.
        state: a state of the policy, with the people to learn from. People who have not been shown a list are ignored.

        Cost: O(d³) for each person and iteration. With more than 1,000 people, the first iterations use 1,000 people,
        evenly spread over the state, and the last 5 use everybody. 20,000 people at d=40 take less than 10 seconds
        (tests/test_speed.py). If M is one matrix for all people (an array with stride 0), O(d³ + people·d²).
        """
        # LinearPolicy itself cannot be imported here: it imports this module.
        if not hasattr(policy, "sigma_with_prior"):
            kind = getattr(policy, "name", type(policy).__name__)
            raise TypeError(
                f"policy of Prior.learn must be one of the linear family, such as thali.CascadeLSB, got {kind}"
            )
        policy.check(state)
        seen = np.flatnonzero(state.arrays["updates"] > 0)
        if not seen.size:
            raise ValueError("state of Prior.learn must have at least one person who has been shown a list, got none")
        everybody = People(state.M, state.B, float(state.settings["sigma"]), policy.sigma_with_prior)
        if seen.size < len(state.B):
            everybody = everybody.take(seen)
        few = everybody.take(np.linspace(0, seen.size - 1, min(seen.size, FEW_PEOPLE)).astype(np.int64))
        d, counted = policy.catalog.d, 0.0
        if policy.prior is None:
            even = _even(d)
            (_, covariance), _ = few.em(even, Default(even, 1.0, 1.0), MOST_ITERATIONS, spherical=True)
            normal = even._replace(covariance=covariance)
        else:
            normal = Normal(policy.prior.mean, policy.prior.covariance)
            counted = float(min(policy.prior.people or 0, MOST_COUNTED))

        def default(share: float) -> Default:
            return Default(normal, max(1.0, share * counted), max(float(d), share * counted))

        learned, _ = few.em(normal, default(len(few.B) / len(everybody.B)), MOST_ITERATIONS)
        if len(few.B) < len(everybody.B):
            learned, _ = everybody.em(learned, default(1.0), MOST_FINAL_ITERATIONS)
        settings = {} if policy.prior is None else policy.prior._settings
        known = few.known(cls(*learned)) * len(everybody.B) / len(few.B)
        settings["people"] = (settings.get("people") or 0) + round(known)
        return cls(*learned, policy.catalog.topics, **settings)

    def arranged(self, owner: str, topics: Sequence[Hashable]) -> Prior:
        """Return the prior with its topics in this order. Raise ValueError unless it has the same topics."""
        if self.d != len(topics):
            raise ValueError(f"prior of {owner} must have as many topics as the catalog ({len(topics)}), got {self.d}")
        names = tuple(map(str, topics))
        if self.topics is None or self.topics == names:
            return self
        missing, unknown = set(names) - set(self.topics), set(self.topics) - set(names)
        if missing:
            raise ValueError(
                f"prior of {owner} must have the topics of the catalog, got a prior without {_some(missing)}, "
                f"but with {_some(unknown)}"
            )
        at = {name: j for j, name in enumerate(self.topics)}
        order = [at[name] for name in names]
        return Prior(self.mean[order], self.covariance[np.ix_(order, order)], names, **self._settings)

    def reading(self, sigma: float, state_sigma: float) -> Reading:
        """Return how a policy with this prior and σ reads the statistics of a state with its own σ."""
        shift = sigma**2 * (self.precision @ self.mean)
        return Reading(checks.writable(self.precision), shift, (state_sigma / sigma) ** 2, 1.0 / self.largest_variance)

    @property
    def content(self) -> dict[str, Any]:
        """The prior as a dict that can be written as JSON. Numbers can be read back exactly."""
        return {
            "format": FORMAT,
            "topics": None if self.topics is None else list(self.topics),
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            **{name: value for name, value in self._settings.items() if value is not None},
        }

    @classmethod
    def from_content(cls, content: Any) -> Prior:
        """Return the prior with this :attr:`content`. It is equal to the original prior, bit for bit."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"format must be {FORMAT!r}")
        missing = [name for name in ("mean", "covariance", "topics") if name not in content]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing")
        settings = {name: content.get(name) for name in ("sigma", "optimism", "people")}
        try:
            return cls(content["mean"], content["covariance"], content["topics"], **settings)
        except TypeError as error:
            raise ValueError(str(error)) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the prior to a JSON file, atomically. Numbers are written so that they can be read back exactly."""
        with atomic_file(path) as file:
            file.write(json.dumps(self.content, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prior:
        """Load a prior from a file written by :meth:`save`. It is equal to the saved prior, bit for bit."""
        if not Path(path).exists():
            raise FileNotFoundError(f"path of Prior.load must be a file written by prior.save, found nothing at {path}")
        try:
            return cls.from_content(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, OSError, RecursionError) as error:
            raise ValueError(
                f"path of Prior.load must be a complete file written by prior.save, got {path}: {error}"
            ) from error


class Normal(NamedTuple):
    """A normal distribution N(mean, covariance)."""

    mean: Floats
    covariance: Floats


class Default(NamedTuple):
    """The prior that holds without any people."""

    normal: Normal
    in_mean: float
    """How many people it counts as in the mean."""
    in_covariance: float
    """How many people it counts as in the covariance."""


class Moments(NamedTuple):
    """The sums over people of 1, E[θ - origin] and E[(θ - origin)(θ - origin)ᵀ].

    With an origin near the mean, rounding errors stay small compared with the covariance.
    """

    people: float
    origin: Floats
    first: Floats
    second: Floats


def _shrunk(moments: Moments, default: Default) -> Normal:
    """Return the most likely mean and covariance, given a default. This is the M-step of :meth:`Prior.learn`."""
    people, origin, first, second = moments
    (start, spread), in_mean, in_covariance = default
    mean = (first + in_mean * start - in_mean * origin) / (people + in_mean)
    about = second - np.outer(first, mean) - np.outer(mean, first) + people * np.outer(mean, mean)
    off = mean + origin - start
    covariance = (about + in_mean * np.outer(off, off) + in_covariance * spread) / (people + in_covariance)
    return Normal(mean + origin, (covariance + covariance.T) / 2.0)


def _spherical(covariance: Floats) -> Floats:
    """Return s²·I with the same trace."""
    d = len(covariance)
    return np.eye(d) * float(np.trace(covariance) / d)


def _even(d: int) -> Normal:
    """Return the default for d topics: a taste that is spread evenly."""
    return Normal(np.full(d, 1.0 / d), np.eye(d) / d**2)


def _bounded(name: str, values: Floats) -> Floats:
    largest = float(np.abs(values).max())
    if largest > MOST_MEAN:
        raise ValueError(f"{name} must be from {-MOST_MEAN:g} to {MOST_MEAN:g}, got an entry of size {largest:g}")
    return values


def _symmetric(covariance: Floats) -> Floats:
    skew = np.abs(covariance - covariance.T)
    if skew.max() > 1e-12 * np.abs(covariance).max():
        i, j = (int(n) for n in np.unravel_index(np.argmax(skew), skew.shape))
        raise ValueError(
            f"covariance of Prior must be symmetric, got {covariance[i, j]:g} at ({i}, {j}) and {covariance[j, i]:g} "
            f"at ({j}, {i})"
        )
    return (covariance + covariance.T) / 2.0


def _eigenvalues(covariance: Floats) -> Floats:
    """Check the eigenvalues of a covariance, and return them in ascending order."""
    variances = np.linalg.eigvalsh(covariance)
    least, most = float(variances[0]), float(variances[-1])
    if least <= 0.0 or most > MOST_CONDITION * least:
        raise ValueError(
            "covariance of Prior must be positive definite, with no eigenvalue above 1e12 times the smallest, got "
            f"eigenvalues from {least:g} to {most:g}. Prior.from_preferences always returns a valid one"
        )
    if least < LEAST_VARIANCE or most > MOST_VARIANCE:
        raise ValueError(
            f"eigenvalues of the covariance of Prior must be from {LEAST_VARIANCE:g} to {MOST_VARIANCE:g}, got "
            f"{least if least < LEAST_VARIANCE else most:g}"
        )
    return np.asarray(variances)


def _topics(topics: Iterable[Hashable], d: int) -> tuple[str, ...]:
    names = tuple(map(str, checks.sequence("topics of Prior", topics)))
    if len(names) != d:
        raise ValueError(f"topics of Prior must have one name for each of the {d} rows of covariance, got {len(names)}")
    if len(set(names)) < d:
        twice = next(name for n, name in enumerate(names) if name in names[:n])
        raise ValueError(f"topics of Prior must be different from one another, got {twice!r} twice")
    return names


def _some(names: set[str]) -> str:
    """Return at most three names, for an error message."""
    shown = ", ".join(map(repr, sorted(names)[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


class People(NamedTuple):
    """What is known about the people from whom a prior is learned: M (people, d, d), B (people, d), and how to read
    them: the σ of M, and that of the policy.
    """

    M: Floats
    B: Floats
    state_sigma: float
    sigma: float

    @property
    def alike(self) -> bool:
        """Whether M is one matrix for all people, so that it has to be inverted only once."""
        return self.M.strides[0] == 0

    def take(self, people: Integers) -> People:
        """Return only these people."""
        M = np.broadcast_to(self.M[0], (len(people), *self.M.shape[1:])) if self.alike else self.M[people]
        return self._replace(M=M, B=self.B[people])

    def expectation(self, prior: Prior) -> tuple[Moments, float]:
        """The E-step: return the expected moments of θ, and the log-likelihood of all clicks up to a constant."""
        reading = prior.reading(self.sigma, self.state_sigma)
        people, d = self.B.shape
        first, second, likelihood = np.zeros(d), np.zeros((d, d)), 0.0
        for part in self._parts():
            B = self.B[part]
            solution, inverses, logdets = self._posterior(self.M[part], B, reading)
            means = solution * self.sigma**-2
            off = means - prior.mean
            first += off.sum(axis=0)
            second += inverses + off.T @ off
            # log ∫ N(θ; μ, Σ)·exp(σ⁻²(b·θ - θᵀSθ/2)) dθ, which follows from the density of N(m, P⁻¹)
            likelihood += 0.5 * (np.sum((B + reading.shift) * means) * self.sigma**-2 - logdets)
        likelihood += 0.5 * people * (prior.logdet - prior.mean @ prior.precision @ prior.mean)
        return Moments(people, prior.mean, first, second), likelihood

    def known(self, prior: Prior) -> float:
        """Return Σ (1 - tr(Σ⁻¹P⁻¹)/d) over all people: how many people's preferences are known."""
        reading, left = prior.reading(self.sigma, self.state_sigma), 0.0
        for part in self._parts():
            _, inverses, _ = self._posterior(self.M[part], self.B[part], reading)
            left += float(np.sum(prior.precision * inverses))
        return len(self.B) - left / prior.d

    def _parts(self) -> Iterator[slice]:
        """Yield the people in parts that fit into little memory."""
        size = len(self.B) if self.alike else PART
        for begin in range(0, len(self.B), size):
            yield slice(begin, begin + size)

    def _posterior(self, M: Floats, B: Floats, reading: Reading) -> tuple[Floats, Floats, float]:
        """Return P⁻¹B′ of each person, and the sums of P⁻¹ and log det P over all people."""
        if not self.alike:
            found = compute(M, B, reading)
            return found.solution, found.inverse.sum(axis=0), float(found.logdet.sum())
        one = compute(M[:1].copy(), B[:1], reading)
        P = reading.ratio * (M[0] - np.eye(len(M[0]))) + reading.precision
        solution = np.linalg.solve(P, (B + reading.shift).T).T
        return solution, len(B) * one.inverse[0], len(B) * float(one.logdet[0])

    def em(
        self, start: Normal, default: Default, iterations: int, *, spherical: bool = False
    ) -> tuple[Normal, list[tuple[Normal, float]]]:
        """Return the result of EM, and the prior before each iteration, with its penalized log-likelihood."""
        found: list[tuple[Normal, float]] = []
        now = start
        for _ in range(iterations):
            prior = Prior(*now)
            moments, likelihood = self.expectation(prior)
            off = prior.mean - default.normal.mean
            penalty = default.in_mean * (off @ prior.precision @ off) - default.in_covariance * prior.logdet
            penalty += default.in_covariance * np.sum(default.normal.covariance * prior.precision)
            found.append((now, likelihood - 0.5 * float(penalty)))
            if len(found) > 1 and found[-1][1] - found[-2][1] < SMALL_GAIN * len(self.B):
                break
            now = _shrunk(moments, default)
            if spherical:
                now = Normal(now.mean, _spherical(now.covariance))
        return now, found
