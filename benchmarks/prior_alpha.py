"""Compare possible rules for the default α with a prior: the tables of docs/prior-alpha.md.

This program runs CascadeLSB with a prior under each rule, on real data and on artificial problems, with good priors and
with wrong ones. It compares it with CascadeLSB without a prior, and with a static list: the greedy list under the mean
of the prior, the same for everybody.

`make prior-alpha DATA=path/to/data` takes over an hour on one core. It writes the tables to the page. For a quick look
without writing them, use --users 5 --steps 1000.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pages
from cases import data_folder

import thali
from thali.lab.problems import generated, synthetic
from thali.lab.sources import SOURCES, selected
from thali.policies import State
from thali.tools.types import Floats

#: Source, number of topics.
DATA = (("movielens", 18), ("songs-hetrec", 40), ("yelp-core40", 10), ("yelp-hin", 10))
SIZES = ((100, 3, 2, 0.5), (100, 5, 4, 0.5), (200, 10, 4, 1.0), (200, 10, 8, 0.2), (300, 18, 12, 0.3))
#: The sizes of generated problems that are also run with wrong priors.
WRONG_SIZES = SIZES[1:3]
POINTS = (1, 5, 20, 100, 1000, 5000)
SIGMAS = (0.15, 0.2, 0.3, 0.4, 0.5)
K, OTHERS, USERS, STEPS = 10, 300, 30, 20_000

Rule = Callable[[thali.LinearPolicy, State], Floats]


def constant(alpha: float) -> Rule:
    """α = a constant."""
    return lambda policy, state: np.full(state.users, alpha)


def information(factor: float) -> Rule:
    """α = factor·sqrt(log det M′ - log det Σ⁻¹)."""
    return lambda policy, state: factor * np.sqrt(policy.information(state))


def log(factor: float) -> Rule:
    """α = factor·log(1 + t), where t is the number of lists from which the policy has learned for a person."""
    return lambda policy, state: factor * np.log1p(state.updates)


def root_log(factor: float) -> Rule:
    """α = factor·sqrt(log(1 + t)). With factor 1, this is the default."""
    return lambda policy, state: factor * np.sqrt(np.log1p(state.updates))


CHOICE = "sqrt(log(1+t))"
RULES: dict[str, Rule] = {
    "0": constant(0.0),
    "0.5": constant(0.5),
    "1.33": constant(1.33),
    "0.8/σ": constant(0.8 / 0.3),
    "0.5·sqrt(information)": information(0.5),
    "0.35·log(1+t)": log(0.35),
    "0.7·sqrt(log(1+t))": root_log(0.7),
    CHOICE: root_log(1.0),
    "1.4·sqrt(log(1+t))": root_log(1.4),
}


class Study(thali.CascadeLSB):
    """CascadeLSB with a rule for α."""

    rule: Rule

    def default_alpha(self, state: State) -> Floats:
        """Return the α of the rule."""
        return self.rule(self, state)


@dataclass(frozen=True, eq=False)
class Case:
    """People, the learner's catalog, and a prior."""

    group: str
    name: str
    catalog: thali.Catalog
    model: thali.ClickModel
    K: int
    prior: thali.Prior


def wrong_priors(theta: Floats, prior: thali.Prior, topics: Any) -> Iterator[tuple[str, thali.Prior]]:
    """Yield wrong priors: too certain; of another group of people; and both.

    The other group are the people with the rarest favorite topic, among the favorites of at least 10 people.
    """
    yield "covariance/10", thali.Prior(prior.mean, prior.covariance / 10.0, topics)
    favorite = theta.argmax(axis=1)
    counts = np.bincount(favorite, minlength=theta.shape[1]).astype(float)
    counts[counts < 10] = inf
    other = thali.Prior.from_preferences(theta[favorite == counts.argmin()], topics)
    yield "another group", other
    yield "another group, covariance/10", thali.Prior(other.mean, other.covariance / 10.0, topics)


