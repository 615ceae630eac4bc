"""Writes batches on Spark's executors: the stages of a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.record import SourceBatch
from fencepost.engine.attempts import with_attempt
from fencepost.engine.column_types import ColumnTypes, column_types
from fencepost.engine.conversion import require_topic
from fencepost.engine.error_handler import ErrorHandler, StageRows
from fencepost.engine.errors import AllRowsRefusedError, RetriableJobError, SparkDataError, UnexplainedJobError
from fencepost.engine.function_steps import ChangedRows, FunctionChain, only_functions
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.refused_records import Stage
from fencepost.engine.reports import read_reports
from fencepost.engine.routing import agreed, writer_count
from fencepost.engine.row_origin import origin_in_split
from fencepost.engine.spark.arrow_plans import ArrowPlans, arrow_plan
from fencepost.engine.spark.known_plans import settings_hash
from fencepost.engine.spark.tolerant_transform import Origin, passing_rows, refuse_row
from fencepost.engine.spark.transform import check_user_types, read_frame, transform_frame
from fencepost.engine.write_spec import WriteSpec
from fencepost.engine.write_stage import (
    REPORT_SCHEMA,
    TARGETED_SCHEMA,
    ConvertStage,
    GivenRows,
    RefusedStage,
    SplitRows,
    StageSource,
    WriteStage,
    WriteTargeted,
    reader_schema,
    reader_types,
)
from fencepost.kafka.errors import KafkaError, PartitionGoneError, TransactionAbortableError
from fencepost.kafka.producer.sender import Ack, RecordWriter
from fencepost.transforms.chain import all_planned_by_schema

_POSITION: Final = "__fencepost_position"


@dataclass(frozen=True, slots=True)
class Changed:
    """Transforms of a reader's rows that run without Spark: a picklable function of rows, and the resulting types."""

    change: Callable[[pa.RecordBatch], pa.RecordBatch]
    types: ColumnTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWrite:
    """The Spark jobs of one batch. Each runs in a context from `running`; `mark` identifies the failures of its stages.

    `metadata` knows the topics' numbers of partitions. `plans` contains the plans that Arrow evaluates.
    """

    session: SparkSession
    spec: WriteSpec
    metadata: RecordWriter
    errors: ErrorHandler
    running: Callable[[], AbstractContextManager[None]]
    mark: str
    plans: ArrowPlans[Changed] = field(default_factory=ArrowPlans)

    def splits(self, rows: SplitRows, changed: Changed | None) -> list[Ack]:
        """Read, transform, convert and write splits, in one stage if no row chooses its topic partition."""
        count = len(rows.splits)
        types = reader_types(rows.reader) if changed is None else changed.types
        writers = self._writers(types, splits=count)
        fused = writers == 1 or not types.targeted
        runs = writers if fused else min(self._parallelism, count)
        source = written_rows(replace(rows, runs=runs), changed, self.spec.pipeline)
        if fused:
            return self._write_runs(source, runs, types, writers)
        return self._shuffle(self.session.range(0, runs, numPartitions=runs), source, types, writers)

    def frame(self, frame: DataFrame, types: ColumnTypes) -> list[Ack]:
        """Convert and write the rows of a DataFrame."""
        writers = self._writers(types)
        if (writers == 1 or not types.targeted) and coalesces_in_order(frame, writers):
            return self._write(frame.coalesce(writers), GivenRows(), types, writers)
        return self._shuffle(frame, GivenRows(), types, writers)

    def refuse(self, rows: SplitRows) -> None:
        """Read splits, and pass the items that are not rows to the `errors` of the write."""
        if rows.splits:
            stage = RefusedStage(self.spec.pipeline.without_transforms(), rows)
            frame = self.session.range(0, rows.runs, numPartitions=rows.runs)
            for report in read_reports(frame.mapInArrow(stage, REPORT_SCHEMA).toArrow()["report"].to_pylist()):
                self.errors.merge(report.tally, report.letters)

    @property
    def _parallelism(self) -> int:
        return self.session.sparkContext.defaultParallelism

    def _writers(self, types: ColumnTypes, *, splits: int | None = None) -> int:
        partitions = self._parallelism
        if not types.has_topic:
            topic = self.spec.pipeline.destination(require_topic(self.spec.pipeline.default_topic))
            self.spec.topic_gate.admit({topic})
            partitions = self.metadata.partitions(topic)
        return writer_count(parallelism=self._parallelism, partitions=partitions, splits=splits)

    def _write(self, frame: DataFrame, source: StageSource, types: ColumnTypes, writers: int) -> list[Ack]:
        spec = self._executors_spec()
        stage = WriteStage(spec, source, types, writers)
        return self._collect(with_attempt(frame).mapInArrow(stage, REPORT_SCHEMA), spec)

    def _write_runs(self, source: StageSource, runs: int, types: ColumnTypes, writers: int) -> list[Ack]:
        """Write runs of splits as an RDD.

        A DataFrame would cost more: the JVM would plan it for twice the time of the rest of the job.
        """
        spec = self._executors_spec()
        stage = WriteStage(spec, source, types, writers)
        numbers = self.session.sparkContext.parallelize(range(runs), runs)
        return self._acks(numbers.mapPartitions(stage.write_runs).collect(), spec)

    def _shuffle(self, frame: DataFrame, source: StageSource, types: ColumnTypes, writers: int) -> list[Ack]:
        """Move each record to the writer of its topic partition, and restore the batch's order there."""
        spec = self._executors_spec()
        stage = ConvertStage(spec, source, types, writers)
        converted = frame.mapInArrow(stage, TARGETED_SCHEMA).withColumn(_POSITION, F.monotonically_increasing_id())
        owned = converted.repartitionById(writers, F.col("writer")).sortWithinPartitions(_POSITION)
        return self._collect(with_attempt(owned).mapInArrow(WriteTargeted(spec), REPORT_SCHEMA), spec)

    def _executors_spec(self) -> WriteSpec:
        return self.spec.for_executors(self.metadata.known_partitions())

    def _collect(self, reports: DataFrame, spec: WriteSpec) -> list[Ack]:
        return self._acks(reports.toArrow()["report"].to_pylist(), spec)

    def _acks(self, texts: Sequence[str], spec: WriteSpec) -> list[Ack]:
        asked: set[str] = set()
        try:
            found = read_reports(texts)
            asked = {topic for report in found for topic in report.partitions}
            known = {topic: self.metadata.partitions(topic) for topic in asked}
            given = {topic: count for topic, count in spec.partitions.items() if topic in asked}
            agreed([*(report.partitions for report in found), given, known])
        except (PartitionGoneError, TransactionAbortableError):
            # The cached numbers of partitions may be outdated. They must not be used again in the next attempt.
            with suppress(KafkaError):
                self.metadata.refresh_topics({*asked, *spec.partitions})
            raise
        for report in found:
            self.errors.merge(report.tally, report.letters)
        return [ack for report in found for ack in report.acks]


