"""Ends hanging transactions: open in a partition although no coordinator knows them, so that they never end.

They result from records that a broker accepted for a transaction that had already ended, before KIP-890, or with
`transaction.partition.verification.enable` switched off. The transaction marker that a coordinator would write ends
one, sent to the leader of the partition: the WriteTxnMarkers request of KIP-664.
"""

from __future__ import annotations

import kafka.errors as client_errors
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
from fencepost.kafka.transport.control_client import ControlClient, refusal
from fencepost.kafka.transport.topic_leaders import topic_leaders


async def abort_hanging(client: ControlClient, topic: str, partition: int, start_offset: int) -> ProducerIdentity:
    """Abort, in one partition, the transaction that began at an offset; return its producer.

    Raises NoOpenTransactionError if there is none or a coordinator knows of it, TopicNotFoundError, and
    AuthorizationError without READ on the topic and ALTER on the cluster.
    """
    leaders = await topic_leaders(client, topic, Deadline.after(client.config.request_timeout_ms))
    if partition not in leaders:
        raise NoOpenTransactionError(f"Topic {topic} has no partition {partition}: it has 0 to {len(leaders) - 1}")
    producer = await _find(client, topic, partition, leaders[partition], start_offset)
    await _refuse_if_known(client, topic, partition, producer)
    await _write_marker(client, topic, partition, leaders[partition], producer)
    return producer.identity


async def _find(client: ControlClient, topic: str, partition: int, leader: int, start_offset: int) -> OpenProducer:
    try:
        producers = await open_producers(client, topic, partition, leader)
    except client_errors.TopicAuthorizationFailedError as error:
        raise AuthorizationError(f"topic {topic}", "READ") from error
    for producer in producers:
        if producer.start_offset == start_offset:
            return producer
    begins = ", ".join(str(producer.start_offset) for producer in producers)
    raise NoOpenTransactionError(
        f"No transaction is open in {topic}-{partition} that began at offset {start_offset}: "
        + (f"those that are open began at {begins}" if begins else "none is open there at all")
    )


async def _refuse_if_known(client: ControlClient, topic: str, partition: int, producer: OpenProducer) -> None:
    for transaction in await list_open_transactions(client):
        same = transaction.identity.producer_id == producer.identity.producer_id
        if same and (topic, partition) in transaction.partitions:
            raise NoOpenTransactionError(
                f"The transaction in {topic}-{partition} does not hang: it is the one of {transaction.transactional_id} "
                f"({transaction.state}), whose coordinator ends it when it expires. To abort it at once: "
                f"fencepost transactions abort {transaction.transactional_id}"
            )


async def _write_marker(client: ControlClient, topic: str, partition: int, leader: int, producer: OpenProducer) -> None:
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
    response = await client.send(request, leader)
    error = client_errors.for_code(response.markers[0].topics[0].partitions[0].error_code)
    if error is not client_errors.NoError:
        raise _marker_error(error, topic, partition)


def _marker_error(error: type[client_errors.KafkaError], topic: str, partition: int) -> KafkaError:
    if error is client_errors.ClusterAuthorizationFailedError:
        return AuthorizationError("the cluster", "ALTER (CLUSTER_ACTION before KIP-1037)")
    if error is client_errors.UnknownTopicOrPartitionError:
        return TopicNotFoundError(topic)
    return refusal(error(), f"aborting a transaction in {topic}-{partition}")
