"""Music: the Echo Nest Taste Profile of the Million Song Dataset, and the Last.fm data of HetRec 2011."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from thali.datasets import fetch
from thali.datasets.files import Kind, Table, collect, polars
from thali.datasets.interactions import Interactions
from thali.tools import checks

#: The Last.fm tags that count as topics. These are tags for a genre, not for a mood, a time, a place or a singer.
GENRES = (
    "acid jazz", "alternative", "alternative metal", "alternative rock", "ambient", "americana", "bebop",
    "black metal", "bluegrass", "blues", "blues rock", "bossa nova", "breakbeat", "britpop", "celtic",
    "classic rock", "classical", "country", "dance", "dancehall", "death metal", "deep house", "disco",
    "doom metal", "downtempo", "dream pop", "drum and bass", "dub", "dubstep", "electro", "electronic",
    "electronica", "electropop", "emo", "experimental", "folk", "folk metal", "folk rock", "funk", "garage rock",
    "glam rock", "gospel", "gothic", "gothic metal", "gothic rock", "grindcore", "grunge", "hard rock", "hardcore",
    "heavy metal", "hip-hop", "house", "idm", "indie", "indie folk", "indie pop", "indie rock", "industrial",
    "industrial metal", "j-pop", "j-rock", "jazz", "latin", "lounge", "math rock", "melodic death metal", "metal",
    "metalcore", "minimal", "new age", "new wave", "noise", "nu metal", "opera", "pop", "pop punk", "pop rock",
    "post-grunge", "post-hardcore", "post-punk", "post-rock", "power metal", "power pop", "progressive metal",
    "progressive rock", "psychedelic", "psychedelic rock", "psytrance", "punk", "punk rock", "rap", "reggae", "rnb",
    "rock", "rockabilly", "salsa", "samba", "screamo", "shoegaze", "singer-songwriter", "ska", "soft rock", "soul",
    "stoner rock", "surf", "swing", "symphonic metal", "synthpop", "techno", "thrash metal", "trance", "trip-hop",
    "world",
)  # fmt: skip

#: Other spellings of the same genre.
SPELLINGS = {
    "dnb": "drum and bass",
    "drum n bass": "drum and bass",
    "hip hop": "hip-hop",
    "hiphop": "hip-hop",
    "jpop": "j-pop",
    "nu-metal": "nu metal",
    "post punk": "post-punk",
    "post rock": "post-rock",
    "powerpop": "power pop",
    "r&b": "rnb",
    "r and b": "rnb",
    "synth pop": "synthpop",
    "synth-pop": "synthpop",
    "trip hop": "trip-hop",
    "world music": "world",
}

#: The smallest weight with which a Last.fm tag of the Million Song Dataset counts. Weights are from 0 to 100, and the
#: first tag of a track has weight 100.
LEAST_WEIGHT = 10

_KNOWN = {name: name for name in GENRES} | SPELLINGS


def genre(tag: str) -> str | None:
    """Return the genre that a tag stands for, or None if it is not a genre.

    >>> genre(" Hip Hop"), genre("seen live")
    ('hip-hop', None)
    """
    return _KNOWN.get(tag.strip().lower())


def taste_profile(root: str | Path | None = None, topics: Literal["lastfm", "tagtraum"] = "lastfm") -> Interactions:
    """Load the Echo Nest Taste Profile, whose songs the paper uses: 48 million triplets of user, song and plays.

    Items are the songs in ``train_triplets.txt``. The topics of a song are those of all its tracks, which are listed in
    ``taste_profile_song_to_tracks.txt``. A song that is not listed there, or that has no track with a topic, is kept
    without topics. Songs in ``sid_mismatches.txt``, if that file exists, are also kept without topics; it is the
    publisher's list of songs that were matched to wrong tracks. If a pair of user and song is repeated, the plays are
    summed. A number of plays below 1 is an error.

    Parameters
    ----------
    root: the folder that contains ``taste-profile/``; by default ``$THALI_DATA``. thali cannot download these files.
    topics: "lastfm" for the tags in ``lastfm_tags.db`` that are genres (GENRES) and have a weight of at least
        LEAST_WEIGHT. "tagtraum" for the one or two genres of each track in ``msd_tagtraum_cd2.cls`` or, if that file
        does not exist, ``msd_tagtraum_cd2c.cls``.

    Cost: a few passes over the triplets with polars. This function was not tested on the publisher's own file.

    """
    if topics not in ("lastfm", "tagtraum"):
        raise ValueError(f"topics of taste_profile must be 'lastfm' or 'tagtraum', got {topics!r}")
    folder = fetch.folder("taste-profile", root)
    triplets = Table(
        folder / "train_triplets.txt",
        {"user": "name", "song": "name", "plays": "whole"},
        separator="\t",
        header=False,
        quoted=False,
    )
    frame = triplets.read()
    topics_of: dict[str, set[str]] = {song: set() for song in frame["song"].unique().cast(polars().String).to_list()}
    tracks = _tracks(folder / "taste_profile_song_to_tracks.txt", topics_of)
    pairs = _lastfm(folder / "lastfm_tags.db") if topics == "lastfm" else _tagtraum(folder)
    for track, topic in pairs:
        for song in tracks.get(track, ()):
            topics_of[song].add(topic)
    for song in _mismatched(folder / "sid_mismatches.txt"):
        if song in topics_of:
            topics_of[song].clear()
    return collect(
        triplets,
        list(topics_of),
        list(topics_of.values()),
        items_path=triplets.path,
        duplicates="sum",
        lowest=1,
        frame=frame,
    )


def _tracks(path: Path, songs: Iterable[str]) -> dict[str, list[str]]:
    """Return the songs of each track, limited to these songs. Each line of the file has a song and its tracks."""
    tracks: dict[str, list[str]] = {}
    seen: set[str] = set()
    for line, text in _lines(path):
        if not re.fullmatch(r"\S+(\t\S+)*\t*", text):
            raise ValueError(
                f"{path}, line {line}: the line must be a song and its tracks, separated by tabs, got {text[:80]!r}"
            )
        song, *of_song = text.rstrip("\t").split("\t")
        if song in seen:
            raise ValueError(f"{path}, line {line}: song {song!r} appears twice")
        seen.add(song)
        if song in songs:
            for track in of_song:
                tracks.setdefault(track, []).append(song)
    return tracks


def _lastfm(path: Path) -> Iterator[tuple[str, str]]:
    """Yield pairs of track and genre from an SQLite file.

    Its tables are tids(tid), tags(tag) and tid_tag(tid, tag, val), where tid and tag in the last one are row ids.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            named = ((row, genre(str(tag))) for row, tag in database.execute("SELECT rowid, tag FROM tags"))
            chosen = [(row, name) for row, name in named if name is not None]
            database.execute("CREATE TEMP TABLE chosen (tag INTEGER PRIMARY KEY, name TEXT)")
            database.executemany("INSERT INTO chosen VALUES (?, ?)", chosen)
            yield from database.execute(
                "SELECT tids.tid, chosen.name FROM tid_tag JOIN chosen ON chosen.tag = tid_tag.tag "
                "JOIN tids ON tids.rowid = tid_tag.tid WHERE tid_tag.val >= ?",
                (LEAST_WEIGHT,),
            )
    except sqlite3.Error as error:
        raise ValueError(f"{path} must be an SQLite file with the tables tids, tags and tid_tag: {error}") from error


