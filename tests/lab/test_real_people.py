"""Experiments with real people: held-out likes and real lists, their rows, tables, claims and report."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from publisher import GENRES, write_movielens
from running import Inline
from scipy import stats

import thali
from thali.datasets import Interactions
from thali.lab.claims import CLAIMS
from thali.lab.ledger import ledger
from thali.lab.likes import KNOWING, LIKES, LISTS, described, folds, likes_policy, lists_policy, needs_topics, start_of
from thali.lab.next_list import next_lists
from thali.lab.problems import Known
from thali.lab.real_people import Clicked, Predicted, draw
from thali.lab.report import build
from thali.lab.results import DIVERSITY, Curve, Results
from thali.lab.runner import Store, run
from thali.lab.settings import EXPERIMENTS, FIT, STRONG, Experiment, likes, lists
from thali.lab.sources import LOGS, SOURCES, add_log, add_source, liked, people_in, people_with_likes, problem

K, STEPS = 4, 12
BY_LIKES = replace(
    likes("movielens", K),
    users=9,
    splits=3,
    steps=STEPS,
    policies=("Popular", "EASE", "CascadeLSB", FIT, "Fit-given", "tests_own:Backwards"),
)
REPEATED = replace(likes("movielens", K, hide="nothing"), users=6, splits=2, steps=3)
BY_LISTS = replace(lists("films", 30, 3), steps=3, policies=("Popular", "LSBGreedy", FIT, "Fit-both", "MostPopular"))


class Backwards(thali.MostPopular):
    """Shows the items from the last to the first."""

    def __init__(self, catalog, K):
        super().__init__(catalog, K, popularity=np.arange(catalog.L) / catalog.L)


def random_log(people=30, seed=0, first=0):
    """Lists of 3 to 6 films in random order, of which people mark those of their favorite genre more often."""
    rng = np.random.default_rng(seed)
    genre = {f"film {e:02}": [GENRES[e % 3]] for e in range(24)}
    rows = []
    for user in range(first, first + people):
        for time in range(user % 4 + 1):
            items = [f"film {e:02}" for e in rng.permutation(24)[: rng.integers(3, 7)]]
            chance = [0.7 if GENRES[user % 3] in genre[item] else 0.2 for item in items]
            rows.append((f"person {user:03}", items, np.flatnonzero(rng.random(len(items)) < chance), time))
    return thali.Log.of(rows, genre, examined="all")


@pytest.fixture(scope="module", autouse=True)
def added():
    """A policy and a log of our own."""
    thali.POLICIES["tests_own:Backwards"] = Backwards
    add_log("films", random_log())
    yield
    del thali.POLICIES["tests_own:Backwards"], LOGS["films"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_movielens(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def results(added, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return Results(folder, run([BY_LIKES, REPEATED, BY_LISTS], Store(folder), Inline(), data=data))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(0, 5), min_size=2, max_size=25),
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_nobody_is_in_two_splits_and_people_with_few_likes_in_none(sizes, likes_of, seed, least):
    rows = [(f"{u:02}", e, 1) for u, count in enumerate(likes_of) for e in range(count)]
    rows.append(("x", 0, 1))
    found = Interactions.of(rows)
    count = np.bincount(found.user, minlength=len(found.users))
    able = int((count >= least).sum())
    if sum(sizes) >= able:
        with pytest.raises(ValueError, match=rf"users must be fewer than .* \({able}\), got {sum(sizes)}"):
            folds(found, sizes, seed, least)
        return
    parts, free = folds(found, sizes, seed, least)
    assert [len(part) for part in parts] == sizes
    assert sorted(np.concatenate([*parts, free]).tolist()) == list(range(len(found.users)))
    assert all((count[part] >= least).all() for part in parts)


def test_what_is_known_about_likes_comes_from_people_who_are_not_judged(data):
    everybody, judged = liked("movielens", data), []
    for split in range(3):
        drawn = problem(BY_LIKES, split, seed=0, data=data)
        train, test = drawn.known.train, drawn.known.test
        assert set(train.users).isdisjoint(test.users)
        assert len(train.users) + len(test.users) == len(everybody.users) == people_with_likes("movielens", data)
        assert drawn.people == tuple(map(str, test.users))
        np.testing.assert_array_equal(drawn.model.liked, test.matrix().toarray() > 0)
        assert min(everybody.value) == 4
        judged += test.users
    assert len(set(judged)) == BY_LIKES.users


def plain_clicks(order, liked, lists, length):
    """Cumulative clicks of somebody who clicks the first liked item, and does not see again what they examined."""
    left, clicks, total = list(order), [], 0
    for _ in range(lists):
        shown = left[:length]
        first = next((at for at, e in enumerate(shown) if e in liked), None)
        total += first is not None
        clicks.append(total)
        for e in shown if first is None else shown[: first + 1]:
            left.remove(e)
    return clicks


def test_clicks_on_popular_films_equal_a_plain_loop_and_the_oracle_finds_every_like(results, data):
    popular, backwards = (results.curve(BY_LIKES.name, name, "") for name in ("Popular", "tests_own:Backwards"))
    assert popular.steps.tolist() == list(range(1, STEPS + 1))
    for split in range(3):
        known = problem(BY_LIKES, split, seed=0, data=data).known
        count = np.bincount(known.train.item, minlength=len(known.train.items))
        for user, name in enumerate(known.test.users):
            own = set(known.test.item[known.test.user == user].tolist())
            at = popular.people.index((split, str(name)))
            for curve, order in ((popular, np.argsort(-count, kind="stable")), (backwards, range(len(count))[::-1])):
                assert curve.clicks[at].tolist() == plain_clicks(order, own, STEPS, K)
                assert curve.oracle_clicks[at].tolist() == [min(n, len(own)) for n in range(1, STEPS + 1)]


def half_width(values):
    return stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)


def test_tables_of_likes_are_means_over_people_with_paired_intervals(results):
    found = Clicked(results, BY_LIKES.name)
    assert list(found.curves) == ["Popular", "EASE", "CascadeLSB", FIT, "Fit-given", "tests_own:Backwards"]
    shares, from_popular, from_fit = found.tables()
    assert shares.columns == ("list 1", "lists 1 to 10", "lists 11 to 12", "lists 1 to 12")
    rows = results.rows.filter(experiment=BY_LIKES.name)
    so_far = {
        (policy, step): part.sort("split", "user")["clicks"].to_numpy().astype(float)
        for (policy, step), part in rows.partition_by("policy", "step", as_dict=True).items()
    }

    def later(policy):
        return 50.0 * (so_far[policy, 12] - so_far[policy, 10])

    for table, base in ((shares, None), (from_popular, "Popular"), (from_fit, FIT)):
        more = set() if base else {"Oracle"}
        assert {policy for policy, _ in table.rows} == more.union(BY_LIKES.policies) - {base}
        for policy, numbers in table.rows:
            if policy != "Oracle":
                values = later(policy) - (0.0 if base is None else later(base))
                means = values.reshape(3, 3).mean(axis=1)
                assert numbers[2].value == pytest.approx(means.mean())
                assert numbers[2].high - numbers[2].value == pytest.approx(half_width(means), abs=1e-9)
    assert shares.title.startswith("MovieLens 1M (9 people in 3 splits, 12 steps). Share of lists with a click")
    one = Clicked(results, REPEATED.name)
    assert one.title == "MovieLens 1M, where nothing is hidden"
    assert "Oracle" not in dict(one.tables()[0].rows), "if nothing is hidden, there is no oracle"


def test_the_auc_of_real_lists_is_that_of_next_lists_with_a_policy_that_knows_the_others(results):
    everybody = random_log()
    for split in range(3):
        known = problem(BY_LISTS, split, seed=0).known
        assert set(known.train.users) | set(known.test.users) == set(everybody.users)
        assert set(known.train.users).isdisjoint(known.test.users)
        start = thali.fit(known.train)
        topics = thali.Catalog(start.catalog.dense[:, :-1], start.catalog.items, start.catalog.topics[:-1])
        popular = thali.MostPopular(start.catalog, 1, popularity=start.quality.mean)
        popular.predicts_probabilities = True  # it is a share
        for name, policy in (
            ("Popular", popular),
            ("LSBGreedy", thali.LSBGreedy(topics, 1)),
            ("MostPopular", thali.MostPopular(topics, 1)),
            (FIT, thali.LSBGreedy(start.catalog, 1, prior=start.prior)),
        ):
            expected = next_lists(policy, known.test, (0, 1, 2))
            curve = results.curve(BY_LISTS.name, name, "")
            at = [curve.people.index((split, user)) for user in known.test.users]
            np.testing.assert_array_equal(curve.auc[at], expected.auc)
            np.testing.assert_array_equal(curve.log_loss[at], expected.log_loss)


def test_tables_of_real_lists_leave_out_people_without_such_a_list(results):
    auc, from_popular, loss = Predicted(results, BY_LISTS.name).tables()
    assert auc.columns == ("after 0 lists", "after 1 list", "after 2 lists")
    curves = {name: results.curve(BY_LISTS.name, name, "") for name in BY_LISTS.policies}
    assert {name for name, _ in loss.rows} == {"Popular", "LSBGreedy", FIT, "Fit-both"}, "others only rank"
    for table, base, values in ((auc, None, "auc"), (from_popular, "Popular", "auc"), (loss, None, "log_loss")):
        for name, numbers in table.rows:
            off = getattr(curves[name], values) - (0.0 if base is None else curves[base].auc)
            assert np.isnan(off[:, 2]).any()
            means = [100.0 * np.nanmean(off[curves[name].split == split, 2]) for split in range(3)]
            assert numbers[2].value == pytest.approx(np.nanmean(100.0 * off[:, 2]))
            assert numbers[2].low <= np.mean(means) <= numbers[2].high


def test_a_test_log_is_judged_alone_and_everybody_else_is_learned_from(tmp_path):
    known, others = random_log(), random_log(8, seed=3, first=26)  # four of them are in both
    add_log("seen-by-others", known, test=others)
    try:
        assert people_in("seen-by-others", None) == 8
        one = replace(lists("seen-by-others", 8, 1), policies=("Popular",), steps=2)
        drawn = problem(one, 0, seed=0)
        assert drawn.known.test is others
        assert drawn.known.train.users == known.users[:26], "nothing is learned from the people who are judged"
        names = run([one], Store(tmp_path), Inline())
        curve = Results(tmp_path, names).curve(one.name, "Popular", "")
        expected = next_lists(lists_policy("Popular", drawn.known, "seen-by-others"), others, (0, 1))
        np.testing.assert_array_equal(curve.auc, expected.auc)
        add_log("seen-by-others", known, test=random_log(5, seed=3, first=30))
        assert problem(replace(one, users=5), 0, seed=0).known.train is known, "all of the source"
        with pytest.raises(
            ValueError, match=r"users of lists/seen-by-others must be all 5 people of its test, in 1 split, got 4"
        ):
            problem(replace(one, users=4), 0, seed=0)
    finally:
        del LOGS["seen-by-others"]


def test_nothing_runs_again_unless_the_data_change(results, data):
    store = Store(results.folder)
    made = {path: path.stat().st_mtime_ns for path in results.folder.rglob("*.parquet")}
    run([BY_LIKES, REPEATED, BY_LISTS], store, Inline(), data=data)
    assert {path: path.stat().st_mtime_ns for path in results.folder.rglob("*.parquet")} == made


def test_the_names_of_rows_depend_on_topics_lists_and_what_was_examined():
    rows = [("a", ["x", "y"], [0]), ("b", ["y", "z", "x"], [1])]
    logs = [
        thali.Log.of(rows, {"x": ["s"], "y": ["t"], "z": ["t"]}),
        thali.Log.of(rows, {"x": ["t"], "y": ["s"], "z": ["t"]}),
        thali.Log.of(rows, {"x": ["s"], "y": ["t"], "z": ["t"]}, examined="all"),
        thali.Log.of([("a", ["x"], [0]), ("a", ["y"], []), rows[1]], {"x": ["s"], "y": ["t"], "z": ["t"]}),
    ]
    tables = [Interactions.of([("a", "x", 1)], {"x": [topic], "y": ["s", "t"]}) for topic in ("s", "t")]
    digests = [described(Known(part, logs[0])) for part in (*logs, *tables)]
    assert len(set(digests)) == len(digests)
    assert digests[0] == described(Known(logs[0], logs[0]))


def made_up(experiment, policy, people, *, clicked=None, auc=None):
    """A curve of people who click this share of lists, before and after the tenth, or whose AUC is this."""
    steps = np.arange(1, 31) if auc is None else np.arange(1, 6)
    shape = len(people), len(steps)
    noise = np.random.default_rng(0).uniform(-0.001, 0.001, shape)  # the same for all policies
    nothing, nan = np.zeros(shape), np.full(shape, np.nan)
    clicks = nothing if clicked is None else np.cumsum(np.where(steps <= 10, *clicked) + noise, axis=1)
    return Curve(
        experiment,
        policy,
        "",
        steps,
        people,
        nan,
        clicks,
        nan[:, 0],
        nan[:, 0],
        np.zeros((*shape, 1), dtype=int),
        dict.fromkeys(DIVERSITY, nothing),
        auc=None if auc is None else np.tile(auc, (len(people), 1)) + noise,
    )


@pytest.mark.parametrize(
    ("source", "fit", "popular", "rivals", "verdicts"),
    [
        ("movielens", (0.85, 0.72), (0.80, 0.63), (0.84, 0.71), {"C58": "holds", "C60": "holds"}),
        ("movielens", (0.85, 0.70), (0.80, 0.63), (0.86, 0.6), {"C58": "does not hold", "C60": "does not hold"}),
        ("movielens", (0.83, 0.73), (0.80, 0.63), (0.83, 0.73), {"C58": "does not hold", "C60": "not decided"}),
        ("yelp-hin", (0.3, 0.2), (0.29, 0.19), (0.2, 0.1), {"C59": "holds", "C60": "holds"}),
        ("yelp-hin", (0.3, 0.2), (0.29, 0.21), (0.2, 0.1), {"C59": "does not hold"}),
    ],
)
def test_claims_on_likes_follow_from_the_share_of_lists_with_a_click(source, fit, popular, rivals, verdicts):
    people = tuple((at // 4, str(at)) for at in range(20))
    name = f"likes/{source}-K10"
    shares = {FIT: fit, "Popular": popular, **dict.fromkeys(STRONG, rivals)}
    found = object.__new__(Results)
    found.curves = {(name, p, ""): made_up(name, p, people, clicked=share) for p, share in shares.items()}
    found.scales, found.setups = {name: "20 people in 5 splits x 30 steps"}, {}
    if rivals == fit:  # a tie within the noise
        curve = found.curves[name, "EASE", ""]
        curve.clicks[::2] += 0.01 * curve.steps
        curve.clicks[1::2] -= 0.01 * curve.steps
    judged = {f.claim.number: f.verdict for f in ledger(found)}
    assert verdicts.items() <= judged.items()
    assert ("C58" in judged) == (source == "movielens") != ("C59" in judged)
    for key, curve in found.curves.items():
        found.curves[key] = replace(curve, steps=curve.steps[:12], clicks=curve.clicks[:, :12])
    known = {f.verdict for f in ledger(found) if f.suite == name}
    assert known <= {"not decided", "does not hold"}, "nothing is known of lists 13 to 30"


@pytest.mark.parametrize(
    ("fit", "verdicts"),
    [
        ([0.75, 0.7, 0.77, 0.78, 0.79], ["holds", "holds"]),
        ([0.74, 0.8, 0.77, 0.78, 0.79], ["does not hold", "holds"]),
        ([0.76, 0.8, 0.77, 0.74, 0.79], ["holds", "does not hold"]),
    ],
)
def test_claims_on_real_lists_follow_from_the_auc_of_the_next_list(fit, verdicts):
    people, name = tuple((at // 4, str(at)) for at in range(20)), "lists/ranklens"
    found = object.__new__(Results)
    found.curves = {
        (name, policy, ""): made_up(name, policy, people, auc=auc)
        for policy, auc in ((FIT, fit), ("Popular", [0.75] * 5))
    }
    found.scales, found.setups = {name: "20 people in 5 splits x 5 steps"}, {}
    judged = {f.claim.number: f for f in ledger(found)}
    assert [judged[number].verdict for number in ("C61", "C62")] == verdicts
    assert len(judged["C62"].checks) == 3


def test_experiments_claims_and_report_belong_together(results):
    names = {name for name in EXPERIMENTS if name.startswith((f"{LIKES}/", f"{LISTS}/"))}
    claimed = {suite for claim in CLAIMS for suite in claim.suites if suite.startswith((f"{LIKES}/", f"{LISTS}/"))}
    assert names - claimed == {"likes/movielens-hide-nothing-K10"}
    assert claimed <= names
    made = build(results.folder)
    page = made.page.read_text()
    assert {path.name for path in made.pictures} == {"likes.svg", "likes-movielens-K4-parts.svg"}
    assert "<!-- tests_own:Backwards -->" in (results.folder / "figures" / "likes.svg").read_text()
    bars = (results.folder / "figures" / "likes-movielens-K4-parts.svg").read_text()
    for text in ("CascadeLSB", FIT, "Fit-given", "EASE", "lists 1 to 10", "lists 11 to 12"):
        assert f"<!-- {text} -->" in bars
    for name in (BY_LIKES.name, REPEATED.name):
        for table in Clicked(results, name).tables():
            assert all(f'<td class="n">{cell}</td>' in page for row in table.cells() for cell in row[1:])
    for table in Predicted(results, BY_LISTS.name).tables():
        assert all(f'<td class="n">{cell}</td>' in page for row in table.cells() for cell in row[1:])
    assert draw([Clicked(results, REPEATED.name)], results.folder) is None


def test_data_without_topics_have_the_policies_that_need_none(tmp_path):
    rng = np.random.default_rng(0)
    add_source("mine", Interactions.of([(u, e, 1) for u in range(30) for e in range(40) if rng.random() < 0.3]))
    add_log("my-lists", thali.Log.of([(u, rng.permutation(9)[:4], [u % 4]) for u in range(20)]))
    own = ("tests_own:Backwards",)
    try:
        for e in (replace(likes("mine", 3, own), users=4, steps=5), replace(lists("my-lists", 20, 2, own), steps=1)):
            few = tuple(name for name in e.policies if not needs_topics(name))
            assert {FIT, "Popular", *own} <= set(few) < set(e.policies)
            assert run([replace(e, policies=few)], Store(tmp_path), Inline())
            for name in set(e.policies) - set(few):
                with pytest.raises(
                    ValueError, match=f"policies must not include {name} for data without topics, got it"
                ):
                    run([replace(e, policies=(name,))], Store(tmp_path), Inline())
    finally:
        del SOURCES["mine"], LOGS["my-lists"]


def test_fewer_people_than_topics_give_fewer_topics(data, monkeypatch):
    known = problem(replace(BY_LIKES, users=57, splits=1), 0, seed=0, data=data).known
    monkeypatch.setattr("thali.lab.likes.TUNED", {"movielens": {FIT: {"topics": "learned", "d": 60}}})
    assert len(known.train.users) == 3
    policy = likes_policy(FIT, known, 6, K, "movielens")
    assert 1 < policy.catalog.d <= 4
    assert likes_policy("Fit-no-prior", known, 6, K, "movielens").prior is None
    assert likes_policy("Fit-steady", known, 6, K, "movielens").catalog.fading.sum() == 0
    assert start_of(random_log(2), "learned", 60).catalog.d <= 3


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (replace(BY_LIKES, source="films"), "source of likes/movielens-K4 must be one of movielens, .* got 'films'"),
        (
            replace(BY_LIKES, steps=33),
            "steps of likes/movielens-K4 must be at most 32, .* 130 items for lists of 4, got 33",
        ),
        (replace(BY_LIKES, users=60), r"users must be fewer than the people with a like \(60\), got 60"),
        (replace(BY_LIKES, policies=("LSB",)), "LSB"),
        (
            replace(BY_LIKES, policies=("Oracle",)),
            "policies of likes/movielens-K4 must not include Oracle, which needs",
        ),
        (
            replace(BY_LISTS, source="movielens"),
            "source of lists/films must be one of ranklens, films, .*got 'movielens'",
        ),
        (replace(BY_LISTS, users=31), r"users of lists/films must be at most .* \(30\), .* got 31 in 3"),
        (replace(BY_LISTS, splits=1), r"users of lists/films must be .* in at least 2 splits .*, got 30 in 1"),
        (replace(BY_LISTS, policies=("EASE",)), "EASE"),
        (replace(BY_LISTS, policies=("CascadeKLUCB",)), "CascadeKLUCB does not define predict"),
    ],
)
def test_what_cannot_run_is_refused(experiment, message, data, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        run([experiment], Store(tmp_path), Inline(), data=data)


def test_a_name_stands_for_one_source():
    log, table = random_log(2), Interactions.of([("a", "x", 1)])
    for name in ("ranklens", "movielens", "synthetic"):
        with pytest.raises(ValueError, match="name of add_source must not be the name of a source of thali's own"):
            add_source(name, table)
        with pytest.raises(ValueError, match="name of add_log must not be the name of a source of thali's own"):
            add_log(name, log)
    with pytest.raises(ValueError, match="name of add_source must not be the name of a source of another kind"):
        add_source("films", table)
    with pytest.raises(TypeError, match="test of add_log"):
        add_log("more", log, test=table)


def test_every_policy_of_these_experiments_is_known():
    for e in (*EXPERIMENTS.values(), BY_LIKES):
        if e.clicks in KNOWING:
            assert set(e.policies) - {"tests_own:Backwards"} <= set(KNOWING[e.clicks])


def test_other_policies_run_at_the_given_settings(data, tmp_path):
    e: Experiment = replace(
        BY_LIKES, users=3, splits=1, steps=4, policies=("LSBGreedy",), settings=(thali.lab.settings.Setting(4.0),)
    )
    names = run([e], Store(tmp_path), Inline(), data=data)
    [curve] = Results(tmp_path, names).curves.values()
    drawn = problem(e, 0, seed=0, data=data)
    catalog = thali.Catalog.estimate(drawn.known.train.top_topics(6))
    policy = thali.LSBGreedy(catalog, K, alpha=4.0, sigma=0.1)
    expected = thali.simulate(policy, drawn.model, 4, 0, points=4, hide="examined")
    order = np.argsort(drawn.people)
    np.testing.assert_array_equal(curve.lists, expected.lists[order])
