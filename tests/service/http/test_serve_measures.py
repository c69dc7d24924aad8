"""What the service says of itself: /metrics, /v1/stats, over several processes; and simulations beside it."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from itertools import chain

import numpy as np
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from scipy.stats import binomtest
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.client import Refused
from thali.lists.diversity import intra_list_distance
from thali.policies import POLICIES
from thali.service.http.settings import LearnerSetting

LEARNERS = (LearnerSetting("lsb", K=4, share=3.0), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("measures"), learners=LEARNERS) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    with service.client() as client:
        yield client


def measured(text):
    """Values by name and labels."""
    values = defaultdict(float)
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            values[sample.name, *sorted(sample.labels.items())] = sample.value
    return values


def test_metrics_and_stats_say_what_happened(service, client):
    """Against sums over the replies themselves, by learner."""
    draw, reply = np.random.default_rng(0), service.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    before = measured(reply.body)
    shown = []
    for user in range(25):
        for _ in range(4):
            one = client.recommend(f"user{user}")
            clicked = [int(draw.integers(len(one.items)))] if draw.random() < 0.4 else []
            shown.append((one, client.feedback(one.id, clicked).clicked if draw.random() < 0.8 else None))
    assert service.ask("POST", "/v1/recommend", {"user": ""}).status == 422
    after = measured(service.ask("GET", "/metrics").body)
    stats = client.stats(hours=2)

    def grown(name, **labels):
        key = name, *sorted(labels.items())
        return after[key] - before[key]

    assert grown("thali_request_seconds_count", route="/v1/recommend", status="200") == 100
    assert grown("thali_request_seconds_count", route="/v1/recommend", status="422") == 1
    answered = sum(clicked is not None for _, clicked in shown)
    assert 100 + answered <= grown("thali_transaction_operations_total") <= 103 + answered  # and perhaps some tidying
    assert after["thali_items",] == stats["items"] == 24
    assert stats["topics"] == len(TOPICS)
    assert sorted(stats["learners"]) == ["lsb", "plain"]
    for setting in LEARNERS:
        mine = [(one, clicked) for one, clicked in shown if one.learner == setting.name]
        told = [(one.click_probability, clicked) for one, clicked in mine if clicked is not None]
        hits = sum(bool(clicked) for _, clicked in told)
        lists = np.array([[service.catalog.items.index(it.item) for it in one.items] for one, _ in mine])
        diversity = intra_list_distance(service.catalog, lists)
        explored = [
            sum(it.exploration for it in one.items) / sum(abs(it.belief) + it.exploration for it in one.items)
            for one, _ in mine
        ]
        assert len(told) > 10
        for name, amount in {
            "impressions": len(mine),
            "answered": len(told),
            "clicked": hits,
            "diversity": diversity.sum(),
            "exploration": sum(explored),
        }.items():
            assert grown(f"thali_{name}_total", learner=setting.name) == pytest.approx(amount), name

        bins = defaultdict(list)
        for predicted, clicked in told:
            bins[min(int(10 * predicted), 9)].append((predicted, bool(clicked)))
        assert len(bins) > 2
        for number, inside in bins.items():
            labels = {"learner": setting.name, "bin": str(number)}
            assert grown("thali_calibration_answered_total", **labels) == len(inside)
            assert grown("thali_calibration_predicted_total", **labels) == pytest.approx(sum(p for p, _ in inside))
            assert grown("thali_calibration_clicked_total", **labels) == sum(hit for _, hit in inside)

        mean = stats["learners"][setting.name]
        assert (mean["policy"], mean["K"], mean["share"]) == (setting.policy, setting.K, setting.share / 4)
        assert (mean["impressions"], mean["answered"], mean["clicked"]) == (len(mine), len(told), hits)
        assert mean["users"] == len({one.user for one, clicked in mine if clicked is not None})
        assert mean["diversity"] == pytest.approx(diversity.mean())
        assert mean["exploration_share"] == pytest.approx(np.mean(explored))
        assert_wilson(mean["click_rate"], hits, len(told))
        assert [round(10 * one["above"]) for one in mean["calibration"]] == sorted(bins)
        for one in mean["calibration"]:
            inside = bins[round(10 * one["above"])]
            assert (one["answered"], one["below"]) == (len(inside), pytest.approx(one["above"] + 0.1))
            assert one["predicted"] == pytest.approx(np.mean([p for p, _ in inside]))
            assert_wilson(one["observed"], sum(hit for _, hit in inside), len(inside))
        hours = [one for one in stats["hours"] if one["learner"] == setting.name]
        assert sum(one["impressions"] for one in hours) == len(mine)
        assert all(one["hour"] % 3600 == 0 and stats["since"] <= one["hour"] <= time.time() for one in hours)
    users = Counter(one.learner for one, _ in shown)
    assert 0.5 < users["lsb"] / 100 < 0.95


def assert_wilson(told, hits, total):
    """SciPy's interval."""
    other = binomtest(hits, total).proportion_ci(0.95, method="wilson")
    assert (told["rate"], told["low"], told["high"]) == pytest.approx((hits / total, other.low, other.high), abs=1e-12)


