"""Ends hanging transactions. They are open in a partition although no coordinator knows them, so they would never end.

Hanging transactions result from records that a broker accepted for a transaction that had already ended: before
KIP-890, or with `transaction.partition.verification.enable` switched off. A hanging transaction ends when the
partition's leader gets the transaction marker that a coordinator would write: the WriteTxnMarkers request of KIP-664.
"""

from __future__ import annotations

from shlex import quote

from kafka.protocol.producer import WriteTxnMarkersRequest

from fencepost.kafka.admin.open_transactions import (
    NoOpenTransactionError,
    OpenProducer,
    list_open_transactions,
    open_producers,
)
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError, KafkaError, TopicNotFoundError
from fencepost.kafka.producer.transaction import ProducerIdentity
from fencepost.kafka.transport.broker_client import AnsweredError, BrokerClient
from fencepost.kafka.transport.error_codes import Code, refused
from fencepost.kafka.transport.topic_leaders import topic_leaders


def abort_hanging(client: BrokerClient, topic: str, partition: int, start_offset: int) -> ProducerIdentity:
    """Abort, in one partition, the transaction that began at an offset; return its producer.

    Raises NoOpenTransactionError if there is no transaction or a coordinator knows it, TopicNotFoundError, and
    AuthorizationError without READ on the topic and ALTER on the cluster.
    """
    leaders = topic_leaders(client, topic, Deadline.after(client.config.request_timeout_ms))
    if partition not in leaders:
        raise NoOpenTransactionError(f"Topic {topic} has no partition {partition}: it has 0 to {len(leaders) - 1}")
    producer = _find(client, topic, partition, leaders[partition], start_offset)
    _refuse_if_known(client, topic, partition, producer)
    _write_marker(client, topic, partition, leaders[partition], producer)
    return producer.identity


def _find(client: BrokerClient, topic: str, partition: int, leader: int, start_offset: int) -> OpenProducer:
    try:
        producers = open_producers(client, topic, partition, leader)
    except AnsweredError as error:
        if error.code == Code.TOPIC_AUTHORIZATION_FAILED:
            raise AuthorizationError(f"topic {topic}", "READ") from error
        raise
    for producer in producers:
        if producer.start_offset == start_offset:
            return producer
    begins = ", ".join(str(producer.start_offset) for producer in producers)
    raise NoOpenTransactionError(
        f"No transaction is open in {topic}-{partition} that began at offset {start_offset}: "
        + (f"those that are open began at {begins}" if begins else "none is open there at all")
    )


def _refuse_if_known(client: BrokerClient, topic: str, partition: int, producer: OpenProducer) -> None:
    for transaction in list_open_transactions(client):
        same = transaction.identity.producer_id == producer.identity.producer_id
        if same and (topic, partition) in transaction.partitions:
            raise NoOpenTransactionError(
                f"The transaction in {topic}-{partition} does not hang: it is the one of {transaction.transactional_id} "
                f"({transaction.state}), whose coordinator ends it when it expires. To abort it at once: "
                f"fencepost transactions abort {quote(transaction.transactional_id)}"
            )


def _write_marker(client: BrokerClient, topic: str, partition: int, leader: int, producer: OpenProducer) -> None:
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=producer.identity.producer_id,
                producer_epoch=producer.identity.epoch,
                transaction_result=False,
                topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
        ]
    )
    response = client.send(request, leader)
    code = response.markers[0].topics[0].partitions[0].error_code
    if code != Code.NONE:
        raise _marker_error(code, topic, partition)


def _marker_error(code: int, topic: str, partition: int) -> KafkaError:
    if code == Code.CLUSTER_AUTHORIZATION_FAILED:
        return AuthorizationError("the cluster", "ALTER (CLUSTER_ACTION before KIP-1037)")
    if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return TopicNotFoundError(topic, to_read=True)
    return refused(f"aborting a transaction in {topic}-{partition}", code)
