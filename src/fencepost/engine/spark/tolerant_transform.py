"""The rows of a SourceBatch that pass its transforms, if refused rows may be skipped or retried.

A job that fails while it writes leaves records in the transaction, and it is unknown which of them are correct. So the
transformed rows are computed before the first of them is written, and cached by Spark for the writers. Only if that fails,
the batch's input rows are cached as well, numbered, and transformed by bisection until the refused rows are known. Where
the driver can evaluate the transforms row by row, bisection ends at parts that it can hold.

Transforms that may make several rows of one get the numbers, too, so that converters can skip all rows of one. The dead
letters of executors have the number alone: the rows themselves, copied to each of theirs, may be much more than the batch.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.conversion import ROW
from fencepost.engine.dead_letters import contents_of
from fencepost.engine.error_handler import ErrorHandler, Sorted, StageRows
from fencepost.engine.errors import (
    AllRowsRefusedError,
    BatchCancelledError,
    RetriableJobError,
    SparkDataError,
    SparkJobError,
    UnexplainedJobError,
)
from fencepost.engine.job_failure import WITHOUT_JVM
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.refused_records import Stage
from fencepost.engine.spark.jobs import of_rows
from fencepost.engine.spark.row_check import RowCheck
from fencepost.engine.spark.transform import transform_frame

_log: Final = logging.getLogger(__name__)

_TOGETHER_BYTES: Final = 16 * 1024 * 1024
"""About how many bytes of rows are brought to the driver to find the refused ones among them."""

_TOGETHER: Final = 50_000
"""The maximum number of these rows."""

_SAMPLE: Final = 1_000
"""The number of rows whose size is measured for that."""

_PARTITION_BITS: Final = 33
"""Spark numbers the rows of each partition from the partition's index, shifted by this many bits."""

Running = Callable[[], AbstractContextManager[None]]
Keep = Callable[[DataFrame], DataFrame]
Origin = Callable[[int, int], str]
Transformed = tuple[DataFrame, ColumnTypes]


@contextmanager
def passing_rows(
    frame: DataFrame, pipeline: Pipeline, errors: ErrorHandler, running: Running, origin: Origin
) -> Iterator[Transformed | None]:
    """Yield the transformed rows of a batch, computed and cached until the context ends; None if none passes.

    `origin` returns a sentence on where a row is from, by the partition of the DataFrame and its number there.
    Raises RecordRefusedError for a refused row unless that is tolerated, and other failures, including the errors of
    the batch's own DataFrame, as `running` converts them.
    """
    multiplies = errors.tolerates and pipeline.may_multiply
    with kept_frames() as keep:
        with running():
            numbered = _numbered(frame)
            if multiplies and errors.needs_inputs:
                keep(numbered)
        try:
            with running():
                given = numbered if multiplies else frame
                passing: Transformed | None = _computed(transform_frame(given, pipeline), keep)
        except (AllRowsRefusedError, SparkDataError, RetriableJobError, UnexplainedJobError):
            passing = _isolated(numbered, pipeline, errors, running, keep, origin=origin)
        yield passing
        if numbers := errors.missing_inputs:
            with running():
                found = _nullable(_joined(numbered, sorted(numbers), "left_semi")).toArrow()
            rows = contents_of(found.drop_columns([ROW]))
            errors.complete(dict(zip(found[ROW].to_pylist(), rows, strict=True)))


def refuse_row(frame: DataFrame, pipeline: Pipeline, errors: ErrorHandler, running: Running, origin: Origin) -> None:
    """Find the row that failed the job of a batch, which may not be skipped. Raises RecordRefusedError for it.

    Returns if there is none: the batch's own DataFrame may fail, or other rows be there now.
    """
    try:
        with kept_frames() as keep:
            with running():
                numbered = _numbered(frame)
            _isolated(numbered, pipeline, errors, running, keep, origin=origin)
    except BatchCancelledError:
        raise
    except (AllRowsRefusedError, SparkDataError, SparkJobError, RetriableJobError):
        _log.debug("The row that failed a batch of %s was not found", pipeline.given, exc_info=True)


@contextmanager
def kept_frames() -> Iterator[Keep]:
    """Yield a function that caches the computed rows of a DataFrame in Spark until the context ends."""
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return kept[-1]

    try:
        yield keep
    finally:
        for frame in kept:
            # A stopped session keeps nothing, and the error that stopped it must be reported.
            with suppress(Py4JError, *WITHOUT_JVM):
                frame.unpersist()


def _computed(transformed: Transformed, keep: Keep) -> Transformed:
    frame, types = transformed
    kept = keep(frame)
    kept.count()
    return kept, types


