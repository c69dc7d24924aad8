"""MovieLens, by GroupLens (Harper and Konstan 2015): films, their genres, and stars."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from thali.datasets import fetch
from thali.datasets.files import Kind, Table, collect
from thali.datasets.interactions import Interactions

#: What the newer files write for a film without genres; it has no topics.
NO_GENRES = "(no genres listed)"


def movielens_100k(root: str | Path | None = None) -> Interactions:
    """MovieLens 100K. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-100k", root))


def movielens_1m(root: str | Path | None = None) -> Interactions:
    """MovieLens 1M, the paper's: 1,000,209 ratings of 3,883 films by 6,040 users, 18 genres.

    root: the folder that holds ``ml-1m/``; by default ``$THALI_DATA``, else it is fetched into the cache folder.
    """
    return movielens(fetch.folder("ml-1m", root))


def movielens_10m(root: str | Path | None = None) -> Interactions:
    """MovieLens 10M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-10M100K", root))


def movielens_20m(root: str | Path | None = None) -> Interactions:
    """MovieLens 20M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-20m", root))


def movielens_25m(root: str | Path | None = None) -> Interactions:
    """MovieLens 25M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-25m", root))


def movielens_32m(root: str | Path | None = None) -> Interactions:
    """MovieLens 32M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-32m", root))


def movielens(folder: str | Path) -> Interactions:
    """Any MovieLens folder, by the files in it: ``u.data``, ``ratings.dat`` (with or without time) or ``ratings.csv``.

    Films are named by their MovieLens numbers. A film rated twice by one user, one that is not in the list of films, or
    stars outside 0.5..5 are errors that name file and line; a film without genres is kept, without topics.
    """
    folder = Path(folder)
    where, films = _films(folder)
    ratings: dict[str, Kind] = {"user": "whole", "item": "whole", "value": "number"}
    if where.name == "u.item":
        table = Table(folder / "u.data", ratings, separator="\t", header=False, quoted=False)
    elif where.name == "movies.dat":
        table = Table(folder / "ratings.dat", ratings, "::", header=False, quoted=False)
    else:
        table = Table(folder / "ratings.csv", {"userId": "whole", "movieId": "whole", "rating": "number"})
    genres = [film.genres for film in films.values()]
    return collect(table, list(films), genres, items_path=where, lowest=0.5, highest=5.0)


def movielens_titles(folder: str | Path) -> dict[int, str]:
    """Titles by MovieLens number, as they are written there ("Matrix, The (1999)"). folder: as in :func:`movielens`."""
    return {number: film.title for number, film in _films(Path(folder))[1].items()}


class Film(NamedTuple):
    """What the list of films says of one."""

    title: str
    genres: list[str]


def _films(folder: Path) -> tuple[Path, dict[int, Film]]:
    """The list of films and what it says, in whichever of the publisher's formats the folder has."""
    if (folder / "u.data").exists():
        return folder / "u.item", _films_100k(folder)
    if (folder / "ratings.dat").exists():
        where = folder / "movies.dat"
        columns: dict[str, Kind] = {"movie": "whole", "title": "text", "genres": "text"}
        return where, _lines(Table(where, columns, "::", False, False, _old(where)))
    if (folder / "ratings.csv").exists():
        where = folder / "movies.csv"
        return where, _lines(Table(where, {"movieId": "whole", "title": "text", "genres": "text"}))
    raise FileNotFoundError(f"{folder} must hold MovieLens files: u.data, ratings.dat or ratings.csv; none is there")


def _lines(table: Table) -> dict[int, Film]:
    """Films, from lines of number, title, and genres joined by |."""
    films: dict[int, Film] = {}
    for line, (number, title, genres) in table.rows():
        key = _number(table.path, line, number)
        if key in films:
            raise ValueError(f"{table.path}, line {line}: film {key} is here already")
        films[key] = Film(title, [] if genres in ("", NO_GENRES) else genres.split("|"))
    return films


def _films_100k(folder: Path) -> dict[int, Film]:
    """Films, from u.genre (name|number) and u.item, whose last fields are a flag for each genre."""
    genres = [line.split("|")[0] for line in (folder / "u.genre").read_text("latin-1").splitlines() if line.strip()]
    if not genres:
        raise ValueError(f"{folder / 'u.genre'} is empty")
    films: dict[int, Film] = {}
    with (folder / "u.item").open(encoding="latin-1") as file:
        for line, text in enumerate(file, start=1):
            fields = text.rstrip("\r\n").split("|")
            flags = fields[-len(genres) :]
            if len(fields) < len(genres) + 2 or not set(flags) <= {"0", "1"}:
                raise ValueError(
                    f"{folder / 'u.item'}, line {line}: must end in {len(genres)} flags 0 or 1, "
                    f"got {text.strip()[-60:]!r}"
                )
            key = _number(folder / "u.item", line, fields[0])
            if key in films:
                raise ValueError(f"{folder / 'u.item'}, line {line}: film {key} is here already")
            # The first, "unknown", says that there are none.
            its = [name for name, flag in zip(genres, flags, strict=True) if flag == "1" and name != "unknown"]
            films[key] = Film(fields[1], its)
    return films


def _number(path: Path, line: int, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{path}, line {line}: the film's number must be whole, got {text!r}") from None


def _old(path: Path) -> str:
    """1M is latin-1, 10M is UTF-8, and neither says so."""
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
