"""Errors of the service, as exceptions."""

from __future__ import annotations


class ServiceError(Exception):
    """The service did not carry out a request. str() returns its message.

    If the response does not come from the service, such as an HTML page from a proxy, this class itself is raised, not
    one of its subclasses.
    """

    def __init__(
        self, message: str, status: int | None = None, field: str | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message, status, field, request_id)  # all arguments, so that the error can be pickled
        self.status = status
        """HTTP status; None if there was no response."""
        self.field = field
        """Field of the request that is not valid, if the service named one."""
        self.request_id = request_id
        """Id of the request in the log of the service."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotFound(ServiceError):  # noqa: N818 (reads well in an except clause)
    """404: the name or id is unknown, or the data about it has expired or was deleted."""


class Conflict(ServiceError):  # noqa: N818
    """409: the request contradicts what is already recorded."""


class Refused(ServiceError):  # noqa: N818
    """400, 413, 415, 422: the request is invalid."""


class NotAllowed(ServiceError):  # noqa: N818
    """401, 403: the key is missing or wrong, or its role does not allow the request."""


class Unavailable(ServiceError):  # noqa: N818
    """After all retries, there was no connection, no response in time, or a status of 429, 502, 503 or 504."""


_BY_STATUS: dict[int, type[ServiceError]] = {
    400: Refused,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: Refused,
    415: Refused,
    422: Refused,
}


def error_class(status: int) -> type[ServiceError]:
    """Return the class of the error that the service reports with this status."""
    return _BY_STATUS.get(status, ServiceError)
