"""``thali catalog``, and the tables it reads."""

import polars as pl
import pytest
from running import thali_here

import thali
from thali.catalog.file import catalog_digest
from thali.datasets.weights import weights as weight_table

CLICKS = "user,item\nana,Heat\nana,Fargo\nbob,Heat\nbob,Ronin\n"
STARS = "user,item,value\nana,Heat,5\nana,Fargo,5\nbob,Heat,5\nbob,Ronin,3\n"
FILMS = "item,topics\nHeat,crime\nFargo,crime|[red]comedy[/]\nRonin,crime\nSolaris,\n"
WEIGHTS = "item,topic,weight\n10,crime,0.5\n9,crime,1\n9,comedy,0.25\n"
TABLES = {"clicks.csv": CLICKS, "stars.csv": STARS, "films.csv": FILMS, "weights.csv": WEIGHTS}


@pytest.fixture
def folder(tmp_path):
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, *arguments):
    return thali_here("catalog", *arguments, cwd=folder)


def test_build_from_clicks_then_info(folder):
    done = run(folder, "build", "--items", "films.csv", "--interactions", "clicks.csv", "-o", "new/c.parquet")
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
        ["digest", catalog_digest(path)],
        ["[red]comedy[/]", "1", "1"],
        ["crime", "3", "1"],
    ):
        assert line in lines, output


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
        (["build", "-o", "c"], "exactly one of --interactions and --weights"),
        (["build", "--weights", "weights.csv", "--interactions", "clicks.csv", "-o", "c"], "exactly one of"),
        (["build", "--interactions", "clicks.csv", "-o", "c"], "--interactions needs --items"),
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
