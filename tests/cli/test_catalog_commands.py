"""``thali catalog``, and the tables it reads."""

import json

import numpy as np
import polars as pl
import pytest
from running import thali_here

import thali
from thali.catalog.file import catalog_digest
from thali.datasets.log import Log
from thali.datasets.tables import tables
from thali.datasets.weights import weights as weight_table
from thali.starting import load_catalog_file

CLICKS = "user,item\nana,Heat\nana,Fargo\nbob,Heat\nbob,Ronin\n"
STARS = "user,item,value\nana,Heat,5\nana,Fargo,5\nbob,Heat,5\nbob,Ronin,3\n"
FILMS = "item,topics\nHeat,crime\nFargo,crime|[red]comedy[/]\nRonin,crime\nSolaris,\n"
WEIGHTS = "item,topic,weight\n10,crime,0.5\n9,crime,1\n9,comedy,0.25\n"
LISTS = [
    '{"user": "ana", "items": ["Heat", "Fargo", "Ronin"], "clicked": [1]}',
    '{"user": "bob", "items": ["Ronin", "Heat"], "clicked": [1]}',
    '{"user": "cleo", "items": ["Gone", "Heat"], "clicked": []}',
    '{"user": "cleo", "items": ["Heat", "Gone"], "clicked": null}',
]
TABLES = {
    "clicks.csv": CLICKS,
    "stars.csv": STARS,
    "films.csv": FILMS,
    "others.csv": "item,topics\nAlien,horror\n",
    "weights.csv": WEIGHTS,
    "log.jsonl": "\n".join(LISTS),
}


@pytest.fixture
def folder(tmp_path):
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, *arguments):
    return thali_here("catalog", *arguments, cwd=folder)


def test_build_as_in_the_paper_then_info(folder):
    source = ("--items", "films.csv", "--interactions", "clicks.csv")
    done = run(folder, "build", "--paper", *source, "-o", "new/c.parquet")
    assert done.returncode == 0, done.stderr
    path = folder / "new" / "c.parquet"
    catalog = thali.load_catalog(path)
    assert list(catalog.items) == ["Fargo", "Heat", "Ronin", "Solaris"]
    assert list(catalog.topics) == ["[red]comedy[/]", "crime"]
    assert catalog.dense.tolist() == [[1.0, 0.5], [0.0, 1.0], [0.0, 0.5], [0.0, 0.0]]
    output = run(folder, "info", "new/c.parquet").stdout
    lines = [line.replace("│", " ").split() for line in output.splitlines()]
    for line in (
        ["items", "(L)", "4"],
        ["topics", "(d)", "2"],
        ["coverage", "probabilistic"],
        ["items", "with", "zero", "weights", "1"],
        ["prior", "none"],
        ["digest", catalog_digest(path)],
        ["[red]comedy[/]", "1", "1"],
        ["crime", "3", "1"],
    ):
        assert line in lines, output


def assert_same(path, start):
    """Assert that a file contains what thali.fit has returned, so that a policy shows the same lists."""
    found = load_catalog_file(path)
    assert list(found.catalog.items) == [str(name) for name in start.catalog.items]
    assert list(found.catalog.topics) == list(start.catalog.topics)
    assert np.array_equal(found.catalog.dense, start.catalog.dense)
    assert (found.prior, found.quality) == (start.prior, start.quality)
    assert (found.weight, found.people) == (start.weight, start.people)
    lists = []
    for policy in (start.policy(3), thali.CascadeLSB(found.catalog, 3, prior=found.prior)):
        state = policy.init(users=2)
        policy.update(state, [[0, 1, 2]] * 2, [[True, False, False], [False, False, True]])
        lists.append(policy.recommend(state))
    assert np.array_equal(*lists)


