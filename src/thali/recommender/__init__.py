"""Named users and a store: what the service is made of, and usable without it."""

from __future__ import annotations

from thali.recommender.core import Recommender
from thali.recommender.operations import Conflict, Refused, Unknown

__all__ = ["Conflict", "Recommender", "Refused", "Unknown"]