def test_a_learner_without_answers_has_no_rate(tmp_path):
    with serving(tmp_path) as service, service.client() as client:
        nothing = client.stats()["learners"]["default"]
        assert [nothing[name] for name in ("impressions", "click_rate", "diversity")] == [0, None, None]
        client.undo(client.feedback(client.recommend("ana").id, [0]).impression)
        undone = client.stats()["learners"]["default"]
        assert [undone[name] for name in ("impressions", "answered", "clicked", "click_rate")] == [1, 0, 0, None]
        assert undone["calibration"] == []


SIMULATED = ["CascadeLSB", "CascadeLinUCB", "CascadeKLUCB", "CascadeLSB-TS"]
TASTE = {"comedy": 0.5, "music": 0.3}
CHANGES = [{"step": 100, "theta": {"drama": 0.9}}, {"step": 220, "theta": {"action": 0.25, "drama": 0.5}}]


def in_order(theta):
    return [theta.get(topic, 0.0) for topic in TOPICS]


def simulated(policy, person, points):
    """The library's own run, and θ̄ at its points."""
    estimates = []

    def look(_, state):
        estimates.append(policy.estimate(state)[0].tolist())

    learns_topics = isinstance(policy, thali.LinearPolicy)
    run = thali.simulate(policy, person, 300, 5, points=points, on_point=look if learns_topics else None)
    return run, estimates if learns_topics else None


@pytest.mark.parametrize("changes", [[], CHANGES], ids=["one taste", "changes"])
def test_simulations_are_the_librarys(client, changes):
    points = [1, 50, 100, 101, 220, 250]
    told = client.simulate(SIMULATED, 300, K=3, theta=TASTE, seed=5, points=points, trace=True, changes=changes)
    catalog = small_catalog()
    stages = [thali.DiverseCascade(catalog, [in_order(theta)]) for theta in (TASTE, *(c["theta"] for c in changes))]
    person = thali.Drift(stages, [0, *(change["step"] for change in changes)])
    assert told["steps"] == [*points, 300]
    assert [change["step"] for change in told["changes"]] == person.starts[1:]
    for stage, taste in zip(stages, (told, *told["changes"]), strict=True):
        assert taste["theta"] == dict(zip(TOPICS, stage.theta[0].tolist(), strict=True))
        assert taste["best_list"] == [catalog.items[e] for e in stage.best_lists(3)[0]]
        assert taste["best"] == stage.click_probability(stage.best_lists(3))[0]
    assert [run["policy"] for run in told["runs"]] == SIMULATED
    for run in told["runs"]:
        own, estimates = simulated(POLICIES[run["policy"]](catalog, 3), person, points)
        assert run["regret"] == own.regret[0].tolist()
        assert run["clicks"] == own.clicks[0].tolist()
        assert run["lists"] == [[catalog.items[e] for e in items] for items in own.lists[0]]
        assert run["last_list"] == run["lists"][-1]
        assert run["estimates"] == estimates
        assert run["estimate"] == (estimates and dict(zip(TOPICS, estimates[-1], strict=True)))


def test_a_person_drawn_from_the_seed(client):
    drawn = client.simulate(["Random"], 10, seed=1)
    assert sum(drawn["theta"].values()) == pytest.approx(1)
    assert client.simulate(["Random"], 10, seed=1) == drawn
    assert client.simulate(["Random"], 10, seed=2)["theta"] != drawn["theta"]
    assert len(drawn["steps"]) == 10


