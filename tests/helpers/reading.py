"""Reads the stored files as plain values: make_files.py writes these values, test_files.py compares them.

Uses only the public names and commands of thali, so that it runs with older and newer versions of the code.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import thali

FILES = Path(__file__).parents[1] / "compatibility" / "files"
#: The time at which the store is read: a day after the last list was shown.
NOW = 1_700_200_000.0
K = 3
USERS = ("ana", "ben", "cleo", "dev", "Zoë 李", "eva", "finn")


def command(*words: Any, cwd: Path) -> str:
    """Run a thali command and return its output. Raise an error if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "thali", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise RuntimeError(f"thali {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def copied(name: str, folder: Path) -> Path:
    """Copy a file or folder, so that the original stays unchanged. Return the path of the copy."""
    source, target = FILES / name, folder / name
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return target


# Catalogs


def read_catalog(path: Path) -> dict[str, Any]:
    """Return everything in a catalog file."""
    catalog = thali.load_catalog(path)
    return {
        "items": list(catalog.items),
        "topics": list(catalog.topics),
        "coverage": catalog.coverage,
        "weights": catalog.dense.tolist(),
    }


# States


def policy_of(entry: dict[str, Any], folder: Path) -> Any:
    """Return the policy that a state belongs to. entry: its entry in expected.json."""
    catalog = thali.load_catalog(folder / entry["catalog"])
    return getattr(thali, entry["policy"])(catalog, K, **entry["settings"])


def digests(state: Any) -> dict[str, str]:
    """The SHA-256 of the type, shape and bytes of each array."""
    return {
        name: sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).hexdigest()
        for name, array in state.arrays.items()
    }


def read_state(path: Path, policy: Any, clicks: Any, *, seed: int) -> dict[str, Any]:
    """Return the contents of a state file, the lists that follow from it, and its arrays after one update."""
    state = thali.load_state(path)
    result: dict[str, Any] = {"learner": state.learner, "users": state.users, "arrays": digests(state)}
    lists = policy.recommend(state, seed)
    result["lists"] = lists.tolist()
    policy.update(state, lists, clicks)
    result["updated"] = digests(state)
    return result


# Stores


def sqlite(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{path}"


def recommender(url: str, folder: Path, **rest: Any) -> Any:
    """A recommender on the store of the compatibility files, at a fixed time."""
    catalog = thali.load_catalog(folder / "films.parquet")
    return thali.Recommender({"diverse": diverse(catalog)}, url, clock=lambda: NOW, **rest)


def both_learners(url: str, folder: Path) -> Any:
    """The same recommender, with the retired learner too."""
    catalog = thali.load_catalog(folder / "films.parquet")
    learners = {"diverse": diverse(catalog), "plain": plain(catalog)}
    return thali.Recommender(learners, url, shares={"diverse": 0.7, "plain": 0.3}, clock=lambda: NOW)


def diverse(catalog: Any) -> Any:
    """The learner that is still in use."""
    return thali.CascadeLSB(catalog, K=K, sigma=0.2)


def plain(catalog: Any) -> Any:
    """The retired learner."""
    return thali.CascadeLinUCB(catalog, K=K, sigma=0.3, examined="last-click")


def read_store(url: str, folder: Path) -> dict[str, Any]:
    """Return all that a store contains about users, items and learners, and the next list of each user."""
    with recommender(url, folder) as rec:
        return {
            "items": [[item.item, item.weights] for item in rec.items(limit=1000).items],
            "users": {user: seen_user(rec.user(user)) for user in USERS},
            "learned": {user: learned(rec, user) for user in USERS},
            "history": {user: [seen_list(seen) for seen in rec.impressions(user)] for user in USERS},
            "stats": seen_stats(rec.stats(hours=24 * 30)),
            "next": {user: items(rec.recommend(user)) for user in USERS},
        }


def items(shown: Any) -> list[Any]:
    """The names of the items of a list."""
    return [item.item for item in shown.items]


def learned(rec: Any, user: str) -> dict[str, Any]:
    """Return a user's exact statistics, by learner."""
    return {
        name: {"updates": kept.updates, "topics": list(kept.topics), "M": kept.M, "B": kept.B}
        for name, kept in rec.export(user)["learners"].items()
    }


def seen_user(user: Any) -> dict[str, Any]:
    """Return the result of ``Recommender.user`` as plain values."""
    return {
        "user": user.user,
        "impressions": user.impressions,
        "answered": user.answered,
        "clicked": user.clicked,
        "learners": {
            name: {
                "updates": taste.updates,
                "assigned": taste.assigned,
                "taste": [[topic.topic, topic.estimate, topic.low, topic.high] for topic in taste.taste],
            }
            for name, taste in user.learners.items()
        },
    }


def seen_list(seen: Any) -> dict[str, Any]:
    """Return a list as it was shown, and the answer to it."""
    return {
        "impression": seen.impression,
        "user": seen.user,
        "learner": seen.learner,
        "shown_at": seen.shown_at,
        "click_probability": seen.click_probability,
        "items": [
            [item.position, item.item, list(item.topics), item.gains, item.belief, item.exploration]
            for item in seen.items
        ],
        "clicked": seen.clicked,
        "answer": seen.answer,
        "answered_at": seen.answered_at,
    }


def seen_stats(stats: Any) -> dict[str, Any]:
    """Return the result of ``Recommender.stats`` as plain values, without the URL of the store."""
    return {
        "since": stats.since,
        "items": stats.items,
        "topics": stats.topics,
        "learners": {
            name: {
                **{what: getattr(its, what) for what in ("policy", "K", "sigma", "alpha", "share", "users")},
                **counts(its),
                "calibration": [
                    [at.above, at.below, at.answered, at.predicted, at.observed.rate] for at in its.calibration
                ],
            }
            for name, its in stats.learners.items()
        },
        "hours": [{"hour": its.hour, "learner": its.learner, **counts(its)} for its in stats.hours],
    }


def counts(its: Any) -> dict[str, Any]:
    """Return the counts and means of a learner or an hour."""
    named = ("impressions", "answered", "clicked", "diversity", "exploration_share")
    return {what: getattr(its, what) for what in named}
