"""People who use the service from several threads while it may fail. Each keeps a log of what was acknowledged."""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pytest
from serving import SIGMA, TOPICS, K, Service

import thali
from thali_client import Answer, Conflict, Shown, Unavailable

Clicked = list[int] | None
USERS = ("ana", "bob", "eve")


@dataclass
class Known:
    """An acknowledged impression, and what is known about the answer to it."""

    shown: Shown
    clicked: Clicked = None
    uncertain: list[Clicked] = field(default_factory=list)
    """The answer that was sent last, if there was no reply to it. At most one."""


class Person(threading.Thread):
    """Requests lists and answers them: some twice, some in batches, some undone. Continues after every failure."""

    def __init__(self, service: Service, seed: int, *, retries: int) -> None:
        super().__init__(name=f"person {seed}")
        self.rng = random.Random(seed)
        self.client = service.client(retries=retries)
        self.log: dict[str, Known] = {}
        self.counts: Counter[str] = Counter()
        """The number of events of each kind: "shown", "answered", "undone", "uncertain, done", …"""
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.on_reply: Callable[[], None] | None = None
        """Called once, as soon as the next list or answer is acknowledged."""
        self._basket: list[tuple[Known, Clicked]] = []

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                try:
                    self.act()
                except Unavailable as error:
                    self.counts[f"status {error.status}"] += 1
                    self.ended.wait(0.02)
        except BaseException as error:
            self.error = error
        finally:
            self.client.close()

    def act(self) -> None:
        """Request a list, then answer it or not, at random."""
        if self.rng.random() < 0.5:
            self.settle(2)
        shown = self.client.recommend(self.rng.choice(USERS))
        self._replied()
        known = self.log[shown.id] = Known(shown)
        self.counts["shown"] += 1
        fate = self.rng.random()
        if fate < 0.1:
            return  # this list stays unanswered
        if fate < 0.4:
            self._basket.append((known, self.clicks()))
            if len(self._basket) >= 6:
                basket, self._basket = self._basket, []
                self.send_many(basket)
            return
        clicked = self.clicks()
        self.send(known, clicked)
        if fate < 0.55:
            self.send(known, clicked)  # again
        elif fate < 0.6:
            with pytest.raises(Conflict):
                self.client.feedback(shown.id, [k for k in range(K) if k not in clicked])
            self.counts["conflicts"] += 1
        elif fate < 0.7:
            self.send(known, None)
            if fate < 0.65:
                self.send(known, self.clicks())

    def clicks(self) -> list[int]:
        """Return random clicked positions: none, one or, sometimes, two."""
        count = self.rng.choice((0, 0, 1, 1, 1, 1, 2))
        return sorted(self.rng.sample(range(K), count))

    def send(self, known: Known, clicked: Clicked) -> None:
        """Send feedback, or undo it if clicked is None."""
        known.uncertain = [clicked]
        call = self.client.undo if clicked is None else lambda id: self.client.feedback(id, clicked)
        self._acknowledged(known, clicked, call(known.shown.id))

    def send_many(self, basket: Sequence[tuple[Known, Clicked]]) -> None:
        """Send several answers in one request."""
        for known, clicked in basket:
            known.uncertain = [clicked]
        replies = self.client.feedback_many([(known.shown.id, clicked or ()) for known, clicked in basket])
        for (known, clicked), reply in zip(basket, replies, strict=True):
            self._acknowledged(known, clicked, reply)

    def _replied(self) -> None:
        if (call := self.on_reply) is not None:
            self.on_reply = None
            call()

    def _acknowledged(self, known: Known, clicked: Clicked, reply: Any) -> None:
        self._replied()
        assert reply == Answer(known.shown.id, clicked, None if clicked is None else "feedback"), reply
        known.clicked, known.uncertain = clicked, []
        self.counts["undone" if clicked is None else "answered"] += 1

    def settle(self, most: int = 1_000_000) -> None:
        """Check whether the answers without a reply were recorded, and send them again. most: how many at most."""
        unsettled = [known for known in list(self.log.values())[-500:] if known.uncertain]
        for known in unsettled[:most]:
            recorded, clicked = self.client.impression(known.shown.id).clicked, known.uncertain[0]
            assert recorded in (known.clicked, clicked), f"{known} is {recorded}"
            self.counts["uncertain, done" if recorded == clicked else "uncertain, not done"] += 1
            self.send(known, clicked)


