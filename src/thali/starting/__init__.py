"""All it takes to be good from the first list: a catalog and a prior, fitted to what is known about other people."""

from thali.starting.file import CatalogFile, load_catalog_file, save_start
from thali.starting.fit import Start, fit

__all__ = ["CatalogFile", "Start", "fit", "load_catalog_file", "save_start"]
