"""``thali serve``: the service."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from thali.service.http.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def serve(
    catalog: Annotated[Path, typer.Argument(help="A catalog file, made by 'thali catalog build'.")],
    store: Annotated[
        str, typer.Option(help="sqlite:///FILE, or postgresql://… for several processes.", envvar="THALI_STORE")
    ] = "sqlite:///thali.db",
    host: Annotated[
        str, typer.Option(help="The address to listen on; other than loopback only with --keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes; more than one needs PostgreSQL.")] = 1,
    policy: Annotated[str, typer.Option(help="The learner, where there is one: of the linear family.")] = "CascadeLSB",
    K: Annotated[
        int | None, typer.Option("--K", min=1, max=100, help="Items in a list, where a request does not say; 10.")
    ] = None,
    sigma: Annotated[float | None, typer.Option(help="Learning rate σ; the policy's own by default.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Optimism α; 0.8/σ by default.")] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(help="One of several learners, instead of --policy: 'NAME: POLICY K=10 sigma=0.1 share=0.5'."),
    ] = None,
    no_click_after: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds after which no answer is no click; else it is unknown.")
    ] = None,
    keep_days: Annotated[float, typer.Option(min=0.001, help="How long impressions are kept.")] = 30.0,
    keys: Annotated[
        Path | None,
        typer.Option(help="A file of API keys: a role (read, write, admin) and a key a line.", envvar="THALI_KEYS"),
    ] = None,
    cache_mb: Annotated[int, typer.Option(min=0, help="Memory for tastes in use, with SQLite.")] = 256,
    new_catalog: Annotated[
        bool, typer.Option("--new-catalog", help="Let this catalog replace one that was changed by hand.")
    ] = False,
    log_requests: Annotated[bool, typer.Option(help="Whether each request is a line of the log.")] = True,
) -> None:
    """Serve lists and learn from clicks over HTTP: a page at /, the API at /docs."""
    check_installed("thali serve")
    from thali.service.http.settings import LearnerSetting, Settings, read_keys

    if not catalog.is_file():
        raise ValueError(f"catalog must be a file, made by 'thali catalog build', found none at {catalog}")
    if keys is None and not _is_loopback(host):
        raise ValueError(f"host must be of this machine only (127.0.0.1) unless --keys is given, got {host}")
    if not store.startswith("postgres") and workers > 1:
        raise ValueError(f"workers must be 1 with SQLite: several need --store postgresql://…, got {workers}")
    settings = Settings(
        catalog=str(catalog),
        store=store,
        learners=tuple(map(LearnerSetting.read, learner))
        if learner
        else (LearnerSetting("default", policy, K, sigma, alpha),),
        no_click_after=no_click_after,
        keep_days=keep_days,
        cache_mb=cache_mb,
        new_catalog=new_catalog,
        keys=() if keys is None else read_keys(keys),
        hosts=(*LOOPBACK, host) if keys is None else (),
        log_requests=log_requests,
    )
    check_free(host, port)
    typer.echo(f"thali loads {catalog}; the first time ever it compiles for a minute.", err=True)
    text = f"thali serves {catalog} on {address(host, port)}, a page to try it and the API at /docs; Ctrl-C stops it."
    run(settings, host, port, workers, text)


def run(settings: Settings, host: str, port: int, workers: int, told: str) -> None:
    """Serve until stopped. told: the message to print once everything is ready."""
    import uvicorn

    from thali.service.http.app import create_app, make_recommender
    from thali.service.http.metrics import MULTIPROCESS_DIR

    recommender = make_recommender(settings)  # here, so that an error prints one sentence
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
    typer.echo(told, err=True)
    # uvicorn finishes its open requests, then sends itself the signal again. Being stopped is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if workers == 1:
        uvicorn.run(create_app(settings, lambda _: recommender), lifespan="on", **options)
        return
    recommender.close()
    settings.to_environment()
    with tempfile.TemporaryDirectory(prefix="thali-metrics-") as folder:
        os.environ[MULTIPROCESS_DIR] = folder  # the processes share their metrics
        uvicorn.run(
            "thali.service.http.app:create_app_from_environment",
            factory=True,
            lifespan="on",
            workers=workers,
            **options,
        )


def address(host: str, port: int) -> str:
    """The URL for a browser."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_installed(command: str) -> None:
    """Raise an error if the service's own dependencies are missing."""
    try:
        import uvicorn  # noqa: F401 (only to see that it is installed)

        import thali.service.http.app  # noqa: F401 (the same)
    except ImportError as error:
        raise ModuleNotFoundError(f"{command} needs the extra 'serve': pip install '.[serve]' ({error})") from error


def check_free(host: str, port: int) -> None:
    """Raise an error if this address is not free. Called before a store is created."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ValueError(f"host and port must be free to listen on, got {host}:{port}: {error.strerror}") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