def real(data: str | None, users: int, seed: int, *, wrong: bool) -> Iterator[Case]:
    """Yield the cases on the four data sets. The prior comes from the half of the users that does not click."""
    for source, d in DATA:
        train, test = selected(source, data).top_topics(d).split_users(seed)
        catalog, known, theta = thali.Catalog.estimate(train), thali.preferences(train), thali.preferences(test)
        theta = np.random.default_rng(seed).permutation(theta[theta.any(axis=1)])[:users]
        model = thali.DiverseCascade(thali.Catalog.estimate(test), theta)
        prior = thali.Prior.from_preferences(known, catalog.topics)
        title = f"{SOURCES[source].title}, d={d}"
        if not wrong:
            yield Case("data", title, catalog, model, K, prior)
            continue
        for name, other in wrong_priors(known[known.any(axis=1)], prior, catalog.topics):
            yield Case("wrong", f"{title}: {name}", catalog, model, K, other)


def paper(users: int) -> Iterator[Case]:
    """Yield the paper's synthetic problem, in which θ* = (0.6, 0.4, 0), under made-up priors."""
    problem = synthetic(users)
    third = 1.0 / 3.0
    for mean, deviation in (
        ((third, third, third), 0.3),
        ((third, third, third), 0.1),
        ((0.2, 0.2, 0.6), 0.2),
        ((0.1, 0.1, 0.8), 0.1),
        ((0.2, 0.6, 0.2), 0.1),
    ):
        name = f"synthetic: N(({', '.join(f'{x:.2g}' for x in mean)}), {deviation}²·I)"
        prior = thali.Prior(mean, deviation**2 * np.eye(3))
        yield Case("synthetic", name, problem.catalog, problem.model, problem.K, prior)


def artificial(users: int, seed: int, *, wrong: bool) -> Iterator[Case]:
    """Yield generated problems. The prior comes from other people of the same kind."""
    for L, d, length, top in WRONG_SIZES if wrong else SIZES:
        problem = generated(L, d, length, top=top, users=users + OTHERS, seed=seed)
        known, model = problem.theta[users:], thali.DiverseCascade(problem.catalog, problem.theta[:users])
        prior = thali.Prior.from_preferences(known)
        if not wrong:
            yield Case("generated", problem.name, problem.catalog, model, length, prior)
            continue
        for name, other in wrong_priors(known, prior, None):
            yield Case("wrong", f"{problem.name}: {name}", problem.catalog, model, length, other)


class Measured(NamedTuple):
    """What a policy did for each person."""

    shares: Floats
    """The share of the best list's clicks that was earned so far (users, points)."""
    regret: Floats
    """The final regret (users,)."""
    stuck: Any
    """Whether each person is stuck, as defined in docs/default-alpha.md (users,)."""


def measure(case: Case, policy: thali.Policy, points: list[int], seed: int) -> Measured:
    """Run a policy on a case, and measure it after these numbers of lists."""
    steps = points[-1]
    late = np.unique(np.linspace(steps / 2, steps, 51).round().astype(int))
    run = thali.simulate(policy, case.model, steps=steps, seed=seed, points=sorted({*points, *late.tolist()}))
    at = np.searchsorted(run.steps, points)
    shares = 1.0 - run.regret[:, at] / (run.steps[at] * run.best[:, None])
    settled = run.lists[:, np.searchsorted(run.steps, late[0]) :]
    stuck = (settled == run.lists[:, -1:]).all(axis=(1, 2)) & (run.last_loss > 0.01 * run.best)
    return Measured(shares, run.regret[:, -1], stuck)


def static(case: Case, points: list[int]) -> Measured:
    """Measure the greedy list under the mean of the prior, the same for everybody."""
    lists = thali.greedy_lists(case.catalog, case.prior.mean[None], case.K).repeat(case.model.users, axis=0)
    best = case.model.click_probability(case.model.best_lists(case.K))
    share = case.model.click_probability(lists) / best
    return Measured(share[:, None].repeat(len(points), axis=1), best * (1.0 - share) * points[-1], share < 0.99)