def changed_by_functions(rows: SplitRows, pipeline: Pipeline) -> Changed | None:
    """Return the transforms of a pipeline of Python functions as a Changed; None if there are no transforms."""
    if not pipeline.transforms:
        return None
    chain = FunctionChain.of(pipeline, reader_types(rows.reader))
    return Changed(chain, chain.types)


def written_rows(rows: SplitRows, changed: Changed | None, pipeline: Pipeline) -> SplitRows | ChangedRows:
    """Return the rows to write: the rows of splits, or these rows after their change."""
    if changed is None:
        return rows
    return ChangedRows(
        rows, changed.change, pipeline.transform_names, pipeline.default_topic, pipeline.place_of(""),
        multiplies=pipeline.may_multiply,
    )  # fmt: skip


def coalesces_in_order(frame: DataFrame, count: int) -> bool:
    """Whether `frame.coalesce(count)` is guaranteed to read joined partitions in their order.

    `coalesce` joins neighbours, unless Spark knows a preferred location of a partition, for example where the partition
    is cached. Then `coalesce` joins the partitions of one location, starting at any of them. The locations for an
    adaptive plan are known only after the plan has run.
    """
    # A DataFrame keeps its first plan, which ignores caching that began later. So the check uses a new DataFrame.
    execution = frame.select("*")._jdf.queryExecution()  # noqa: SLF001 - pyspark shows no plan
    if execution.executedPlan().nodeName() == "AdaptiveSparkPlan":
        return False
    rows, context = execution.toRdd(), frame.sparkSession.sparkContext._jsc.sc()  # noqa: SLF001 - nor places
    partitions = rows.getNumPartitions()
    return partitions <= count or all(context.getPreferredLocs(rows, n).isEmpty() for n in range(partitions))


