"""Lists with fewer than K items, because candidates, exclusions or the catalog leave no more."""

import pytest
from recommending import SIGMA, K, assert_same, everything, films, learned, names, recommender, weights
from reference import PlainLinear

import thali
from thali.service.recommender import Refused


@pytest.mark.parametrize("policy", [thali.CascadeLSB, thali.LSBGreedy, thali.CascadeLinUCB])
def test_a_list_is_shorter_if_fewer_than_K_items_are_left(tmp_path, policy):
    """What is learned from it, and undone, is what the algorithm in plain NumPy learns."""
    features = "items" if policy is thali.CascadeLinUCB else "gains"
    examined = "all" if policy is thali.LSBGreedy else "first-click"

    def plain_policy(rows, K):
        return PlainLinear(rows, K, sigma=SIGMA, alpha=0.8 / SIGMA, features=features, examined=examined)

    plain = plain_policy(weights(), K)
    blank = plain.M, plain.B
    every = [f"film {e}" for e in range(20)]
    with recommender(f"sqlite:///{tmp_path}/taste.db", policy=policy) as rec:
        shown = []
        for left, asked in (
            ([4, 9], {"candidates": ["film 4", "film 9", "film 4"]}),
            ([7], {"candidates": ["film 7", "film 2"], "exclude": ["film 2"]}),
            ([3, 17], {"exclude": [name for name in every if name not in ("film 3", "film 17")], "K": 20}),
        ):
            shown.append(rec.recommend("ana", **asked))
            items = [rec.catalog.item(name) for name in names(shown[-1])]
            few = plain_policy(weights()[left], len(left))
            few.M, few.B = plain.M, plain.B
            assert items == [left[e] for e in few.recommend()]
            assert [item.position for item in shown[-1].items] == list(range(len(left)))
            clicks = [k == len(left) - 1 for k in range(len(left))]
            rec.feedback(shown[-1].id, [len(left) - 1])
            plain.update(items, clicks)
            assert_same(learned(rec, "ana"), (len(shown), plain.M, plain.B), rtol=1e-12)
        with pytest.raises(Refused, match=r"clicked\[0\] must be a whole number from 0 to 0, got 1"):
            rec.feedback(shown[1].id, [1])
        assert names(rec.impression(shown[0].id)) == names(shown[0])
        assert [len(one.items) for one in rec.history("ana")] == [2, 1, 2]
        assert sum(one.impressions for one in rec.stats().learners.values()) == 3
        for one in shown:
            rec.undo(one.id)
        assert_same(learned(rec, "ana"), (0, *blank))


def test_lists_follow_the_number_of_items_in_the_catalog(tmp_path):
    with recommender(f"sqlite:///{tmp_path}/taste.db", films(4)) as rec:
        for e in range(2):
            rec.remove_item(f"film {e}")
        assert set(names(rec.recommend("ana"))) == {"film 2", "film 3"}
        assert set(names(rec.recommend("ana", K=100))) == {"film 2", "film 3"}
        rec.put_item("new", {"drama": 0.5})
        assert set(names(rec.recommend("ana"))) == {"film 2", "film 3", "new"}
        for name in ("film 2", "film 3", "new"):
            rec.remove_item(name)
        kept = everything(rec.store)
        with pytest.raises(Refused, match="catalog must have at least one item to choose from, got none"):
            rec.recommend("ana")
        with pytest.raises(Refused, match="candidates must leave at least one item to choose from, got none"):
            rec.recommend("ana", candidates=[])
        assert everything(rec.store) == kept
        rec.put_item("film 0", {"drama": 0.5})
        with pytest.raises(Refused, match="exclude must leave at least one item to choose from, got none"):
            rec.recommend("ana", exclude=["film 0"])
        with pytest.raises(Refused, match="candidates must leave at least one item to choose from, got none"):
            rec.recommend("ana", candidates=["film 0"], exclude=["film 0"])
        assert names(rec.recommend("ana")) == ["film 0"]
