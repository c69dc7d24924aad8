"""The log: one JSON object per line on standard error."""

from __future__ import annotations

import json
import logging
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


class _Messages(logging.Handler):
    """Writes the library's messages as events."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._log = Log()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        try:
            self._log("message", level=record.levelname.lower(), message=record.getMessage())
        except Exception:  # no request may fail because of a message
            self.handleError(record)


def log_messages() -> None:
    """Write the messages of the library ``thali`` to the log, such as those about compilation."""
    library = logging.getLogger("thali")
    if not any(isinstance(handler, _Messages) for handler in library.handlers):
        library.addHandler(_Messages())
        library.setLevel(logging.INFO)
