"""A person who uses the service gets the same lists as one whom the library simulates."""

from dataclasses import asdict

import numpy as np
import pytest
from serving_here import serving, small_catalog

import thali
from thali.tools.randomness import streams

K, STEPS, SEED = 4, 150, 5


@pytest.mark.parametrize("policy", ["CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeHybrid"])
def test_a_simulated_person_gets_the_same_lists_from_the_service_as_from_simulate(policy, tmp_path, store_url):
    """All lists are the same, and so are M and B, although the service is restarted in between."""
    catalog = small_catalog()
    if policy == "CascadeHybrid":
        catalog = thali.Catalog(catalog.weights, catalog.items, catalog.topics, fading=np.arange(catalog.d) > 0)
    person = thali.DiverseCascade(catalog, [np.random.default_rng(1).dirichlet(np.ones(catalog.d))])
    own = thali.POLICIES[policy](catalog, K)
    run = thali.simulate(own, person, steps=STEPS, seed=SEED, points=range(1, STEPS + 1))
    draws = streams(SEED, "luck", [0])[0].random((STEPS, K))
    learner = thali.service.http.settings.LearnerSetting("default", policy, K)
    shown = []
    for steps in (range(STEPS // 3), range(STEPS // 3, STEPS)):
        chosen = {"catalog": catalog, "store": store_url, "learners": (learner,)}
        with serving(tmp_path, **chosen) as service, service.client() as client:
            for step in steps:
                found = client.recommend("person")
                shown.append([catalog.item(item.item) for item in found.items])
                clicks = person.respond(np.array([shown[-1]]), draws[step][None])
                client.feedback(found.id, np.flatnonzero(clicks[0]))
            learned = asdict(client.export("person"))["learners"]["default"]
    assert shown == run.lists[0].tolist()
    assert run.clicks[0, -1] > STEPS / 10
    assert learned["updates"] == STEPS
    assert learned["M"] == run.state.M[0].tolist()
    assert learned["B"] == run.state.B[0].tolist()
