"""A catalog as a file: saving and loading, files from other tools, and files that are refused."""

import hashlib
import json
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import thali
from thali.catalog.file import FORMAT, KEY, catalog_digest
from thali.tools import checks

HOSTILE = ["a/b", "../x", "Ünïcode", "\"'`", "[red]x[/]", "null", " ", "NaN", "5", "a,b|c", "😀", "\u202e", "x" * 256]
NAMES = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@st.composite
def catalogs(draw):
    items = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    topics = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    weight = st.sampled_from([0.0, 1.0, 0.1, 5e-324, 1 - 2**-53]) | st.floats(0, 1)
    row = st.lists(weight, min_size=len(topics), max_size=len(topics))
    rows = draw(st.lists(row, min_size=len(items), max_size=len(items)))
    return thali.Catalog(rows, items, topics, draw(st.sampled_from(["probabilistic", "max"])))


@given(catalogs(), st.data())
def test_a_saved_catalog_is_loaded_bit_for_bit(tmp_path_factory, catalog, data):
    path = tmp_path_factory.mktemp("catalog") / "c.parquet"
    kept = list(catalog.items)
    for name in data.draw(st.lists(st.sampled_from(kept), max_size=len(kept) - 1, unique=True)):
        catalog.remove(name)
        kept.remove(name)
    thali.save_catalog(catalog, path)
    loaded = thali.load_catalog(path)
    assert list(loaded.items) == kept
    assert list(loaded.topics) == list(catalog.topics)
    assert loaded.coverage == catalog.coverage
    assert loaded.dense.tobytes() == catalog.dense[catalog.present].tobytes()
    assert catalog_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_item_removed_and_added_again_is_saved_once_with_its_new_weights(tmp_path):
    catalog = thali.Catalog([[0.1], [0.2]], items=["a", "b"])
    catalog.remove("a")
    catalog.put("a", [0.3])
    thali.save_catalog(catalog, tmp_path / "c")
    loaded = thali.load_catalog(tmp_path / "c")
    assert (list(loaded.items), loaded.dense.tolist()) == (["b", "a"], [[0.2], [0.3]])


def test_names_are_loaded_as_text(tmp_path):
    catalog = thali.Catalog(np.eye(2), items=np.array([5, 7]), topics=[np.str_("x"), 0.5])
    thali.save_catalog(catalog, tmp_path / "c.parquet")
    loaded = thali.load_catalog(tmp_path / "c.parquet")
    assert (list(loaded.items), list(loaded.topics)) == (["5", "7"], ["x", "0.5"])


class Own:
    def coverage(self, items, weights):
        return weights.max(axis=0, initial=0.0)


def emptied():
    catalog = thali.Catalog([[1.0]])
    catalog.remove(0)
    return catalog


