"""The base class of policies: a catalog, a list length, and methods that choose and learn and check their arguments."""

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
    """Chooses lists and learns from clicks. A policy has only settings; everything it learns is stored in a state.

    A custom policy defines :meth:`start`, :meth:`choose` and :meth:`learn`. The methods :meth:`init`,
    :meth:`recommend` and :meth:`update` check their arguments and then call these three.
    """

    #: Whether :meth:`choose` is random. If so, it gets one random generator for each user.
    samples: bool = False
    #: Whether :meth:`learn` uses gains. If not, gains are not computed, and :meth:`learn` gets an empty array.
    uses_gains: bool = True
    #: Why the state depends on the order in which feedback arrives. Empty if it does not.
    order_matters: str = ""
    #: Whether :meth:`predict` returns probabilities. If not, it returns scores, of which only the order has a meaning.
    predicts_probabilities: bool = False
    #: Whether the arrays in the policy's states change their shapes as the policy learns.
    grows: ClassVar[bool] = False
    #: The settings that only say how the policy reads a state. A state with other values of these can be used.
    reading_settings: ClassVar[frozenset[str]] = frozenset()
    _expected: tuple[int, dict[str, Any], dict[str, Any]] | None = None

    def __init__(self, catalog: Catalog, K: int, *, threads: int = 1) -> None:
        """threads: the number of threads for a large batch of users. The results do not depend on it."""
        self.catalog: Catalog = checks.instance(f"catalog of {self.name}", catalog, Catalog)
        self.K = checks.list_length(self.name, K, len(catalog))
        self.threads = checks.integer(f"threads of {self.name}", threads, low=1)

    @property
    def name(self) -> str:
        """The name of the policy in tables, figures and error messages."""
        return type(self).__name__

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which a state depends. They are stored in every state and checked when a state is used."""
        return {"items": self.catalog.items_digest, "topics": self.catalog.topics_digest}

    @abstractmethod
    def start(self, users: int) -> State:
        """Return the initial state for this many users. Create it with :meth:`new_state`."""

    @abstractmethod
    def choose(self, state: State, rng: Any) -> Integers:
        """Return lists (users, K) of distinct items, without changing the state.

        rng: one random generator for each user if ``samples`` is True, otherwise None.
        """

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return lists as in :meth:`choose`, but only with items that each user may be shown. Optional for a policy."""
        raise TypeError(
            f"{self.name} does not define choose_among(), which is needed for the arguments 'candidates' and 'exclude' "
            "and for catalogs with removed items"
        )

    @abstractmethod
    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Learn from clicks (users, K) on lists (users, K). gains (users, K, d): the gains when the lists were shown.

        The arguments have been checked.
        """

    def learn_late(self, state: State, lists: Integers, clicks: Booleans, gains: Floats, shown_at: Integers) -> None:
        """Learn as in :meth:`learn`, given the number of each user's impression. Only policies that forget need it."""
        self.learn(state, lists, clicks, gains)

    def learn_now(self, state: State, lists: Integers, clicks: Booleans) -> None:
        """Learn as in :meth:`learn`, with the current gains. Override this if the policy needs no array of gains."""
        self.learn(state, lists, clicks, self._current_gains(lists))

    def _current_gains(self, lists: Integers) -> Floats:
        return self.gains(lists) if self.uses_gains else NO_GAINS

    def init(self, users: int) -> State:
        """Return the initial state for this many users."""
        state: State = checks.instance(
            f"the result of start of {self.name}", self.start(checks.integer("users of init", users, low=1)), State
        )
        return state

    def gains(self, lists: Any) -> Floats:
        """Return the gain Δ at each position (users, K, d), from which :meth:`update` learns.

        If clicks may arrive late, store these gains when the lists are shown and pass them to :meth:`update`.
        """
        return self.catalog.gains(lists)

    def predict(self, state: State, lists: Any) -> Floats:
        """Return how likely each item is to be clicked if it is examined (users, K). Optional for a policy.

        It is a probability if ``predicts_probabilities`` is True, up to errors of the model: it may be below 0 or above
        1. Otherwise it is a score. lists: item numbers (users, K) of any length K, as they would be shown. The state
        does not change.
        """
        raise TypeError(f"{self.name} does not define predict(), which is needed to judge it on lists that were shown")

    def recommend(self, state: State, rng: Any = None, *, candidates: Any = None, exclude: Any = None) -> Integers:
        """Return a list for each user: distinct item numbers, int64 (users, K). The state does not change.

        Parameters
        ----------
        state: what the policy has learned so far.
        rng: a seed, a random generator, or one generator for each user. Only policies that sample use it. With one
            generator for each user, a user's list does not depend on the other users in the batch.
        candidates: the only items to choose from; by default, all items. Either one set for all users, as item numbers
            (n,) or a boolean mask (L,); or one row for each user, as a mask (users, L) or a list of arrays of item
            numbers.
        exclude: items not to show, such as items already seen; in the same form as candidates.

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
        """Learn from clicks on lists. The state is updated in place. If an argument is not valid, nothing is learned.

        Parameters
        ----------
        state: what the policy has learned so far.
        lists: (users, K), the item numbers that were shown.
        clicks: bool (users, K), which positions were clicked.
        gains: the result of :meth:`gains` when the lists were shown. By default, gains are computed from the current
            weights.
        shown_at: (users,), for policies that forget: how many lists each user had been shown before this one. With it,
            feedback may arrive in any order. By default, these lists count as the latest.

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
        """Return a state of this policy with these arrays, whose first axis is users. For use in :meth:`start`."""
        return State(type(self).__name__, self.settings, **arrays)

    def _expected_form(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of this policy's states, and the dtype and shape of one user's part of each array."""
        version = self.catalog.version  # before the rest, in case another thread changes the catalog meanwhile
        expected = self._expected
        if expected is None or expected[0] != version:
            blank = self.init(1)
            expected = self._expected = version, blank.settings, self._parts(blank.arrays)
        return expected[1:]

    def _parts(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        if self.grows:
            return {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}

    def _check_settings(self, found: dict[str, Any], expected: dict[str, Any]) -> None:
        """Raise ValueError if a state's settings differ from those of the policy, except in how a state is read."""
        names = [*expected, *(name for name in found if name not in expected)]
        wrong = [n for n in names if n not in self.reading_settings and found.get(n) != expected.get(n)]
        if wrong:
            own, other = ({name: settings.get(name) for name in wrong} for settings in (expected, found))
            digests = (
                " (the values shown for items and topics are digests of their names and of which topics are steady)"
                if {"items", "topics"} & set(wrong)
                else ""
            )
            raise ValueError(
                f"state of {self.name} must come from a policy with the same settings, {own}, got {other}{digests}"
            )

    def check(self, state: State) -> None:
        """Raise an error unless the state belongs to this policy, with the same settings and shapes."""
        if not isinstance(state, State):
            raise TypeError(f"state of {self.name} must come from init or load_state, got {type(state).__name__}")
        settings, parts = self._expected_form()
        if state.learner != type(self).__name__:
            raise ValueError(f"state of {self.name} must come from the same policy, got a state of {state.learner}")
        if state.settings != settings:
            self._check_settings(state.settings, settings)
        found = self._parts(state.arrays)
        if found != parts:
            raise ValueError(
                f"state of {self.name} must have arrays with these types and shapes for each user: {parts}, got {found}"
            )
