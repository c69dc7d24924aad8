"""Named users and a store: what the service is made of, and usable without it."""

from __future__ import annotations

from thali.service.recommender.operations import Conflict, Refused, Unknown
from thali.service.recommender.recommender import Recommender

__all__ = ["Conflict", "Recommender", "Refused", "Unknown"]
