"""The settings of a service, in one object that can be passed to other processes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thali.tools import checks
from thali_client.types import Limits

#: The environment variable that passes the settings to the worker processes of a service.
VARIABLE = "THALI_SERVE"
ROLES = ("read", "write", "admin")
SHORTEST_KEY = 16


@dataclass(frozen=True)
class LearnerSetting:
    """The settings of a learner: its name, its policy with options, and its share of the users."""

    name: str
    policy: str = "CascadeLSB"
    K: int | None = None
    """10 by default, or the number of items if there are fewer."""
    sigma: float | None = None
    alpha: float | None = None
    share: float = 1.0
    prior: str | None = None
    """"none", "learn" (in the background, starting from the prior of the catalog file), or a file from prior.save. By
    default, the prior of the catalog file, if it has one."""

    @classmethod
    def read(cls, text: str) -> LearnerSetting:
        """Read a learner's settings from text such as ``"name: CascadeLSB K=10 sigma=0.1 alpha=8 share=0.5"``.

        >>> LearnerSetting.read("plain: CascadeLinUCB K=5 share=0.25 prior=learn")
        LearnerSetting(name='plain', policy='CascadeLinUCB', K=5, sigma=None, alpha=None, share=0.25, prior='learn')
        """
        name, colon, rest = text.partition(":")
        words = rest.split()
        if not name.strip() or not colon or not words:
            raise ValueError(f"learner must have the form 'NAME: POLICY K=10 ...', got {text!r}")
        options: dict[str, Any] = {}
        for word in words[1:]:
            option, equals, value = word.partition("=")
            if option not in ("K", "sigma", "alpha", "share", "prior") or not equals:
                raise ValueError(
                    f"options of learner {name.strip()!r} must be K=, sigma=, alpha=, share= or prior=, got {word!r}"
                )
            if option == "prior":
                options[option] = value
                continue
            try:
                options[option] = int(value) if option == "K" else float(value)
            except ValueError:
                kind = "a whole number" if option == "K" else "a number"
                raise ValueError(f"{option} of learner {name.strip()!r} must be {kind}, got {value!r}") from None
        return cls(name.strip(), words[0], **options)


@dataclass(frozen=True)
class Settings:
    """The settings of a service."""

    catalog: str
    store: str = "sqlite:///thali.db"
    learners: tuple[LearnerSetting, ...] = (LearnerSetting("default"),)
    no_click_after: float | None = None
    keep_days: float = 30.0
    cache_mb: int = 256
    new_catalog: bool = False
    kept_catalog: str | None = None
    """A copy of the catalog file that is in use (:class:`thali.service.http.kept_catalog.KeptCatalog`). If given, the
    service has been set up already: a worker must use the catalog that the store uses."""
    hide: str = "nothing"
    """What users are not shown again. See :class:`thali.service.recommender.seen.HideRule`."""
    prior_every: float = 3600.0
    """Seconds between two learnings of the priors that are learned in the background."""
    prior_fallback: bool = False
    """Whether to return to the prior of the start by itself if a learned prior predicts clicks worse."""
    quality_every: float = 300.0
    """Seconds between two refreshes of the quality of items."""
    keys: tuple[tuple[str, str], ...] = ()
    """Pairs of a role and a key. If there are none, every caller has all rights."""
    hosts: tuple[str, ...] = ()
    """The host names that callers may use, or any host name if empty."""
    log_requests: bool = True
    limits: Limits = field(default_factory=Limits)

    def to_environment(self) -> None:
        """Store the settings in the environment, for processes that this one starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Settings:
        """Read the settings that :meth:`to_environment` stored."""
        values = json.loads(os.environ[VARIABLE])
        values["learners"] = tuple(LearnerSetting(**learner) for learner in values["learners"])
        values["keys"] = tuple((role, key) for role, key in values["keys"])
        values["hosts"] = tuple(values["hosts"])
        return cls(**{**values, "limits": Limits(**values["limits"])})


def read_keys(path: str | Path) -> tuple[tuple[str, str], ...]:
    """Read keys from a file with a role and a key per line (``write 6f1c…``). Lines that begin with # are comments."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"keys must be a file with a role and a key per line, found nothing at {path}")
    keys = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ValueError(f"{path}, line {number}: must be a role and a key, got {len(words)} words")
        keys.append((words[0], words[1]))
    return check_keys(keys, f"{path}")


def check_keys(keys: Sequence[tuple[str, str]], source: str) -> tuple[tuple[str, str], ...]:
    """Check that there is at least one key, and that keys are long enough and different. Errors do not show keys."""
    for number, (role, key) in enumerate(keys, start=1):
        checks.one_of(f"{source}, key {number}: role", role, ROLES)
        if len(key) < SHORTEST_KEY or not key.isascii():
            raise ValueError(
                f"{source}, key {number}: must have at least {SHORTEST_KEY} characters, all of them ASCII, "
                f"got {len(key)} characters"
            )
    if not keys:
        raise ValueError(f"{source}: must contain at least one key, got none")
    if len({key for _, key in keys}) != len(keys):
        raise ValueError(f"{source}: keys must be different from one another, got the same key twice")
    return tuple(keys)
