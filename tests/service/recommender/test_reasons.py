"""Explanations: three parts that add up, for each item and topic, in numbers and in words."""

import numpy as np
import pytest
from recommending import K, films, names

import thali
from thali.service.recommender import Recommender
from thali.service.recommender.operations import SetPrior

PRIOR = thali.Prior([0.5, 0.2, 0.2, 0.1], np.diag([0.2, 0.1, 0.1, 0.3]), films().topics)


@pytest.mark.parametrize("policy", [thali.CascadeLSB, thali.CascadeLinUCB])
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_the_parts_add_up_and_stay_with_the_impression(store_url, policy, prior):
    own = policy(films(), K=K, prior=prior, alpha=0.7)
    with Recommender(own, store_url, learn_prior=True) as rec:
        state = own.init(1)
        for n in range(5):
            shown = rec.recommend("ana", explain=True)
            lists = [[rec.catalog.item(item) for item in names(shown)]]
            x, estimate = own.gains(lists)[0], own.estimate(state)[0]
            mean = np.zeros(4) if prior is None else prior.mean
            for row, item in zip(x, shown.items, strict=True):
                assert item.from_others == pytest.approx(row @ mean, abs=1e-12)
                assert item.from_you == pytest.approx(row @ (estimate - mean), abs=1e-12)
                assert item.from_others + item.from_you == pytest.approx(item.belief, abs=1e-12)
                parts = list(item.by_topic.values())
                assert sum(part.from_others for part in parts) == pytest.approx(item.from_others, abs=1e-12)
                assert sum(part.from_you for part in parts) == pytest.approx(item.from_you, abs=1e-12)
                assert sum(part.to_find_out for part in parts) == pytest.approx(item.exploration, abs=1e-12)
                for j, topic in enumerate(films().topics):
                    if topic in item.by_topic:
                        assert item.by_topic[topic].from_you == pytest.approx(row[j] * (estimate - mean)[j], abs=1e-12)
                assert item.reason
            clicks = [k == n % K for k in range(K)]
            rec.feedback(shown.id, [n % K])
            own.update(state, lists, [clicks])
        rec.perform([SetPrior("default", thali.Prior(0.9, np.eye(4)), 3)], whole=True)
        again = rec.impression(shown.id)
        assert [(i.from_others, i.from_you) for i in again.items] == [(i.from_others, i.from_you) for i in shown.items]
        assert again.items[0].by_topic is None


def test_words_name_what_matters(store_url):
    weights = np.array([[0.9, 0.0, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 0.0]])
    catalog = thali.Catalog(weights, items=["Heat", "Airplane!", "Blank"], topics=["crime", "comedy", "war"])
    prior = thali.Prior([0.8, 0.1, 0.0], np.eye(3) * 0.2, sigma=0.3, optimism=0.0)
    with Recommender(thali.CascadeLSB(catalog, K=3, prior=prior), store_url) as rec:
        heat, *_, blank = rec.recommend("ana", explain=True).items
        assert (heat.item, heat.reason) == ("Heat", "Others like crime.")
        assert (blank.item, blank.reason) == ("Blank", "Nothing is known about its topics.")
        for _ in range(20):
            shown = rec.recommend("ana")
            rec.feedback(shown.id, [names(shown).index("Airplane!")])
        reasons = {item.item: item.reason for item in rec.recommend("ana", explain=True).items}
        assert "You like comedy" in reasons["Airplane!"]
        assert "You like crime less than others do." in reasons["Heat"]
        curious = rec.recommend("new", explain=True, alpha=50.0)
        assert "Shown to find out whether you like" in curious.items[0].reason
