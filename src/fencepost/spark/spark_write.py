"""Batches that Spark's executors write: which stages a job has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.record import SourceBatch
from fencepost.kafka.client_config import ProducerConfig
from fencepost.kafka.transaction import Transaction
from fencepost.kafka.writer import Ack
from fencepost.spark.conversion import ColumnTypes, column_types, require_topic
from fencepost.spark.pipeline import Pipeline
from fencepost.spark.routing import writer_count
from fencepost.spark.transforming import read_frame, transform_frame
from fencepost.spark.write_stage import (
    REPORT_SCHEMA,
    TARGETED_SCHEMA,
    ConvertStage,
    GivenRows,
    Source,
    SplitRows,
    WriteStage,
    WriteTargeted,
    read_reports,
    reader_types,
)

_POSITION: Final = "__fencepost_position"


@dataclass(frozen=True, slots=True)
class SparkWrite:
    """One batch's job. `partition_count` tells how many partitions a topic has; `start` varies from batch to batch."""

    session: SparkSession
    pipeline: Pipeline
    config: ProducerConfig
    transaction: Transaction
    partition_count: Callable[[str], int]
    start: int

    def splits(self, rows: SplitRows, types: ColumnTypes) -> list[Ack]:
        """Read, convert and write splits, in one stage if no row chooses its topic partition."""
        count = len(rows.splits)
        writers = self._writers(types, splits=count)
        fused = writers == 1 or not types.targeted
        runs = writers if fused else min(self._parallelism, count)
        frame = self.session.range(0, runs, numPartitions=runs)
        rows = replace(rows, runs=runs)
        return self._write(frame, rows, types, writers) if fused else self._shuffle(frame, rows, types, writers)

    def frame(self, frame: DataFrame, types: ColumnTypes) -> list[Ack]:
        """Convert and write the rows of a DataFrame."""
        writers = self._writers(types)
        if writers == 1 or not types.targeted:
            return self._write(frame.coalesce(writers), GivenRows(), types, writers)
        return self._shuffle(frame, GivenRows(), types, writers)

    @property
    def _parallelism(self) -> int:
        return self.session.sparkContext.defaultParallelism

    def _writers(self, types: ColumnTypes, *, splits: int | None = None) -> int:
        partitions = (
            self._parallelism if types.has_topic else self.partition_count(require_topic(self.pipeline.default_topic))
        )
        return writer_count(parallelism=self._parallelism, partitions=partitions, splits=splits)

    def _write(self, frame: DataFrame, source: Source, types: ColumnTypes, writers: int) -> list[Ack]:
        stage = WriteStage(
            source, types, self.pipeline.without_transforms(), self.config, self.transaction, writers, self.start
        )
        return _collect(frame.mapInArrow(stage, REPORT_SCHEMA))

    def _shuffle(self, frame: DataFrame, source: Source, types: ColumnTypes, writers: int) -> list[Ack]:
        """Bring each record to the writer that owns its topic partition, and there back into the batch's order."""
        stage = ConvertStage(source, types, self.pipeline.without_transforms(), self.config, self.transaction, writers)
        converted = frame.mapInArrow(stage, TARGETED_SCHEMA).withColumn(_POSITION, F.monotonically_increasing_id())
        owned = converted.repartitionById(writers, F.col("writer")).sortWithinPartitions(_POSITION)
        return _collect(owned.mapInArrow(WriteTargeted(self.config, self.transaction), REPORT_SCHEMA))


def write_batch(write: SparkWrite, batch: SourceBatch) -> list[Ack]:
    """Write a SourceBatch by Spark's executors. Raises what they reported, and PySpark's own errors."""
    rows = None if batch.reader is None else SplitRows(batch.reader, batch.splits, max(1, len(batch.splits)))
    if rows is not None and not write.pipeline.transforms:
        return write.splits(rows, reader_types(rows.reader)) if rows.splits else []
    frame = batch.dataframe if rows is None else read_frame(write.session, rows)
    if frame is None:
        return []
    if write.pipeline.transforms:
        return write.frame(*transform_frame(frame, write.pipeline))
    return write.frame(frame, column_types(frame.schema, where="a SourceBatch"))


def _collect(reports: DataFrame) -> list[Ack]:
    rows: Sequence[bytes] = [bytes(row.report) for row in reports.collect()]
    return read_reports(rows)
