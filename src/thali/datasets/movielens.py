"""MovieLens, by GroupLens (Harper and Konstan 2015): films, their genres, and stars."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from thali.datasets import fetch
from thali.datasets.files import Kind, Table, collect
from thali.datasets.interactions import Interactions

#: The newer files write this for a film without genres, which gets no topics.
NO_GENRES = "(no genres listed)"


def movielens_100k(root: str | Path | None = None) -> Interactions:
    """MovieLens 100K. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-100k", root))


def movielens_1m(root: str | Path | None = None) -> Interactions:
    """MovieLens 1M, as used in the paper: 1,000,209 ratings of 3,883 films by 6,040 users, 18 genres.

    root: the folder that holds ``ml-1m/``; by default ``$THALI_DATA``, else the cache folder, into which it is fetched.
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

    Films are named by their MovieLens numbers. A film rated twice by one user, a film that is not in the list of films,
    and stars outside 0.5..5 are errors that name file and line. A film without genres is kept, without topics.
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
    """Titles by MovieLens number, as in the file ("Matrix, The (1999)"). folder: as in :func:`movielens`."""
    return {number: film.title for number, film in _films(Path(folder))[1].items()}


class Film(NamedTuple):
    """An entry of the list of films."""

    title: str
    genres: list[str]


def _films(folder: Path) -> tuple[Path, dict[int, Film]]:
    """The path of the list of films and its entries, in whichever of the publisher's formats the folder has."""
    if (folder / "u.data").exists():
        return folder / "u.item", _films_100k(folder)
    if (folder / "ratings.dat").exists():
        where = folder / "movies.dat"
        columns: dict[str, Kind] = {"movie": "whole", "title": "text", "genres": "text"}
        return where, _lines(Table(where, columns, "::", False, False, _encoding(where)))
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
    """Films, from u.genre (name|number) and u.item, whose last fields are one flag per genre."""
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
            # The first genre, "unknown", means that there are none.
            own = [name for name, flag in zip(genres, flags, strict=True) if flag == "1" and name != "unknown"]
            films[key] = Film(fields[1], own)
    return films


def _number(path: Path, line: int, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{path}, line {line}: the film's number must be whole, got {text!r}") from None


def _encoding(path: Path) -> str:
    """The encoding of movies.dat: 1M is latin-1, 10M is UTF-8, and the files do not declare it."""
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
