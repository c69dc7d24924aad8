"""A catalog file with everything that thali.fit returned: saving and loading, older readers, files that are refused."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tastes import likes_of_groups

import thali
from thali.catalog.file import COLUMNS
from thali.catalog.file import KEY as CATALOG_KEY
from thali.datasets import Interactions, Log
from thali.starting import load_catalog_file
from thali.starting.file import KEY

GENRES = {f"{letter}{e}": [f"genre {letter}"] for letter in "abc" for e in range(8)}


def numbered():
    """Interactions whose users and items have numbers as names."""
    data = likes_of_groups()
    rows = zip(data.user.tolist(), (10 * data.item).tolist(), np.arange(len(data)).tolist(), strict=True)
    return Interactions.of([(user, item, 1.0, float(time)) for user, item, time in rows])


def a_log():
    data = likes_of_groups((12, 12), items=6)
    liked = data.matrix().toarray() > 0
    lists = [(u, np.random.default_rng(u).permutation(len(data.items))[:5].tolist()) for u in range(len(data.users))]
    rows = [(u, [data.items[e] for e in items], np.flatnonzero(liked[u, items]).tolist()) for u, items in lists]
    return Log.of(rows, examined="last-click")


STARTS = {
    "learned": lambda: thali.fit(likes_of_groups(), d=3),
    "both": lambda: thali.fit(likes_of_groups(topics=GENRES), "both"),
    "numbers": lambda: thali.fit(numbered(), half_life=7.0),
    "log": lambda: thali.fit(a_log(), quality=False),
}


@pytest.fixture(scope="module", params=STARTS)
def start(request):
    return STARTS[request.param]()


def lists_of(policy, rounds=4):
    """The first lists of some people, who click at random."""
    rng, state, shown = np.random.default_rng(0), policy.init(users=5), []
    for _ in range(rounds):
        shown.append(policy.recommend(state))
        policy.update(state, shown[-1], rng.random(shown[-1].shape) < 0.3)
    return np.array(shown)


def test_everything_is_loaded_bit_for_bit_and_gives_the_same_lists(tmp_path, start):
    path = tmp_path / "c.parquet"
    start.save(path)
    found = load_catalog_file(path)
    assert list(found.catalog.items) == list(map(str, start.catalog.items))
    assert list(found.catalog.topics) == list(map(str, start.catalog.topics))
    assert found.catalog.fading.tolist() == start.catalog.fading.tolist()
    assert found.catalog.dense.tobytes() == start.catalog.dense.tobytes()
    assert found.prior == start.prior
    assert found.prior.covariance.tobytes() == start.prior.covariance.tobytes()
    assert found.quality == start.quality
    assert found.quality.examined.tobytes() == start.quality.examined.tobytes()
    assert (found.weight, found.people) == (start.weight, start.people)
    policy = thali.CascadeLSB(found.catalog, 4, prior=found.prior)
    assert np.array_equal(lists_of(policy), lists_of(start.policy(4)))


def test_a_reader_that_knows_only_catalogs_finds_the_same_as_in_a_plain_file(tmp_path, start):
    start.save(tmp_path / "start.parquet")
    thali.save_catalog(start.catalog, tmp_path / "plain.parquet")
    files = [tmp_path / "start.parquet", tmp_path / "plain.parquet"]
    columns = [pl.read_parquet(file, columns=list(COLUMNS)) for file in files]
    assert columns[0].equals(columns[1])
    metadata = [pl.read_parquet_metadata(file) for file in files]
    assert metadata[0][CATALOG_KEY] == metadata[1][CATALOG_KEY]
    assert [pl.read_parquet_schema(file)["item"] for file in files] == [pl.String] * 2
    assert np.array_equal(*(thali.load_catalog(file).dense for file in files))
    assert load_catalog_file(files[1])[1:] == (None, None, None, None)


def test_removed_and_added_items_and_a_given_prior_of_the_quality(tmp_path):
    start = STARTS["learned"]()
    catalog, quality = start.catalog, start.quality
    gone = catalog.item("a1")
    catalog.remove("a1")
    catalog.put("new", [0.1] * catalog.d)
    fixed = thali.Quality.from_counts(quality.examined, quality.clicked, prior=(0.5, 2.5))
    replace(start, quality=fixed).save(tmp_path / "c")
    found = load_catalog_file(tmp_path / "c")
    kept = np.delete(np.arange(quality.L), gone)
    assert list(found.catalog.items) == [name for name in catalog.items if name != "a1"]
    assert found.quality.clicked.tolist() == [*quality.clicked[kept], 0.0]
    assert found.quality.examined.tolist() == [*quality.examined[kept], 0.0]
    assert found.quality.prior == (0.5, 2.5)


def test_a_start_whose_parts_do_not_fit_is_not_saved(tmp_path):
    start = STARTS["learned"]()
    d = start.catalog.d
    for wrong, said in (
        ({"quality": thali.Quality(start.catalog.L + 1)}, "quality of a start to save must have the items"),
        ({"prior": thali.Prior(0.0, np.eye(d + 1))}, "must have as many topics"),
        ({"prior": thali.Prior(0.0, np.eye(d), topics=range(d))}, "must have the topics of the catalog"),
        ({"weight": float("nan")}, "weight of a like must be a number above 0"),
        ({"people": -1}, "people must be a whole number"),
    ):
        with pytest.raises(ValueError, match=said):
            replace(start, **wrong).save(tmp_path / "c")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="columns of save_catalog must not be called .*, got 'item'"):
        thali.save_catalog(start.catalog, tmp_path / "c", columns={"item": np.zeros(start.catalog.L)})
    with pytest.raises(ValueError, match="metadata of save_catalog must not have the key 'thali'"):
        thali.save_catalog(start.catalog, tmp_path / "c", metadata={"thali": ""})
    with pytest.raises(ValueError, match=r"column 'x' of save_catalog must have shape \(L,\)"):
        thali.save_catalog(start.catalog, tmp_path / "c", columns={"x": [1.0]})


def about(**changes):
    """Return a change of the JSON in the metadata. None removes a field."""

    def change(frame, metadata):
        content = json.loads(metadata[KEY]) | changes
        text = json.dumps({name: value for name, value in content.items() if value is not None})
        return frame, metadata | {KEY: text}

    return change


def prior(**changes):
    def change(frame, metadata):
        content = json.loads(metadata[KEY])
        content["prior"] = {n: v for n, v in (content["prior"] | changes).items() if v != "remove"}
        return frame, metadata | {KEY: json.dumps(content)}

    return change


def column(name, value, row=1):
    def change(frame, metadata):
        return frame.with_columns(pl.when(pl.row_index() == row).then(value).otherwise(name).alias(name)), metadata

    return change


HOSTILE = [
    (lambda frame, metadata: (frame.drop("clicked"), metadata), "must have a column 'clicked'"),
    (lambda frame, metadata: (frame.with_columns(examined=pl.lit("5")), metadata), "examined must be a column of num"),
    (lambda frame, metadata: (frame, metadata | {KEY: "{"}), "must be valid JSON"),
    (lambda frame, metadata: (frame, metadata | {KEY: "[" * 100_000}), "must be valid JSON"),
    (lambda frame, metadata: (frame, metadata | {KEY: "[]"}), "must have the format 'thali-start-1'"),
    (lambda frame, metadata: (frame, {KEY: metadata[KEY]}), "the metadata 'thali', which describes"),
    (about(format="thali-start-2"), "must have the format 'thali-start-1'"),
    (about(weight=None), "must have the field 'weight'"),
    (about(weight=0.0), "weight of a like must be a number above 0"),
    (about(weight=10**400), "weight of a like must be a number above 0"),
    (about(weight="1"), "weight of a like must be a number above 0"),
    (about(people=2.5), "people must be a whole number"),
    (about(people=-1), "people must be a whole number"),
    (about(rule="none"), "rule of Quality must be"),
    (about(rule=[]), "rule of Quality must be"),
    (about(beta=[1.0]), "prior of Quality must be two numbers"),
    (about(prior=[]), "prior in the metadata 'thali-start' is not valid: format must be 'thali-prior-1'"),
    (prior(mean="remove"), "not valid: 'mean' is missing"),
    (prior(mean=[float("nan")] * 4), "mean of Prior must be finite"),
    (prior(mean=[10**400] * 4), "mean of Prior must be"),
    (prior(covariance=[[1.0], [1.0, 2.0]]), "covariance of Prior must be"),
    (prior(covariance={}), "covariance of Prior must be"),
    (prior(sigma=-1.0), "sigma of Prior must be"),
    (prior(topics=["a", "b", "c", "quality"]), "must have the topics of the catalog"),
    (prior(mean=[0.0], covariance=[[1.0]], topics=["quality"]), "must have as many topics as the catalog"),
    (column("clicked", -1.0), "clicked of Quality must be from 0"),
    (column("clicked", 1e6), "clicked of Quality must be from 0 to the number of examinations, got 1e+06"),
    (column("clicked", float("nan")), "clicked must be finite, got nan"),
    (column("clicked", None), "clicked must be finite, got nan"),
    (column("examined", float("inf")), "examined must be finite"),
]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "c.parquet"
    STARTS["learned"]().save(path)
    return pl.read_parquet(path), {key: pl.read_parquet_metadata(path)[key] for key in (KEY, CATALOG_KEY)}


@pytest.mark.parametrize(("change", "said"), HOSTILE, ids=[said for _, said in HOSTILE])
def test_a_damaged_file_is_refused_with_its_name_and_the_reason(tmp_path, fitted, change, said):
    frame, metadata = change(*fitted)
    path = tmp_path / "bad.parquet"
    frame.write_parquet(path, metadata=metadata)
    begin = f"{path} must be a complete file written by start.save: "
    with pytest.raises(ValueError, match=f"^{re.escape(begin)}.*{re.escape(said)}"):
        load_catalog_file(path)
    thali.load_catalog(path)  # the catalog itself is not damaged
