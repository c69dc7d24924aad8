"""/v1/about: the description of the service."""

from dataclasses import asdict

from recommending import films
from serving_here import TOPICS, serving, small_catalog

import thali
from thali.service.http.about import describe
from thali.service.http.settings import LearnerSetting, Limits, Settings, check_keys

KEYS = {role: f"{role}-{'0123456789abcdef'}" for role in ("read", "write", "admin")}
LEARNERS = (LearnerSetting("lsb", K=4, sigma=0.2, share=3.0), LearnerSetting("plain", "CascadeLinUCB", K=3, alpha=2.0))


def test_about_describes_what_the_service_was_started_with(tmp_path):
    weights = small_catalog().csr
    items, fading = [f"i{e}" for e in range(24)], [topic != TOPICS[1] for topic in TOPICS]
    catalog = thali.Catalog(weights, items, list(TOPICS), coverage="max", fading=fading)
    limits = Limits(body=50_000, waiting=7)
    keys = check_keys(list(KEYS.items()), "")
    with serving(tmp_path, catalog=catalog, learners=LEARNERS, limits=limits, keys=keys) as service:
        for role, key in KEYS.items():
            with service.client(key=key) as client:
                about = asdict(client.about())
            assert (about["role"], about["keys"]) == (role, True)
        for key in (None, "not-a-key-of-this-service"):
            bare = service.ask("GET", "/v1/about", key=key).json
            assert {name for name, value in bare.items() if value is not None} == {"keys"}
            assert bare["keys"] is True
            assert bare.keys() == about.keys()
        with service.client(key=KEYS["admin"]) as client:
            client.remove_item("i3")
            client.recommend("ana")  # the catalog in memory changes with the next transaction
            assert asdict(client.about()) == {**about, "items": 23}
            for policy in about["policies"]:
                assert asdict(client.simulate([policy], 2, K=2))["runs"][0]["policy"] == policy
    assert about.pop("policies") == [name for name in thali.POLICIES if name != "Oracle"]
    assert about["steady"] == [TOPICS[1]]
    assert {name: about[name] for name in ("version", "items", "topics", "coverage", "limits")} == {
        "version": thali.__version__, "items": 24, "topics": list(TOPICS), "coverage": "max", "limits": asdict(limits),
    }  # fmt: skip
    lsb, plain = about["learners"]
    assert lsb == {
        "name": "lsb", "policy": "CascadeLSB", "K": 4, "sigma": 0.2, "alpha": 4.0, "share": 0.75,
        "features": "gains", "examined": "first-click",
    }  # fmt: skip
    assert (plain["name"], plain["policy"], plain["features"]) == ("plain", "CascadeLinUCB", "items")
    assert (plain["K"], plain["alpha"], plain["share"]) == (3, 2.0, 0.25)


def test_about_has_a_number_for_alpha_theory(tmp_path):
    policy = thali.CascadeLSB(films(), K=3, alpha="theory", horizon=1000)
    with thali.Recommender(policy, store=f"sqlite:///{tmp_path / 'taste.db'}") as recommender:
        about = describe(Settings("none"), recommender, "admin")
    assert (about.keys, about.coverage, about.steady) == (False, "probabilistic", [])
    assert about.learners[0].alpha == thali.theory.optimism(4, 3, 1000, policy.sigma)
