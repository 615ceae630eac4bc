"""Hanging transactions: records that hold up a partition, although no coordinator knows their transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.protocol.producer import ProduceRequest

from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.producer.idempotent import IdempotentProducer
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.records.record_batch import encode
from fencepost.kafka.transport.broker_client import BrokerClient
from fencepost.kafka.transport.topic_leaders import topic_leaders
from tests.support.processes import wait_for
from tests.support.topics import unique
from tests.support.writing import records

_TIMEOUT_SECONDS = 60
_TIMEOUT_MS = 60_000
_VERIFICATION = "transaction.partition.verification.enable"
# In later versions the broker itself adds the partition to the transaction.
_PRODUCE_VERSION = 11


def hang(config: ProducerConfig, topic: str, value: bytes, *, settings: Mapping[str, Any] | None = None) -> int:
    """Write a record to partition 0 in a transaction that no coordinator knows, and return its producer id.

    `settings` are librdkafka's, of a principal that may alter the brokers' configuration.
    """
    client = config.client
    producer_id = IdempotentProducer(config).transaction.producer_id
    batch = encode(
        records([value]),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        compression=Compression.NONE,
        now_ms=0,
    )
    data = ProduceRequest.TopicProduceData
    row = data.PartitionProduceData(index=0, records=b"".join(batch))
    request = ProduceRequest(
        transactional_id=unique("hanging"),
        acks=-1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[data(name=topic, partition_data=[row])],
    )
    admin = AdminClient({"bootstrap.servers": ",".join(client.bootstrap_servers), **(settings or {})})
    with BrokerClient(client) as control, _unverified(admin):
        leaders = control.run(topic_leaders, control, topic, Deadline.after(_TIMEOUT_MS), doing="finding the leader")

        def taken() -> bool:
            answer = control.run(
                partial(control.send, at_most=_PRODUCE_VERSION), request, leaders[0], doing="producing"
            )
            return bool(answer.responses[0].partition_responses[0].error_code == 0)

        wait_for(taken, what="the broker takes records without asking")
    return producer_id


@contextmanager
def _unverified(admin: AdminClient) -> Iterator[None]:
    """Brokers that accept records without verifying that their transaction has begun, as before KIP-890."""
    _set_verification(admin, "false")
    try:
        yield
    finally:
        _set_verification(admin, "true")


def _set_verification(admin: AdminClient, value: str) -> None:
    brokers = admin.list_topics(timeout=_TIMEOUT_SECONDS).brokers
    for broker in brokers:
        entry = ConfigEntry(_VERIFICATION, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_SECONDS)
