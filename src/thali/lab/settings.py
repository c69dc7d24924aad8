"""The experiments as data: which policies run with which people, and at which α."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from thali.policies import POLICIES
from thali.policies.linear.policy import DEFAULT_OPTIMISM

#: Every policy except CascadeHybrid. It is CascadeLSB if no topic is steady, as in the catalogs of all data sets.
EVERY = tuple(name for name in POLICIES if name != "CascadeHybrid")
#: The kinds of people; :mod:`thali.lab.kinds` defines them.
KINDS = (
    "diverse-cascade",
    "cascade",
    "linear-submodular",
    "dependent-click",
    "dynamic-bayesian",
    "position-based",
    "noisy-cascade",
)
#: How tastes can change; the first entry means that they do not.
DRIFTS: tuple[Literal["", "abrupt", "gradual", "back-and-forth"], ...] = ("", "abrupt", "gradual", "back-and-forth")
#: The paper's algorithms, in the paper's order.
PAPER = ("CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB")
#: Policies that know something about other people; :mod:`thali.lab.informed` creates them. The last one learns its
#: prior from the people who came before.
PRIOR, LEARNED_PRIOR, STATIC, GROWING = INFORMED = (
    "CascadeLSB-prior",
    "CascadeLSB-learned-prior",
    "Static",
    "CascadeLSB-growing-prior",
)


#: What people would use instead (:mod:`thali.lab.rivals`), in the experiments with real likes.
RIVAL_NAMES = ("Popular", "Popular-learning", "StaticDiverse", "ItemKNN", "IALS", "EASE")
#: The best of these, at settings chosen on training people.
STRONG = ("ItemKNN", "IALS", "EASE")
#: Policies that :func:`thali.fit` makes, and the parts that each of them has: its topics, whether the catalog has a
#: quality column, whether people start from a prior, and whether topics fade.
FIT = "Fit"
FIT_PARTS: dict[str, dict[str, Any]] = {
    FIT: {},
    "Fit-given": {"topics": "given"},
    "Fit-learned": {"topics": "learned"},
    "Fit-both": {"topics": "both"},
    "Fit-given-no-quality": {"topics": "given", "quality": False},
    "Fit-no-quality": {"quality": False},
    "Fit-no-prior": {"prior": False},
    "Fit-steady": {"fading": False},
}
#: Settings that were chosen on training people, for each data set (benchmarks/likes_tuning.py).
TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "movielens": {
        "ItemKNN": {"neighbours": 100, "shrink": 30.0, "popularity": 0.0},
        "IALS": {"factors": 64, "regularization": 100.0, "confidence": 15.0, "popularity": 0.0},
        "EASE": {"regularization": 1000.0, "popularity": 0.0},
        FIT: {"topics": "learned", "d": 60},
    },
    "songs-hetrec": {
        "ItemKNN": {"neighbours": 300, "shrink": 0.0, "popularity": 0.1},
        "IALS": {"factors": 64, "regularization": 10.0, "confidence": 5.0, "popularity": 0.03},
        "EASE": {"regularization": 100.0, "popularity": 0.003},
        FIT: {"topics": "both", "d": 60},
    },
    "yelp-core40": {
        "ItemKNN": {"neighbours": 300, "shrink": 30.0, "popularity": 0.1},
        "IALS": {"factors": 32, "regularization": 10.0, "confidence": 5.0, "popularity": 0.03},
        "EASE": {"regularization": 300.0, "popularity": 0.01},
        FIT: {"topics": "both", "d": 15},
    },
    "yelp-hin": {
        "ItemKNN": {"neighbours": 100, "shrink": 30.0, "popularity": 0.03},
        "IALS": {"factors": 32, "regularization": 10.0, "confidence": 5.0, "popularity": 0.03},
        "EASE": {"regularization": 100.0, "popularity": 0.01},
        FIT: {"topics": "both", "d": 15},
    },
}


@dataclass(frozen=True)
class Setting:
    """The exploration factor α and the learning rate σ of the linear policies.

    With alpha="theory", each policy uses the α that its theoretical analysis requires.
    """

    alpha: float | Literal["theory"]
    sigma: float = 0.1

    def __str__(self) -> str:
        alpha = self.alpha if isinstance(self.alpha, str) else f"{self.alpha:g}"
        return f"alpha={alpha} sigma={self.sigma:g}"


#: The library's default setting, and the paper's.
PRACTICAL, THEORY = Setting(DEFAULT_OPTIMISM / 0.1), Setting("theory")


@dataclass(frozen=True)
class Experiment:
    """Some policies at some settings, with the people of one problem: one panel of a figure.

    The people are drawn from ``splits`` random splits of the data set's users into halves, the same number from each
    split. The learner's weights come from the training half, and the people come from the test half. With
    people="train", both come from quarters of the training half; this is for choosing settings.
    """

    name: str
    """suite/experiment, such as movielens/d18-K12."""
    source: str
    """A key of :data:`thali.lab.sources.SOURCES`, where add_source adds data of your own, or "synthetic",
    "single-items" or "generated"."""
    d: int
    K: int
    steps: int = 20_000
    users: int = 100
    splits: int = 5
    policies: tuple[str, ...] = PAPER
    settings: tuple[Setting, ...] = (PRACTICAL, THEORY)
    """The α and σ of the linear policies. If it is empty, each policy uses its own defaults."""
    people: Literal["test", "train"] = "test"
    clicks: str = KINDS[0]
    """How people click: one of :data:`KINDS`; "likes" for people with known likes; "lists" for people who saw real
    lists, whose next list is predicted (:mod:`thali.lab.likes`)."""
    hide: str = "nothing"
    """What people are not shown again: "nothing", "clicked" or "examined"."""
    rates: tuple[tuple[str, float], ...] = ()
    """Rates of their behavior that are fixed rather than estimated from the data set."""
    drift: Literal["", "abrupt", "gradual", "back-and-forth"] = ""
    """When each person's tastes change: halfway through, gradually over the middle half, or every quarter of the
    run. The empty string means never."""
    points: tuple[int, ...] = ()
    """The steps to record, in ascending order, if the run has so many, and the last step. If it is empty, 100 evenly
    spaced steps. With likes and real lists, every step is recorded."""
    small: tuple[int, int] = (20, 2000)
    """People and steps of the small scale, for a run that takes minutes instead of hours."""

    def __post_init__(self) -> None:
        # The name becomes a folder and a file of the results, and part of a page.
        if not re.fullmatch(r"\w[\w.+-]*/\w[\w.+-]*", self.name):
            raise ValueError(
                "name of an experiment must be suite/experiment, with letters, digits and the characters _ . + - in "
                f"both parts, got {self.name!r}"
            )

    @property
    def suite(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def scale(self) -> str:
        """The size as text. Stored rows contain it, and it distinguishes runs of the same experiment."""
        return f"{self.users} people in {self.splits} splits x {self.steps} steps"

    def shrunk(self) -> Experiment:
        """The same experiment at the small scale."""
        users, steps = self.small
        return replace(self, users=users, steps=steps)


def _on_data(suite: str, d: int, K: int) -> Experiment:
    return Experiment(f"{suite}/d{d}-K{K}", suite, d, K)


_APPROXIMATION = [
    Experiment(f"approximation/K{K}", "movielens", 18, K, steps=1, policies=("Greedy",), settings=(), small=(20, 1))
    for K in (1, 2, 3, 4)
]
_SYNTHETIC = [
    Experiment("synthetic/20k", "synthetic", 3, 2, users=20, splits=1, small=(20, 20_000)),
    Experiment("synthetic/1M", "synthetic", 3, 2, 1_000_000, users=20, splits=1, small=(8, 100_000)),
]
_MOVIELENS = [_on_data("movielens", d, K) for d in (5, 10, 18) for K in (4, 8, 12)]
# The paper's songs are annotated with fifteen genres. With more topics, the topics are free tags.
_SONGS = [Experiment(f"songs/d{d}-K8", "songs-tagtraum" if d <= 15 else "songs", d, 8) for d in (10, 20, 30, 40)]
_ARTISTS = [_on_data("songs-hetrec", d, 8) for d in (10, 20, 30, 40)]
_YELP = [_on_data(suite, 10, K) for suite in ("yelp", "yelp-core40", "yelp-hin") for K in (4, 8, 12)]
_GROWTH = [
    Experiment(
        f"theory/K{K}",
        "generated",
        10,
        K,
        users=20,
        splits=4,
        policies=("CascadeLSB",),
        settings=(PRACTICAL, THEORY, Setting("theory", 1.0)),
    )
    for K in (1, 2, 4, 8, 16)
]
_OPTIMISM = [
    Experiment(
        f"optimism/{source}-d{d}-K{K}",
        source,
        d,
        K,
        users=50,
        settings=tuple(Setting(a) for a in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, "theory")),
        small=(10, 2000),
    )
    for source, d, K in (("movielens", 18, 12), ("songs-hetrec", 40, 8), ("yelp-core40", 10, 8))
]
_TUNING = [
    Experiment(
        f"tuning/{source}-d{d}-K{K}",
        source,
        d,
        K,
        users=20,
        splits=1,
        policies=("CascadeLSB",),
        settings=tuple(Setting(a) for a in (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, "theory")),
        people="train",
        small=(4, 2000),
    )
    for source, d, K in (
        ("movielens", 5, 4),
        ("movielens", 10, 8),
        ("movielens", 18, 12),
        ("songs-hetrec", 10, 8),
        ("songs-hetrec", 40, 8),
        ("yelp-core40", 10, 4),
        ("yelp-core40", 10, 12),
        ("yelp-hin", 10, 4),
        ("yelp-hin", 10, 12),
    )
]
_RANKED = [
    Experiment(
        f"ranked/K{K}",
        "single-items",
        16,
        K,
        100_000,
        users=20,
        splits=1,
        policies=(
            "CascadeLSB",
            "CascadeKLUCB",
            "CascadeUCB1",
            "RankedKLUCB",
            "RankedUCB1",
            "RankedExp3",
            "IndependentBandits",
        ),
        settings=(PRACTICAL,),
        small=(8, 20_000),
    )
    for K in (2, 4, 8)
]
_SEVERAL = [
    Experiment(
        f"several-clicks/going-on-{going_on:g}",
        "movielens",
        18,
        12,
        10_000,
        users=50,
        policies=("CascadeLSB", "CascadeLSB-last-click", "LSBGreedy", "CascadeKLUCB", "DcmKLUCB"),
        settings=(PRACTICAL,),
        clicks="dependent-click",
        rates=(("going_on", going_on),),
        small=(10, 1000),
    )
    for going_on in (0.0, 0.5, 0.9)
]
_DRIFT = [
    Experiment(
        f"drift/{source}-{kind or 'none'}",
        source,
        d,
        K,
        10_000,
        users=50,
        policies=(
            "CascadeLSB",
            "CascadeLSB-discount",
            "CascadeLSB-window",
            "CascadeLSB-TS",
            "RankedUCB1",
            "RankedKLUCB",
        ),
        settings=(PRACTICAL,),
        drift=kind,
        small=(10, 2000),
    )
    for source, d, K in (("generated", 10, 8), ("movielens", 18, 12))
    for kind in DRIFTS
]


#: How often noisy people click an unattractive item by accident, and skip an attractive one. These rates are fixed,
#: because the estimate from MovieLens is not plausible: it would be skip = 0 (docs/decisions.md).
NOISE = (("extra", 0.05), ("skip", 0.3))


def robustness_cell(d: int, K: int) -> str:
    """The part of an experiment's name that states d and K; empty for the usual d=18 and K=12."""
    return "" if (d, K) == (18, 12) else f"-d{d}-K{K}"


