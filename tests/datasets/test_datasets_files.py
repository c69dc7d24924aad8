"""Loaders on small files written here, downloads from a local server, and the real data if it is available."""

import hashlib
import io
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thali.datasets import (
    Interactions,
    hetrec_lastfm,
    movielens,
    movielens_1m,
    movielens_titles,
    tables,
    taste_profile,
    yelp,
    yelp_core40,
    yelp_hin,
)
from thali.datasets import fetch as fetching
from thali.datasets.songs import GENRES, SPELLINGS

DATA = Path(os.environ.get("THALI_DATA") or Path(__file__).parents[3] / "shared" / "data")


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def change(files, name, text):
    """Return the files with the text of one of them replaced, or without this file if text is None."""
    return {key: value for key, value in {**files, name: text}.items() if value is not None}


def contents(data):
    """Return the rows and the topics of items, by name."""
    rows = {
        (data.users[user], data.items[item]): float(value)
        for user, item, value in zip(data.user, data.item, data.value, strict=True)
    }
    assert len(rows) == len(data)
    return rows, {item: data.topics_of(item) for item in data.items}


def refuses(load, *parts, error=ValueError):
    with pytest.raises(error) as caught:
        load()
    for part in parts:
        assert part in str(caught.value)


# MovieLens

OLD = {
    "u.data": "7\t2\t5\t881250949\n1\t1\t3\t881250949\n7\t1\t1\t881250950\n",
    "u.item": "1|Toy Story (1995)|01-Jan-1995||http://x|0|1|1\n2|Amélie|||http://y|1|0|0\n".encode("latin-1"),
    "u.genre": "unknown|0\nAction|1\nComedy|2\n\n",
}
DAT = {
    "ratings.dat": "7::2::5::978300760\n1::1::3::978300760\n7::1::1::978300761\n",
    "movies.dat": "1::Toy Story (1995)::Action|Comedy\n2::Amélie: a::(no genres listed)\n".encode("latin-1"),
}
CSV = {
    "ratings.csv": "userId,movieId,rating,timestamp\n7,2,5.0,1\n1,1,3.0,1\n7,1,1.0,2\n",
    "movies.csv": 'movieId,title,genres\n1,"Toy Story, The ""first""",Action|Comedy\n2,Amélie,(no genres listed)\n',
}
FILMS = ({(7, 2): 5.0, (1, 1): 3.0, (7, 1): 1.0}, {1: ("Action", "Comedy"), 2: ()})


@pytest.mark.parametrize(
    ("files", "time"),
    [
        (OLD, [881250949, 881250949, 881250950]),
        (DAT, [978300760, 978300760, 978300761]),
        (change(DAT, "ratings.dat", "7::2::5\r\n1::1::3\r\n7::1::1\r\n"), None),
        (change(DAT, "movies.dat", DAT["movies.dat"].decode("latin-1")), [978300760, 978300760, 978300761]),
        (CSV, [1, 1, 2]),
        (change(CSV, "ratings.csv", CSV["ratings.csv"].replace("\n1,", "\n\n1,")), [1, 1, 2]),
        (change(CSV, "ratings.csv", "userId,movieId,rating\n7,2,5.0\n1,1,3.0\n7,1,1.0\n"), None),
    ],
    ids=["u.data", "dat", "dat without time", "dat in UTF-8", "csv", "csv with an empty line", "csv without time"],
)
def test_movielens_reads_each_of_its_formats(tmp_path, files, time):
    folder = write(tmp_path, files)
    data = movielens(folder)
    assert contents(data) == FILMS
    assert time == (None if data.time is None else data.time.tolist())
    titles = movielens_titles(folder)
    assert titles[1] in ("Toy Story (1995)", 'Toy Story, The "first"')
    assert (titles[2][:6], len(titles)) == ("Amélie", 2)


