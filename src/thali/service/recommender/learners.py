"""The learners of a recommender, and which user gets which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from thali.catalog.catalog import Catalog
from thali.lists import greedy
from thali.policies import POLICIES
from thali.policies.linear.policy import LinearPolicy
from thali.tools import checks

# Variants of a learner, with another K or α, that are kept ready.
VARIANTS = 64
# So that they can be added up.
MOST_SHARE = 1e9


class Learner:
    """A named setting of the linear family."""

    def __init__(self, name: str, policy: LinearPolicy, share: float) -> None:
        self.name, self.policy, self.share = name, policy, share
        self._variants: dict[tuple[int, float | None], LinearPolicy] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """What its statistics depend on, as the store keeps it; topics aside, which may change."""
        return {"policy": type(self.policy).__name__, **self.policy.settings, "topics": None}

    def variant(self, K: int | None, alpha: float | None) -> LinearPolicy:
        """The policy with another K or α."""
        if K is None and alpha is None:
            return self.policy
        key = K or self.policy.K, alpha
        if key not in self._variants:
            if len(self._variants) >= VARIANTS:
                self._variants.clear()
            self._variants[key] = self.policy.variant(*key)
        return self._variants[key]


class Learners(Mapping[str, Learner]):
    """Learners by name. A user's is chosen by a hash of the name: always the same, and each its share of all users."""

    def __init__(self, policies: LinearPolicy | Mapping[str, LinearPolicy], shares: Mapping[str, float] | None) -> None:
        named = {"default": policies} if isinstance(policies, LinearPolicy) else policies
        if not isinstance(named, Mapping) or not named:
            raise TypeError(f"policy of Recommender must be a policy, or policies by name, got {policies!r}")
        shares = dict.fromkeys(named, 1.0) if shares is None else dict(shares)
        if set(shares) != set(named):
            raise ValueError(f"shares of Recommender must be of {', '.join(named)}, got {', '.join(map(str, shares))}")
        given = {
            name: checks.number(f"share of {name}", share, low=0.0, high=MOST_SHARE) for name, share in shares.items()
        }
        total = sum(given.values())
        if total <= 0.0:
            raise ValueError(f"shares of Recommender must not all be 0, got {shares}")
        self._learners = {
            name: Learner(checks.text_name("a learner's name", name, 64), _servable(name, policy), given[name] / total)
            for name, policy in named.items()
        }
        catalogs = {id(learner.policy.catalog) for learner in self._learners.values()}
        if len(catalogs) > 1:
            raise ValueError("policy of Recommender must be policies on one and the same catalog object")

    def __getitem__(self, name: str) -> Learner:
        if not isinstance(name, str):  # a list, say, of which a dict would say something else
            raise KeyError(name)
        return self._learners[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._learners)

    def __len__(self) -> int:
        return len(self._learners)

    @property
    def catalog(self) -> Catalog:
        """The catalog that all choose from."""
        return next(iter(self._learners.values())).policy.catalog

    def described(self) -> dict[str, dict[str, Any]]:
        """What runs, for commands that work on the store beside the service."""
        return {
            name: {
                "policy": type(learner.policy).__name__,
                "K": learner.policy.K,
                "sigma": learner.policy.sigma,
                "examined": learner.policy.examined,
                "share": learner.share,
            }
            for name, learner in self._learners.items()
        }

    def retired(self, known: Mapping[str, dict[str, Any]]) -> dict[str, Learner]:
        """Learners that the store knows and that do not run any more: feedback on what they showed still counts."""
        found = {}
        for name, settings in known.items():
            if name not in self._learners:
                kind = POLICIES[settings["policy"]]
                policy = kind(self.catalog, 1, sigma=settings["sigma"], examined=settings["examined"])
                assert isinstance(policy, LinearPolicy)
                found[name] = Learner(name, policy, 0.0)
        return found

    def assigned(self, user: str) -> Learner:
        """The learner of a user: the same as long as the shares are."""
        if len(self._learners) == 1:
            return next(iter(self._learners.values()))
        point = int.from_bytes(blake2b(user.encode(), digest_size=8, person=b"thali-split").digest(), "big") / 2**64
        reached = 0.0
        for learner in self._learners.values():
            reached += learner.share
            if point < reached:
                return learner
        return [learner for learner in self._learners.values() if learner.share][-1]  # shares that round to under 1


def servable(policy: Any) -> bool:
    """Whether a policy can serve."""
    try:
        _servable("", policy)
    except (TypeError, ValueError):
        return False
    return True


def _servable(name: str, policy: Any) -> LinearPolicy:
    """The policy, if it can serve: what was learned from an impression must be a sum that can be taken back."""
    what = f"policy {name!r} of Recommender"
    if not isinstance(policy, LinearPolicy):
        raise TypeError(f"{what} must be of the linear family (thali.CascadeLSB, ...), got {type(policy).__name__}")
    if policy.explore != "optimism":
        raise ValueError(f"{what} must explore by optimism, got explore={policy.explore!r}")
    if policy.forgetting is not None:
        raise ValueError(f"{what} must not forget, got a discount or window")
    if (policy.positions != 1.0).any():
        raise ValueError(f"{what} must weigh all positions alike, got {policy.name}")
    if policy.build is not greedy.build:
        raise ValueError(f"{what} must build its lists greedily, got build={policy.build!r}")
    if POLICIES.get(type(policy).__name__) is not type(policy):  # its own ways of choosing and learning would be lost
        raise TypeError(f"{what} must be one of thali's own, got {policy.name}")
    return policy
