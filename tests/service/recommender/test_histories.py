"""Learning what people are known to like from files: the sums, exactly once, and undone bit for bit."""

import csv
import json
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from recommending import SIGMA, Clock, K, assert_same, everything, films, learned, recommender
from typer.testing import CliRunner

import thali
from thali.cli import store as commands
from thali.cli.app import app
from thali.service.recommender import Recommender, Refused, Unknown
from thali.service.recommender.histories import PAGE, Learned, LearningInterrupted, forget_history, learn_history
from thali.service.recommender.operations import AddHistory
from thali.service.recommender.replay import replay
from thali.starting.known import known_of, state_of_likes, state_of_log
from thali.starting.weight import noise

WEIGHT = 0.05


def table(path, rows, columns=("user", "item", "value", "time")):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([columns[: len(rows[0])] if rows else columns, *rows])
    return path


def likes(people=6, seed=0, L=20):
    """Return rows (user, item) in random order; somebody likes each item."""
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((people, L)) < 0.3)
    return [(f"u{n}", f"film {e}") for n, e in rng.permutation(pairs).tolist()]


def lists(path, count=200, seed=0, extra=(), *, timed=True):
    rng = np.random.default_rng(seed)
    names = [*(f"film {e}" for e in range(20)), *extra]
    lines = []
    for n in range(count):
        items = [names[e] for e in rng.choice(len(names), 4, replace=False)]
        clicked = sorted(rng.choice(4, rng.integers(0, 3), replace=False).tolist())
        time = {"time": float(rng.integers(1000))} if timed else {}
        lines.append({"user": f"u{n % 5}", "items": items, "clicked": clicked, **time})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def operations(monkeypatch, rec):
    """Return a list to which all histories are added that are learned from now on."""
    perform, seen = rec.perform, []

    def recording(given, **rest):
        seen.extend(operation for operation in given if isinstance(operation, AddHistory))
        return perform(given, **rest)

    monkeypatch.setattr(rec, "perform", recording)
    return seen


def test_the_sums_of_likes_are_those_of_a_plain_transcription_and_of_a_fit(store_url, tmp_path, monkeypatch):
    rows = likes()
    path = table(tmp_path / "likes.csv", rows)
    catalog = films()
    W = catalog.dense.copy()
    with recommender(store_url, catalog) as rec:
        rec.remove_item("film 3")
        W[3] = 0.0
        seen = operations(monkeypatch, rec)
        done = learn_history(rec, path, name="history", weight=WEIGHT)
        gone = sum(item == "film 3" for _, item in rows)
        assert done == Learned(6, 0, len(rows) - gone, "like", 0, 0, {"film 3": gone})
        S = WEIGHT * sum(np.outer(x, x) for x in W)
        likes_matrix = sp.csr_array(
            [[float((f"u{n}", f"film {e}") in rows and e != 3) for e in range(20)] for n in range(6)]
        )
        state = state_of_likes(thali.CascadeLSB(thali.Catalog(W), K, sigma=SIGMA), likes_matrix, WEIGHT)
        for n, operation in enumerate(seen):
            assert operation.user == f"u{n}"
            assert operation.S is seen[0].S
            assert (operation.S == operation.S.T).all()
            np.testing.assert_allclose(operation.S, S, rtol=1e-12)
            B = WEIGHT * sum((W[int(item[5:])] for user, item in rows if user == f"u{n}"), np.zeros(4))
            np.testing.assert_allclose(operation.B, B, rtol=1e-12, atol=1e-15)
            assert list(operation.liked) == [
                item for user, item in rows if user == f"u{n}" and item != "film 3"
            ]  # in the order of the file
            assert_same(learned(rec, f"u{n}"), (0, state.M[n], state.B[n]), rtol=1e-12)


def test_the_default_weight_is_that_of_the_noise_of_the_likes(tmp_path, monkeypatch):
    rows = likes(40)
    path = table(tmp_path / "likes.csv", rows)
    data = thali.datasets.Interactions.of([(*row, 1) for row in rows])
    spread = noise(known_of(data, None))[1]
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        seen = operations(monkeypatch, rec)
        learn_history(rec, path, name="history")
        W = rec.catalog.dense
        np.testing.assert_allclose(seen[0].S, SIGMA**2 / spread * W.T @ W, rtol=1e-12)


