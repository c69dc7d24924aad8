"""Keys: determines the caller's role from the key in the Authorization header."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.responses import Problem, send_problem
from thali.service.http.settings import ROLES

#: Paths that need no key: the page and its first request, the API reference, and the checks whether the service works.
OPEN_PATHS = frozenset({"/", "/v1/about", "/healthz", "/readyz", "/openapi.json", "/docs"})
OPEN_PREFIXES = ("/page/", "/docs/")
UNAUTHORIZED = Problem(
    401,
    "Authorization must be 'Bearer KEY' with a key of this service",
    "Authorization",
    {"WWW-Authenticate": "Bearer"},
)


class Keys:
    """Adds the caller's role to the scope, and rejects callers without a valid key unless the path needs none.

    If the service has no keys, every caller has the highest role.
    """

    def __init__(self, app: App, keys: Iterable[tuple[str, str]]) -> None:
        """keys: pairs of a role and a key."""
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
        """Return the role of a valid key, or None. Always compares with all keys, each in constant time."""
        scheme, _, key = authorization.partition(b" ")
        digest = sha256(key.strip()).digest()
        matching_role = None
        for role, valid_digest in self._digests:
            if hmac.compare_digest(digest, valid_digest):
                matching_role = role
        return matching_role if scheme.lower() == b"bearer" else None
