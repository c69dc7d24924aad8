"""The settings of a service, as one value that can be passed from process to process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thali.tools import checks
from thali_client.types import Limits

#: The environment variable through which the processes of one service get their settings.
VARIABLE = "THALI_SERVE"
ROLES = ("read", "write", "admin")
SHORTEST_KEY = 16


@dataclass(frozen=True)
class LearnerSetting:
    """A learner by name: a policy of the linear family, its settings, and its share of the users."""

    name: str
    policy: str = "CascadeLSB"
    K: int | None = None
    """10 by default, or as many as there are items."""
    sigma: float | None = None
    alpha: float | None = None
    share: float = 1.0

    @classmethod
    def read(cls, text: str) -> LearnerSetting:
        """From ``"name: CascadeLSB K=10 sigma=0.1 alpha=8 share=0.5"``.

        >>> LearnerSetting.read("plain: CascadeLinUCB K=5 share=0.25")
        LearnerSetting(name='plain', policy='CascadeLinUCB', K=5, sigma=None, alpha=None, share=0.25)
        """
        name, colon, rest = text.partition(":")
        words = rest.split()
        if not name.strip() or not colon or not words:
            raise ValueError(f"learner must be written 'NAME: POLICY K=10 ...', got {text!r}")
        given: dict[str, Any] = {}
        for word in words[1:]:
            what, equals, value = word.partition("=")
            if what not in ("K", "sigma", "alpha", "share") or not equals:
                raise ValueError(
                    f"learner {name.strip()!r} must have settings K=, sigma=, alpha= or share=, got {word!r}"
                )
            try:
                given[what] = int(value) if what == "K" else float(value)
            except ValueError:
                raise ValueError(f"{what} of learner {name.strip()!r} must be a number, got {value!r}") from None
        return cls(name.strip(), words[0], **given)


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
    keys: tuple[tuple[str, str], ...] = ()
    """Role and key."""
    hosts: tuple[str, ...] = ()
    """Host names under which the service may be called; any if empty."""
    log_requests: bool = True
    limits: Limits = field(default_factory=Limits)

    def to_environment(self) -> None:
        """Put the settings into the environment, for processes that this one starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Settings:
        """The settings that to_environment put there."""
        given = json.loads(os.environ[VARIABLE])
        given["learners"] = tuple(LearnerSetting(**learner) for learner in given["learners"])
        given["keys"] = tuple((role, key) for role, key in given["keys"])
        given["hosts"] = tuple(given["hosts"])
        return cls(**{**given, "limits": Limits(**given["limits"])})


def read_keys(path: str | Path) -> tuple[tuple[str, str], ...]:
    """Read keys from a file: a role and a key per line (``write 6f1c…``); lines that begin with # are comments."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"keys must be a file with a role and a key a line, found nothing at {path}")
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ValueError(f"{path}, line {number}: must be a role and a key, got {len(words)} words")
        found.append((words[0], words[1]))
    return check_keys(found, f"{path}")


def check_keys(keys: Sequence[tuple[str, str]], whose: str) -> tuple[tuple[str, str], ...]:
    """Check that there are keys, each long enough and different from the others. Errors do not show them."""
    for number, (role, key) in enumerate(keys, start=1):
        checks.one_of(f"{whose}, key {number}: role", role, ROLES)
        if len(key) < SHORTEST_KEY or not key.isascii():
            raise ValueError(
                f"{whose}, key {number}: must have at least {SHORTEST_KEY} ASCII characters, has {len(key)}"
            )
    if not keys:
        raise ValueError(f"{whose}: there must be at least one key")
    if len({key for _, key in keys}) != len(keys):
        raise ValueError(f"{whose}: keys must be different from one another")
    return tuple(keys)