@pytest.mark.parametrize(
    ("files", "name", "text", "parts"),
    [
        (
            OLD,
            "u.data",
            "7\t2\t5\t1\n1\tx\t3\t1\n7\t1\t1\t1\n",
            ["u.data, line 2", "item must be a whole number", "'x'"],
        ),
        (OLD, "u.data", "7\t2\t5\t1\n\n1\t1\t9\t1\n", ["u.data, line 3", "value must be from 0.5 to 5, got 9"]),
        (OLD, "u.data", "7\t2\t5\t1\n7\t2\t5\t1\n", ["u.data, line 2", "user 7 and item 2 appear twice"]),
        (OLD, "u.data", "7\t2\n1\t1\n", ["u.data, line 1", "must have"]),
        (OLD, "u.data", "7\t2\t5\t1\n1\t1\t1_0\t1\n", ["u.data, line 2", "value", "'1_0'"]),
        (OLD, "u.data", "7\t2\t5\t1\n99999999999999999999\t1\t3\t1\n", ["u.data, line 2", "user must be a whole"]),
        (OLD, "u.item", "1|Toy|0|1|2\n", ["u.item, line 1", "3 flags"]),
        (OLD, "u.item", "1|Toy|d|0|1|0\n1|Toy|d|0|1|0\n", ["u.item, line 2", "film 1 appears twice"]),
        (OLD, "u.genre", "", ["u.genre is empty"]),
        (DAT, "ratings.dat", "7::2::5::1\n1::1::3::x\n", ["ratings.dat, line 2", "time must be a finite", "'x'"]),
        (DAT, "ratings.dat", "7::2::5::1\n1::1::nan::1\n", ["ratings.dat, line 2", "finite number", "'nan'"]),
        (DAT, "ratings.dat", "7::2::5::1\n1::1\n7::1::1::1\n", ["ratings.dat, line 2", "fields", "'1::1'"]),
        (DAT, "ratings.dat", "7::2::5::1\n1::::3::1\n", ["ratings.dat, line 2", "item must be a whole number"]),
        (DAT, "ratings.dat", "7::2::5\n1::1::3::1\n", ["ratings.dat, line 2", "3 fields"]),
        (CSV, "ratings.csv", "userId,movieId,rating,t\n7,2,5,1,1\n7,9,1,1\n", ["ratings.csv, line 3", "9 is not in"]),
        (DAT, "movies.dat", "1::Toy::Action\n2::A::mélie::Drama\n", ["movies.dat, line 2", "3 fields"]),
        (DAT, "ratings.dat", "7::2::5::1\n1:1:1:1:3:1:1\n", ["ratings.dat, line 2", "fields"]),
        (DAT, "ratings.dat", "7::2::5::1\n1::3::3::1\n", ["ratings.dat, line 2", "3 is not in", "movies.dat"]),
        (DAT, "ratings.dat", "", ["ratings.dat"]),
        (DAT, "movies.dat", "1::Toy::Action\n2::Amélie\n", ["movies.dat, line 2", "3 fields"]),
        (DAT, "movies.dat", "1::Toy::Action\nx::Amélie::Drama\n", ["movies.dat, line 2", "'x'"]),
        (DAT, "movies.dat", "", ["movies.dat is empty"]),
        (CSV, "ratings.csv", "userId,movieId,stars\n7,2,5\n", ["ratings.csv", "column 'rating'"]),
        (CSV, "ratings.csv", "userId,movieId,rating\n7,2,5\n1,1,\n", ["ratings.csv, line 3", "rating", "''"]),
        (CSV, "ratings.csv", "userId,movieId,rating\n7,2,5\n1,1,3,4\n", ["ratings.csv, line 3", "3 fields"]),
        (CSV, "ratings.csv", "", ["ratings.csv"]),
        (CSV, "movies.csv", "movieId,title,genres\n1,Toy,A\n1,Toy,A\n", ["movies.csv, line 3", "film 1 appears twice"]),
        (CSV, "movies.csv", b"movieId,title,genres\n1,Toy,A\n2,Am\xe9lie,A\n", ["movies.csv, line 3", "utf-8"]),
        (CSV, "movies.csv", 'movieId,title,genres\n1,"Toy,A\n' + "2,b,c\n" * 40000, ["movies.csv, line"]),
    ],
)
def test_movielens_errors_name_the_file_and_the_line(tmp_path, files, name, text, parts):
    folder = write(tmp_path, change(files, name, text))
    refuses(lambda: movielens(folder), str(tmp_path), *parts)


@pytest.mark.parametrize(
    ("files", "name"), [(OLD, "u.data"), (OLD, "u.item"), (OLD, "u.genre"), (DAT, "movies.dat"), (CSV, "movies.csv")]
)
def test_the_error_names_the_missing_file(tmp_path, files, name):
    folder = write(tmp_path, change(files, name, None))
    refuses(lambda: movielens(folder), name, error=FileNotFoundError)


# Tables

ROWS, ITEMS = "user,item,value,when\nbo,9,4,x\nal,10,2.5,y\n", 'item,topics\n10,"a|b, c"\n9,\n8, a \n'
ROW_FRAME = pl.DataFrame({"user": ["bo", "al"], "item": [9, 10], "value": [4.0, 2.5]})
ITEM_FRAME = pl.DataFrame({"item": [10, 9, 8], "topics": [["a", "b, c"], None, ["a"]]})
TABLES = ({("bo", 9): 4.0, ("al", 10): 2.5}, {8: ("a",), 9: (), 10: ("a", "b, c")})


def parquet(frame):
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def load_tables(tmp_path, rows, items, **settings):
    names = ["rows.csv" if isinstance(rows, str) else "rows.parquet"]
    names.append("items.csv" if isinstance(items, str) else "items.parquet")
    write(tmp_path, {n: t if isinstance(t, str) else parquet(t) for n, t in zip(names, (rows, items), strict=True)})
    return tables(tmp_path / names[0], str(tmp_path / names[1]), **settings)


@pytest.mark.parametrize(
    ("rows", "items"),
    [
        (ROWS, ITEMS),
        ("\ufeff" + ROWS.replace("\n", "\r\n"), "\ufeff" + ITEMS),
        (ROW_FRAME, ITEM_FRAME),
        (ROW_FRAME, ITEM_FRAME.with_columns(pl.col("topics").list.join("|"))),
        (ROWS, ITEM_FRAME.with_columns(pl.col("item").cast(pl.String))),
    ],
    ids=["csv", "csv of Excel", "parquet with lists", "parquet with joined topics", "both kinds"],
)
def test_csv_and_parquet_tables_give_the_same_data(tmp_path, rows, items):
    data = load_tables(tmp_path, rows, items)
    assert contents(data) == TABLES
    assert data.users == ("al", "bo")
    assert data.items == (8, 9, 10)  # numbers, so 9 comes before 10


def test_only_your_own_tables_name_the_setting_for_repeated_pairs(tmp_path):
    for name, content in (OLD | {"u.data": "7\t2\t5\t1\n7\t2\t5\t1\n"}).items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match="user 7 and item 2 appear twice$"):
        movielens(tmp_path)


def test_all_items_are_text_if_one_of_them_is(tmp_path):
    assert load_tables(tmp_path, ROWS, ITEMS + "07,a\n").items == ("07", "10", "8", "9")


