"""The service is killed, stopped or out of disk space under load. What it acknowledged is stored exactly once."""

import random
import sqlite3
import time
from contextlib import closing

import pytest
from crowd import agree, crowd, progress, verify
from serving import Service

from thali.client import Unavailable

pytestmark = pytest.mark.slow

KILLS, POSTGRES_CRASHES = 20, 6


def integrity(service):
    with closing(sqlite3.connect(service.database)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall()


def test_a_service_with_sqlite_is_killed_repeatedly(tmp_path):
    rng = random.Random(6)
    with Service(tmp_path) as service:
        with crowd(service) as people:
            for kill in range(KILLS):
                progress(people)
                time.sleep(rng.uniform(0.0, 0.7))
                if kill % 2:  # when a caller has just been told that a request is durable, otherwise at any moment
                    rng.choice(people).on_reply = service.strike
                    service.wait_end()
                service.kill()
                service.start()
            progress(people, 50)
        counts = verify(service, people)
        print(counts)
        service.kill()
        assert integrity(service) == [("ok",)]
        service.start()
        with service.client() as client:
            agree(client, people)
    assert counts["uncertain, done"] + counts["uncertain, not done"] > KILLS / 2, (
        "the service was killed while nobody used it"
    )


def test_postgres_crashes_and_restarts_under_load(tmp_path, postgres):
    rng = random.Random(6)
    with Service(tmp_path, "--workers", "2", store=postgres.fresh()) as service:
        with crowd(service) as people:
            for crash in range(POSTGRES_CRASHES):
                progress(people, 30)
                time.sleep(rng.uniform(0.0, 0.5))
                if crash == POSTGRES_CRASHES // 2:
                    service.kill()
                    service.start()
                    progress(people, 30)
                pid = service.pid
                try:
                    postgres.kill() if crash % 2 else postgres.stop("immediate")
                    with service.client(retries=0) as client:
                        with pytest.raises(Unavailable) as caught:
                            client.recommend("ana")
                        assert caught.value.status == 503
                        assert client.healthy()
                        assert not client.ready()
                finally:
                    postgres.start()
                service.wait(10)
                assert service.pid == pid
            progress(people, 50)
        counts = verify(service, people)
        print(counts)
        service.stop()
    assert counts["status 503"] > POSTGRES_CRASHES, "nobody was told that the store cannot be used"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_service_that_is_stopped_under_load_finishes_its_requests(tmp_path, kind, request):
    options = {} if kind == "sqlite" else {"store": request.getfixturevalue("postgres").fresh()}
    with Service(tmp_path, *(() if kind == "sqlite" else ("--workers", "2")), **options) as service:
        with crowd(service, retries=(5, 5, 5, 5)) as people:
            for _ in range(2):
                progress(people, 50)
                service.stop()
                service.start()
            progress(people, 50)
        counts = verify(service, people)
        print(counts)


def test_a_full_disk_is_reported_and_nothing_is_done_until_there_is_space(tmp_path):
    with Service(tmp_path) as service, service.client(retries=0) as client:
        with crowd(service) as people:
            for room in (200_000, 1):  # first there is a little space, then none at all, not even for the log
                progress(people, 30)
                service.limit_files(room)
                until = time.monotonic() + 30
                while client.ready():
                    assert time.monotonic() < until
                    time.sleep(0.05)
                with pytest.raises(Unavailable) as caught:
                    client.recommend("ana")
                assert caught.value.status == 503
                assert client.healthy()
                service.limit_files(-1)
                service.wait(10)
            progress(people, 50)
        service.limit_files(1)
        assert not client.ready()  # even if no other request has tried to write
        service.limit_files(-1)
        counts = verify(service, people)
        assert service.running
        assert integrity(service) == [("ok",)]
    print(counts)
    assert counts["status 503"] > 0, "nobody was told that the store cannot be used"
