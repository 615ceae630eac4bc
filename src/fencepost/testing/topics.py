"""Reads the records of connectors under test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
    from fencepost.kafka.consumer.read_to_end import TopicReader


def topic_reader(bootstrap_servers: str, topic: str) -> TopicReader:
    """Return a reader of a topic's committed records, which the caller closes."""
    # Importing a Kafka client takes a second, and pytest imports this module in each of its runs.
    from fencepost.kafka.config.client_config import ClientConfig  # noqa: PLC0415 - see above
    from fencepost.kafka.consumer.read_to_end import TopicReader  # noqa: PLC0415 - see above

    return TopicReader(ClientConfig((bootstrap_servers,)), topic)


def read_new(reader: TopicReader) -> list[ConsumedRecord]:
    """Return the records since the last call; none if the topic does not exist.

    Raises the errors of `TopicReader.read_to_end`.
    """
    from fencepost.kafka.errors import TopicNotFoundError  # noqa: PLC0415 - see above

    try:
        return list(reader.read_to_end())
    except TopicNotFoundError:
        return []