def test_a_simulation_watched_in_parts_is_the_whole(client):
    """What a page does: it asks for more and more steps, each time for the new ones; then the taste is changed."""
    points = range(10, 301, 10)

    def watch(steps, since, changes=()):
        shown = [at for at in points if since < at <= steps]
        return client.simulate(SIMULATED, steps, K=3, seed=5, points=shown, since=since, trace=True, changes=changes)

    for changes in ([], CHANGES[:1]):
        whole = client.simulate(SIMULATED, 300, K=3, seed=5, points=points, trace=True, changes=changes)
        parts = [watch(100, 0), watch(200, 100, changes), watch(300, 200, changes)]
        assert list(chain(*(part["steps"] for part in parts))) == whole["steps"] == list(points)
        for number, run in enumerate(whole["runs"]):
            pieces = [part["runs"][number] for part in parts]
            for field in ("regret", "clicks", "lists", "estimates"):
                if run[field] is not None:
                    assert list(chain(*(piece[field] for piece in pieces))) == run[field]
            assert pieces[-1]["last_list"] == run["last_list"]
            assert pieces[-1]["estimate"] == run["estimate"]
    every = client.simulate(["CascadeLSB"], 90, points=90, seed=5)
    tail = client.simulate(["CascadeLSB"], 90, points=90, seed=5, since=60)
    assert tail["steps"] == every["steps"][60:] == list(range(61, 91))
    assert tail["runs"][0]["regret"] == every["runs"][0]["regret"][60:]
    assert tail["runs"][0]["lists"] is tail["runs"][0]["estimates"] is None


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("steps", {"steps": 10_001, "policies": ["CascadeLSB", "Random"]}),
        ("steps", {"steps": 20_001}),
        ("steps", {"steps": 1}),
        ("policies", {"policies": ["Random"] * 9}),
        ("policies", {"policies": []}),
        ("policies", {"policies": ["nothing"]}),
        ("K", {"K": 25}),
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
def test_simulations_are_bounded(client, field, asked):
    with pytest.raises(Refused) as refused:
        client.simulate(**{"policies": ["Random"], "steps": 10, **asked})
    assert (refused.value.status, refused.value.field) == (422, field)


def test_others_are_answered_during_a_simulation(service, client):
    waits = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.simulate, ["CascadeLSB", "CascadeKLUCB"], 10_000)
        while not running.done():
            begin = time.perf_counter()
            assert client.healthy()
            assert len(client.recommend("meanwhile").items) > 0
            waits.append(time.perf_counter() - begin)
            time.sleep(0.02)
        assert len(running.result()["runs"]) == 2
    assert len(waits) > 5
    assert max(waits) < 0.5


def test_two_processes_count_together_and_see_each_others_items(postgres, tmp_path):
    thali.save_catalog(small_catalog(), tmp_path / "c.parquet")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ("serve", "c.parquet", "--store", postgres.fresh(), "--port", str(port), "--workers", "2", "--K", "4")
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen([sys.executable, "-m", "thali", *command], cwd=tmp_path, stdout=log, stderr=log)
    try:
        with thali.Client(f"http://127.0.0.1:{port}", retries=0) as client, ExitStack() as stack:
            until = time.monotonic() + 60
            while not client.ready():
                assert time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.1)
            one, other = lines_to_both(parent.pid, port, stack)
            for at, (here, there) in enumerate([(one, other), (other, one), (one, other)]):
                assert said(here, "PUT", f"/v1/items/new{at}", b'{"weights": {"action": 1, "comedy": 1, "music": 1}}')
                shown = said(there, "POST", "/v1/recommend", b'{"user": "u%d"}' % at)
                assert f'"new{at}"'.encode() in shown
                assert said(here, "DELETE", f"/v1/items/new{at}")
                shown = said(there, "POST", "/v1/recommend", b'{"user": "u%d"}' % at)
                assert f'"new{at}"'.encode() not in shown
            for line in (one, other):
                assert measured(said(line, "GET", "/metrics"))["thali_impressions_total", ("learner", "default")] == 6
            told = [json.loads(said(line, "GET", "/v1/health")) for line in (one, other)]  # of each process alone
            assert told[0]["process"] != told[1]["process"]
            together = measured(said(one, "GET", "/metrics"))["thali_transaction_seconds_count",]
            assert min(health["transactions"] for health in told) >= 8
            assert sum(health["transactions"] for health in told) <= together
    finally:
        parent.send_signal(signal.SIGINT)
        try:
            parent.wait(30)
        finally:
            if parent.poll() is None:
                for left in (*psutil.Process(parent.pid).children(recursive=True), parent):
                    left.kill()
    told = (tmp_path / "log").read_text()
    assert told.count('"event":"started"') == told.count('"event":"stopped"') == 2
    assert "Traceback" not in told


def lines_to_both(pid, port, stack):
    """A connection to each of the two processes."""
    found = {}
    until = time.monotonic() + 30
    while len(found) < 2:
        assert time.monotonic() < until, "one process takes all connections"
        line = stack.enter_context(closing(HTTPConnection("127.0.0.1", port, timeout=30)))
        said(line, "GET", "/healthz")
        mine = line.sock.getsockname()[1]
        for child in psutil.Process(pid).children(recursive=True):
            if any(c.raddr and c.raddr.port == mine for c in child.net_connections("tcp4") if c.laddr.port == port):
                found[child.pid] = line
    return found.values()


def said(line, method, path, body=None):
    line.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
    with line.getresponse() as reply:
        content = reply.read()
        assert reply.status == 200, content
        return content
