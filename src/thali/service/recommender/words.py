"""The reasons for an item in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thali.datasets.topics import is_learned
from thali.service.recommender.live_catalog import QUALITY
from thali_client.types import Parts

# A part is mentioned if it is at least this share of all parts, and a topic if it is at least this share of its part.
MENTIONED, OF_PART = 0.15, 0.25
# At most this many topics are mentioned for each part.
MOST_TOPICS = 2


def reason(parts: Mapping[Any, Parts], exploration: float) -> str:
    """Return why an item is in a list, in at most three parts: from others, from the user, and to find out.

    >>> reason({"crime": Parts(0.2, 0.1, 0.01), "comedy": Parts(0.0, -0.1, 0.02)}, 0.03)
    'Others like crime. You like crime.'
    >>> reason({"crime": Parts(0.1, 0.0, 0.0), "quality": Parts(0.1, 0.0, 0.0)}, 0.0)
    'Others like crime. Many people like this item.'
    """
    total = sum(abs(p.from_others) + abs(p.from_you) for p in parts.values()) + exploration
    if total <= 0.0:
        return "Nothing is known about its topics."
    sentences = []
    others = _strongest({topic: p.from_others for topic, p in parts.items()}, total)
    if named := [topic for topic in others if topic != QUALITY]:
        sentences.append(f"Others like {_and(named)}.")
    if QUALITY in others:
        sentences.append("Many people like this item.")
    liked = _strongest({topic: p.from_you for topic, p in parts.items()}, total)
    disliked = _strongest({topic: -p.from_you for topic, p in parts.items()}, total)
    if liked:
        sentences.append(f"You like {_and(liked)}.")
    elif disliked:
        sentences.append(
            f"You like {_and(disliked)} less than others do." if others else f"You passed {_and(disliked)}."
        )
    unsure = _strongest({topic: p.to_find_out for topic, p in parts.items()}, total)
    if unsure:
        sentences.append(f"Shown to find out whether you like {_and(unsure)}.")
    return " ".join(sentences) or "No reason stands out."


def _strongest(values: Mapping[Any, float], total: float) -> list[str]:
    """Return the topics that contribute most to a part, or none if the part is small."""
    positive = {topic: value for topic, value in values.items() if value > 0.0}
    whole = sum(positive.values())
    if whole < MENTIONED * total:
        return []
    ordered = sorted(positive, key=lambda topic: -positive[topic])
    return [str(topic) for topic in ordered[:MOST_TOPICS] if positive[topic] >= OF_PART * whole] or [str(ordered[0])]


def _and(topics: list[str]) -> str:
    return " and ".join(map(_words, topics))


def _words(topic: str) -> str:
    """Return a topic as it appears in a sentence. The number at the end of a learned topic is left out.

    >>> _words("like Heat, Ronin #61ba3d"), _words("quality"), _words("crime")
    ('what is like Heat, Ronin', 'what many people like', 'crime')
    """
    if is_learned(topic):
        return f"what is {topic.rpartition(' #')[0]}"
    return "what many people like" if topic == QUALITY else topic
