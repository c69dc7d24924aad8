"""RankLens (Metarank 2021): lists of films that were shown to people in random order, and which films they liked."""

from __future__ import annotations

from pathlib import Path

from thali.datasets import fetch
from thali.datasets.log import Log

#: The names that the file may have.
NAMES = ("events.jsonl.gz", "events.jsonl")


def ranklens(root: str | Path | None = None) -> Log:
    """Load RankLens, in which people were shown lists of 24 films and marked all films that they liked.

    Most people were shown 5 lists. The films of a list have a tag in common and were shown in random order. A click
    means that the person liked the film. People marked films anywhere in a list, so ``examined`` is "all". The topics
    are the genres. Films without a description are kept, without topics. The titles are in ``titles``. The order of
    clicks in a list is not recorded.

    root: the folder that contains ``ranklens/events.jsonl.gz``, by default ``$THALI_DATA``. thali cannot download this
    file. It can also be the path of a single file in the same format (Metarank's events), which may have any name.

    Cost: about a second.
    """
    if root is not None and Path(root).is_file():
        return Log.read(root, examined="all")
    folder = fetch.folder("ranklens", root)
    path = next((folder / name for name in NAMES if (folder / name).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{folder} must contain {' or '.join(NAMES)}, got neither")
    return Log.read(path, examined="all")
