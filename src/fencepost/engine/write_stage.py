"""The functions that Spark runs over the rows of a batch: convert and write, or only convert before a shuffle.

The functions are picklable callables for `DataFrame.mapInArrow`. The worker calls the same callables for batches that
it writes itself. A writer returns its Report, in one or more rows, or the FencepostError that ended it, so that the
worker can raise the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from fencepost.api.ddl import parse_columns
from fencepost.api.declared_columns import in_declared_order
from fencepost.api.errors import DataError, FencepostError, PluginError, describe_error
from fencepost.api.fitted_columns import fitted
from fencepost.api.plugin_calls import call_plugin, iterate_plugin, kind_of, refuse_answer
from fencepost.api.record import ArrowReader, RefusedRow
from fencepost.config.error_handling import Tolerance
from fencepost.engine.attempts import of_first_attempt, task_context
from fencepost.engine.column_types import ColumnTypes, column_types
from fencepost.engine.conversion import ROW, convert
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.read_ahead import read_ahead
from fencepost.engine.refused_records import Tally
from fencepost.engine.reports import Report, read_reports, report_text
from fencepost.engine.routing import Ownership, PartitionCounts, Router, agreed, contiguous_run
from fencepost.engine.targeted_blocks import TARGETED, targeted_blocks, targeted_records
from fencepost.engine.write_spec import WriteSpec
from fencepost.kafka.producer.record_producer import RecordsAlong
from fencepost.kafka.producer.sender import RecordWriter

REPORT_SCHEMA: Final = "report STRING"
"""The result of a writer: rows that contain the texts of its Report's pieces, or the text of a FencepostError."""

TARGETED_SCHEMA: Final = "writer INT, topic STRING, records BINARY, message STRING"
"""The rows of the shuffle: blocks of converted records of one topic for a writer (see `targeted_blocks`), or messages.

A message is the text of a Report from a converting partition, or of the FencepostError that ended the partition.
"""

_TOLERANT: Final = "read_tolerant"


class StageSource(Protocol):
    """The origin of a stage's rows: batches from Spark, or splits that the stage reads itself."""

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the batches that Spark passes to this task.

        Items that are not rows are given to `errors`.
        """


@dataclass(frozen=True, slots=True)
class GivenRows:
    """The rows of a DataFrame."""

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Yield Spark's batches. Rows that transforms made of the same row stay in one batch."""
        del errors
        return _with_whole_inputs(given)


