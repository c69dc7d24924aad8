"""Adds thali-client, which lies in client/ of the same tree, to the dependencies of thali.

Installed from a clone, thali takes the client beside it: ``pip install .`` needs no other step. $THALI_CLIENT names
a version instead, such as "==0.1.0": for releases, and to install both in editable mode (see the Makefile).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ClientDependency(MetadataHookInterface):
    """The hook that hatchling calls."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies."""
        beside = (Path(self.root) / "client").as_uri()
        version = os.environ.get("THALI_CLIENT", f" @ {beside}")
        metadata["dependencies"] = [*self.config["dependencies"], f"thali-client{version}"]