def test_a_repeated_pair_is_an_error_or_the_last_or_the_sum(tmp_path):
    rows = "user,item,value\n1,9,4\n2,9,1\n1,9,3\n2,9,1\n"
    choice = "(to allow this, set duplicates to 'last' or 'sum')"
    refuses(lambda: load_tables(tmp_path, rows, ITEMS), "rows.csv, line 4", f"user 1 and item 9 appear twice {choice}")
    assert contents(load_tables(tmp_path, rows, ITEMS, duplicates="last"))[0] == {(1, 9): 3.0, (2, 9): 1.0}
    assert contents(load_tables(tmp_path, rows, ITEMS, duplicates="sum"))[0] == {(1, 9): 7.0, (2, 9): 2.0}
    refuses(lambda: load_tables(tmp_path, rows, ITEMS, duplicates="first"), "duplicates of tables", "'first'")


@pytest.mark.parametrize("rows", ["time,user,item\n7,a,9\n8,b,9\n9,a,9\n", pl.DataFrame({"user": [*"aba"], "item": 9})])
def test_rows_without_a_value_count_one_each(tmp_path, rows):
    refuses(lambda: load_tables(tmp_path, rows, ITEMS), "user 'a' and item 9 appear twice")
    assert contents(load_tables(tmp_path, rows, ITEMS, duplicates="last"))[0] == {("a", 9): 1.0, ("b", 9): 1.0}
    assert contents(load_tables(tmp_path, rows, ITEMS, duplicates="sum"))[0] == {("a", 9): 2.0, ("b", 9): 1.0}


TIMED = "time,item,user,value\n8,9,a,1\n3.5,9,b,2\n7,9,a,5\n-1,8,a,1\n"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_time_becomes_the_time_of_each_row(tmp_path, kind):
    rows = TIMED if kind == "csv" else pl.read_csv(io.StringIO(TIMED))

    def times(**settings):
        data = load_tables(tmp_path, rows, ITEMS, **settings)
        pairs = zip(data.user, data.item, data.time, strict=True)
        return contents(data)[0], {(data.users[u], data.items[i]): float(time) for u, i, time in pairs}

    others = {("b", 9): 3.5, ("a", 8): -1.0}
    assert times(duplicates="last") == ({("a", 9): 5.0, ("b", 9): 2.0, ("a", 8): 1.0}, {("a", 9): 7.0, **others})
    assert times(duplicates="sum") == ({("a", 9): 6.0, ("b", 9): 2.0, ("a", 8): 1.0}, {("a", 9): 8.0, **others})
    refuses(times, "user 'a' and item 9 appear twice")
    once = "user,item,time\na,9,4\n" if kind == "csv" else pl.DataFrame({"user": ["a"], "item": [9], "time": [4]})
    data = load_tables(tmp_path, once, ITEMS)
    assert (data.value.tolist(), data.time.tolist()) == ([1.0], [4.0])
    assert load_tables(tmp_path, ROWS, ITEMS).time is None


@pytest.mark.parametrize("items", [("9", "10", "8"), ("9", "07", "8")])
def test_a_table_of_items_is_not_needed(tmp_path, items):
    rows = "user,item,value\n" + "".join(f"{u},{i},{n}\n" for n, i in enumerate(items) for u in ("bo", "al"))
    write(tmp_path, {"rows.csv": rows, "items.csv": "item,topics\n" + "".join(f"{i},\n" for i in items)})
    alone = tables(tmp_path / "rows.csv")
    assert contents(alone) == contents(tables(tmp_path / "rows.csv", tmp_path / "items.csv"))
    assert alone.items == ((8, 9, 10) if "10" in items else ("07", "8", "9"))
    assert (alone.users, alone.topics) == (("al", "bo"), ())


