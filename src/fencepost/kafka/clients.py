"""Creates the Kafka clients of a worker. Worker, herder and stores get one `KafkaClients` and create none themselves.

    Worker ──> OffsetStores ──> OffsetStore, OffsetCopies          readers, admins, simple producers
       │  └──> tasks' deliveries                                   transactional and idempotent producers
       └─────> herder ──> config and status store, group member    followers, simple producers, members

A client is created from plain data: a ClientConfig or a ProducerConfig, which can be pickled. Spark's executors get
this data, and open their own connections; a factory never leaves its process.

Clients of one process with equal configurations share the cluster's metadata (`Cluster.of`) and idle connections
(`POOL`). So the factory has no state, and there may be any number of factories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.consumer.last_record import LastRecordReader
from fencepost.kafka.consumer.read_to_end import TopicReader
from fencepost.kafka.consumer.topic_follower import TopicLog
from fencepost.kafka.group.member import GroupMember
from fencepost.kafka.group.membership import GroupListener, GroupObserver, GroupSettings
from fencepost.kafka.group.protocol import Assignment, Election
from fencepost.kafka.producer.idempotent import IdempotentProducer
from fencepost.kafka.producer.simple import PlainProducer
from fencepost.kafka.producer.transactional import TransactionalProducer


class KafkaClients:
    """Creates clients for real brokers. A test passes a subclass that creates other clients. Thread-safe.

    The caller of a method owns the new client, and closes it.
    """

    def admin(self, config: ClientConfig) -> Admin:
        """Return a client that creates and describes topics, and fences producers."""
        return Admin(config)

    def transactional_producer(self, config: ProducerConfig, transactional_id: str) -> TransactionalProducer:
        """Return a producer that owns a transactional id. It is not initialized yet."""
        return TransactionalProducer(config, transactional_id)

    def idempotent_producer(self, config: ProducerConfig) -> IdempotentProducer:
        """Return a producer that writes outside of transactions, in order and without duplicates."""
        return IdempotentProducer(config)

    def plain_producer(self, config: ProducerConfig) -> PlainProducer:
        """Return a producer that writes outside of transactions, for records whose duplicates are harmless."""
        return PlainProducer(config)

    def topic_reader(
        self, config: ClientConfig, topic: str, *, only: int | None = None, most_bytes: int | None = None
    ) -> TopicReader:
        """Return a reader of a topic's committed records, up to the topic's end at the time of the read.

        With `only`, the reader reads one partition, and is not delayed by open transactions in other partitions. With
        `most_bytes`, the records of one fetch take at most that much memory, and larger batches are skipped.
        """
        return TopicReader(config, topic, only=only, most_bytes=most_bytes)

    def last_record_reader(self, config: ClientConfig, topic: str, partition: int) -> LastRecordReader:
        """Return a reader of a key's last committed record. It does not wait for transactions of other writers."""
        return LastRecordReader(config, topic, partition)

    def topic_log(
        self,
        config: ClientConfig,
        topic: str,
        on_record: Callable[[ConsumedRecord], None],
        on_another_topic: Callable[[], None] = lambda: None,
    ) -> TopicLog:
        """Return a follower of a topic, not started, which calls `on_record` on its own thread."""
        return TopicLog(config, topic, on_record, on_another_topic)

    def group_member(
        self,
        config: ClientConfig,
        settings: GroupSettings,
        *,
        config_offset: Callable[[], int],
        assign: Callable[[Election], Mapping[str, Assignment]],
        listener: GroupListener,
        observer: GroupObserver,
        loop: asyncio.AbstractEventLoop,
    ) -> GroupMember:
        """Return a worker's membership in its group, not joined yet. Takes GroupMember's arguments."""
        return GroupMember(
            config,
            settings,
            config_offset=config_offset,
            assign=assign,
            listener=listener,
            observer=observer,
            loop=loop,
        )
