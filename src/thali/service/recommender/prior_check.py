"""Whether a learned prior predicts clicks better than the prior of the start, a static list and popular items would."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from thali.service.recommender.learners import Learner
from thali.service.recommender.tastes import Lesson, Taste
from thali.service.stores import SqlStore
from thali.service.stores.records import Impression, StoredPrior, gains_of, id_floor, unpack_shown
from thali.service.stores.topics import Topics
from thali.tools.types import Booleans, Floats
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
# The verdict is about the first lists. It needs so many of them, a difference of so many standard errors, and at least
# this difference in log loss: a learned prior that is nearly that of the start predicts nearly the same.
FIRST_LISTS, LEAST_LISTS, CLEARLY, LEAST_DIFFERENCE = 10, 100, 2.0, 0.005
# Predicted probabilities are clipped to this range, so that no single list decides.
LEAST, MOST = 0.01, 0.99
# The statistics of so many users are read at a time.
PAGE, PATIENCE_S = 200, 30.0


class Checker:
    """Compares predicted with observed clicks. It may run in another thread, except for the constructor."""

    def __init__(self, recommender: Recommender, learner: str) -> None:
        own = recommender.learners[learner]
        self.learner = Learner(learner, own.start, own.share)  # a copy, because another thread may change the original
        self.learner.stored_sigma = own.stored_sigma
        self._blank = recommender.blank_taste(learner)
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
        others are computed: with the prior that the learner started with and what was known about the person at that
        time (*start*; only for people's first ten lists, and never if the start had no prior), with only the average
        taste of that prior (*static*; the observed click rate without one), and from the click rates of the items alone
        (*popular*). Without *start*, a poor prior would be called better than a static list, because the person's own
        clicks make up for it.

        Cost: O(d³) for each of the first lists.
        """
        if self.prior is None or self.prior.prior is None:
            return None
        with store.transaction(PATIENCE_S, write=False):
            began = store.meta(BEGAN + self.learner.name)
            since = self.prior.at if began is None else float(began)
            lists = store.latest_answered(self.learner.name, id_floor(since), MOST_LISTS)
            # Without a sequence, an import has replaced the statistics that contained the answer.
            lists = [shown for shown in lists if shown.sequence is not None]
            start = self._start(store, lists)
        latest = max(since, self.prior.at)  # since when this version has been in use
        own = [n for n, shown in enumerate(lists) if shown.id >= id_floor(latest)]
        if sum((lists[n].number or 0) <= FIRST_LISTS for n in own) >= LEAST_LISTS:
            lists, start, since = [lists[n] for n in own], start[own], latest
        clicked = np.array([float(bool(shown.clicked)) for shown in lists])
        number = np.array([shown.number or 0 for shown in lists], dtype=np.int64)
        predictions = {
            "predicted": np.array([shown.predicted for shown in lists]),
            "static": self._static(lists, clicked),
        }
        if self.learner.policy.prior is not None:
            predictions["start"] = start
        if self._rates is not None:
            predictions["popular"] = np.array([self._popular(shown, self._rates) for shown in lists])
        losses = {name: _loss(values, clicked) for name, values in predictions.items()}
        groups = []
        for first, last in GROUPS:
            among = (number >= first) & (number <= (last or number.max(initial=0)))
            if among.any():
                groups.append(_group(first, last, among, clicked, predictions, losses))
        first_lists = number <= FIRST_LISTS
        if "start" in losses:
            first_lists &= ~np.isnan(start)  # of somebody whose statistics are gone
        check = _judged(now, self.prior.version, losses, first_lists, groups)
        return replace(check, since=since)

    def _start(self, store: SqlStore, lists: list[Impression]) -> Floats:
        """Predict the clicks on people's first lists with the prior that the learner started with (n,). Others: NaN.

        What was known about a person when a list was shown is what is known now, without the answers that came later.
        """
        found = np.full(len(lists), np.nan)
        if self.learner.policy.prior is None:
            return found
        of_user = defaultdict[str, list[int]](list)
        for n, shown in enumerate(lists):
            of_user[shown.user].append(n)
        users = [user for user, own in of_user.items() if any((lists[n].number or 0) <= FIRST_LISTS for n in own)]
        for begin in range(0, len(users), PAGE):
            rows = store.statistics([(user, self.learner.name) for user in users[begin : begin + PAGE]])
            for (user, _), row in rows.items():
                taste = self._blank.from_store(row, self.topics)
                for n, predicted in self._predictions(taste, {n: lists[n] for n in of_user[user]}):
                    found[n] = predicted
        return found

    def _predictions(self, taste: Taste, lists: dict[int, Impression]) -> Iterator[tuple[int, float]]:
        """Yield the number and the prediction of each first list of one person, the latest first. taste: as it is now.

        The number of a list is one more than the number of answers that were known when it was shown.
        """
        lessons = {
            n: Lesson.from_impression(shown, shown.clicked or [], self.topics) for n, shown in lists.items()
        }  # by the position in lists
        learned = sorted(lists, key=lambda n: lists[n].sequence or 0)
        for n in sorted(lists, key=lambda n: lists[n].number or 0, reverse=True):
            number = lists[n].number or 0
            while learned and taste.updates >= number:
                taste = taste.learn(self.learner, lessons[learned.pop()], times=-1)
            if number <= FIRST_LISTS:
                yield n, _any(lessons[n].gains[0] @ self.learner.policy.estimate(taste.state)[0])

    def _static(self, lists: list[Impression], clicked: Floats) -> Floats:
        start = self.learner.policy.prior
        if start is None:
            return np.full(len(lists), clicked.mean() if len(lists) else 0.0)
        found = []
        for shown in lists:
            numbers = unpack_shown(shown.numbers, len(shown.items))
            gains = gains_of(numbers, self.topics.positions(shown.topics), self.topics.d)
            found.append(_any(gains @ start.mean))
        return np.array(found)

    def _popular(self, shown: Impression, rates: Floats) -> float:
        numbers = [self._find(item) for item in shown.items]
        return _any(np.array([rates[e] for e in numbers if e is not None and e < rates.size]))