@pytest.fixture
def likes(tmp_path):
    """Tables of 40 people of two tastes and 20 items with numbers as names, and the same as a log."""
    rng, rows, lists = np.random.default_rng(0), [], []
    for user in range(40):
        liked = np.flatnonzero(rng.random(20) < np.where(np.arange(20) % 2 == user % 2, 0.6, 0.1))
        rows += [f"{user},{item},{rng.integers(1, 6)},{rng.integers(9)}" for item in liked]
        shown = rng.permutation(20)[:5].tolist()
        clicked = [k for k, item in enumerate(shown) if item in liked]
        lists.append(json.dumps({"user": user, "items": shown, "clicked": clicked}))
    (tmp_path / "likes.csv").write_text("\n".join(["user,item,value,time", *rows]))
    (tmp_path / "log.jsonl").write_text("\n".join(lists))
    (tmp_path / "items.csv").write_text(
        "\n".join(["item,topics", *(f"{e},{'odd' if e % 2 else 'even;all'}" for e in range(21))])
    )
    return tmp_path


def test_build_writes_what_fit_returns(likes):
    def built(*arguments):
        done = run(likes, "build", *arguments, "-o", "c", "--force")
        assert done.returncode == 0, done.stderr
        return likes / "c"

    data = tables(likes / "likes.csv")
    source = ("--interactions", "likes.csv")
    assert_same(built(*source), thali.fit(data))
    said = run(likes, "build", *source, "-o", "c", "--force").stderr
    assert said == (
        "Note: every row of likes.csv counts as something that the person liked, although the values differ. If they "
        "are ratings, use --at-least.\n"
    )
    assert_same(
        built(*source, "--at-least", "3", "--d", "3", "--no-quality", "--half-life", "2", "--seed", "5"),
        thali.fit(data.attracted(3), "learned", 3, quality=False, half_life=2.0, seed=5),
    )
    known = tables(likes / "likes.csv", likes / "items.csv", separator=";")
    separated = ["--items", "items.csv", "--separator", ";"]
    assert_same(built(*source, *separated), thali.fit(known, "both"))
    assert_same(built(*source, *separated, "--topics", "given"), thali.fit(known, "given"))
    assert_same(built("--log", "log.jsonl"), thali.fit(Log.read(likes / "log.jsonl")))
    log = Log.read(likes / "log.jsonl", likes / "items.csv", separator=";")
    assert_same(built("--log", "log.jsonl", *separated), thali.fit(log, "given"))


def test_build_with_like_keeps_the_topics_then_info(likes):
    run(likes, "build", "--interactions", "likes.csv", "--d", "3", "-o", "old")
    old = thali.load_catalog(likes / "old")
    with (likes / "likes.csv").open("a") as file:
        file.write("\n1,new,5,9\n3,new,5,9\n")
    done = run(likes, "build", "--interactions", "likes.csv", "--like", "old", "-o", "new")
    assert done.returncode == 0, done.stderr
    data = tables(likes / "likes.csv")
    assert_same(likes / "new", thali.fit(data, like=old))
    new = load_catalog_file(likes / "new")
    assert list(new.catalog.topics) == list(old.topics)
    assert set(new.catalog.items) == {*old.items, "new"}
    output = run(likes, "info", "new").stdout
    assert "prior                   from 40 people\n" in output
    assert f"weight of a like        {new.weight:.6g}\n" in output
    assert f"quality                 {len(data)} likes, 840 times seen (first-click)\n" in output


def test_a_catalog_without_quality_is_built_again_with_like(likes):
    run(likes, "build", "--interactions", "likes.csv", "--d", "3", "--no-quality", "-o", "old")
    old = thali.load_catalog(likes / "old")
    done = run(likes, "build", "--interactions", "likes.csv", "--like", "old", "-o", "new")
    assert done.returncode == 0, done.stderr
    assert_same(likes / "new", thali.fit(tables(likes / "likes.csv"), like=old, quality=False))
    assert list(load_catalog_file(likes / "new").catalog.topics) == list(old.topics)


