"""PostgreSQL stops, crashes, hangs or rejects: that is an error, never a hang, a leak or half of a transaction."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from storing import BLANK, learn, opened, shown, transaction

from thali.service.stores import StoreError, open_store
from thali.service.stores import postgres as postgres_store
from thali.service.stores.records import Writes
from thali.service.stores.sql import MIGRATIONS

A, B = ("ana", "l"), ("bob", "l")


@pytest.fixture
def store(postgres):
    with opened(postgres.fresh()) as store:
        yield store


def updates(store, key=A):
    with transaction(store, write=False):
        found = store.statistics([key])
        return found[key].updates if found else 0


def test_a_stopped_server_is_an_error_and_is_used_again_when_it_is_back(store, postgres):
    for _ in range(8):  # so that statements are prepared
        learn(store, [A])
    try:
        for mode in ("fast", "immediate"):
            postgres.stop(mode)
            for _ in range(2):
                with pytest.raises(StoreError, match="cannot be used") as caught:
                    store.begin()
                assert "\n" not in str(caught.value)
            with pytest.raises(StoreError, match="no transaction"):
                store.commit()
            store.rollback()
            postgres.start()
            learn(store, [A])
    finally:
        postgres.start()
    assert updates(store) == 10


def test_a_crash_loses_only_what_was_not_committed(store, postgres):
    learn(store, [A])
    store.begin()
    store.lock_statistics([A, B], BLANK)
    store.write(Writes([shown("ana")], statistics={A: BLANK}), "w")
    postgres.kill()
    try:
        with pytest.raises(StoreError, match="cannot be used"):
            store.commit()
        store.rollback()
    finally:
        postgres.start()
    assert (updates(store), updates(store, B)) == (1, 0)
    with transaction(store, write=False):
        assert store.users("", 9) == ["ana"]
        assert store.counts_of_user("ana") == {}


def test_a_connection_lost_between_transactions_is_not_noticed(store, postgres):
    learn(store, [A])
    end_connections(postgres)
    learn(store, [A])
    assert updates(store) == 2


def test_after_a_connection_is_lost_in_a_transaction_no_statement_runs_outside_one(store, postgres):
    store.begin()
    store.set_meta("a", "1")
    end_connections(postgres)
    with pytest.raises(StoreError, match="cannot be used"):
        store.set_meta("b", "1")
    with pytest.raises(StoreError, match="no transaction"):
        store.set_meta("c", "1")
    with transaction(store):
        assert [store.meta(name) for name in "abc"] == [None, None, None]


def end_connections(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'thali'"
        assert connection.execute(ended).fetchall() == [(True,)]


def test_a_server_that_hangs_is_an_error(store, monkeypatch):
    monkeypatch.setattr(postgres_store, "RESPONSE_S", 0.5)
    for job in (lambda: store.set_meta("a", "1"), lambda: store.write(Writes([shown("ana")]), ""), store.commit):
        store.begin()
        ((pid,),) = store.execute("SELECT pg_backend_pid()")
        os.kill(pid, signal.SIGSTOP)
        try:
            since = time.monotonic()
            with pytest.raises(StoreError, match="did not respond"):
                job()
            assert time.monotonic() - since < 2
        finally:
            os.kill(pid, signal.SIGCONT)
    learn(store, [A])
    assert updates(store) == 1


def test_in_a_deadlock_one_transaction_fails_and_the_other_continues(store):
    with closing(store.new_connection()) as other:
        store.begin()
        other.begin()
        store.lock_statistics([B], BLANK)
        other.lock_statistics([A], BLANK)
        with ThreadPoolExecutor(2) as pool:
            doing = [(s, pool.submit(s.lock_statistics, [key], BLANK)) for s, key in ((store, A), (other, B))]
            failed = [s for s, done in doing if done.exception(10) is not None]
            assert len(failed) == 1
            with pytest.raises(StoreError, match="deadlock detected$"):
                next(done for s, done in doing if s is failed[0]).result()
            (survivor,) = {store, other} - set(failed)
            survivor.commit()
        learn(failed[0], [A, B])
        assert updates(store, A) == updates(store, B) == 1


def test_commits_are_durable_whatever_the_settings_of_the_server(postgres):
    with closing(open_store(f"{postgres.fresh()}?options=-csynchronous_commit%3Doff")) as store:
        for write in (True, False):
            with transaction(store, write=write):
                assert store.execute("SHOW synchronous_commit") == [("on",)]
                assert store.execute("SHOW lock_timeout") == [("5s",)]
                assert store.execute("SHOW statement_timeout") == [("10s",)]
        with pytest.raises(StoreError, match="no transaction"):  # the server's own settings would apply there
            store.execute("SELECT 1")


def test_a_store_uses_the_schema_in_its_url(postgres):
    url = postgres.fresh()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA mine")
    with opened(url) as public, opened(f"{url}?options=-csearch_path%3Dmine") as mine:
        learn(mine, [A])
        assert (updates(mine), updates(public)) == (1, 0)


def test_a_password_is_never_shown(postgres):
    _, _, rest = postgres.url.partition("@")
    for url in (f"postgresql://eve:s3cret@{rest}x", f"postgres://eve@{rest}x?password=s3cret&sslpassword=s3cret"):
        store = open_store(url)
        with pytest.raises(StoreError) as caught:
            store.begin()
        assert store.url == f"postgresql://eve@{rest}x"
        assert store.url in str(caught.value)
        for error in (caught.value, caught.value.__cause__):
            assert "s3cret" not in str(error)


def test_names_are_ordered_by_code_point(store):
    """In every column that is a key or used for ordering, whatever the language of the database."""
    with transaction(store, write=False):
        columns = store.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND collation_name = 'C'"
        )
    assert len(columns) == sum(s.count("{text}") for migration in MIGRATIONS for s in migration)
    assert {("statistics", "user"), ("statistics", "learner"), ("impressions", "user")} <= set(columns)
