"""Writes a SourceBatch: chooses whether the worker or executors read, transform and write its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from fencepost.api.record import ArrowReader, SourceBatch
from fencepost.engine.batch_columns import as_declared, completed
from fencepost.engine.batch_write import BatchWrite, Transformed
from fencepost.engine.column_types import ColumnTypes, raw_types
from fencepost.engine.conversion import ROW, RawHeaders, needs_raw_headers, require_topic
from fencepost.engine.dead_letters import contents_of
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.grouping import RecordGroup
from fencepost.engine.own_writes import OwnWrites
from fencepost.engine.preparation import has_decisions, prepare_columns, prepare_headers, prepare_topics, topics_in
from fencepost.engine.reports import new_mark
from fencepost.engine.routing import Ownership
from fencepost.engine.row_origin import origin_in_splits
from fencepost.engine.spark.frame_preparation import prepare_batch
from fencepost.engine.spark.job_write import SparkWrite, changed_by_functions, write_batch, written_rows
from fencepost.engine.write_spec import WriteSpec
from fencepost.engine.write_stage import GivenRows, SplitRows, StageSource, WriteStage, reader_types
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.record_producer import RecordsAlong

SMALL_BATCH: Final = 4 * 1024 * 1024
"""Up to this size, the worker itself reads and writes a batch: that is faster than starting a Spark job."""

SMALL_TRANSFORMED_BATCH: Final = 2 * 1024 * 1024
"""Up to this size, the worker itself reads a batch whose rows Spark transforms, in the driver without a job."""

TINY_BATCH: Final = 512 * 1024
"""Up to this size, a batch is read on the task's own thread.

