"""What happens ahead of the first record for a topic: the topic is refused, or created, or just as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fencepost.api.errors import ConfigError
from fencepost.kafka.admin.topic_creator import TopicCreator


class TopicGate:
    """Lets a task's records through to topics that they may go to, and that exist.

    It stands where the records are, in the worker or on an executor: topics that rows name themselves are seen nowhere
    else before they are written. It is pickled to get there, with the topics that it knows by then. For one thread.
    """

    def __init__(self, task: str, creator: TopicCreator | None, *, offsets_topic: str | None = None) -> None:
        """Without a `creator` missing topics are left to the brokers; an `offsets_topic` lets no record through."""
        self._task = task
        self._creator = creator
        self._offsets_topic = offsets_topic
        self._known: set[str] = set()

    def admit(self, topics: Collection[str]) -> None:
        """Create missing topics, ahead of the first record for them.

        Raises ConfigError for the task's own offsets topic, TopicCreationError or AuthorizationError for topics that
        cannot be created.
        """
        missing = set(topics) - self._known
        if self._offsets_topic in missing:
            raise ConfigError(
                f"Task {self._task} has a record for topic {self._offsets_topic}, which holds its own source offsets. "
                "Send the record to another topic, or give the connector another offsets.storage.topic",
                name="offsets.storage.topic",
            )
        if missing and self._creator is not None:
            self._creator.create(missing)
        self._known |= missing

    def learn(self, topics: Iterable[str]) -> None:
        """Take note of topics that records went to from elsewhere."""
        self._known.update(topics)