def robustness(source: str, d: int = 18, K: int = 12, policies: tuple[str, ...] | None = None) -> list[Experiment]:
    """The experiments that combine every policy with every kind of person on one data set."""
    return [
        Experiment(
            f"robustness/{source}{robustness_cell(d, K)}-{kind}",
            source,
            d,
            K,
            5000,
            users=50,
            policies=EVERY if policies is None else policies,
            settings=(PRACTICAL,),
            clicks=kind,
            rates=NOISE if kind == "noisy-cascade" else (),
            small=(10, 500),
        )
        for kind in KINDS
    ]


# How many topics the experiments with a data set's first lists use; 10 if it is not listed.
_TOPICS = {"movielens": 18, "songs": 40, "songs-tagtraum": 15, "songs-hetrec": 40}
_FOUR = ("movielens", "songs-hetrec", "yelp-core40", "yelp-hin")


def first_lists(source: str, d: int | None = None, K: int = 10, more: tuple[str, ...] = ()) -> Experiment:
    """The experiment that compares policies over each person's first lists, on one data set.

    d: the number of topics (default: as in the paper's largest experiment with the data set).
    more: the names of policies to add.
    """
    d = _TOPICS.get(source, 10) if d is None else d
    return Experiment(
        f"first-lists/{source}-d{d}-K{K}",
        source,
        d,
        K,
        1000,
        users=1000,
        splits=10,
        policies=tuple(dict.fromkeys(("CascadeLSB", PRIOR, LEARNED_PRIOR, STATIC, "MostPopular", "Oracle", *more))),
        settings=(),
        points=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        small=(20, 100),
    )


