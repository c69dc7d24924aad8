"""The catalog: items and their weights on topics, the coverage of a list, and which items each user may be shown."""

from thali.catalog import coverage
from thali.catalog.catalog import Catalog
from thali.catalog.file import load_catalog, save_catalog

__all__ = ["Catalog", "coverage", "load_catalog", "save_catalog"]
