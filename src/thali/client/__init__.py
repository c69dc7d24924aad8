"""The service from Python, with nothing but the standard library."""

from thali.client.connection import Conflict, NotAllowed, NotFound, Refused, ServiceError, Unavailable
from thali.client.results import Answer, Item, Learned, Shown, Taste, User
from thali.client.routes import Client

__all__ = [
    "Answer",
    "Client",
    "Conflict",
    "Item",
    "Learned",
    "NotAllowed",
    "NotFound",
    "Refused",
    "ServiceError",
    "Shown",
    "Taste",
    "Unavailable",
    "User",
]
