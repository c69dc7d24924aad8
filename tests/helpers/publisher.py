"""Small random files in the publishers' formats. The repository contains none of the publishers' data."""

from pathlib import Path

import numpy as np

GENRES = ("Action", "Comedy", "Drama", "Horror", "Musical", "War")


def write_movielens(root: Path, users: int = 60, films: int = 130, seed: int = 0) -> Path:
    """Write root/ml-1m in the format of MovieLens 1M. A film has one or two genres, a user has two favorite genres."""
    rng = np.random.default_rng(seed)
    folder = root / "ml-1m"
    folder.mkdir(parents=True)
    genres_of = [sorted(rng.choice(GENRES, size=rng.integers(1, 3), replace=False)) for _ in range(films)]
    lines = [f"{film + 1}::Film {film + 1} (2000)::{'|'.join(genres_of[film])}" for film in range(films)]
    (folder / "movies.dat").write_text("\n".join(lines) + "\n", encoding="latin-1")
    ratings = []
    for user in range(users):
        liked = set(rng.choice(GENRES, size=2, replace=False))
        for film in rng.choice(films, size=films // 2, replace=False):
            stars = 5 if liked & set(genres_of[film]) and rng.random() < 0.6 else int(rng.integers(1, 5))
            ratings.append(f"{user + 1}::{film + 1}::{stars}::978300000")
    (folder / "ratings.dat").write_text("\n".join(ratings) + "\n")
    return root