def arriving(source: str) -> Experiment:
    """The experiment in which people come one after another, 100 in each of 20 random orders, on one data set.

    Each order is a split of its own, and its people come in the order of their numbers.
    """
    base = first_lists(source)
    return replace(
        base,
        name=base.name.replace("first-lists/", "arriving/"),
        steps=30,
        users=2000,
        splits=20,
        policies=("CascadeLSB", GROWING, STATIC, "MostPopular", "Oracle"),
        points=(1, 5, 10, 20, 30),
        small=(1200, 10),
    )


#: How many people are held out of each data set in each of five splits, for the experiments with likes; 200 if it is
#: not listed.
_HELD_OUT = {"movielens": 300, "songs-hetrec": 300, "yelp-core40": 200, "yelp-hin": 300}


def likes(source: str, K: int = 10, more: tuple[str, ...] = (), hide: str = "examined") -> Experiment:
    """The experiment that compares policies on the real likes of held-out people, on one data set.

    hide: what people are not shown again. more: the names of policies to add.
    """
    repeated = "" if hide == "examined" else f"-hide-{hide}"
    start = ("CascadeLSB", "CascadeLSB-prior")
    names = (*RIVAL_NAMES, *start, *FIT_PARTS) if hide == "examined" else ("Popular", FIT)
    return Experiment(
        f"likes/{source}{repeated}-K{K}",
        source,
        _TOPICS.get(source, 10),
        K,
        30,
        users=5 * _HELD_OUT.get(source, 200),
        splits=5,
        policies=tuple(dict.fromkeys((*names, *more))),
        settings=(),
        clicks="likes",
        hide=hide,
        small=(20, 10),
    )


