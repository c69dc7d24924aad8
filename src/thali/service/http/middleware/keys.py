"""Who calls: the role that a bearer key stands for."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.responses import Problem, send_problem
from thali.service.http.settings import ROLES

#: Needs no key: the page and what it requests first, the API reference, whether the service works.
OPEN_PATHS = frozenset({"/", "/v1/about", "/healthz", "/readyz", "/openapi.json", "/docs"})
OPEN_PREFIXES = ("/page/", "/docs/")
UNAUTHORIZED = Problem(
    401,
    "Authorization must be 'Bearer KEY' with a key of this service",
    "Authorization",
    {"WWW-Authenticate": "Bearer"},
)


class Keys:
    """Puts the caller's role into the scope; refuses callers without a key, except where none is needed.

    A service without keys has no roles to tell apart: every caller has the highest.
    """

    def __init__(self, app: App, keys: Iterable[tuple[str, str]]) -> None:
        """keys: roles and keys."""
        self.app = app
        self._digests = [(role, sha256(key.encode()).digest()) for role, key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        state, path = scope["state"], scope["path"]
        role = self._role(state["headers"].get(b"authorization", b"")) if self._digests else ROLES[-1]
        if role is None and path not in OPEN_PATHS and not path.startswith(OPEN_PREFIXES):
            await send_problem(scope, send, UNAUTHORIZED)
            return
        state["role"] = role
        await self.app(scope, receive, send)

    def _role(self, authorization: bytes) -> str | None:
        """The role of a key, if it is one; always compares all keys, each in constant time."""
        scheme, _, key = authorization.partition(b" ")
        digest = sha256(key.strip()).digest()
        found = None
        for role, own in self._digests:
            if hmac.compare_digest(digest, own):
                found = role
        return found if scheme.lower() == b"bearer" else None
