"""What each operation does, within a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.service.recommender import answers, figures, showing
from thali.service.recommender.batch import Batch, answer_of, positions
from thali.service.recommender.learners import Learner
from thali.service.recommender.operations import (
    Conflict,
    ExportUser,
    Feedback,
    Forget,
    History,
    Look,
    LookItem,
    LookItems,
    LookUser,
    Mark,
    Past,
    Prune,
    PutItem,
    Recommend,
    Refused,
    RemoveItem,
    Size,
    Stats,
    TimeOut,
    Undo,
    Unknown,
    checked,
)
from thali.service.recommender.tastes import Taste
from thali.service.stores.records import Change, Impression, Unusable, id_floor, new_id, unpack_shown
from thali.tools import checks
from thali.tools.types import Integers

if TYPE_CHECKING:
    from thali.service.recommender.core import Recommender

# Beyond this, α says nothing any more.
MOST_ALPHA = 1e6
# How long after its time a time-out is given where several processes show lists.
LAG_S = 60.0
# In one transaction.
MOST_TIDIED = 1_000_000


def recommend(batch: Batch, asked: Recommend) -> answers.Shown:
    """Choose a list and write it down."""
    home = batch.home
    learner = home.find_learner(asked.user, asked.learner)
    policy = _policy(batch, learner, asked)
    state = batch.taste((asked.user, learner.name)).state
    chosen = _choose(batch, policy, state, asked)
    measured = showing.measure(policy, state, chosen)
    items = [home.catalog.items[e] for e in chosen.tolist()]
    shown = batch.show(new_id(batch.now), asked.user, learner.name, items, measured)
    batch.writes.shown.append(shown)
    answer: answers.Shown = showing.told(shown, measured.numbers, batch.topics.sets[-1], answers.Shown)
    return answer


def _policy(batch: Batch, learner: Learner, asked: Recommend) -> LinearPolicy:
    """The learner's policy with the K and α asked for."""
    home, K, alpha = batch.home, asked.K, asked.alpha
    if K is not None:
        checked("K", checks.integer, K, low=1, high=home.most_K)
    if (K or learner.policy.K) > len(home.catalog):
        raise Refused("K", f"must be at most the {len(home.catalog)} items there are, got {K or learner.policy.K}")
    if alpha is not None:
        alpha = checked("alpha", checks.number, alpha, low=0.0, high=MOST_ALPHA)
    return learner.variant(K, alpha)


def _choose(batch: Batch, policy: LinearPolicy, state: LinearState, asked: Recommend) -> Integers:
    if asked.candidates is None and asked.exclude is None:
        return np.asarray(policy.recommend(state)[0])
    candidates = None if asked.candidates is None else _items(batch.home, "candidates", asked.candidates)
    # What is not there is not shown anyway: it may have been removed since it was seen.
    exclude = None if asked.exclude is None else _items(batch.home, "exclude", asked.exclude, missing=True)
    try:
        return np.asarray(policy.recommend(state, candidates=candidates, exclude=exclude)[0])
    except ValueError as error:
        raise Refused("exclude" if candidates is None else "candidates", f"must leave a list: {error}") from None


def _items(home: Recommender, field: str, names: Any, *, missing: bool = False) -> Integers:
    """Indices of items; one that is not there is refused, or if missing is allowed left out."""
    found = []
    for at, name in enumerate(checked(field, checks.sequence, names)):
        e = home.catalog.find(name)
        if e is not None:
            found.append(e)
        elif not missing:
            raise Refused(f"{field}[{at}]", f"must be an item of the catalog, got {name!r:.80}")
    return np.array(found, dtype=np.int64)


def past(batch: Batch, told: Past) -> answers.Answer:
    """An impression from elsewhere, with the gains that its items have now; older than what is kept, only learned."""
    home = batch.home
    learner, at, names, chosen, clicked = checked_past(home, told, batch.now)
    policy, state = learner.variant(len(names), 0.0), batch.taste((told.user, learner.name)).state
    shown = batch.show(new_id(at), told.user, learner.name, names, showing.measure(policy, state, chosen))
    if clicked is not None:
        batch.learn(shown, clicked, "feedback")
        del batch.writes.answered[shown.id]  # it is written as a whole, if at all
    if shown.id >= home.oldest(batch.now):
        batch.writes.shown.append(shown)
    return answer_of(shown)


def checked_past(
    home: Recommender, told: Past, now: float
) -> tuple[Learner, float, list[Any], Integers, list[int] | None]:
    """Learner, time, names and indices of the items, and clicked positions; or a refusal."""
    learner = home.find_learner(told.user, told.learner)
    at = now if told.at is None else checked("time", checks.number, told.at, low=0.0, high=now + 60.0)
    names = checked("items", checks.sequence, told.items)
    checked("items", _length, names, most=min(home.most_K, len(home.catalog)))
    chosen = _items(home, "items", names)
    if np.unique(chosen).size != chosen.size:
        raise Refused("items", "must be distinct")
    clicked = None if told.clicked is None else positions(told.clicked, len(names))
    return learner, at, names, chosen, clicked


