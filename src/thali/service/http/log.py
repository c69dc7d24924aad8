"""The log: one JSON object per line on standard error."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec


class Log:
    """Writes each event as one line of JSON, in ASCII.

    Names of users and items appear only as JSON strings, so that they can neither forge a line nor control a terminal.
    A line that cannot be written, for example because the disk is full, is dropped, so that no request fails because of
    it.
    """

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._stream = sys.stderr.buffer

    def __call__(self, event: str, **fields: Any) -> None:
        """Write one event."""
        line = self._encode({"at": round(time.time(), 3), "event": event, **fields})
        if not line.isascii():
            line = json.dumps(json.loads(line)).encode()
        with suppress(OSError):
            self._stream.write(line + b"\n")
            self._stream.flush()
