"""The engine: writes the batches that a task polled, into the task's open transaction if it has one.

    polled records, no transforms     worker: Arrow -> converters -> Kafka
    polled records, transforms        worker -> Catalyst -> worker: converters -> Kafka
    reader, no transforms, small      worker: read -> converters -> Kafka
    reader, no transforms, no Spark   worker: the same, until Spark has started in the background
    reader, no transforms             executors: read -> converters -> Kafka, one stage
    columns                           worker: Kafka
    reader, transforms, small         worker: read -> Catalyst in the driver -> converters -> Kafka
    reader, transforms for Arrow      executors: read -> Arrow -> converters -> Kafka, one stage
    reader or DataFrame               executors: (read ->) Catalyst -> converters -> Kafka

Transforms that are Python functions run between a reader and the converters, as if they were part of the reader.
Each of these ways writes with the class RecordWriter. If rows choose their topic partition and several executors write,
a shuffle between the converters and Kafka moves each record to the writer that owns the record's partition.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.engine.batch_write import BatchWrite
from fencepost.engine.column_types import raw_types
from fencepost.engine.conversion import ROW, Converted, convert, in_record_order, with_followed
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.function_steps import only_functions
from fencepost.engine.grouping import group_records
from fencepost.engine.letter_write import write_letters
from fencepost.engine.own_writes import OwnWrites
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.plugin_counts import PluginCounts
from fencepost.engine.preparation import has_decisions, prepare_columns
from fencepost.engine.refused_records import Tally, log_refused
from fencepost.engine.routing import MissingPartitionError, Ownership, PartitionCounts, PolledMetadata, Router
from fencepost.engine.source_write import SourceWrite, transform_rows
from fencepost.engine.spark.arrow_plans import ArrowPlans
from fencepost.engine.spark.job_write import Changed
from fencepost.engine.spark.jobs import Cancelled, Jobs, check_cancelled, wait_unless_cancelled
from fencepost.engine.spark.session import LazySession
from fencepost.engine.spark.transform import GroupPlans
from fencepost.engine.topic_gate import TopicGate
from fencepost.engine.write_spec import WriteSpec
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.record_producer import RecordProducer, RecordsAlong

WORTH_SPARK: Final = 256 * 1024 * 1024
"""When the worker has written this number of bytes without Spark, it starts Spark in the background.

The worker can write about as many bytes while Spark starts.
"""

_SLICE: Final = 10_000
"""The number of polled records that are routed together.

After this many records, records without a key go to another partition.
"""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing a batch, without its dead letters. `bytes` is the size of its record batches as sent.

    `metadata` has an entry for each polled record, None for a record that a transform dropped, or that was skipped
    because of an error. For a SourceBatch `metadata` is None, unless the batch has columns and `write` got `places`.
    `topics` includes the topic of the dead letters. If all records that the transforms kept were refused for the same
    reason, `only_cause` is this reason.
    """

    written: int
    bytes: int
    metadata: PolledMetadata | None
    topics: frozenset[str]
    errors: ErrorCounts
    only_cause: str | None = None

    @classmethod
    def of(
        cls,
        acks: Sequence[Ack],
        metadata: PolledMetadata | None,
        errors: Tally,
        *,
        dead: Sequence[Ack] = (),
    ) -> WriteResult:
        """Add up the acknowledgements. `dead` are the acknowledgements of dead letters."""
        written = sum(ack.count for ack in acks)
        return cls(
            written=written,
            bytes=sum(ack.size for ack in acks),
            metadata=metadata,
            topics=frozenset(ack.topic for ack in (*acks, *dead)),
            errors=errors.counts,
            only_cause=None if written else errors.only_cause,
        )


