"""The service from Python: one method a route."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from thali.client.connection import Connection, ServiceError
from thali.client.results import (
    Answer,
    Shown,
    User,
    read_answer,
    read_answers,
    read_history,
    read_items,
    read_object,
    read_shown,
    read_topics,
    read_user,
    read_weights,
)

T = TypeVar("T")
MOST_ANSWERS = 1000  # of one request
PAGE = 100


class Client:
    """A service at a url. Use one from as many threads as you like; close it, or use it in a ``with`` block.

        with thali.Client("http://127.0.0.1:8000") as client:
            shown = client.recommend("ana", K=5)
            client.feedback(shown.id, [2])

    Every method is tried again, after a growing random pause, where there was no connection, no reply in time, or a
    reply that says "not now" (503 and 429, with the Retry-After they name; 502 and 504 of a proxy). Feedback is learned
    exactly once all the same, so it survives a restart of the service. Any other error is raised at once, as a
    ServiceError: NotFound, Conflict, Refused, NotAllowed; and Unavailable when all was in vain. What a method cannot
    send at all, as an empty name in a path, is a ValueError or TypeError. Proxies of the environment are not used.

    Parameters
    ----------
    url: where the service is; a path in it goes before the routes.
    key: sent as the bearer; shown in no error and no repr.
    timeout: seconds to wait for the service in one try: to connect, and for each part of the reply.
    retries: how often to try again.
    deadline: seconds that a call may take in all, with its repeats and pauses.

    Cost: one connection for each call under way at the same time, kept for the next ones.

    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        key: str | None = None,
        timeout: float = 10.0,
        retries: int = 5,
        deadline: float = 30.0,
    ) -> None:
        self._connection = Connection(url, key=key, timeout=timeout, retries=retries, deadline=deadline)

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are idle. A later call opens a new one."""
        self._connection.close()

    def recommend(
        self,
        user: str,
        *,
        K: int | None = None,
        candidates: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        learner: str | None = None,
        alpha: float | None = None,
    ) -> Shown:
        """A list for a user, and its impression.

        Where a reply was lost and the request tried again, the first impression stays though nobody saw its list. It is
        never answered; a service that is told to take silence for no click will do so with it.
        """
        body = _given(
            user=user, K=K, candidates=_names("candidates", candidates), exclude=_names("exclude", exclude),
            learner=learner, alpha=alpha,
        )  # fmt: skip
        return self._call("POST", "/v1/recommend", read_shown, body)

    def feedback(self, impression: str, clicked: Iterable[int]) -> Answer:
        """Say which positions were clicked, [] for none. Saying it again is no harm; saying otherwise is a Conflict."""
        return self._call("POST", "/v1/feedback", read_answer, _clicks(impression, clicked))

    def feedback_many(self, pairs: Iterable[tuple[str, Iterable[int]]]) -> list[Answer | ServiceError]:
        """Feedback for many impressions, (impression, clicked) each: for each an answer or its error, in order.

        Sent 1000 at a time. If the service becomes unavailable in between, those before are learned; saying all of it
        again does no harm.
        """
        results: list[Answer | ServiceError] = []
        rest = iter([_clicks(impression, clicked) for impression, clicked in pairs])
        while some := list(islice(rest, MOST_ANSWERS)):
            results += self._call("POST", "/v1/feedback", partial(read_answers, some), some)
        return results

    def undo(self, impression: str) -> Answer:
        """Take back the feedback for an impression: what was learned from it is unlearned."""
        return self._call("DELETE", f"/v1/impressions/{_path('impression', impression)}/feedback", read_answer)

    def impression(self, impression: str) -> Shown:
        """A list as it was shown, with its answer."""
        return self._call("GET", f"/v1/impressions/{_path('impression', impression)}", read_shown)

    def user(self, user: str) -> User:
        """What is known of a user; NotFound if nothing is."""
        return self._call("GET", f"/v1/users/{_path('user', user)}", read_user)

    def history(self, user: str, *, before: str | None = None, limit: int | None = None) -> Iterator[Shown]:
        """A user's impressions, latest first: those before an impression, at most limit of them; fetched as needed."""
        return islice(self._history(f"/v1/users/{_path('user', user)}/impressions", before, limit), limit)

    def _history(self, path: str, before: str | None, limit: int | None) -> Iterator[Shown]:
        query = {"limit": PAGE if limit is None else min(limit, PAGE)}
        while True:
            page, before = self._call("GET", path + _query(before=before, **query), read_history)
            yield from page
            if before is None:
                return

    def export(self, user: str) -> dict[str, Any]:
        """All that is kept of a user."""
        return self._call("GET", f"/v1/users/{_path('user', user)}/export", read_object)

    def forget(self, user: str) -> dict[str, Any]:
        """Delete all that is kept of a user; how much that was. NotFound also if the reply to a first try was lost."""
        return self._call("DELETE", f"/v1/users/{_path('user', user)}", read_object)

    def items(self, *, contains: str | None = None) -> Iterator[tuple[str, dict[str, float]]]:
        """Items and their weights by topic, those whose name contains a text; fetched 100 at a time, as needed.

        Items put or removed meanwhile may move one across the border of two pages: it comes twice or not at all.
        """
        offset: int | None = 0
        while offset is not None:
            query = _query(offset=offset, limit=PAGE, contains=contains)
            page, offset = self._call("GET", "/v1/items" + query, read_items)
            yield from page

    def item(self, item: str) -> dict[str, float]:
        """The weights of an item by topic."""
        return self._call("GET", f"/v1/items/{_path('item', item)}", read_weights)

    def put_item(self, item: str, weights: Mapping[str, float]) -> dict[str, float]:
        """Add an item or change its weights."""
        return self._call("PUT", f"/v1/items/{_path('item', item)}", read_weights, {"weights": dict(weights)})

    def remove_item(self, item: str) -> dict[str, float]:
        """Remove an item; the weights it had. NotFound also if the reply to a first try was lost."""
        return self._call("DELETE", f"/v1/items/{_path('item', item)}", read_weights)

    def topics(self) -> list[str]:
        """The topics."""
        return self._call("GET", "/v1/topics", read_topics)

    def stats(self, hours: float = 24) -> dict[str, Any]:
        """What the learners did in the last hours, in the words of GET /v1/stats."""
        return self._call("GET", "/v1/stats" + _query(hours=hours), read_object)

    def about(self) -> dict[str, Any]:
        """What the service is and this client may do, in the words of GET /v1/about."""
        return self._call("GET", "/v1/about", read_object)

    def health(self) -> dict[str, Any]:
        """How the service is, in the words of GET /v1/health; also where its store cannot be used."""
        return self._call("GET", "/v1/health", read_object)

    def simulate(
        self,
        policies: Sequence[str],
        steps: int,
        *,
        K: int | None = None,
        theta: Mapping[str, float] | None = None,
        seed: int | None = None,
        points: int | Iterable[int] | None = None,
        since: int | None = None,
        trace: bool | None = None,
        changes: Iterable[Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Policies on a made-up person, in the words of POST /v1/simulations. A long one needs a longer timeout."""
        body = _given(
            policies=_names("policies", policies), steps=steps, K=K, theta=None if theta is None else dict(theta),
            seed=seed, points=points if isinstance(points, str) or not isinstance(points, Iterable) else list(points),
            since=since, trace=trace, changes=None if changes is None else [dict(change) for change in changes],
        )  # fmt: skip
        return self._call("POST", "/v1/simulations", read_object, body)

    def healthy(self) -> bool:
        """Whether the service answers; asked once."""
        return self._says_yes("/healthz")

    def ready(self) -> bool:
        """Whether it answers and its store can be used; asked once."""
        return self._says_yes("/readyz")

    def _says_yes(self, path: str) -> bool:
        try:
            self._connection.call("GET", path, read_object, retries=0)
        except ServiceError:
            return False
        return True

    def _call(self, method: str, path: str, read: Callable[[Any], T], body: Any = None) -> T:
        return self._connection.call(method, path, read, body=body)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _query(**fields: Any) -> str:
    return "?" + urlencode(_given(**fields))


def _path(what: str, name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    if not isinstance(name, str) or not name:
        raise (ValueError if name == "" else TypeError)(
            f"{what} must be a name of at least one character, got {name!r}"
        )
    return quote(name, safe="")


def _names(what: str, names: Iterable[str] | None) -> list[str] | None:
    """A list; not a string, which would be taken for its letters."""
    if isinstance(names, str | bytes):
        raise TypeError(f"{what} must be names, not a single one, got {names!r}")
    return None if names is None else list(names)


def _clicks(impression: str, clicked: Iterable[int]) -> dict[str, Any]:
    return {"impression": impression, "clicked": list(clicked)}
