"""The commands of ``thali``, one file a group; :mod:`thali.cli.app` puts them together."""
