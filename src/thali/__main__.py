"""Run the ``thali`` command with ``python -m thali``."""

from thali.cli.app import main

main()
