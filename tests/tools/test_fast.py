"""Fast code is used as soon as it is compiled, and plain code gives the same results until then."""

import logging
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from thali.tools import fast
from thali.tools.fast import FastCode


def nothing():
    """An example that compiles nothing."""


@pytest.fixture
def code(monkeypatch):
    """Makes fast code whose kernel would be stored in this folder."""

    def make(folder=None, mode="background"):
        monkeypatch.setenv("THALI_COMPILE", mode)
        kernel = SimpleNamespace(stats=SimpleNamespace(cache_path=folder and str(folder)))
        return FastCode("fast code", kernel, nothing)

    return make


class Process:
    """Stands for a compiler process that ends when the test says so."""

    started = 0

    def __init__(self, *_, stderr, **__):
        type(self).started += 1
        self.returncode = None

    def poll(self):
        return self.returncode

    def wait(self):
        return self.returncode


def test_code_that_is_stored_is_used_at_once(code, tmp_path):
    assert not code(tmp_path).ready()
    code(tmp_path).compile_and_store()
    assert code(tmp_path).ready()


def test_the_environment_decides(code):
    assert code(mode="first").ready()
    never = code(mode="never")
    never.compile_and_store()
    never.plain_took(1e9)
    assert not never.ready()
    with pytest.raises(ValueError, match="THALI_COMPILE must be one of background, first, never, got 'later'"):
        code(mode="later")


def test_little_work_starts_nothing(code, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started a process"))
    own = code(tmp_path)
    for _ in range(10):
        own.plain_took(0.05)
    assert not own.ready()


def test_if_code_cannot_be_stored_it_is_compiled_here_once_that_is_worth_it(code, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started a process"))
    own = code(folder=None)
    own.plain_took(fast.HERE_AFTER_S - 0.1)
    assert not own.ready()
    own.plain_took(0.2)
    assert own.ready()


@pytest.mark.parametrize("stored", [True, False])
def test_a_process_that_ends_during_plain_work_is_noticed(code, tmp_path, monkeypatch, caplog, stored):
    """It is not started again, whether it has stored the code or failed."""
    monkeypatch.setattr(Process, "started", 0)
    monkeypatch.setattr(subprocess, "Popen", Process)
    own = code(tmp_path)
    for _ in range(5):
        assert not own.ready()
        own.plain_took(0.5)
    if stored:
        own._stored().touch()
    own._compiler.returncode = int(not stored)
    with caplog.at_level(logging.INFO, "thali"):
        own.plain_took(0.5)
    assert Process.started == 1
    assert own.ready() == stored
    assert ("has compiled its fast code" if stored else "could not compile its fast code") in caplog.text


def test_a_failure_of_the_other_process_is_reported_and_this_process_goes_on(code, tmp_path, caplog):
    """The other process finds no CODE in this module, because tests are not importable there."""
    own = code(tmp_path)
    own.plain_took(fast.BACKGROUND_AFTER_S)
    with caplog.at_level(logging.INFO, "thali"):
        own.wait()
    assert not own.ready()
    assert "could not compile its fast code in the background: " in caplog.text
    assert "Error: " in caplog.text
    own.plain_took(fast.HERE_AFTER_S)
    assert own.ready()


@pytest.mark.slow
def test_the_other_process_is_stopped_when_this_one_ends(tmp_path):
    """An empty cache, and enough work to start it. No process may be left behind."""
    program = """
        import numpy, thali
        from thali.lists.engine import CODE
        thali.greedy_lists(thali.Catalog(numpy.random.default_rng(0).random((40, 3))), [[0.1, 0.2, 0.3]], K=2)
        assert not CODE.ready()
        CODE.plain_took(2.0)
        print(CODE._compiler.pid)
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "THALI_COMPILE": "background"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, check=True
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.slow
def test_from_the_first_list_to_the_engine_with_nothing_compiled(tmp_path):
    """Lists come from plain code until another process has compiled the engine. They are always the same."""
    program = """
        import logging, sys, time
        import numpy as np, thali
        from thali.lists import engine, plain
        from thali.lists.engine import search
        from thali.policies.linear import batches
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
        rng = np.random.default_rng(0)
        catalog = thali.Catalog(rng.random((2000, 8)) * (rng.random((2000, 8)) < 0.4))
        model = thali.DiverseCascade(catalog, rng.dirichlet(np.ones(8), 5))
        policies = [thali.CascadeLSB(catalog, 5), thali.CascadeLSB(catalog, 5, build=plain.build)]
        states = [policy.init(5) for policy in policies]
        tiers, begin = [], time.monotonic()
        batches.CODE.compile_in_background()
        while len(tiers) < 50 or (not tiers[-50] and time.monotonic() - begin < 300):
            tiers.append(engine.CODE.ready() and batches.CODE.ready())
            lists = [policy.recommend(state) for policy, state in zip(policies, states)]
            assert (lists[0] == lists[1]).all()
            clicks = model.sample(lists[0], rng)
            for policy, state in zip(policies, states):
                policy.update(state, lists[0], clicks)
        assert tiers == sorted(tiers) and not tiers[0] and tiers[-1], (tiers[0], tiers[-1])
        assert len(search.greedy.signatures) == len(batches.refresh.signatures) == 1
        assert search.greedy.stats.cache_hits and not search.greedy.stats.cache_misses  # compiled by the other process
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "THALI_COMPILE": "background"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for name in ("search engine", "code for batches of users"):
        assert lines.count(f"thali compiles its {name} in the background, and uses plain code until then") == 1
        assert sum(line.startswith(f"thali has compiled its {name} in ") for line in lines) == 1
    assert len(lines) == 4
