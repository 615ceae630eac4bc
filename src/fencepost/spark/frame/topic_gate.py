"""The check of a sink's topics, on executors too."""

from __future__ import annotations

from collections.abc import Collection

from fencepost.api.errors import ConfigError
from fencepost.engine.topic_gate import TopicGate
from fencepost.spark.config.sink_config import SinkConfig


class SinkTopicGate(TopicGate):
    """Refuses rows for the topics of the progress, which they would overwrite or hold up."""

    def __init__(self, sink: str, config: SinkConfig) -> None:
        super().__init__(sink, None)
        self._sink = sink
        self._own = (config.storage_topic, config.tasks_topic)

    def admit(self, topics: Collection[str]) -> None:
        """Raise ConfigError for the topics of the progress."""
        for topic in self._own:
            if topic in topics:
                raise ConfigError(
                    f"A row of sink {self._sink} is for topic {topic}, which holds the progress of sinks, or of their "
                    "tasks: send it to another topic, or set sink.storage.topic",
                    name="sink.storage.topic",
                )
        super().admit(topics)
