"""``thali serve``: run the service."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thali.tools.extras import advice
from thali.tools.processes import closing_terminal, hold_hangup, receive_hangup, start_without_hangup

if TYPE_CHECKING:
    from uvicorn.supervisors.multiprocess import Multiprocess, Process

    from thali.service.http.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def serve(
    catalog: Annotated[Path, typer.Argument(help="Catalog file to serve, written by 'thali catalog build'.")],
    store: Annotated[
        str,
        typer.Option(
            help="Where to store users and lists: sqlite:///FILE, or a postgresql:// URL.", envvar="THALI_STORE"
        ),
    ] = "sqlite:///thali.db",
    host: Annotated[
        str, typer.Option(help="Address to listen on. An address that other machines can reach needs --keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Number of processes. More than one needs PostgreSQL.")
    ] = 1,
    policy: Annotated[
        str, typer.Option(help="Policy that learns, such as CascadeLSB or CascadeLinUCB. Ignored with --learner.")
    ] = "CascadeLSB",
    K: Annotated[
        int | None,
        typer.Option(
            "--K",
            min=1,
            max=100,
            help="Maximum number of items per list, unless a request sets K (default: 10). "
            "A list is shorter if fewer items are left to choose from.",
        ),
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Learning rate σ (default: that of the prior, or 0.1 without one).")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Exploration parameter α (default: 0.8/σ; with a prior, it grows slowly with the number of lists)."
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Run several learners, and give each a share of the users. Repeat this option for each learner: "
            "'NAME: POLICY K=10 sigma=0.1 alpha=8 prior=learn share=0.5'. Replaces --policy, --K, --sigma, --alpha and "
            "--prior.",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|none|learn",
            help="What to believe about people before their first click: a file written by prior.save, 'none', or "
            "'learn' to learn it from the users of this service, starting from the prior of the catalog file "
            "(default: the prior of the catalog file, if it has one). Ignored with --learner, which has prior=.",
        ),
    ] = None,
    prior_every: Annotated[
        float, typer.Option(min=1.0, help="Learn priors again after this many seconds, with 'learn'.")
    ] = 3600.0,
    prior_fallback: Annotated[
        bool,
        typer.Option(
            "--prior-fallback",
            help="Return to the prior of the catalog file automatically if that predicts clicks clearly better than "
            "the learned one. If the file has no prior, return to none if the click rates of items, or the mean click "
            "rate, predict clearly better.",
        ),
    ] = False,
    hide: Annotated[
        str,
        typer.Option(
            help="What users are not shown again: nothing, clicked, examined, examined:20 (for 20 lists), examined:7d "
            "(for 7 days), fading:5 (each examination loses half of its weight in 5 lists), or several with commas "
            "between them."
        ),
    ] = "nothing",
    quality_every: Annotated[
        float,
        typer.Option(min=1.0, help="Refresh the quality of items after this many seconds, if there were new clicks."),
    ] = 300.0,
    no_click_after: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="If no feedback arrives within this many seconds, assume that nothing was clicked (default: wait "
            "forever).",
        ),
    ] = None,
    keep_days: Annotated[
        float,
        typer.Option(min=0.001, help="Delete impressions after this many days. What thali learned from them is kept."),
    ] = 30.0,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="File of API keys. Each line has a role (read, write or admin), a space and a key.",
            envvar="THALI_KEYS",
        ),
    ] = None,
    cache_mb: Annotated[
        int, typer.Option(min=0, help="Memory for caching the statistics of recent users, in MiB (SQLite only).")
    ] = 256,
    new_catalog: Annotated[
        bool,
        typer.Option(
            "--new-catalog",
            help="Use this catalog file even if items were changed through the API. Those changes are discarded.",
        ),
    ] = False,
    log_requests: Annotated[bool, typer.Option(help="Log each request.")] = True,
) -> None:
    """Serve lists over HTTP and learn from live clicks.

    Open the service's address in a browser to try it out. The API reference is at /docs.

    To load a changed catalog file without a restart, send the process SIGHUP or call POST /v1/catalog.

    Example: thali serve films.parquet --K 10 --prior learn --hide clicked

    Example: thali serve films.parquet --store postgresql://db/thali --workers 4
    """
    check_installed("thali serve")
    from thali.service.http.settings import LearnerSetting, Settings, read_keys

    if not catalog.is_file():
        raise ValueError(f"catalog must be a file written by 'thali catalog build', found nothing at {catalog}")
    if keys is None and not _is_loopback(host):
        raise ValueError(f"host must be a loopback address such as 127.0.0.1 unless --keys is given, got {host}")
    if not store.startswith("postgres") and workers > 1:
        raise ValueError(f"workers must be 1 with SQLite, got {workers}; use --store postgresql://… for more")
    _check_hide(hide)
    learns = prior == "learn" if not learner else any(LearnerSetting.read(text).prior == "learn" for text in learner)
    if prior_fallback and not learns:
        raise ValueError(
            "--prior-fallback can only be used with a learner that learns its prior, such as --prior learn"
        )
    settings = Settings(
        catalog=str(catalog),
        store=store,
        learners=tuple(map(LearnerSetting.read, learner))
        if learner
        else (LearnerSetting("default", policy, K, sigma, alpha, prior=prior),),
        no_click_after=no_click_after,
        keep_days=keep_days,
        cache_mb=cache_mb,
        new_catalog=new_catalog,
        hide=hide,
        prior_every=prior_every,
        prior_fallback=prior_fallback,
        quality_every=quality_every,
        keys=() if keys is None else read_keys(keys),
        hosts=(*LOOPBACK, host) if keys is None else (),
        log_requests=log_requests,
    )
    check_free(host, port)
    url = address(host, port)
    ready = f"Serving {catalog} at {url} (API reference: {url}/docs). Press Ctrl-C to stop."
    hold_hangup()  # until the service can load the catalog again
    typer.echo(f"Loading {catalog}.{first_start()}", err=True)
    run(settings, host, port, workers, ready)


def _check_hide(hide: str) -> None:
    from thali.service.recommender import Refused
    from thali.service.recommender.seen import HideRule

    try:
        HideRule.read(hide, "--hide")
    except Refused as refusal:
        raise ValueError(str(refusal)) from None


def run(settings: Settings, host: str, port: int, workers: int, message: str) -> None:
    """Serve until stopped. message: the text to print when the service is ready."""
    import uvicorn
    from uvicorn.supervisors.multiprocess import Multiprocess, Process

    from thali.service.http.app import create_app, make_recommender, set_up
    from thali.service.http.metrics import MULTIPROCESS_DIR

    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": 10_000,
        "timeout_graceful_shutdown": 10,
    }
    # uvicorn completes open requests, and then sends itself the signal again. Exit with 0: being stopped is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if workers == 1:
        recommender = make_recommender(settings)  # before uvicorn starts, so that an error prints one sentence
        typer.echo(message, err=True)
        uvicorn.run(create_app(settings, lambda _: recommender), lifespan="on", **options)
        return
    import fcntl  # Windows does not have it, and other commands work there

    Multiprocess.handle_hup = _on_hangup(closing_terminal())  # type: ignore[method-assign, assignment]
    Process.start = _start  # type: ignore[method-assign, assignment]
    with (
        tempfile.TemporaryDirectory(prefix="thali-metrics-") as folder,
        tempfile.TemporaryDirectory(prefix="thali-catalog-") as kept,
    ):
        os.environ[MULTIPROCESS_DIR] = folder  # the processes share their metrics
        for path in (folder, kept):
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)  # systemd-tmpfiles does not clean up locked folders
        set_up(settings, Path(kept)).to_environment()
        typer.echo(message, err=True)
        uvicorn.run(
            "thali.service.http.app:create_app_from_environment",
            factory=True,
            lifespan="on",
            workers=workers,
            **options,
        )


def _start(worker: Process) -> None:
    """Start a worker. The parent has its handler for SIGHUP by now."""
    start_without_hangup(worker.process.start)
    receive_hangup()


def _on_hangup(terminal_closed: Callable[[], bool]) -> Callable[[Multiprocess], None]:
    """Return what the parent of the workers does after SIGHUP. If the terminal was closed, it ends the service.

    Otherwise, it lets every worker load the catalog file again. uvicorn would restart the workers, and end the service
    if the new file cannot be used.
    """

    def handle(parent: Multiprocess) -> None:
        if terminal_closed():
            parent.should_exit.set()
            return
        for worker in parent.processes:
            if worker.pid is not None:
                os.kill(worker.pid, signal.SIGHUP)

    return handle


def first_start() -> str:
    """Return a sentence to print if code must be compiled before the service can start, else nothing."""
    from thali.lists import plain
    from thali.tools import jit

    return "" if jit.is_stored(plain.greedy) else " The first start compiles code, which takes some seconds."


def address(host: str, port: int) -> str:
    """Return the URL for a browser."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_installed(command: str) -> None:
    """Raise an error if the dependencies of the service are not installed."""
    try:
        import uvicorn  # noqa: F401 (only to check that it is installed)

        import thali.service.http.app  # noqa: F401 (the same)
    except ImportError as error:
        raise ModuleNotFoundError(f"{command} needs the extra 'serve' ({error}). {advice('serve')}") from error


def check_free(host: str, port: int) -> None:
    """Raise an error if the service cannot listen on this address. Called before a store is created."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ValueError(f"host and port must be free, got {host}:{port} ({error.strerror})") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
