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


def likes():
    """Return the likes of 60 people with two kinds of taste, over 40 items."""
    rng = np.random.default_rng(3)
    rows = []
    for person in range(60):
        favourite = np.where(np.arange(40) % 2 == person % 2, 0.4, 0.05) * np.linspace(1.0, 0.3, 40)
        rows += [(f"p{person}", f"film {e}", 1) for e in np.flatnonzero(rng.random(40) < favourite)]
    return thali.datasets.Interactions.of(rows)


def test_the_same_lists_with_a_fitted_catalog_a_learned_prior_quality_and_hidden_items(tmp_path, store_url):
    """A service started from interactions alone shows what the library shows, through restarts and background work."""
    start = thali.fit(likes(), d=3)
    file = tmp_path / "fitted.parquet"
    start.save(file)
    person = thali.DiverseCascade(start.catalog, [[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    learner = thali.service.http.settings.LearnerSetting("default", "CascadeLSB", K, prior="learn")
    settings = {"learners": (learner,), "store": store_url, "hide": "clicked,examined:3"}
    policy, quality, catalog = start.policy(K), thali.RelativeQuality(start.quality), start.catalog
    state, seen = policy.init(2), thali.Seen(thali.Hide(clicked=True, examined=3), users=2, L=catalog.L)
    rng = np.random.default_rng(4)
    users = ("ana", "bob")
    for part in range(3):
        with serving(tmp_path, catalog_file=file, **settings) as service, service.client() as client:
            for _ in range(12):
                expected = policy.recommend(state, exclude=seen.excluded(K, catalog.present))
                shown = [client.recommend(user) for user in users]
                assert [[item.item for item in one.items] for one in shown] == [
                    [catalog.items[e] for e in row] for row in expected
                ]
                clicks = person.sample(expected, rng)
                for one, row in zip(shown, clicks, strict=True):
                    client.feedback(one.id, np.flatnonzero(row))
                for n, one in enumerate(shown):
                    assert one.click_probability == pytest.approx(predicted(policy, state, expected)[n])
                quality.add(expected, clicks, quality.expected(policy, state, expected))
                policy.update(state, expected, clicks)
                seen.record(expected, clicks)
            if part == 0:  # the prior is learned, and both go on with it
                client.learn_prior()
                policy = start.policy(K, prior=thali.Prior.learn(start.policy(K), state))
            if part == 1:  # another process refreshes the quality while the service runs
                with thali.Recommender(
                    start.policy(K), store_url, quality=start.quality, hide=settings["hide"]
                ) as other:
                    other.refresh_quality()
                    other.recommend("ana")
                    same = other.catalog.dense_column("quality")
                quality.refresh(catalog)
                assert (same == catalog.dense_column("quality")).all()
                policy = policy.with_prior(policy.prior)
            learned = asdict(client.export("bob"))["learners"]["default"]
            assert learned["M"] == state.M[1].tolist()
            assert learned["B"] == state.B[1].tolist()
    assert state.B.any()


def predicted(policy, state, lists):
    return 1.0 - np.prod(1.0 - np.clip(policy.predict(state, lists), 0.0, 1.0), axis=1)
