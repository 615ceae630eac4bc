"""The functions that Spark runs over a batch: convert and write, or only convert before a shuffle.

They are picklable callables for `DataFrame.mapInArrow`. The worker calls the same ones for batches that it writes itself.
A writer returns its Report, in a row or more, or a FencepostError, which thus reaches the worker as it was raised.
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
"""The result of a writer: rows with the texts of the pieces of its Report, or of a FencepostError."""

TARGETED_SCHEMA: Final = "writer INT, topic STRING, records BINARY, message STRING"
"""The rows of the shuffle: blocks of converted records of one topic for one writer (see `targeted_blocks`), or a message.

A message is the text of the Report of a converting partition, or of the FencepostError that ended it.
"""

_TOLERANT: Final = "read_tolerant"


class StageSource(Protocol):
    """The origin of a stage's rows: batches from Spark, or splits that it reads itself."""

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Yield the rows from the batches that Spark passes to this task; `errors` gets items that are not rows."""


@dataclass(frozen=True, slots=True)
class GivenRows:
    """The rows of a DataFrame."""

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Yield Spark's batches; rows that transforms made of one row are in one batch."""
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
    """Splits that are read where they are processed, in `runs` parts of neighbours.

    A `tolerant` reader continues after items that are not rows. `topic` is for rows that name none. Without `nested`, nulls
    within structs are not refused here, where that refuses the rows beside them, too.

    Spark passes the numbers of the runs to read, in a column `id`. The number of a task is not enough: if Spark joins
    partitions, one task reads several.
    """

    reader: ArrowReader
    splits: Sequence[Any]
    runs: int = 1
    tolerant: bool = False
    topic: str | None = None
    nested: bool = True

    @classmethod
    def of(cls, reader: ArrowReader, splits: Sequence[Any], pipeline: Pipeline) -> SplitRows:
        """Return the splits of a batch, in one run; they are read as the pipeline's `errors.*` say."""
        tolerant = pipeline.errors.tolerance is Tolerance.ALL and hasattr(reader, _TOLERANT)
        return cls(reader, splits, tolerant=tolerant, topic=pipeline.default_topic)

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Read the runs with the numbers from Spark. Raises DataError for errors of the reader, with their location.

        Any other error would reach the worker only as Spark's text.
        """
        try:
            yield from self.read([run for batch in given for run in batch["id"].to_pylist()], errors)
        except FencepostError:
            raise
        except Exception as error:
            raise DataError(f"read() of {type(self.reader).__name__} failed: {describe_error(error)}") from error

    def read(self, runs: Sequence[int], errors: ErrorHandler, *, ahead: bool = True) -> Iterator[pa.RecordBatch]:
        """Read some of the runs, by default ahead of their consumption. `errors` gets items that are not rows."""
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
    """Convert rows and write them to Kafka, in the worker or as one of `writers` Spark partitions.

    With more than one writer, rows must not choose their own topic partition (`ColumnTypes.targeted`). `along` is sent
    after the rows, if there are any, in the worker only.
    """

    spec: WriteSpec
    source: StageSource
    types: ColumnTypes
    writers: int = 1
    along: RecordsAlong | None = None

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as a Spark partition."""
        yield from _reports(lambda context: self._write_partition(of_first_attempt(given, context), context))

    def write_runs(self, runs: Iterable[int]) -> Iterator[str]:
        """Run as a partition of an RDD of the runs of splits to read; yield the texts of its report."""
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
        """Write all rows with `writer`, and return when the brokers have them. `check` may raise to stop it."""
        return self.write_parts(((batch, self.types) for batch in batches), writer, ownership, errors, check)

    def write_parts(
        self,
        parts: Iterable[tuple[pa.RecordBatch, ColumnTypes]],
        writer: RecordWriter,
        ownership: Ownership,
        errors: ErrorHandler,
        check: Callable[[], None] = lambda: None,
    ) -> Report:
        """Write rows as `write`, of which each part has types of its own.

        A transaction has one writer at a time: a second one would give its batches the numbers of the first one's, and
        brokers would take them for the same.
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
        if self.along is not None and any_rows:
            self.along.write(writer)
        return Report(writer.flush(), errors.tally, counts.asked, errors.letters)


@dataclass(frozen=True, slots=True)
class RefusedStage:
    """Read splits only for items that are not rows, and report them.

    For a batch whose rows go through Spark's optimizer, which accepts only rows.
    """

    pipeline: Pipeline
    rows: SplitRows

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as a Spark partition."""

        def read(_: TaskContext) -> Report:
            errors = ErrorHandler(self.pipeline.errors)
            for _batch in self.rows.batches(given, errors):
                pass
            return Report(tally=errors.tally, letters=errors.letters)

        yield from _reports(read)


@dataclass(frozen=True, slots=True)
class ConvertStage:
    """Convert rows and determine their topic partition and its writer, before a shuffle by `writer`."""

    spec: WriteSpec
    source: StageSource
    types: ColumnTypes
    writers: int

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as a Spark partition."""
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
            report = Report(tally=errors.tally, partitions=counts.asked, letters=errors.letters)
            for piece in report.pieces():
                if piece != Report():
                    yield _message(piece)


@dataclass(frozen=True, slots=True)
class WriteTargeted:
    """Write converted records, which a shuffle brought to the writer of their topic partition."""

    spec: WriteSpec

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as a Spark partition."""
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
                tally = tally.plus(report.tally.counts, *report.tally.listed)
            letters = tuple(letter for report in converting for letter in report.letters)
            return Report(writer.flush(), tally, agreed(report.partitions for report in converting), letters)


def _reports(write: Callable[[TaskContext], Report]) -> Iterator[pa.RecordBatch]:
    """Yield the texts of a report, each in a batch of its own: the texts of a batch have a limit together."""
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
    """The columns of a reader's rows. Raises as `call_plugin`, and PluginError for a value that is not text."""
    name = type(reader).__name__
    schema: Any = call_plugin(f"The schema of {name}", getattr, reader, "schema")
    if not isinstance(schema, str):
        raise PluginError(f"The schema of {name} is {kind_of(schema)}: it must be a str, such as 'value STRING'")
    return schema


def reader_types(reader: ArrowReader) -> ColumnTypes:
    """The types of a reader's columns. Raises ConfigError or DataError for an invalid schema."""
    return column_types(parse_columns(reader_schema(reader)), where=f"the batch of {type(reader).__name__}")
