"""Record batches to and from a broker as bare bytes, with kafka-python's protocol classes and a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tests.support.processes import wait_for

_PRODUCE_VERSION = 8
_FETCH_VERSION = 11
_LIST_TRANSACTIONS_VERSION = 0
_DESCRIBE_GROUPS_VERSION = 3
_TIMEOUT_SECONDS = 30.0
_BATCH_HEAD = 12
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER
_NO_LEADER_YET = (3, 5, 6)


class RawKafka:
    """A connection to a broker without security that leads all requested partitions."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        self._socket.close()

    def produce(self, topic: str, batches: Mapping[int, bytes]) -> dict[int, tuple[int, int]]:
        """Append one record batch to each partition; return each one's error code and base offset.

        The partitions of a new topic may have no leader yet, so the request is retried.
        """
        answers: dict[int, tuple[int, int]] = {}

        def answered() -> bool:
            answers.update(self._produce(topic, {part: batches[part] for part in batches.keys() - answers.keys()}))
            for partition in [partition for partition, (code, _) in answers.items() if code in _NO_LEADER_YET]:
                del answers[partition]
            return len(answers) == len(batches)

        wait_for(answered)
        return answers

    def _produce(self, topic: str, batches: Mapping[int, bytes]) -> dict[int, tuple[int, int]]:
        partition_data = ProduceRequest.TopicProduceData.PartitionProduceData
        parts = [partition_data(index=partition, records=batch) for partition, batch in batches.items()]
        data = [ProduceRequest.TopicProduceData(name=topic, partition_data=parts)]
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=data)
        response = self._call(request, ProduceResponse, _PRODUCE_VERSION)
        return {
            part.index: (part.error_code, part.base_offset)
            for answer in response.responses
            for part in answer.partition_responses
        }

    def fetch(self, topic: str, partition: int = 0) -> list[bytes]:
        """All record batches of a partition, as they are stored."""
        part = FetchRequest.FetchTopic.FetchPartition(
            partition=partition, current_leader_epoch=-1, fetch_offset=0, log_start_offset=-1, partition_max_bytes=2**26
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=2**26,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])],
            forgotten_topics_data=[],
            rack_id="",
        )
        response = self._call(request, FetchResponse, _FETCH_VERSION)
        return list(_batches(bytes(response.responses[0].partitions[0].records or b"")))

    def ending_transactions(self) -> set[tuple[str, int]]:
        """The transactional and producer ids of decided transactions whose markers are not in all topics yet."""
        request = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"], producer_id_filters=[])
        response = self._call(request, ListTransactionsResponse, _LIST_TRANSACTIONS_VERSION)
        return {(row.transactional_id, row.producer_id) for row in response.transaction_states}

    def members(self, group: str) -> set[str]:
        """The ids of a group's members at the coordinator: an expelled member comes back with another id."""
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        (row,) = self._call(request, DescribeGroupsResponse, _DESCRIBE_GROUPS_VERSION).groups
        return {member.member_id for member in row.members}

    def _call(self, request: Any, response: Any, version: int) -> Any:
        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id="test")
        self._socket.sendall(request.encode(header=True, framed=True))
        size = int.from_bytes(self._read(4), "big")
        return response.decode(self._read(size), version=version, header=True)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise ConnectionResetError("the broker closed the connection")
            received += more
        return bytes(received)


def _batches(data: Sequence[int]) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        length = _BATCH_HEAD + int.from_bytes(bytes(data[position + 8 : position + 12]), "big")
        yield bytes(data[position : position + length])
        position += length
