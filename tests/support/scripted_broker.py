"""A broker that answers as a test says, and stores nothing: Kafka's frames on a socket, for tests of single answers.

It leads all partitions and coordinates all transactions. What real brokers do is tested in tests/broker.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from fencepost.kafka.producer.transaction import TransactionVersion
from tests.support.fault_proxy import ApiKey

HOST = "127.0.0.1"
_NODE = 1

LOSE = -2
"""A pseudo error code: the connection is closed without an answer."""

_REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest, MetadataRequest, FindCoordinatorRequest, DescribeConfigsRequest, ProduceRequest,
        InitProducerIdRequest, EndTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest,
    )
}  # fmt: skip
_HIGHEST = {ApiKey.METADATA: 12, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.API_VERSIONS: 3, ApiKey.PRODUCE: 12}


@dataclass(frozen=True)
class SentBatch:
    """The header fields of a record batch."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    sequence: int
    count: int
    size: int


class ScriptedBroker:
    """Answers without errors, except for the error codes of a script. Use it as a context manager."""

    def __init__(self, *, partitions: int = 1, version: TransactionVersion = TransactionVersion.V2) -> None:
        self.settings: dict[str, str] = {}
        """The settings of every topic."""
        self.identity = (7, 0)
        """Producer id and epoch in the answers to InitProducerId and EndTxn."""
        self.state = "Empty"
        """The state of every transaction in the answers to DescribeTransactions."""
        self.requests: list[tuple[ApiKey, Any]] = []
        self._partitions = partitions
        self._version = version
        self._script: dict[ApiKey, deque[int]] = {}
        self._answers: dict[ApiKey, Callable[[Any, int], Any]] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.PRODUCE: self._produce,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
            ApiKey.END_TXN: self._end_txn,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.DESCRIBE_TRANSACTIONS: self._describe_transactions,
        }
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def script(self, api_key: ApiKey, *codes: int) -> None:
        """Answer the next requests of a kind with these error codes, and later ones without errors."""
        self._script.setdefault(api_key, deque()).extend(codes)

    def asked(self, api_key: ApiKey) -> list[Any]:
        """The requests of a kind so far."""
        return [request for key, request in self.requests if key is api_key]

    @property
    def produced(self) -> list[list[SentBatch]]:
        """The batches of each Produce request, whichever answer it got."""
        return [
            [
                _sent(topic.name, part.index, bytes(part.records))
                for topic in request.topic_data
                for part in topic.partition_data
            ]
            for request in self.asked(ApiKey.PRODUCE)
        ]

    # -- frames -------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                self._sockets.append(accepted)
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as frames:
            while size := frames.read(4):
                frame = frames.read(struct.unpack(">i", size)[0])
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                key = ApiKey(api_key)
                request = _REQUESTS[api_key].decode(frame, version=version, header=True)
                self.requests.append((key, request))
                codes = self._script.get(key)
                code = codes.popleft() if codes else 0
                if code == LOSE:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                answer = self._answers[key](request, code)
                answer.API_VERSION = version
                answer.with_header(correlation_id=correlation_id)
                connection.sendall(answer.encode(header=True, framed=True))

    # -- answers ------------------------------------------------------------------------------------------------

    def _api_versions(self, _: Any, code: int) -> Any:
        keys = [
            ApiVersionsResponse.ApiVersion(
                api_key=key, min_version=0, max_version=_HIGHEST.get(key, _REQUESTS[key].max_version)
            )
            for key in self._answers
        ]
        feature = ApiVersionsResponse.FinalizedFeatureKey(
            name="transaction.version", max_version_level=int(self._version), min_version_level=0
        )
        return ApiVersionsResponse(
            error_code=code, api_keys=keys, throttle_time_ms=0, supported_features=[], finalized_features_epoch=1,
            finalized_features=[feature], zk_migration_ready=False,
        )  # fmt: skip

    def _metadata(self, request: Any, code: int) -> Any:
        topic_class = MetadataResponse.MetadataResponseTopic
        partitions = [
            topic_class.MetadataResponsePartition(
                error_code=0, partition_index=number, leader_id=_NODE, leader_epoch=0, replica_nodes=[_NODE],
                isr_nodes=[_NODE], offline_replicas=[],
            )
            for number in range(self._partitions)
        ]  # fmt: skip
        topics = [
            topic_class(error_code=code, name=topic.name, is_internal=False, partitions=[] if code else partitions)
            for topic in request.topics or ()
        ]
        broker = MetadataResponse.MetadataResponseBroker(node_id=_NODE, host=HOST, port=self.port, rack=None)
        return MetadataResponse(
            throttle_time_ms=0, brokers=[broker], cluster_id="scripted", controller_id=_NODE, topics=topics
        )

    def _find_coordinator(self, request: Any, code: int) -> Any:
        at = {"node_id": _NODE, "host": HOST, "port": self.port, "error_code": code, "error_message": None}
        rows = [FindCoordinatorResponse.Coordinator(key=key, **at) for key in request.coordinator_keys or ()]
        return FindCoordinatorResponse(throttle_time_ms=0, coordinators=rows, **at)

    def _describe_configs(self, request: Any, code: int) -> Any:
        result_class = DescribeConfigsResponse.DescribeConfigsResult
        configs = [
            result_class.DescribeConfigsResourceResult(
                name=name, value=value, read_only=False, config_source=1, is_sensitive=False, synonyms=[],
                config_type=0, documentation=None,
            )
            for name, value in self.settings.items()
        ]  # fmt: skip
        results = [
            result_class(
                error_code=code, error_message=None, resource_type=2, resource_name=each.resource_name, configs=configs
            )
            for each in request.resources
        ]
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)

    def _produce(self, request: Any, code: int) -> Any:
        topic_class = ProduceResponse.TopicProduceResponse
        responses = [
            topic_class(
                name=topic.name,
                partition_responses=[
                    topic_class.PartitionProduceResponse(
                        index=part.index, error_code=code, base_offset=-1 if code else 100, log_append_time_ms=-1,
                        log_start_offset=0, record_errors=[], error_message=None,
                    )
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]  # fmt: skip
        return ProduceResponse(responses=responses, throttle_time_ms=0)

    def _init_producer_id(self, _: Any, code: int) -> Any:
        producer_id, epoch = self.identity
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch
        )

    def _end_txn(self, _: Any, code: int) -> Any:
        producer_id, epoch = self.identity
        return EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch)

    def _add_partitions(self, request: Any, code: int) -> Any:
        result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        topics = [
            result(
                name=topic.name,
                results_by_partition=[
                    result.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=topics)

    def _describe_transactions(self, request: Any, code: int) -> Any:
        producer_id, epoch = self.identity
        states = [
            DescribeTransactionsResponse.TransactionState(
                error_code=code, transactional_id=name, transaction_state=self.state, transaction_timeout_ms=60_000,
                transaction_start_time_ms=0, producer_id=producer_id, producer_epoch=epoch, topics=[],
            )
            for name in request.transactional_ids
        ]  # fmt: skip
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)


def _sent(topic: str, partition: int, batch: bytes) -> SentBatch:
    producer_id, epoch, sequence, count = struct.unpack_from(">qhii", batch, 43)
    return SentBatch(topic, partition, producer_id, epoch, sequence, count, len(batch))
