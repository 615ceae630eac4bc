"""The engine: writes a task's polled batches, into its open transaction if it has one.

    polled records, no transforms     worker: Arrow -> converters -> Kafka
    polled records, transforms        worker -> Catalyst -> worker: converters -> Kafka
    reader, no transforms, small      worker: read -> converters -> Kafka
    reader, no transforms, no Spark   worker: the same, until Spark has started in the background
    reader, no transforms             executors: read -> converters -> Kafka, one stage
    columns                           worker: Kafka
    reader, transforms, small         worker: read -> Catalyst in the driver -> converters -> Kafka
    reader or DataFrame               executors: (read ->) Catalyst -> converters -> Kafka

Transforms that are functions of Python run between a reader and the converters, as if they were part of the reader.
All ways use the same stage and the same RecordWriter. If rows choose their topic partition and several executors write,
a shuffle between converters and Kafka brings each record to the writer that owns its partition.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from fencepost.api.record import ArrowReader, RecordMetadata, SourceBatch, SourceRecord
from fencepost.engine.batch_columns import completed
from fencepost.engine.column_types import ColumnTypes, raw_types
from fencepost.engine.conversion import ROW, Converted, convert, in_record_order, require_topic, with_followed
from fencepost.engine.dead_letters import contents_of
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.error_handler import ErrorHandler, StageRows
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.function_steps import is_function
from fencepost.engine.grouping import RecordGroup, group_records
from fencepost.engine.letter_write import write_letters
from fencepost.engine.own_writes import OwnWrites
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.plugin_counts import PluginCounts
from fencepost.engine.preparation import has_decisions, prepare_columns, prepare_topics, topics_in
from fencepost.engine.refused_records import Stage, Tally
from fencepost.engine.reports import new_mark
from fencepost.engine.routing import Ownership, PartitionCounts, PolledMetadata, Router
from fencepost.engine.spark.frame_preparation import prepare_batch
from fencepost.engine.spark.job_write import SparkWrite, write_batch, written_rows
from fencepost.engine.spark.jobs import Cancelled, Jobs, check_cancelled, wait_unless_cancelled
from fencepost.engine.spark.session import LazySession
from fencepost.engine.spark.transform import GroupPlans, transform_group
from fencepost.engine.topic_gate import TopicGate
from fencepost.engine.write_spec import WriteSpec
from fencepost.engine.write_stage import GivenRows, SplitRows, WriteStage, reader_types
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.record_producer import RecordProducer

_log: Final = logging.getLogger(__name__)

Transformed = tuple[list[pa.RecordBatch], ColumnTypes]
"""Rows as the transforms left them, and the types of their columns."""

SMALL_BATCH: Final = 4 * 1024 * 1024
"""The size up to which the worker reads and writes a batch itself: that is faster than starting a Spark job."""

SMALL_TRANSFORMED_BATCH: Final = 2 * 1024 * 1024
"""The size up to which the worker reads a batch itself if Spark's optimizer changes its rows, in the driver without a job."""

TINY_BATCH: Final = 512 * 1024
"""The size up to which a batch is read on the task's own thread.

Another thread costs a millisecond, and has nothing to do while the only block is written.
"""

WORTH_SPARK: Final = 256 * 1024 * 1024
"""The size of batches that the worker writes itself, as many bytes as it writes while Spark starts."""

_SLICE: Final = 10_000
"""The number of polled records that are routed together: a large batch goes to several partitions, in runs."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a batch, without its dead letters. `bytes` is the size of its record batches as sent.

    `metadata` has an entry for each polled record, None for one that a transform dropped, or that was skipped because
    of an error; it is None for a SourceBatch. `topics` includes the topic of the dead letters.
    """

    written: int
    bytes: int
    metadata: Sequence[RecordMetadata | None] | None
    topics: frozenset[str]
    errors: ErrorCounts

    @classmethod
    def of(
        cls,
        acks: Sequence[Ack],
        metadata: Sequence[RecordMetadata | None] | None,
        errors: ErrorCounts,
        *,
        dead: Sequence[Ack] = (),
    ) -> WriteResult:
        """Add up the acknowledgements; `dead` are the dead letters'."""
        return cls(
            written=sum(ack.count for ack in acks),
            bytes=sum(ack.size for ack in acks),
            metadata=metadata,
            topics=frozenset(ack.topic for ack in (*acks, *dead)),
            errors=errors,
        )


