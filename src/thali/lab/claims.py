"""The paper's claims: a table with one entry for each sentence that can be true or false.

:mod:`thali.lab.evidence` defines how each claim is measured, and :mod:`thali.lab.ledger` computes the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from thali.lab import evidence, first_lists, real_people
from thali.lab.evidence import Measure
from thali.lab.settings import FIT, LEARNED_PRIOR, PRACTICAL, PRIOR, STATIC, STRONG, THEORY, Setting


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what is measured for it, and the condition under which it holds."""

    number: str
    section: str
    statement: str
    holds_if: str
    """The condition in words; it continues the sentence "It holds if …"."""
    measure: Measure
    """(results, prefix of the experiments' names, settings) → checks. There are no checks if rows are missing."""
    suites: tuple[str, ...]
    settings: tuple[Setting | None, ...] = (PRACTICAL, THEORY)
    unit: str = ".2f"


# Settings of a claim that does not depend on α.
_NO_ALPHA: tuple[Setting | None, ...] = (None,)
_ALL_DATA = ("movielens", "songs", "songs-hetrec", "yelp", "yelp-core40", "yelp-hin")
_SONGS = ("songs", "songs-hetrec")
_YELP = ("yelp", "yelp-core40", "yelp-hin")
_LOWEST = "in every experiment, each baseline's regret is higher than CascadeLSB's"
_WORST = "in every experiment, its regret is higher than that of each of the other three policies"
_BEST_BASELINE = "in every experiment with this d, the other two baselines have a higher regret than LSBGreedy"
# evidence.exponent defines p.
_GROWTH = "regret grows like n^p with p"
_LINEAR = f"{_GROWTH} ≥ {evidence.LINEAR}"
_FLAT = f"{_GROWTH} ≤ {evidence.FLAT}"
_MOST = f"for at least {evidence.MOST:.0%} of the people, the last list shown is this list"
_ONE_TOPIC = "the list of the two items of the preferred topic (items 0 and 1 in thali, 1 and 2 in the paper)"
_OWN_DATA = "this is decided only with the paper's own data, because the sentence describes it"
_LEARNED = (
    "this is decided only if the cascading bandit has learned something, that is, if it gets at least "
    f"{evidence.LEARNED:.0%} of the best list's clicks in the last tenth of the run"
)
_ABRUPT = ("drift/generated-abrupt", "drift/movielens-abrupt")
_LIKES = tuple(f"likes/{source}-K10" for source in ("movielens", "songs-hetrec", "yelp-core40", "yelp-hin"))
_FIRST_LISTS = tuple(f"first-lists/{source}" for source in ("movielens", "songs-hetrec", "yelp-core40", "yelp-hin"))
_FORGETFUL = ("CascadeLSB-discount", "CascadeLSB-window")


def _is_cascade(name: str) -> bool:
    return name in ("robustness/movielens-diverse-cascade", "robustness/movielens-cascade")