def _length(field: str, names: Sequence[Any], *, most: int) -> None:
    if not 1 <= len(names) <= most:
        raise ValueError(f"{field} must be 1 to {most} items, got {len(names)}")


def mark(batch: Batch, asked: Mark) -> None:
    """A word for the store."""
    if asked.was is not ...:
        batch.store.lock_setup()
        if batch.store.meta(asked.name) != asked.was:
            raise Conflict(f"{asked.name} is not {asked.was!r} any more: another process is at it")
    if asked.value is None:
        batch.store.drop_meta(asked.name)
    else:
        batch.store.set_meta(asked.name, asked.value)


def look(batch: Batch, asked: Look) -> answers.Seen:
    """An impression as it was shown."""
    return _seen(batch, batch.shown(asked.id))


def _seen(batch: Batch, shown: Impression) -> answers.Seen:
    batch.topics.place(shown.topics)  # an error where its topics are newer than this process's
    seen: answers.Seen = showing.told(
        shown,
        unpack_shown(shown.numbers, len(shown.items)),
        batch.topics.sets[shown.topics],
        answers.Seen,
        clicked=shown.clicked,
        answer=shown.answer,
        answered_at=shown.answered_at,
    )
    return seen


def look_user(batch: Batch, asked: LookUser) -> answers.User:
    """What is known of a user."""
    user = batch.home.user_name(asked.user)
    assigned = batch.home.learners.assigned(user).name
    topics = batch.home.catalog.topics
    found = {
        name: answers.Taste(taste.updates, name == assigned, figures.taste(policy, taste.state, topics))
        for name, policy, taste in _tastes(batch, user)
    }
    counts = batch.store.counts_of_user(user)
    if not found and not counts:
        raise Unknown(f"user {user!r} is not known")
    shown, answered, clicked = (sum(counted[at] for counted in counts.values()) for at in range(3))
    return answers.User(user, shown, answered, clicked, found)


def _tastes(batch: Batch, user: str) -> list[tuple[str, LinearPolicy, Taste]]:
    """Learner, policy and taste, where something was learned."""
    return [
        (name, batch.home.learning(name).policy, batch.home.blank_taste(name).read(kept, batch.topics))
        for name, kept in batch.store.of_user(user).items()
        if kept.sequence
    ]


def export_user(batch: Batch, asked: ExportUser) -> dict[str, answers.Learned]:
    """A user's statistics by learner."""
    return {
        name: answers.Learned(
            updates=taste.updates,
            topics=list(batch.home.catalog.topics),
            M=taste.state.M[0].tolist(),
            B=taste.state.B[0].tolist(),
            estimate=policy.estimate(taste.state)[0].tolist(),
        )
        for name, policy, taste in _tastes(batch, batch.home.user_name(asked.user))
    }


def history(batch: Batch, asked: History) -> list[answers.Seen]:
    """A page of a user's impressions."""
    user = batch.home.user_name(asked.user)
    limit = checked("limit", checks.integer, asked.limit, low=1, high=1000)
    return [_seen(batch, shown) for shown in batch.store.history(user, asked.before, limit)]


def forget(batch: Batch, asked: Forget) -> answers.Forgotten:
    """All of a user, wholly."""
    user = batch.home.user_name(asked.user)
    batch.flush()
    impressions, kept = batch.store.forget(user)
    if not impressions and not any(sequence for _, sequence in kept.values()):
        raise Unknown(f"user {user!r} is not known")
    batch.forgotten.add(user)
    for learner, (_, sequence) in kept.items():
        if sequence:
            batch.writes.count(figures.ALWAYS, learner, users=-1.0)
    for key in [key for key in batch.tastes if key[0] == user]:
        del batch.tastes[key]
    return answers.Forgotten(user, impressions, sum(updates for updates, _ in kept.values()))


def look_item(batch: Batch, asked: LookItem) -> answers.Item:
    """An item and its weights."""
    if not isinstance(asked.item, str | int) or isinstance(asked.item, bool):
        raise Refused("item", f"must be text or a whole number, got {asked.item!r:.80}")
    weights = batch.changed.get(asked.item) if asked.item in batch.changed else _weights(batch, asked.item)
    if weights is None:
        raise Unknown(f"item {asked.item!r:.80} is not in the catalog")
    return answers.Item(asked.item, weights)


def _weights(batch: Batch, item: Any) -> dict[Any, float] | None:
    e = batch.home.catalog.find(item)
    return None if e is None else batch.home.weights_of(e)


