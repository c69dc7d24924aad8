"""The client: one method per route of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from msgspec.json import Decoder

from thali_client.errors import ServiceError, error_class
from thali_client.transport import Transport, encoded
from thali_client.types import (
    About,
    Answer,
    CatalogLoaded,
    Export,
    Forgotten,
    Health,
    HistoryPage,
    HistoryRemoved,
    Impression,
    Item,
    Items,
    ItemsChanged,
    LearnerPrior,
    Priors,
    Results,
    Shown,
    Simulated,
    Stats,
    Status,
    Topics,
    User,
)

T = TypeVar("T")
BATCH = 1000  # impressions in one feedback request
ITEMS, ITEMS_BYTES = 10_000, 8_000_000  # items in one bulk update, and bytes of their JSON
PAGE = 100

# One decoder per type, created only once, because creating a decoder takes longer than using it.
_about = Decoder(About).decode
_answer = Decoder(Answer).decode
_catalog_loaded = Decoder(CatalogLoaded).decode
_export = Decoder(Export).decode
_forgotten = Decoder(Forgotten).decode
_health = Decoder(Health).decode
_history_page = Decoder(HistoryPage).decode
_history_removed = Decoder(HistoryRemoved).decode
_impression = Decoder(Impression).decode
_item = Decoder(Item).decode
_items = Decoder(Items).decode
_items_changed = Decoder(ItemsChanged).decode
_learner_prior = Decoder(LearnerPrior).decode
_priors = Decoder(Priors).decode
_results = Decoder(Results).decode
_shown = Decoder(Shown).decode
_simulated = Decoder(Simulated).decode
_stats = Decoder(Stats).decode
_status = Decoder(Status).decode
_topics = Decoder(Topics).decode
_user = Decoder(User).decode


class Client:
    """A client for the service at a URL. Threads can share it. Close it, or use it in a ``with`` block.

        with Client("http://127.0.0.1:8000") as client:
            shown = client.recommend("ana", K=5)
            client.feedback(shown.id, [2])

    A call is retried if the connection fails, if no response arrives in time, or if the status is temporary: 429 or 503
    from the service, or 502 or 504 from a proxy. The pauses between tries are random and become longer. The client
    respects Retry-After. Retries are safe, even if the service restarts in between, because it learns from each
    feedback exactly once. If all retries fail, Unavailable is raised. Any other error of the service is raised
    immediately, as a subclass of ServiceError: NotFound, Conflict, Refused or NotAllowed. Arguments that cannot be
    sent, such as an empty name, raise ValueError or TypeError. The client ignores proxy settings in the environment and
    does not follow redirects.

    Parameters
    ----------
    url: address of the service. If it has a path, the path is put in front of the routes.
    key: API key, sent as a bearer token. It never appears in an error or a repr.
    timeout: how many seconds one try waits for the connection, and then for each part of the response.
    retries: how many times a failed call is retried.
    deadline: how many seconds a call may take in total, including retries and pauses.

    Cost: each call in progress uses one connection. Connections are kept open and reused.

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
        self._transport = Transport(url, key=key, timeout=timeout, retries=retries, deadline=deadline)

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections. A later call opens a new one."""
        self._transport.close()

    def recommend(
        self,
        user: str,
        *,
        K: int | None = None,
        candidates: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        learner: str | None = None,
        alpha: float | None = None,
        hide: str | None = None,
        explain: bool | None = None,
    ) -> Shown:
        """Get a list for a user. The service stores it as an impression, to which feedback refers.

        K is the most items. The list is shorter if fewer items are left to choose from. hide: what not to show again,
        such as "nothing" or "clicked", instead of the rule of the service. explain: whether the items have reasons by
        topic and in words.

        If a response is lost and the call is retried, the first impression stays in the store, although nobody saw its
        list. It gets no feedback. A service that treats missing feedback as no click also does so for this impression.
        """
        body = _given(
            user=user, K=K, candidates=_names("candidates", candidates), exclude=_names("exclude", exclude),
            learner=learner, alpha=alpha, hide=hide, explain=explain,
        )  # fmt: skip
        return self._call("POST", "/v1/recommend", _shown, body)

    def feedback(self, impression: str, clicked: Iterable[int]) -> Answer:
        """Report the clicked positions of an impression, or [] if nothing was clicked.

        Sending the same feedback again changes nothing. Sending different feedback raises Conflict.
        """
        return self._call("POST", "/v1/feedback", _answer, _feedback(impression, clicked))

    def feedback_many(self, pairs: Iterable[tuple[str, Iterable[int]]]) -> list[Answer | ServiceError]:
        """Report feedback for many impressions, as pairs (impression, clicked). Returns an answer or an error for each.

        The pairs are sent in batches of 1000. If the service becomes unavailable between two batches, it has already
        learned from the earlier ones. It is safe to send all pairs again.
        """
        outcomes: list[Answer | ServiceError] = []
        remaining = iter([_feedback(impression, clicked) for impression, clicked in pairs])
        while batch := list(islice(remaining, BATCH)):
            outcomes += self._call("POST", "/v1/feedback", partial(_outcomes, batch), batch)
        return outcomes

    def undo(self, impression: str) -> Answer:
        """Undo the feedback for an impression. The service forgets what it learned from this feedback."""
        return self._call("DELETE", f"/v1/impressions/{_path('impression', impression)}/feedback", _answer)

    def impression(self, impression: str) -> Impression:
        """Get a list that was shown, with the answer that is recorded for it."""
        return self._call("GET", f"/v1/impressions/{_path('impression', impression)}", _impression)

    def user(self, user: str) -> User:
        """Get what the service has learned about a user. Raises NotFound for an unknown user."""
        return self._call("GET", f"/v1/users/{_path('user', user)}", _user)

    def history(self, user: str, *, before: str | None = None, limit: int | None = None) -> Iterator[Impression]:
        """Iterate over a user's impressions, latest first. Pages are fetched as needed.

        Parameters
        ----------
        before: return only impressions before this one.
        limit: the largest number of impressions to return.

        """
        return islice(self._history(f"/v1/users/{_path('user', user)}/impressions", before, limit), limit)

    def _history(self, path: str, before: str | None, limit: int | None) -> Iterator[Impression]:
        size = PAGE if limit is None else min(limit, PAGE)
        while True:
            page = self._call("GET", path + _query(before=before, limit=size), _history_page)
            yield from page.impressions
            if page.next is None:
                return
            before = page.next

    def export(self, user: str) -> Export:
        """Get all data stored about a user."""
        return self._call("GET", f"/v1/users/{_path('user', user)}/export", _export)

    def forget(self, user: str) -> Forgotten:
        """Delete all data about a user. Raises NotFound for an unknown user.

        If the response to the first try is lost, the retry raises NotFound too, because the user is already deleted.
        """
        return self._call("DELETE", f"/v1/users/{_path('user', user)}", _forgotten)

    def items(self, *, contains: str | None = None) -> Iterator[Item]:
        """Iterate over all items, or over the items whose name contains a text. Pages of 100 are fetched as needed.

        If items are added or removed during the iteration, an item may be returned twice or not at all, because it
        moved to another page.
        """
        offset: int | None = 0
        while offset is not None:
            page = self._call("GET", "/v1/items" + _query(offset=offset, limit=PAGE, contains=contains), _items)
            yield from page.items
            offset = page.next

    def item(self, item: str) -> Item:
        """Get an item and its weights by topic."""
        return self._call("GET", f"/v1/items/{_path('item', item)}", _item)

    def put_item(
        self, item: str, weights: Mapping[str, float] | None = None, *, topics: Iterable[str] | None = None
    ) -> Item:
        """Add an item or change its weights. With topics instead, it gets the weights that such items usually have."""
        body = _given(weights=None if weights is None else dict(weights), topics=_names("topics", topics))
        return self._call("PUT", f"/v1/items/{_path('item', item)}", _item, body)

    def put_items(self, items: Iterable[Mapping[str, Any]]) -> int:
        """Add, change or remove many items, such as {"item": "Ronin", "topics": ["crime"]}. Returns how many.

        Each has the name ``item`` and either ``weights``, ``topics`` or ``remove=True``. They are sent in requests of
        up to 10,000 items and 8 MB. Each request is carried out as a whole or, if one of its items is not valid, not
        at all. If the response to a request that removes items is lost, its retry is refused, because they are no
        longer there.
        """
        batches = _batches([dict(item) for item in items])
        return sum(self._call("PUT", "/v1/items", _items_changed, {"items": batch}).changed for batch in batches)

    def load_catalog(self, *, discard_changes: bool = False) -> CatalogLoaded:
        """Let the service load its catalog file again, without a restart.

        discard_changes: whether changes made to items through the API may be lost.
        """
        return self._call("POST", "/v1/catalog", _catalog_loaded, {"discard_changes": discard_changes})

    def priors(self) -> dict[str, LearnerPrior]:
        """Get the prior of each learner: what it believes about people before their first click."""
        return self._call("GET", "/v1/prior", _priors).learners

    def learn_prior(self, learner: str | None = None) -> LearnerPrior:
        """Let the service learn the prior of a learner from its users now. May need a longer timeout."""
        return self._call("POST", "/v1/prior", _learner_prior, _given(learner=learner))

    def remove_history(self, user: str, history: str) -> HistoryRemoved:
        """Remove what was learned about a user from a history (``thali learn-from``)."""
        path = f"/v1/users/{_path('user', user)}/histories/{_path('history', history)}"
        return self._call("DELETE", path, _history_removed)

    def remove_item(self, item: str) -> Item:
        """Remove an item and return it. Raises NotFound for an unknown item.

        If the response to the first try is lost, the retry raises NotFound too, because the item is already removed.
        """
        return self._call("DELETE", f"/v1/items/{_path('item', item)}", _item)

    def topics(self) -> list[str]:
        """Get all topics."""
        return self._call("GET", "/v1/topics", _topics).topics

    def stats(self, hours: float = 24) -> Stats:
        """Get the performance of the learners over the last hours."""
        return self._call("GET", "/v1/stats" + _query(hours=hours), _stats)

    def about(self) -> About:
        """Get the version, settings and limits of the service, and the role of this client."""
        return self._call("GET", "/v1/about", _about)

    def health(self) -> Health:
        """Get the health of the service. This also works if its store is not usable."""
        return self._call("GET", "/v1/health", _health)

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
    ) -> Simulated:
        """Run policies on a simulated user. A long simulation needs a longer timeout."""
        body = _given(
            policies=_names("policies", policies), steps=steps, K=K, theta=None if theta is None else dict(theta),
            seed=seed, points=points if isinstance(points, str) or not isinstance(points, Iterable) else list(points),
            since=since, trace=trace, changes=None if changes is None else [dict(change) for change in changes],
        )  # fmt: skip
        return self._call("POST", "/v1/simulations", _simulated, body)

    def healthy(self) -> bool:
        """Return whether the service responds. This call is not retried."""
        return self._succeeds("/healthz")

    def ready(self) -> bool:
        """Return whether the service responds and its store is usable. This call is not retried."""
        return self._succeeds("/readyz")

    def _succeeds(self, path: str) -> bool:
        try:
            self._transport.call("GET", path, _status, retries=0)
        except ServiceError:
            return False
        return True

    def _call(self, method: str, path: str, decode: Callable[[bytes], T], body: Any = None) -> T:
        return self._transport.call(method, path, decode, body=body)


def _batches(items: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the items of each request."""
    batch, size = list[dict[str, Any]](), 0
    for item in items:
        bytes_of_item = len(encoded(item)) + 2  # and a comma with a space
        if batch and (len(batch) == ITEMS or size + bytes_of_item > ITEMS_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += bytes_of_item
    if batch:
        yield batch


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _query(**fields: Any) -> str:
    return "?" + urlencode(_given(**fields))


def _path(what: str, name: str) -> str:
    """Encode a name as a single segment of a path."""
    if not isinstance(name, str) or not name:
        raise (ValueError if name == "" else TypeError)(f"{what} must be a non-empty string, got {name!r}")
    return quote(name, safe="")


def _names(what: str, names: Iterable[str] | None) -> list[str] | None:
    """Return names as a list. A single string is an error, because it would become a list of letters."""
    if isinstance(names, str | bytes):
        raise TypeError(f"{what} must be a list of names, not a single name, got {names!r}")
    return None if names is None else list(names)


def _feedback(impression: str, clicked: Iterable[int]) -> dict[str, Any]:
    return {"impression": impression, "clicked": list(clicked)}


def _outcomes(batch: list[dict[str, Any]], content: bytes) -> list[Answer | ServiceError]:
    """Decode the response to a feedback batch."""
    outcomes: list[Answer | ServiceError] = []
    for sent, result in zip(batch, _results(content).results, strict=True):
        if result.impression != sent["impression"]:
            raise ValueError(
                f"results must be in the order of the request, got impression {result.impression!r} instead of "
                f"{sent['impression']!r}"
            )
        if result.status == 200:
            outcomes.append(Answer(result.impression, result.clicked, result.answer))
        elif result.error is None:
            raise ValueError(f"a result with status {result.status} must have an error message, got none")
        else:
            outcomes.append(error_class(result.status)(result.error, result.status))
    return outcomes
