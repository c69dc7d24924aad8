"""The recommender: named users, learners and a store. The service is built on it, and it can be used without HTTP."""

from __future__ import annotations

from thali.service.recommender.operations import Conflict, Refused, Unknown
from thali.service.recommender.recommender import Recommender

__all__ = ["Conflict", "Recommender", "Refused", "Unknown"]