@pytest.mark.parametrize(
    ("rows", "items", "parts"),
    [
        ("user,item,time\na,9,1\nb,9,noon\n", ITEMS, ["rows.csv, line 3", "time must be a finite number", "'noon'"]),
        (
            ROW_FRAME.with_columns(time=pl.Series([1.0, np.inf])),
            ITEMS,
            ["rows.parquet, row 2", "time must be a finite"],
        ),
        (
            ROW_FRAME.with_columns(time=pl.Series(["x", "y"])),
            ITEMS,
            ["rows.parquet", "time must be a column of numbers"],
        ),
        ("user,item,value\na,9,1\nb,9,x\nc,9,1\n", ITEMS, ["rows.csv, line 3", "value must be a finite number", "'x'"]),
        ("user,item,value\na,9,1\nb,9,NaN\n", ITEMS, ["rows.csv, line 3", "'NaN'"]),
        ("user,item,value\na,9,1\nb,9,1e400\n", ITEMS, ["rows.csv, line 3", "'1e400'"]),
        ("user,item,value\na,9,1\n,9,1\n", ITEMS, ["rows.csv, line 3", "user must not be empty"]),
        ('user,item,value\na,9,1\n"",9,1\n', ITEMS, ["rows.csv, line 3", "user must not be empty"]),
        ("user,item,value\na,9,1\nb,9\n", ITEMS, ["rows.csv, line 3", "3 fields"]),
        ("user,item,value\na,9,1\nb,9,1,1\n", ITEMS, ["rows.csv, line 3", "3 fields"]),
        ('user,item,value\n"a\nb",9,1\nb,7,1\n', ITEMS, ["rows.csv, line 4", "item 7 is not in", "items.csv"]),
        ("user,thing,value\na,9,1\n", ITEMS, ["rows.csv", "column 'item'"]),
        ("", ITEMS, ["rows.csv"]),
        (ROWS, "", ["items.csv is empty"]),
        (ROWS, "item,topic\n9,a\n", ["items.csv", "column 'topics'"]),
        (ROWS, ITEMS + "9,b\n", ["items.csv, line 5", "item '9' appears twice"]),
        (ROWS, ITEMS + ",b\n", ["items.csv, line 5", "item must not be empty"]),
        (ROW_FRAME.with_columns(value=pl.Series([1.0, None])), ITEMS, ["rows.parquet, row 2", "finite"]),
        (ROW_FRAME.with_columns(user=pl.Series(["a", ""])), ITEMS, ["rows.parquet, row 2", "not be empty"]),
        (ROW_FRAME.with_columns(item=pl.Series([9, 7])), ITEMS, ["rows.parquet, row 2: item 7 is not in"]),
        (pl.concat([ROW_FRAME, ROW_FRAME]), ITEMS, ["rows.parquet, row 3: user", "appear twice (to allow this"]),
        (ROWS, pl.DataFrame({"item": [9, 9], "topics": "a"}), ["items.parquet, row 2: item '9' appears twice"]),
        (ROWS, pl.DataFrame({"item": ["9", ""], "topics": "a"}), ["items.parquet, row 2: item must not be empty"]),
        (ROW_FRAME.with_columns(value=pl.Series(["1", "2"])), ITEMS, ["rows.parquet", "column of numbers"]),
        (ROW_FRAME.drop("user"), ITEMS, ["rows.parquet", "column 'user'"]),
        (ROW_FRAME, ITEM_FRAME.with_columns(topics=pl.Series([1, 2, 3])), ["items.parquet", "text or of lists"]),
        (ROW_FRAME, ITEM_FRAME.with_columns(topics=pl.Series([["a"], ["b", None], []])), ["items.parquet, row 2"]),
    ],
)
def test_tables_name_file_and_line_of_what_is_wrong(tmp_path, rows, items, parts):
    refuses(lambda: load_tables(tmp_path, rows, items), *parts)


def test_the_error_names_a_table_that_is_missing_or_not_parquet(tmp_path):
    write(tmp_path, {"items.csv": ITEMS, "bad.parquet": "no"})
    refuses(lambda: tables(tmp_path / "r.csv", tmp_path / "items.csv"), "r.csv", error=FileNotFoundError)
    refuses(lambda: tables(tmp_path / "r.csv", tmp_path / "i.csv"), "i.csv", error=FileNotFoundError)
    refuses(lambda: tables(tmp_path / "r.parquet", tmp_path / "items.csv"), "r.parquet", error=FileNotFoundError)
    refuses(lambda: tables(tmp_path / "bad.parquet", tmp_path / "items.csv"), "bad.parquet is not a Parquet file")


def test_a_string_is_not_a_list_of_topics():
    refuses(lambda: Interactions.of([("u", "i", 1)], {"i": "rock"}), "'rock'", error=TypeError)


# Songs

SONGS = {
    "train_triplets.txt": 'u2\tSO1\t3\nu1\tSO1\t1\nu2\tSO"2\t1\nu2\tSO3\t2\nu2\tSO4\t1\nu2\tSO1\t4\n',
    "taste_profile_song_to_tracks.txt": 'SO1\tTR1\tTR9\nSO"2\tTR2\nSO3\nSO8\tTR2\n',
    "msd_tagtraum_cd2.cls": "# by tagtraum\nTR1\tRock\tPop\nTR2\tJazz\nTR9\tMetal\nTR7\tFolk\n",
}
PLAYS = {("u2", "SO1"): 7.0, ("u1", "SO1"): 1.0, ("u2", 'SO"2'): 1.0, ("u2", "SO3"): 2.0, ("u2", "SO4"): 1.0}
TAGS = [
    ("TR1", " Hip Hop", 100),
    ("TR1", "seen live", 100),
    ("TR9", "ROCK", 10),
    ("TR9", "jazz", 9.5),
    ("TR2", "soul", 55),
    ("TR7", "folk", 99),
]


def songs(tmp_path, files, tags=TAGS):
    folder = write(tmp_path / "taste-profile", files)
    if tags is not None:
        base = sqlite3.connect(folder / "lastfm_tags.db")
        base.executescript(
            "CREATE TABLE tids (tid TEXT); CREATE TABLE tags (tag TEXT);"
            "CREATE TABLE tid_tag (tid INT, tag INT, val FLOAT)"
        )
        for track, tag, value in tags:
            tid = base.execute("INSERT INTO tids VALUES (?)", (track,)).lastrowid
            row = base.execute("INSERT INTO tags VALUES (?)", (tag,)).lastrowid
            base.execute("INSERT INTO tid_tag VALUES (?, ?, ?)", (tid, row, value))
        base.commit()
        base.close()
    return tmp_path


