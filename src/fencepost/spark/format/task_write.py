"""The write of one Spark task of `format("fencepost")`: it asks the ledger, converts rows and writes them.

Tasks do not know their total number, and a data source cannot move rows to other tasks. So topic partitions go from one
task to the next: a task writes to those that the ledger grants it, and waits if another has them. Rows without a
partition go to any free one. Rows with keys need all partitions of a topic together. A task that has the partitions of
one topic cannot wait for the next topic's, which may wait for it: so tasks whose rows have topics and keys write one
after the other.
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

_TURN: Final = ""
"""Claimed like a topic by a task that must be the only one that writes."""

_OF_ANOTHER_TOPIC: Final = (InvalidProducerEpochError, TransactionAbortableError)
"""Errors of brokers for records whose topic was deleted in mid-transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The specification for each task of a write. `schema` has the types of the columns of records."""

    config: SinkConfig
    sink: str
    columns: SinkColumns
    schema: StructType
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class _Granted(Ownership):
    """The granted partitions for rows without a partition; `ask` is called at the first such row."""

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
        # So that small writes do not all go to the same partition.
        self._shift = zlib.crc32(place.mark)
        self._owned: set[TopicPartition] = set()
        # The writer looks up a partition's number when it gets the first records for it.
        self._sequences: dict[TopicPartition, int] = {}
        transaction = replace(handed_over.transaction, sequences=self._sequences)
        self._writer = RecordWriter(spec.config.producer, transaction)
        self._topic_id = handed_over.topic_id
        self._counts = PartitionCounts({}, self._partitions, self._writer.grown_partitions)
        self._routers: dict[str, Router] = {}

    @property
    def asked(self) -> Mapping[str, int]:
        """The numbers of partitions of the topics that it wrote to."""
        return dict(self._counts.asked)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Sequence[Ack]:
        """Write all rows, and return once the brokers and the ledger have them.

        Raises the errors of conversion, RecordWriter and `Ledger.granted`. The ledger shows the reason to other
        attempts.
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
        """Return the connections."""
        self._writer.close()
        self._log.close()

    def _recreated(self, error: FencepostError) -> FencepostError | None:
        """The reason for a refusal, if the topic was created again since the start and so lacks earlier records."""
        topic, config = self._spec.config.topic, self._spec.config.producer.client
        if topic is not None and isinstance(error, _OF_ANOTHER_TOPIC):
            with suppress(FencepostError), KafkaClients().admin(config) as admin:
                if self._topic_id is not None and admin.topic_id(topic) not in (None, self._topic_id):
                    return recreated(topic, f"sink {self._spec.sink}")
        return None

    def _partitions(self, topic: str) -> int:
        """The present number: this process may have learnt another one for an earlier write than other processes."""
        self._writer.refresh_topics([topic])
        return self._writer.partitions(topic)

    def _write(self, batches: Iterable[pa.RecordBatch]) -> Sequence[Ack]:
        spec = self._spec
        types = column_types(spec.schema, where="the DataFrame")
        errors = ErrorHandler(spec.pipeline.errors)
        gate = spec.config.topic_gate(spec.sink)
        in_turn = types.has_topic and types.has_key
        for batch in batches:
            if in_turn:
                self._claim(_TURN, [0])
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
        """All partitions if it has them all, else one: its own, or a free one."""
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
        """Ask until the ledger grants it."""
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
