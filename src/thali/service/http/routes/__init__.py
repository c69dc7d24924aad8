"""The routes of the API, a file for each tag of its reference."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thali.service.http.routes import items, lists, service, users
from thali.service.http.routes.lists import fast_routes

__all__ = ["ROUTES", "fast_routes"]

#: In the order of the reference.
ROUTES: list[BaseRoute] = [
    *lists.router.routes,
    *users.router.routes,
    *items.router.routes,
    *service.router.routes,
]