@pytest.mark.parametrize("rule", ["first-click", "last-click", "all"])
def test_the_sums_of_lists_are_those_of_a_plain_transcription_and_of_a_fit(tmp_path, monkeypatch, rule):
    path = tmp_path / "log.jsonl"
    lines = lists(path)
    catalog = films()
    policy = (thali.LSBGreedy if rule == "all" else thali.CascadeLSB)(catalog, K, sigma=SIGMA, examined=rule)
    log = thali.Log.read(path, examined=rule).within(catalog.items)
    state = state_of_log(policy, log, np.arange(5))
    with thali.Recommender(policy, f"sqlite:///{tmp_path}/s.db") as rec:
        seen = operations(monkeypatch, rec)
        assert learn_history(rec, path, name="history") == Learned(5, 0, 200, "list")
        for n, operation in enumerate(seen):
            S, B, clicks = np.zeros((4, 4)), np.zeros(4), []
            for line in sorted(lines, key=lambda line: line["time"]):
                if line["user"] == f"u{n}":
                    last = {"first-click": min, "last-click": max, "all": lambda _: 3}[rule](line["clicked"] or [3])
                    for k, item in enumerate(line["items"]):
                        x = catalog.dense[catalog.item(item)]
                        S += np.outer(x, x) * (k <= last)
                        B += x * (k <= last and k in line["clicked"])
                        clicks += [item] * (k in line["clicked"])
            np.testing.assert_allclose(operation.S, S, rtol=1e-12)
            np.testing.assert_allclose(operation.B, B, rtol=1e-12)
            assert (operation.S == operation.S.T).all()
            assert (
                list(operation.liked) == list(dict.fromkeys(reversed(clicks)))[::-1]
            )  # at the place of the last click
            assert_same(learned(rec, f"u{n}"), (0, state.M[n], state.B[n]), rtol=1e-12)


