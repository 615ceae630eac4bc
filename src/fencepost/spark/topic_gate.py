"""The check of a sink's topics, on executors too."""

from __future__ import annotations

from collections.abc import Collection

from fencepost.api.errors import ConfigError
from fencepost.engine.topic_gate import TopicGate


class SinkTopicGate(TopicGate):
    """Refuses rows for the topic of the progress, which they would overwrite."""

    def __init__(self, sink: str, storage_topic: str) -> None:
        super().__init__(sink, None)
        self._sink = sink
        self._storage_topic = storage_topic

    def admit(self, topics: Collection[str]) -> None:
        """Raise ConfigError for the topic of the progress."""
        if self._storage_topic in topics:
            raise ConfigError(
                f"A row of sink {self._sink} is for topic {self._storage_topic}, which holds the progress of sinks: send "
                "it to another topic, or set sink.storage.topic",
                name="sink.storage.topic",
            )
        super().admit(topics)