def test_items_that_the_item_table_does_not_have_are_left_out_and_named(folder):
    fitted = thali.fit(tables(folder / "clicks.csv", folder / "films.csv"), "both")
    more = "".join(f"zoe,Gone {n}\nana,Gone {n}\n" for n in range(7))
    (folder / "clicks.csv").write_text(CLICKS + more)
    names = "'Gone 0', 'Gone 1', 'Gone 2', 'Gone 3', 'Gone 4' and 2 more"
    said = f"clicks.csv: 14 interactions with 7 items that films.csv does not have were left out: {names}\n"
    source = ("--interactions", "clicks.csv", "--items", "films.csv", "-o", "c", "--force")
    for way in ([], ["--paper"]):
        done = run(folder, "build", *source, *way)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(said + "clicks.csv: 4 interactions, 4 of them counted\n")
        assert list(thali.load_catalog(folder / "c").items) == ["Fargo", "Heat", "Ronin", "Solaris"]
        if not way:  # Zoe, who liked nothing else, does not count
            assert done.stderr.startswith("Note: nobody chose 'Solaris'. People will hardly see such items. If some")
            assert_same(folder / "c", fitted)
    done = run(folder, "build", "--log", "log.jsonl", "--items", "films.csv", "-o", "c", "--force")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "log.jsonl: 1 item that films.csv does not have was left out of the lists (1 position): 'Gone'\n"
        "log.jsonl: 3 lists, 2 clicks (1 list without known clicks left out)\n"
    )
    assert list(thali.load_catalog(folder / "c").items) == ["Fargo", "Heat", "Ronin", "Solaris"]


def test_a_repeated_row_is_found_after_rows_that_were_left_out(folder):
    (folder / "clicks.csv").write_text("user,item\nana,Gone\nana,Heat\nbob,Gone\nana,Heat\n")
    done = run(folder, "build", "--interactions", "clicks.csv", "--items", "films.csv", "-o", "c")
    assert "clicks.csv, line 5: user 'ana' and item 'Heat' appear twice" in done.stderr


def test_build_uses_its_options(folder):
    options = ["--at-least", "5", "--top-topics", "1", "--most-active-items", "2", "--coverage", "max"]
    done = run(folder, "build", "--items", "films.csv", "--interactions", "stars.csv", "-o", "c", *options)
    assert "stars.csv: 4 interactions, 3 of them counted\n" in done.stdout, done.stderr
    catalog = thali.load_catalog(folder / "c")
    assert (list(catalog.items), list(catalog.topics), catalog.coverage) == (["Fargo", "Heat"], ["crime"], "max")
    assert catalog.dense.tolist() == [[0.5], [1.0]]


def test_build_with_steady_topics_then_info(folder):
    for source in (("--weights", "weights.csv"), ("--interactions", "clicks.csv", "--items", "films.csv")):
        done = run(folder, "build", *source, "--steady", "crime", "-o", "c", "--force")
        assert done.returncode == 0, done.stderr
        catalog = thali.load_catalog(folder / "c")
        assert dict(zip(catalog.topics, catalog.fading.tolist(), strict=True))["crime"] is False
        assert catalog.fading.sum() == 1
        assert "steady topics           crime\n" in run(folder, "info", "c").stdout
        refused = run(folder, "build", *source, "--steady", "quality", "-o", "c", "--force")
        assert "steady must be among the topics" in refused.stderr
        assert "got 'quality'" in refused.stderr


