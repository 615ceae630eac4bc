"""Reads transaction markers: the control records that coordinators write to partitions when transactions end.

Markers: https://kafka.apache.org/documentation/#controlbatch. Under transaction version 2 every transaction of a
producer has its own epoch, so a producer id and an epoch identify a transaction.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.record.memory_records import MemoryRecords

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import TransactionMarker, transaction_marker
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.transport.broker_client import BrokerClient, answered
from fencepost.kafka.transport.topic_leaders import topic_leaders

_TIMEOUT_MS: Final = 60_000
_FETCH_BYTES: Final = 16 * 1024 * 1024
# Fetch version 13 needs topic ids, and brings nothing that is needed here.
_FETCH_VERSION: Final = 12

_EARLIEST: Final = -2
_LATEST: Final = -1


def read_transaction_markers(config: ClientConfig, topic: str) -> list[TransactionMarker]:
    """Return the markers of a topic up to its current end, by partition and offset.

    Raises TopicNotFoundError, AuthorizationError or BrokerUnavailableError.
    """
    markers: list[TransactionMarker] = []
    with BrokerClient(config) as client:
        ask = partial(client.run, doing=f"reading the transaction markers of topic {topic}")
        leaders = ask(topic_leaders, client, topic, Deadline.after(_TIMEOUT_MS))
        for partition, leader in sorted(leaders.items()):
            position = ask(_offset, client, topic, partition, leader, _EARLIEST)
            end = ask(_offset, client, topic, partition, leader, _LATEST)
            while position < end:
                data = ask(_fetch, client, topic, partition, leader, position)
                position = _collect(topic, partition, data, markers) or end
    return markers


def _collect(topic: str, partition: int, data: bytes | None, markers: list[TransactionMarker]) -> int | None:
    """Add the markers in the fetched batches. Return the next offset; None if there is no batch."""
    next_offset = None
    for batch in MemoryRecords(data or b""):
        next_offset = batch.next_offset
        marker = transaction_marker(topic, partition, batch)
        if marker is not None:
            markers.append(marker)
    return next_offset


def _offset(client: BrokerClient, topic: str, partition: int, leader: int, timestamp: int) -> int:
    row = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[row])],
    )
    answer = client.send(request, leader).topics[0].partitions[0]
    _raise_for(answer)
    return int(answer.offset)


def _fetch(client: BrokerClient, topic: str, partition: int, leader: int, position: int) -> Any:
    row = FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=position,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[row])],
        forgotten_topics_data=[],
        rack_id="",
    )
    answer = client.send(request, leader, at_most=_FETCH_VERSION).responses[0].partitions[0]
    _raise_for(answer)
    return answer.records


def _raise_for(answer: Any) -> None:
    if answer.error_code:
        raise answered(answer.error_code)
