"""The topic with the progress of all sinks. It is compacted, and written in the transactions of the batches.

The record of a sink, or of one of its runs, is always in the same partition, so only this partition is read. Only one
transactional id writes the record, and its owner reads it while that id has no open transaction. So the read does not
wait for other open transactions.
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
"""The number of partitions that are used.

The number never changes: even if the topic has more partitions, records stay in their partition.
"""


class ProgressLog:
    """The progress of one sink, or of one run of it. Close it after use."""

    def __init__(self, config: SinkConfig, key: SinkKey, *, clients: KafkaClients) -> None:
        self._config = config
        self._key = key
        self._clients = clients
        # One client is kept open, because closing the last client of a configuration also closes all idle connections
        # of this configuration. If each request made a new client, the connections of the producer and its writers
        # would be closed at each commit.
        self._admin = clients.admin(config.producer.client)
        self._partition = int(partition_for_keys(pa.array([key.encoded]), PARTITIONS)[0])

    def cluster_id(self) -> str:
        """Return the id of the cluster.

        Raises BrokerUnavailableError that names the servers if no broker answers within request.timeout.ms.
        """
        return self._admin.cluster_id()

    def ensure_topic(self) -> None:
        """Create the topic if it is missing. Raises the errors of `Admin.ensure_compacted_topic`."""
        topic = InternalTopic(self._config.storage_topic, PARTITIONS, self._config.storage_replication_factor)
        self._admin.ensure_compacted_topic(topic)

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a data topic. Raises the errors of `Admin.topic_id`."""
        return self._admin.topic_id(topic)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def read(self) -> Progress | None:
        """Return the last commit. Only the owner of the transactional id may call this, after `init_transactions`.

        Raises the errors of `LastRecordReader.read_last`.
        """
        config, topic = self._config.producer.client, self._config.storage_topic
        with self._clients.last_record_reader(config, topic, self._partition) as reader:
            record = reader.read_last(self._key.encoded)
        return None if record is None or record.value is None else Progress.read(record.value)

    def write(self, producer: RecordProducer, progress: Progress) -> None:
        """Write a record into the producer's transaction.

        Raises the errors of `write_and_acknowledge`, and ConfigError.
        """
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