@pytest.mark.parametrize(
    ("catalog", "error", "message"),
    [
        (
            thali.Catalog(np.eye(2), items=[5, "5"]),
            ValueError,
            "items to save must stay distinct when converted to text, got 5 and '5'",
        ),
        (
            thali.Catalog(np.eye(2), topics=["1", 1]),
            ValueError,
            "topics to save must stay distinct when converted to text, got '1' and 1",
        ),
        (thali.Catalog([[1.0]], items=[("a", 1)]), TypeError, "items to save must be text of 1 to 256"),
        (thali.Catalog([[1.0]], topics=["x" * 257]), ValueError, "topics to save must be text of 1 to 256"),
        (
            thali.Catalog([[1.0]], coverage=Own()),
            ValueError,
            "must be 'probabilistic' or 'max', .* cannot be saved, got <.*Own",
        ),
        (emptied(), ValueError, "at least one item that has not been removed"),
        ([[1.0]], TypeError, "catalog of save_catalog must be a thali.Catalog"),
    ],
)
def test_a_catalog_that_cannot_be_saved_is_refused_and_the_existing_file_stays(tmp_path, catalog, error, message):
    path = tmp_path / "c.parquet"
    path.write_bytes(b"before")
    with pytest.raises(error, match=message):
        thali.save_catalog(catalog, path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


def test_a_full_disk_leaves_the_existing_file_and_nothing_else(tmp_path):
    path = tmp_path / "c.parquet"
    thali.save_catalog(thali.Catalog([[1.0]], items=["before"]), path)
    code = f"""
import resource, numpy, thali
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
thali.save_catalog(thali.Catalog(numpy.random.default_rng(0).random((5000, 2))), {str(path)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "OSError: [Errno 27]" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
    assert list(thali.load_catalog(path).items) == ["before"]


# Files from other tools

GOOD = {"item": ["b", "a", "c"], "topics": [["y", "x"], ["x"], []], "weights": [[0.5, 1.0], [0.25], []]}


def write_file(tmp_path, frame, metadata=None):
    path = tmp_path / "c.parquet"
    frame = pl.DataFrame(frame, strict=False) if isinstance(frame, dict) else frame
    frame.write_parquet(path, metadata=None if metadata is None else {KEY: metadata})
    return path


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"topics": pl.List(pl.Categorical), "weights": pl.List(pl.Float32)},
        {"item": pl.Enum(["a", "b", "c"])},
    ],
)
def test_a_file_without_our_metadata_has_topics_sorted_by_name(tmp_path, change):
    catalog = thali.load_catalog(write_file(tmp_path, pl.DataFrame(GOOD).with_columns(more=1).cast(change)))
    assert (list(catalog.items), list(catalog.topics)) == (["b", "a", "c"], ["x", "y"])
    assert catalog.coverage == "probabilistic"
    assert catalog.dense.tolist() == [[1.0, 0.5], [0.25, 0.0], [0.0, 0.0]]


def test_whole_numbers_become_names_and_a_catalog_may_have_no_weights(tmp_path):
    metadata = json.dumps({"format": FORMAT, "topics": ["z"], "coverage": "max"})
    catalog = thali.load_catalog(write_file(tmp_path, {"item": [7], "topics": [[]], "weights": [[]]}, metadata))
    assert (list(catalog.items), list(catalog.topics), catalog.coverage) == (["7"], ["z"], "max")
    assert catalog.dense.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item": ["b", None, "c"]}, "row 2: item must be text of 1 to 256 characters.*, got None"),
        ({"item": ["b", "", "c"]}, "row 2: item must be text of 1 to 256 characters.*, got ''"),
        ({"item": ["b", "a\n", "c"]}, r"row 2: item must be text.* without control characters.*, got 'a\\n'"),
        ({"item": ["b", "a", "b"]}, "row 3: item 'b' appears twice"),
        ({"item": [0.5, 1.5, 2.5]}, "item must be a column of text or of whole numbers, got Float64"),
        ({"topics": [["y", "x"], None, []]}, "row 2: topics and weights must be lists of the same length, got None"),
        ({"topics": [["y", "x"], [None], []]}, "row 2: a topic must not be empty, got None"),
        ({"topics": [["y", "x"], [""], []]}, "row 2: a topic must be text of 1 to 256 characters"),
        ({"topics": [["y", "y"], ["x", "x"], []], "weights": [[0, 1], [1, 0], []]}, "row 1: topic 'y' appears twice"),
        (
            {"topics": [["y", "x"], ["x"], ["x"]]},
            "row 3: topics and weights must be lists of the same length, got",
        ),
        ({"topics": ["x|y", "x", ""]}, "topics must be a column of lists of text, got String"),
        ({"topics": [[1, 2], [1], []]}, "topics must be a column of lists of text, got List"),
        ({"weights": [[0.5, 1.0], [1.5], []]}, "row 2: a weight must be a number from 0 to 1, got 1.5"),
        ({"weights": [[0.5, -0.1], [1.0], []]}, "row 1: a weight must be a number from 0 to 1, got -0.1"),
        ({"weights": [[0.5, 1.0], [float("nan")], []]}, "row 2: a weight must be a number from 0 to 1, got nan"),
        ({"weights": [[0.5, 1.0], [None], []]}, "row 2: a weight must be a number from 0 to 1, got None"),
        ({"weights": [["1", "1"], ["1"], []]}, "weights must be a column of lists of numbers"),
        ({"item": [], "topics": [], "weights": []}, "must have at least one row, got none"),
        ({"topics": [[], [], []], "weights": [[], [], []]}, "must have at least one topic, got none"),
    ],
)
def test_a_bad_row_is_refused_and_the_message_names_file_row_and_rule(tmp_path, change, message):
    path = write_file(tmp_path, GOOD | change)
    with pytest.raises(ValueError, match=f"c.parquet.*{message}"):
        thali.load_catalog(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"topics": ["x"]}, "row 1: topic 'y' is not in the list of topics in the file's metadata"),
        ({"topics": ["x", "y", "x"]}, "topics must be unique"),
        ({"topics": ["x", 5]}, "a topic must be text"),
        ({"topics": "xy"}, "topics must be a sequence"),
        ({"coverage": "mean"}, "coverage must be one of 'probabilistic', 'max', got 'mean'"),
        ({"format": "thali-catalog-9"}, "format must be 'thali-catalog-1'"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(tmp_path, metadata, message):
    whole = {"format": FORMAT, "topics": ["y", "x", "z"], "coverage": "max"}
    assert list(thali.load_catalog(write_file(tmp_path, GOOD, json.dumps(whole))).topics) == ["y", "x", "z"]
    with pytest.raises(ValueError, match=f"c.parquet.*{message}"):
        thali.load_catalog(write_file(tmp_path, GOOD, json.dumps(whole | metadata)))
    with pytest.raises(ValueError, match="c.parquet: the metadata 'thali' must be as written by save_catalog"):
        thali.load_catalog(write_file(tmp_path, GOOD, "no json"))


def test_an_incomplete_or_missing_file_is_refused(tmp_path):
    whole = write_file(tmp_path, GOOD).read_bytes()
    part = tmp_path / "part.parquet"
    for size in (0, 4, len(whole) // 2, len(whole) - 1):
        part.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="part.parquet is not a Parquet file"):
            thali.load_catalog(part)
    for name in GOOD:
        with pytest.raises(ValueError, match=f"c.parquet must have a column '{name}'"):
            thali.load_catalog(write_file(tmp_path, pl.DataFrame(GOOD).drop(name)))
    with pytest.raises(ValueError, match="must be a file, got a folder"):
        thali.load_catalog(tmp_path)
    with pytest.raises(FileNotFoundError, match="none.parquet does not exist"):
        thali.load_catalog(tmp_path / "none.parquet")


def test_text_names():
    assert [checks.text_name("user", name) for name in HOSTILE] == HOSTILE
    assert checks.text_name("user", "abc", longest=3) == "abc"
    for bad in ("", "x" * 257, "a\0b", "\x1b[31m", "tab\t", "\x85", "\x7f", "\ud800"):
        with pytest.raises(ValueError, match="user must be text of 1 to 256 characters, without control characters"):
            checks.text_name("user", bad)
    for bad in (5, None, b"a"):
        with pytest.raises(TypeError, match="user must be text of 1 to 256 characters"):
            checks.text_name("user", bad)


@pytest.mark.slow
def test_a_million_items_are_saved_and_loaded_in_seconds(tmp_path):
    """Saving and loading take about 2 s each on our machine. The limits leave room for a slower one."""
    L, d = 1_000_000, 40
    rng = np.random.default_rng(0)
    topics = (rng.integers(d, size=(L, 1)) + np.array([0, 7, 19])) % d
    weights = sp.csr_array((rng.random(3 * L), topics.ravel(), np.arange(0, 3 * L + 1, 3)), shape=(L, d))
    catalog = thali.Catalog(weights, items=[f"item-{e}" for e in range(L)])
    start = time.perf_counter()
    thali.save_catalog(catalog, tmp_path / "c.parquet")
    saved = time.perf_counter()
    loaded = thali.load_catalog(tmp_path / "c.parquet")
    assert saved - start < 15.0
    assert time.perf_counter() - saved < 15.0
    assert loaded.items == catalog.items
    assert loaded.csr.data.tobytes() == catalog.csr.data.tobytes()
