"""The MovieLens data sets of GroupLens (Harper and Konstan 2015): ratings of films with stars, and genres of films."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from thali.datasets import fetch
from thali.datasets.files import Kind, Table, collect
from thali.datasets.interactions import Interactions

#: The newer files contain this text for a film without genres. Such a film has no topics.
NO_GENRES = "(no genres listed)"


def movielens_100k(root: str | Path | None = None) -> Interactions:
    """Load MovieLens 100K. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-100k", root))


def movielens_1m(root: str | Path | None = None) -> Interactions:
    """Load MovieLens 1M, which the paper uses: 1,000,209 ratings of 3,883 films with 18 genres by 6,040 users.

    root: the folder that contains ``ml-1m/``. By default, it is ``$THALI_DATA`` or, if that has no ``ml-1m/``, the
    cache folder, to which the data set is downloaded.
    """
    return movielens(fetch.folder("ml-1m", root))


def movielens_10m(root: str | Path | None = None) -> Interactions:
    """Load MovieLens 10M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-10M100K", root))


def movielens_20m(root: str | Path | None = None) -> Interactions:
    """Load MovieLens 20M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-20m", root))


def movielens_25m(root: str | Path | None = None) -> Interactions:
    """Load MovieLens 25M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-25m", root))


def movielens_32m(root: str | Path | None = None) -> Interactions:
    """Load MovieLens 32M. root: see :func:`movielens_1m`."""
    return movielens(fetch.folder("ml-32m", root))


def movielens(folder: str | Path) -> Interactions:
    """Load any folder of MovieLens files: ``u.data``, ``ratings.dat`` or ``ratings.csv``, with or without times.

    Films are named by their MovieLens numbers. Times are in seconds since 1970. It is an error if a user rated a film
    twice, if a film is not in the list of films, or if stars are outside 0.5..5; the error names the file and line. A
    film without genres is kept, without topics.
    """
    folder = Path(folder)
    where, films = _films(folder)
    if where.name == "u.item":
        table = _ratings(folder / "u.data", "\t")
    elif where.name == "movies.dat":
        table = _ratings(folder / "ratings.dat", "::")
    else:
        table = _ratings(folder / "ratings.csv", header=True)
    genres = [film.genres for film in films.values()]
    return collect(table, list(films), genres, items_path=where, lowest=0.5, highest=5.0)


def _ratings(path: Path, separator: str = ",", *, header: bool = False) -> Table:
    """Return the table of ratings in a file, with their times if it has any."""
    names = ("userId", "movieId", "rating", "timestamp") if header else ("user", "item", "value", "time")
    columns: dict[str, Kind] = dict(zip(names, ("whole", "whole", "number", "number"), strict=True))
    table = Table(path, columns, separator, header, quoted=header)
    first = table.header_names()
    if (names[3] not in first) if header else (len(first) < 4):
        del columns[names[3]]
    return table


def movielens_titles(folder: str | Path) -> dict[int, str]:
    """Return the title of each film by its MovieLens number. folder: as in :func:`movielens`.

    Titles are as in the file, such as "Matrix, The (1999)".
    """
    return {number: film.title for number, film in _films(Path(folder))[1].items()}


class Film(NamedTuple):
    """An entry in the list of films."""

    title: str
    genres: list[str]


def _films(folder: Path) -> tuple[Path, dict[int, Film]]:
    """Return the path of the list of films, and its entries by number. It may be in any of the publisher's formats."""
    if (folder / "u.data").exists():
        return folder / "u.item", _films_100k(folder)
    if (folder / "ratings.dat").exists():
        where = folder / "movies.dat"
        columns: dict[str, Kind] = {"movie": "whole", "title": "text", "genres": "text"}
        return where, _lines(Table(where, columns, "::", False, False, _encoding(where)))
    if (folder / "ratings.csv").exists():
        where = folder / "movies.csv"
        return where, _lines(Table(where, {"movieId": "whole", "title": "text", "genres": "text"}))
    raise FileNotFoundError(f"{folder} must contain u.data, ratings.dat or ratings.csv of MovieLens, got none of them")


def _lines(table: Table) -> dict[int, Film]:
    """Read films from lines with a number, a title, and genres separated by |."""
    films: dict[int, Film] = {}
    for line, (number, title, genres) in table.rows():
        key = _number(table.path, line, number)
        if key in films:
            raise ValueError(f"{table.path}, line {line}: film {key} appears twice")
        films[key] = Film(title, [] if genres in ("", NO_GENRES) else genres.split("|"))
    return films


def _films_100k(folder: Path) -> dict[int, Film]:
    """Read films from u.genre (name|number) and u.item, whose last fields are one flag per genre."""
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
                    f"{folder / 'u.item'}, line {line}: the line must end with {len(genres)} flags that are 0 or 1, "
                    f"got {text.strip()[-60:]!r}"
                )
            key = _number(folder / "u.item", line, fields[0])
            if key in films:
                raise ValueError(f"{folder / 'u.item'}, line {line}: film {key} appears twice")
            # The first genre, "unknown", means that the film has no genres.
            own = [name for name, flag in zip(genres, flags, strict=True) if flag == "1" and name != "unknown"]
            films[key] = Film(fields[1], own)
    return films


def _number(path: Path, line: int, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{path}, line {line}: the film's number must be a whole number, got {text!r}") from None


def _encoding(path: Path) -> str:
    """Return the encoding of movies.dat. It is latin-1 in 1M and UTF-8 in 10M, and the files do not declare it."""
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