def _with_whole_inputs(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    for batch in given:
        if ROW not in batch.schema.names or not batch.num_rows:
            yield batch
            continue
        numbers = batch[ROW].to_numpy()
        others = np.flatnonzero(numbers != numbers[-1])
        start = int(others[-1]) + 1 if len(others) else 0
        if start or (held and held[0][ROW][0].as_py() != numbers[0]):
            yield pa.concat_batches([*held, batch.slice(0, start)])
            held = []
        held.append(batch.slice(start))
    if held:
        yield pa.concat_batches(held)


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Splits that the stage itself reads. They are divided into `runs` runs of neighbouring splits.

    A `tolerant` reader continues after items that are not rows. `topic` is used for rows that name no topic. If
    `nested` is False, forbidden nulls within structs are not checked here: the check would refuse the whole Arrow
    batch, but the transforms refuse only the row.

    In a column `id`, Spark passes the numbers of the runs to read. The number of the Spark task is not enough: if Spark
    joins partitions, one task reads several runs.
    """

    reader: ArrowReader
    splits: Sequence[Any]
    runs: int = 1
    tolerant: bool = False
    topic: str | None = None
    nested: bool = True

    @classmethod
    def of(cls, reader: ArrowReader, splits: Sequence[Any], pipeline: Pipeline) -> SplitRows:
        """Return the splits of a batch as one run. They are read according to the pipeline's `errors.*`."""
        tolerant = pipeline.errors.tolerance is Tolerance.ALL and hasattr(reader, _TOLERANT)
        return cls(reader, splits, tolerant=tolerant, topic=pipeline.default_topic)

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Read the runs with the numbers that Spark passes.

        An error of the reader becomes a DataError with the location.

        Any other exception would reach the worker only as a text of Spark.
        """
        try:
            yield from self.read([run for batch in given for run in batch["id"].to_pylist()], errors)
        except FencepostError:
            raise
        except Exception as error:
            raise DataError(f"read() of {type(self.reader).__name__} failed: {describe_error(error)}") from error

    def read(self, runs: Sequence[int], errors: ErrorHandler, *, ahead: bool = True) -> Iterator[pa.RecordBatch]:
        """Read some of the runs. With `ahead`, another thread reads ahead.

        Items that are not rows are given to `errors`.
        """
        positions = chain.from_iterable(contiguous_run(len(self.splits), run, self.runs) for run in runs)
        parts = (part for position in positions for part in self._read_split(self.splits[position]))
        for part in read_ahead(parts) if ahead else parts:
            if isinstance(part, pa.RecordBatch):
                yield part
            else:
                errors.skip_rows(part, type(self.reader).__name__, self.topic)

    def _read_split(self, split: Any) -> Iterator[pa.RecordBatch | Sequence[RefusedRow]]:
        name, reader = _TOLERANT if self.tolerant else "read", type(self.reader).__name__
        what, wanted = f"{name}() of {reader}", "an iterator of RecordBatch of pyarrow"
        columns = parse_columns(reader_schema(self.reader))
        read = getattr(self.reader, name)
        answer: Any = call_plugin(what, read, split)
        if not isinstance(answer, Iterable):
            refuse_answer(what, read, kind_of(answer), wanted)
        for part in iterate_plugin(what, answer):
            if not isinstance(part, pa.RecordBatch) and not (self.tolerant and _are_refused(part)):
                refuse_answer(what, read, f"an iterator with {kind_of(part)}", wanted)
            if isinstance(part, pa.RecordBatch):
                yield fitted(in_declared_order(part, columns, reader), columns, reader, nested=self.nested)
            else:
                yield part


def _are_refused(part: object) -> bool:
    return isinstance(part, list | tuple) and all(isinstance(row, RefusedRow) for row in part)


@dataclass(frozen=True, slots=True)
class WriteStage:
    """Converts rows and writes them to Kafka, in the worker or as one of `writers` Spark partitions.

    With more than one writer, rows must not choose their own topic partition (`ColumnTypes.targeted`).
    `extra_records` is sent after the rows, if there are any rows, and only in the worker.
    """

    spec: WriteSpec
    source: StageSource
    types: ColumnTypes
    writers: int = 1
    extra_records: RecordsAlong | None = None

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a Spark partition."""
        yield from _reports(lambda context: self._write_partition(of_first_attempt(given, context), context))

    def write_runs(self, runs: Iterable[int]) -> Iterator[str]:
        """Process a partition of an RDD: read the runs with these numbers, and yield the texts of the report."""
        given = pa.RecordBatch.from_pydict({"id": pa.array(runs, pa.int64())})
        yield from _report_texts(lambda context: self._write_partition(iter([given]), context))

    def _write_partition(self, given: Iterator[pa.RecordBatch], context: TaskContext) -> Report:
        ownership = Ownership((context.partitionId() + self.spec.start) % self.writers, self.writers)
        errors = ErrorHandler(self.spec.pipeline.errors)
        with closing(self.spec.writer()) as writer:
            rows = self.source.batches(given, errors)
            return self.write(rows, writer, ownership, errors)

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        writer: RecordWriter,
        ownership: Ownership,
        errors: ErrorHandler,
        check: Callable[[], None] = lambda: None,
    ) -> Report:
        """Write all rows with `writer`, and return when the brokers have them.

        `check` may raise an error to stop the write.
        """
        return self.write_parts(((batch, self.types) for batch in batches), writer, ownership, errors, check)

    def write_parts(
        self,
        parts: Iterable[tuple[pa.RecordBatch, ColumnTypes]],
        writer: RecordWriter,
        ownership: Ownership,
        errors: ErrorHandler,
        check: Callable[[], None] = lambda: None,
    ) -> Report:
        """Write rows in the same way as `write`.

        Each part of the rows has types of its own, and one writer writes all parts. Two writers of one transaction
        would use the same sequence numbers, and brokers would take their batches for duplicates.
        """
        spec = self.spec
        counts = PartitionCounts(spec.partitions, writer.partitions, writer.grown_partitions)
        router = Router(counts, counts.beyond, ownership, run_bytes=spec.config.batch_size, start=spec.start)
        any_rows = False
        for batch, types in parts:
            check()
            for converted in convert(batch, types, spec.pipeline, errors):
                spec.topic_gate.admit({converted.topic})
                for routed in router.route(converted):
                    writer.write(routed.topic, routed.partition, routed.records)
                    any_rows = True
        if self.extra_records is not None and any_rows:
            self.extra_records.write(writer)
        return Report(writer.flush(), errors.tally, counts.requested_counts, errors.letters)


