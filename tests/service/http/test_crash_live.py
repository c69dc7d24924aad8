"""The service is killed while it learns priors, refreshes the quality of items and gets histories. All stay exact."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict

import numpy as np
import pytest
from crowd import USERS, crowd, progress, verify
from serving import SIGMA, TOPICS, Service, fitted_catalog, small_catalog
from storing import opened, transaction

import thali

pytestmark = pytest.mark.slow

KILLS, KNOWN = 6, 400
OPTIONS = ("--prior", "learn", "--prior-every", "1", "--quality-every", "1", "--hide", "clicked,examined:2")


def learn_from(service):
    """Start ``thali learn-from``, which gives 400 people their history."""
    command = [sys.executable, "-m", "thali", "learn-from", "likes.csv", "--store", service.store]
    return subprocess.Popen(command, cwd=service.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def likes(service):
    """Write the likes of people to a file, and return the items of each."""
    rng = np.random.default_rng(0)
    liked = {f"known {n:03}": sorted(rng.choice(60, rng.integers(1, 6), replace=False)) for n in range(KNOWN)}
    rows = [f"{user},film {e}" for user, items in liked.items() for e in items]
    (service.folder / "likes.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    return liked


def counted(client):
    """Return how often each item was examined and clicked, from all answers."""
    examined, clicked = Counter(), Counter()
    for user in USERS:
        for shown in asdict(client.export(user))["impressions"]:
            if shown["clicked"] is not None:
                items = [item["item"] for item in shown["items"]]
                seen = items if not shown["clicked"] else items[: min(shown["clicked"]) + 1]
                examined.update(seen)
                clicked.update(item for k, item in enumerate(seen) if k in shown["clicked"])
    return {item: (count, clicked[item]) for item, count in examined.items()}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_priors_quality_and_histories_are_exact_after_crashes(tmp_path, kind, request):
    rng = random.Random(7)
    options = {} if kind == "sqlite" else {"store": request.getfixturevalue("postgres").fresh()}
    workers = () if kind == "sqlite" else ("--workers", "2")
    with Service(tmp_path, *OPTIONS, *workers, **options, start=fitted_catalog()) as service:
        liked, learning = likes(service), None
        with crowd(service) as people:
            for kill in range(KILLS):
                progress(people)
                learning = learn_from(service)
                time.sleep(rng.uniform(1.0, 4.0))
                if kill % 2:
                    learning.kill()
                learning.communicate(timeout=60)
                service.kill()
                service.start()
            progress(people, 50)
            learning = learn_from(service)
            out, _ = learning.communicate(timeout=120)
            assert learning.returncode == 0, out.decode()
            version = learned_version(service)
        print(verify(service, people, others=KNOWN))
        with service.client() as client:
            expected = counted(client)
            check_histories(client, liked)
            prior = client.priors()["default"]
            assert prior.source == "learned"
            assert prior.version >= version > 0
            check_first_list(service, client, expected)


def check_first_list(service, client, expected):
    """The quality is counted exactly, and a new user gets the list of the library with that quality and prior."""
    until = time.monotonic() + 30
    with opened(service.store) as store:
        while time.monotonic() < until:
            before = learned_by_all(store)
            shown = [item.item for item in client.recommend(f"new {time.monotonic()}").items]
            if before == learned_by_all(store) and before[0] == expected:
                break
            time.sleep(0.1)
        counts, version, content = learned_by_all(store)
        relative = since(store)
    assert counts == expected
    assert (version, content) == before[1:], "a prior was learned again and again, though nobody gave feedback"
    start = fitted_catalog()
    items = start.catalog.items
    m = np.array([(*counts.get(item, (0.0, 0.0)), *relative.get(item, (0.0, 0.0))) for item in items]).T
    thali.RelativeQuality(start.quality, m).refresh(start.catalog)
    policy = thali.CascadeLSB(start.catalog, len(shown), prior=thali.Prior.from_content(json.loads(content)))
    assert shown == [items[e] for e in policy.recommend(policy.init(1))[0]]


def learned_by_all(store):
    """Return the counts of clicks in the quality of items, and the version and the content of the prior."""
    with transaction(store, write=False):
        prior = store.priors()["default"]
        return {item: (n, c) for item, n, c, *_ in store.quality() if n or c}, prior.version, prior.prior


def since(store):
    """Return the sums of what was expected of each item. They are exactly those over all answered lists."""
    found = {}
    with transaction(store, write=False):
        kept = {item: sums for item, _, _, *sums in store.quality() if any(sums)}
        for user in USERS:
            for shown in store.answered_impressions(user):
                end = min(shown.clicked) + 1 if shown.clicked else len(shown.items)
                by_topics, care = shown.expected_clicks(shown.clicked)
                for item, topical in zip(shown.items[:end], by_topics, strict=False):
                    sums = found.setdefault(item, [0.0, 0.0])
                    sums[0], sums[1] = sums[0] + topical, sums[1] + care
    assert {item: sums for item, sums in found.items() if any(sums)} == kept
    return kept


def learned_version(service):
    """Wait until a prior was learned, and return its version."""
    until = time.monotonic() + 30
    with service.client() as client:
        while time.monotonic() < until:
            with suppress(thali.client.Unavailable):
                if (version := client.priors()["default"].version) > 0:
                    return version
            time.sleep(0.2)
    raise AssertionError("no prior was learned in 30 s")


def check_histories(client, liked):
    """Everybody has their history exactly once. The quality of items, the last topic, differs between histories."""
    x, d = small_catalog().dense, len(TOPICS)
    shared = None
    for user, items in list(liked.items())[::20]:
        learned = asdict(client.export(user))["learners"]["default"]
        M, B = np.array(learned["M"])[:d, :d], np.array(learned["B"])[:d]
        shared = M if shared is None else shared
        assert (shared == M).all()
        scale = B.sum() / x[items].sum()
        np.testing.assert_allclose(B, scale * x[items].sum(axis=0), rtol=1e-9)
        np.testing.assert_allclose(M - np.eye(len(M)), scale * SIGMA**-2 * x.T @ x, rtol=1e-9)