A second thread would cost a millisecond, and with a single block it could not read ahead.
"""

JOINED_BYTES: Final = 64 * 1024
"""Small batches of rows are joined up to this size, because each batch costs as much as some hundred rows."""


@dataclass(frozen=True, slots=True)
class SourceWrite:
    """The write of one `batch`. `spark_ready` says whether Spark can write a batch of a given size without waiting.

    `extra_records` is sent together with the rows, if the worker writes at least one row.
    """

    write: BatchWrite
    batch: SourceBatch
    spark_ready: Callable[[int], bool]
    own_writes: OwnWrites
    extra_records: RecordsAlong | None = None

    def prepared(self) -> Callable[[WriteSpec], list[Ack]]:
        """Do the work that needs no transaction. Return the function that writes the rows into the transaction."""
        transformed = self._transformed_rows()
        if transformed is not None:
            return partial(self._write_transformed, transformed)
        self._prepare()
        return self._source_batch

    def _prepare(self) -> None:
        """Prepare the converters for the rows."""
        batch, pipeline = self.batch, self.write.pipeline
        if batch.columns is not None or not has_decisions(pipeline):
            return
        if batch.reader is None or pipeline.transforms:
            self._prepare_by_spark()
        elif batch.splits:
            types = reader_types(batch.reader)
            if not types.has_topic:
                prepare_topics(pipeline, [require_topic(pipeline.default_topic)], types)
            elif (topics := getattr(batch.reader, "topics", None)) is not None:
                prepare_topics(pipeline, topics, types)
            elif batch.bytes is None or batch.bytes > SMALL_BATCH:
                self._prepare_by_spark()
            else:
                rows = SplitRows.of(batch.reader, batch.splits, pipeline)
                unseen = ErrorHandler(replace(pipeline.errors, dead_letter_topic=None))
                prepare_topics(pipeline, topics_in(rows.read([0], unseen, ahead=False), pipeline.default_topic), types)

    def _prepare_by_spark(self) -> None:
        session, mark = self.write.session(), new_mark()
        prepare_batch(session, self.batch, self.write.pipeline, partial(self.write.running, session, mark), mark)

    def _source_batch(self, spec: WriteSpec) -> list[Ack]:
        """Write the rows. The worker writes them if they are few and need no Spark, or if Spark has not started yet."""
        batch = self.batch
        if batch.columns is not None:
            return self._by_worker(GivenRows(), raw_types(batch.columns.schema), [batch.columns], spec)
        if batch.reader is None and batch.dataframe is None:
            # A batch without rows, which has only offsets, needs no Spark, whatever the transforms are.
            return []
        if batch.reader is None or not self.write.only_functions or batch.bytes is None:
            return self._by_spark(spec)
        if batch.bytes <= SMALL_BATCH:
            return self._read_by_worker(batch.reader, spec, ahead=batch.bytes > TINY_BATCH)
        if self.spark_ready(batch.bytes):
            return self._by_spark(spec)
        with self.own_writes.one():
            return self._read_by_worker(batch.reader, spec, ahead=True)

    def _read_by_worker(self, reader: ArrowReader, spec: WriteSpec, *, ahead: bool) -> list[Ack]:
        pipeline = self.write.pipeline
        read = SplitRows.of(reader, self.batch.splits, pipeline)
        changed = changed_by_functions(read, pipeline)
        rows = written_rows(read, changed, pipeline)
        types = reader_types(reader) if changed is None else changed.types
        return self._by_worker(rows, types, joined(rows.read([0], self.write.errors, ahead=ahead)), spec)

    def _by_worker(
        self, source: StageSource, types: ColumnTypes, rows: Iterable[pa.RecordBatch], spec: WriteSpec
    ) -> list[Ack]:
        stage = WriteStage(spec, source, types, extra_records=self.extra_records)
        with closing(self.write.producer.writer()) as writer:
            return list(stage.write(rows, writer, Ownership(), self.write.errors, self.write.check).acks)

    def _by_spark(self, spec: WriteSpec) -> list[Ack]:
        producer, session, mark = self.write.producer, self.write.session(), new_mark()
        # After a successful job, each writer has answered. After a failed job, some writers may still be writing.
        with closing(producer.writer()) as metadata, producer.lent() as transaction:
            write = SparkWrite(
                session=session,
                spec=replace(spec, transaction=transaction),
                metadata=metadata,
                errors=self.write.errors,
                running=partial(self.write.running, session, mark),
                mark=mark,
                plans=self.write.arrow_plans,
            )
            return write_batch(write, self.batch)

    def _transformed_rows(self) -> list[Transformed] | None:
        """Transform a small batch of a reader, or a batch of columns, without a Spark job, and prepare the converters.

        Return the transformed rows, None for any other batch.
        """
        batch, pipeline = self.batch, self.write.pipeline
        if batch.columns is not None and pipeline.transforms:
            return self._transform(batch.columns, raw_types(batch.columns.schema)) if batch.columns.num_rows else []
        if batch.reader is None or batch.bytes is None or batch.bytes > SMALL_TRANSFORMED_BATCH:
            return None
        if self.write.only_functions:
            return None
        given = reader_types(batch.reader)
        # Forbidden nulls in nested fields are not checked here: the transforms find and refuse each row that has one.
        rows = replace(SplitRows.of(batch.reader, batch.splits, pipeline), nested=False)
        read = [part for part in rows.read([0], self.write.errors, ahead=False) if part.num_rows]
        if not read:
            return []
        (whole,) = pa.Table.from_batches(read).combine_chunks().to_batches()
        found = self._transform(whole, given)
        if has_decisions(pipeline):
            for batches, types in found:
                prepare_columns(pipeline, pipeline.default_topic or "", types, batches)
        return found

    def _transform(self, whole: pa.RecordBatch, given: ColumnTypes) -> list[Transformed]:
        transformed = transform_rows(self.write, whole, given, self._origin)
        if self.write.may_multiply:
            self.write.errors.add_inputs(0, whole)
            return transformed
        return [([one.drop_columns([ROW]) for one in batches], types) for batches, types in transformed]

    def _origin(self, row: int) -> str:
        return "" if self.batch.reader is None else origin_in_splits(self.batch.reader, self.batch.splits, row)

    def _write_transformed(self, transformed: Sequence[Transformed], spec: WriteSpec) -> list[Ack]:
        """Write transformed rows from the worker."""
        if not transformed:
            return []
        stage = WriteStage(spec, GivenRows(), transformed[0][1], extra_records=self.extra_records)
        parts = ((batch, types) for batches, types in transformed for batch in batches)
        with closing(self.write.producer.writer()) as writer:
            return list(stage.write_parts(parts, writer, Ownership(), self.write.errors, self.write.check).acks)


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the same order. Small neighbouring batches with the same columns become one batch."""
    small: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if small and batch.schema != small[0].schema:
            yield pa.concat_batches(small)
            small, size = [], 0
        small.append(batch)
        size += batch.nbytes
        if size >= JOINED_BYTES:
            yield pa.concat_batches(small) if len(small) > 1 else batch
            small, size = [], 0
    if small:
        yield pa.concat_batches(small)


def transform_rows(
    write: BatchWrite, whole: pa.RecordBatch, given: ColumnTypes, origin: Callable[[int], str] = lambda _: ""
) -> list[Transformed]:
    """Transform rows without a Spark job. `origin` returns a sentence about the origin of a row.

    The results contain the positions of their rows, in the column ROW.
    """
    topic = write.pipeline.default_topic
    numbered = {ROW: pa.array(range(whole.num_rows))}
    columns = pa.RecordBatch.from_pydict({name: whole[name] for name in whole.schema.names} | numbered)
    # Only headers with bytes are converted before the transforms (`needs_raw_headers`).
    made_raw = needs_raw_headers(given)
    has_headers = made_raw or (given.has_headers and given.raw_headers)
    raw_headers = RawHeaders(topic or "", write.pipeline.header_converter)
    if made_raw and has_decisions(write.pipeline):
        prepare_headers(write.pipeline, topic or "")
    group = RecordGroup(topic or "", replace(given, has_headers=has_headers), columns)
    stage = replace(
        write.stage_rows(group),
        row=lambda _: None,
        contents=lambda start, stop: contents_of(whole.slice(start, stop - start)),
        origin=origin,
    )

    def complete(part: pa.RecordBatch) -> pa.RecordBatch:
        part = raw_headers.applied(part) if made_raw else part
        return completed(as_declared(part, {"value": given.value, "key": given.key}), topic)

    transformed = write.transformed(group, stage, complete)
    return [(batches, replace(types, batch=True)) for batches, types in transformed]
