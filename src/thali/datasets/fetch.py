"""Publishers' archives: name, address, SHA-256, and the folder that holds their files."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: Seconds without a response after which a download fails.
TIMEOUT = 30.0


@dataclass(frozen=True)
class Archive:
    """A data set by the name of its folder, and how to get it.

    files: a description of what the folder must hold. page: the publisher's page about the data and its licence.
    address, sha256: the zip file, which is fetched only if both are known. inside: the folder in the zip that holds
    the files, "" if they are at the top level.
    """

    name: str
    files: str
    page: str
    address: str | None = None
    sha256: str | None = None
    inside: str = ""


def _movielens(name: str, files: str, sha256: str, zipped: str | None = None) -> Archive:
    page = "https://grouplens.org/datasets/movielens/"
    address = f"https://files.grouplens.org/datasets/movielens/{zipped or name}.zip"
    return Archive(name, files, page, address, sha256, inside=name)


_DAT, _CSV, _TABLES = "ratings.dat and movies.dat", "ratings.csv and movies.csv", "interactions.csv and items.csv"

#: By name. Each SHA-256 is the same in at least two independent public repositories.
ARCHIVES: Mapping[str, Archive] = {
    archive.name: archive
    for archive in (
        _movielens(
            "ml-100k",
            "u.data, u.item and u.genre",
            "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        ),
        _movielens("ml-1m", _DAT, "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
        _movielens("ml-10M100K", _DAT, "813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862", "ml-10m"),
        _movielens("ml-20m", _CSV, "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3"),
        _movielens("ml-25m", _CSV, "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa"),
        _movielens("ml-32m", _CSV, "e4a68655d7386b8f95f2f2424b2ff975dfdd15ffd59e0d864a14dca43e99d6ee"),
        Archive(
            "hetrec2011-lastfm-2k",
            "user_artists.dat, artists.dat, user_taggedartists.dat and tags.dat",
            "https://grouplens.org/datasets/hetrec-2011/",
            "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
            "6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
        ),
        Archive(
            "taste-profile",
            "train_triplets.txt, taste_profile_song_to_tracks.txt, and lastfm_tags.db (topics='lastfm') or "
            "msd_tagtraum_cd2.cls (topics='tagtraum')",
            "http://millionsongdataset.com/tasteprofile/, http://millionsongdataset.com/lastfm/ and "
            "https://www.tagtraum.com/msd_genre_datasets.html",
        ),
        Archive(
            "yelp",
            "review.json and business.json (or yelp_academic_dataset_review.json and "
            "yelp_academic_dataset_business.json)",
            "https://www.yelp.com/dataset",
        ),
        Archive("yelp-core40", _TABLES, "https://www.yelp.com/dataset"),
        Archive("yelp-hin", _TABLES, "https://www.yelp.com/dataset"),
    )
}


def folder(name: str, root: str | Path | None = None, *, archives: Mapping[str, Archive] = ARCHIVES) -> Path:
    """The folder that holds the data set of this name.

    With root: ``root/name``, or root itself if that is its name; nothing is fetched. Without: ``$THALI_DATA/name`` if
    it exists, else the one in the cache folder, fetched first if necessary and possible.
    """
    archive = archives[name]
    existing = found(name, root)
    if existing is not None:
        return existing
    if root is not None:
        raise FileNotFoundError(
            f"{Path(root) / name} is not there: it must hold {archive.files}, from {archive.address or archive.page}"
        )
    return fetch(archive, cache())


def found(name: str, root: str | Path | None = None) -> Path | None:
    """The same folder if it exists already, without fetching; else None."""
    if root is not None:
        base = Path(root)
        if (base / name).is_dir():
            return base / name
        return base if base.is_dir() and Path(os.path.abspath(base)).name == name else None
    shared = os.environ.get("THALI_DATA")
    places = ([Path(shared) / name] if shared else []) + [cache() / name]
    return next((place for place in places if place.is_dir()), None)


def cache() -> Path:
    """The folder for fetched files: ``$THALI_CACHE``, else ``$XDG_CACHE_HOME/thali``, else ``~/.cache/thali``."""
    own, common = os.environ.get("THALI_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if own:
        return Path(own)
    return (Path(common) if os.path.isabs(common) else Path.home() / ".cache") / "thali"


def fetch(archive: Archive, into: Path) -> Path:
    """Download the archive, check it, unpack it, and move it to ``into/name`` in one step.

    If interrupted, it leaves either the complete folder or nothing. If two processes fetch at once, the slower one uses
    the folder of the faster one. A network failure raises OSError, a wrong SHA-256 ValueError; both messages say what
    to do by hand. Cost: disk space for the zip and the files together while it runs.
    """
    final = into / archive.name
    by_hand = f"put {archive.files} into {final}, or into {archive.name} in the folder that $THALI_DATA names"
    if archive.address is None or archive.sha256 is None:
        where = archive.page if archive.address is None else f"{archive.address} ({archive.page})"
        raise FileNotFoundError(
            f"{archive.name} is not here and cannot be fetched by thali: get it from {where} and {by_hand}"
        )
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{archive.name}-", dir=into) as scratch:
        zipped, files = Path(scratch) / "archive.zip", Path(scratch) / "files"
        digest = hashlib.sha256()
        with zipped.open("wb") as file:
            for chunk in _chunks(archive.address, by_hand):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != archive.sha256:
            raise ValueError(
                f"{archive.address} must have SHA-256 {archive.sha256}, got {digest.hexdigest()}: nothing was kept. "
                f"Try again, or get it from {archive.page} and {by_hand}"
            )
        files.mkdir()
        _unzip(zipped, files, archive.address)
        if not (files / archive.inside).is_dir():
            raise ValueError(f"{archive.address} must hold a folder {archive.inside!r}, got {os.listdir(files)}")
        try:
            os.replace(files / archive.inside, final)
        except OSError:
            if not final.is_dir():  # if it exists, another process was faster
                raise
    return final


def _chunks(address: str, by_hand: str) -> Iterator[bytes]:
    """Download the bytes at an address; raises OSError if they cannot be read completely."""
    import urllib.request  # a slow import, and few calls fetch anything
    from http.client import HTTPException
    from urllib.error import HTTPError

    request = urllib.request.Request(address, headers={"User-Agent": "thali"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            promised, received = response.headers.get("Content-Length"), 0
            while chunk := response.read(1 << 20):
                received += len(chunk)
                yield chunk
        if promised is not None and received != int(promised):
            raise OSError(f"it ended after {received} of {promised} bytes")
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):  # the error is also the open response
            error.close()
        raise OSError(f"{address} could not be fetched: {error}. Get it in another way and {by_hand}") from error


def _unzip(zipped: Path, files: Path, address: str) -> None:
    """Unpack. Before anything is written, a member that would land outside the folder is refused."""
    with zipfile.ZipFile(zipped) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            link = stat.S_ISLNK(member.external_attr >> 16)
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename or link:
                raise ValueError(f"{address} must hold only files of its own folder, got {member.filename!r}")
        archive.extractall(files)