@contextmanager
def crowd(service: Service, *, retries: Sequence[int] = (0, 0, 0, 5)) -> Iterator[list[Person]]:
    """Run people who use the service until the end of the block. Then raise the first of their errors, if any."""
    people = [Person(service, seed, retries=count) for seed, count in enumerate(retries)]
    for person in people:
        person.start()
    try:
        yield people
    finally:
        for person in people:
            person.ended.set()
        for person in people:
            person.join(60)
    for person in people:
        if person.error is not None:
            raise person.error


def progress(people: Sequence[Person], answers: int = 10, seconds: float = 30.0) -> None:
    """Wait until this many more answers were acknowledged."""

    def answered() -> int:
        return sum(person.counts["answered"] for person in people)

    enough, until = answered() + answers, time.monotonic() + seconds
    while answered() < enough:
        assert time.monotonic() < until, f"no {answers} answers in {seconds:g} s, but {[p.counts for p in people]}"
        assert all(person.is_alive() for person in people), [person.error for person in people]
        time.sleep(0.005)


def verify(service: Service, people: Sequence[Person], *, others: int = 0) -> Counter[str]:
    """Check that everything acknowledged is recorded exactly once, and everything else completely or not at all.

    Checks this before and after the uncertain answers are sent again. Returns the number of events of each kind.
    """
    with service.client() as client:
        agree(client, people, others=others)
        for person in people:
            with service.client() as person.client:
                person.settle()
        assert not any(known.uncertain for person in people for known in person.log.values())
        agree(client, people, others=others)
    return sum((person.counts for person in people), Counter())


def agree(client: thali.Client, people: Sequence[Person], *, others: int = 0) -> None:
    """Compare the service with the logs of the people, and with statistics computed again from the answers.

    others: how many users have statistics, but have not been shown a list.
    """
    log = {id: known for person in people for id, known in person.log.items()}
    exports = {user: asdict(client.export(user)) for user in USERS}
    kept = {seen["impression"]: seen for export in exports.values() for seen in export["impressions"]}
    assert len(kept) == sum(len(export["impressions"]) for export in exports.values())
    lost = [id for id in log if id not in kept]
    assert not lost, f"{len(lost)} of {len(log)} acknowledged impressions are lost, as {log[lost[0]]}"
    for id, seen in kept.items():
        known, recorded = log.get(id), seen["clicked"]
        if known is None:
            assert recorded is None, f"an impression that nobody saw has an answer: {seen}"
            continue
        assert recorded in (known.clicked, *known.uncertain), f"{recorded} is recorded for {known}"
        assert seen["answer"] == (None if recorded is None else "feedback")
        for item, shown in zip(seen["items"], known.shown.items, strict=True):
            assert (item["item"], item["gains"]) == (shown.item, shown.gains)
    for export in exports.values():
        assert_learned_from_log(export)
    counted, answered = (
        asdict(client.stats())["learners"]["default"],
        [s for s in kept.values() if s["clicked"] is not None],
    )
    assert {name: counted[name] for name in ("users", "impressions", "answered", "clicked")} == {
        "users": len(USERS) + others,
        "impressions": len(kept),
        "answered": len(answered),
        "clicked": sum(bool(seen["clicked"]) for seen in answered),
    }
    bins: dict[int, int] = defaultdict(int)
    for seen in answered:
        bins[min(int(seen["click_probability"] * 10), 9)] += 1
    assert {round(10 * one["above"]): one["answered"] for one in counted["calibration"]} == bins


def assert_learned_from_log(export: dict[str, Any]) -> None:
    """Compute M and B of Algorithm 1 from the log in a plain loop. Compare them and the number of updates."""
    learned = export["learners"]["default"]
    topics = learned["topics"]
    assert topics[: len(TOPICS)] == list(TOPICS)
    M, B, updates = np.eye(len(topics)), np.zeros(len(topics)), 0
    for seen in export["impressions"]:
        if seen["clicked"] is None:
            continue
        updates += 1
        for k, item in enumerate(seen["items"]):
            x = np.array([item["gains"].get(topic, 0.0) for topic in topics])
            M += SIGMA**-2 * np.outer(x, x)
            B += x * (k in seen["clicked"])
            if k in seen["clicked"]:
                break  # the positions below the first click were not examined
    assert learned["updates"] == updates, f"{export['user']} learned {learned['updates']} times from {updates} answers"
    for name, plain in (("M", M), ("B", B)):
        np.testing.assert_allclose(
            learned[name], plain, rtol=1e-9, atol=1e-9 * np.abs(plain).max(), err_msg=f"{name} of {export['user']}"
        )
