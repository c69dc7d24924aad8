"""A service goes on with its catalog when a worker is restarted, and ends with its terminal."""

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest
from ports import free_port
from serving import START_S, TOPICS, Service, small_catalog
from terminal import in_terminal

import thali

pytestmark = pytest.mark.slow


def wait_until(condition, running, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        assert running.running, running.tail()
        assert time.monotonic() < until, running.tail()
        time.sleep(0.1)


def workers(running):
    """The processes of the workers: those that answer requests."""
    found = []
    for child in psutil.Process(running.pid).children():
        with suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child.pid)
    return found


def larger():
    catalog = small_catalog()
    catalog.put("a new film", [0.5] * catalog.d)
    return catalog


def prior(mean):
    return thali.Prior(mean, np.eye(len(TOPICS)), TOPICS)


@pytest.mark.parametrize("options", [(), ("--new-catalog",), ("--prior", "prior.json")])
@pytest.mark.parametrize("file", ["refused", "broken"])
def test_a_worker_is_restarted_with_the_catalog_that_is_in_use(tmp_path, postgres, options, file):
    """Whatever file is at its path: one that the service has refused, or one that cannot be read. So is a prior."""
    prior(0.25).save(tmp_path / "prior.json")
    with (
        Service(tmp_path, "--workers", "2", *options, store=postgres.fresh()) as running,
        running.client(retries=0) as client,
    ):
        thali.save_catalog(larger(), tmp_path / "catalog.parquet")
        assert client.load_catalog().items == len(larger())  # the workers keep copies of what is put into use
        client.put_item("through the API", {client.topics()[0]: 0.9})
        if file == "refused":
            thali.save_catalog(small_catalog(), tmp_path / "catalog.parquet")
        else:
            (tmp_path / "catalog.parquet").write_bytes(b"broken")
        prior(0.75).save(tmp_path / "prior.json")
        topics = client.priors()["default"].topics
        assert (topics is not None) == ("--prior" in options)
        os.kill(running.pid, signal.SIGHUP)
        wait_until(lambda: running.log.read_text().count('"event":"catalog-not-loaded"') >= 2, running)
        before = workers(running)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pid not in workers(running) and len(workers(running)) == 2, running)
            wait_until(lambda: client.ready(), running)
        assert not set(before) & set(workers(running))
        processes = set()
        until = time.monotonic() + 30
        while len(processes) < 2:
            assert time.monotonic() < until
            with running.client(retries=2) as fresh:
                assert [item.item for item in fresh.items(contains="through")] == ["through the API"]
                assert [item.item for item in fresh.items(contains="a new")] == ["a new film"]
                assert fresh.priors()["default"].topics == topics
                processes.add(fresh.health().process)
        running.stop()


@pytest.mark.parametrize("count", [1, 2])
def test_a_signal_during_the_start_waits_until_the_process_can_load_the_catalog_again(tmp_path, count, request):
    """Also while a worker is started again after a crash."""
    store = None if count == 1 else request.getfixturevalue("postgres").fresh()
    running = Service(tmp_path, "--workers", str(count), store=store)

    def ready():
        os.kill(running.pid, signal.SIGHUP)
        return client.ready() and (count == 1 or len(workers(running)) == count)

    try:
        running.launch()
        wait_until(lambda: "Loading" in running.log.read_text(), running, START_S)
        with running.client(retries=0) as client:
            wait_until(ready, running, START_S)
            if count == 2:
                started = running.log.read_text().count('"event":"started"')
                os.kill(workers(running)[0], signal.SIGKILL)
                wait_until(lambda: ready() and running.log.read_text().count('"event":"started"') > started, running)
            thali.save_catalog(larger(), tmp_path / "catalog.parquet")
            os.kill(running.pid, signal.SIGHUP)
            wait_until(lambda: client.about().items == len(larger()), running)
        assert "catalog-not-loaded" not in running.log.read_text()
        running.stop()
    finally:
        if running.running:
            running.kill()


@pytest.mark.parametrize("nohup", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_closing_the_terminal_ends_the_service_unless_it_was_started_with_nohup(tmp_path, workers, nohup, request):
    thali.save_catalog(small_catalog(), tmp_path / "catalog.parquet")
    store = f"sqlite:///{tmp_path}/taste.db" if workers == 1 else request.getfixturevalue("postgres").fresh()
    port = free_port()
    words = ("serve", "catalog.parquet", "--store", store, "--port", str(port), "--workers", str(workers))
    nohup_words = (shutil.which("nohup"),) if nohup else ()
    pid, terminal = in_terminal(tmp_path, *nohup_words, sys.executable, "-m", "thali", *words)
    process = psutil.Process(pid)
    try:
        with thali.Client(f"http://127.0.0.1:{port}", retries=0) as client:
            until = time.monotonic() + START_S
            while not client.ready():
                assert time.monotonic() < until
                assert process.is_running()
                time.sleep(0.1)
        while nohup and (tmp_path / "nohup.out").read_text().count('"event":"started"') < workers:
            assert time.monotonic() < until
            time.sleep(0.1)
        family = [process, *process.children()]
        os.close(terminal)
        terminal = -1
        _, alive = psutil.wait_procs(family, timeout=10 if nohup else 20)
        assert set(alive) == (set(family) if nohup else set())
    finally:
        if terminal >= 0:
            os.close(terminal)
        for one in (process, *(process.children() if process.is_running() else ())):
            if one.is_running():
                one.kill()