class SparkEngine:
    """One worker's engine. All its tasks use it at the same time, each on its own thread.

    `settings` are a worker's properties, of which `spark.*` are used. `import_path` are folders with connectors, from
    which Spark's Python workers must be able to import, too. On a cluster, the executors need a Python with the same
    packages (including fencepost) at the path in `spark.pyspark.python`, and access to the brokers.
    """

    def __init__(self, settings: Mapping[str, str], *, import_path: Sequence[str] = ()) -> None:
        self._session = LazySession(settings, import_path=import_path)
        self.plugin_counts = PluginCounts(self._session.get, started=lambda: self._session.started)
        """Collects the metrics that plugins counted on executors."""
        self._jobs = Jobs()
        self._plans = GroupPlans()
        self._arrow_plans: ArrowPlans[Changed] = ArrowPlans()
        self._batches = itertools.count()
        self._lock = threading.Lock()
        self._written_without_spark = 0
        self._own_writes = OwnWrites()

    def session(self) -> SparkSession:
        """The worker's Spark session, which is started by the first call.

        Raises SparkStartError or JavaNotFoundError.
        """
        return self._session.get()

    @property
    def started(self) -> bool:
        """Whether Spark runs."""
        return self._session.started

    def expect(self, pipeline: Pipeline) -> None:
        """Start Spark in the background if the pipeline needs Spark.

        The start waits while the worker writes large batches.
        """
        if not only_functions(pipeline):
            self._session.warm_up(self._own_writes.quiet)

    def stop(self) -> None:
        """Stop Spark. Batches that are being written then fail."""
        self._session.stop()

    def write(
        self,
        batch: Sequence[SourceRecord] | SourceBatch,
        pipeline: Pipeline,
        producer: RecordProducer,
        *,
        task: str,
        cancelled: Cancelled,
        topic_gate: TopicGate,
        begin: Callable[[], None] = lambda: None,
        extra_records: RecordsAlong | None = None,
        places: bool = False,
    ) -> WriteResult:
        """Write a batch, into `producer`'s open transaction if it has one, and return when the batch is acknowledged.

        `task` names the task in Spark's pools and in messages. `begin` begins a transaction; it is called as late as
        possible. `places` requests `metadata` in the result for a batch with columns. The `topic_gate` checks each
        topic of the records, after the transforms and before the first of them is sent. If the worker itself writes
        records, it sends `extra_records` together with them; the result does not count these. `pipeline.errors`
        determines how records that a transform or converter refuses are handled. The transaction stays open.

        Raises a FencepostError: errors of the gate and of a converter's `prepare`, PreparationWaitsError,
        RecordRefusedError, DataError, KafkaError or SparkJobError. After an error the transaction must be aborted.
        Without a transaction, a part of the batch may have been written, and writes may continue.
        """
        check_cancelled(task, cancelled)
        write = self._batch_write(batch, pipeline, producer, task, cancelled)
        try:
            send, metadata = self._prepared(write, batch, extra_records, places=places)
            begin()
            spec = WriteSpec(
                pipeline=write.pipeline,
                config=producer.config,
                transaction=producer.transaction,
                topic_gate=topic_gate,
                start=next(self._batches),
            )
            acks = send(spec)
        except RecordRefusedError as error:
            log_refused(error.tally, f"Task {task}")
            raise
        log_refused(write.errors.tally, f"Task {task}")
        producer.acknowledge(acks)
        acks = [ack for ack in acks if extra_records is None or ack.topic != extra_records.topic]
        dead = write_letters(write.errors.letters, spec, producer, task, write.check)
        return WriteResult.of(acks, metadata, write.errors.tally, dead=dead)

    def _prepared(
        self,
        write: BatchWrite,
        batch: Sequence[SourceRecord] | SourceBatch,
        extra_records: RecordsAlong | None,
        *,
        places: bool,
    ) -> tuple[Callable[[WriteSpec], list[Ack]], PolledMetadata | None]:
        """Prepare a batch as far as possible without a transaction.

        Return a function that sends the batch, and the metadata of its records, None if it is not requested.
        """
        if isinstance(batch, SourceBatch):
            if batch.pipeline is not None:
                write.errors.take_over(batch.pipeline)
            if batch.columns is None or not places:
                return SourceWrite(write, batch, self._spark_ready, self._own_writes, extra_records).prepared(), None
            metadata, blocks = PolledMetadata(batch.columns.num_rows), _numbered(write, batch.columns)
        else:
            metadata, blocks = PolledMetadata(len(batch)), _converted(write, batch)
        return partial(_write_records, write, blocks, metadata, extra_records), metadata

    def _batch_write(
        self,
        batch: Sequence[SourceRecord] | SourceBatch,
        pipeline: Pipeline,
        producer: RecordProducer,
        task: str,
        cancelled: Cancelled,
    ) -> BatchWrite:
        polled: Sequence[SourceRecord] = ()
        if not isinstance(batch, SourceBatch):
            polled = batch
        elif batch.topic is not None:
            pipeline = replace(pipeline, default_topic=batch.topic)
        if isinstance(batch, SourceBatch) and batch.columns is not None:
            pipeline = pipeline.of_bytes()
        return BatchWrite(
            session=self.session,
            jobs=self._jobs,
            plans=self._plans,
            arrow_plans=self._arrow_plans,
            producer=producer,
            task=task,
            cancelled=cancelled,
            errors=ErrorHandler(pipeline.errors, records=polled, wait=partial(wait_unless_cancelled, task, cancelled)),
            pipeline=pipeline,
        )

    def _spark_ready(self, size: int) -> bool:
        """Whether Spark can write a batch of this size without waiting.

        Starts Spark in the background once the worker has written enough bytes without Spark.
        """
        with self._lock:
            self._written_without_spark += size
            start = self._written_without_spark > WORTH_SPARK
        return self._session.ready(start=start)

    def cancel(self, task: str) -> None:
        """Cancel a task's Spark job.

        The caller aborts the transaction, because executors may keep writing until then.
        """
        self._jobs.cancel(task)


