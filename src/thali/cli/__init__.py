"""The commands of ``thali``, one file per group. :mod:`thali.cli.app` assembles them."""
