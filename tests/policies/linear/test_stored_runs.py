"""Without a prior and without steady topics, lists and states are those of earlier versions, bit for bit."""

import json
from pathlib import Path

import pytest

from .stored_runs import POLICIES, digest

STORED = json.loads((Path(__file__).parent / "stored_runs.json").read_text())


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_run_is_the_same_as_before_priors_and_steady_topics(name, coverage):
    assert digest(name, coverage) == STORED[f"{name}, {coverage}"]
