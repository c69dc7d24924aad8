"""The paper's claims: a table with one entry for each sentence that can be true or false.

How each is measured is in :mod:`thali.lab.evidence`; :mod:`thali.lab.ledger` computes the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from thali.lab import evidence
from thali.lab.evidence import Measure
from thali.lab.settings import PRACTICAL, THEORY, Setting


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and our reading of it: what is measured, and when that makes it true."""

    number: str
    section: str
    says: str
    reads: str
    measure: Measure
    """(results, prefix of the experiments' names, settings) → checks; none if rows are missing."""
    suites: tuple[str, ...]
    settings: tuple[Setting | None, ...] = (PRACTICAL, THEORY)
    unit: str = ".2f"


_ONCE: tuple[Setting | None, ...] = (None,)
_ALL_DATA = ("movielens", "songs", "songs-hetrec", "yelp", "yelp-core40", "yelp-hin")
_SONGS = ("songs", "songs-hetrec")
_YELP = ("yelp", "yelp-core40", "yelp-hin")
_UP = "over 1 in every cell"
_GROWTH = "regret n^p, from what the second half of the run adds over what the second quarter does, has p"
_LINEAR, _FLAT = f"{_GROWTH} ≥ {evidence.LINEAR}", f"{_GROWTH} ≤ {evidence.FLAT}"
_MOST = f"over {evidence.MOST:.0%} of the people end on it"
_ABRUPT = ("drift/generated-abrupt", "drift/movielens-abrupt")
_FORGETFUL = ("CascadeLSB-discount", "CascadeLSB-window")


def _is_cascade(name: str) -> bool:
    return name in ("robustness/movielens-diverse-cascade", "robustness/movielens-cascade")