def test_taste_profile_joins_plays_tracks_and_topics(tmp_path):
    root = songs(tmp_path, SONGS)
    assert contents(taste_profile(root)) == (
        PLAYS,
        {'SO"2': ("soul",), "SO1": ("hip-hop", "rock"), "SO3": (), "SO4": ()},
    )
    rows, topics = contents(taste_profile(root, topics="tagtraum"))
    assert rows == PLAYS
    assert topics == {'SO"2': ("Jazz",), "SO1": ("Metal", "Pop", "Rock"), "SO3": (), "SO4": ()}
    write(root / "taste-profile", {"sid_mismatches.txt": "ERROR: <SO1 TR1> A - B  !=  C - D\nERROR: <SO0 TR0> é\n"})
    assert contents(taste_profile(root))[1] == {'SO"2': ("soul",), "SO1": (), "SO3": (), "SO4": ()}


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        (
            "train_triplets.txt",
            "u\tS\t1\nu\tT\t0\n",
            ["train_triplets.txt, line 2", "plays must be at least 1", "got 0"],
        ),
        (
            "train_triplets.txt",
            "u\tS\t1\nu\tT\t1.5\n",
            ["train_triplets.txt, line 2", "plays must be a whole", "'1.5'"],
        ),
        ("train_triplets.txt", "u\tS\t1\nu T 1\nu\tT\t1\n", ["train_triplets.txt, line 2", "3 fields"]),
        ("train_triplets.txt", "u\tS\t1\n\tT\t1\n", ["train_triplets.txt, line 2", "user must not be empty"]),
        ("train_triplets.txt", "", ["train_triplets.txt"]),
        ("taste_profile_song_to_tracks.txt", "SO1\tTR1\nSO2 TR2\n", ["song_to_tracks.txt, line 2", "tabs"]),
        (
            "taste_profile_song_to_tracks.txt",
            "SO1\nSO1\tTR1\n",
            ["song_to_tracks.txt, line 2", "'SO1' appears twice"],
        ),
        ("taste_profile_song_to_tracks.txt", "SO1\nSO2\tTR1\t\tTR2\n", ["song_to_tracks.txt, line 2"]),
        ("taste_profile_song_to_tracks.txt", "", ["song_to_tracks.txt is empty"]),
        ("msd_tagtraum_cd2.cls", "#\nTR1\tRock\nTR2\n", ["cd2.cls, line 3", "one or two genres", "'TR2'"]),
        ("msd_tagtraum_cd2.cls", "TR1\tRock\nTR1\tPop\n", ["cd2.cls, line 2", "track 'TR1' appears twice"]),
        ("sid_mismatches.txt", "ERROR: <SO1 TR1> x\nSO2\n", ["sid_mismatches.txt, line 2", "'SO2'"]),
    ],
)
def test_taste_profile_errors_name_the_file_and_the_line(tmp_path, name, text, parts):
    root = songs(tmp_path, change(SONGS, name, text))
    refuses(lambda: taste_profile(root, topics="tagtraum"), *parts)


def test_taste_profile_needs_its_files_and_a_database(tmp_path):
    for name in SONGS:
        root = songs(tmp_path / name, change(SONGS, name, None))
        refuses(lambda root=root: taste_profile(root, topics="tagtraum"), name, error=FileNotFoundError)
    root = songs(tmp_path / "none", SONGS, tags=None)
    refuses(lambda: taste_profile(root), "lastfm_tags.db", error=FileNotFoundError)
    write(root / "taste-profile", {"lastfm_tags.db": "no database at all"})
    refuses(lambda: taste_profile(root), "lastfm_tags.db must be an SQLite file")
    refuses(lambda: taste_profile(root, topics="x"), "topics of taste_profile", "'x'")


HETREC = {
    "user_artists.dat": "userID\tartistID\tweight\r\n2\t51\t100\r\n3\t51\t1\r\n3\t52\t7\r\n",
    "artists.dat": 'id\tname\turl\tpictureURL\n51\tDuran "Duran\thttp://x\n52\tBjörk\thttp://y\thttp://z\n',
    "tags.dat": "tagID\ttagValue\r\n1\tR&B\r\n2\trnb\r\n3\tjazz\r\n4\tcafé\r\n5\tseen live\r\n".encode("latin-1"),
    "user_taggedartists.dat": "userID\tartistID\ttagID\tday\tmonth\tyear\r\n"
    + "".join(
        f"{user}\t{artist}\t{tag}\t1\t4\t2009\r\n" if user else "\r\n"
        for user, artist, tag in zip(
            (2, 3, 2, 0, 2, 3, 2, 2, 3, 2),
            (51, 51, 52, 0, 52, 51, 51, 99, 99, 51),
            (1, 2, 3, 0, 3, 5, 5, 3, 3, 4),
            strict=True,
        )
    ),
}


def test_hetrec_counts_the_users_who_gave_each_genre(tmp_path):
    write(tmp_path / "hetrec2011-lastfm-2k", HETREC)
    rows, topics = contents(hetrec_lastfm(tmp_path))
    assert rows == {(2, 51): 100.0, (3, 51): 1.0, (3, 52): 7.0}
    assert topics == {51: ("rnb",), 52: ()}  # jazz was given by one user, twice
    assert contents(hetrec_lastfm(tmp_path, taggers=1))[1] == {51: ("rnb",), 52: ("jazz",)}
    assert contents(hetrec_lastfm(tmp_path / "hetrec2011-lastfm-2k", taggers=3))[1] == {51: (), 52: ()}
    refuses(lambda: hetrec_lastfm(tmp_path, taggers=0), "taggers of hetrec_lastfm")


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        (
            "user_artists.dat",
            "userID\tartistID\tweight\r\n2\t51\t1\r\n2\t52\t0\r\n",
            ["line 3", "weight must be at least 1"],
        ),
        (
            "user_artists.dat",
            "userID\tartistID\tweight\r\n2\t51\t1\r\n2\t51\t2\r\n",
            ["line 3", "user 2 and item 51 appear twice"],
        ),
        ("user_artists.dat", "userID\tartistID\tweight\r\n2\t51\t1\r\n2\t53\t2\r\n", ["line 3", "53 is not in"]),
        ("user_artists.dat", "userID\tartistID\tweight\r\n2\t51\t1\r\n2\t\t2\r\n", ["line 3", "artistID", "''"]),
        ("user_artists.dat", "userID\tartistID\r\n2\t51\r\n", ["column 'weight'"]),
        ("artists.dat", "id\tname\turl\n51\tA\tx\n51\tB\tx\n", ["line 3", "51 appears twice"]),
        ("artists.dat", "id\tname\turl\n51\tA\tx\nB\tB\tx\n", ["line 3", "'B'"]),
        ("artists.dat", "", ["is empty"]),
        ("tags.dat", "tagID\ttagValue\r\n1\trock\r\n2\r\n", ["line 3", "2 fields"]),
        (
            "user_taggedartists.dat",
            "userID\tartistID\ttagID\r\n2\t51\t1\r\n2\t51\t6\r\n",
            ["line 3", "tagID 6 is not in"],
        ),
        ("user_taggedartists.dat", "userID\tartistID\ttagID\r\n\r\n2\t51\t\r\n", ["line 3", "tagID", "''"]),
    ],
)
def test_hetrec_errors_name_the_file_and_the_line(tmp_path, name, text, parts):
    write(tmp_path / "hetrec2011-lastfm-2k", change(HETREC, name, text))
    refuses(lambda: hetrec_lastfm(tmp_path), name, *parts)


