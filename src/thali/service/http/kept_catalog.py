"""A copy of the catalog file that is in use, for workers that are restarted."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from time import time

from thali.service.recommender.loading import LoadedCatalog, load

# A copy ends in this until it is kept. After so many seconds, it is certain that it was not put into use.
SUFFIX, OLD_S = ".loaded", 600.0


class KeptCatalog:
    """A copy of the catalog file that is in use.

    The file itself may have changed since it was loaded, or may be one that the service has refused. A worker that is
    restarted then uses the copy, so that it has the same catalog as the others.

    Parameters
    ----------
    path: the copy. All workers of a service share it.

    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def load(self, path: str) -> LoadedCatalog:
        """Load a catalog file from a copy of it, which :meth:`keep` can keep."""
        self._remove_old()
        copy = self.path.with_name(f"{secrets.token_hex(8)}{SUFFIX}")
        shutil.copyfile(path, copy)
        try:
            return load(str(copy))._replace(copy=str(copy))
        except (ValueError, OSError) as error:
            copy.unlink()
            raise ValueError(str(error).replace(str(copy), path)) from error

    def keep(self, loaded: LoadedCatalog) -> None:
        """Keep the copy of a catalog that has been put into use."""
        if loaded.copy is not None:
            os.replace(loaded.copy, self.path)

    def _remove_old(self) -> None:
        """Remove copies of files that were loaded, but not put into use."""
        for copy in self.path.parent.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):  # another worker has removed or kept it
                if copy.stat().st_mtime < time() - OLD_S:
                    copy.unlink()
