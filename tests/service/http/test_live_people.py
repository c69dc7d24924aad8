"""People with real likes who use a real service over HTTP (benchmarks/live.py, with fewer people)."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # needs real data, and serves hundreds of people
ROOT = Path(__file__).parents[3]
PEOPLE = 600


@pytest.fixture(scope="module")
def data():
    folder = Path(os.environ.get("THALI_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "ml-1m").is_dir():
        pytest.skip(f"MovieLens 1M is not at {folder}: set $THALI_DATA to the folder that holds ml-1m/")
    return str(folder)


@pytest.fixture(scope="module")
def live():
    sys.path.insert(0, str(ROOT / "benchmarks"))  # as for a script that is run: it imports pages
    try:
        spec = importlib.util.spec_from_file_location("live", ROOT / "benchmarks" / "live.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["live"] = module  # its dataclasses look it up
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        sys.modules.pop("live", None)


@pytest.fixture(scope="module")
def held_out(live, data):
    return live.hold_out(data, PEOPLE)


def test_a_service_shows_people_with_real_likes_the_lists_of_the_library(live, held_out, tmp_path):
    found = live.likes(held_out, tmp_path, people=40)
    assert found.served.shape == (40, 30, 10)
    assert found.same.all()
    assert found.clicked(found.served)[:, :10].mean() > 0.75  # so people do click, and what was learned matters


def test_a_prior_learned_from_50_people_helps_the_next_50(live, data, tmp_path):
    found = live.arriving(data, tmp_path, orders=1)
    assert found.half(found.service, 1).value >= 92.0
    assert found.half(found.service, 1).low > found.half(found.without, 1).high


def test_a_known_history_is_at_least_as_good_as_a_greedy_list_under_its_preferences(live, held_out, tmp_path):
    found = live.history(held_out, tmp_path)
    assert found.flags[live.WITH].size >= 0.95 * PEOPLE
    assert found.difference(live.WITH, live.GREEDY).low >= 0.0
    assert found.difference(live.WITH, live.WITHOUT).low > 0.0
