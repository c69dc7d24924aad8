"""/v1/simulations: the same results as the library's, also in parts, within limits, without delaying other requests."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import chain

import pytest
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.client import Refused
from thali.policies import POLICIES
from thali.service.http.settings import LearnerSetting
from thali.service.http.simulation_worker import Work
from thali.service.http.simulation_worker import run as run_work

LEARNERS = (LearnerSetting("lsb", K=4, share=3.0), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("simulations"), learners=LEARNERS) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    with service.client() as client:
        yield client


SIMULATED = ["CascadeLSB", "CascadeLinUCB", "CascadeKLUCB", "CascadeLSB-TS"]
TASTE = {"comedy": 0.5, "music": 0.3}
CHANGES = [{"step": 100, "theta": {"drama": 0.9}}, {"step": 220, "theta": {"action": 0.25, "drama": 0.5}}]


def in_order(theta):
    return [theta.get(topic, 0.0) for topic in TOPICS]


def simulated(policy, person, points):
    """Return the library's own run, and θ̄ at its points."""
    estimates = []

    def look(_, state):
        estimates.append(policy.estimate(state)[0].tolist())

    learns_topics = isinstance(policy, thali.LinearPolicy)
    run = thali.simulate(policy, person, 300, 5, points=points, on_point=look if learns_topics else None)
    return run, estimates if learns_topics else None


@pytest.mark.parametrize("changes", [[], CHANGES], ids=["one taste", "changes"])
def test_simulations_are_the_same_as_the_librarys(client, changes):
    points = [1, 50, 100, 101, 220, 250]
    result = asdict(
        client.simulate(SIMULATED, 300, K=3, theta=TASTE, seed=5, points=points, trace=True, changes=changes)
    )
    catalog = small_catalog()
    stages = [thali.DiverseCascade(catalog, [in_order(theta)]) for theta in (TASTE, *(c["theta"] for c in changes))]
    person = thali.Drift(stages, [0, *(change["step"] for change in changes)])
    assert result["steps"] == [*points, 300]
    assert [change["step"] for change in result["changes"]] == person.starts[1:]
    for stage, taste in zip(stages, (result, *result["changes"]), strict=True):
        assert taste["theta"] == dict(zip(TOPICS, stage.theta[0].tolist(), strict=True))
        assert taste["best_list"] == [catalog.items[e] for e in stage.best_lists(3)[0]]
        assert taste["best"] == stage.click_probability(stage.best_lists(3))[0]
    assert [run["policy"] for run in result["runs"]] == SIMULATED
    for run in result["runs"]:
        own, estimates = simulated(POLICIES[run["policy"]](catalog, 3), person, points)
        assert run["regret"] == own.regret[0].tolist()
        assert run["clicks"] == own.clicks[0].tolist()
        assert run["lists"] == [[catalog.items[e] for e in items] for items in own.lists[0]]
        assert run["last_list"] == run["lists"][-1]
        assert run["estimates"] == estimates
        assert run["estimate"] == (estimates and dict(zip(TOPICS, estimates[-1], strict=True)))


def test_a_simulation_keeps_the_steady_topics_of_the_catalog():
    given = small_catalog()
    catalog = thali.Catalog(given.weights, given.items, given.topics, fading=[topic != "music" for topic in TOPICS])
    theta = in_order(TASTE)
    work = Work(catalog.snapshot(), ["CascadeHybrid"], 50, 3, theta, [], 5, [10, 50], trace=True)
    run = run_work(work).runs[0]
    own = thali.simulate(thali.CascadeHybrid(catalog, 3), thali.DiverseCascade(catalog, [theta]), 50, 5, points=[10])
    assert run.regret == own.regret[0].tolist()
    assert run.lists == [[catalog.items[e] for e in items] for items in own.lists[0]]


def test_a_person_drawn_from_the_seed(client):
    drawn = asdict(client.simulate(["Random"], 10, seed=1))
    assert sum(drawn["theta"].values()) == pytest.approx(1)
    assert asdict(client.simulate(["Random"], 10, seed=1)) == drawn
    assert asdict(client.simulate(["Random"], 10, seed=2))["theta"] != drawn["theta"]
    assert len(drawn["steps"]) == 10


