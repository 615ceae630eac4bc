"""The write of one Spark task of `format("fencepost")`: it asks the ledger, and converts and writes rows.

Tasks do not know how many tasks there are, and a data source cannot move rows to other tasks. So topic partitions pass
from one task to the next: a task writes to partitions that the ledger grants to it, and waits while another task has
them. Rows without a partition go to any free partition. Rows with keys need all partitions of a topic at the same time.
If each of two tasks had all partitions of one topic and needed the other task's topic as well, they would wait for each
other. So tasks whose rows have topics and keys write one after the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from fencepost.api.errors import FencepostError, describe_error
from fencepost.engine.column_types import column_types
from fencepost.engine.conversion import Converted, convert
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.routing import Ownership, PartitionCounts, Routed, Router
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import InvalidProducerEpochError, TransactionAbortableError
from fencepost.kafka.producer.partition_queue import Ack, sequence_after
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import TopicPartition
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.format.handed_over import HandedOver
from fencepost.spark.format.ledger import Claim, Done, Failed
from fencepost.spark.format.ledger_log import LedgerLog, LedgerPlace
from fencepost.spark.frame.record_columns import SinkColumns
from fencepost.spark.frame.wording import in_spark_terms, recreated

_LOCK_TOPIC: Final = ""
"""The name of a pseudo-topic. A task that must write alone claims partition 0 of it."""

_OF_ANOTHER_TOPIC: Final = (InvalidProducerEpochError, TransactionAbortableError)
"""The errors with which brokers refuse records if the topic was deleted during the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The specification for all tasks of a write. `schema` has the types of the columns of records."""

    config: SinkConfig
    sink: str
    columns: SinkColumns
    schema: StructType
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class _Granted(Ownership):
    """The granted partitions for rows without a partition. `ask` is called at the first such row."""

    ask: Callable[[int], range] = range

    def partitions(self, count: int) -> range:
        return self.ask(count)


class TaskWrite:
    """Writes the rows of one attempt of a task into a transaction. `attempt` is a unique number."""

    def __init__(self, spec: TaskSpec, handed_over: HandedOver, place: LedgerPlace, task: int, attempt: int) -> None:
        self.has_claimed = False
        """Whether the attempt may have written anything."""
        self._spec = spec
        self._task = task
        self._attempt = attempt
        self._log = LedgerLog(spec.config, place)
        # Each write begins with another partition, so that small writes do not all go to the same partition.
        self._shift = zlib.crc32(place.mark)
        self._owned: set[TopicPartition] = set()
        # The writer reads a partition's next sequence number from this dict when the partition gets its first records.
        self._sequences: dict[TopicPartition, int] = {}
        transaction = replace(handed_over.transaction, sequences=self._sequences)
        self._writer = RecordWriter(spec.config.producer, transaction)
        self._topic_id = handed_over.topic_id
        self._counts = PartitionCounts({}, self._partitions, self._writer.grown_partitions)
        self._routers: dict[str, Router] = {}

    @property
    def requested_counts(self) -> Mapping[str, int]:
        """The number of partitions of each topic that the task has written to."""
        return dict(self._counts.requested_counts)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Sequence[Ack]:
        """Write all rows. Return when the brokers and the ledger have them.

        Raises the errors of conversion, RecordWriter and `Ledger.granted`. The ledger shows the reason of a failure to
        other attempts.
        """
        try:
            acks = self._write(batches)
            if self.has_claimed:
                ends = {(ack.topic, ack.partition): sequence_after(ack.base_sequence, ack.count) for ack in acks}
                sequences = tuple((topic, partition, number) for (topic, partition), number in ends.items())
                self._log.append(Done(self._task, self._attempt, sequences))
        except FencepostError as error:
            sink = f"sink {self._spec.sink}"
            worded = self._recreated(error) or in_spark_terms(error, sink=sink, batch=sink, may_skip=False)
            if self.has_claimed:
                with suppress(FencepostError):
                    self._log.append(Failed(self._task, self._attempt, describe_error(worded)))
            raise worded from None
        return acks

    def close(self) -> None:
        """Close the writer and the ledger's connections."""
        self._writer.close()
        self._log.close()

    def _recreated(self, error: FencepostError) -> FencepostError | None:
        """Return the error to raise if records were refused because the topic was deleted and created again, else None.

        The new topic lacks the earlier records.
        """
        topic, config = self._spec.config.topic, self._spec.config.producer.client
        if topic is not None and isinstance(error, _OF_ANOTHER_TOPIC):
            with suppress(FencepostError), KafkaClients().admin(config) as admin:
                if self._topic_id is not None and admin.topic_id(topic) not in (None, self._topic_id):
                    return recreated(topic, f"sink {self._spec.sink}")
        return None

    def _partitions(self, topic: str) -> int:
        """Return a topic's current number of partitions.

        The number is requested again: the number that this process remembers from an earlier write may be outdated.
        """
        self._writer.refresh_topics([topic])
        return self._writer.partitions(topic)

    def _write(self, batches: Iterable[pa.RecordBatch]) -> Sequence[Ack]:
        spec = self._spec
        types = column_types(spec.schema, where="the DataFrame")
        errors = ErrorHandler(spec.pipeline.errors)
        gate = spec.config.topic_gate(spec.sink)
        writes_alone = types.has_topic and types.has_key
        for batch in batches:
            if writes_alone:
                self._claim(_LOCK_TOPIC, [0])
            for converted in convert(spec.columns.batch(batch), types, spec.pipeline, errors):
                gate.admit({converted.topic})
                for routed in self._route(converted):
                    self._writer.write(routed.topic, routed.partition, routed.records)
        return self._writer.flush()

    def _route(self, converted: Converted) -> Sequence[Routed]:
        """Route records to partitions that the ledger has granted."""
        topic, keys = converted.topic, converted.records.key
        if keys is not None and keys.null_count < len(keys):
            self._claim(topic, range(self._counts(topic)))
        router = self._routers.get(topic)
        if router is None:
            ownership = _Granted(ask=partial(self._for_any, topic))
            run_bytes = self._spec.config.producer.batch_size
            router = self._routers[topic] = Router(self._counts, self._counts.beyond, ownership, run_bytes=run_bytes)
        found = list(router.route(converted))
        self._claim(topic, sorted({routed.partition for routed in found}))
        return found

    def _for_any(self, topic: str, count: int) -> range:
        """Return all partitions if the task has them all, else one partition: one that it has, or else a free one."""
        owned = [partition for name, partition in self._owned if name == topic]
        if len(owned) == count:
            return range(count)
        if not owned:
            first = (self._shift + self._task) % count
            wanted = (*range(first, count), *range(first))
            owned = [*self._granted(Claim(self._task, self._attempt, topic, wanted, one=True))]
        return range(owned[0], owned[0] + 1)

    def _claim(self, topic: str, partitions: Iterable[int]) -> None:
        wanted = tuple(partition for partition in partitions if (topic, partition) not in self._owned)
        if wanted:
            self._granted(Claim(self._task, self._attempt, topic, wanted, one=False))

    def _granted(self, claim: Claim) -> tuple[int, ...]:
        """Repeat a claim until the ledger grants it."""
        ledger, timeout_ms = self._log.ledger, self._spec.config.producer.transaction_timeout_ms
        deadline = Deadline.after(timeout_ms)
        self._log.add(claim)
        while not (granted := ledger.granted(claim)):
            if deadline.passed:
                raise TransactionAbortableError(
                    f"Task {self._task} waited for {timeout_ms} ms to write to topic {claim.topic}, whose partitions other "
                    "tasks write: raise transaction.timeout.ms, or coalesce the DataFrame to fewer partitions"
                )
            self._log.wait()
            if ledger.could_grant(claim):
                self._log.add(claim)
        self.has_claimed = True
        self._owned |= {(claim.topic, partition) for partition in granted}
        self._sequences |= ledger.sequences
        return granted