class SparkEngine:
    """One worker's engine, used by all its tasks at once, each on its own thread.

    `settings` are a worker's properties, of which `spark.*` are used. `import_path` are folders with connectors, which
    Spark's Python workers need to import as well. On a cluster, the executors need a Python with the same packages
    (fencepost included), at the path of `spark.pyspark.python`, and access to the brokers.
    """

    def __init__(self, settings: Mapping[str, str], *, import_path: Sequence[str] = ()) -> None:
        self._session = LazySession(settings, import_path=import_path)
        self.plugin_counts = PluginCounts(self._session.get, started=lambda: self._session.started)
        """Brings what plugins count on executors."""
        self._jobs = Jobs()
        self._plans = GroupPlans()
        self._batches = itertools.count()
        self._lock = threading.Lock()
        self._written_without_spark = 0
        self._own_writes = OwnWrites()

    def session(self) -> SparkSession:
        """The worker's Spark session, started at the first call. Raises SparkStartError or JavaNotFoundError."""
        return self._session.get()

    @property
    def started(self) -> bool:
        """Whether Spark runs."""
        return self._session.started

    def warm_up(self) -> None:
        """Start Spark in the background, for a worker that will need it, but not during its own large batches."""
        self._session.warm_up(self._own_writes.quiet)

    def stop(self) -> None:
        """End Spark. Batches that are being written fail."""
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
    ) -> WriteResult:
        """Write a batch, into `producer`'s open transaction if it has any, and return when it is acknowledged.

        `task` names the task in Spark's pools and in messages. `begin` is called once all is prepared that can be, to
        begin a transaction. The `topic_gate` checks each topic of the records, after the transforms and before the
        first of them is sent. Records that a transform or converter refuses are handled by `pipeline.errors`. The
        transaction stays open. Raises a FencepostError (errors of the gate and of a converter's `prepare`,
        PreparationWaitsError, RecordRefusedError, DataError, KafkaError, SparkJobError), after which the transaction
        must be aborted; without a transaction, a part of the batch may be written, and writes may continue.
        """
        check_cancelled(task, cancelled)
        polled: Sequence[SourceRecord] = ()
        if not isinstance(batch, SourceBatch):
            polled = batch
        elif batch.topic is not None:
            pipeline = replace(pipeline, default_topic=batch.topic)
        if isinstance(batch, SourceBatch) and batch.columns is not None:
            pipeline = pipeline.of_bytes()
        errors = ErrorHandler(pipeline.errors, records=polled, wait=partial(wait_unless_cancelled, task, cancelled))
        writing = self._new_write(producer, pipeline, errors, task, cancelled)
        metadata: Sequence[RecordMetadata | None] | None = None
        converted: Sequence[Converted] = ()
        transformed: Sequence[Transformed] | None = None
        try:
            if isinstance(batch, SourceBatch):
                transformed = writing.transformed_rows(batch)
                if transformed is None:
                    writing.prepare(batch)
            else:
                converted = writing.converted(batch)
            begin()
            spec = WriteSpec(
                pipeline=pipeline,
                config=producer.config,
                transaction=producer.transaction,
                topic_gate=topic_gate,
                start=next(self._batches),
            )
            if transformed is not None:
                acks = writing.rows(transformed, spec)
            elif isinstance(batch, SourceBatch):
                acks = writing.source_batch(batch, spec)
            else:
                acks, metadata = writing.records(converted, spec, len(batch))
        except RecordRefusedError as error:
            tell(error.tally, f"Task {task}")
            raise
        tell(errors.tally, f"Task {task}")
        producer.acknowledge(acks)
        dead = write_letters(errors.letters, spec, producer, task, partial(check_cancelled, task, cancelled))
        return WriteResult.of(acks, metadata, errors.tally.counts, dead=dead)

    def _new_write(
        self, producer: RecordProducer, pipeline: Pipeline, errors: ErrorHandler, task: str, cancelled: Cancelled
    ) -> _BatchWrite:
        return _BatchWrite(
            session=self.session,
            spark_ready=self._spark_ready,
            own_writes=self._own_writes,
            jobs=self._jobs,
            plans=self._plans,
            producer=producer,
            task=task,
            cancelled=cancelled,
            errors=errors,
            pipeline=pipeline,
        )

    def _spark_ready(self, size: int) -> bool:
        """Whether Spark can write a batch of this size at once. It is started once batches were worth its start."""
        with self._lock:
            self._written_without_spark += size
            start = self._written_without_spark > WORTH_SPARK
        return self._session.ready(start=start)

    def cancel(self, task: str) -> None:
        """Cancel a task's Spark job. The caller aborts the transaction: executors may keep writing until then."""
        self._jobs.cancel(task)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchWrite:
    """The write of one batch: its `pipeline`, and the worker's own parts."""

    session: Callable[[], SparkSession]
    spark_ready: Callable[[int], bool]
    own_writes: OwnWrites
    jobs: Jobs
    plans: GroupPlans
    producer: RecordProducer
    task: str
    cancelled: Cancelled
    errors: ErrorHandler
    pipeline: Pipeline

    def records(
        self, converted: Sequence[Converted], spec: WriteSpec, polled: int
    ) -> tuple[list[Ack], Sequence[RecordMetadata | None]]:
        """Write `polled` records from the worker, in the order of the poll within each topic partition."""
        metadata = PolledMetadata(polled)
        topics = {part.topic for part in converted}
        spec.topic_gate.admit(topics)
        with closing(self.producer.writer()) as writer:
            if len(topics) > 1:
                writer.prefetch_topics(topics)
            counts = PartitionCounts({}, writer.partitions, writer.grown_partitions)
            router = Router(counts, counts.beyond, Ownership(), run_bytes=spec.config.batch_size, start=spec.start)
            parts = (part for of_topic in in_record_order(converted) for part in of_topic.slices(_SLICE))
            for part in parts:
                for routed in router.route(part):
                    metadata.sent(part, routed)
                    writer.write(routed.topic, routed.partition, routed.records)
            acks = writer.flush()
        metadata.acknowledged(acks)
        return acks, metadata

    def converted(self, records: Sequence[SourceRecord]) -> list[Converted]:
        """Return polled records as records of Kafka."""
        pipeline = self.pipeline
        structured, decides = bool(pipeline.transforms), has_decisions(pipeline)
        converted: list[Converted] = []
        multiplied = False
        for group in group_records(records, pipeline, self.errors, structured=structured):
            rows = self._stage_rows(group)
            for batches, types in self._transformed(group, rows) if structured else [([group.columns], group.types)]:
                if decides:
                    prepare_columns(pipeline, group.topic, types, batches)
                for batch in batches:
                    marked = with_followed(batch) if structured else batch
                    multiplied = multiplied or marked is not batch
                    converted += convert(marked, types, pipeline, self.errors, group.topic)
        if multiplied and self.errors.refused:
            # All rows of a record are written, or none.
            left = [part.without(self.errors.refused) for part in converted]
            return [part for part in left if len(part.records)]
        return converted

    def prepare(self, batch: SourceBatch) -> None:
        """Prepare the converters for the rows of a SourceBatch."""
        pipeline = self.pipeline
        if batch.columns is not None or not has_decisions(pipeline):
            return
        if batch.reader is None or pipeline.transforms:
            self._prepare_by_spark(batch)
        elif batch.splits:
            types = reader_types(batch.reader)
            if not types.has_topic:
                prepare_topics(pipeline, [require_topic(pipeline.default_topic)], types)
            elif (topics := getattr(batch.reader, "topics", None)) is not None:
                prepare_topics(pipeline, topics, types)
            elif batch.bytes is None or batch.bytes > SMALL_BATCH:
                self._prepare_by_spark(batch)
            else:
                rows = SplitRows.of(batch.reader, batch.splits, pipeline)
                unseen = ErrorHandler(replace(pipeline.errors, dead_letter_topic=None))
                prepare_topics(pipeline, topics_in(rows.read([0], unseen, ahead=False), pipeline.default_topic), types)

    def _prepare_by_spark(self, batch: SourceBatch) -> None:
        session, mark = self.session(), new_mark()
        prepare_batch(
            session, batch, self.pipeline, partial(self.jobs.running, session, self.task, self.cancelled, mark), mark
        )

    @property
    def _only_functions(self) -> bool:
        """Whether rows pass no transform, or only functions of Python, which need no Spark."""
        return all(is_function(step) for step in self.pipeline.transforms)

    def source_batch(self, batch: SourceBatch, spec: WriteSpec) -> list[Ack]:
        """Write a SourceBatch, from the worker if it is small and needs no Spark, or if Spark has not started yet."""
        if batch.columns is not None:
            return self._columns(batch.columns, spec)
        if batch.reader is None and batch.dataframe is None:
            # Offsets alone do not need Spark, whatever the transforms are.
            return []
        if batch.reader is None or not self._only_functions or batch.bytes is None:
            return self._by_spark(batch, spec)
        if batch.bytes <= SMALL_BATCH:
            return self._by_worker(batch.reader, batch.splits, spec, ahead=batch.bytes > TINY_BATCH)
        if self.spark_ready(batch.bytes):
            return self._by_spark(batch, spec)
        with self.own_writes.one():
            return self._by_worker(batch.reader, batch.splits, spec, ahead=True)

    def _columns(self, columns: pa.RecordBatch, spec: WriteSpec) -> list[Ack]:
        stage = WriteStage(spec, GivenRows(), raw_types(columns.schema))
        with closing(self.producer.writer()) as writer:
            check = partial(check_cancelled, self.task, self.cancelled)
            return list(stage.write([columns], writer, Ownership(), self.errors, check).acks)

    def _by_worker(self, reader: ArrowReader, splits: Sequence[Any], spec: WriteSpec, *, ahead: bool) -> list[Ack]:
        rows, types = written_rows(SplitRows.of(reader, splits, self.pipeline), self.pipeline)
        stage = WriteStage(spec, rows, types)
        with closing(self.producer.writer()) as writer:
            check = partial(check_cancelled, self.task, self.cancelled)
            read = rows.read([0], self.errors, ahead=ahead)
            return list(stage.write(read, writer, Ownership(), self.errors, check).acks)

    def _by_spark(self, batch: SourceBatch, spec: WriteSpec) -> list[Ack]:
        session, mark = self.session(), new_mark()
        # A successful job has each writer's answer; after any other end some may still be writing.
        with closing(self.producer.writer()) as metadata, self.producer.lent() as transaction:
            write = SparkWrite(
                session=session,
                spec=replace(spec, transaction=transaction),
                metadata=metadata,
                errors=self.errors,
                running=partial(self.jobs.running, session, self.task, self.cancelled, mark),
                mark=mark,
            )
            return write_batch(write, batch)

    def transformed_rows(self, batch: SourceBatch) -> list[Transformed] | None:
        """Return the rows of a small batch of a reader, read and transformed without a Spark job, their converters prepared.

        None for any other batch.
        """
        pipeline = self.pipeline
        if batch.reader is None or batch.bytes is None or batch.bytes > SMALL_TRANSFORMED_BATCH or self._only_functions:
            return None
        given = reader_types(batch.reader)
        rows = SplitRows.of(batch.reader, batch.splits, pipeline)
        read = [part for part in rows.read([0], self.errors, ahead=False) if part.num_rows]
        if not read:
            return []
        (whole,) = pa.Table.from_batches(read).combine_chunks().to_batches()
        numbered = {ROW: pa.array(range(whole.num_rows))}
        columns = pa.RecordBatch.from_pydict({name: whole[name] for name in whole.schema.names} | numbered)
        # Headers are converted after the transforms, unlike a polled record's.
        group = RecordGroup(pipeline.default_topic or "", replace(given, has_headers=False), columns)
        stage = replace(
            self._stage_rows(group),
            row=lambda _: None,
            contents=lambda start, stop: contents_of(whole.slice(start, stop - start)),
        )
        complete = partial(completed, topic=pipeline.default_topic)
        transformed = self._transformed(group, stage, complete)
        found = [
            ([one.drop_columns([ROW]) for one in batches], replace(types, batch=True)) for batches, types in transformed
        ]
        if has_decisions(pipeline):
            for batches, types in found:
                prepare_columns(pipeline, group.topic, types, batches)
        return found

    def rows(self, transformed: Sequence[Transformed], spec: WriteSpec) -> list[Ack]:
        """Write transformed rows from the worker."""
        if not transformed:
            return []
        check = partial(check_cancelled, self.task, self.cancelled)
        stage = WriteStage(spec, GivenRows(), transformed[0][1])
        parts = ((batch, types) for batches, types in transformed for batch in batches)
        with closing(self.producer.writer()) as writer:
            return list(stage.write_parts(parts, writer, Ownership(), self.errors, check).acks)

    def _stage_rows(self, group: RecordGroup) -> StageRows:
        columns = group.columns
        return StageRows(
            Stage.TRANSFORMATION, self.pipeline.transform_names, group.topic, columns.num_rows,
            row=lambda position: columns[ROW][position].as_py(),
        )  # fmt: skip

    def _transformed(
        self,
        group: RecordGroup,
        rows: StageRows,
        complete: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda part: part,
    ) -> list[Transformed]:
        """Transform the rows of a group, of which each part is `complete` before. Refused ones are left out, if tolerated."""
        pipeline = self.pipeline
        # Before any row is tried: a Spark that cannot start is not the fault of a record, which could be skipped.
        session = None if self._only_functions else self.session()

        def transform(start: int, stop: int) -> Transformed:
            part = replace(group, columns=complete(group.columns.slice(start, stop - start)))
            running = nullcontext() if session is None else self.jobs.running(session, self.task, self.cancelled)
            with running:
                return transform_group(session, part, pipeline, self.plans)

        passed, _ = self.errors.apply(rows, transform)
        return [part.result for part in passed]


def tell(tally: Tally, whose: str) -> None:
    """Log the refused records in a tally, and the number of further skipped ones. `whose` begins each message."""
    for refused in tally.listed:
        shown = "" if refused.content is None else f" The record: {refused.content}"
        _log.error("%s: %s%s", whose, refused, shown)
    left = tally.counts.skipped - len(tally.listed)
    if tally.listed and left > 0:
        _log.error("%s: %d more records of the same batch were skipped", whose, left)