#: The policies that are judged by real lists.
LISTS_POLICIES = ("Popular", "LSBGreedy", FIT, "Fit-no-quality", "Fit-learned", "Fit-both", "Fit-steady")


def lists(source: str, users: int, splits: int = 20, more: tuple[str, ...] = ()) -> Experiment:
    """The experiment in which policies predict what people click in their next real list.

    more: the names of policies to add.
    """
    return Experiment(
        f"lists/{source}",
        source,
        1,
        1,
        5,
        users=users,
        splits=splits,
        policies=tuple(dict.fromkeys((*LISTS_POLICIES, *more))),
        settings=(),
        clicks="lists",
        small=(100, 5),
    )


#: All experiments by name; those of the paper come first, in its order.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *_APPROXIMATION,
        *_SYNTHETIC,
        *_MOVIELENS,
        *_SONGS,
        *_ARTISTS,
        *_YELP,
        *_GROWTH,
        *_OPTIMISM,
        *_RANKED,
        *_SEVERAL,
        *_DRIFT,
        *robustness("movielens"),
        *map(first_lists, _FOUR),
        *map(arriving, _FOUR),
        *map(likes, _FOUR),
        likes("movielens", hide="nothing"),
        lists("ranklens", 1504),
        *_TUNING,
    )
}