def test_missing_items_of_a_log_are_left_out_as_a_log_does_it(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = lists(path, extra=("Heat", "Ronin"))
    catalog = films()
    policy = thali.CascadeLSB(catalog, K, sigma=SIGMA)
    state = state_of_log(policy, thali.Log.read(path).within(catalog.items), np.arange(5))
    with thali.Recommender(policy, f"sqlite:///{tmp_path}/s.db") as rec:
        done = learn_history(rec, path, name="history")
        assert done.missing == {name: sum(name in line["items"] for line in lines) for name in ("Heat", "Ronin")}
        for n in range(5):
            assert_same(learned(rec, f"u{n}"), (0, state.M[n], state.B[n]), rtol=1e-12)


def test_likes_are_in_the_order_of_their_times_and_numbers_are_names(tmp_path, monkeypatch):
    catalog = thali.Catalog(np.eye(3), items=[10, 11, "x"])
    rows = [(1, 11, 5, 30), (1, "x", 5, 20), (1, 10, 2, 10), (2, 10, 4, 9)]
    path = table(tmp_path / "likes.csv", rows)
    with recommender(f"sqlite:///{tmp_path}/s.db", catalog) as rec:
        seen = operations(monkeypatch, rec)
        assert learn_history(rec, path, name="history", weight=1.0, at_least=4)[:3] == (2, 0, 3)
        assert [(operation.user, operation.liked) for operation in seen] == [("1", ("x", 11)), ("2", (10,))]
        columns = dict(zip(("user", "item", "value", "time"), zip(*rows, strict=True), strict=True))
        pl.DataFrame({**columns, "item": list(map(str, columns["item"]))}).write_parquet(tmp_path / "likes.parquet")
        again = learn_history(rec, tmp_path / "likes.parquet", name="history", weight=1.0, at_least=4)
        assert again[:3] == (0, 2, 0)


def test_a_history_is_learned_once_and_resumes_if_interrupted(store_url, tmp_path):
    path = table(tmp_path / "likes.csv", likes(600))
    with recommender(store_url) as rec, recommender(f"sqlite:///{tmp_path}/whole.db") as whole:
        seen = []

        def stop(count):
            seen.append(count)
            if len(seen) == 2:
                raise KeyboardInterrupt

        with pytest.raises(LearningInterrupted) as interrupted:
            learn_history(rec, path, name="history", weight=WEIGHT, progress=stop)
        assert interrupted.value.done.people == sum(seen) == 2 * PAGE
        total = learn_history(whole, path, name="history", weight=WEIGHT)
        rest = learn_history(rec, path, name="history", weight=WEIGHT)
        assert (rest.people, rest.known) == (total.people - 2 * PAGE, 2 * PAGE)
        assert rest.used + interrupted.value.done.used == total.used
        assert learn_history(rec, path, name="history", weight=WEIGHT)[:3] == (0, total.people, 0)
        for n in range(0, 600, 37):
            assert_same(learned(rec, f"u{n}"), learned(whole, f"u{n}"))


def test_a_changed_file_replaces_what_changed_and_only_that(store_url, tmp_path):
    rows = [("ana", "film 1"), ("ana", "film 2"), ("bob", "film 3"), ("cyd", "film 4")]
    path = table(tmp_path / "likes.csv", rows)
    with recommender(store_url) as rec, recommender(f"sqlite:///{tmp_path}/direct.db") as direct:
        learn_history(rec, path, name="history", weight=WEIGHT)
        cyd = learned(rec, "cyd")
        new = table(tmp_path / "new.csv", [("bob", "film 3"), ("ana", "film 2"), ("ana", "film 5")])
        assert learn_history(rec, new, name="history", weight=WEIGHT)[:3] == (1, 1, 2)
        learn_history(direct, new, name="history", weight=WEIGHT)
        for user in ("ana", "bob"):
            assert_same(learned(rec, user), learned(direct, user))
        assert_same(learned(rec, "cyd"), cyd)
        # The order of rows and other people do not change a person's data.
        table(path, [("ana", "film 5"), ("dan", "film 1"), ("ana", "film 2")])
        assert learn_history(rec, path, name="history", weight=WEIGHT)[:2] == (1, 1)


def test_a_history_is_learned_again_after_the_topics_have_changed(store_url, tmp_path):
    path = table(tmp_path / "likes.csv", likes(5))
    with recommender(store_url) as rec:
        learn_history(rec, path, weight=WEIGHT)
    for topics in (["crime", "comedy", "drama", "opera"], ["crime", "comedy", "drama", "opera", "dance"]):
        with (
            recommender(store_url, films(topics=topics)) as rec,
            recommender(f"sqlite:///{tmp_path}/{len(topics)}.db", films(topics=topics)) as direct,
        ):
            assert learn_history(rec, path, weight=WEIGHT).people == learn_history(direct, path, weight=WEIGHT).people
            for user in ("u0", "u4"):
                assert_same(learned(rec, user), learned(direct, user))


@pytest.mark.parametrize("kind", ["likes", "lists"])
def test_the_same_file_is_learned_again_if_the_catalog_has_got_an_item_or_the_weight_changes(store_url, tmp_path, kind):
    settings = {}
    if kind == "likes":
        path, settings["weight"] = (
            table(tmp_path / "a.csv", [("ana", "film 1"), ("ana", "new"), ("bob", "film 2")]),
            WEIGHT,
        )
    else:
        path = tmp_path / "a.jsonl"
        shown = [
            {"user": "ana", "items": ["film 1", "new"], "clicked": [1]},
            {"user": "bob", "items": ["film 2"], "clicked": [0]},
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in shown))
    with recommender(store_url) as rec, recommender(f"sqlite:///{tmp_path}/direct.db") as direct:
        assert learn_history(rec, path, name="history", **settings).people == 2
        for one in (rec, direct):
            one.put_item("new", {"crime": 0.3})
        again = learn_history(rec, path, name="history", **settings)
        assert (again.people, again.known, dict(again.missing)) == (1, 1, {})
        learn_history(direct, path, name="history", **settings)
        assert_same(learned(rec, "ana"), learned(direct, "ana"))
        if kind == "likes":
            assert learn_history(rec, path, name="history", weight=2 * WEIGHT).people == 2


