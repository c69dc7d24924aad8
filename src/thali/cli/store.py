"""``thali replay``, ``learn-from``, ``backup``, ``restore``, ``export`` and ``import``.

All work while a service uses the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thali.cli.tables import MOST_NAMES, AtLeast, DuplicatesOption, note_ratings
from thali.tools.extras import require

if TYPE_CHECKING:
    from thali.service.recommender import Recommender
    from thali.service.recommender.histories import Learned
    from thali.service.recommender.replay import Replayed
    from thali.service.stores import SqlStore

Store = Annotated[
    str, typer.Option(help="Store of the service: sqlite:///FILE, or a postgresql:// URL.", envvar="THALI_STORE")
]
CatalogPath = Annotated[
    Path | None, typer.Option(help="Catalog file (default: the one that the service last used with this store).")
]
DEFAULT = "sqlite:///thali.db"


def replay(
    log: Annotated[Path, typer.Argument(help="Log file, with one JSON object per line.")],
    store: Store = DEFAULT,
    catalog: CatalogPath = None,
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

    Items that have been removed from the catalog are left out of the lists. If such an item was clicked, the items
    below it are left out too, because it is no longer known which of them the person looked at.

    Example: thali replay log.jsonl --store sqlite:///thali.db
    """
    try:
        from thali.service.recommender.replay import replay as learn

        with _recommender(store, catalog, keep_days) as recommender, _bar("lines") as advance:
            done = learn(recommender, log, advance)
    except KeyboardInterrupt as interrupt:
        # Without done, the replay had not begun.
        sentence = _replayed(log, getattr(interrupt, "done", None))
        typer.echo(f"Interrupted. {sentence} To learn from the rest, run the same command again.", err=True)
        raise typer.Exit(130) from None
    typer.echo(_replayed(log, done))


def _replayed(log: Path, done: Replayed | None) -> str:
    if done is None:
        return f"Learned from 0 lists in {log}."
    again = f" ({_count(done.before, 'line')} had been used previously)" if done.before else ""
    text = f"Learned from {_count(done.learned, 'list')} in {log}{again}."
    if done.missing:
        text += f" {_left_out('position', done.missing)}."
        text += f" {_count(done.shortened, 'list')} became shorter, and {done.skipped:,} had nothing left."
    return text


def _left_out(what: str, missing: Mapping[str, int]) -> str:
    """Return a sentence about items that the catalog does not have, and the number of positions or likes with each."""
    total, items = sum(missing.values()), len(missing)
    ordered = sorted(missing.items(), key=lambda entry: (-entry[1], entry[0]))
    names = ", ".join(f"{name!r:.80} ({times:,})" for name, times in ordered[:MOST_NAMES])
    more = f" and {items - MOST_NAMES:,} more" if items > MOST_NAMES else ""
    are, were = "is" if items == 1 else "are", "was" if total == 1 else "were"
    said = f"{_count(total, what)} with {_count(items, 'item')} that {are} not in the catalog {were} left out"
    return f"{said}: {names}{more}"


def learn_from(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Table of interactions (CSV or Parquet) with columns user and item, and optionally value and time. "
            "Or a log of lists, as for 'thali replay', if the name ends in .jsonl.",
            show_default=False,
        ),
    ] = None,
    store: Store = DEFAULT,
    catalog: CatalogPath = None,
    id: Annotated[str, typer.Option(help="Name of what is learned, by which it can be replaced or undone.")] = (
        "history"
    ),
    at_least: AtLeast = None,
    duplicates: DuplicatesOption = None,
    learner: Annotated[
        str | None, typer.Option(help="Learner that learns it (default: the one that each user is assigned to).")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove what was learned under this --id.")] = False,
    user: Annotated[str | None, typer.Option(help="With --undo, remove it only for this user.")] = None,
) -> None:
    """Learn what people liked before they used thali.

    Use this for ratings, purchases or clicks from before thali. Each row of a table counts as something that the person
    liked. For ratings, use --at-least to count only the good ones. Items that are not in the catalog are left out.

    You can repeat this command safely: nothing is learned twice, and an interrupted run resumes. If the file has
    changed, what it says about a person replaces what was learned before under the same --id. People who are no longer
    in the file keep what was learned about them. To learn from a second file in addition to the first, give it another
    --id. To remove what was learned, use --undo. Somebody who was forgotten, or for whom this was undone, is learned
    again if the file still contains them.

    For a log of lists that grows, use 'thali replay' instead. It also records the lists.

    Example: thali learn-from purchases.csv --store sqlite:///thali.db

    Example: thali learn-from ratings.parquet --at-least 4 --id ratings

    Example: thali learn-from --undo --id ratings

    Example: thali learn-from --undo --id ratings --user ana
    """
    if undo:
        options = {"FILE": file, "--at-least": at_least, "--duplicates": duplicates, "--learner": learner}
        for option, value in options.items():
            if value is not None:
                raise ValueError(f"{option} cannot be used with --undo, got {str(value)!r}")
        _forget(store, catalog, id, user)
        return
    if file is None:
        raise ValueError("learn-from needs a FILE to learn from, or --undo")
    if user is not None:
        raise ValueError(f"--user can only be used with --undo, got {user!r}")
    try:
        from thali.service.recommender.histories import LOG_SUFFIXES, learn_history

        with _recommender(store, catalog, 30.0) as recommender, _bar("people") as advance:
            done = learn_history(
                recommender,
                file,
                name=id,
                weight=None if file.name.endswith(LOG_SUFFIXES) else _weight_of_a_like(recommender, catalog),
                at_least=at_least,
                duplicates=None if duplicates is None else duplicates.value,
                learner=learner,
                progress=advance,
            )
            without = _without_prior(recommender, learner)
    except KeyboardInterrupt as interrupt:
        sentence = _learned(file, getattr(interrupt, "done", None))
        typer.echo(f"Interrupted. {sentence} To learn from the rest, run the same command again.", err=True)
        raise typer.Exit(130) from None
    typer.echo(_learned(file, done))
    if done.rated and at_least is None:
        note_ratings(file)
    if without:
        typer.echo(
            f"Note: learner {', '.join(map(repr, without))} has no prior. Without one, lists explore so much at first "
            "that they hardly follow what was learned. Build the catalog without --paper, or start thali serve with "
            "--prior or a small --alpha.",
            err=True,
        )


