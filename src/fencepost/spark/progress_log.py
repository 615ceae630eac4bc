"""The topic with the progress of all sinks: compacted, written in the transactions of the batches.

A sink's record is in a fixed partition, so that the open transaction of one sink delays few others, and none while it
writes: a record is the last write of its transaction.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fencepost.api.errors import ConfigError
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.kafka.producer.record_producer import RecordProducer, write_and_acknowledge
from fencepost.kafka.records.columns import Records
from fencepost.spark.progress import Progress, SinkKey
from fencepost.spark.sink_config import SinkConfig

PARTITIONS: Final = 25
"""The number of partitions that have records. It never changes: a topic with more of them keeps every record's place."""


class ProgressLog:
    """The progress of one sink, or of one run of it. Close it after use."""

    def __init__(self, config: SinkConfig, key: SinkKey, *, clients: KafkaClients) -> None:
        self._config = config
        self._key = key
        self._clients = clients
        # Idle connections are closed with the last client that has their configuration: with one that is made for each
        # question, those of the producer and its writers would be closed at each commit.
        self._admin = clients.admin(config.producer.client)
        self._partition = int(partition_for_keys(pa.array([key.encoded]), PARTITIONS)[0])

    def check_brokers(self) -> None:
        """Raise BrokerUnavailableError, which names the servers, unless a broker answers within request.timeout.ms."""
        self._admin.cluster_id()

    def ensure_topic(self) -> None:
        """Create the topic if it is missing. Raises what `Admin.ensure_compacted_topic` does."""
        self._admin.ensure_compacted_topic(
            self._config.storage_topic,
            partitions=PARTITIONS,
            replication_factor=self._config.storage_replication_factor,
        )

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a data topic. Raises as `Admin.topic_id`."""
        return self._admin.topic_id(topic)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def read(self) -> Progress | None:
        """Return what was committed last. Waits for open transactions in the partition.

        Raises what `TopicReader.read_to_end` does.
        """
        topic, last = self._config.storage_topic, None
        with self._clients.topic_reader(self._config.producer.client, topic, only=self._partition) as reader:
            for record in reader.read_to_end():
                if record.key == self._key.encoded:
                    last = None if record.value is None else Progress.read(record.value)
        return last

    def write(self, producer: RecordProducer, progress: Progress) -> None:
        """Write into the producer's transaction. Raises what `write_and_acknowledge` does, and ConfigError."""
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