def _numbered(write: BatchWrite, columns: pa.RecordBatch) -> list[Converted]:
    """The rows of a batch's columns as Kafka records that know their positions."""
    types = raw_types(columns.schema)
    if write.pipeline.transforms:
        transformed = transform_rows(write, columns, types) if columns.num_rows else []
    else:
        transformed = [([columns.append_column(ROW, pa.array(np.arange(columns.num_rows)))], types)]
    parts = ((batch, types) for batches, types in transformed for batch in batches)
    return [one for batch, types in parts for one in convert(batch, types, write.pipeline, write.errors)]


def _write_records(
    write: BatchWrite,
    converted: Sequence[Converted],
    metadata: PolledMetadata,
    extra_records: RecordsAlong | None,
    spec: WriteSpec,
) -> list[Ack]:
    """Write polled records from the worker. In each topic partition they are in the order of the poll."""
    topics = {part.topic for part in converted}
    spec.topic_gate.admit(topics)
    with closing(write.producer.writer()) as writer:
        if len(topics) > 1:
            writer.prefetch_topics(topics)
        counts = PartitionCounts({}, writer.partitions, writer.grown_partitions)
        router = Router(counts, counts.beyond, Ownership(), run_bytes=spec.config.batch_size, start=spec.start)
        parts = (part for of_topic in in_record_order(converted) for part in of_topic.slices(_SLICE))
        for part in parts:
            try:
                for routed in router.route(part):
                    metadata.sent(part, routed)
                    writer.write(routed.topic, routed.partition, routed.records)
            except MissingPartitionError as error:
                raise DataError(f"{error}{write.errors.origin(int(part.positions[error.row]))}") from error
        if extra_records is not None and topics:
            extra_records.write(writer)
        acks = writer.flush()
    metadata.acknowledged(acks)
    return acks


def _converted(write: BatchWrite, records: Sequence[SourceRecord]) -> list[Converted]:
    """Return polled records as Kafka records."""
    pipeline, errors = write.pipeline, write.errors
    structured, decides = bool(pipeline.transforms), has_decisions(pipeline)
    converted: list[Converted] = []
    for group in group_records(records, pipeline, errors, structured=structured):
        transformed = [([group.columns], group.types)]
        if structured:
            transformed = write.transformed(group, write.stage_rows(group))
        for batches, types in transformed:
            if decides:
                prepare_columns(pipeline, group.topic, types, batches)
            for batch in batches:
                marked = with_followed(batch) if structured else batch
                converted += convert(marked, types, pipeline, errors, group.topic)
    return converted
