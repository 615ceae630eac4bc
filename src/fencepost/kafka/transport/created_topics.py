"""Recently created topics. One broker has confirmed their creation, but others may learn of them later."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from fencepost.kafka.deadline import Deadline

UNKNOWN_MS: Final = 5_000
"""How long to wait for a topic that brokers do not know: they learn of topics, and create topics, with some delay."""

LEARNING_MS: Final = 60_000
"""The same time for a topic that was just created: as long as Kafka's `default.api.timeout.ms`."""

# Maps bootstrap.servers and a topic's name to the time of the creation, on the monotonic clock.
_CREATED_AT: Final[dict[tuple[Sequence[str], str], float]] = {}


def note_created(servers: Sequence[str], topic: str) -> None:
    """Record that a topic was created. Thread-safe."""
    now = time.monotonic()
    for known, created_at in list(_CREATED_AT.items()):
        if now - created_at > LEARNING_MS / 1000:
            _CREATED_AT.pop(known, None)
    _CREATED_AT[servers, topic] = now


def unknown_until(servers: Sequence[str], topic: str) -> Deadline:
    """Return the moment up to which brokers may not know a topic. It is later if the topic was just created."""
    usual = Deadline.after(UNKNOWN_MS)
    created_at = _CREATED_AT.get((servers, topic))
    if created_at is None:
        return usual
    return max(usual, Deadline(created_at + LEARNING_MS / 1000), key=lambda deadline: deadline.at)
