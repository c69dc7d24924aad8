"""Items change while other threads of the service read them: for lists of items, and for simulations."""

import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from serving_here import TOPICS, serving

import thali
from thali.service.http.settings import LearnerSetting
from thali.service.recommender import Recommender
from thali.service.recommender.operations import RemoveItem

ITEMS, REMOVED, ROUNDS = 40_000, 36_000, 60


@pytest.fixture
def switching():
    """Make threads take turns more often, so that they meet in the middle of something more often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
def test_an_acknowledged_item_can_be_shown_at_once_while_items_are_listed_and_simulated(tmp_path, switching):
    rng = np.random.default_rng(0)
    rows, topics = np.arange(ITEMS), rng.integers(len(TOPICS), size=ITEMS)
    weights = sp.csr_array((rng.uniform(0.1, 0.6, ITEMS), (rows, topics)), shape=(ITEMS, len(TOPICS)))
    catalog = thali.Catalog(weights, items=[f"i{e}" for e in range(ITEMS)], topics=list(TOPICS))
    thali.save_catalog(catalog, tmp_path / "catalog.parquet")
    policy = thali.CascadeLSB(thali.load_catalog(tmp_path / "catalog.parquet"), K=4)
    with Recommender(policy, f"sqlite:///{tmp_path / 'thali.db'}") as recommender:
        recommender.perform([RemoveItem(f"i{e}") for e in range(REMOVED)], whole=True)
    learners = (LearnerSetting("default", K=4),)
    with serving(tmp_path, catalog=catalog, learners=learners) as service:
        service.client(timeout=300.0, deadline=300.0).simulate(["MostPopular"], 2, points=1)  # starts the process
        ended, statuses = threading.Event(), {"list": [], "simulate": []}

        def repeat(name, method, path, body=None):
            while not ended.is_set():
                statuses[name].append(service.ask(method, path, body).status)

        simulation = {"policies": ["CascadeLSB"], "steps": 2, "points": 1, "K": 2}
        readers = [
            *(threading.Thread(target=repeat, args=("list", "GET", "/v1/items?contains=999")) for _ in range(2)),
            threading.Thread(target=repeat, args=("simulate", "POST", "/v1/simulations", simulation)),
        ]
        for reader in readers:
            reader.start()
        try:
            shown = []
            for number in range(ROUNDS):
                for part in range(3):
                    put = service.ask("PUT", f"/v1/items/{number}.{part}", {"weights": {"comedy": 0.5, "music": 0.5}})
                    new = put.json["item"]
                    reply = service.ask("POST", "/v1/recommend", {"user": "ana", "K": 1, "candidates": [new]})
                    shown.append((put.status, reply.status, [one["item"] for one in reply.json["items"]] == [new]))
                assert service.ask("DELETE", f"/v1/items/{number}.0").status == 200
        finally:
            ended.set()
            for reader in readers:
                reader.join()
        assert set(shown) == {(200, 200, True)}
        assert set(statuses["list"]) == {200}
        assert set(statuses["simulate"]) == {200}
        assert min(map(len, statuses.values())) > 5
        assert not [line for line in service.log() if line["event"] == "error"]