@dataclass(frozen=True, slots=True)
class RefusedStage:
    """Reads splits only to find items that are not rows, and reports these items.

    This stage is for batches whose rows go through Spark's optimizer, which accepts only rows.
    """

    pipeline: Pipeline
    rows: SplitRows

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a Spark partition."""

        def read(_: TaskContext) -> Report:
            errors = ErrorHandler(self.pipeline.errors)
            for _batch in self.rows.batches(given, errors):
                pass
            return Report(tally=errors.tally, letters=errors.letters)

        yield from _reports(read)


@dataclass(frozen=True, slots=True)
class ConvertStage:
    """Converts rows and determines their topic partitions and the partitions' writers, before a shuffle by `writer`."""

    spec: WriteSpec
    source: StageSource
    types: ColumnTypes
    writers: int

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a Spark partition."""
        errors = ErrorHandler(self.spec.pipeline.errors)
        try:
            context = task_context()
            with closing(self.spec.writer()) as metadata:
                counts = PartitionCounts(self.spec.partitions, metadata.partitions, metadata.grown_partitions)
                run_bytes = self.spec.config.batch_size
                router = Router(counts, counts.beyond, Ownership(), run_bytes=run_bytes, start=context.partitionId())
                for batch in self.source.batches(given, errors):
                    for converted in convert(batch, self.types, self.spec.pipeline, errors):
                        self.spec.topic_gate.admit({converted.topic})
                        yield from targeted_blocks(converted, router.targets(converted), self.writers)
        except FencepostError as error:
            yield _message(error)
        else:
            report = Report(tally=errors.tally, partitions=counts.requested_counts, letters=errors.letters)
            for piece in report.pieces():
                if piece != Report():
                    yield _message(piece)


@dataclass(frozen=True, slots=True)
class WriteTargeted:
    """Writes converted records, which a shuffle has moved to the writer of their topic partition."""

    spec: WriteSpec

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a Spark partition."""
        yield from _reports(lambda context: self._write(of_first_attempt(given, context)))

    def _write(self, given: Iterator[pa.RecordBatch]) -> Report:
        converting: list[Report] = []
        with closing(self.spec.writer()) as writer:
            for batch in given:
                messages = batch["message"].drop_null().to_pylist()
                converting += read_reports(messages)
                records = batch.filter(batch["message"].is_null()) if messages else batch
                for routed in targeted_records(records):
                    writer.write(routed.topic, routed.partition, routed.records)
            tally = Tally()
            for report in converting:
                tally = tally.plus(report.tally.counts, *report.tally.listed, causes=report.tally.causes)
            letters = tuple(letter for report in converting for letter in report.letters)
            return Report(writer.flush(), tally, agreed(report.partitions for report in converting), letters)


def _reports(write: Callable[[TaskContext], Report]) -> Iterator[pa.RecordBatch]:
    """Yield the texts of a report, each in a separate batch, because the total size of a batch's texts is limited."""
    for text in _report_texts(write):
        yield pa.RecordBatch.from_pydict({"report": pa.array([text], pa.string())})


def _report_texts(write: Callable[[TaskContext], Report]) -> list[str]:
    reports: Sequence[Report | FencepostError]
    try:
        reports = write(task_context()).pieces()
    except FencepostError as error:
        reports = [error]
    return [report_text(report) for report in reports]


def _message(content: Report | FencepostError) -> pa.RecordBatch:
    row = dict.fromkeys(TARGETED.names) | {"writer": 0, "message": report_text(content)}
    return pa.RecordBatch.from_pylist([row], schema=TARGETED)


def reader_schema(reader: ArrowReader) -> str:
    """The columns of a reader's rows.

    Raises the errors of `call_plugin`, and PluginError for a value that is not text.
    """
    name = type(reader).__name__
    schema: Any = call_plugin(f"The schema of {name}", getattr, reader, "schema")
    if not isinstance(schema, str):
        raise PluginError(f"The schema of {name} is {kind_of(schema)}: it must be a str, such as 'value STRING'")
    return schema


def reader_types(reader: ArrowReader) -> ColumnTypes:
    """The types of a reader's columns. Raises ConfigError or DataError for an invalid schema."""
    return column_types(parse_columns(reader_schema(reader)), where=f"the batch of {type(reader).__name__}")
