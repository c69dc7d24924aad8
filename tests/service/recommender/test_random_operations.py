"""Random operations of two processes on one store, against a plain record of what must be known afterwards."""

import random
from collections import Counter, defaultdict
from contextlib import suppress

import numpy as np
import pytest
from recommending import TOPICS, K, names, rated

import thali
from thali.service.recommender import Recommender, Refused, Unknown
from thali.service.recommender.operations import AddHistory

USERS, SIGMA, D = ("ana", "bob", "cleo"), 0.3, len(TOPICS) + 1


def opened(url):
    catalog, quality = rated(40)
    prior = thali.Prior(np.full(D, 0.1), np.eye(D) * 0.1, catalog.topics, sigma=SIGMA)
    policy = thali.CascadeLSB(catalog, K=K, prior=prior)
    return Recommender(policy, url, quality=quality, hide="clicked", learn_prior=True)


class Record:
    """What the service must know: the answers to lists and the histories of each user."""

    def __init__(self):
        self.shown = {}  # by id: the user, the items and the gains (K, D)
        self.clicked = {}  # by id: the clicked positions, for lists with an answer
        self.histories = defaultdict(dict)  # by user, then by name: S, B and the liked items

    def answers(self, user=None):
        for id, clicked in self.clicked.items():
            owner, items, gains = self.shown[id]
            if user in (None, owner):
                examined = min(clicked, default=K - 1) + 1
                yield items[:examined], gains[:examined], [k in clicked for k in range(examined)]

    def statistics(self, user):
        M, B = np.eye(D), np.zeros(D)
        for _, gains, clicks in self.answers(user):
            M += SIGMA**-2 * gains.T @ gains
            B += clicks @ gains
        for S, own, _ in self.histories[user].values():
            M, B = M + SIGMA**-2 * S, B + own
        return M, B

    def counts(self):
        examined, clicked = Counter(), Counter()
        for items, _, clicks in self.answers():
            examined.update(items)
            clicked.update(item for item, click in zip(items, clicks, strict=True) if click)
        return examined, clicked

    def seen(self, user):
        liked = {item for _, _, items in self.histories[user].values() for item in items}
        return liked | {
            item for items, _, clicks in self.answers(user) for item, c in zip(items, clicks, strict=True) if c
        }

    def forget(self, user):
        self.histories.pop(user, None)
        for id in [id for id, (owner, _, _) in self.shown.items() if owner == user]:
            del self.shown[id]
            self.clicked.pop(id, None)


def step(r, rec, record):
    """Do something at random."""
    user, what = r.choice(USERS), r.choice("rrrrrfffffuuaahFqps")
    if what == "r":
        shown = rec.recommend(user)
        assert not set(names(shown)) & record.seen(user)
        topics = list(rec.catalog.topics)
        gains = np.array([[item.gains.get(topic, 0.0) for topic in topics] for item in shown.items])
        record.shown[shown.id] = user, names(shown), gains
    elif what in "fu" and record.shown:
        id = r.choice(list(record.shown)[-8:])
        if what == "u":
            rec.undo(id)
            record.clicked.pop(id, None)
        elif id not in record.clicked:
            record.clicked[id] = sorted(r.sample(range(K), r.choice([0, 1, 1, 2])))
            rec.feedback(id, record.clicked[id])
    elif what == "a":
        name, x = r.choice(["likes", "more"]), np.array([r.random() for _ in range(D)])
        liked = r.sample([f"film {e}" for e in range(40)], 2)
        record.histories[user][name] = np.outer(x, x), x, liked
        rec.perform([AddHistory(user, name, np.outer(x, x), x, liked, str(x))], whole=True)
    elif what == "h" and record.histories[user]:
        name = r.choice(list(record.histories[user]))
        rec.remove_history(user, name)
        del record.histories[user][name]
    elif what == "F" and r.random() < 0.5:
        record.forget(user)
        with suppress(Unknown):  # nothing was known
            rec.forget(user)
    elif what == "q":
        rec.refresh_quality()
    elif what == "p":
        with suppress(Refused):  # there are too few people
            rec.learn_prior()


def check(rec, record):
    for user in USERS:
        M, B = record.statistics(user)
        try:
            kept = rec.export(user)["learners"].get("default")
        except Unknown:
            kept = None
        np.testing.assert_allclose(np.eye(D) if kept is None else kept.M, M, rtol=0.0, atol=1e-9 * M.max())
        np.testing.assert_allclose(np.zeros(D) if kept is None else kept.B, B, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_of_two_processes_leave_exactly_what_was_answered(store_url, seed):
    r, record = random.Random(seed), Record()
    recs = [opened(store_url), opened(store_url)]
    try:
        for _ in range(120):
            at = r.randrange(2)
            step(r, recs[at], record)
            if r.random() < 0.05:  # a restart
                recs[at].close()
                recs[at] = opened(store_url)
            check(recs[1 - at], record)
        recs[0].refresh_quality()
        examined, clicked = record.counts()
        for rec in recs:
            rec.recommend("dan")
            for e, item in enumerate(rec.catalog.items):
                assert rec.live.quality.examined[e] == 60 + examined[item]
                assert rec.live.quality.clicked[e] == pytest.approx(19 * e / 39 + clicked[item])
        assert np.array_equal(recs[0].catalog.dense, recs[1].catalog.dense)
    finally:
        for rec in recs:
            rec.close()
