"""Kafka by confluent-kafka's clients, and the broker of `fencepost broker`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient, UpdateFeatureType

from tests.hostile.programs import TIMEOUT_SECONDS, Program, free_port, unique, wait_for

_RECORDS_AT_ONCE = 1_000
# librdkafka waits until all records have come, or until this time is over.
_WAIT_SECONDS = 0.01


class Kafka:
    """A Kafka cluster as any client sees it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create a topic; settings have underscores for dots. Waits while a topic of that name is being deleted."""
        settings = {name.replace("_", "."): value for name, value in config.items()}

        def created() -> bool:
            try:
                self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        wait_for(created, f"{topic} is created")
        return topic

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def partitions(self, topic: str) -> int:
        """The number of partitions; 0 if there is no such topic."""
        found = self.admin.list_topics(timeout=30).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def set(self, topic: str, **config: str) -> None:
        """Change settings of a topic; underscores for dots."""
        self._alter(ConfigResource(ResourceType.TOPIC, topic), config)

    def setting(self, topic: str, name: str) -> str:
        """A setting of a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(self.admin.describe_configs([resource])[resource].result()[name].value)

    def set_broker(self, **config: str) -> None:
        """Change settings of all running brokers."""
        for node in self.admin.list_topics(timeout=30).brokers:
            self._alter(ConfigResource(ResourceType.BROKER, str(node)), config)

    def set_transaction_version(self, version: int) -> None:
        """Set the transaction version: 1 as in brokers before 4.0, or 2 with KIP-890."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            change = UpdateFeatureType.SAFE_DOWNGRADE if version == 1 else UpdateFeatureType.UPGRADE
            result = admin.update_features({"transaction.version": (change, version)})
        finally:
            admin.close()
        assert set(result.values()) <= {"OK"}, result

    def _alter(self, resource: ConfigResource, config: Mapping[str, str]) -> None:
        for name, value in config.items():
            entry = ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            resource.add_incremental_config(entry)
        self.admin.incremental_alter_configs([resource])[resource].result()

    def send(self, topic: str, *records: tuple[bytes | None, bytes | None], partition: int | None = None) -> None:
        """Write records with an ordinary producer."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "message.max.bytes": 10_000_000})
        where = {} if partition is None else {"partition": partition}
        failures: list[KafkaError] = []
        for key, value in records:
            producer.produce(
                topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None, **where
            )
        assert producer.flush(60) == 0
        assert not failures, failures

    def read(self, topic: str) -> list[Message]:
        """All records that a read_committed consumer sees now, partition by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": unique("stranger"),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # Later records are not read, so a broker need not wait for them.
                "fetch.wait.max.ms": 10,
            }
        )
        messages = []
        with contextlib.closing(consumer):
            for number in range(self.partitions(topic)):
                partition = TopicPartition(topic, number, 0)
                # Records written meanwhile are ignored: otherwise a busy topic would never end.
                end = consumer.get_watermark_offsets(partition, timeout=30)[1]
                consumer.assign([partition])
                messages += _up_to(consumer, partition, end)
        return messages

    def end(self, topic: str) -> int:
        """The sum of the end offsets of all partitions."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": unique("stranger")})
        with contextlib.closing(consumer):
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, partition, OFFSET_END), timeout=30)[1]
                for partition in range(self.partitions(topic))
            ]
        return sum(ends)


def _up_to(consumer: Consumer, partition: TopicPartition, end: int) -> list[Message]:
    """Read the assigned partition up to an offset, or to its end."""
    messages = []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while consumer.position([partition])[0].offset < end:
        assert time.monotonic() < deadline, f"{partition} is not read up to {end} in {TIMEOUT_SECONDS:g} s"
        for message in consumer.consume(_RECORDS_AT_ONCE, _WAIT_SECONDS):
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return messages
            else:
                raise KafkaException(message.error())
    return messages


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[Kafka]:
    """Run `fencepost broker` until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    program = Program("broker", "--port", str(port), "--data-dir", str(folder / "data"), log=folder / "broker.log")
    try:
        address = f"127.0.0.1:{port}"

        def answers() -> bool:
            assert program.running, program.output
            with contextlib.suppress(KafkaException):
                return bool(AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=2).brokers)
            return False

        wait_for(answers, lambda: f"the broker answers:\n{program.output[-2000:]}")
        yield Kafka(address)
    finally:
        program.close()
