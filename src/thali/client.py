"""The service from Python: :class:`Client` and its errors, from the distribution thali-client."""

from thali_client import Client, Conflict, NotAllowed, NotFound, Refused, ServiceError, Unavailable

__all__ = ["Client", "Conflict", "NotAllowed", "NotFound", "Refused", "ServiceError", "Unavailable"]
