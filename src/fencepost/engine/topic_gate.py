"""Checks each topic before its first record: the topic is refused, or created if missing, or accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.kafka.admin.topic_creator import TopicCreator

_OF_BROKERS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class RefusedTopic:
    """The reason why records for a topic are refused, with advice, and the property that names the topic."""

    reason: str
    property_name: str


class TopicGate:
    """Admits a task's records to allowed topics, and creates missing topics.

    The check runs in the process that writes the records, the worker or an executor, because rows may contain topics.
    The gate is pickled to executors together with the topics that it knows. Only one thread may use it.
    """

    def __init__(self, creator: TopicCreator | None, refused: Mapping[str, RefusedTopic] | None = None) -> None:
        """Without a `creator`, brokers may create missing topics. Records for `refused` topics are refused."""
        self._creator = creator
        self._refused = dict(refused or {})
        self._known: set[str] = set()

    def admit(self, topics: Collection[str]) -> None:
        """Create missing topics, before the first record for them is sent.

        Raises ConfigError for refused topics and for internal topics of the brokers. Raises TopicCreationError or
        AuthorizationError for topics that cannot be created.
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