#: The title of each suite of experiments.
SUITES: dict[str, str] = {
    "approximation": "Table 1: greedy lists compared with the exact optimum",
    "synthetic": "Figure 1: the synthetic problem",
    "movielens": "Figure 2: films, MovieLens 1M",
    "songs": "Figure 3: songs, Echo Nest Taste Profile",
    "songs-hetrec": "Figure 3 with substitute data: artists, HetRec 2011 Last.fm",
    "yelp": "Figure 4: restaurants, Yelp Challenge",
    "yelp-core40": "Figure 4 with substitute data: restaurants, 40-core sample of Yelp",
    "yelp-hin": "Figure 4 with substitute data: restaurants, sparser sample of Yelp",
    "theory": "Theorem 2: the bound (also with σ=1), and how regret grows with n and K",
    "optimism": "For which α do the paper's claims hold?",
    "ranked": "Ranked bandits on 16 items without topics, with people who leave after the first click",
    "several-clicks": "People who may continue after a click: does it help to learn from all positions down to the "
    "last click, instead of only down to the first click?",
    "drift": "Changing tastes, with and without forgetting",
    "robustness": "Every policy with every click model ('thali robustness' prints the results as a matrix)",
    "first-lists": "How good are the first lists, with and without a prior learned from other people?",
    "arriving": "People who come one after another, to a site that starts with nothing",
    "likes": "Real likes: how many of their first lists do people click, compared with what they would use instead?",
    "lists": "Real lists: how well is a person's next list predicted?",
    "tuning": "Which α should be the default? Measured on users of the training half only",
}


def chosen(names: list[str]) -> list[Experiment]:
    """The experiments with these names, and all experiments of these suites."""
    experiments = []
    for name in names:
        if name in EXPERIMENTS:
            experiments.append(EXPERIMENTS[name])
        elif name in SUITES:
            experiments += [experiment for experiment in EXPERIMENTS.values() if experiment.suite == name]
        else:
            raise ValueError(
                f"experiment must be one of the suites {', '.join(SUITES)}, or a name from 'thali experiments', "
                f"got {name!r}"
            )
    return list(dict.fromkeys(experiments))


def at_setting(experiments: list[Experiment], at: str) -> list[Experiment]:
    """The same experiments at the practical α only, at the theoretical α only, or unchanged (at="all")."""
    wanted = {"practical": (PRACTICAL,), "theory": (THEORY,), "all": None}
    if at not in wanted:
        raise ValueError(f"--at must be one of {', '.join(wanted)}, got {at!r}")
    only = wanted[at]
    return experiments if only is None else [replace(e, settings=only if e.settings else ()) for e in experiments]


def setting_of(alpha: str, sigma: str) -> Setting:
    """Parse a setting: α is a number or "theory", σ is a number."""
    try:
        return Setting("theory" if alpha == "theory" else float(alpha), float(sigma))
    except ValueError:
        raise ValueError(
            f"alpha must be a number or 'theory' and sigma must be a number, got alpha {alpha!r} and sigma {sigma!r}"
        ) from None