#: All claims, mostly in the paper's order.
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C1",
        "3",
        "The model of Yue and Guestrin has no position bias; the diverse cascade model has one",
        "in the paper's example, moving an item from first to second place leaves its clicks unchanged in the model of "
        "Yue and Guestrin, and halves them in the diverse cascade model",
        evidence.position_bias,
        ("models",),
        _NO_ALPHA,
    ),
    Claim(
        "C2",
        "3.2",
        "Greedy lists reach the fraction γ of the optimum that Theorem 1 promises",
        "it is true for every person",
        evidence.theorem_1,
        ("approximation",),
        _NO_ALPHA,
    ),
    Claim(
        "C3",
        "3.2",
        "In practice, greedy lists are significantly better than Theorem 1 promises",
        f"on average, greedy lists reach at least {1 + evidence.SIMILAR:g}·γ of the optimum",
        evidence.better_than_theorem_1,
        ("approximation",),
        _NO_ALPHA,
    ),
    Claim(
        "C4",
        "3.2",
        "The largest click probability is small, so γ is close to 1 - 1/e",
        "γ is at least 0.9·(1 - 1/e) at K=4",
        evidence.small_clicks,
        ("approximation",),
        _NO_ALPHA,
    ),
    Claim(
        "C5",
        "6",
        "R^γ(n) stays below the bound of Theorem 2",
        "it is true for every person (at this scale the bound exceeds n, so no policy could violate it)",
        evidence.bound,
        ("theory",),
        (THEORY,),
        unit=".2g",
    ),
    Claim(
        "C6",
        "6",
        "With σ=1, regret is Õ(dK√n/γ)",
        "as C5, with σ=1 (here, too, no policy could violate the bound)",
        evidence.bound,
        ("theory",),
        (Setting("theory", 1.0),),
        unit=".2g",
    ),
    Claim(
        "C7",
        "6",
        "Regret grows at most like √n, up to logarithmic factors",
        f"{_GROWTH} ≤ 1/2 for every K; a larger p in such a short run does not refute the bound, so the claim is then "
        "not decided",
        evidence.exponent(
            evidence.LSB,
            -inf,
            0.5,
            cannot_refute="a larger p in a short run does not refute a bound with logarithmic factors",
        ),
        ("theory",),
    ),
    Claim(
        "C8",
        "6",
        "The authors believe that the factor K in the bound can be reduced to √K",
        "from K=1 to K=16, measured regret grows like K^p with p ≤ 1/2; this agrees with the belief but does not "
        "prove it",
        evidence.in_k,
        ("theory",),
    ),
    Claim(
        "C9",
        "7.1",
        "The average approximation ratio is always more than 0.99",
        "it is true for K = 1, 2, 3 and 4",
        evidence.greedy_ratio(0.99),
        ("approximation",),
        _NO_ALPHA,
        unit=".4f",
    ),
    Claim(
        "C10",
        "7.1",
        "The average approximation ratio is 1 when K = 1",
        "it is exactly 1",
        evidence.greedy_ratio(1.0 - 1e-12, lambda name: name.endswith("K1")),
        ("approximation",),
        _NO_ALPHA,
        unit=".4f",
    ),
    Claim(
        "C11",
        "7.3",
        "CascadeLSB's regret flattens",
        _FLAT,
        evidence.exponent(evidence.LSB, -inf, evidence.FLAT),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C12",
        "7.3",
        "CascadeLSB learns the optimal list",
        _MOST,
        evidence.ends_on(evidence.LSB, evidence.BEST, "optimal"),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C13",
        "7.3",
        "LSBGreedy's regret grows linearly",
        _LINEAR,
        evidence.exponent(evidence.LSB_GREEDY, evidence.LINEAR, inf),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C14",
        "7.3",
        f"LSBGreedy oscillates between an optimal list and {_ONE_TOPIC}",
        "at least half of the people are shown both lists in the second half of the run, checked at 50 evenly spaced "
        "steps",
        evidence.oscillates,
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C15",
        "7.3",
        "CascadeLinUCB's regret is linear",
        _LINEAR,
        evidence.exponent(evidence.LIN, evidence.LINEAR, inf),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C16",
        "7.3",
        f"CascadeLinUCB converges to {_ONE_TOPIC}",
        _MOST,
        evidence.ends_on(evidence.LIN, evidence.SAME_TOPIC, "the two items of the preferred topic"),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C17",
        "7.3",
        "CascadeKL-UCB's regret flattens",
        _FLAT,
        evidence.exponent(evidence.KL, -inf, evidence.FLAT),
        ("synthetic/20k", "synthetic/1M"),
        _NO_ALPHA,
    ),
    Claim(
        "C18",
        "7.3",
        "CascadeKL-UCB learns the optimal list",
        _MOST,
        evidence.ends_on(evidence.KL, evidence.BEST, "optimal"),
        ("synthetic/20k", "synthetic/1M"),
        _NO_ALPHA,
    ),
    Claim(
        "C19",
        "7.3",
        "CascadeKL-UCB's regret is an order of magnitude higher than CascadeLSB's",
        "it is at least 10 times CascadeLSB's",
        evidence.times(evidence.KL, evidence.LSB, 10.0),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C20",
        "7.3",
        "CascadeLSB has the lowest regret",
        _LOWEST,
        evidence.lowest,
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C21",
        "7.4",
        "The attraction probability of Star Wars in Sci-Fi is close to one",
        "it is at least 0.8",
        evidence.noted("star_wars", "w̄(Star Wars, Sci-Fi)", 0.8, 1.0),
        ("movielens",),
        _NO_ALPHA,
    ),
    Claim(
        "C22",
        "7.5",
        "About 8% of all pairs of a user and a film are attractive",
        "the share is 7% to 9%",
        evidence.noted("density", "share of attractive pairs", 0.07, 0.09),
        ("movielens",),
        _NO_ALPHA,
        unit=".2%",
    ),
    Claim(
        "C23",
        "7.5",
        "CascadeLSB has the lowest regret for all d and K",
        _LOWEST,
        evidence.lowest,
        ("movielens",),
    ),
    Claim(
        "C24",
        "7.5",
        "At d=18 CascadeLSB's regret is almost 20% lower than LSBGreedy's",
        "it is 15% to 25% lower if the regrets for K = 4, 8 and 12 are added up",
        evidence.lower_by(evidence.LSB_GREEDY, 0.15, 0.25, evidence.at_d(18)),
        ("movielens",),
        unit=".1%",
    ),
    Claim(
        "C25",
        "7.5",
        "LSBGreedy is the best baseline at d=18",
        _BEST_BASELINE,
        evidence.best_baseline(18),
        ("movielens",),
    ),
    Claim(
        "C26",
        "7.5",
        "CascadeKL-UCB performs the worst",
        _WORST,
        evidence.worst,
        ("movielens",),
    ),
    Claim(
        "C27",
        "7.5",
        "CascadeLinUCB's regret is linear",
        _LINEAR,
        evidence.exponent(evidence.LIN, evidence.LINEAR, inf),
        ("movielens",),
    ),
    Claim(
        "C28",
        "7.5",
        "CascadeLSB's regret is sublinear",
        f"{_GROWTH} ≤ {evidence.LINEAR} in every experiment",
        evidence.exponent(evidence.LSB, -inf, evidence.LINEAR),
        ("movielens",),
    ),
    Claim(
        "C29",
        "7.5",
        "CascadeLSB's regret increases with the number of topics",
        "for every K, regret is higher at each d than at the next smaller d",
        evidence.harder,
        ("movielens",),
    ),
    Claim(
        "C30",
        "7.6",
        "About 3% of all pairs of a user and a song are attractive",
        f"the share is 2% to 4%; {_OWN_DATA}",
        evidence.noted("density", "share of attractive pairs", 0.02, 0.04, about="songs"),
        _SONGS,
        _NO_ALPHA,
        unit=".2%",
    ),
    Claim(
        "C31",
        "7.6",
        "CascadeLSB has the lowest regret for all d",
        _LOWEST,
        evidence.lowest,
        _SONGS,
    ),
    Claim(
        "C32",
        "7.6",
        "At d=40 CascadeLSB's regret is about 15% lower than LSBGreedy's",
        "it is 10% to 20% lower",
        evidence.lower_by(evidence.LSB_GREEDY, 0.10, 0.20, evidence.at_d(40)),
        _SONGS,
        unit=".1%",
    ),
    Claim(
        "C33",
        "7.6",
        "LSBGreedy is the best baseline at d=40",
        _BEST_BASELINE,
        evidence.best_baseline(40),
        _SONGS,
    ),
    Claim(
        "C34",
        "7.6",
        "At d=40 CascadeLinUCB's regret is about 50% higher than CascadeLSB's",
        "it is 1.4 to 1.6 times CascadeLSB's",
        evidence.times(evidence.LIN, evidence.LSB, 1.4, 1.6, evidence.at_d(40)),
        _SONGS,
    ),
    Claim(
        "C35",
        "7.6",
        "CascadeKL-UCB performs the worst",
        _WORST,
        evidence.worst,
        _SONGS,
    ),
    Claim(
        "C36",
        "7.7",
        "About 3% of all pairs of a user and a restaurant are attractive",
        f"the share is 2% to 4%; {_OWN_DATA}",
        evidence.noted("density", "share of attractive pairs", 0.02, 0.04, about="yelp"),
        _YELP,
        _NO_ALPHA,
        unit=".2%",
    ),
    Claim(
        "C37",
        "7.7",
        "Attraction probabilities of restaurants are on the order of 0.01",
        f"the median of all nonzero w̄ is between 0.003 and 0.03; {_OWN_DATA}",
        evidence.noted("median_weight", "median of nonzero w̄", 0.003, 0.03, about="yelp"),
        _YELP,
        _NO_ALPHA,
        unit=".3f",
    ),
    Claim(
        "C38",
        "7.7",
        "When an item is added to a short list, its gain is comparable to the gain that it would have in first place",
        "in the best lists of 4 items, the items' gains at their positions add up to at least "
        f"{1 - evidence.SIMILAR:g} times the sum of the gains that they would have in first place",
        evidence.noted("gain_share", "⟨Δ(a|S), θ*⟩ / ⟨Δ(a|∅), θ*⟩", 1.0 - evidence.SIMILAR, 1.0),
        _YELP,
        _NO_ALPHA,
    ),
    Claim(
        "C39",
        "7.7",
        "All policies except CascadeKL-UCB perform similarly",
        f"in every experiment, their regrets are within {evidence.SIMILAR:.0%} of one another",
        evidence.similar,
        _YELP,
    ),
    Claim("C40", "7.7", "CascadeKL-UCB performs worse than the other policies", _WORST, evidence.worst, _YELP),
    Claim(
        "C41",
        "1",
        "CascadeLSB consistently outperforms the baselines",
        f"{_LOWEST} (for films and songs, see C23 and C31)",
        evidence.lowest,
        _YELP,
    ),
    Claim(
        "C42",
        "1",
        "CascadeLSB learns even if the model does not hold exactly",
        "the weights are estimated from one half of the users, and the clicks come from the other half; in every "
        "experiment, CascadeLSB gets at least 95% of the best list's clicks in the last tenth of the run",
        evidence.learns,
        _ALL_DATA,
        unit=".3f",
    ),
    Claim(
        "C43",
        "9",
        "CascadeLSB is competitive with a range of baselines",
        f"in every experiment, each baseline's regret is at least {1 - evidence.SIMILAR:g} times CascadeLSB's",
        evidence.competitive,
        _ALL_DATA,
    ),
    Claim(
        "C44",
        "7.2",
        "(not in the paper) CascadeLSB has the lowest regret if each policy uses its own best α",
        "each baseline's regret is higher than CascadeLSB's when each policy uses the α of the sweep that gave it its "
        "lowest regret with other people: for the people of each split, α is chosen with those of the other splits",
        evidence.own_best,
        tuple(f"optimism/{suite}-d" for suite in _ALL_DATA),
        _NO_ALPHA,
    ),
    Claim(
        "C45",
        "8",
        "Ranked bandits perform poorly in cascade-like models",
        "for every K, their regret is at least twice that of the cascading bandit with the same index (KL-UCB or "
        f"UCB1); {_LEARNED}",
        evidence.together(
            evidence.times_once_learned("RankedKLUCB", evidence.KL, 2.0),
            evidence.times_once_learned("RankedUCB1", "CascadeUCB1", 2.0),
        ),
        ("ranked",),
        _NO_ALPHA,
    ),
    Claim(
        "C46",
        "8",
        "Algorithms with assumptions similar to those of ranked bandits, such as independent bandits, also perform "
        "poorly",
        "as C45, for independent bandits and CascadeUCB1; people click at most once here, so independent bandits do "
        "exactly the same as ranked bandits",
        evidence.times_once_learned("IndependentBandits", "CascadeUCB1", 2.0),
        ("ranked",),
        _NO_ALPHA,
    ),
    Claim(
        "C47",
        "8",
        "Ranked bandits perform poorly in cascade-like models (C45, measured on films)",
        "as C45, for people who click as in the diverse cascade model and for people who click as in the cascade model",
        evidence.together(
            evidence.times_once_learned("RankedKLUCB", evidence.KL, 2.0, _is_cascade),
            evidence.times_once_learned("RankedUCB1", "CascadeUCB1", 2.0, _is_cascade),
        ),
        ("robustness",),
        _NO_ALPHA,
    ),
    Claim(
        "C48",
        "9",
        "CascadeLSB can handle changes in preferences over time",
        "tastes change abruptly halfway through the run; the share of the best list's clicks that CascadeLSB gets in "
        "the last tenth of the run is at least 0.95 times the share that it gets in a run without a change",
        evidence.follows(evidence.LSB, 0.95),
        _ABRUPT,
        (PRACTICAL,),
        unit=".3f",
    ),
    Claim(
        "C49",
        "9",
        "All algorithms for online learning to rank can handle changes in preferences (the paper cites ranked bandits)",
        "as C48, for ranked bandits",
        evidence.together(*(evidence.follows(base, 0.95) for base in ("RankedUCB1", "RankedKLUCB"))),
        _ABRUPT,
        _NO_ALPHA,
        unit=".3f",
    ),
    Claim(
        "C50",
        "9",
        "CascadeLSB can be generalized by considering all feedback up to the last click",
        "if people may continue after a click, CascadeLSB, which learns from the positions down to the first click, "
        "has a higher regret than CascadeLSB-last-click, which learns from the positions down to the last click",
        evidence.times(evidence.LSB, "CascadeLSB-last-click", 1.0, keep=lambda name: not name.endswith("-0")),
        ("several-clicks",),
        (PRACTICAL,),
    ),
    Claim(
        "C51",
        "9",
        "(not in the paper) Forgetting reduces regret after tastes have changed",
        "after an abrupt change, CascadeLSB, which does not forget, has a higher regret than both CascadeLSB-discount "
        "and CascadeLSB-window",
        evidence.together(*(evidence.since(evidence.LSB, forgetful, 0.5, 1.0) for forgetful in _FORGETFUL)),
        _ABRUPT,
        (PRACTICAL,),
    ),
    Claim(
        "C52",
        "9",
        "(not in the paper) Forgetting costs little if nothing changes",
        f"the regrets of CascadeLSB-discount and CascadeLSB-window are at most {1 + evidence.SIMILAR:g} times that of "
        "CascadeLSB, which does not forget",
        evidence.together(
            *(evidence.times(forgetful, evidence.LSB, 0.0, 1.0 + evidence.SIMILAR) for forgetful in _FORGETFUL)
        ),
        ("drift/generated-none", "drift/movielens-none"),
        (PRACTICAL,),
    ),
    Claim(
        "C53",
        "–",
        "(not in the paper) With a prior from the tastes of other people, the first lists are as good as a static list",
        "for each number of lists that is recorded, the share of the best list's clicks that CascadeLSB-prior has "
        "earned so far is at most 1 percentage point below that of Static",
        first_lists.not_below(PRIOR, STATIC, 0.01),
        _FIRST_LISTS,
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C54",
        "–",
        "(not in the paper) With a prior learned from the clicks of other people, the first lists are as good as a "
        "static list",
        "as C53, for CascadeLSB-learned-prior",
        first_lists.not_below(LEARNED_PRIOR, STATIC, 0.01),
        _FIRST_LISTS,
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C55",
        "–",
        "(not in the paper) A prior makes the first 100 lists much better",
        "over the first 100 lists, the shares of the best list's clicks that CascadeLSB-prior and "
        "CascadeLSB-learned-prior earn are at least 8 percentage points above that of CascadeLSB without a prior",
        evidence.together(*(first_lists.above(policy, evidence.LSB, 0.08, 100) for policy in (PRIOR, LEARNED_PRIOR))),
        _FIRST_LISTS,
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C56",
        "–",
        "(not in the paper) If people come one after another, and the prior is learned as they come, the second 50 "
        "people get good lists on MovieLens",
        "in their lists, people 51 to 100 earn at least 94% of the best list's clicks, in the mean over orders of "
        "arrival",
        first_lists.after_arrivals(50, 0.94),
        ("arriving/movielens",),
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C57",
        "–",
        "(not in the paper) The same is true of other data sets",
        "as C56, with at least 92%",
        first_lists.after_arrivals(50, 0.92),
        ("arriving/songs-hetrec", "arriving/yelp-core40", "arriving/yelp-hin"),
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C58",
        "–",
        "(not in the paper) On real likes of MovieLens, thali.fit earns many more clicks than popular films",
        "the share of lists with a click is at least 4 percentage points above that of popular films in a person's "
        "lists 1 to 10, and at least 8 points in lists 11 to 30",
        evidence.together(
            real_people.more_clicks(FIT, "Popular", 0.04, 1, 10), real_people.more_clicks(FIT, "Popular", 0.08, 11, 30)
        ),
        _LIKES[:1],
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C59",
        "–",
        "(not in the paper) On other data sets, thali.fit earns more clicks than popular items",
        "the share of lists with a click is above that of popular items, in lists 1 to 10 and in lists 11 to 30",
        evidence.together(
            *(real_people.more_clicks(FIT, "Popular", 0.0, low, high) for low, high in ((1, 10), (11, 30)))
        ),
        _LIKES[1:],
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C60",
        "–",
        "(not in the paper) thali.fit earns at least as many clicks as item kNN, iALS and EASE",
        "the share of lists with a click is at least that of each of the three, in lists 1 to 10 and in lists 11 to 30",
        evidence.together(
            *(
                real_people.more_clicks(FIT, rival, 0.0, low, high)
                for rival in STRONG
                for low, high in ((1, 10), (11, 30))
            )
        ),
        _LIKES,
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C61",
        "–",
        "(not in the paper) On real lists, thali.fit starts as well as popularity",
        "before a person's first list, the AUC of that list is at most 0.5 percentage points below that of popularity",
        real_people.better_predicted(FIT, "Popular", -0.005, (0,)),
        ("lists/ranklens",),
        _NO_ALPHA,
        unit=".1%",
    ),
    Claim(
        "C62",
        "–",
        "(not in the paper) On real lists, thali.fit is better than popularity from the third list on",
        "after 2, 3 and 4 lists, the AUC of a person's next list is above that of popularity",
        real_people.better_predicted(FIT, "Popular", 0.0, (2, 3, 4)),
        ("lists/ranklens",),
        _NO_ALPHA,
        unit=".1%",
    ),
)