def test_a_person_about_whom_a_changed_file_says_nothing_has_nothing_learned_from_it(tmp_path):
    path = table(tmp_path / "likes.csv", [("ana", "film 1", 5), ("bob", "film 1", 1)])
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        assert learn_history(rec, path, name="history", weight=WEIGHT, at_least=4)[:5] == (1, 0, 1, "like", 1)
        with pytest.raises(Unknown):
            rec.user("bob")
        table(path, [("ana", "film 1", 2), ("bob", "film 1", 1), ("cyd", "film 2", 5)])
        assert learn_history(rec, path, name="history", weight=WEIGHT, at_least=4)[:5] == (1, 0, 1, "like", 2)
        assert_same(learned(rec, "ana"), (0, np.eye(4), np.zeros(4)))
        assert rec.user("ana").learners["default"].histories == []
        assert forget_history(rec, "history") == 1  # cyd


def test_a_threshold_or_a_file_with_nothing_to_learn_is_refused_and_removes_nothing(tmp_path):
    path = table(tmp_path / "likes.csv", [("ana", "film 1", 5), ("bob", "film 2", 4)])
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        learn_history(rec, path, weight=WEIGHT)
        kept = learned(rec, "ana")
        with pytest.raises(
            ValueError, match=r"likes.csv must contain an interaction with a value of at least 9 with an"
        ):
            learn_history(rec, path, weight=WEIGHT, at_least=9)
        other = table(tmp_path / "other.csv", [("ana", "song 1"), ("bob", "song 2")])
        with pytest.raises(
            ValueError, match=r"other.csv must contain an interaction with an item of the catalog, got n"
        ):
            learn_history(rec, other, weight=WEIGHT)
        assert_same(learned(rec, "ana"), kept)
        again = learn_history(rec, table(path, [("ana", "film 3", 5), ("bob", "film 2", 4)]), weight=WEIGHT)
        assert (again.people, again.known, again.replaced) == (1, 1, 1)
        with pytest.raises(Refused, match="history must not contain '/' and must not be '.' or '..', got 'a/b'"):
            learn_history(rec, path, name="a/b", weight=WEIGHT)


