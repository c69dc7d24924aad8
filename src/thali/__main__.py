"""``python -m thali``: the command."""

from thali.cli import main

main()
