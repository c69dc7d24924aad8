"""``thali replay``, ``backup``, ``restore``, ``export``, ``import``; all work while a service uses the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from thali.service.recommender import Recommender
    from thali.service.stores import SqlStore

Store = Annotated[str, typer.Option(help="sqlite:///FILE or postgresql://….", envvar="THALI_STORE")]
DEFAULT = "sqlite:///thali.db"
Replace = Annotated[bool, typer.Option("--replace", help="In place of what is there.")]


def replay(
    log: Annotated[Path, typer.Argument(help="Lines of JSON: user, items, clicked, and perhaps time, learner.")],
    store: Store = DEFAULT,
    catalog: Annotated[
        Path | None, typer.Option(help="The catalog file; the one that the store was served with, by default.")
    ] = None,
    keep_days: Annotated[float, typer.Option(min=0.001, help="Older lists are learned from, but not kept.")] = 30.0,
) -> None:
    """Learn from past lists and clicks, once: stopped, it goes on where it was; run again, it does nothing."""
    from thali.service.recommender.replay import replay as learn

    with _recommender(store, catalog, keep_days) as recommender, _bar("lines") as advance:
        done = learn(recommender, log, advance)
    again = f"; {done.before} lines were learned before" if done.before else ""
    typer.echo(f"Learned from {done.learned} lists of {log}{again}.")


def backup(
    path: Annotated[Path, typer.Argument(help="The new file: all of the store as it is now, as a SQLite database.")],
    store: Store = DEFAULT,
) -> None:
    """Copy a store into one file, while it is in use."""
    from thali.service.stores.transfer import backup as copy

    with _open(store) as opened, _bar("rows") as advance:
        rows = copy(opened, path, advance)
    typer.echo(f"{rows} rows of {opened.url} are in {path}.")


def restore(
    path: Annotated[Path, typer.Argument(help="A file written by 'thali backup', of either kind of store.")],
    store: Store = DEFAULT,
    replace: Replace = False,
) -> None:
    """Put a backup into an empty store, or in place of all that is there; also the way from SQLite to PostgreSQL."""
    from thali.service.stores.transfer import restore as put

    with _open(store, new=True) as opened, _bar("rows") as advance:
        rows = put(path, opened, replace=replace, progress=advance)
    typer.echo(f"{rows} rows of {path} are in {opened.url}.")


def export(
    path: Annotated[Path, typer.Argument(help="The new file: a line of JSON for each person and learner.")],
    store: Store = DEFAULT,
) -> None:
    """Write what was learned of people (M and B, by names of topics), while the store is in use."""
    from thali.service.stores.transfer import export_learned

    with _open(store) as opened, _bar("rows") as advance:
        count = export_learned(opened, path, advance)
    typer.echo(f"What was learned of people, {count} lines, is in {path}.")


def import_(
    path: Annotated[Path, typer.Argument(help="A file written by 'thali export'.")],
    store: Store = DEFAULT,
    replace: Replace = False,
) -> None:
    """Put what was learned elsewhere into a store, by names of people, learners and topics."""
    from thali.service.stores.transfer import import_learned

    with _open(store, new=True) as opened, _bar("lines") as advance:
        count = import_learned(path, opened, replace=replace, progress=advance)
    typer.echo(f"What was learned of people, {count} lines, is in {opened.url}.")


@contextmanager
def _open(url: str, *, new: bool = False) -> Iterator[SqlStore]:
    from thali.service.stores import open_store

    _, _, path = url.partition("sqlite:///")
    if path and not new and not Path(path).is_file():
        raise FileNotFoundError(f"store must be there, found nothing at {url}")
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def _recommender(url: str, catalog: Path | None, keep_days: float) -> Recommender:
    """Open a recommender with the learners that the store was last served with, or the service's default."""
    import json

    from thali.catalog.file import load_catalog
    from thali.policies import POLICIES
    from thali.service.recommender import Recommender
    from thali.service.recommender.live_catalog import content_digest
    from thali.service.recommender.recommender import DAY_S
    from thali.service.stores.transfer import PATIENCE_S

    _, _, path = url.partition("sqlite:///")
    if path and catalog is None and not Path(path).is_file():
        raise FileNotFoundError(f"store must be there where no catalog is given, found nothing at {url}")
    running: dict[str, dict[str, Any]] = {}
    with _open(url, new=True) as opened, opened.transaction(PATIENCE_S):
        opened.migrate()
        running = json.loads(opened.meta("running") or "{}")
        served, heading = opened.meta("catalog"), opened.heading()
    if catalog is None and served is None:
        raise ValueError(f"catalog must be given, as store {url} was not served yet")
    loaded = load_catalog(str(catalog or served))
    if heading is not None and heading.digest != content_digest(loaded):
        where = catalog or served
        raise ValueError(f"catalog must be the one of the store, got another in {where}: serve that one first")
    if not running:
        running = {"default": {"policy": "CascadeLSB", "K": 10, "sigma": None, "examined": None, "share": 1.0}}
    policies: dict[str, Any] = {
        name: POLICIES[settings["policy"]](
            loaded, min(settings["K"], len(loaded)), sigma=settings["sigma"], examined=settings["examined"]
        )
        for name, settings in running.items()
    }
    shares = {name: settings["share"] for name, settings in running.items()}
    return Recommender(policies, url, shares=shares, keep=keep_days * DAY_S)


@contextmanager
def _bar(unit: str) -> Iterator[Callable[[int], None]]:
    """Show a running count on standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn(f"{{task.completed:,}} {unit}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda made: bar.advance(task, made)
