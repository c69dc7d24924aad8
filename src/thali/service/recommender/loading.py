"""Catalog files as a recommender needs them."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import NamedTuple

from thali.catalog.catalog import Catalog
from thali.policies.linear.prior import Prior
from thali.policies.quality import Quality
from thali.service.recommender.live_catalog import QUALITY
from thali.service.recommender.seen import ItemNumbers
from thali.starting.file import load_catalog_file


class LoadedCatalog(NamedTuple):
    """A catalog, and what its file says about people and items."""

    catalog: Catalog
    prior: Prior | None = None
    quality: Quality | None = None
    """The counts of clicks from which the topic "quality" goes on learning, if the catalog has it."""
    copy: str | None = None
    """The copy of the file from which it was loaded, if any."""
    numbers: ItemNumbers | None = None
    """The numbers of the items by their hashes, if they were prepared."""

    def prepared(self) -> LoadedCatalog:
        """Return the same with everything prepared that ``--hide`` needs. Cost: a microsecond for each item."""
        numbers = ItemNumbers(self.catalog)
        numbers.prepare()
        return self._replace(numbers=numbers)

    @property
    def start_digest(self) -> str:
        """A digest of the prior and the counts: of two files with the same catalog, it tells which one is in use."""
        digest = sha256(json.dumps(None if self.prior is None else self.prior.content).encode())
        if self.quality is not None:
            digest.update(self.quality.rule.encode())
            for counts in (self.quality.examined, self.quality.clicked):
                digest.update(counts.astype("<f8").tobytes())
        return digest.hexdigest()


def load(path: str) -> LoadedCatalog:
    """Load a catalog file, with or without what ``thali.fit`` has learned."""
    file = load_catalog_file(path)
    learns = file.quality is not None and QUALITY in map(str, file.catalog.topics)
    return LoadedCatalog(file.catalog, file.prior, file.quality if learns else None)
