"""The Python client of the service: :class:`Client` and its errors, re-exported from the package thali-client."""

from thali_client import Client, Conflict, NotAllowed, NotFound, Refused, ServiceError, Unavailable

__all__ = ["Client", "Conflict", "NotAllowed", "NotFound", "Refused", "ServiceError", "Unavailable"]