def _numbered(frame: DataFrame) -> DataFrame:
    """Return the rows with the column ROW."""
    return frame.withColumn(ROW, F.monotonically_increasing_id())


def _isolated(
    numbered: DataFrame, pipeline: Pipeline, errors: ErrorHandler, running: Running, keep: Keep, *, origin: Origin
) -> Transformed | None:
    with running():
        source = numbered if numbered.is_cached else keep(numbered)
        numbers = _Numbers.of(source)
        together = _together(source, numbers.count) if errors.tolerates else 0

    def rows_between(start: int, stop: int) -> DataFrame:
        return source.where(F.col(ROW).between(numbers.at(start), numbers.at(stop - 1)))

    first, held = 0, pa.table({})

    def table_of(start: int, stop: int) -> pa.Table:
        # The refused rows of a part are asked for one by one once it was tried: a job for each would take hours.
        nonlocal first, held
        if not first <= start <= stop <= first + held.num_rows:
            with running():
                # Not `collect`: Spark pickles its rows.
                first, held = start, _nullable(rows_between(start, stop).sort(ROW)).toArrow().combine_chunks()
        return held.slice(start - first, stop - start)

    def transform(start: int, stop: int) -> Sorted[None] | None:
        part = table_of(start, stop) if 1 < stop - start <= together else None
        with of_rows(), running():
            transformed, _ = transform_frame(rows_between(start, stop).drop(ROW), pipeline)
            check = None if part is None else RowCheck.of(transformed, source)
            if check is not None and part is not None and (refused := check.refused(part.to_batches()[0])):
                return Sorted(None, refused)
            transformed.write.format("noop").mode("overwrite").save()
        return None

    def contents(start: int, stop: int) -> Sequence[object]:
        return contents_of(table_of(start, stop).drop_columns([ROW]))

    topic = pipeline.default_topic
    rows = StageRows(
        Stage.TRANSFORMATION,
        pipeline.transform_names,
        topic,
        numbers.count,
        contents=contents,
        place=pipeline.place_of,
        origin=lambda position: origin(*divmod(numbers.at(position), 1 << _PARTITION_BITS)),
    )
    passed, kept = errors.apply(rows, transform)
    if not passed:
        return None
    left = source
    if kept is not None:
        refused = np.setdiff1d(np.arange(numbers.count), kept)
        # Spark would evaluate filters of the transforms before the join, for refused rows as well, but not before a cache.
        left = keep(_joined(source, [numbers.at(position) for position in refused.tolist()], "left_anti"))
    with running():
        given = left if errors.tolerates and pipeline.may_multiply else left.drop(ROW)
        return _computed(transform_frame(given, pipeline), keep)


def _together(source: DataFrame, count: int) -> int:
    """The number of rows of a cached DataFrame that the driver may hold at once, by their size in the cache and its first rows' size."""
    sample = _nullable(source.limit(_SAMPLE)).toArrow()
    cached = source.select("*")._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()  # noqa: SLF001 - pyspark shows no plan
    size = max(1, cached // max(1, count), sample.nbytes // max(1, sample.num_rows))
    return int(min(_TOGETHER, max(_SAMPLE, _TOGETHER_BYTES // size)))


def _joined(source: DataFrame, numbers: Sequence[int], how: str) -> DataFrame:
    """Return the rows with some numbers, or without, in their order: the numbers are sent to the rows, not the other way."""
    given = source.sparkSession.createDataFrame(pa.table({ROW: pa.array(numbers, pa.int64())}))
    return source.join(F.broadcast(given), ROW, how)


def _nullable(frame: DataFrame) -> DataFrame:
    """Return the rows with types in which everything may be null.

    Arrow refuses to convert a null struct with a required field, because that field's array has a null, too.
    """
    schema = frame.schema.toNullable()
    return frame.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in schema))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers that Spark gave to rows, by their position among all rows of all partitions."""

    partitions: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, source: DataFrame) -> _Numbers:
        partition = F.shiftright(ROW, _PARTITION_BITS).cast("INT").alias("partition")
        rows = source.groupBy(partition).count().toArrow().to_pylist()
        counted = sorted((row["partition"], row["count"]) for row in rows)
        return cls([index for index, _ in counted], list(accumulate(count for _, count in counted)))

    @property
    def count(self) -> int:
        return self.ends[-1] if self.ends else 0

    def at(self, position: int) -> int:
        """The number of the row at a position."""
        index = bisect_right(self.ends, position)
        first = self.ends[index - 1] if index else 0
        return (self.partitions[index] << _PARTITION_BITS) + position - first