def run(case: Case, settings: dict[str, tuple[Rule, float]], points: list[int], seed: int) -> dict[str, Measured]:
    """Measure the static list, CascadeLSB without a prior, and CascadeLSB with each pair of a rule and a σ."""
    found = {"static": static(case, points)}
    found["no prior"] = measure(case, thali.CascadeLSB(case.catalog, case.K), points, seed)
    for name, (rule, sigma) in settings.items():
        policy = Study(case.catalog, case.K, prior=case.prior, sigma=sigma)
        policy.rule = rule
        found[name] = measure(case, policy, points, seed)
    print(f"{case.group}: {case.name} is done", file=sys.stderr, flush=True)
    return found


def worst_tenth(share: Floats) -> float:
    """Return the mean of the lowest tenth."""
    return float(np.sort(share)[: max(1, share.size // 10)].mean())


def shares(results: dict[Case, dict[str, Measured]], points: list[int]) -> str:
    """The shares on real data, with those of the worst tenth of people after 20 lists and at the end."""
    header = ["data", "rule", *(f"{n:,}" for n in points), "worst tenth: 20", f"{points[-1]:,}", "regret"]
    rows: list[tuple[object, ...]] = []
    for case, found in results.items():
        if case.group == "data":
            for name, one in found.items():
                tenths = [worst_tenth(one.shares[:, points.index(20)]), worst_tenth(one.shares[:, -1])]
                cells = [f"{100 * x:.1f}" for x in [*one.shares.mean(axis=0), *tenths]]
                rows.append((case.name, name, *cells, f"{one.regret.mean():.1f}"))
    return pages.table(" | ".join(header), rows)


def ratios(results: dict[Case, dict[str, Measured]], groups: tuple[str, ...], columns: list[str]) -> str:
    """The final regret of each rule, divided by that without a prior, and the share of people who are stuck."""
    rows: list[tuple[object, ...]] = []
    for case, found in results.items():
        if case.group in groups:
            base = found["no prior"].regret.mean()
            cells = [f"{found[name].regret.mean() / base:.2f} ({found[name].stuck.mean():.0%})" for name in columns]
            rows.append((case.name, f"{base:.3g} ({found['no prior'].stuck.mean():.0%})", *cells))
    return pages.table(" | ".join(["problem", "regret without a prior", *columns]), rows)


def main() -> None:
    """Measure everything, and print the tables or write them to the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default=data_folder(), help="Folder of the data sets (default: $THALI_DATA).")
    options.add_argument("--users", type=int, default=USERS, help=f"Number of people in each case (default: {USERS}).")
    options.add_argument("--steps", type=int, default=STEPS, help=f"Number of lists per person (default: {STEPS}).")
    options.add_argument("--seed", type=int, default=0, help="Random seed (default: 0).")
    pages.add_docs_option(options)
    given = options.parse_args()
    points = [*(n for n in POINTS if n < given.steps), given.steps]
    cases = [
        *paper(given.users),
        *artificial(given.users, given.seed, wrong=False),
        *real(given.data, given.users, given.seed, wrong=False),
    ]
    wrong = [
        *artificial(given.users, given.seed, wrong=True),
        *real(given.data, given.users, given.seed, wrong=True),
    ]
    rules = {name: (rule, 0.3) for name, rule in RULES.items()}
    sigmas = {f"σ = {sigma}": (RULES[CHOICE], sigma) for sigma in SIGMAS}
    by_rule = {case: run(case, rules, points, given.seed) for case in [*cases, *wrong]}
    by_sigma = {case: run(case, sigmas, points, given.seed) for case in cases}
    tables = {
        "data": shares(by_rule, points),
        "right": ratios(by_rule, ("data", "synthetic", "generated"), list(RULES)),
        "wrong": ratios(by_rule, ("wrong",), list(RULES)),
        "sigma": ratios(by_sigma, ("data", "synthetic", "generated"), list(sigmas)),
    }
    for name, table in tables.items():
        print(f"\n{name}\n\n{table}")
        if (given.users, given.steps) == (USERS, STEPS):
            pages.write(given.docs / "prior-alpha.md", name, table)


if __name__ == "__main__":
    main()
