"""Small files in the publishers' formats, made up: nothing of theirs is in the tree."""

from pathlib import Path

import numpy as np

GENRES = ("Action", "Comedy", "Drama", "Horror", "Musical", "War")


def write_movielens(root: Path, users: int = 60, films: int = 130, seed: int = 0) -> Path:
    """root/ml-1m in the format of MovieLens 1M: each film of one or two genres, each user with favourite ones."""
    rng = np.random.default_rng(seed)
    folder = root / "ml-1m"
    folder.mkdir(parents=True)
    of_film = [sorted(rng.choice(GENRES, size=rng.integers(1, 3), replace=False)) for _ in range(films)]
    lines = [f"{film + 1}::Film {film + 1} (2000)::{'|'.join(of_film[film])}" for film in range(films)]
    (folder / "movies.dat").write_text("\n".join(lines) + "\n", encoding="latin-1")
    ratings = []
    for user in range(users):
        liked = set(rng.choice(GENRES, size=2, replace=False))
        for film in rng.choice(films, size=films // 2, replace=False):
            stars = 5 if liked & set(of_film[film]) and rng.random() < 0.6 else int(rng.integers(1, 5))
            ratings.append(f"{user + 1}::{film + 1}::{stars}::978300000")
    (folder / "ratings.dat").write_text("\n".join(ratings) + "\n")
    return root