def _without_prior(recommender: Recommender, name: str | None) -> list[str]:
    """Return the names of the learners, or of this one, that have no prior and do not learn one."""
    chosen = recommender.learners.items() if name is None else [(name, recommender.learners[name])]
    return [
        name
        for name, learner in chosen
        if learner.policy.prior is None and name not in recommender.prior_learners and learner.share > 0.0
    ]


def _weight_of_a_like(recommender: Recommender, catalog: Path | None) -> float | None:
    """Return how much a known like counts, as the catalog file says, or None if it does not say."""
    from thali.service.stores.transfer import PATIENCE_S
    from thali.starting.file import load_catalog_file

    with recommender.store.transaction(PATIENCE_S, write=False):
        path = str(catalog or recommender.store.meta("catalog"))
    return load_catalog_file(path).weight


def _learned(file: Path, done: Learned | None) -> str:
    if done is None:
        return f"Learned nothing from {file}."
    again = f" ({_people(done.known)} had been learned previously)" if done.known else ""
    text = f"Learned {_count(done.used, done.unit)} of {_people(done.people)} from {file}{again}."
    if done.replaced:
        text += f" For {_people(done.replaced)}, this replaced other data that had been learned under the same --id."
    if done.removed:
        text += f" For {_people(done.removed)}, nothing counts any more, so what had been learned was removed."
    if done.skipped:
        text += (
            f" Nothing was learned about {_people(done.skipped)}: no {done.unit} that counts has an item of the "
            "catalog."
        )
    if done.unanswered:
        were = "was" if done.unanswered == 1 else "were"
        text += f" {_count(done.unanswered, 'list')} without known clicks {were} left out."
    if done.missing:
        text += f" {_left_out('interaction' if done.unit == 'like' else 'position', done.missing)}."
    return text


def _forget(store: str, catalog: Path | None, id: str, user: str | None) -> None:
    from thali.service.recommender import Unknown
    from thali.service.recommender.histories import forget_history

    try:
        with _recommender(store, catalog, 30.0) as recommender, _bar("people") as advance:
            removed = forget_history(recommender, id, user, advance)
    except Unknown as error:
        raise ValueError(str(error)) from None
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. To remove the rest of {id!r}, run the same command again.", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"Removed what was learned as {id!r} about {_people(removed)}.")


def _people(number: int) -> str:
    return f"{number:,} person" if number == 1 else f"{number:,} people"


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

    from thali.policies import POLICIES, Prior
    from thali.service.recommender import Recommender
    from thali.service.recommender.live_catalog import DifferentCatalog
    from thali.service.recommender.loading import load
    from thali.service.recommender.recommender import DAY_S
    from thali.service.stores.transfer import PATIENCE_S

    _, _, path = url.partition("sqlite:///")
    if path and catalog is None and not Path(path).is_file():
        raise FileNotFoundError(f"store must exist unless --catalog is given, found nothing at {url}")
    running: dict[str, dict[str, Any]] = {}
    with _open(url, new=True) as opened, opened.transaction(PATIENCE_S):
        opened.migrate()
        running = json.loads(opened.meta("running") or "{}")
        last_catalog, hide = opened.meta("catalog"), opened.meta("hide")
    if catalog is None and last_catalog is None:
        raise ValueError(f"catalog must be given with --catalog, because no service has used store {url} yet")
    file = load(str(catalog or last_catalog))
    loaded = file.catalog
    if not running:
        running = {
            "default": {"policy": "CascadeLSB", "K": 10, "sigma": None, "examined": None, "share": 1.0, "prior": True}
        }
    policies: dict[str, Any] = {}
    for name, settings in running.items():
        prior = file.prior if settings.get("prior") else None
        if settings.get("own_prior"):
            prior = Prior.from_content(settings["own_prior"])
        sigma = settings.get("given_sigma", settings["sigma"])  # older versions stored only the σ in use
        policy: Any = POLICIES[settings["policy"]](loaded, 1, sigma=sigma, examined=settings["examined"], prior=prior)
        policies[name] = policy.variant(settings["K"])  # K may exceed the number of items
    shares = {name: settings["share"] for name, settings in running.items()}
    try:
        return Recommender(
            policies,
            url,
            shares=shares,
            keep=keep_days * DAY_S,
            hide=hide or "nothing",
            quality=file.quality,
            learn_prior=[name for name, settings in running.items() if settings.get("learns_prior")],
            same_catalog=True,
        )
    except DifferentCatalog as error:
        raise ValueError(
            f"{error} in {catalog or last_catalog}; to switch to it, run 'thali serve' with it first"
        ) from None


@contextmanager
def _bar(unit: str) -> Iterator[Callable[[int], None]]:
    """Show a running count on standard error; yields a function that adds to it."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn(f"{{task.completed:,}} {unit}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda count: bar.advance(task, count)