def test_the_parts_of_a_simulation_are_the_same_as_the_whole(client):
    """The page requests more and more steps, and each time only the new ones. Then it changes the taste."""
    points = range(10, 301, 10)

    def watch(steps, since, changes=()):
        shown = [at for at in points if since < at <= steps]
        return asdict(
            client.simulate(SIMULATED, steps, K=3, seed=5, points=shown, since=since, trace=True, changes=changes)
        )

    for changes in ([], CHANGES[:1]):
        whole = asdict(client.simulate(SIMULATED, 300, K=3, seed=5, points=points, trace=True, changes=changes))
        parts = [watch(100, 0), watch(200, 100, changes), watch(300, 200, changes)]
        assert list(chain(*(part["steps"] for part in parts))) == whole["steps"] == list(points)
        for number, run in enumerate(whole["runs"]):
            pieces = [part["runs"][number] for part in parts]
            for field in ("regret", "clicks", "lists", "estimates"):
                if run[field] is not None:
                    assert list(chain(*(piece[field] for piece in pieces))) == run[field]
            assert pieces[-1]["last_list"] == run["last_list"]
            assert pieces[-1]["estimate"] == run["estimate"]
    every = asdict(client.simulate(["CascadeLSB"], 90, points=90, seed=5))
    tail = asdict(client.simulate(["CascadeLSB"], 90, points=90, seed=5, since=60))
    assert tail["steps"] == every["steps"][60:] == list(range(61, 91))
    assert tail["runs"][0]["regret"] == every["runs"][0]["regret"][60:]
    assert tail["runs"][0]["lists"] is tail["runs"][0]["estimates"] is None


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("steps", {"steps": 10_001, "policies": ["CascadeLSB", "Random"]}),
        ("steps", {"steps": 20_001}),
        ("steps", {"steps": 1}),
        ("policies", {"policies": ["Random"] * 9}),
        ("policies", {"policies": []}),
        ("policies", {"policies": ["nothing"]}),
        ("K", {"K": 101}),
        ("points", {"points": 1001}),
        ("points", {"points": 0}),
        ("points", {"points": True}),
        ("points", {"points": "10"}),
        ("points", {"points": []}),
        ("points", {"points": [1] * 1001}),
        ("points", {"points": [5, 5]}),
        ("points", {"points": [5, 11]}),
        ("points[1]", {"points": [5, 0]}),
        ("points[0]", {"points": [1.5]}),
        ("points", {"policies": ["Random"] * 8, "K": 24, "points": 1000, "steps": 1000, "trace": True}),
        ("since", {"since": 10}),
        ("since", {"since": -1}),
        ("since", {"since": 2.0}),
        ("trace", {"trace": 1}),
        ("seed", {"seed": -1}),
        ("theta", {"theta": {"nothing": 0.5}}),
        ("theta.comedy", {"theta": {"comedy": 1.1}}),
        ("changes", {"changes": [{"step": at, "theta": {}} for at in range(1, 22)], "steps": 30}),
        ("changes[0].step", {"changes": [{"step": 0, "theta": {}}]}),
        ("changes[0].step", {"changes": [{"step": 10, "theta": {}}]}),
        ("changes[1].step", {"changes": [{"step": 5, "theta": {}}, {"step": 5, "theta": {}}]}),
        ("changes[1].theta", {"changes": [{"step": 5, "theta": {}}, {"step": 6, "theta": {"nothing": 0.5}}]}),
        ("changes[0].theta", {"changes": [{"step": 5, "theta": {"comedy": 1, "music": 0.01}}]}),
        ("changes[0].theta", {"changes": [{"step": 5}]}),
        ("changes[0].theta.comedy", {"changes": [{"step": 5, "theta": {"comedy": -0.1}}]}),
        ("changes[0].more", {"changes": [{"step": 5, "theta": {}, "more": 1}]}),
    ],
)
def test_simulations_have_limits(client, field, body):
    with pytest.raises(Refused) as refused:
        client.simulate(**{"policies": ["Random"], "steps": 10, **body})
    assert (refused.value.status, refused.value.field) == (422, field)


def test_other_requests_are_served_during_a_simulation(service, client):
    waits = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.simulate, ["CascadeLSB", "CascadeKLUCB"], 10_000)
        while not running.done():
            begin = time.perf_counter()
            assert client.healthy()
            assert len(client.recommend("meanwhile").items) > 0
            waits.append(time.perf_counter() - begin)
            time.sleep(0.02)
        assert len(running.result().runs) == 2
    assert len(waits) > 5
    assert max(waits) < 0.5
