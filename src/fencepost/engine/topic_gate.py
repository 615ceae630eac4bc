"""The check before the first record for a topic: the topic is refused, created, or accepted unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.kafka.admin.topic_creator import TopicCreator

_OF_BROKERS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class RefusedTopic:
    """Why records for a topic are refused, with advice, and the property that names the topic."""

    reason: str
    property_name: str


class TopicGate:
    """Admits a task's records to allowed topics, and creates missing topics.

    It runs where the records are, in the worker or on an executor, because topics in rows are seen nowhere else before
    the write. It is pickled to executors with its known topics. For one thread.
    """

    def __init__(self, creator: TopicCreator | None, refused: Mapping[str, RefusedTopic] | None = None) -> None:
        """Without a `creator` the brokers may create missing topics. Records for `refused` topics are refused."""
        self._creator = creator
        self._refused = dict(refused or {})
        self._known: set[str] = set()

    def admit(self, topics: Collection[str]) -> None:
        """Create missing topics, ahead of the first record for them.

        Raises ConfigError for refused topics and for topics of the brokers, TopicCreationError or AuthorizationError for
        topics that cannot be created.
        """
        missing = set(topics) - self._known
        if internal := _OF_BROKERS & missing:
            raise ConfigError(
                f"A record is for topic {min(internal)}, in which brokers keep state of their own, and take no records: send "
                "it to another topic"
            )
        for topic in self._refused.keys() & missing:
            raise ConfigError(self._refused[topic].reason, name=self._refused[topic].property_name)
        if missing and self._creator is not None:
            self._creator.create(missing)
        self._known |= missing

    def learn(self, topics: Iterable[str]) -> None:
        """Add topics that other writers have already written to."""
        self._known.update(topics)
