"""Named users and a store: what the service is made of, and usable without it."""

from __future__ import annotations

from thali.service.recommender.core import Recommender
from thali.service.recommender.operations import Conflict, Refused, Unknown

__all__ = ["Conflict", "Recommender", "Refused", "Unknown"]
