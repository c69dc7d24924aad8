"""Whether a learned prior predicts clicks better than a static list and than popular items would."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from thali.service.recommender.learners import Learner
from thali.service.stores import SqlStore
from thali.service.stores.records import Impression, StoredPrior, gains_of, id_floor, unpack_shown
from thali.service.stores.topics import Topics
from thali.tools.types import Floats
from thali_client.types import PredictionCheck, PriorCheck

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender

#: The store keeps the latest check of each learner as a value whose name begins with this.
PREFIX = "prior_check:"
#: A value whose name begins with this is the time since when a learner has had learned priors without interruption.
BEGAN = "prior_began:"
# The latest answered lists are checked, at most this many, in groups by list number.
MOST_LISTS = 5000
GROUPS: tuple[tuple[int, int | None], ...] = ((1, 1), (2, 3), (4, 10), (11, 30), (31, None))
# The verdict is about the first lists. It needs so many of them, and a difference of so many standard errors.
FIRST_LISTS, LEAST_LISTS, CLEARLY = 10, 100, 2.0
# Predicted probabilities are clipped to this range, so that no single list decides.
LEAST, MOST = 0.01, 0.99
PATIENCE_S = 30.0


class Checker:
    """Compares predicted with observed clicks. It may run in another thread, except for the constructor."""

    def __init__(self, recommender: Recommender, learner: str) -> None:
        self.learner: Learner = recommender.learners[learner]
        self.topics: Topics = recommender.topics
        self.prior: StoredPrior | None = recommender.priors.get(learner)
        quality, find = recommender.live.quality, recommender.live.find
        self._rates = None if quality is None else quality.mean.copy()
        self._find = find

    def check(self, store: SqlStore, now: float) -> PriorCheck | None:
        """Check the lists that were shown with this version of the prior. None if no learned prior is in use.

        If fewer than 100 of them are first lists, check all lists that were shown with learned priors. Otherwise a
        service with few people, which learns a new prior every hour, could never tell whether priors are of use.

        The predictions with the learned prior are those that were made when the lists were shown. For the same lists,
        two others are computed: with the average taste of the prior that the learner started with (*static*; the
        observed click rate if it started without a prior), and from the click rates of the items alone (*popular*).
        """
        if self.prior is None or self.prior.prior is None:
            return None
        with store.transaction(PATIENCE_S, write=False):
            began = store.meta(BEGAN + self.learner.name)
            since = self.prior.at if began is None else float(began)
            lists = store.latest_answered(self.learner.name, id_floor(since), MOST_LISTS)
        latest = max(since, self.prior.at)  # since when this version has been in use
        own = [shown for shown in lists if shown.id >= id_floor(latest)]
        if sum((shown.number or 0) <= FIRST_LISTS for shown in own) >= LEAST_LISTS:
            lists, since = own, latest
        clicked = np.array([float(bool(shown.clicked)) for shown in lists])
        number = np.array([shown.number or 0 for shown in lists], dtype=np.int64)
        predicted = np.array([shown.predicted for shown in lists])
        static = self._static(lists, clicked)
        popular = None if self._rates is None else np.array([self._popular(shown) for shown in lists])
        losses = {"predicted": _loss(predicted, clicked), "static": _loss(static, clicked)}
        if popular is not None:
            losses["popular"] = _loss(popular, clicked)
        groups = []
        for first, last in GROUPS:
            among = (number >= first) & (number <= (last or number.max(initial=0)))
            if among.any():
                groups.append(
                    PredictionCheck(
                        first,
                        last,
                        int(among.sum()),
                        float(clicked[among].mean()),
                        float(predicted[among].mean()),
                        float(static[among].mean()),
                        None if popular is None else float(popular[among].mean()),
                        float(losses["predicted"][among].mean()),
                        float(losses["static"][among].mean()),
                        None if popular is None else float(losses["popular"][among].mean()),
                    )
                )
        check = _judged(now, self.prior.version, losses, number <= FIRST_LISTS, groups)
        return replace(check, since=since)

    def _static(self, lists: list[Impression], clicked: Floats) -> Floats:
        start = self.learner.start.prior
        if start is None:
            return np.full(len(lists), clicked.mean() if len(lists) else 0.0)
        found = []
        for shown in lists:
            numbers = unpack_shown(shown.numbers, len(shown.items))
            gains = gains_of(numbers, self.topics.positions(shown.topics), self.topics.d)
            found.append(_any(gains @ start.mean))
        return np.array(found)

    def _popular(self, shown: Impression) -> float:
        assert self._rates is not None
        numbers = [self._find(item) for item in shown.items]
        return _any(np.array([self._rates[e] for e in numbers if e is not None and e < self._rates.size]))


def _any(attraction: Floats) -> float:
    """Return the probability of at least one click."""
    return float(1.0 - np.prod(1.0 - np.clip(attraction, 0.0, 1.0)))


def _loss(predicted: Floats, clicked: Floats) -> Floats:
    """Return the log loss of each prediction."""
    p = np.clip(predicted, LEAST, MOST)
    return np.asarray(-np.where(clicked > 0.0, np.log(p), np.log1p(-p)))


def _judged(
    now: float, version: int, losses: dict[str, Floats], first: np.ndarray, groups: list[PredictionCheck]
) -> PriorCheck:
    count = int(first.sum())
    others = {name: float(loss[first].mean()) if count else 0.0 for name, loss in losses.items() if name != "predicted"}
    against = min(others, key=lambda name: others[name])
    if count < 2:
        return PriorCheck(now, version, "open", against, None, None, groups)
    differences = losses["predicted"][first] - losses[against][first]
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(count))
    verdict = "open"
    if count >= LEAST_LISTS and abs(mean) > CLEARLY * error:
        verdict = "worse" if mean > 0.0 else "better"
    return PriorCheck(now, version, verdict, against, mean, error, groups)


def to_store(check: PriorCheck) -> str:
    """Return a check in the form that the store keeps."""
    return json.dumps(asdict(check))


def from_store(text: str) -> PriorCheck:
    """Return what :func:`to_store` has written."""
    content = json.loads(text)
    return PriorCheck(**{**content, "lists": [PredictionCheck(**group) for group in content["lists"]]})


def stored_checks(store: SqlStore) -> dict[str, PriorCheck]:
    """Return the latest check of each learner. Call in a transaction."""
    return {name.removeprefix(PREFIX): from_store(text) for name, text in store.meta_with_prefix(PREFIX).items()}
