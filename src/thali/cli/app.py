"""The ``thali`` command. Each command imports what it needs, so that ``--help`` stays fast."""

from __future__ import annotations

import sys
from typing import Annotated

try:
    import typer
except ImportError:
    from thali.cli.bare import answer

    sys.exit(answer(sys.argv[1:]))

from thali.cli import catalog, demo, experiments, first_lists, serve, store, warmup

app = typer.Typer(
    name="thali",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help texts: in 80 columns, the boxes of rich cut off defaults and names of options
    context_settings={"max_content_width": 120},
)
app.add_typer(catalog.app, name="catalog")
for command in (
    demo.demo,
    serve.serve,
    store.replay,
    store.learn_from,
    store.backup,
    store.restore,
    store.export,
    store.import_,
    experiments.reproduce,
    experiments.experiments,
    experiments.run,
    experiments.sweep,
    experiments.robustness,
    first_lists.first_lists,
    experiments.report,
    warmup.warmup,
):
    app.command(command.__name__.rstrip("_").replace("_", "-"))(command)


def main() -> None:
    """Run the command line. An expected error, such as a wrong setting, prints one sentence instead of a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, RuntimeError, ModuleNotFoundError) as error:
        sys.exit(f"thali: {error}")


@app.callback(invoke_without_command=True)
def thali(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Learn, click by click, which diverse list of items to show each person.

    thali is based on the paper "Online Diverse Learning to Rank from Partial-Click Feedback" (arXiv 1811.00911).
    """
    if version:
        from importlib.metadata import version as installed

        print(installed("thali"))
        raise typer.Exit
