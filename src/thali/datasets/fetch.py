"""The archives of published data sets: their names, addresses and SHA-256 digests, and where their files are stored."""

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
    """A data set and how to get it.

    name: the name of its folder. files: a description of the files that the folder must contain. page: the publisher's
    page about the data and its license. address, sha256: the address and digest of the zip file, which is downloaded
    only if both are known. inside: the folder in the zip that contains the files; "" if they are at the top level.
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

#: All archives by name. Each SHA-256 was found in at least two independent public repositories.
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
        Archive("ranklens", "events.jsonl.gz", "https://github.com/metarank/ranklens"),
    )
}


def folder(name: str, root: str | Path | None = None, *, archives: Mapping[str, Archive] = ARCHIVES) -> Path:
    """Return the folder of the data set with this name.

    If root is given, it is ``root/name``, or root itself if that is called ``name``. Nothing is downloaded. Without
    root, it is ``$THALI_DATA/name`` if that exists, and otherwise the folder in the cache, to which the data set is
    downloaded if necessary and possible.
    """
    archive = archives[name]
    existing = found(name, root)
    if existing is not None:
        return existing
    if root is not None:
        raise FileNotFoundError(
            f"{Path(root) / name} does not exist: it must contain {archive.files}, which you can get from "
            f"{archive.address or archive.page}"
        )
    return fetch(archive, cache())


def found(name: str, root: str | Path | None = None) -> Path | None:
    """Return the same folder as :func:`folder` if it already exists, else None. Nothing is downloaded."""
    if root is not None:
        base = Path(root)
        if (base / name).is_dir():
            return base / name
        return base if base.is_dir() and Path(os.path.abspath(base)).name == name else None
    shared = os.environ.get("THALI_DATA")
    places = ([Path(shared) / name] if shared else []) + [cache() / name]
    return next((place for place in places if place.is_dir()), None)


def cache() -> Path:
    """Return the cache folder, which contains downloaded files.

    It is ``$THALI_CACHE`` if that is set, else ``$XDG_CACHE_HOME/thali`` if that is set, else ``~/.cache/thali``.
    """
    own, common = os.environ.get("THALI_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if own:
        return Path(own)
    return (Path(common) if os.path.isabs(common) else Path.home() / ".cache") / "thali"


def fetch(archive: Archive, into: Path) -> Path:
    """Download the archive, check it, unpack it, and move the files to ``into/name``. Return that folder.

    The folder is moved in one step, so an interrupted download leaves nothing behind. If two processes download the
    same archive, the slower one uses the folder of the faster one. A network failure raises OSError, and a wrong
    SHA-256 raises ValueError; both messages explain how to install the files by hand. Cost: while it runs, it needs
    disk space for the zip and the files together.
    """
    final = into / archive.name
    by_hand = f"put {archive.files} into {final}, or into a folder {archive.name} inside the folder $THALI_DATA"
    if archive.address is None or archive.sha256 is None:
        where = archive.page if archive.address is None else f"{archive.address} ({archive.page})"
        raise FileNotFoundError(
            f"{archive.name} was not found, and thali cannot download it: get it from {where} and {by_hand}"
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
                f"{archive.address} must have SHA-256 {archive.sha256}, got {digest.hexdigest()}, so the download was "
                f"discarded. Try again, or get it from {archive.page} and {by_hand}"
            )
        files.mkdir()
        _unzip(zipped, files, archive.address)
        if not (files / archive.inside).is_dir():
            raise ValueError(f"{archive.address} must contain a folder {archive.inside!r}, got {os.listdir(files)}")
        try:
            os.replace(files / archive.inside, final)
        except OSError:
            if not final.is_dir():  # if it exists, another process was faster
                raise
    return final


def _chunks(address: str, by_hand: str) -> Iterator[bytes]:
    """Download the bytes at an address. Raise OSError if they cannot be read completely."""
    import urllib.request  # imported here because it is slow and rarely needed
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
            raise OSError(f"the download ended after {received} of {promised} bytes")
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):  # the error is also the open response
            error.close()
        raise OSError(f"{address} could not be downloaded: {error}. Get it another way and {by_hand}") from error


def _unzip(zipped: Path, files: Path, address: str) -> None:
    """Unpack an archive. If any file would be written outside the folder, raise an error and unpack nothing."""
    with zipfile.ZipFile(zipped) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            link = stat.S_ISLNK(member.external_attr >> 16)
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename or link:
                raise ValueError(
                    f"the archive at {address} must contain only relative paths without '..' and no links, "
                    f"got {member.filename!r}"
                )
        archive.extractall(files)