def _tagtraum(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield pairs of track and genre from lines with a track and one or two genres. A line with # is a comment."""
    names = ("msd_tagtraum_cd2.cls", "msd_tagtraum_cd2c.cls", "cd2c.cls")
    path = next((folder / name for name in names if (folder / name).exists()), folder / names[0])
    seen: set[str] = set()
    for line, text in _lines(path):
        if text.startswith("#"):
            continue
        track, *genres = (field.strip() for field in text.split("\t"))
        if not track or len(genres) not in (1, 2) or not all(genres):
            raise ValueError(f"{path}, line {line}: the line must be a track and one or two genres, got {text[:80]!r}")
        if track in seen:
            raise ValueError(f"{path}, line {line}: track {track!r} appears twice")
        seen.add(track)
        for name in genres:
            yield track, name


def _mismatched(path: Path) -> Iterator[str]:
    """Yield the songs in lines such as ``ERROR: <SOUMNSI12AB0182807 TRMMGKQ128F9325E10> …``, if the file exists."""
    for line, text in _lines(path) if path.exists() else ():
        match = re.match(r"ERROR: <(\S+) \S+>", text)
        if match is None:
            raise ValueError(f"{path}, line {line}: the line must begin with 'ERROR: <song track>', got {text[:80]!r}")
        yield match[1]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every non-empty line. An empty file is an error."""
    line = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line, text in enumerate(file, start=1):
            if text.strip():
                yield line, text.rstrip("\n")
    if not line:
        raise ValueError(f"{path} is empty")


def hetrec_lastfm(root: str | Path | None = None, taggers: int = 2) -> Interactions:
    """Load HetRec 2011 Last.fm 2K: plays of 17,632 artists by 1,892 listeners, with at most 50 artists per listener.

    Items are the artists in ``artists.dat``, named by their numbers. Values are plays. A tag is a topic of an artist if
    it is a genre (GENRES) and at least ``taggers`` different users gave it to the artist, in any of its spellings. Tags
    of artists that are not in ``artists.dat`` (390 of them) are ignored, because nobody has played them. It is an error
    if an artist in ``user_artists.dat`` is not in ``artists.dat``, if a tag is not in ``tags.dat``, if a number of
    plays is below 1, or if a pair of user and artist is repeated.

    Parameters
    ----------
    root: the folder that contains ``hetrec2011-lastfm-2k/``. By default, it is ``$THALI_DATA`` or, if the data set is
        not there, the cache folder, to which it is downloaded.
    taggers: how many users must have given a tag to an artist, at least 1.

    """
    taggers = checks.integer("taggers of hetrec_lastfm", taggers, low=1)
    folder = fetch.folder("hetrec2011-lastfm-2k", root)
    artists = _named(Table(folder / "artists.dat", {"id": "whole", "name": "text"}, "\t", quoted=False))
    tags = _named(
        Table(folder / "tags.dat", {"tagID": "whole", "tagValue": "text"}, "\t", quoted=False, encoding="latin-1")
    )
    topics_of: dict[int, list[str]] = {artist: [] for artist in artists}
    for artist, topic in _tagged(folder, tags, taggers):
        if artist in topics_of:
            topics_of[artist].append(topic)
    plays = Table(
        folder / "user_artists.dat", {"userID": "whole", "artistID": "whole", "weight": "whole"}, "\t", quoted=False
    )
    return collect(plays, list(topics_of), list(topics_of.values()), items_path=folder / "artists.dat", lowest=1)


def _named(table: Table) -> dict[int, str]:
    """Return the names in a table by number."""
    names: dict[int, str] = {}
    for line, (number, name) in table.rows():
        column = next(iter(table.columns))
        if not re.fullmatch("[0-9]{1,18}", number):
            raise ValueError(f"{table.path}, line {line}: {column} must be a whole number, got {number!r}")
        if int(number) in names:
            raise ValueError(f"{table.path}, line {line}: {column} {number} appears twice")
        names[int(number)] = name
    return names


def _tagged(folder: Path, tags: dict[int, str], taggers: int) -> Iterator[tuple[int, str]]:
    """Yield pairs of artist and genre that at least ``taggers`` users have given."""
    pl = polars()
    columns: dict[str, Kind] = {"userID": "whole", "artistID": "whole", "tagID": "whole"}
    table = Table(folder / "user_taggedartists.dat", columns, "\t", quoted=False)
    given = table.read()
    unknown = (~given["tagID"].is_in(list(tags))).arg_true()
    if len(unknown):
        row = int(unknown[0])
        raise ValueError(
            f"{table.path}, {table.place(row)}: tagID {given['tagID'][row]} is not in {folder / 'tags.dat'}"
        )
    genres = {number: name for number, tag in tags.items() if (name := genre(tag)) is not None}
    chosen = pl.DataFrame(
        {"tagID": list(genres), "genre": list(genres.values())}, schema={"tagID": pl.Int64, "genre": pl.String}
    )
    counts = given.join(chosen, on="tagID").group_by("artistID", "genre").agg(pl.col("userID").n_unique())
    yield from counts.filter(pl.col("userID") >= taggers).select("artistID", "genre").iter_rows()
