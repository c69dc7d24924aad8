"""What the service says about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Error:
    """Body of every error response."""

    error: str
    """A sentence that names the field, the rule, and the value received."""
    field: str | None
    """Field of the request that broke the rule, if there is one."""
    request_id: str


@dataclass(frozen=True, slots=True)
class Status:
    """Body of /healthz and /readyz."""

    status: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on requests."""

    body: int = 1 << 20
    """Bytes of a request body."""
    K: int = 100
    """Items of a list."""
    names: int = 10_000
    """Candidates, and items to exclude."""
    batch: int = 1000
    """Impressions in one feedback request."""
    waiting: int = 10_000
    """Requests that wait for the store; any more get status 503."""
    simulated_steps: int = 20_000
    """Steps of a simulation, summed over its policies."""
    changes: int = 20
    """Changes of preference in a simulation."""
    traced: int = 100_000
    """Values in the trace of a simulation: points·policies·(K + topics)."""


@dataclass(frozen=True, slots=True)
class LearnerAbout:
    """A learner and its settings."""

    name: str
    policy: str
    K: int
    """Items of a list, unless the request says otherwise."""
    sigma: float
    alpha: float
    """Exploration parameter for a new user. If it is set by theory, it may differ for other users."""
    share: float
    """Share of the users that this learner serves."""
    features: str
    """Features of an item: "gains" (what it adds to the items above it: diverse lists) or "items" (its topics)."""
    examined: str
    """Positions that the learner learns from: up to the "first-click", up to the "last-click", or "all"."""


@dataclass(frozen=True, slots=True)
class About:
    """What the service is and what the caller may do.

    If the service requires keys, a caller without a valid one only gets ``keys``.
    """

    keys: bool
    """Whether the service requires keys. If it does not, every caller is an admin."""
    role: str | None
    """Role of the caller: "read", "write" or "admin". None without a valid key, and so are all following fields."""
    version: str | None = None
    """Version of thali."""
    items: int | None = None
    """Number of items, as of the last transaction of this process."""
    topics: list[str] | None = None
    """All topics, in the order of the catalog."""
    coverage: str | None = None
    """"probabilistic", "max", or the class name of a custom coverage function."""
    learners: list[LearnerAbout] | None = None
    policies: list[str] | None = None
    """Policies that can be simulated."""
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A slow request."""

    at: float
    """When it ended, Unix time in seconds."""
    request_id: str
    method: str
    route: str
    """Route template without names, e.g. /v1/users/{user}; "none" if no route matched or the request was rejected
    before routing."""
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
    """Why it failed."""
    seconds: float
    """Duration of the transaction, including time spent waiting for others."""
    bytes: int | None
    """Size on disk: for SQLite the file and its write-ahead log, for PostgreSQL the whole database. None if the store
    is not usable."""


@dataclass(frozen=True, slots=True)
class Health:
    """Health of one process of the service: the one that answered. The store is shared by all of them."""

    process: str
    """Id of the process, a prefix of the request ids that it generates."""
    started_at: float
    """Unix time in seconds."""
    store: StoreHealth
    waiting: int
    """Requests that were waiting for the store when this one arrived."""
    most_waiting: int
    """Limit on waiting requests; any more get status 503."""
    transactions: int
    """Transactions since the start, including failed ones."""
    transaction_seconds: float | None
    """Mean duration of a transaction."""
    store_errors: int
    """Requests that failed because of the store, since the start."""
    tastes_in_memory: int
    """Users' statistics that are cached in memory."""
    slowest: list[SlowRequest]
    """The 20 slowest requests of about the last hour, slowest first."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What one round of maintenance did."""

    timed_out: int
    """Impressions whose missing feedback was treated as no click."""
    pruned: int
    """Impressions that were deleted because of their age."""
