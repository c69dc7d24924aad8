"""A copy of the catalog file that is in use, for workers that are restarted."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from time import time

from thali.service.recommender.loading import LoadedCatalog, load

LOGGER = logging.getLogger(__name__)
# A copy ends in this until it is kept. After so many seconds, it is certain that it was not put into use.
SUFFIX, OLD_S = ".loaded", 600.0


class KeptCatalog:
    """A copy of the catalog file that is in use.

    The file itself may have changed since it was loaded, or may be one that the service has refused. A worker that is
    restarted then uses the copy, so that it has the same catalog as the others. If the copy cannot be kept, a worker
    that is restarted uses the file.

    Parameters
    ----------
    path: the copy. All workers of a service share it.

    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def load(self, path: str) -> LoadedCatalog:
        """Load a catalog file from a copy of it, which :meth:`keep` can keep."""
        copy = self.path.with_name(f"{secrets.token_hex(8)}{SUFFIX}")
        try:
            self._remove_old()
            shutil.copyfile(path, copy)
        except OSError as error:  # the folder is gone or full, or the file cannot be read: then load says so
            warn(error)
            copy.unlink(missing_ok=True)
            return load(path)
        try:
            return load(str(copy))._replace(copy=str(copy))
        except (ValueError, OSError) as error:
            copy.unlink()
            raise ValueError(str(error).replace(str(copy), path)) from error

    def keep(self, loaded: LoadedCatalog) -> None:
        """Keep the copy of a catalog that has been put into use, if there is one.

        Without one, an earlier copy stays. It may be that of another worker. If it has another catalog, a worker that
        is restarted does not use it.
        """
        if loaded.copy is None:
            return
        try:
            os.replace(loaded.copy, self.path)
        except OSError as error:
            warn(error)

    def _remove_old(self) -> None:
        """Remove copies of files that were loaded, but not put into use."""
        for copy in self.path.parent.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):  # another worker has removed or kept it
                if copy.stat().st_mtime < time() - OLD_S:
                    copy.unlink()


def warn(error: OSError, what: str = "the catalog file") -> None:
    """Log that no copy of something can be kept."""
    LOGGER.warning("no copy of %s can be kept for workers that are restarted: %s", what, error)
