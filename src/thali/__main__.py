"""``python -m thali``: the command."""

from thali.cli.app import main

main()