def test_genres_are_sorted_unique_and_in_lower_case():
    assert len(GENRES) >= 45
    assert list(GENRES) == sorted(set(GENRES))
    assert all(name == name.strip().lower() for name in (*GENRES, *SPELLINGS))
    assert set(SPELLINGS.values()) <= set(GENRES)
    assert not set(SPELLINGS) & set(GENRES)


# Yelp

BUSINESSES = [
    {"business_id": "b1", "categories": ["Restaurants", "Thai", "Bars"], "name": "x"},
    {"business_id": "b2", "categories": None},
    {"business_id": "b3", "categories": ["Restaurants"]},
]
REVIEWS = [
    {"user_id": "u1", "business_id": "b1", "stars": 5, "date": "2016-02-01", "text": "new,\nline é"},
    {"user_id": "u1", "business_id": "b1", "stars": 1, "date": "2015-02-01", "text": "older, later in the file"},
    {"user_id": "u2", "business_id": "b2", "stars": 2, "date": "2015-02-01"},
    {"user_id": "u2", "business_id": "b3", "stars": 3, "date": "2015-02-01"},
    {"user_id": "u2", "business_id": "b3", "stars": 4, "date": "2015-02-01"},
]
EATEN = ({("u1", "b1"): 5.0, ("u2", "b3"): 4.0}, {"b1": ("Bars", "Thai"), "b3": ()})


def lines(objects):
    return "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in objects)


def with_line(objects, at, **fields):
    """Return the objects with some fields of one of them replaced, or removed if None."""
    one = {name: value for name, value in {**objects[at], **fields}.items() if value is not None}
    return [*objects[:at], one, *objects[at + 1 :]]


@pytest.mark.parametrize("chunk", [1, 200, 1 << 26])
def test_the_old_and_new_formats_of_yelp_give_the_same_data(tmp_path, chunk, monkeypatch):
    monkeypatch.setattr(sys.modules["thali.datasets.yelp"], "CHUNK", chunk)
    old = write(tmp_path / "old", {"business.json": lines(BUSINESSES), "review.json": lines(REVIEWS)[:-1]})
    (tmp_path / "a").mkdir()
    assert contents(yelp(old.rename(tmp_path / "a" / "yelp").parent)) == EATEN
    joined = [{**one, "categories": one["categories"] and ", ".join(one["categories"])} for one in BUSINESSES]
    timed = [{**one, "stars": float(one["stars"]), "date": one["date"] + " 10:00:00"} for one in REVIEWS]
    new = {"business": lines(joined) + "\n", "review": lines([*timed[:2], "", *timed[2:]])}
    write(tmp_path / "b" / "yelp", {f"yelp_academic_dataset_{name}.json": text for name, text in new.items()})
    assert contents(yelp(tmp_path / "b")) == EATEN


def test_yelp_without_dates_uses_the_later_line(tmp_path):
    undated = [{name: value for name, value in one.items() if name != "date"} for one in REVIEWS]
    write(tmp_path / "yelp", {"business.json": lines(BUSINESSES), "review.json": lines(undated)})
    assert contents(yelp(tmp_path))[0] == {("u1", "b1"): 1.0, ("u2", "b3"): 4.0}


