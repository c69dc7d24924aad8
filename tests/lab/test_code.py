"""Rows say which code made them, and rows that other code made are never used silently."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from running import Inline

import thali
from thali.lab import code, tasks
from thali.lab.kinds import PEOPLE
from thali.lab.report import build
from thali.lab.results import Results
from thali.lab.runner import Store, run
from thali.lab.settings import EXPERIMENTS, PRACTICAL
from thali.lists.diversify import MMR

TINY = replace(
    EXPERIMENTS["synthetic/20k"], users=2, steps=20, policies=("CascadeLSB", "Random"), settings=(PRACTICAL,)
)

MODULES_OF_A_TASK = """
import json, sys
from thali.lab.settings import EXPERIMENTS
from thali.lab.sources import problem
from thali.lab.tasks import perform, tasks_of
from dataclasses import replace
small = dict(users=2, splits=1, steps=4)
for name in ("synthetic/20k", "drift/generated-gradual"):
    experiment = replace(EXPERIMENTS[name], **small)
    for task in tasks_of(experiment, seed=0):
        perform(task, problem(experiment, 0, seed=0))
print(json.dumps({name: m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] == "thali"}))
"""


@pytest.mark.slow
def test_the_digest_covers_every_module_that_a_task_loads():
    done = subprocess.run([sys.executable, "-c", MODULES_OF_A_TASK], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout).values())
    assert len(loaded) > 40
    assert loaded <= {str(path) for path in code.counted_files()}
    assert all((code.PACKAGE / name).exists() for name in code.NOT_COUNTED)


def test_after_a_change_of_code_a_resumed_run_does_not_mix_old_and_new_rows(tmp_path, monkeypatch):
    said = []
    with monkeypatch.context() as before:
        before.setattr(tasks, "CODE", "0123456789ab")
        run([TINY], Store(tmp_path), Inline())
        run([TINY], Store(tmp_path), Inline(), notice=said.append)
    assert said == []
    old = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    resumed = run([replace(TINY, policies=("Random",))], Store(tmp_path), Inline(), notice=said.append)
    assert said == [
        "40 stored rows were made by other code than today's and are computed again. The old rows stay in "
        f"{tmp_path / 'rows'}."
    ]
    assert {path: path.read_bytes() for path in old} == old, "nothing is deleted"
    for results in (Results(tmp_path, resumed), Results(tmp_path)):
        assert set(results.rows["code"]) == {code.CODE}
        assert set(results.rows["policy"]) == {"Random"}


@pytest.mark.slow
def test_the_report_says_which_code_made_the_rows(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(tasks, "CODE", "0123456789ab")
        run([TINY], Store(tmp_path), Inline())
    page = build(tmp_path).page.read_text()
    assert "code 0123456789ab" in page
    assert f"code {code.CODE}" in page


OWN = """
import thali
from helper_of_mine import FIRST, order

class Mine(thali.Random):
    first = {first}

class People(thali.DiverseCascade):
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a module with a policy, and a module that it imports; import both again after each change."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(first=0, helper=0):
        (folder / "policy_of_mine.py").write_text(OWN.format(first=first))
        (folder / "helper_of_mine.py").write_text(f"FIRST = {helper}\ndef order(): return {helper}\n")
        for name in ("helper_of_mine", "policy_of_mine"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        module = importlib.import_module("policy_of_mine")
        monkeypatch.setitem(thali.POLICIES, "Mine", module.Mine)
        monkeypatch.setitem(PEOPLE, "mine", lambda catalog, theta, rates: module.People(catalog, theta))

    return write


def test_a_change_of_your_own_policy_computes_only_its_rows_again(own, tmp_path):
    experiment = replace(TINY, policies=("CascadeLSB", "Mine"))
    own()
    first = run([experiment], Store(tmp_path), Inline())
    own()
    assert run([experiment], Store(tmp_path), Inline()) == first
    for changes in ({"first": 1}, {"first": 1, "helper": 1}):
        own(**changes)
        said = []
        second = run([experiment], Store(tmp_path), Inline(), notice=said.append)
        assert len(said) == 1
        assert [a == b for a, b in zip(first, second, strict=True)] == [True, False]
        newest = Results(tmp_path).rows.filter(policy="Mine")
        assert set(newest["policy_code"]) == set(Store(tmp_path).rows(second[1:])["policy_code"])
        first = second


def test_a_change_of_your_own_click_model_computes_the_rows_of_every_policy_again(own, tmp_path):
    experiment = replace(TINY, clicks="mine")
    with pytest.raises(ValueError, match="clicks of synthetic/20k must be one of .*, got 'mine'"):
        run([experiment], Store(tmp_path), Inline())
    own()
    first = run([experiment], Store(tmp_path), Inline())
    own(helper=1)
    second = run([experiment], Store(tmp_path), Inline())
    assert not set(first) & set(second)
    assert set(Results(tmp_path).rows["code"]) == set(Store(tmp_path).rows(second)["code"])


def test_settings_of_an_added_policy_and_code_without_a_file_count_too(monkeypatch):
    assert code.own_code(thali.CascadeLSB, thali.POLICIES["Random"]) == ""
    some = {discount: code.own_code(partial(thali.CascadeLSB, discount=discount)) for discount in (0.9, 0.8)}
    assert some[0.9] != some[0.8]
    assert code.own_code(thali.POLICIES["MMR"]) == code.own_code(partial(thali.CascadeLinUCB, build=MMR()))
    typed = type("Typed", (thali.Random,), {"__module__": "__main__"})  # as in a notebook
    once = code.own_code(typed)
    assert code.own_code(typed) == once
    monkeypatch.setattr(code, "_UNREADABLE", b"another process")
    assert code.own_code(typed) != once


def test_workers_with_other_code_are_rejected(tmp_path, monkeypatch):
    class OtherCode(Inline):
        def submit(self, function, *arguments):
            with monkeypatch.context() as worker:
                worker.setattr(tasks, "CODE", "0123456789ab")
                return super().submit(function, *arguments)

    with pytest.raises(RuntimeError, match=f"the same code of thali .{code.CODE}., got 0123456789ab"):
        run([TINY], Store(tmp_path), OtherCode())
    assert not list(tmp_path.rglob("*.parquet"))


def test_rows_without_a_digest_are_not_used_for_a_new_run(tmp_path):
    names = run([TINY], Store(tmp_path), Inline())
    rows = Store(tmp_path).rows()
    for path in tmp_path.rglob("*.parquet"):
        pl.read_parquet(path).drop("code", "policy_code").write_parquet(path.with_name(path.name.replace("-", "_", 1)))
        path.unlink()
    old = Results(tmp_path).rows
    assert old.drop("code", "policy_code").equals(rows.drop("code", "policy_code"))
    assert set(old["code"]) == {""}
    assert run([TINY], Store(tmp_path), Inline()) == names
    assert set(Results(tmp_path).rows["code"]) == {code.CODE}


def test_long_arrays_and_functions_without_a_module_count_as_settings():
    """The text of a long array leaves out most of it."""
    first, second = np.zeros(5000), np.zeros(5000)
    second[2500] = 1.0
    digests = {code.own_code(partial(thali.CascadeLSB, sigma=value)) for value in (first, second, np.add.reduce)}
    assert len(digests) == 3
