"""The ``thali`` command. Each command imports what it needs, so that ``--help`` stays fast."""

from __future__ import annotations

import sys
from typing import Annotated

try:
    import typer
except ImportError:
    sys.exit("The command thali needs the extra 'lab' or 'serve': in a clone of thali, pip install '.[lab,serve]'")

from thali.cli import catalog, demo, experiments, serve, store, warmup

app = typer.Typer(
    name="thali",
    help="Learns, click by click, which diverse list of items to show each person.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(catalog.app, name="catalog")
for command in (
    demo.demo,
    serve.serve,
    store.replay,
    store.backup,
    store.restore,
    store.export,
    store.import_,
    experiments.reproduce,
    experiments.experiments,
    experiments.run,
    experiments.sweep,
    experiments.robustness,
    experiments.report,
    warmup.warmup,
):
    app.command(command.__name__.rstrip("_"))(command)


def main() -> None:
    """Entry point. Errors such as a wrong setting print one sentence, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, RuntimeError, ModuleNotFoundError) as error:
        sys.exit(f"thali: {error}")


@app.callback(invoke_without_command=True)
def thali(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    """Learns, click by click, which diverse list of items to show each person."""
    if version:
        from importlib.metadata import version as installed

        print(installed("thali"))
        raise typer.Exit
