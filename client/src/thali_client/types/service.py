"""What the service reports about itself: errors, limits, settings and health."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Error:
    """Body of every error response."""

    error: str
    """A sentence that names the field, the rule, and the value received."""
    field: str | None
    """Field of the request that broke the rule, if any."""
    request_id: str


@dataclass(frozen=True, slots=True)
class Status:
    """Body of /healthz and /readyz."""

    status: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on requests."""

    body: int = 1 << 20
    """Largest number of bytes in the body of a request."""
    K: int = 100
    """Largest number of items in a list."""
    names: int = 10_000
    """Largest number of candidates, and of items to exclude."""
    items: int = 10_000
    """Largest number of items in one bulk update, whose body may have 8 times as many bytes as others."""
    batch: int = 1000
    """Largest number of impressions in one feedback request."""
    waiting: int = 10_000
    """Largest number of requests that wait for the store. Further requests get status 503."""
    simulated_steps: int = 20_000
    """Largest number of steps of a simulation, summed over its policies."""
    changes: int = 20
    """Largest number of preference changes in a simulation."""
    traced: int = 100_000
    """Largest number of values in the trace of a simulation: points·policies·(K + topics)."""


@dataclass(frozen=True, slots=True)
class LearnerAbout:
    """A learner and its settings."""

    name: str
    policy: str
    K: int
    """The most items in a list, unless the request gives another number."""
    sigma: float
    alpha: float
    """Exploration parameter for a new user. With alpha="theory" or a prior, it may differ for other users."""
    share: float
    """Share of the users that this learner serves."""
    features: str
    """Features of an item: "gains" (what it adds to the items above it, for diverse lists) or "items" (its topics)."""
    examined: str
    """Positions that the learner learns from: "first-click" (those up to the first click), "last-click" (those up to
    the last click) or "all"."""


@dataclass(frozen=True, slots=True)
class About:
    """The version, settings and limits of the service, and the role of the caller.

    If the service requires keys, a caller without a valid key gets only ``keys``.
    """

    keys: bool
    """Whether the service requires keys. If it does not, every caller is an admin."""
    role: str | None
    """Role of the caller: "read", "write" or "admin". Without a valid key, this and all following fields are None."""
    version: str | None = None
    """Version of thali."""
    items: int | None = None
    """Number of items, as of the last transaction of this process."""
    topics: list[str] | None = None
    """All topics, in the order of the catalog."""
    coverage: str | None = None
    """"probabilistic", "max", or the class name of a custom coverage function."""
    steady: list[str] | None = None
    """The topics on which an item always adds its full weight, such as the quality of items."""
    learners: list[LearnerAbout] | None = None
    policies: list[str] | None = None
    """Policies that can be simulated."""
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A slow request."""

    at: float
    """When the request ended, Unix time in seconds."""
    request_id: str
    method: str
    route: str
    """Route with placeholders instead of names, such as /v1/users/{user}; "none" if no route matched or the request was
    rejected before routing."""
    status: int
    """0 if the caller disconnected before there was a status."""
    ms: float
    """Milliseconds from receiving the headers to sending the end of the response."""


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """Health of the store, checked by a transaction during this request."""

    url: str
    """URL of the store, without password."""
    kind: str
    """"sqlite" or "postgresql"."""
    usable: bool
    """Whether the transaction succeeded within 5 seconds."""
    error: str | None
    """Why the transaction failed; None if it succeeded."""
    seconds: float
    """Duration of the transaction, including time spent waiting for others."""
    bytes: int | None
    """Size on disk: for SQLite the file and its write-ahead log, for PostgreSQL the whole database. None if the store
    is not usable."""


@dataclass(frozen=True, slots=True)
class Health:
    """Health of the process of the service that responded. All processes share the store."""

    process: str
    """Id of the process. The request ids that it generates begin with this id."""
    started_at: float
    """Unix time in seconds."""
    store: StoreHealth
    waiting: int
    """Number of requests that were waiting for the store when this one arrived."""
    most_waiting: int
    """Largest number of waiting requests. Further requests get status 503."""
    transactions: int
    """Number of transactions since the start, including failed ones."""
    transaction_seconds: float | None
    """Mean duration of a transaction."""
    store_errors: int
    """Number of requests since the start that failed because of the store."""
    tastes_in_memory: int
    """Number of tastes (statistics of one user under one learner) that are cached in memory."""
    slowest: list[SlowRequest]
    """The 20 slowest requests of about the last hour, slowest first."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What one round of maintenance did."""

    timed_out: int
    """Number of impressions whose missing feedback was treated as no click."""
    pruned: int
    """Number of impressions that were deleted because of their age."""