def test_undo_brings_statistics_back_bit_for_bit(store_url, tmp_path):
    path = table(tmp_path / "likes.csv", likes(300))
    log = tmp_path / "log.jsonl"
    with recommender(store_url) as rec, recommender(f"sqlite:///{tmp_path}/never.db") as never:
        lists(log, 10, timed=False)  # so that the lists are recent enough to be stored
        for one in (rec, never):
            replay(one, log)
        learn_history(rec, path, name="history", weight=WEIGHT)
        learn_history(rec, path, name="other", weight=2 * WEIGHT)
        lists(log, 10, seed=1, timed=False)
        for one in (rec, never):
            replay(one, log)
        assert forget_history(rec, "history", "u1") == 1
        with pytest.raises(Unknown, match="history 'history' of user 'u1' is not known"):
            forget_history(rec, "history", "u1")
        pages = []
        people = learn_history(rec, path, name="x", weight=WEIGHT).people
        assert forget_history(rec, "x") == people
        assert forget_history(rec, "history", progress=pages.append) == people - 1 == sum(pages)
        assert len(pages) == -(-(people - 1) // PAGE)
        assert forget_history(rec, "other") == people
        assert forget_history(rec, "history") == forget_history(rec, "none") == 0
        for user in (*(f"u{n}" for n in range(5)), "u299"):  # the last one has no lists
            for mine, theirs in zip(learned(rec, user), learned(never, user), strict=True):
                assert np.array_equal(mine, theirs)


def test_a_history_that_another_process_adds_during_an_undo_is_not_removed_by_it(store_url, tmp_path, monkeypatch):
    with recommender(store_url) as rec:
        learn_history(rec, table(tmp_path / "a.csv", [("ana", "film 1")]), name="history", weight=WEIGHT)
        kept, histories, calls = learned(rec, "ana"), rec.store.histories, []

        def late(*key):  # when the statistics are locked, it is not there yet
            calls.append(key)
            return histories(*key) if len(calls) > 1 else []

        with monkeypatch.context() as patched:
            patched.setattr(rec.store, "histories", late)
            with pytest.raises(Unknown):
                forget_history(rec, "history", "ana")
        assert len(calls) == 2
        assert_same(learned(rec, "ana"), kept)
        assert forget_history(rec, "history", "ana") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty|must have a column"),
        ("a.csv", "user,item\n", "must contain an interaction, got none"),
        ("a.csv", "who,item\na,film 1\n", "must have a column 'user'"),
        ("a.csv", "user,item\na,film 1\na,film 1\n", "line 3: user 'a' and item 'film 1' appear twice"),
        ("a.csv", "user,item\nb,film 1\n,film 2\n", "line 3: user must not be empty"),
        ("a.csv", "user,item,value\nb,film 1,many\n", "line 2: value must be a finite number"),
        ("a.csv", "user,item,time\nb,film 1,nan\n", "line 2: time must be a finite number"),
        ("a.csv", "user,item\nb,film 1\na/b,film 1\n", "user 'a/b': user must not contain '/'"),
        ("a.csv", f"user,item\nb,film 1\n{'a' * 300},film 1\n", "user must"),
        ("a.parquet", "not parquet", "is not a Parquet file"),
        ("a.jsonl", "", "is empty"),
        ("a.jsonl", '{"user": "a", "items": ["film 1"], "clicked": null}\n', "must contain a list whose clicks are"),
        ("a.jsonl", '{"user": "a", "items": ["film 1"], "clicked": [1]}\n', "line 1: clicked must be"),
        ("a.jsonl", '{"user": "..", "items": ["film 1"], "clicked": []}\n', "user '..': user must not"),
        ("a.jsonl", '{"user": "a"', "line 1: the line must be valid JSON"),
    ],
)  # fmt: skip
def test_the_whole_file_is_checked_before_anything_is_learned(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        before = everything(rec.store)
        with pytest.raises(ValueError, match=message):
            learn_history(rec, tmp_path / name, name="history")
        assert everything(rec.store) == before


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        ("a.csv", {"name": ""}, "history must"),
        ("a.csv", {"weight": 0.0}, "weight must be"),
        ("a.csv", {"at_least": "x"}, "at_least must be"),
        ("a.csv", {"duplicates": "x"}, "duplicates of tables must be"),
        ("a.csv", {"learner": "x"}, "learner must be one of default, got 'x'"),
        ("a.jsonl", {"at_least": 1.0}, "at_least can only be used with a table of interactions, got 1.0"),
        ("a.jsonl", {"duplicates": "sum"}, "duplicates can only be used with a table"),
        ("none.csv", {}, "found nothing at"),
    ],
)
def test_settings_are_checked(tmp_path, file, settings, message):
    table(tmp_path / "a.csv", [("a", "film 1")])
    lists(tmp_path / "a.jsonl", 3)
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        with pytest.raises((ValueError, TypeError, OSError), match=message):
            learn_history(rec, tmp_path / file, **{"name": "history", **settings})
        assert rec.stats().learners["default"].users == 0


def test_a_named_learner_learns_and_others_do_not(tmp_path):
    catalog = films()
    policies = {name: thali.CascadeLSB(catalog, K, sigma=sigma) for name, sigma in (("a", 0.2), ("b", 0.4))}
    path = table(tmp_path / "likes.csv", likes(20))
    with thali.Recommender(policies, f"sqlite:///{tmp_path}/s.db") as rec:
        learn_history(rec, path, name="history", learner="b")
        assert set(rec.user("u1").learners) == {"b"}
        learn_history(rec, path, name="own")
        assert {next(iter(rec.export(f"u{n}")["learners"])) for n in range(20)} == {"a", "b"}


def command(tmp_path, *words):
    done = CliRunner().invoke(app, ["learn-from", *map(str, words), "--store", f"sqlite:///{tmp_path}/s.db"])
    return done.exit_code, done.stdout.lstrip(), done.exception