def test_build_from_weights_in_csv_and_parquet_and_force(folder):
    (folder / "all.csv").write_text("item,note\n9,\n10,x\n8,y\n")
    pl.read_csv(folder / "weights.csv").write_parquet(folder / "weights.parquet")
    assert run(folder, "build", "--weights", "weights.parquet", "-o", "c").returncode == 0
    catalog = thali.load_catalog(folder / "c")
    assert (list(catalog.items), catalog.dense.tolist()) == (["9", "10"], [[0.25, 1.0], [0.0, 0.5]])
    again = ["build", "--weights", "weights.csv", "--items", "all.csv", "-o", "c"]
    refused = run(folder, *again)
    assert refused.returncode != 0
    assert "thali: out must be a new file, but c exists; use --force to overwrite it" in refused.stderr
    assert len(thali.load_catalog(folder / "c")) == 2
    assert run(folder, *again, "--force").returncode == 0
    catalog = thali.load_catalog(folder / "c")
    assert (list(catalog.items), catalog.dense.tolist()) == (["8", "9", "10"], [[0.0, 0.0], [0.25, 1.0], [0.0, 0.5]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "-o", "c"], "exactly one of --interactions, --log and --weights, got none of them"),
        (
            ["build", "--weights", "weights.csv", "--interactions", "clicks.csv", "-o", "c"],
            "got --interactions and --weights",
        ),
        (["build", "--log", "log.jsonl", "--interactions", "clicks.csv", "-o", "c"], "got --interactions and --log"),
        (["build", "--interactions", "clicks.csv", "--paper", "-o", "c"], "--interactions needs --items"),
        (["build", "--interactions", "clicks.csv", "--coverage", "max", "-o", "c"], "--interactions needs --items"),
        (
            ["build", "--interactions", "clicks.csv", "--steady", "x", "--no-quality", "-o", "c"],
            "--no-quality cannot be used with --steady",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--topics", "both", "-o", "c"],
            "--topics both needs items with topics",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--like", "x", "--d", "3", "-o", "c"],
            "--d cannot be used with --like, whose topics are kept, got '3'",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--like", "clicks.csv", "-o", "c"],
            "clicks.csv is not a Parquet file",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--half-life", "-1", "-o", "c"],
            "half_life of fit must be a number above 0, got -1.0",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--separator", ";", "-o", "c"],
            "--separator can only be used with --items, got ';'",
        ),
        (
            ["build", "--log", "log.jsonl", "--paper", "-o", "c"],
            "--paper can only be used with --interactions, got it with --log",
        ),
        (
            ["build", "--log", "log.jsonl", "--at-least", "1", "-o", "c"],
            "--at-least can only be used with --interactions, got it with --log",
        ),
        (
            ["build", "--weights", "weights.csv", "--seed", "0", "-o", "c"],
            "--seed can only be used with --interactions or --log, got it with --weights",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--items", "others.csv", "-o", "c"],
            "clicks.csv must contain an interaction with an item that others.csv has, got none",
        ),
        (
            ["build", "--log", "log.jsonl", "--items", "others.csv", "-o", "c"],
            "log.jsonl must contain a click on an item that others.csv has, got none",
        ),
        (
            ["build", "--weights", "weights.csv", "--at-least", "5", "-o", "c"],
            "--at-least can only be used with --interactions",
        ),
        (
            ["build", "--interactions", "clicks.csv", "--items", "films.csv", "--at-least", "2", "-o", "c"],
            "clicks.csv must contain an interaction with a value of at least 2, got none among 4",
        ),
        (["info", "clicks.csv"], "clicks.csv is not a Parquet file"),
    ],
)
def test_a_wrong_command_prints_one_sentence_and_writes_nothing(folder, arguments, message):
    done = run(folder, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("thali: ")
    assert message in done.stderr
    assert {file.name for file in folder.iterdir()} == set(TABLES)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.csv", WEIGHTS + "9,crime,1\n", "w.csv, line 5: item 9 and topic 'crime' appear twice"),
        ("w.csv", WEIGHTS + "9,drama,1.5\n", "w.csv, line 5: weight must be from 0 to 1, got 1.5"),
        ("w.csv", WEIGHTS + "9,drama,nan\n", "w.csv, line 5: weight must be a finite number, got 'nan'"),
        ("w.csv", WEIGHTS + "9,,1\n", "w.csv, line 5: topic must not be empty"),
        ("w.csv", "item,topic,weight\n", "w.csv must have at least one weight, got none"),
        ("w.csv", "item,topic\n9,crime\n", "w.csv must have a column 'weight'"),
        ("all.csv", "item\n9\n", "w.csv, line 2: item 10 is not in .*all.csv"),
        ("all.csv", "item\n9\n10\n9\n", "all.csv, line 4: item '9' appears twice"),
    ],
)
def test_errors_in_weights_name_file_and_line(tmp_path, name, text, message):
    for file, content in ({"w.csv": WEIGHTS, "all.csv": "item\n9\n10\n"} | {name: text}).items():
        (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        weight_table(tmp_path / "w.csv", tmp_path / "all.csv")