def look_items(batch: Batch, asked: LookItems) -> answers.Items:
    """A page of items."""
    return find_items(batch.home, asked)


def find_items(home: Recommender, asked: LookItems) -> answers.Items:
    """A page of items; with some text to look for, a pass over all names."""
    catalog = home.catalog
    offset = checked("offset", checks.integer, asked.offset, low=0)
    limit = checked("limit", checks.integer, asked.limit, low=1, high=1000)
    if not isinstance(asked.contains, str):
        raise Refused("contains", f"must be text, got {asked.contains!r:.80}")
    found = np.flatnonzero(catalog.present)
    if asked.contains:
        text = asked.contains.lower()
        found = np.array([e for e in found.tolist() if text in str(catalog.items[e]).lower()], dtype=np.int64)
    more = offset + limit < len(found)
    page = found[offset : offset + limit].tolist()
    items = [answers.Item(catalog.items[e], home.weights_of(e)) for e in page]
    return answers.Items(len(found), items, offset + limit if more else None)


def put_item(batch: Batch, asked: PutItem) -> answers.Item:
    """An item, durable now and to be shown from the next list on."""
    if isinstance(asked.item, int):
        item = checked("item", checks.integer, asked.item, low=-checks.MOST_COUNT, high=checks.MOST_COUNT)
    else:
        item = checked("item", checks.text_name, asked.item)
    if not isinstance(asked.weights, Mapping):
        raise Refused("weights", f"must be weights by topic, got {asked.weights!r:.80}")
    weights: dict[Any, float] = {}
    topics = set(batch.home.catalog.topics)
    for topic, weight in asked.weights.items():
        if topic not in topics:
            raise Refused("weights", f"must be of topics of the catalog, got {topic!r:.80}")
        weights[topic] = checked(f"weights.{topic}", checks.number, weight, low=0.0, high=1.0)
    weights = {topic: weight for topic, weight in weights.items() if weight}
    _change(batch, item, weights)
    return answers.Item(item, weights)


def remove_item(batch: Batch, asked: RemoveItem) -> answers.Item:
    """An item, out."""
    item = look_item(batch, LookItem(asked.item))
    _change(batch, asked.item, None)
    return item


def _change(batch: Batch, item: Any, weights: dict[Any, float] | None) -> None:
    heading = batch.store.heading()
    if heading is None or heading.epoch != batch.home.epoch:
        raise Unusable("another catalog has taken the place of this process's: start it again with that one")
    seq = batch.store.next_change(batch.home.epoch)
    batch.store.add_change(batch.home.epoch, Change(seq, item, weights, batch.now))
    batch.changed[item] = weights


def prune(batch: Batch, asked: Prune) -> int:
    """How many were removed."""
    limit = checked("limit", checks.integer, asked.limit, low=1, high=MOST_TIDIED)
    return batch.store.prune(batch.home.oldest(batch.now), limit)


def time_out(batch: Batch, asked: TimeOut) -> int:
    """No click, for what had no answer in time; each impression comes by once, so that one undone stays so."""
    limit = checked("limit", checks.integer, asked.limit, low=1, high=MOST_TIDIED)
    if batch.home.no_click_after is None:
        return 0
    batch.flush()
    since = bytes.fromhex(batch.store.meta("timed_out_until") or "")
    # Other processes may have other clocks, and commit late what they have shown.
    lag = LAG_S if batch.store.shared else 0.0
    until = id_floor(max(0.0, batch.now - batch.home.no_click_after - lag))
    ids = batch.store.unanswered(since, until, limit)
    late = batch.run([Feedback(id, (), "time-out") for id in ids], HANDLERS)
    batch.store.set_meta("timed_out_until", (ids[-1] + b"\0" if len(ids) == limit else max(since, until)).hex())
    return sum(not isinstance(outcome, Exception) for outcome in late)


def stats(batch: Batch, asked: Stats) -> answers.Statistics:
    """How the learners do."""
    hours = checked("hours", checks.integer, asked.hours, low=1, high=24 * 366)
    since = figures.hour(batch.now) - hours + 1
    return figures.statistics(batch.home, batch.store.counters(since), since)


def size(batch: Batch, asked: Size) -> int:
    """Bytes on disk."""
    return batch.store.size()


HANDLERS: dict[type, Callable[[Batch, Any], Any]] = {
    Recommend: recommend,
    Feedback: Batch.feedback,
    Undo: Batch.undo,
    Past: past,
    Mark: mark,
    Look: look,
    LookUser: look_user,
    ExportUser: export_user,
    History: history,
    Forget: forget,
    LookItem: look_item,
    LookItems: look_items,
    PutItem: put_item,
    RemoveItem: remove_item,
    TimeOut: time_out,
    Prune: prune,
    Stats: stats,
    Size: size,
}