#: In the paper's order.
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C1",
        "3",
        "The model of Yue and Guestrin has no position bias, the diverse cascade model has",
        "the example's item in second place is clicked as often as in first, and half as often",
        evidence.position_bias,
        ("models",),
        _ONCE,
    ),
    Claim(
        "C2",
        "3.2",
        "Greedy lists reach the γ of Theorem 1",
        "for every person",
        evidence.theorem_1,
        ("approximation",),
        _ONCE,
    ),
    Claim(
        "C3",
        "3.2",
        "In practice greedy lists are significantly better than Theorem 1 promises",
        f"on average they reach at least {1 + evidence.ALIKE:g}γ of the optimum",
        evidence.better_than_theorem_1,
        ("approximation",),
        _ONCE,
    ),
    Claim(
        "C4",
        "3.2",
        "The largest click probability is small, so that γ is close to 1 - 1/e",
        "γ is over 0.9·(1 - 1/e) at K=4",
        evidence.small_clicks,
        ("approximation",),
        _ONCE,
    ),
    Claim(
        "C5",
        "6",
        "R^γ(n) stays below the bound of Theorem 2",
        "for every person; at this scale the bound exceeds n, so that nothing could fail it",
        evidence.bound,
        ("theory",),
        (THEORY,),
        unit=".2g",
    ),
    Claim(
        "C6",
        "6",
        "With σ=1 regret is Õ(dK√n/γ)",
        "the same at σ=1, with the same reserve",
        evidence.bound,
        ("theory",),
        (Setting("theory", 1.0),),
        unit=".2g",
    ),
    Claim(
        "C7",
        "6",
        "Regret is of order √n at most, up to logarithms",
        f"{_GROWTH} ≤ 1/2, for every K; a larger one in a run this short does not refute the bound",
        evidence.exponent(evidence.LSB, -inf, 0.5),
        ("theory",),
    ),
    Claim(
        "C8",
        "6",
        "We believe that the factor K of the bound can be √K",
        "measured regret grows as K^p with p ≤ 1/2 from K=1 to 16: in accord with it, no proof",
        evidence.in_k,
        ("theory",),
    ),
    Claim(
        "C9",
        "7.1",
        "The average approximation ratio is always more than 0.99",
        "for K=1..4",
        evidence.greedy_ratio(0.99),
        ("approximation",),
        _ONCE,
        unit=".4f",
    ),
    Claim(
        "C10",
        "7.1",
        "The ratio is 1 when K = 1",
        "exactly",
        evidence.greedy_ratio(1.0 - 1e-12, lambda name: name.endswith("K1")),
        ("approximation",),
        _ONCE,
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
        evidence.ends_on(evidence.LSB, evidence.BEST, "a best list"),
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
        "LSBGreedy oscillates between a best list and items 1, 2",
        "over half of the people are shown both in the last half of the recorded steps",
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
        "CascadeLinUCB converges to the list (1, 2)",
        _MOST,
        evidence.ends_on(evidence.LIN, evidence.SAME_TOPIC, "items 1, 2"),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C17",
        "7.3",
        "CascadeKL-UCB's regret flattens",
        _FLAT,
        evidence.exponent(evidence.KL, -inf, evidence.FLAT),
        ("synthetic/20k", "synthetic/1M"),
        _ONCE,
    ),
    Claim(
        "C18",
        "7.3",
        "CascadeKL-UCB learns the optimal list",
        _MOST,
        evidence.ends_on(evidence.KL, evidence.BEST, "a best list"),
        ("synthetic/20k", "synthetic/1M"),
        _ONCE,
    ),
    Claim(
        "C19",
        "7.3",
        "CascadeKL-UCB's regret is an order of magnitude higher than CascadeLSB's",
        "at least 10 times",
        evidence.times(evidence.KL, evidence.LSB, 10.0),
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C20",
        "7.3",
        "CascadeLSB's regret is the least",
        f"each baseline's over CascadeLSB's is {_UP}",
        evidence.lowest,
        ("synthetic/20k", "synthetic/1M"),
    ),
    Claim(
        "C21",
        "7.4",
        "Star Wars' attraction probability in Sci-Fi is close to one",
        "over 0.8",
        evidence.noted("star_wars", "w̄(Star Wars, Sci-Fi)", 0.8, 1.0),
        ("movielens",),
        _ONCE,
    ),
    Claim(
        "C22",
        "7.5",
        "About 8% of pairs of users and films are attractive",
        "7% to 9%",
        evidence.noted("density", "attractive pairs", 0.07, 0.09),
        ("movielens",),
        _ONCE,
        unit=".2%",
    ),
    Claim(
        "C23",
        "7.5",
        "CascadeLSB has the lowest regret for all d and K",
        f"each baseline's over CascadeLSB's is {_UP}",
        evidence.lowest,
        ("movielens",),
    ),
    Claim(
        "C24",
        "7.5",
        "At d=18 CascadeLSB's regret is almost 20% lower than LSBGreedy's",
        "15% to 25% lower, over all K",
        evidence.lower_by(evidence.LSB_GREEDY, 0.15, 0.25, evidence.at_d(18)),
        ("movielens",),
        unit=".1%",
    ),
    Claim(
        "C25",
        "7.5",
        "LSBGreedy is the best baseline at d=18",
        "the other two over LSBGreedy's are over 1",
        evidence.best_baseline(18),
        ("movielens",),
    ),
    Claim(
        "C26",
        "7.5",
        "CascadeKL-UCB performs the worst",
        f"its regret over each other's is {_UP}",
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
        f"in every cell p ≤ {evidence.LINEAR}",
        evidence.exponent(evidence.LSB, -inf, evidence.LINEAR),
        ("movielens",),
    ),
    Claim(
        "C29",
        "7.5",
        "Regret of CascadeLSB increases with the number of topics",
        "regret at each d over the one before is over 1",
        evidence.harder,
        ("movielens",),
    ),
    Claim(
        "C30",
        "7.6",
        "About 3% of pairs of users and songs are attractive",
        "2% to 4%",
        evidence.noted("density", "attractive pairs", 0.02, 0.04),
        _SONGS,
        _ONCE,
        unit=".2%",
    ),
    Claim(
        "C31",
        "7.6",
        "CascadeLSB has the lowest regret for all d",
        f"each baseline's over CascadeLSB's is {_UP}",
        evidence.lowest,
        _SONGS,
    ),
    Claim(
        "C32",
        "7.6",
        "At d=40 CascadeLSB's regret is about 15% lower than LSBGreedy's",
        "10% to 20% lower",
        evidence.lower_by(evidence.LSB_GREEDY, 0.10, 0.20, evidence.at_d(40)),
        _SONGS,
        unit=".1%",
    ),
    Claim(
        "C33",
        "7.6",
        "LSBGreedy is the best baseline at d=40",
        "the other two over LSBGreedy's are over 1",
        evidence.best_baseline(40),
        _SONGS,
    ),
    Claim(
        "C34",
        "7.6",
        "At d=40 CascadeLinUCB's regret is about 50% higher than CascadeLSB's",
        "1.4 to 1.6 times",
        evidence.times(evidence.LIN, evidence.LSB, 1.4, 1.6, evidence.at_d(40)),
        _SONGS,
    ),
    Claim(
        "C35",
        "7.6",
        "CascadeKL-UCB performs the worst",
        f"its regret over each other's is {_UP}",
        evidence.worst,
        _SONGS,
    ),
    Claim(
        "C36",
        "7.7",
        "About 3% of pairs of users and restaurants are attractive",
        "2% to 4%",
        evidence.noted("density", "attractive pairs", 0.02, 0.04),
        _YELP,
        _ONCE,
        unit=".2%",
    ),
    Claim(
        "C37",
        "7.7",
        "Attraction probabilities of restaurants are of the order of 0.01",
        "the median of w̄ above 0 is 0.003 to 0.03",
        evidence.noted("median_weight", "median w̄", 0.003, 0.03),
        _YELP,
        _ONCE,
        unit=".3f",
    ),
    Claim(
        "C38",
        "7.7",
        "Gains over a short list are comparable to gains alone",
        f"on best lists of 4, the former are at least {1 - evidence.ALIKE:g} of the latter",
        evidence.noted("gain_share", "⟨Δ(a|S), θ*⟩ over ⟨Δ(a|∅), θ*⟩", 1.0 - evidence.ALIKE, 1.0),
        _YELP,
        _ONCE,
    ),
    Claim(
        "C39",
        "7.7",
        "All but CascadeKL-UCB perform alike",
        f"their regrets are within {evidence.ALIKE:.0%} of one another",
        evidence.alike,
        _YELP,
    ),
    Claim(
        "C40", "7.7", "CascadeKL-UCB performs worse", f"its regret over each other's is {_UP}", evidence.worst, _YELP
    ),
    Claim(
        "C41",
        "1",
        "CascadeLSB consistently outperforms the baselines",
        f"each baseline's regret over CascadeLSB's is {_UP} (films and songs: above)",
        evidence.lowest,
        _YELP,
    ),
    Claim(
        "C42",
        "1",
        "It learns even where the model does not hold exactly",
        "with weights from other people, at least 95% of the best list's clicks in the last tenth",
        evidence.learns,
        _ALL_DATA,
        unit=".3f",
    ),
    Claim(
        "C43",
        "9",
        "CascadeLSB is competitive with a range of baselines",
        f"no baseline's regret is under {1 - evidence.ALIKE:g} of CascadeLSB's, in every cell",
        evidence.competitive,
        _ALL_DATA,
    ),
    Claim(
        "C44",
        "7.2",
        "(not in the paper) CascadeLSB's regret is the least where each policy has its own best α",
        "each at that α of the sweep at which its own regret is lowest",
        evidence.own_best,
        tuple(f"optimism/{suite}-d" for suite in _ALL_DATA),
        _ONCE,
    ),
    Claim(
        "C45",
        "8",
        "Ranked bandits perform poorly in cascade-like models",
        "their regret is at least twice that of the same index that learns as a cascade, for every K",
        evidence.together(
            evidence.times("RankedKLUCB", evidence.KL, 2.0), evidence.times("RankedUCB1", "CascadeUCB1", 2.0)
        ),
        ("ranked",),
        _ONCE,
    ),
    Claim(
        "C46",
        "8",
        "Algorithms that make similar assumptions (independent bandits) perform similarly",
        "their regret, too, is at least twice that of CascadeUCB1; with one click at most they are ranked bandits here",
        evidence.times("IndependentBandits", "CascadeUCB1", 2.0),
        ("ranked",),
        _ONCE,
    ),
    Claim(
        "C47",
        "8",
        "Ranked bandits perform poorly in cascade-like models, on films",
        "the same ratios, on people of the diverse cascade and of the cascade model; with 1,000 items and 5,000 steps "
        "none of these has learned much",
        evidence.together(
            evidence.times("RankedKLUCB", evidence.KL, 2.0, keep=_is_cascade),
            evidence.times("RankedUCB1", "CascadeUCB1", 2.0, keep=_is_cascade),
        ),
        ("robustness",),
        _ONCE,
    ),
    Claim(
        "C48",
        "9",
        "CascadeLSB can handle changes in preferences over time",
        "in the last tenth, after an abrupt change at half time, it reaches at least 95% of the share of the best "
        "list's clicks that it reaches where nothing changes",
        evidence.follows(evidence.LSB, 0.95),
        _ABRUPT,
        (PRACTICAL,),
        unit=".3f",
    ),
    Claim(
        "C49",
        "9",
        "All online learning to rank algorithms can handle changes in preferences (it cites ranked bandits)",
        "the same of ranked bandits",
        evidence.together(*(evidence.follows(base, 0.95) for base in ("RankedUCB1", "RankedKLUCB"))),
        _ABRUPT,
        _ONCE,
        unit=".3f",
    ),
    Claim(
        "C50",
        "9",
        "CascadeLSB can be generalised by considering all feedback up to the last click",
        "on people who go on after a click, learning up to the first click costs more regret: the ratio is over 1",
        evidence.times(evidence.LSB, "CascadeLSB-last-click", 1.0, keep=lambda name: not name.endswith("-0")),
        ("several-clicks",),
        (PRACTICAL,),
    ),
    Claim(
        "C51",
        "9",
        "(not in the paper) Forgetting saves regret after tastes have changed",
        "regret since an abrupt change, without forgetting over with it, is over 1 for discount and for window",
        evidence.together(*(evidence.since(evidence.LSB, forgetful, 0.5, 1.0) for forgetful in _FORGETFUL)),
        _ABRUPT,
        (PRACTICAL,),
    ),
    Claim(
        "C52",
        "9",
        "(not in the paper) Forgetting costs little where nothing changes",
        f"regret with forgetting is at most {1 + evidence.ALIKE:g} times that without",
        evidence.together(
            *(evidence.times(forgetful, evidence.LSB, 0.0, 1.0 + evidence.ALIKE) for forgetful in _FORGETFUL)
        ),
        ("drift/generated-none", "drift/movielens-none"),
        (PRACTICAL,),
    ),
)
