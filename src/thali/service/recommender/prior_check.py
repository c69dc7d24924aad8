"""Whether a learned prior predicts clicks better than the prior of the start, a static list and popular items would."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.service.recommender.learners import FIRST_LISTS
from thali.service.recommender.showing import click_probability
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
LEAST_LISTS, CLEARLY, LEAST_DIFFERENCE = 100, 2.0, 0.005
# Predicted probabilities are clipped to this range, so that no single list decides.
LEAST, MOST = 0.01, 0.99
PATIENCE_S = 30.0


class Checker:
    """Compares predicted with observed clicks. It may run in another thread, except for the constructor."""

    def __init__(self, recommender: Recommender, learner: str) -> None:
        self.name, self._start = learner, recommender.learners[learner].start.prior
        self.topics: Topics = recommender.topics
        self.prior: StoredPrior | None = recommender.priors.get(learner)
        quality, find = recommender.live.quality, recommender.live.find
        self._rates = None if quality is None else quality.rates
        self._find = find

    def check(self, store: SqlStore, now: float) -> PriorCheck | None:
        """Check the lists that were shown with this version of the prior. None if no learned prior is in use.

        If fewer than 100 of them are first lists, check all lists that were shown with learned priors. Otherwise a
        service with few people, which learns a new prior every hour, could never tell whether priors are of use.

        The predictions with the learned prior were made when the lists were shown, and so were those with the prior
        that the learner started with (*start*; only for people's first ten lists, and never if the start had no prior).
        For the same lists, two others are computed: with only the average taste of that prior (*static*; the observed
        click rate without one), and from the click rates of the items alone (*popular*). Without *start*, a poor prior
        would be called better than a static list, because the person's own clicks make up for it.
        """
        if self.prior is None or self.prior.prior is None:
            return None
        with store.transaction(PATIENCE_S, write=False):
            began = store.meta(BEGAN + self.name)
            since = self.prior.at if began is None else float(began)
            lists = store.latest_answered(self.name, id_floor(since), MOST_LISTS)
        if self._start is not None:
            # Other first lists were shown elsewhere (thali replay), by an earlier version of thali, or by a process
            # that did not know yet that there is a learned prior.
            lists = [shown for shown in lists if shown.start is not None or (shown.number or 0) > FIRST_LISTS]
        latest = max(since, self.prior.at)  # since when this version has been in use
        own = [shown for shown in lists if shown.id >= id_floor(latest)]
        if sum((shown.number or 0) <= FIRST_LISTS for shown in own) >= LEAST_LISTS:
            lists, since = own, latest
        clicked = np.array([float(bool(shown.clicked)) for shown in lists])
        number = np.array([shown.number or 0 for shown in lists], dtype=np.int64)
        predictions = {
            "predicted": np.array([shown.predicted for shown in lists]),
            "static": self._static(lists, clicked),
        }
        if self._start is not None:
            predictions["start"] = np.array([np.nan if shown.start is None else shown.start for shown in lists])
        if self._rates is not None:
            predictions["popular"] = np.array([self._popular(shown, self._rates) for shown in lists])
        losses = {name: _loss(values, clicked) for name, values in predictions.items()}
        groups = []
        for first, last in GROUPS:
            among = (number >= first) & (number <= (last or number.max(initial=0)))
            if among.any():
                groups.append(_group(first, last, among, clicked, predictions, losses))
        check = _judged(now, self.prior.version, losses, number <= FIRST_LISTS, groups)
        return replace(check, since=since)

    def _static(self, lists: list[Impression], clicked: Floats) -> Floats:
        if self._start is None:
            return np.full(len(lists), clicked.mean() if len(lists) else 0.0)
        found = []
        for shown in lists:
            numbers = unpack_shown(shown.numbers, len(shown.items))
            gains = gains_of(numbers, self.topics.positions(shown.topics), self.topics.d)
            found.append(click_probability((gains @ self._start.mean).tolist()))
        return np.array(found)

    def _popular(self, shown: Impression, rates: Floats) -> float:
        numbers = [self._find(item) for item in shown.items]
        return click_probability([float(rates[e]) for e in numbers if e is not None and e < rates.size])


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

    def compared(other: str) -> tuple[str, float, float]:
        differences = losses["predicted"][first] - losses[other][first]
        mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(count))
        clear = count >= LEAST_LISTS and abs(mean) > max(CLEARLY * error, LEAST_DIFFERENCE)
        return ("open" if not clear else "worse" if mean > 0.0 else "better"), mean, error

    verdict, mean, error = compared(against)
    # Without a prior at the start, nothing predicts what the fallback would do: it is better than a prior that loses.
    falls_back = verdict == "worse" and ("start" not in losses or compared("start")[0] == "worse")
    return PriorCheck(now, version, verdict, against, mean, error, groups, falls_back=falls_back)


def to_store(check: PriorCheck) -> str:
    """Return a check in the form that the store keeps."""
    return json.dumps(asdict(check))


def from_store(text: str) -> PriorCheck:
    """Return what :func:`to_store` has written."""
    content = json.loads(text)
    groups = [PredictionCheck(**_known(PredictionCheck, group)) for group in content["lists"]]
    return PriorCheck(**_known(PriorCheck, {**content, "lists": groups}))


def _known(kind: type[PriorCheck | PredictionCheck], content: dict[str, Any]) -> dict[str, Any]:
    """Leave out fields of a later version of thali, which may use the same store."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in content.items() if name in names}


def stored_checks(recommender: Recommender) -> dict[str, PriorCheck]:
    """Return the latest check of each learner that uses a learned prior, or fell back from one. In a transaction."""
    checks = {}
    for key, text in recommender.store.meta_with_prefix(PREFIX).items():
        kept = recommender.priors.get(key.removeprefix(PREFIX))
        if kept is not None and (kept.prior is not None or kept.fell_back):
            checks[key.removeprefix(PREFIX)] = from_store(text)
    return checks
