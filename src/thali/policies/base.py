"""The base class of policies: a catalog, a list length, and methods to choose and to learn that check their input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thali.catalog.candidates import ALL, Choice, allowed
from thali.catalog.catalog import Catalog
from thali.policies.state import State
from thali.tools import checks
from thali.tools.randomness import generators
from thali.tools.types import Booleans, Floats, Integers

NO_GAINS: Floats = np.empty(0)


class Policy(ABC):
    """Chooses lists and learns from clicks. A policy holds only settings; all that it learns is in a state.

    A policy of your own defines :meth:`start`, :meth:`choose` and :meth:`learn`. The methods :meth:`init`,
    :meth:`recommend` and :meth:`update` check their arguments and call them.
    """

    #: Whether :meth:`choose` is random. If so, it gets one generator for each user.
    samples: bool = False
    #: Whether :meth:`learn` uses gains. If not, they are not computed, and it gets an empty array.
    uses_gains: bool = True
    #: Why the state depends on the order in which feedback arrives; empty if it does not.
    order_matters: str = ""
    #: Whether the arrays in its states change their shapes as it learns.
    grows: ClassVar[bool] = False
    _formed: tuple[int, dict[str, Any], dict[str, Any]] | None = None

    def __init__(self, catalog: Catalog, K: int, *, threads: int = 1) -> None:
        """threads: the number of threads for a large batch of users; the results do not depend on it."""
        self.catalog: Catalog = checks.instance(f"catalog of {self.name}", catalog, Catalog)
        self.K = checks.list_length(self.name, K, len(catalog))
        self.threads = checks.integer(f"threads of {self.name}", threads, low=1)

    @property
    def name(self) -> str:
        """The name of the policy in tables, figures and error messages."""
        return type(self).__name__

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which a state depends. They are stored in every state, and compared when a state is used."""
        return {"items": self.catalog.items_digest, "topics": self.catalog.topics_digest}

    @abstractmethod
    def start(self, users: int) -> State:
        """Return the initial state of this many users; see :meth:`new_state`."""

    @abstractmethod
    def choose(self, state: State, rng: Any) -> Integers:
        """Return lists (users, K) of distinct items, without changing the state. rng: one generator for each user."""

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return lists like :meth:`choose`, from the items that each user may be shown. Optional for a policy."""
        raise TypeError(
            f"candidates, exclude and catalogs with removed items need a policy that defines choose_among, "
            f"which {self.name} does not"
        )

    @abstractmethod
    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Learn from checked clicks (users, K) on lists that had these gains (users, K, d) when they were shown."""

    def learn_late(self, state: State, lists: Integers, clicks: Booleans, gains: Floats, shown_at: Integers) -> None:
        """Learn as in :meth:`learn`, given the number of each user's impression. For policies that forget."""
        self.learn(state, lists, clicks, gains)

    def learn_now(self, state: State, lists: Integers, clicks: Booleans) -> None:
        """Learn as in :meth:`learn`, with the current gains. Override it if the policy needs no array of gains."""
        self.learn(state, lists, clicks, self._current_gains(lists))

    def _current_gains(self, lists: Integers) -> Floats:
        return self.gains(lists) if self.uses_gains else NO_GAINS

    def init(self, users: int) -> State:
        """Return the initial state of this many users."""
        state: State = checks.instance(
            f"what start of {self.name} returns", self.start(checks.integer("users of init", users, low=1)), State
        )
        return state

    def gains(self, lists: Any) -> Floats:
        """Return Δ of each position (users, K, d), from which :meth:`update` learns. Keep it for late clicks."""
        return self.catalog.gains(lists)

    def recommend(self, state: State, rng: Any = None, *, candidates: Any = None, exclude: Any = None) -> Integers:
        """Return a list for each user: int64 (users, K), distinct item indices. The state does not change.

        rng: for policies that sample, a seed, a generator, or one generator for each user. With one for each, a user
        gets the same list in a batch as alone. Other policies ignore it.
        candidates: the only items to choose from; exclude: items not to show, such as those already seen. Each is
        either for all users, as item indices (n,) or a boolean mask (L,), or has one row for each user, as a mask
        (users, L) or a list of index arrays.
        """
        self.check(state)
        own = generators(f"rng of {self.name}", rng, state.users) if self.samples else None
        choice = allowed(self.catalog, state.users, self.K, candidates, exclude)
        if choice is ALL and len(self.catalog) == self.catalog.L:
            lists = self.choose(state, own)
        else:
            lists = self.choose_among(state, own, choice)
        return checks.item_lists(f"lists chosen by {self.name}", lists, state.users, self.catalog.L, self.K)

    def update(self, state: State, lists: Any, clicks: Any, gains: Any = None, *, shown_at: Any = None) -> None:
        """Update the state in place from clicks, bool (users, K), on lists (users, K).

        gains: the result of :meth:`gains` when the lists were shown; by default computed from the current weights.
        shown_at: for policies that forget, how many lists each user had been shown before this one (users,), so that
        feedback may arrive in any order; by default, these lists are the latest. On an error, nothing is learned.
        """
        self.check(state)
        lists = checks.item_lists("lists", lists, state.users, self.catalog.L, self.K)
        clicks = checks.click_matrix("clicks", clicks, *lists.shape)
        if gains is not None:
            gains = checks.floats("gains", gains, (*lists.shape, self.catalog.d), "(users, K, d)")
            checks.within("gains", gains, 0.0, 1.0)
        if shown_at is not None:
            shown_at = checks.counts("shown_at", shown_at, state.users)
            self.learn_late(state, lists, clicks, self._current_gains(lists) if gains is None else gains, shown_at)
        elif gains is not None:
            self.learn(state, lists, clicks, gains)
        else:
            self.learn_now(state, lists, clicks)

    def new_state(self, **arrays: Any) -> State:
        """Return a state of this learner with these arrays, whose first axis is users. For use in :meth:`start`."""
        return State(type(self).__name__, self.settings, **arrays)

    def _form(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of this learner's states, and the dtype and shape of one user's part of each array."""
        if self._formed is None or self._formed[0] != self.catalog.version:
            blank = self.init(1)
            self._formed = self.catalog.version, blank.settings, self._parts(blank.arrays)
        return self._formed[1:]

    def _parts(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        if self.grows:
            return {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}

    def check(self, state: State) -> None:
        """Raise an error unless the state belongs to this learner, with the same settings and shapes."""
        if not isinstance(state, State):
            raise TypeError(f"state of {self.name} must come from init or load_state, got {type(state).__name__}")
        settings, parts = self._form()
        if state.learner != type(self).__name__:
            raise ValueError(f"state must be of the same learner: it is of {state.learner}, this is {self.name}")
        if state.settings != settings:
            other = {name: state.settings.get(name) for name in settings if state.settings.get(name) != settings[name]}
            raise ValueError(
                f"state must be of the same learner: it was learned with other {', '.join(other)}: {other} against "
                f"{ ({name: settings[name] for name in other}) } here (names of items and topics by their digest)"
            )
        found = self._parts(state.arrays)
        if found != parts:
            raise ValueError(f"state of {self.name} must hold arrays like {parts} for each user, got {found}")