def test_the_command_learns_repeats_and_undoes(tmp_path, monkeypatch):
    thali.save_catalog(films(), tmp_path / "films.parquet")
    monkeypatch.setattr(commands, "_bar", quiet)
    rows = [("ana", "film 1", 5), ("bob", "film 2", 5), ("ana", "Heat", 5), ("bob", "Heat", 4), ("bob", "Ronin", 4)]
    path = table(tmp_path / "likes.csv", [*rows, ("bob", "film 3", 1), ("cyd", "film 1", 1)])
    words = path, "--catalog", tmp_path / "films.parquet", "--at-least", 4
    rest = (
        " Nothing was learned about 1 person: no like that counts has an item of the catalog. 3 interactions with 2 "
        "items that are not in the catalog were left out: 'Heat' (2), 'Ronin' (1).\n"
    )
    assert command(tmp_path, *words)[:2] == (0, f"Learned 2 likes of 2 people from {path}.{rest}")
    again = f"Learned 0 likes of 0 people from {path} (2 people had been learned previously).{rest}"
    assert command(tmp_path, *words)[:2] == (0, again)
    catalog = "--catalog", tmp_path / "films.parquet"
    undone = command(tmp_path, "--undo", "--user", "ana", *catalog)
    assert undone[:2] == (0, "Removed what was learned as 'history' about 1 person.\n")
    assert isinstance(command(tmp_path, "--undo", "--user", "ana", *catalog)[2], ValueError)
    assert command(tmp_path, "--undo", *catalog)[1] == "Removed what was learned as 'history' about 1 person.\n"
    assert command(tmp_path, "--undo", *catalog)[1] == "Removed what was learned as 'history' about 0 people.\n"
    lists(tmp_path / "log.jsonl")
    assert command(tmp_path, tmp_path / "log.jsonl", "--id", "lists", *catalog)[1] == (
        f"Learned 200 lists of 5 people from {tmp_path / 'log.jsonl'}.\n"
    )


@contextmanager
def quiet(unit):
    yield lambda count: None


def test_the_command_says_how_to_go_on_after_an_interrupt(tmp_path, monkeypatch):
    thali.save_catalog(films(), tmp_path / "films.parquet")
    path = table(tmp_path / "likes.csv", [(f"u{n}", "film 1") for n in range(300)])

    @contextmanager
    def bar(unit):
        def advance(count):
            raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(commands, "_bar", bar)
    words = ["learn-from", str(path), "--store", f"sqlite:///{tmp_path}/s.db"]
    words += ["--catalog", str(tmp_path / "films.parquet")]
    stopped = CliRunner().invoke(app, words)
    assert stopped.exit_code == 130
    assert stopped.output == (
        f"Interrupted. Learned {PAGE} likes of {PAGE} people from {path}. "
        "To learn from the rest, run the same command again.\n"
    )
    monkeypatch.setattr(commands, "_bar", quiet)
    done = CliRunner().invoke(app, words)
    rest = f"Learned {300 - PAGE} likes of {300 - PAGE} people from {path}"
    assert done.stdout == f"{rest} ({PAGE} people had been learned previously).\n"
    assert "learner 'default' has no prior. Without one, lists explore so much" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "learn-from needs a FILE to learn from, or --undo"),
        (("a.csv", "--undo"), "FILE cannot be used with --undo, got 'a.csv'"),
        (("--undo", "--at-least", "3"), "--at-least cannot be used with --undo"),
        (("a.csv", "--user", "ana"), "--user can only be used with --undo, got 'ana'"),
    ],
)
def test_options_of_the_command_that_do_not_fit_together(tmp_path, words, message):
    assert str(command(tmp_path, *words)[2]).startswith(message)


