"""Learning a prior from the statistics of other users, while the service goes on."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from thali.policies.linear.prior import Prior
from thali.policies.linear.state import LinearState
from thali.service.recommender.operations import Basis, Conflict, Refused, SetPrior
from thali.service.stores import SqlStore
from thali.service.stores.records import Statistics
from thali.service.stores.sql import FORGETS
from thali.starting.prior import learned_prior
from thali.tools.types import Integers

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender

#: A prior is learned from at most this many users, and from fewer if their statistics take more memory than this.
MOST_PEOPLE, MOST_BYTES = 20_000, 128 << 20
# With fewer users, no prior is learned.
LEAST_PEOPLE = 2
# How many statistics are read at a time, and how long to wait while another process is using the store.
PAGE, PATIENCE_S = 500, 30.0
# How often the learning is repeated because users were forgotten meanwhile.
MOST_TRIES = 5
TOPICS_CHANGED = "topics must stay the same while a prior is learned, but another catalog was put into use"
STORE_CHANGED = "the store must stay the same while a prior is learned, but a backup was restored"
FILE_CHANGED = "the catalog file must stay the same while a prior is learned, but another one was put into use"


class TooFewPeople(Refused):
    """There are too few people to learn a prior from."""


def digest_of(statistics: Statistics) -> bytes:
    """Return a digest that changes whenever the statistics of a user change."""
    return blake2b(bytes(statistics.numbers) + statistics.sequence.to_bytes(8, "little"), digest_size=8).digest()


class PriorDraw:
    """Users who were drawn at random, and the prior that is learned from their statistics.

    Its methods may run in another thread than the recommender, except for the constructor.
    """

    def __init__(self, recommender: Recommender, learner: str) -> None:
        own = recommender.learners[learner]
        self.name, self.policy, self.stored_sigma = learner, own.start, own.stored_sigma
        self.topics, self.start = recommender.topics, recommender.in_use.start_digest
        #: The version of the prior when the users were read, and whether it is a learned one.
        self.version, self._learned = 0, False
        self.blank = recommender.in_use.blank_taste(learner)
        self.users: dict[str, bytes] = {}
        self.store_id: str | None = None
        self.forgets: str | None = None
        self.state: LinearState | None = None
        self._tries = 0

    def read(self, main: SqlStore) -> None:
        """Draw users, and read their statistics in one consistent snapshot, through a connection of its own."""
        d, name = self.topics.d, self.name
        most = max(LEAST_PEOPLE, min(MOST_PEOPLE, MOST_BYTES // (8 * d * d)))
        with main.new_connection() as store, store.transaction(PATIENCE_S, write=False):
            self.store_id, self.forgets = store.meta("id"), store.meta(FORGETS)
            kept = store.priors().get(name)
            if kept is not None:
                self.version, self._learned = kept.version, kept.prior is not None
            if len(store.topic_sets()) != len(self.topics.sets):
                raise Conflict(TOPICS_CHANGED)
            users = sorted(store.random_users(name, most))
            M, B = np.empty((len(users), d, d)), np.empty((len(users), d))
            for begin in range(0, len(users), PAGE):
                rows = store.statistics([(user, name) for user in users[begin : begin + PAGE]])
                for n, user in enumerate(users[begin : begin + PAGE], start=begin):
                    row = rows[user, name]
                    M[n], B[n] = self.topics.read(row)
                    self.users[user] = digest_of(row)
        if len(self.users) < LEAST_PEOPLE:
            raise TooFewPeople(
                "learner", f"must have learned about at least {LEAST_PEOPLE} users, got {len(self.users)} for {name!r}"
            )
        # Prior.learn leaves out people without updates. Someone whose history is known may have none.
        self.state = self.blank.state.of(M, B, np.ones(len(B), dtype=np.int64))

    def learn(self) -> SetPrior:
        """Learn the prior, and return the operation that puts it into use."""
        try:
            prior = self._prior()
        except ValueError as error:
            raise Refused("learner", f"must be one whose statistics allow to learn a prior: {error}") from None
        basis = Basis(self.store_id, self.topics.current, self.start, self.forgets, dict(self.users))
        return SetPrior(self.name, prior, len(self.users), basis=basis)

    def withdrawal(self) -> SetPrior | None:
        """Return the operation that ends the use of a learned prior because the people behind it were forgotten."""
        return SetPrior(self.name, None, instead_of=self.version) if self._learned else None

    def _prior(self) -> Prior:
        """Learn the prior. Cost: O(d³) for each user and iteration, see :meth:`thali.Prior.learn`."""
        assert self.state is not None
        policy = self.policy
        if policy.prior is not None:
            return Prior.learn(policy, self.state)
        ratio = (self.stored_sigma / policy.sigma) ** 2  # learned_prior expects the σ of the policy
        eye, arrays = np.eye(self.topics.d), self.state.arrays
        M = arrays["M"] - eye  # one copy, which is changed in place: it can be large
        M *= ratio
        M += eye
        state = self.state.of(M, arrays["B"], arrays["updates"])
        prior = learned_prior(policy, state)
        return Prior(prior.mean, prior.covariance, list(map(str, policy.catalog.topics)))

    def drop(self, conflict: Conflict) -> None:
        """Leave out users who may have been forgotten meanwhile. Raises the conflict again after several tries."""
        self._tries += 1
        gone = conflict.forgotten
        if not gone or self._tries >= MOST_TRIES:
            raise conflict
        assert self.state is not None
        kept: Integers = np.array([n for n, user in enumerate(self.users) if user not in gone], dtype=np.int64)
        self.users = {user: digest for user, digest in self.users.items() if user not in gone}
        self.forgets = conflict.forgets
        if len(self.users) < LEAST_PEOPLE:
            raise conflict
        arrays = self.state.arrays
        self.state = self.state.of(arrays["M"][kept], arrays["B"][kept], arrays["updates"][kept])
