"""The ``thali`` command without extras. It only says what thali is, and what to install."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from thali.tools.extras import advice

#: The commands that each extra installs.
COMMANDS = {
    "lab": "demo reproduce experiments run sweep robustness first-lists report\n           catalog warmup",
    "serve": "demo --web serve learn-from replay backup restore export import\n           catalog warmup",
}
_ADVICE = advice("lab,serve").replace(". ", ".\n  ")
HELP = f"""Usage: thali [OPTIONS] COMMAND [ARGS]...

  Learn, click by click, which diverse list of items to show each person.

  The library is installed, but the commands need an extra:

    lab    {COMMANDS["lab"]}
    serve  {COMMANDS["serve"]}

  {_ADVICE}.

Options:
  --version  Print the version and exit.
  --help     Show this message and exit.
"""


def answer(words: Sequence[str]) -> int | str:
    """Answer ``--help`` and ``--version``. Return the exit status, or an error message for any other command."""
    if "--help" in words or not words:
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        print(version("thali"))
        return 0
    return f"thali: commands need the extra 'lab' or 'serve'. {advice('lab,serve')}"
