"""Finds open transactions, and transactions that block the read_committed consumers of a partition.

The requests are from KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import KafkaError
from fencepost.kafka.producer.transaction import ProducerIdentity, TopicPartition
from fencepost.kafka.transport.broker_client import TRANSIENT, BrokerClient, answered, remaining_ms
from fencepost.kafka.transport.error_codes import Code, is_retriable

ONGOING: Final = "Ongoing"
"""The state in which a transaction accepts records. In all other states its coordinator is ending it."""

_OPEN_STATES: Final = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_NO_TRANSACTION: Final = -1


class NoOpenTransactionError(KafkaError):
    """No open transaction was found to abort."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction in the view of its coordinator. `coordinator` is a broker's id.

    `started_ms` is in milliseconds since the epoch, according to the coordinator's clock.
    """

    transactional_id: str
    identity: ProducerIdentity
    state: str
    coordinator: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """A producer with an open transaction in a partition. `start_offset` is the transaction's first offset there.

    `coordinator_epoch` is the epoch of the producer's last marker in the partition; -1 if there is none.
    """

    identity: ProducerIdentity
    coordinator_epoch: int
    start_offset: int


def list_open_transactions(client: BrokerClient) -> list[OpenTransaction]:
    """Return the open transactions of a cluster, the oldest first.

    Transactional ids on which the principal lacks DESCRIBE are omitted.
    """
    deadline = Deadline.after(client.config.request_timeout_ms)
    while True:
        try:
            # This request finds the brokers. Without known brokers, no coordinator would be asked, and the result would
            # be empty.
            client.metadata(timeout_ms=remaining_ms(deadline, client.config.request_timeout_ms))
            found = [row for broker in client.cluster.broker_ids() for row in _of_coordinator(client, broker)]
            return sorted(found, key=lambda transaction: transaction.started_ms)
        except TRANSIENT:
            if deadline.passed:
                raise
        client.sleep(remaining_ms(deadline, client.config.retry_backoff_ms))


def _of_coordinator(client: BrokerClient, broker: int) -> Iterator[OpenTransaction]:
    listed = client.send(ListTransactionsRequest(state_filters=_OPEN_STATES, producer_id_filters=[]), broker)
    if listed.error_code:
        raise answered(listed.error_code)
    names = [row.transactional_id for row in listed.transaction_states]
    if not names:
        return
    described = client.send(DescribeTransactionsRequest(transactional_ids=names), broker)
    for row in described.transaction_states:
        if is_retriable(row.error_code):
            raise answered(row.error_code)
        # The transaction may have ended since it was listed.
        if row.error_code == Code.NONE and row.transaction_state in _OPEN_STATES:
            yield OpenTransaction(
                transactional_id=row.transactional_id,
                identity=ProducerIdentity(row.producer_id, row.producer_epoch),
                state=row.transaction_state,
                coordinator=broker,
                timeout_ms=row.transaction_timeout_ms,
                started_ms=row.transaction_start_time_ms,
                partitions=tuple(sorted((topic.topic, number) for topic in row.topics for number in topic.partitions)),
            )


def find_open_transactions(client: BrokerClient, topic: str, partition: int, leader: int, before: int) -> str:
    """Describe the transactions that are open in a partition and began before an offset; empty if none is found.

    Details are omitted if they are unknown, because the broker is too old for these requests, or the principal lacks
    DESCRIBE on the transactional ids.
    """
    described: list[str] = []
    with suppress(KafkaError):
        open_now = open_producers(client, topic, partition, leader)
        producers = [producer for producer in open_now if producer.start_offset < before]
        names: dict[int, str] = {}
        with suppress(KafkaError):
            names = _transactional_ids(client, [producer.identity.producer_id for producer in producers])
        for producer in producers:
            number = producer.identity.producer_id
            name = f"transactional id {names[number]}" if number in names else "a transactional id"
            described.append(
                f"the transaction of {name} (producer id {number}) that began at offset {producer.start_offset}"
            )
    return " and ".join(described)


def open_producers(client: BrokerClient, topic: str, partition: int, leader: int) -> list[OpenProducer]:
    """Return the producers with an open transaction in a partition, from its leader. Needs READ on the topic."""
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    response = client.send(DescribeProducersRequest(topics=[asked]), leader)
    row = response.topics[0].partitions[0]
    if row.error_code:
        raise answered(row.error_code)
    return [
        OpenProducer(
            identity=ProducerIdentity(producer.producer_id, producer.producer_epoch),
            coordinator_epoch=producer.coordinator_epoch,
            start_offset=producer.current_txn_start_offset,
        )
        for producer in row.active_producers
        if producer.current_txn_start_offset != _NO_TRANSACTION
    ]


def _transactional_ids(client: BrokerClient, producer_ids: list[int]) -> dict[int, str]:
    found = {}
    for broker in client.cluster.broker_ids():
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=producer_ids)
        response = client.send(request, broker)
        found.update({row.producer_id: row.transactional_id for row in response.transaction_states})
    return found