@pytest.mark.parametrize("chunk", [1, 1 << 26])
@pytest.mark.parametrize(
    ("businesses", "reviews", "parts"),
    [
        (BUSINESSES, [*REVIEWS[:2], '{"user_id": "u', *REVIEWS[2:]], ["review.json, line 3", "JSON object"]),
        (BUSINESSES, [*REVIEWS[:2], "[1]"], ["review.json, line 3", "JSON object"]),
        (BUSINESSES, with_line(REVIEWS, 3, stars=None), ["review.json, line 4", "stars", "None"]),
        (BUSINESSES, with_line(REVIEWS, 3, stars="5"), ["review.json, line 4", "stars", "'5'"]),
        (BUSINESSES, with_line(REVIEWS, 3, stars=float("nan")), ["review.json, line 4", "stars", "nan"]),
        (BUSINESSES, with_line(REVIEWS, 3, stars=6), ["review.json, line 4", "from 1 to 5, got 6"]),
        (BUSINESSES, with_line(REVIEWS, 3, user_id=""), ["review.json, line 4", "user_id", "''"]),
        (BUSINESSES, with_line(REVIEWS, 3, business_id=None), ["review.json, line 4", "business_id", "None"]),
        (BUSINESSES, with_line(REVIEWS, 3, business_id="b9"), ["review.json, line 4", "'b9' is not in"]),
        (BUSINESSES, with_line(REVIEWS, 3, date=None), ["review.json, line 4", "date", "None"]),
        (BUSINESSES, with_line(REVIEWS, 3, date="yesterday"), ["review.json, line 4", "date", "'yesterday'"]),
        (BUSINESSES, with_line(REVIEWS, 0, date=None), ["review.json, line 2", "in every line or in none"]),
        (BUSINESSES, [], ["review.json is empty"]),
        ([*BUSINESSES, "{"], REVIEWS, ["business.json, line 4", "JSON object"]),
        ([*BUSINESSES, BUSINESSES[0]], REVIEWS, ["business.json, line 4", "'b1' appears twice"]),
        ([*BUSINESSES, {"business_id": "b4"}], REVIEWS, ["business.json, line 4", "categories"]),
        ([*BUSINESSES, {"business_id": 4, "categories": []}], REVIEWS, ["business.json, line 4", "business_id"]),
        ([*BUSINESSES, {"business_id": "b4", "categories": 3}], REVIEWS, ["business.json, line 4", "categories", "3"]),
        ([], REVIEWS, ["business.json is empty"]),
    ],
)
def test_yelp_errors_name_the_file_and_the_line(tmp_path, businesses, reviews, parts, chunk, monkeypatch):
    monkeypatch.setattr(sys.modules["thali.datasets.yelp"], "CHUNK", chunk)
    write(tmp_path / "yelp", {"business.json": lines(businesses), "review.json": lines(reviews)})
    refuses(lambda: yelp(tmp_path), *parts)


def test_yelp_needs_its_files(tmp_path):
    write(tmp_path / "yelp", {"business.json": lines(BUSINESSES)})
    refuses(lambda: yelp(tmp_path), "review.json", error=FileNotFoundError)
    write(tmp_path / "yelp-hin", {"interactions.csv": ROWS, "items.csv": ITEMS})
    assert contents(yelp_hin(tmp_path)) == TABLES


# Downloads


