"""Several connections use a store at once. They wait for each other, and nothing that was learned is lost."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain
from threading import Event

import pytest
from storing import BLANK, all_at_once, learn, opened, shown, transaction

from thali.service.stores import open_store
from thali.service.stores.records import Change, History, Writes
from thali.service.stores.sql import VERSION

A, B = ("ana", "l"), ("bob", "l")
WAIT_S = 0.3


@pytest.fixture
def store(store_url):
    with opened(store_url) as store:
        yield store


@pytest.fixture
def others(store):
    with ExitStack() as stack:
        yield [stack.enter_context(closing(store.new_connection())) for _ in range(6)]


def waits(job, until):
    """Return the result of a job, which must wait until until() is called."""
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(job)
        time.sleep(WAIT_S)
        try:
            assert not doing.done()
        finally:
            until()
        return doing.result(10)


def lock(store, key):
    with transaction(store):
        return store.lock_statistics([key], BLANK)[key]


@pytest.mark.parametrize("known", [True, False])
def test_others_wait_for_a_lock_and_then_see_what_was_learned(store, others, known):
    if known:
        learn(store, [A])
    store.begin()
    kept = store.lock_statistics([A], BLANK)[A]
    store.write(Writes(statistics={A: replace(kept, updates=kept.updates + 1)}), "w")
    assert waits(lambda: lock(others[0], A), store.commit).updates == 1 + known


def test_a_lock_that_is_rolled_back_leaves_nothing(store, others):
    store.begin()
    store.lock_statistics([A], BLANK)
    assert waits(lambda: lock(others[0], A), store.rollback) == BLANK


def test_an_impression_is_answered_once(store, others):
    one = shown("ana")
    with transaction(store):
        store.write(Writes([one]), "w")
    store.begin()
    answer = replace(store.impressions([one.id])[one.id], clicked=[0], answer="feedback")
    store.write(Writes(answered={one.id: answer}), "w")

    def look():
        with transaction(others[0]):
            return others[0].impressions([one.id])[one.id]

    assert waits(look, store.commit) == answer


def test_learning_waits_for_forgetting(store, others):
    learn(store, [A, B])
    store.begin()
    store.lock_user("ana", ["l"], BLANK)
    assert store.forget("ana") == (0, {"l": (1, 1)})
    assert waits(lambda: lock(others[0], A), store.commit) == BLANK
    assert lock(store, B).updates == 1


def test_forgetting_waits_for_learning_and_removes_what_was_learned(store, others):
    learn(store, [A])
    store.begin()
    store.lock_statistics([A], BLANK)
    store.write(Writes([shown("ana")], statistics={A: replace(BLANK, updates=5)}), "w")

    def forget():
        with transaction(others[0]):
            others[0].lock_user("ana", ["l"], BLANK)
            return others[0].forget("ana")

    assert waits(forget, store.commit) == (1, {"l": (5, 0)})


def test_forgetting_waits_for_somebody_who_is_being_learned_for_the_first_time(store, others):
    """There is no row of statistics yet that could be locked."""
    store.begin()
    store.lock_statistics([A], BLANK)
    store.add_history(History(*A, "h", 0, None, b"", "digest", 0.0, 1), None)

    def forget():
        with transaction(others[0]):
            others[0].lock_user("ana", ["l"], BLANK)
            others[0].forget("ana")
            return others[0].histories("ana")

    assert waits(forget, store.commit) == []
    with transaction(store, write=False):
        assert store.histories("ana") == []
        assert store.statistics_of_user("ana") == {}


def test_no_update_is_lost_whatever_the_order_of_keys(store, others):
    keys, rounds = [(user, learner) for user in ("ana", "bob", "ä") for learner in ("k", "l")], 20

    def work(store, seed):
        order, done = random.Random(seed), []
        for _ in range(rounds):
            some = order.sample(keys, order.randint(1, 4))
            learn(store, some)
            done += some
        return done

    done = [*chain(*all_at_once(lambda s=s, n=n: work(s, n) for n, s in enumerate(others)))]
    with transaction(store, write=False):
        assert {key: kept.updates for key, kept in store.statistics(keys).items()} == {k: done.count(k) for k in keys}


def test_changes_are_numbered_once_and_seen_in_their_order(store, others):
    with transaction(store):
        store.add_catalog(1, "")
    rounds, ended = 15, Event()

    def change(store):
        numbers = []
        for _ in range(rounds):
            with transaction(store):
                numbers.append(store.next_change(1))
                store.add_changes(1, [Change(numbers[-1], "x", None, 0.0)])
        return numbers

    def look():
        looks = 0
        while not ended.is_set():
            with transaction(others[-1], write=False):
                seen = [c.seq for c in others[-1].changes(1, 0)]
            assert seen == [*range(1, len(seen) + 1)]
            looks += 1
        return looks

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            numbers = all_at_once(lambda s=s: change(s) for s in others[:3])
        finally:
            ended.set()
        assert looking.result(10) > 1
    assert sorted(chain(*numbers)) == [*range(1, 3 * rounds + 1)]
    assert all(n == sorted(n) for n in numbers)
    with transaction(store, write=False):
        assert len(store.changes(1, 0)) == store.versions()[1] == 3 * rounds


def test_a_read_only_transaction_sees_a_snapshot(store, others):
    learn(store, [A])
    with transaction(others[0], write=False):
        assert others[0].statistics([A])[A].updates == 1
        learn(store, [A, B])
        assert others[0].statistics([A, B]).keys() == {A}
        assert others[0].users("", 9) == ["ana"]
    with transaction(others[0], write=False):
        assert others[0].users("", 9) == ["ana", "bob"]


def test_if_several_processes_set_up_a_store_only_one_does(store_url):
    open_store(store_url).close()  # so that the file exists

    def set_up():
        with closing(open_store(store_url)) as store, transaction(store):
            return store.migrate()

    assert sorted(all_at_once([set_up] * 4)) == [0, VERSION, VERSION, VERSION]


def test_generation_changes_when_others_write(store, others):
    before = store.generation()
    assert (before is None) is store.shared
    if not store.shared:
        learn(store, [A])
        assert store.generation() == before
        learn(others[0], [A])
        assert store.generation() != before
