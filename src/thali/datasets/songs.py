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

#: The Last.fm tags that count as topics: those that name a genre, not a mood, a time, a place or a singer.
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

#: The least weight of a tag in the Million Song Dataset's Last.fm tags: 0 to 100, where a track's first tag has 100.
LEAST_WEIGHT = 10

_KNOWN = {name: name for name in GENRES} | SPELLINGS


def genre(tag: str) -> str | None:
    """The genre that a free tag names, or None.

    >>> genre(" Hip Hop"), genre("seen live")
    ('hip-hop', None)
    """
    return _KNOWN.get(tag.strip().lower())


def taste_profile(root: str | Path | None = None, topics: Literal["lastfm", "tagtraum"] = "lastfm") -> Interactions:
    """Echo Nest Taste Profile, the songs used in the paper: 48 million triplets of user, song and plays.

    Items are the songs of ``train_triplets.txt``; a song's topics are those of all its tracks in
    ``taste_profile_song_to_tracks.txt``. A song that is missing there, or has no track with a topic, is kept without
    topics. So are the songs in ``sid_mismatches.txt``, if that file exists: the publisher's list of songs matched to
    wrong tracks. Plays of a repeated pair of user and song are summed; plays under 1 are an error.

    Parameters
    ----------
    root: the folder that holds ``taste-profile/``; by default ``$THALI_DATA``. The files cannot be fetched.
    topics: "lastfm", the tags in ``lastfm_tags.db`` that name a genre (GENRES) and have a weight of at least
        LEAST_WEIGHT; or "tagtraum", the one or two genres of a track in ``msd_tagtraum_cd2.cls`` (else ``…_cd2c.cls``).

    Cost: a few passes over the triplets at polars' speed. Not tested on the publisher's own file.

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
    """The songs of each track, restricted to these songs. Each line has a song and any number of tracks."""
    tracks: dict[str, list[str]] = {}
    seen: set[str] = set()
    for line, text in _lines(path):
        if not re.fullmatch(r"\S+(\t\S+)*\t*", text):
            raise ValueError(f"{path}, line {line}: must be a song and its tracks divided by tabs, got {text[:80]!r}")
        song, *of_song = text.rstrip("\t").split("\t")
        if song in seen:
            raise ValueError(f"{path}, line {line}: song {song!r} is here already")
        seen.add(song)
        if song in songs:
            for track in of_song:
                tracks.setdefault(track, []).append(song)
    return tracks


def _lastfm(path: Path) -> Iterator[tuple[str, str]]:
    """Tracks and their genres, from SQLite tables tids(tid), tags(tag) and tid_tag(tid, tag, val), keyed by rowid."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there")
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
        raise ValueError(f"{path} must be an SQLite file with tables tids, tags and tid_tag: {error}") from error


def _tagtraum(folder: Path) -> Iterator[tuple[str, str]]:
    """Tracks and their genres, from lines of a track and one or two genres; # starts a comment."""
    names = ("msd_tagtraum_cd2.cls", "msd_tagtraum_cd2c.cls", "cd2c.cls")
    path = next((folder / name for name in names if (folder / name).exists()), folder / names[0])
    seen: set[str] = set()
    for line, text in _lines(path):
        if text.startswith("#"):
            continue
        track, *genres = (field.strip() for field in text.split("\t"))
        if not track or len(genres) not in (1, 2) or not all(genres):
            raise ValueError(f"{path}, line {line}: must be a track and one or two genres, got {text[:80]!r}")
        if track in seen:
            raise ValueError(f"{path}, line {line}: track {track!r} is here already")
        seen.add(track)
        for name in genres:
            yield track, name


def _mismatched(path: Path) -> Iterator[str]:
    """The songs of lines such as ``ERROR: <SOUMNSI12AB0182807 TRMMGKQ128F9325E10> …``; none if there is no file."""
    for line, text in _lines(path) if path.exists() else ():
        match = re.match(r"ERROR: <(\S+) \S+>", text)
        if match is None:
            raise ValueError(f"{path}, line {line}: must begin as 'ERROR: <song track>', got {text[:80]!r}")
        yield match[1]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and text of the non-empty lines; an empty file is an error."""
    line = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line, text in enumerate(file, start=1):
            if text.strip():
                yield line, text.rstrip("\n")
    if not line:
        raise ValueError(f"{path} is empty")


def hetrec_lastfm(root: str | Path | None = None, taggers: int = 2) -> Interactions:
    """HetRec 2011 Last.fm 2K: plays of 17,632 artists by 1,892 listeners, at most 50 artists each.

    Items are the artists of ``artists.dat``, named by their numbers; values are plays. A tag is a topic of an artist if
    it names a genre (GENRES) and at least ``taggers`` different users gave it, in any of its spellings. Tags of artists
    that are not in ``artists.dat`` (390 of them) are ignored, since nobody has played them. These are errors: an artist
    of ``user_artists.dat`` or a tag that is not in its list, plays under 1, and a repeated pair.

    Parameters
    ----------
    root: the folder that holds ``hetrec2011-lastfm-2k/``; by default ``$THALI_DATA``, else it is fetched.
    taggers: how many users must agree on a tag, at least 1.

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
    """Names by number."""
    names: dict[int, str] = {}
    for line, (number, name) in table.rows():
        if not re.fullmatch("[0-9]{1,18}", number):
            raise ValueError(f"{table.path}, line {line}: {next(iter(table.columns))} must be whole, got {number!r}")
        if int(number) in names:
            raise ValueError(f"{table.path}, line {line}: {number} is here already")
        names[int(number)] = name
    return names


def _tagged(folder: Path, tags: dict[int, str], taggers: int) -> Iterator[tuple[int, str]]:
    """Artists and their genres, each given by at least ``taggers`` users."""
    pl = polars()
    columns: dict[str, Kind] = {"userID": "whole", "artistID": "whole", "tagID": "whole"}
    table = Table(folder / "user_taggedartists.dat", columns, "\t", quoted=False)
    given = table.read()
    unknown = (~given["tagID"].is_in(list(tags))).arg_true()
    if len(unknown):
        row = int(unknown[0])
        raise ValueError(
            f"{table.path}, line {table.line(row)}: tagID {given['tagID'][row]} is not in {folder / 'tags.dat'}"
        )
    genres = {number: name for number, tag in tags.items() if (name := genre(tag)) is not None}
    chosen = pl.DataFrame(
        {"tagID": list(genres), "genre": list(genres.values())}, schema={"tagID": pl.Int64, "genre": pl.String}
    )
    counts = given.join(chosen, on="tagID").group_by("artistID", "genre").agg(pl.col("userID").n_unique())
    yield from counts.filter(pl.col("userID") >= taggers).select("artistID", "genre").iter_rows()
