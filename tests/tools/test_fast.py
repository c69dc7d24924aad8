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


def code(mode="background", folder=None):
    """Fast code whose example does nothing, and whose kernel would be stored in this folder."""
    own = FastCode(mode)
    own.register(SimpleNamespace(stats=SimpleNamespace(cache_path=folder and str(folder))), lambda: None)
    return own


def test_code_that_is_stored_is_used_at_once(tmp_path):
    assert not code(folder=tmp_path).ready()
    code(folder=tmp_path).compile_and_store()
    assert code(folder=tmp_path).ready()


def test_the_environment_decides():
    assert code("first").ready()
    never = code("never")
    never.compile_and_store()
    never.plain_took(1e9)
    assert not never.ready()
    with pytest.raises(ValueError, match="THALI_COMPILE must be one of background, first, never, got 'later'"):
        code("later")


def test_little_work_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started a process"))
    own = code(folder=tmp_path)
    for _ in range(10):
        own.plain_took(0.05)
    assert not own.ready()


def test_if_code_cannot_be_stored_it_is_compiled_here_once_that_is_worth_it(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started a process"))
    own = code(folder=None)
    own.plain_took(fast.HERE_AFTER_S - 0.1)
    assert not own.ready()
    own.plain_took(0.2)
    assert own.ready()


def test_a_failure_of_the_other_process_is_reported_and_this_process_goes_on(tmp_path, caplog):
    own = code(folder=tmp_path)
    own._examples[0].__module__ = "no_such_module"
    own.plain_took(fast.BACKGROUND_AFTER_S)
    own._compiler.wait()
    with caplog.at_level(logging.INFO, "thali"):
        assert not own.ready()
    assert "could not compile its fast code in the background: ModuleNotFoundError" in caplog.text
    own.plain_took(fast.HERE_AFTER_S)
    assert own.ready()


def test_the_other_process_is_stopped_when_this_one_ends(tmp_path):
    """An empty cache, and enough work to start it. The process must end soon, and leave no other process behind."""
    program = """
        import numpy, thali
        from thali.tools.fast import CODE
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
        from thali.lists import plain
        from thali.lists.engine import search
        from thali.policies.linear import batches
        from thali.tools.fast import CODE
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
        rng = np.random.default_rng(0)
        catalog = thali.Catalog(rng.random((2000, 8)) * (rng.random((2000, 8)) < 0.4))
        model = thali.DiverseCascade(catalog, rng.dirichlet(np.ones(8), 5))
        policies = [thali.CascadeLSB(catalog, 5), thali.CascadeLSB(catalog, 5, build=plain.build)]
        states = [policy.init(5) for policy in policies]
        tiers, begin = [], time.monotonic()
        while len(tiers) < 50 or (not tiers[-50] and time.monotonic() - begin < 300):
            tiers.append(CODE.ready())
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
    first, second = done.stdout.splitlines()
    assert first == "thali compiles its fast code in the background, and uses plain code until then"
    assert second.startswith("thali has compiled its fast code in ")
