"""The topic with the progress of all sinks: compacted, written in the transactions of the batches.

The record of a sink, or of one run of it, is in a fixed partition, so only that one is read. Only one transactional id
writes it, and its owner reads it when none of that id's transactions is open: other open transactions are not waited
for.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fencepost.api.errors import ConfigError
from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.kafka.producer.record_producer import RecordProducer, write_and_acknowledge
from fencepost.kafka.records.columns import Records
from fencepost.spark.config.progress import Progress, SinkKey
from fencepost.spark.config.sink_config import SinkConfig

PARTITIONS: Final = 25
"""The number of partitions that have records. It never changes: if the topic has more, every record keeps its place."""


class ProgressLog:
    """The progress of one sink, or of one run of it. Close it after use."""

    def __init__(self, config: SinkConfig, key: SinkKey, *, clients: KafkaClients) -> None:
        self._config = config
        self._key = key
        self._clients = clients
        # Idle connections are closed with the last client of their configuration: if a client were made for each
        # request, the connections of the producer and its writers would be closed at each commit.
        self._admin = clients.admin(config.producer.client)
        self._partition = int(partition_for_keys(pa.array([key.encoded]), PARTITIONS)[0])

    def cluster_id(self) -> str:
        """Return the id of the cluster.

        Raises BrokerUnavailableError, with the servers, unless a broker answers within request.timeout.ms.
        """
        return self._admin.cluster_id()

    def ensure_topic(self) -> None:
        """Create the topic if it is missing. Raises the errors of `Admin.ensure_compacted_topic`."""
        topic = InternalTopic(self._config.storage_topic, PARTITIONS, self._config.storage_replication_factor)
        self._admin.ensure_compacted_topic(topic)

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a data topic. Raises as `Admin.topic_id`."""
        return self._admin.topic_id(topic)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def read(self) -> Progress | None:
        """Return the last commit, to the owner of the transactional id after `init_transactions`.

        Raises the errors of `LastRecordReader.read_last`.
        """
        config, topic = self._config.producer.client, self._config.storage_topic
        with self._clients.last_record_reader(config, topic, self._partition) as reader:
            record = reader.read_last(self._key.encoded)
        return None if record is None or record.value is None else Progress.read(record.value)

    def write(self, producer: RecordProducer, progress: Progress) -> None:
        """Write into the producer's transaction. Raises the errors of `write_and_acknowledge`, and ConfigError."""
        records = Records.of_rows([(self._key.encoded, progress.encoded)])

        def by_partition(count: int) -> list[tuple[int, Records]]:
            if count < PARTITIONS:
                raise ConfigError(
                    f"Topic {self._config.storage_topic} has {count} partitions, but the progress of sinks needs "
                    f"{PARTITIONS}: add partitions, or set sink.storage.topic to another name",
                    name="sink.storage.topic",
                )
            return [(self._partition, records)]

        write_and_acknowledge(producer, self._config.storage_topic, by_partition)
