"""The topics in which a worker keeps its state.

Records of connectors are refused there: workers would read them as state.
"""

from __future__ import annotations

from typing import Final

from fencepost.api.config_def import ConfigValue
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.error_handling import DEAD_LETTER_TOPIC
from fencepost.config.worker_config import WorkerConfig
from fencepost.engine.topic_gate import RefusedTopic
from fencepost.runtime.connector.client_properties import brokers_written_to

_OWN_OFFSETS: Final = "offsets.storage.topic"


def state_topics(worker: WorkerConfig) -> dict[str, RefusedTopic]:
    """Return the worker's own topics, each with the reason why it takes no records and the property that names it."""
    found = {worker.offset_storage.name: ("source offsets", "offset.storage.topic")}
    found[worker.config_storage.name] = ("configurations", "config.storage.topic")
    if worker.status_storage in worker.internal_topics:
        found[worker.status_storage.name] = ("states", "status.storage.topic")
    return {
        topic: RefusedTopic(
            f"Records for topic {topic} are refused, because the workers keep their {what} there ({name}): send them to "
            "another topic",
            name,
        )
        for topic, (what, name) in found.items()
    }


def dead_letter_topic_errors(worker: WorkerConfig, connector: ConnectorConfig) -> list[ConfigValue]:
    """Return an error if a topic for dead letters holds state. No broker is asked about the topic."""
    topic = connector.errors.dead_letter_topic
    here = set(brokers_written_to(worker, connector).split(",")) == set(worker.bootstrap_servers.split(","))
    if topic is None:
        return []
    if topic == connector.offsets_storage_topic:
        what = f"the connector's source offsets are in it ({_OWN_OFFSETS})"
    elif here and topic in (refused := state_topics(worker)):
        what = f"the workers keep their state in it ({refused[topic].property_name})"
    else:
        return []
    message = f"The property {DEAD_LETTER_TOPIC} names {topic}, which takes no dead letters, because {what}: name another topic"
    return [ConfigValue(DEAD_LETTER_TOPIC, topic, errors=[message])]
