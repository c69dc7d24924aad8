"""``thali replay``, ``backup``, ``restore``, ``export`` and ``import``. All work while a service uses the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thali.tools.extras import require

if TYPE_CHECKING:
    from thali.service.recommender import Recommender
    from thali.service.stores import SqlStore

Store = Annotated[
    str, typer.Option(help="Store of the service: sqlite:///FILE, or a postgresql:// URL.", envvar="THALI_STORE")
]
DEFAULT = "sqlite:///thali.db"


def replay(
    log: Annotated[Path, typer.Argument(help="Log file, with one JSON object per line.")],
    store: Store = DEFAULT,
    catalog: Annotated[
        Path | None, typer.Option(help="Catalog file (default: the one that the service last used with this store).")
    ] = None,
    keep_days: Annotated[
        float,
        typer.Option(min=0.001, help="Learn from lists older than this many days, but do not store them."),
    ] = 30.0,
) -> None:
    """Learn from a log of past lists and clicks.

    Each line of the log is a list that was shown, such as {"user": "ana", "items": ["Heat", "Fargo"], "clicked": [1]}.
    Clicked positions count from 0. Use [] if nothing was clicked, and null if it is not known what was clicked. The
    fields "time" (in seconds since 1970) and "learner" are optional.

    thali learns from each line exactly once. An interrupted replay resumes where it stopped. If the log has grown since
    the last replay, only the new lines are used.

    Example: thali replay log.jsonl --store sqlite:///thali.db
    """
    try:
        from thali.service.recommender.replay import replay as learn

        with _recommender(store, catalog, keep_days) as recommender, _bar("lines") as advance:
            learned, before = learn(recommender, log, advance)
    except KeyboardInterrupt as interrupt:
        learned, before = getattr(interrupt, "done", (0, 0))  # without done, the replay had not begun
        sentence = _learned(log, learned, before)
        typer.echo(f"Interrupted. {sentence} To learn from the rest, run the same command again.", err=True)
        raise typer.Exit(130) from None
    typer.echo(_learned(log, learned, before))


def _learned(log: Path, learned: int, before: int) -> str:
    again = f" ({_count(before, 'line')} had been used previously)" if before else ""
    return f"Learned from {_count(learned, 'list')} in {log}{again}."


def backup(
    path: Annotated[Path, typer.Argument(help="SQLite file to write. It must not exist yet.")],
    store: Store = DEFAULT,
) -> None:
    """Copy a store into one file.

    The store may be in use. The file is a consistent snapshot of the store.

    Example: thali backup thali.backup
    """
    from thali.service.stores.transfer import backup as copy

    with _open(store) as opened, _bar("rows") as advance:
        rows = copy(opened, path, advance)
    typer.echo(f"Copied {_count(rows, 'row')} from {opened.url} to {path}.")


def restore(
    path: Annotated[Path, typer.Argument(help="File written by 'thali backup', from SQLite or PostgreSQL.")],
    store: Store = DEFAULT,
    replace: Annotated[bool, typer.Option("--replace", help="Replace everything that the store contains.")] = False,
) -> None:
    """Restore a backup into a store.

    The store must be empty unless --replace is given. To move from SQLite to PostgreSQL, back up the SQLite store and
    restore the backup into the PostgreSQL store.

    Example: thali restore thali.backup --store postgresql://localhost/thali
    """
    from thali.service.stores.transfer import restore as put

    with _open(store, new=True) as opened, _bar("rows") as advance:
        rows = put(path, opened, replace=replace, progress=advance)
    typer.echo(f"Copied {_count(rows, 'row')} from {path} to {opened.url}.")


def export(
    path: Annotated[Path, typer.Argument(help="File to write, with one JSON object per line. It must not exist yet.")],
    store: Store = DEFAULT,
) -> None:
    """Export what a store learned about users.

    Write the statistics of each user for each learner (the matrix M and vector B of the paper's Algorithm 1), with
    topic names. The store may be in use.

    Example: thali export users.jsonl
    """
    from thali.service.stores.transfer import export_learned

    with _open(store) as opened, _bar("rows") as advance:
        count = export_learned(opened, path, advance)
    typer.echo(f"Exported {_count(count, 'line')} of statistics to {path}.")


def import_(
    path: Annotated[Path, typer.Argument(help="File written by 'thali export'.")],
    store: Store = DEFAULT,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the statistics of users that the store already contains.")
    ] = False,
) -> None:
    """Import what another store learned about users.

    Users, learners and topics are matched by name. If the store already contains statistics of one of the users, the
    import fails, unless --replace is given.

    Example: thali import users.jsonl --store postgresql://localhost/thali
    """
    from thali.service.stores.transfer import import_learned

    with _open(store, new=True) as opened, _bar("lines") as advance:
        count = import_learned(path, opened, replace=replace, progress=advance)
    typer.echo(f"Imported {_count(count, 'line')} of statistics into {opened.url}.")


def _count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


@contextmanager
def _open(url: str, *, new: bool = False) -> Iterator[SqlStore]:
    from thali.service.stores import open_store

    if url.startswith("postgres"):
        require("a PostgreSQL store", "serve", "psycopg")
    _, _, path = url.partition("sqlite:///")
    if path and not new and not Path(path).is_file():
        raise FileNotFoundError(f"store must exist, found nothing at {url}")
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def _recommender(url: str, catalog: Path | None, keep_days: float) -> Recommender:
    """Open a recommender with the learners that the service last used with this store, or with the default learner."""
    import json

    from thali.catalog.file import load_catalog
    from thali.policies import POLICIES
    from thali.service.recommender import Recommender
    from thali.service.recommender.live_catalog import content_digest
    from thali.service.recommender.recommender import DAY_S
    from thali.service.stores.transfer import PATIENCE_S

    _, _, path = url.partition("sqlite:///")
    if path and catalog is None and not Path(path).is_file():
        raise FileNotFoundError(f"store must exist unless --catalog is given, found nothing at {url}")
    running: dict[str, dict[str, Any]] = {}
    with _open(url, new=True) as opened, opened.transaction(PATIENCE_S):
        opened.migrate()
        running = json.loads(opened.meta("running") or "{}")
        last_catalog, heading = opened.meta("catalog"), opened.heading()
    if catalog is None and last_catalog is None:
        raise ValueError(f"catalog must be given with --catalog, because no service has used store {url} yet")
    loaded = load_catalog(str(catalog or last_catalog))
    if heading is not None and heading.digest != content_digest(loaded):
        raise ValueError(
            f"catalog must be the one that the store uses, got a different one in {catalog or last_catalog}; "
            "to switch to it, run 'thali serve' with it first"
        )
    if not running:
        running = {"default": {"policy": "CascadeLSB", "K": 10, "sigma": None, "examined": None, "share": 1.0}}
    policies: dict[str, Any] = {}
    for name, settings in running.items():
        policy: Any = POLICIES[settings["policy"]](loaded, 1, sigma=settings["sigma"], examined=settings["examined"])
        policies[name] = policy.variant(settings["K"])  # K may exceed the number of items
    shares = {name: settings["share"] for name, settings in running.items()}
    return Recommender(policies, url, shares=shares, keep=keep_days * DAY_S)


@contextmanager
def _bar(unit: str) -> Iterator[Callable[[int], None]]:
    """Show a running count on standard error; yields a function that adds to it."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn(f"{{task.completed:,}} {unit}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda count: bar.advance(task, count)
