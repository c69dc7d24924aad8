"""The learners of a recommender, and the assignment of users to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from thali.catalog.catalog import Catalog
from thali.lists import greedy
from thali.policies import POLICIES
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.prior import Prior
from thali.tools import checks

# How many variants of a learner, with another K or α, are kept in memory.
MAX_VARIANTS = 64
#: Learned priors are judged by so many lists of each person.
FIRST_LISTS = 10
# A limit on shares, so that their sum is always finite.
MAX_SHARE = 1e9


class Learner:
    """A policy of the linear family, with a name and a share of the users."""

    def __init__(self, name: str, policy: LinearPolicy, share: float) -> None:
        self.name, self.policy, self.share = name, policy, share
        #: The policy with the prior that it started with.
        self.start = policy
        #: The σ of the statistics in the store. The policy may read them with another σ.
        self.stored_sigma = policy.sigma
        self._variants: dict[tuple[int, float | None], LinearPolicy] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the learner's statistics depend on, except topics, which may change."""
        return {"policy": type(self.policy).__name__, **self.policy.settings, "topics": None}

    @property
    def learned(self) -> bool:
        """Whether the learner uses a learned prior."""
        return self.policy is not self.start

    def use(self, prior: Prior | None, catalog: Catalog | None = None) -> None:
        """Use another prior, or that of the start (None). With a catalog, the start has this prior and catalog."""
        if catalog is not None:
            self.start = self.policy = self.start.with_prior(prior, catalog)
        else:
            self.policy = self.start if prior is None else self.start.with_prior(prior)
        self._variants.clear()

    def variant(self, K: int | None, alpha: float | None) -> LinearPolicy:
        """Return the learner's policy with another K or α."""
        if K in (None, self.policy.K) and alpha is None:
            return self.policy
        key = K or self.policy.K, alpha
        if key not in self._variants:
            if len(self._variants) >= MAX_VARIANTS:
                self._variants.clear()
            self._variants[key] = self.policy.variant(*key)
        return self._variants[key]


class Learners(Mapping[str, Learner]):
    """Learners by name. A hash of the user's name assigns each user to a learner, in proportion to the shares."""

    def __init__(self, policies: LinearPolicy | Mapping[str, LinearPolicy], shares: Mapping[str, float] | None) -> None:
        named = {"default": policies} if isinstance(policies, LinearPolicy) else policies
        if not isinstance(named, Mapping) or not named:
            raise TypeError(
                f"policy of Recommender must be a policy, or a mapping from names to policies, got {policies!r}"
            )
        shares = dict.fromkeys(named, 1.0) if shares is None else dict(shares)
        if set(shares) != set(named):
            raise ValueError(
                f"shares of Recommender must have one share for each of the learners {', '.join(named)}, "
                f"got {', '.join(map(str, shares)) or 'none'}"
            )
        checked = {
            name: checks.number(f"share of {name}", share, low=0.0, high=MAX_SHARE) for name, share in shares.items()
        }
        total = sum(checked.values())
        if total <= 0.0:
            raise ValueError(f"shares of Recommender must not all be 0, got {shares}")
        self._learners = {
            name: Learner(
                checks.text_name("a learner's name", name, 64), check_servable(name, policy), checked[name] / total
            )
            for name, policy in named.items()
        }
        catalogs = {id(learner.policy.catalog) for learner in self._learners.values()}
        if len(catalogs) > 1:
            raise ValueError(
                f"all policies of Recommender must share one catalog object, got {len(catalogs)} different ones"
            )

    def __getitem__(self, name: str) -> Learner:
        if not isinstance(name, str):  # a list, for example, for which a dict would raise a TypeError
            raise KeyError(name)
        return self._learners[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._learners)

    def __len__(self) -> int:
        return len(self._learners)

    @property
    def catalog(self) -> Catalog:
        """The catalog that all learners share."""
        return next(iter(self._learners.values())).policy.catalog

    def describe(self, prior_learners: Collection[str], keep_prior: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the settings of all learners. The store keeps them for commands such as ``thali replay``.

        prior_learners: the names of those that use learned priors. keep_prior: the names of those that start with a
        prior of their own instead of that of the catalog file.
        """
        return {
            name: {
                "policy": type(learner.policy).__name__,
                "K": learner.policy.K,
                "sigma": learner.start.sigma,
                "given_sigma": learner.start.given_sigma,
                "examined": learner.policy.examined,
                "share": learner.share,
                "prior": learner.start.prior is not None,
                "own_prior": learner.start.prior.content if learner.start.prior and name in keep_prior else None,
                "learns_prior": name in prior_learners,
            }
            for name, learner in self._learners.items()
        }

    def retired(self, known: Mapping[str, dict[str, Any]]) -> dict[str, Learner]:
        """Return the learners in the store that no longer run. Feedback on lists that they showed is still learned."""
        learners = {}
        for name, settings in known.items():
            if name not in self._learners:
                kind = POLICIES[settings["policy"]]
                policy = kind(self.catalog, 1, sigma=settings["sigma"], examined=settings["examined"])
                assert isinstance(policy, LinearPolicy)
                learners[name] = Learner(name, policy, 0.0)
        return learners

    def assigned(self, user: str) -> Learner:
        """Return the learner that a user is assigned to. It stays the same as long as the shares do."""
        if len(self._learners) == 1:
            return next(iter(self._learners.values()))
        point = int.from_bytes(blake2b(user.encode(), digest_size=8, person=b"thali-split").digest(), "big") / 2**64
        total = 0.0
        for learner in self._learners.values():
            total += learner.share
            if point < total:
                return learner
        # Rounding can leave the sum of the shares slightly below 1.
        return [learner for learner in self._learners.values() if learner.share][-1]


def servable(policy: Any) -> bool:
    """Return whether a recommender can use a policy."""
    try:
        check_servable("", policy)
    except (TypeError, ValueError):
        return False
    return True


def check_servable(name: str, policy: Any) -> LinearPolicy:
    """Check that a recommender can use a policy, and return the policy.

    What the policy learns from an impression must be a sum, so that it can be subtracted again by undo.
    """
    what = f"policy {name!r} of Recommender"
    if not isinstance(policy, LinearPolicy):
        raise TypeError(
            f"{what} must be a policy of the linear family, such as thali.CascadeLSB, got {type(policy).__name__}"
        )
    if policy.explore != "optimism":
        raise ValueError(f"{what} must explore by optimism, got explore={policy.explore!r}")
    if policy.forgetting is not None:
        raise ValueError(f"{what} must not forget old feedback (by discount or window), got {policy.name}")
    if (policy.positions != 1.0).any():
        raise ValueError(f"{what} must give all positions the same weight, got {policy.name}")
    if policy.build is not greedy.build:
        raise ValueError(f"{what} must build its lists greedily, got build={policy.build!r}")
    # A recommender would not use a subclass's own ways of choosing and learning.
    if POLICIES.get(type(policy).__name__) is not type(policy):
        raise TypeError(f"{what} must be one of thali's own policies, not a subclass of one, got {policy.name}")
    return policy
