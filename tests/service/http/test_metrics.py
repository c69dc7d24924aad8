"""/metrics and /v1/stats, also for several processes together."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, closing
from dataclasses import asdict
from http.client import HTTPConnection

import numpy as np
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from scipy.stats import binomtest
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.lists.diversity import intra_list_distance
from thali.service.http.settings import LearnerSetting

LEARNERS = (LearnerSetting("lsb", K=4, share=3.0), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("metrics"), learners=LEARNERS) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    with service.client() as client:
        yield client


def metric_values(text):
    """Return values by name and labels."""
    values = defaultdict(float)
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            values[sample.name, *sorted(sample.labels.items())] = sample.value
    return values


def test_metrics_and_stats_count_what_happened(service, client):
    """Compares them with sums over the responses, by learner."""
    draw, reply = np.random.default_rng(0), service.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    before = metric_values(reply.body)
    shown = []
    for user in range(25):
        for _ in range(4):
            one = client.recommend(f"user{user}")
            clicked = [int(draw.integers(len(one.items)))] if draw.random() < 0.4 else []
            shown.append((one, client.feedback(one.id, clicked).clicked if draw.random() < 0.8 else None))
    assert service.ask("POST", "/v1/recommend", {"user": ""}).status == 422
    after = metric_values(service.ask("GET", "/metrics").body)
    stats = asdict(client.stats(hours=2))

    def grown(name, **labels):
        key = name, *sorted(labels.items())
        return after[key] - before[key]

    assert grown("thali_request_seconds_count", route="/v1/recommend", status="200") == 100
    assert grown("thali_request_seconds_count", route="/v1/recommend", status="422") == 1
    answered = sum(clicked is not None for _, clicked in shown)
    assert 100 + answered <= grown("thali_transaction_operations_total") <= 103 + answered  # and possibly some tidying
    assert after["thali_items",] == stats["items"] == 24
    assert stats["topics"] == len(TOPICS)
    assert sorted(stats["learners"]) == ["lsb", "plain"]
    for setting in LEARNERS:
        mine = [(one, clicked) for one, clicked in shown if one.learner == setting.name]
        answered_lists = [(one.click_probability, clicked) for one, clicked in mine if clicked is not None]
        hits = sum(bool(clicked) for _, clicked in answered_lists)
        lists = np.array([[service.catalog.items.index(it.item) for it in one.items] for one, _ in mine])
        diversity = intra_list_distance(service.catalog, lists)
        explored = [
            sum(it.exploration for it in one.items) / sum(abs(it.belief) + it.exploration for it in one.items)
            for one, _ in mine
        ]
        assert len(answered_lists) > 10
        for name, amount in {
            "impressions": len(mine),
            "answered": len(answered_lists),
            "clicked": hits,
            "diversity": diversity.sum(),
            "exploration": sum(explored),
        }.items():
            assert grown(f"thali_{name}_total", learner=setting.name) == pytest.approx(amount), name

        bins = defaultdict(list)
        for predicted, clicked in answered_lists:
            bins[min(int(10 * predicted), 9)].append((predicted, bool(clicked)))
        assert len(bins) > 2
        for number, inside in bins.items():
            labels = {"learner": setting.name, "bin": str(number)}
            assert grown("thali_calibration_answered_total", **labels) == len(inside)
            assert grown("thali_calibration_predicted_total", **labels) == pytest.approx(sum(p for p, _ in inside))
            assert grown("thali_calibration_clicked_total", **labels) == sum(hit for _, hit in inside)

        mean = stats["learners"][setting.name]
        assert (mean["policy"], mean["K"], mean["share"]) == (setting.policy, setting.K, setting.share / 4)
        assert (mean["impressions"], mean["answered"], mean["clicked"]) == (len(mine), len(answered_lists), hits)
        assert mean["users"] == len({one.user for one, clicked in mine if clicked is not None})
        assert mean["diversity"] == pytest.approx(diversity.mean())
        assert mean["exploration_share"] == pytest.approx(np.mean(explored))
        assert_wilson(mean["click_rate"], hits, len(answered_lists))
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


def assert_wilson(rate, hits, total):
    """Compare with SciPy's interval."""
    other = binomtest(hits, total).proportion_ci(0.95, method="wilson")
    assert (rate["rate"], rate["low"], rate["high"]) == pytest.approx((hits / total, other.low, other.high), abs=1e-12)


def test_a_learner_without_answers_has_no_rate(tmp_path):
    with serving(tmp_path) as service, service.client() as client:
        nothing = asdict(client.stats())["learners"]["default"]
        assert [nothing[name] for name in ("impressions", "click_rate", "diversity")] == [0, None, None]
        client.undo(client.feedback(client.recommend("ana").id, [0]).impression)
        undone = asdict(client.stats())["learners"]["default"]
        assert [undone[name] for name in ("impressions", "answered", "clicked", "click_rate")] == [1, 0, 0, None]
        assert undone["calibration"] == []


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
                assert ask(here, "PUT", f"/v1/items/new{at}", b'{"weights": {"action": 1, "comedy": 1, "music": 1}}')
                shown = ask(there, "POST", "/v1/recommend", b'{"user": "u%d"}' % at)
                assert f'"new{at}"'.encode() in shown
                assert ask(here, "DELETE", f"/v1/items/new{at}")
                shown = ask(there, "POST", "/v1/recommend", b'{"user": "u%d"}' % at)
                assert f'"new{at}"'.encode() not in shown
            for line in (one, other):
                assert (
                    metric_values(ask(line, "GET", "/metrics"))["thali_impressions_total", ("learner", "default")] == 6
                )
            both = [json.loads(ask(line, "GET", "/v1/health")) for line in (one, other)]  # each describes one process
            assert both[0]["process"] != both[1]["process"]
            together = metric_values(ask(one, "GET", "/metrics"))["thali_transaction_seconds_count",]
            assert min(health["transactions"] for health in both) >= 8
            assert sum(health["transactions"] for health in both) <= together
    finally:
        parent.send_signal(signal.SIGINT)
        try:
            parent.wait(30)
        finally:
            if parent.poll() is None:
                for left in (*psutil.Process(parent.pid).children(recursive=True), parent):
                    left.kill()
    log_text = (tmp_path / "log").read_text()
    assert log_text.count('"event":"started"') == log_text.count('"event":"stopped"') == 2
    assert "Traceback" not in log_text


def lines_to_both(pid, port, stack):
    """Return a connection to each of the two processes."""
    found = {}
    until = time.monotonic() + 30
    while len(found) < 2:
        assert time.monotonic() < until, "one process takes all connections"
        line = stack.enter_context(closing(HTTPConnection("127.0.0.1", port, timeout=30)))
        ask(line, "GET", "/healthz")
        mine = line.sock.getsockname()[1]
        for child in psutil.Process(pid).children(recursive=True):
            if any(c.raddr and c.raddr.port == mine for c in child.net_connections("tcp4") if c.laddr.port == port):
                found[child.pid] = line
    return found.values()


def ask(line, method, path, body=None):
    line.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
    with line.getresponse() as reply:
        content = reply.read()
        assert reply.status == 200, content
        return content