def _group(
    first: int,
    last: int | None,
    among: Booleans,
    clicked: Floats,
    predictions: dict[str, Floats],
    losses: dict[str, Floats],
) -> PredictionCheck:
    """Return the means over some of the lists. Of a prediction that was not made for all of them, the mean is None."""

    def mean(values: dict[str, Floats], name: str) -> float | None:
        some = values[name][among] if name in values else np.array([np.nan])
        return None if np.isnan(some).any() else float(some.mean())

    def known(values: dict[str, Floats], name: str) -> float:
        return float(values[name][among].mean())

    return PredictionCheck(
        first,
        last,
        answered=int(among.sum()),
        observed=float(clicked[among].mean()),
        predicted=known(predictions, "predicted"),
        static=known(predictions, "static"),
        popular=mean(predictions, "popular"),
        loss=known(losses, "predicted"),
        static_loss=known(losses, "static"),
        popular_loss=mean(losses, "popular"),
        start=mean(predictions, "start"),
        start_loss=mean(losses, "start"),
    )


def _any(attraction: Floats) -> float:
    """Return the probability of at least one click."""
    return float(1.0 - np.prod(1.0 - np.clip(attraction, 0.0, 1.0)))


def _loss(predicted: Floats, clicked: Floats) -> Floats:
    """Return the log loss of each prediction. Without a prediction, it is NaN."""
    p = np.clip(predicted, LEAST, MOST)
    return np.asarray(-np.where(clicked > 0.0, np.log(p), np.log1p(-p)))


def _judged(
    now: float, version: int, losses: dict[str, Floats], first: Booleans, groups: list[PredictionCheck]
) -> PriorCheck:
    count = int(first.sum())
    others = {name: float(loss[first].mean()) if count else 0.0 for name, loss in losses.items() if name != "predicted"}
    against = min(others, key=lambda name: others[name])
    if count < 2:
        return PriorCheck(now, version, "open", against, None, None, groups)
    differences = losses["predicted"][first] - losses[against][first]
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(count))
    verdict = "open"
    if count >= LEAST_LISTS and abs(mean) > max(CLEARLY * error, LEAST_DIFFERENCE):
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
