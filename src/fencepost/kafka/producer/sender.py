"""Writes records into a given transaction, or without one: in the worker, and on Spark's executors.

A writer belongs to one thread. It has one connection to each broker that leads a partition it writes to, with at most
`max.in.flight.requests.per.connection` requests in flight on each. It buffers each partition's records up to
`batch.size`, encodes them, and keeps every batch until the brokers acknowledge it. partition_queue.py decides in which
order a partition's batches are sent, and sent again. batch_encoder.py encodes them. This module does the I/O.

If a batch cannot be acknowledged, the writer raises: InvalidProducerEpochError when the transaction is over,
DeliveryTimeoutError after `delivery.timeout.ms`, TransactionAbortableError if the broker lost records,
RecordTooLargeError, AuthorizationError, TopicNotFoundError. After an error the transaction must be aborted; outside of
transactions, the next writer must have another producer id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from kafka.protocol.producer import ProduceRequest

from fencepost import failpoint
from fencepost.api.errors import IllegalStateError
from fencepost.failpoint import FailPoint
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    HELD_UP,
    BrokerRefusedError,
    BrokerUnavailableError,
    KafkaError,
)
from fencepost.kafka.producer import produce_request
from fencepost.kafka.producer.batch_encoder import BatchEncoder
from fencepost.kafka.producer.partition_queue import Ack, Batch, PartitionQueue
from fencepost.kafka.producer.produce_errors import Verdict, fatal_error, judge
from fencepost.kafka.producer.produce_request import PartitionResult
from fencepost.kafka.producer.retry_warning import RetryWarning
from fencepost.kafka.producer.topic_limits import TopicLimits
from fencepost.kafka.producer.transaction import TopicPartition, Transaction, TransactionVersion
from fencepost.kafka.producer.transaction_coordinator import TransactionCoordinator
from fencepost.kafka.records.batch_cuts import even_cuts, rest_of_batch
from fencepost.kafka.records.columns import Records
from fencepost.kafka.records.record_batch import (
    estimated_bytes,
)
from fencepost.kafka.transport.answers import wait_for_answers
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.connection import Address, Connection
from fencepost.kafka.transport.error_codes import Code
from fencepost.kafka.transport.pool import POOL

__all__ = ["Ack", "RecordWriter"]


class RecordWriter:
    """Writes into one open transaction. Not thread-safe."""

    def __init__(
        self, config: ProducerConfig, transaction: Transaction, before_sending: Callable[[], None] = lambda: None
    ) -> None:
        """`before_sending` is called before each Produce request. It may wait until brokers accept it, or raise."""
        self._config = config
        self._before_sending = before_sending
        self._transaction = transaction
        self._cluster = Cluster.of(config.client)
        self._limits = TopicLimits(config, self._cluster)
        self._encoder = BatchEncoder(config, transaction, self._limits)
        self._warning = RetryWarning(config.delivery_timeout_ms)
        self._coordinator: TransactionCoordinator | None = None
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._connections: dict[Address, Connection] = {}
        # Topics whose leaders have moved. Their metadata is requested together.
        self._moved: set[str] = set()
        self._acks: list[Ack] = []
        self._cancelled = False
        self._flushed = True
        self._closed = False
        self._adding = False
        self._gathered_bytes = 0

    @property
    def finished(self) -> bool:
        """Whether the writer is closed and the brokers have all of its records."""
        return self._closed and self._flushed

    @property
    def in_doubt(self) -> bool:
        """Whether brokers may still receive an unanswered request of this writer."""
        return not self._closed or self._adding or any(queue.in_doubt for queue in self._queues.values())

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic. Brokers with automatic topic creation create a missing topic.

        Raises TopicNotFoundError or AuthorizationError.
        """
        return self._cluster.partitions(topic, Deadline.after(self._config.max_block_ms))

    def kept_partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic that only the worker itself creates: no broker creates it.

        Raises the errors of `partitions`.
        """
        return self._cluster.kept_partitions(topic, Deadline.after(self._config.max_block_ms))

    def grown_partitions(self, topic: str, partition: int) -> int:
        """Return the brokers' current number of partitions of a topic that does not seem to have `partition`.

        Raises the errors of `partitions`.
        """
        return self._cluster.grown_partitions(topic, partition, Deadline.after(self._config.max_block_ms))

    def prefetch_topics(self, topics: Collection[str]) -> None:
        """Request all unknown metadata of topics that will be written next. Raises the errors of `refresh_topics`."""
        self._cluster.prefetch_topics(topics, Deadline.after(self._config.max_block_ms))

    def refresh_topics(self, topics: Iterable[str]) -> None:
        """Request the partitions of topics again. Raises BrokerUnavailableError and AuthenticationError."""
        self._cluster.refresh_topics(topics, Deadline.after(self._config.max_block_ms))

    def known_partitions(self) -> dict[str, int]:
        """Return the known numbers of partitions, by topic."""
        return self._cluster.known_partitions()

    def write(self, topic: str, partition: int, records: Records) -> None:
        """Append records for a partition. May wait for acknowledgements."""
        if not len(records):
            return
        self._flushed = False
        queue = self._queue((topic, partition))
        size = estimated_bytes(records)
        queue.gather(records, size)
        self._gathered_bytes += size
        if queue.gathered_bytes >= self._limits.batch_bytes(topic) / 2:
            self._cut(queue, follows=True)
        if self._gathered_bytes > self._config.buffer_memory:
            self._cut(max(self._queues.values(), key=lambda candidate: candidate.gathered_bytes))
        self._send_all_queued()

    def flush(self) -> list[Ack]:
        """Send all buffered records and wait until they are acknowledged.

        Returns the acknowledgements since the last flush, in order within each partition.
        """
        for queue in self._queues.values():
            if queue.gathered:
                self._cut(queue)
        # The last batch of each partition is not sent yet, so that batches for the same leader share a request.
        while any(queue.batches for queue in self._queues.values()):
            self._progress()
        self._flushed = True
        acks, self._acks = self._acks, []
        return acks

    def cancel(self) -> None:
        """Cancel from another thread; a blocked write raises.

        A writing thread that is connecting at this moment raises after `request.timeout.ms` at the latest.
        """
        self._cancelled = True
        for connection in list(self._connections.values()):
            connection.interrupt()
        if self._coordinator is not None:
            self._coordinator.cancel()

    def close(self) -> None:
        """Return the connections to the pool. Connections with a request in flight are closed."""
        self._closed = True
        for connection in self._connections.values():
            POOL.give_back(self._config.client, connection)
        self._connections.clear()
        if self._coordinator is not None:
            self._coordinator.close()

    # -- from records to batches --------------------------------------------------------------------------------

    def _queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(topic_partition)
        if queue is None:
            # The metadata request also makes brokers create a missing topic. AddPartitionsToTxn would not.
            self._cluster.partitions(topic_partition[0], Deadline.after(self._config.max_block_ms))
            if self._transaction.transactional_id is not None:
                self._limits.check_diskless(topic_partition[0])
            sequence = self._transaction.sequences.get(topic_partition)
            queue = PartitionQueue.starting(topic_partition, sequence, self._config.client.retry_backoff_max_ms)
            self._queues[topic_partition] = queue
        return queue

    def _cut(self, queue: PartitionQueue, *, follows: bool = False) -> None:
        """Encode batches of the buffered records, and send all but the last.

        If more records follow (`follows`), records that do not fill a batch stay in the buffer.
        """
        topic, size = queue.topic_partition[0], queue.gathered_bytes
        limit = self._limits.batch_bytes(topic)
        self._gathered_bytes -= size
        records = queue.take_gathered()
        if follows and (rest := rest_of_batch(len(records), size, limit)):
            whole, kept = len(records) - rest, size * rest // len(records)
            queue.gather(records.slice(whole, rest), kept)
            self._gathered_bytes += kept
            records, size = records.slice(0, whole), size - kept
        for start, length in even_cuts(len(records), size, limit, first=queue.is_new):
            for piece in self._encoder.bounded(topic, records.slice(start, length)):
                # The previous batch is sent before the next one is encoded, so that many records need no more memory
                # than few.
                self._send_queued_of(queue)
                queue.append(self._encoder.encode(queue.topic_partition, piece, queue.next_sequence))

    # -- sending ------------------------------------------------------------------------------------------------

    def _send_all_queued(self) -> None:
        while any(queue.has_queued for queue in self._queues.values()):
            self._progress()

    def _send_queued_of(self, queue: PartitionQueue) -> None:
        while queue.has_queued:
            self._progress()

    def _progress(self) -> None:
        """Send the batches that may be sent. If there are none, wait until an answer arrives or a retry is due."""
        if self._cancelled:
            raise IllegalStateError(f"The writer of {self._transaction.transactional_id} was cancelled")
        if self._send_queued():
            return
        waiting = [connection for connection in self._connections.values() if connection.in_flight]
        for connection in self._answered(waiting):
            self._receive(connection)

    def _send_queued(self) -> bool:
        now = time.monotonic()
        by_leader: dict[Address, list[Batch]] = {}
        self._add_partitions(now)
        for queue in self._queues.values():
            batch = queue.sendable(now) if queue.batches else None
            if batch is None:
                continue
            queue.check_time(self._config.delivery_timeout_ms)
            self._warning.check(queue, now)
            connection = self._leader_connection(queue, batch)
            if connection is not None and connection.in_flight < self._config.max_in_flight:
                by_leader.setdefault(connection.address, []).append(batch)
        for address, batches in by_leader.items():
            self._before_sending()
            self._send(self._connections[address], batches)
        return bool(by_leader)

    def _add_partitions(self, now: float) -> None:
        """Under transaction version 1, add the partitions of the next requests to the transaction."""
        transactional_id = self._transaction.transactional_id
        if transactional_id is None or self._transaction.version is not TransactionVersion.V1:
            return
        adding = [queue for queue in self._queues.values() if not queue.added and queue.sendable(now)]
        if adding:
            partitions = [queue.topic_partition for queue in adding]
            deadline = Deadline.after(self._config.delivery_timeout_ms)
            if self._coordinator is None:
                self._coordinator = TransactionCoordinator(self._cluster, transactional_id)
            self._adding = True
            self._coordinator.add_partitions(self._transaction.identity, partitions, deadline)
            self._adding = False
            for queue in adding:
                queue.added = True

    def _leader_connection(self, queue: PartitionQueue, batch: Batch) -> Connection | None:
        topic, partition = queue.topic_partition
        deadline = queue.delivery_deadline(self._config.delivery_timeout_ms)
        try:
            if self._moved:
                self._cluster.learn_topics(self._moved, deadline)
                self._moved.clear()
            address = self._cluster.leader(topic, partition, deadline)
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = POOL.take(self._config.client, address)
                self._connections[address] = connection
        except BrokerUnavailableError as error:
            self._forget_leaders(topic)
            queue.fail(batch, str(error))
            return None
        return connection

    def _send(self, connection: Connection, batches: Sequence[Batch]) -> None:
        """Send one request or more. Batches of several partitions share a request, up to `max.request.size`."""
        room = self._config.max_request_size
        fitting: list[Batch] = []
        for batch in batches:
            if not fitting or batch.size <= room:
                fitting.append(batch)
                room -= batch.size
        version = connection.version(ProduceRequest, at_most=produce_request.HIGHEST_VERSION[self._transaction.version])
        parts = produce_request.encode_produce(
            self._transaction.transactional_id,
            fitting,
            version=version,
            timeout_ms=self._config.client.request_timeout_ms,
        )
        for batch in fitting:
            self._queues[batch.topic_partition].sent(batch, self._config.delivery_timeout_ms)
        flexible = version >= produce_request.FIRST_FLEXIBLE_VERSION
        try:
            connection.send_parts(ProduceRequest, version, parts, flexible=flexible, tag=fitting)
        except BrokerUnavailableError as error:
            self._lose(connection, error)

    # -- answers ------------------------------------------------------------------------------------------------

    def _answered(self, waiting: Sequence[Connection]) -> list[Connection]:
        """Wait until an answer arrives, an answer is overdue, or a retry is due."""
        retries = (queue.retry_at for queue in self._queues.values() if queue.batches)
        return wait_for_answers(waiting, [moment for moment in retries if moment is not None])

    def _receive(self, connection: Connection) -> None:
        try:
            batches, answer = connection.receive()
        except BrokerUnavailableError as error:
            self._lose(connection, error)
            return
        sent = {batch.topic_partition: batch for batch in batches}
        for topic_partition, result in produce_request.produce_results(answer):
            self._take_result(sent[topic_partition], result)

    def _take_result(self, batch: Batch, result: PartitionResult) -> None:
        queue = self._queues[batch.topic_partition]
        match judge(result.code):
            case Verdict.WRITTEN:
                batch.base_offset = result.base_offset
                if result.timestamp >= 0:
                    batch.timestamp = result.timestamp
                self._acks += queue.acknowledge(batch)
                failpoint.reach(FailPoint.MID_SEND)
            case Verdict.LEADER_MOVED:
                self._forget_leaders(batch.topic_partition[0])
                queue.fail(batch, f"{Code(result.code).name} from the leader")
            case Verdict.PASSING:
                why = f" ({HELD_UP})" if result.code == Code.CONCURRENT_TRANSACTIONS else ""
                queue.fail(batch, f"{Code(result.code).name} from the leader{why}")
            case Verdict.TOO_LARGE:
                queue.replace(batch, self._encoder.halves(batch))
            case Verdict.OUT_OF_ORDER if queue.expects_gap(batch):
                queue.fail(batch, "a batch before it failed")
            case _:
                raise self._fatal(batch, result)

    def _fatal(self, batch: Batch, result: PartitionResult) -> KafkaError:
        error = fatal_error(self._transaction.transactional_id, batch.topic_partition, result)
        if isinstance(error, BrokerRefusedError):
            # The topic may have been deleted and created again.
            self._limits.forget(batch.topic_partition[0])
            if self._transaction.transactional_id is not None:
                self._limits.check_diskless(batch.topic_partition[0])
        return error

    def _lose(self, connection: Connection, error: BrokerUnavailableError) -> None:
        """Queue the batches in flight on a lost connection again. It is unknown whether the broker has them."""
        del self._connections[connection.address]
        for batches in connection.tags_in_flight:
            for batch in batches:
                self._forget_leaders(batch.topic_partition[0])
                self._queues[batch.topic_partition].fail(batch, str(error), maybe_written=True)

    def _forget_leaders(self, topic: str) -> None:
        self._cluster.forget_topic(topic)
        self._moved.add(topic)