@pytest.fixture
def server():
    """A local server: path → bytes, and how many of them it sends before it closes the connection."""
    answers, requested = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            body, sent = answers.get(self.path, (None, None))
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write((body or b"")[:sent])

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    httpd.answers, httpd.requested = answers, requested
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def served(server, files, name="set", inside="top", sent=None):
    """Put an archive of these files on the server."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for path, text in files.items():
            zipped.writestr(path, text)
    body = buffer.getvalue()
    server.answers[f"/{name}.zip"] = (body, sent)
    address = f"http://127.0.0.1:{server.server_port}/{name}.zip"
    return fetching.Archive(name, "a.csv", "http://page", address, hashlib.sha256(body).hexdigest(), inside)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("THALI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("THALI_DATA", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize("inside", ["top", ""])
def test_an_archive_is_downloaded_only_once(cache, server, inside):
    archive = served(server, {f"{inside}/sub/a.csv" if inside else "sub/a.csv": "hello"}, inside=inside)
    for _ in range(2):
        folder = fetching.folder("set", archives={"set": archive})
        assert folder == cache / "set"
        assert (folder / "sub" / "a.csv").read_text() == "hello"
    assert server.requested == ["/set.zip"]
    assert os.listdir(cache) == ["set"]  # no temporary files are left


def test_concurrent_downloads_of_one_archive_all_succeed(cache, server):
    archive = served(server, {"top/a.csv": "hello" * 100000})
    with ThreadPoolExecutor(6) as pool:
        folders = list(pool.map(lambda _: fetching.fetch(archive, cache), range(6)))
    assert set(folders) == {cache / "set"}
    assert (cache / "set" / "a.csv").read_text() == "hello" * 100000
    assert os.listdir(cache) == ["set"]


def test_a_failed_download_leaves_no_files_and_the_error_says_what_to_do(cache, server):
    good = served(server, {"top/a.csv": "hello"})
    cut = served(server, {"top/a.csv": "hello"}, name="cut", sent=40)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    closed = f"http://127.0.0.1:{port}/set.zip"
    by_hand = ["a.csv", str(cache), "$THALI_DATA"]
    for archive, error, parts in [
        (replace(good, sha256="0" * 64), ValueError, ["SHA-256", good.sha256, good.address, *by_hand]),
        (cut, OSError, ["40 of", cut.address, *by_hand]),
        (replace(good, address=closed), OSError, [closed, *by_hand]),
        (replace(good, address=good.address + "x"), OSError, ["404", *by_hand]),
        (replace(good, sha256=None), FileNotFoundError, [good.address, *by_hand]),
        (replace(good, inside="other"), ValueError, ["'other'", "['top']"]),
    ]:
        refuses(lambda archive=archive: fetching.fetch(archive, cache), *parts, error=error)
        assert not cache.exists() or os.listdir(cache) == []


@pytest.mark.parametrize(
    "path", ["../out.csv", "/tmp/thali-out.csv", "top/../../out.csv", "top\\..\\..\\out.csv", "link"]
)
def test_a_zip_with_paths_outside_its_folder_is_rejected(cache, server, path):
    member = zipfile.ZipInfo(path)
    member.external_attr = (0o120777 if path == "link" else 0o100644) << 16
    archive = served(server, {"top/a.csv": "x", member: "/etc"})
    refuses(lambda: fetching.fetch(archive, cache), "only relative paths", archive.address)
    assert os.listdir(cache) == []


def test_folders_are_searched_in_order(cache, tmp_path, monkeypatch):
    archives = {"set": fetching.Archive("set", "a.csv", "http://page")}
    find = partial(fetching.folder, "set", archives=archives)
    refuses(find, "set", "a.csv", "http://page", str(cache / "set"), "$THALI_DATA", error=FileNotFoundError)
    (cache / "set").mkdir(parents=True)
    monkeypatch.setenv("THALI_DATA", str(tmp_path / "data"))
    assert find() == cache / "set"
    (tmp_path / "data" / "set").mkdir(parents=True)
    assert find() == tmp_path / "data" / "set"
    assert find(tmp_path / "data" / "set") == tmp_path / "data" / "set"
    assert find(str(cache)) == cache / "set"
    refuses(lambda: find(tmp_path), str(tmp_path / "set"), "a.csv", "http://page", error=FileNotFoundError)
    for variable in ("THALI_CACHE", "THALI_DATA"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert fetching.cache() == tmp_path / "xdg" / "thali"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetching.cache() == tmp_path / ".cache" / "thali"


def test_the_registry_of_archives_is_complete():
    for name, archive in fetching.ARCHIVES.items():
        assert archive.name == name
        assert (archive.address is None) == (archive.sha256 is None)
        assert archive.sha256 is None or len(bytes.fromhex(archive.sha256)) == 32
    for load in (taste_profile, yelp, yelp_core40):
        refuses(lambda load=load: load("/nowhere"), "/nowhere", "http", error=FileNotFoundError)


# The real data

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no data at {DATA}; set THALI_DATA")


def data_folder(name):
    """Return the folder of data sets, or skip the test if this data set is missing."""
    if not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is not there")
    return DATA


@pytest.mark.slow
@needs_data
def test_movielens_1m_can_be_selected_as_in_the_paper():
    data = movielens_1m(data_folder("ml-1m")).most_active(users=1000, items=1000)
    loved = data.attracted(at_least=5).top_topics(18)
    assert len(loved) == 78_423
    assert (loved.topics[0], loved.topics[-1]) == ("Comedy", "Documentary")
    counts = [361, 343, 261, 197, 160, 153, 131, 82, 71, 67, 62, 51, 46, 46, 35, 22, 19, 3]
    assert loved.topic_counts().tolist() == counts


@pytest.mark.slow
@needs_data
def test_hetrec_is_as_described():
    data = hetrec_lastfm(data_folder("hetrec2011-lastfm-2k"))
    assert repr(data).startswith("Interactions(1892 users, 17632 items,")
    assert len(data) == 92_834
    chosen = data.most_active(users=1000, items=1000)
    assert len(chosen.attracted(at_least=5)) == 30_281
    counts = dict(zip(chosen.topics, chosen.topic_counts().tolist(), strict=True))
    described = {"rock": 483, "alternative": 383, "pop": 337, "indie": 264, "jazz": 31, "house": 12, "reggae": 8}
    assert {name: counts[name] for name in described} == described
    assert data.most_active(users=1000, items=1000, by="value").top_topics(40).topic_counts().min() > 10


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("load", "name", "ratings", "density"),
    [(yelp_core40, "yelp-core40", 78_648, 0.0476), (yelp_hin, "yelp-hin", 136_907, 0.0288)],
)
def test_yelp_tables_are_as_described(load, name, ratings, density):
    data = load(data_folder(name))
    assert len(data) == ratings
    liked = data.most_active(users=1000, items=1000).attracted(at_least=4)
    assert liked.density == pytest.approx(density, abs=5e-5)


@pytest.mark.slow
def test_25_million_ratings_in_a_minute_and_4_gib(tmp_path):
    """Load, select and estimate from a file of the size of MovieLens 25M, in a separate process."""
    rows, users, films = 25_000_000, 160_000, 60_000
    rng = np.random.default_rng(0)
    # Popular films first, as in the real file; a user rates a film once.
    pairs = np.unique(
        rng.integers(0, users, rows + rows // 8) * films + (rng.random(rows + rows // 8) ** 3 * films).astype(np.int64)
    )[:rows]
    frame = pl.DataFrame(
        {
            "userId": (pairs // films + 1).astype(np.int32),
            "movieId": (pairs % films + 1).astype(np.int32),
            "rating": rng.integers(1, 11, len(pairs)) / 2.0,
            "timestamp": np.full(len(pairs), 1_147_880_044),
        }
    )
    frame.write_csv(tmp_path / "ratings.csv")
    genres = [f"Genre {j:02d}" for j in range(20)]
    lines = [f'{film + 1},"Film, the {film}th",{genres[film % 20]}|{genres[film * 7 % 19]}' for film in range(films)]
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n" + "\n".join(lines) + "\n")
    assert len(pairs) > 0.99 * rows
    del frame, pairs
    script = (
        "import resource, sys, time, thali\n"
        "begin = time.perf_counter()\n"
        "data = thali.datasets.movielens(sys.argv[1])\n"
        "train, test = data.most_active(users=1000, items=1000).attracted(5).top_topics(18).split_users()\n"
        "catalog, theta = thali.Catalog.estimate(train), thali.preferences(test)\n"
        "wide = thali.Catalog.estimate(data.attracted(5)), thali.preferences(data.attracted(5))\n"
        "took = time.perf_counter() - begin\n"
        "print(len(data), catalog.L, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    count, items, took, gib = map(float, done.stdout.split())
    print(f"{count:,.0f} ratings: {took:.1f} s, {gib:.2f} GiB")
    assert (count > 0.99 * rows, items) == (True, 1000)
    assert took < 60.0
    assert gib < 4.0
