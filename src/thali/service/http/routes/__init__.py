"""The routes of the API, with one file for each tag of the API reference."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thali.service.http.routes import items, lists, priors, service, users
from thali.service.http.routes.lists import fast_routes

__all__ = ["ROUTES", "fast_routes"]

#: The routes in the order in which the API reference lists them.
ROUTES: list[BaseRoute] = [
    *lists.router.routes,
    *users.router.routes,
    *items.router.routes,
    *priors.router.routes,
    *service.router.routes,
]
