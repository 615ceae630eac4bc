"""Writes records outside of transactions: in order, and at least once.

This producer is for the few records that any worker may write at any time, such as statuses. One request is in flight
at a time, so that nothing is reordered. After a retriable failure, the same batch is sent again. The producer has
neither a thread nor a producer id, so it needs only the right to WRITE on the topic.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.producer import ProduceRequest

from fencepost.api.closing import Closing
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    InvalidTimestampError,
    KafkaError,
    RecordTooLargeError,
)
from fencepost.kafka.producer.partitioner import records_by_partition
from fencepost.kafka.producer.produce_request import HIGHEST_VERSION
from fencepost.kafka.producer.transaction import NO_PRODUCER_ID, TransactionVersion
from fencepost.kafka.records.columns import OutgoingRecord, Records, Row
from fencepost.kafka.records.record_batch import OversizeRecordError, encode, split_by_bytes
from fencepost.kafka.transport.broker_client import TRANSIENT, BrokerClient, PassingError, remaining_ms
from fencepost.kafka.transport.error_codes import Code, is_retriable, refused
from fencepost.kafka.transport.topic_leaders import TopicLeaders

_NO_EPOCH: Final = -1
_NO_SEQUENCE: Final = -1
_ALL_REPLICAS: Final = -1
_TOO_LARGE: Final = (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE)


class PlainProducer(Closing):
    """Writes rows to topics of one cluster. Thread-safe; calls then wait for each other."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._client = BrokerClient(config.client)
        self._leaders: dict[str, TopicLeaders] = {}
        self._writing = threading.Lock()

    def write(self, topic: str, rows: Sequence[Row | OutgoingRecord]) -> dict[int, int]:
        """Write records. The partition is the record's own, or else follows from the hash of its key.

        Returns the offset after the last record of each partition.

        Waits for all in-sync replicas, at most `delivery.timeout.ms`. After a failure, some of the records may have
        been written. Raises BrokerUnavailableError, TopicNotFoundError, AuthorizationError, RecordTooLargeError,
        InvalidTimestampError, BrokerRefusedError, and IllegalStateError after it was closed.
        """
        deadline = Deadline.after(self._config.delivery_timeout_ms)
        with self._writing:
            records = [OutgoingRecord(*row) for row in rows]
            return self._client.run(self._write, topic, records, deadline, doing=f"writing to topic {topic}")

    def close(self) -> None:
        """Close the connections. A write on another thread ends with an IllegalStateError."""
        self._client.close()

    def _write(self, topic: str, records: list[OutgoingRecord], deadline: Deadline) -> dict[int, int]:
        known = self._leaders.setdefault(topic, TopicLeaders(self._client, topic))
        waiting: dict[int, deque[Records]] | None = None
        ends: dict[int, int] = {}
        backoff = Backoff(self._config.client.retry_backoff_ms, self._config.client.retry_backoff_max_ms)
        while waiting is None or waiting:
            try:
                leaders = known.find(deadline)
                if not ends:
                    # A topic that was deleted and created again may have another number of partitions.
                    waiting = self._batches(topic, records, len(leaders))
                while waiting:
                    self._send_first(topic, waiting, leaders, ends, deadline)
            except TRANSIENT as error:
                known.forget()
                self._back_off(topic, error, backoff, deadline)
        return ends

    def _batches(self, topic: str, records: list[OutgoingRecord], partitions: int) -> dict[int, deque[Records]]:
        limit = self._config.max_request_size
        try:
            return {
                target: deque(split_by_bytes(owned, limit))
                for target, owned in records_by_partition(records, partitions).items()
            }
        except OversizeRecordError as error:
            raise RecordTooLargeError(topic, error.size, limit, "producer.max.request.size") from error

    def _send_first(
        self,
        topic: str,
        waiting: dict[int, deque[Records]],
        leaders: dict[int, int],
        ends: dict[int, int],
        deadline: Deadline,
    ) -> None:
        """Send the first batch of each partition, and remove the written batches.

        Raises one of TRANSIENT if a batch is not written.
        """
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in waiting:
            by_leader[leaders[partition]].append(partition)
        timeout_ms = remaining_ms(deadline, self._config.client.request_timeout_ms)
        responses = self._client.send_all(
            [
                (self._request(topic, {partition: waiting[partition][0] for partition in owned}, timeout_ms), leader)
                for leader, owned in by_leader.items()
            ],
            timeout_ms=timeout_ms,
            at_most=HIGHEST_VERSION[TransactionVersion.V1],
        )
        failure: Exception | None = None
        for row in (row for response in responses for row in response.responses[0].partition_responses):
            if row.error_code != Code.NONE:
                failure = failure or _failure(topic, row.error_code, row.error_message)
                continue
            ends[row.index] = row.base_offset + len(waiting[row.index].popleft())
            if not waiting[row.index]:
                del waiting[row.index]
        if failure is not None:
            raise failure

    def _request(self, topic: str, batches: dict[int, Records], timeout_ms: float) -> Any:
        data = ProduceRequest.TopicProduceData
        rows = [
            data.PartitionProduceData(index=partition, records=self._encoded(records))
            for partition, records in batches.items()
        ]
        return ProduceRequest(
            transactional_id=None,
            acks=_ALL_REPLICAS,
            timeout_ms=int(timeout_ms),
            topic_data=[data(name=topic, partition_data=rows)],
        )

    def _encoded(self, records: Records) -> bytes:
        parts = encode(
            records,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=_NO_EPOCH,
            base_sequence=_NO_SEQUENCE,
            transactional=False,
            compression=self._config.compression,
            compression_level=self._config.compression_level,
            now_ms=int(time.time() * 1000),
        )
        return b"".join(parts)

    def _back_off(self, topic: str, error: Exception, backoff: Backoff, deadline: Deadline) -> None:
        if deadline.passed:
            raise BrokerUnavailableError(
                f"Records for topic {topic} were not acknowledged in time: {error}. Check the health of its "
                "partitions' leaders and replicas"
            ) from error
        self._client.refresh_brokers(remaining_ms(deadline, self._config.client.request_timeout_ms))
        self._client.sleep(min(backoff.next_s() * 1000, remaining_ms(deadline, float("inf"))))


def _failure(topic: str, code: int, message: str | None) -> KafkaError:
    if is_retriable(code):
        return PassingError(code, message)
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        return AuthorizationError(f"topic {topic}", "WRITE")
    if code == Code.INVALID_TIMESTAMP:
        return InvalidTimestampError(topic, message)
    advice = f"raise max.message.bytes of topic {topic}" if code in _TOO_LARGE else message
    return refused(f"records for topic {topic}", code, advice)