def test_the_command_uses_the_weight_of_a_fitted_catalog(tmp_path, monkeypatch):
    rows = likes(60)
    path = table(tmp_path / "likes.csv", rows)
    start = thali.fit(thali.datasets.tables(path), d=2)
    start.save(tmp_path / "films.parquet")
    monkeypatch.setattr(commands, "_bar", quiet)
    weights = []
    real = commands._weight_of_a_like
    monkeypatch.setattr(commands, "_weight_of_a_like", lambda *a: weights.append(real(*a)) or weights[-1])
    assert command(tmp_path, path, "--catalog", tmp_path / "films.parquet")[0] == 0
    assert weights == [start.weight]


def test_an_export_contains_histories_and_what_was_seen(store_url, tmp_path):
    path = table(tmp_path / "likes.csv", [("ana", "film 2"), ("ana", "film 1"), ("bob", "film 1")], ("user", "item"))
    clock = Clock()
    with recommender(store_url, hide="examined", clock=clock) as rec:
        learn_history(rec, path, name="ratings", weight=WEIGHT)
        clock.tick()
        shown = rec.recommend("ana")
        rec.feedback(shown.id, [1])
        rec.remove_item("film 1")
        exported = rec.export("ana")["learners"]["default"]
        (history,) = exported.sums
        W = films().dense
        assert (history.name, history.learned_at, exported.histories) == ("ratings", clock() - 1.0, ["ratings"])
        np.testing.assert_allclose(history.S, WEIGHT * W.T @ W, rtol=1e-12)
        np.testing.assert_allclose(history.B, WEIGHT * (W[1] + W[2]), rtol=1e-12)
        known, seen = exported.seen
        assert (known.at, known.items, known.clicked) == (clock() - 1.0, ["film 2", None], [True, True])
        first = [item.item for item in shown.items[:2]]
        assert (seen.at, seen.items, seen.clicked) == (pytest.approx(shown.shown_at), first, [False, True])


def test_a_file_for_one_learner_removes_nothing_from_another(store_url, tmp_path):
    catalog = films()
    learners = {"A": thali.CascadeLSB(catalog, K=K), "B": thali.CascadeLinUCB(catalog, K=K)}
    path, rest = tmp_path / "likes.csv", {"name": "ratings", "weight": WEIGHT, "at_least": 4}
    with Recommender(learners, store_url) as rec:
        for learner in "AB":
            learn_history(rec, table(path, [("ana", "film 1", 5), ("bob", "film 2", 5)]), learner=learner, **rest)
        done = learn_history(rec, table(path, [("ana", "film 1", 2), ("bob", "film 2", 5)]), learner="A", **rest)
        assert (done.people, done.known, done.skipped, done.removed) == (0, 1, 1, 1)
        left = {learner: taste.histories for learner, taste in rec.user("ana").learners.items()}
        assert left == {"A": [], "B": ["ratings"]}
        assert rec.remove_history("ana", "ratings") == 1


def test_a_topic_that_the_catalog_lost_and_got_again_is_learned_again(store_url, tmp_path):
    path = table(tmp_path / "likes.csv", likes(5))
    without = thali.Catalog(films().dense[:, :3], films().items, films().topics[:3])
    with recommender(store_url) as rec:
        learn_history(rec, path, weight=WEIGHT)
        before = learned(rec, "u0")
    with recommender(store_url, without) as rec:
        rec.recommend("u0")
    with recommender(store_url) as rec:
        assert learn_history(rec, path, weight=WEIGHT)[:2] == (5, 0)
        assert_same(learned(rec, "u0"), before)
        assert learn_history(rec, path, weight=WEIGHT)[:2] == (0, 5)


def test_the_default_weight_is_the_same_before_and_after_a_prior_is_learned(tmp_path, monkeypatch):
    path = table(tmp_path / "likes.csv", likes(5))
    policy = thali.CascadeLSB(films(), K=K)
    with Recommender(policy, f"sqlite:///{tmp_path}/taste.db", learn_prior=True) as rec:
        seen = operations(monkeypatch, rec)
        learn_history(rec, path, name="before")
        rec.learn_prior()
        assert rec.learners["default"].policy.sigma != policy.sigma
        learn_history(rec, path, name="after")
        for before, after in zip(seen[:5], seen[5:], strict=True):
            assert (before.S == after.S).all()
            assert (before.B == after.B).all()