def write_batch(write: SparkWrite, batch: SourceBatch) -> list[Ack]:
    """Write a SourceBatch on Spark's executors.

    Raises the errors that executors report, and the errors that `write.running` converts.
    """
    rows = None
    if batch.reader is not None:
        rows = replace(SplitRows.of(batch.reader, batch.splits, write.spec.pipeline), runs=max(1, len(batch.splits)))
    if rows is not None and only_functions(write.spec.pipeline):
        with write.running():
            return write.splits(rows, changed_by_functions(rows, write.spec.pipeline)) if rows.splits else []
    with write.running():
        if rows is not None and rows.splits and (changed := _changed_by_arrow(write, rows)) is not None:
            return write.splits(rows, changed)
        if rows is not None and rows.tolerant:
            write.refuse(rows)
        frame = batch.dataframe if rows is None else read_frame(write.session, rows, write.spec.pipeline, write.mark)
        if frame is None:
            return []
        check_user_types(frame, where=write.spec.pipeline.given)
        if not write.spec.pipeline.transforms:
            return write.frame(frame, column_types(frame.schema, where=write.spec.pipeline.given))
    return _write_transformed(write, frame, partial(_origin, batch))


def _changed_by_arrow(write: SparkWrite, rows: SplitRows) -> Changed | None:
    """Return the transforms of a reader's rows if Arrow can evaluate them exactly as Spark does, else None.

    The result is also None if the transforms refuse the columns, because the write with Spark reports that. And it is
    None for transforms that plan each batch anew, because they would be called twice.
    """
    session, pipeline = write.session, write.spec.pipeline
    if not all_planned_by_schema(pipeline.transforms):
        return None

    def make() -> Changed | None:
        frame = read_frame(session, rows, pipeline, write.mark)
        try:
            transformed, types = transform_frame(frame, pipeline)
        except AllRowsRefusedError:
            return None
        plan = arrow_plan(frame, transformed)
        return None if plan is None else Changed(plan, types)

    schema = reader_schema(rows.reader)
    key = (session, settings_hash(session), tuple(pipeline.transforms), pipeline.default_topic, schema)
    try:
        return write.plans.found(key, make)
    except RetriableJobError:
        # After a RetriableError, the result is not kept, and a later batch is planned again.
        return None


def _origin(batch: SourceBatch, partition: int, row: int) -> str:
    """Return a sentence about the origin of a row in a batch.

    Each split of a reader is one partition of its DataFrame.
    """
    if batch.reader is None or partition >= len(batch.splits):
        return ""
    return origin_in_split(batch.reader, batch.splits[partition], row)


def _write_transformed(write: SparkWrite, frame: DataFrame, origin: Origin) -> list[Ack]:
    if write.errors.stops_at_first:
        rows = StageRows(
            Stage.TRANSFORMATION, write.spec.pipeline.transform_names, write.spec.pipeline.default_topic, 1,
            place=write.spec.pipeline.place_of,
        )  # fmt: skip
        try:
            with write.running():
                return write.frame(*transform_frame(frame, write.spec.pipeline))
        except AllRowsRefusedError as error:
            raise write.errors.refuse_batch(rows, error.reason) from error
        except SparkDataError as error:
            refuse_row(frame, write.spec.pipeline, write.errors, write.running, origin)
            raise write.errors.refuse_batch(rows, error) from error
        except UnexplainedJobError:
            refuse_row(frame, write.spec.pipeline, write.errors, write.running, origin)
            raise
        except RetriableJobError as error:
            raise write.errors.refuse_batch(rows, error) from error
    with passing_rows(frame, write.spec.pipeline, write.errors, write.running, origin) as passing:
        if passing is None:
            return []
        with write.running():
            return write.frame(*passing)
