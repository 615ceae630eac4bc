"""The rows of a SourceBatch that pass its transforms, if refused rows may be skipped or retried.

A job that fails while it writes leaves records in the transaction, and it is unknown which of them are correct. So the
transformed rows are computed before the first of them is written, and Spark caches them for the writers. Only if that
fails, the input rows are numbered and cached, too. Then bisection transforms parts of them, until the refused rows are
known. If the driver can evaluate the transforms row by row, bisection ends at parts that the driver can hold.

Transforms that may make several rows of one row also get the numbers, so that converters can skip all rows with the
same number. Dead letters from executors contain only the number of the untransformed row: copies of the row in all of
its dead letters might take much more space than the batch.
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
"""The approximate number of bytes of rows that are brought to the driver at once, to find refused rows among them."""

_TOGETHER: Final = 50_000
"""The maximum number of rows that are brought to the driver at once."""

_SAMPLE: Final = 1_000
"""The number of rows whose size is measured to estimate the size of a row."""

_PARTITION_BITS: Final = 33
"""The row numbers of a partition start at the partition's index, shifted left by this number of bits."""

Running = Callable[[], AbstractContextManager[None]]
Keep = Callable[[DataFrame], DataFrame]
Origin = Callable[[int, int], str]
Transformed = tuple[DataFrame, ColumnTypes]


@contextmanager
def passing_rows(
    frame: DataFrame, pipeline: Pipeline, errors: ErrorHandler, running: Running, origin: Origin
) -> Iterator[Transformed | None]:
    """Yield the transformed rows of a batch, computed and cached until the context ends; None if no row passes.

    `origin` returns a sentence about a row's origin, given the DataFrame's partition and the row's number in it.
    Raises RecordRefusedError for a refused row unless that is tolerated. Raises other failures, including the errors of
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
    """Find the row that failed the job of a batch, if rows must not be skipped. Raises RecordRefusedError for that row.

    Returns if no row fails: the batch's own DataFrame may have failed, or may return other rows now.
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
    """Yield a function that caches a DataFrame's computed rows in Spark until the context ends."""
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return kept[-1]

    try:
        yield keep
    finally:
        for frame in kept:
            # A stopped session has no cache any more, and the error that stopped it must be reported.
            with suppress(Py4JError, *WITHOUT_JVM):
                frame.unpersist()


def _computed(transformed: Transformed, keep: Keep) -> Transformed:
    frame, types = transformed
    kept = keep(frame)
    kept.count()
    return kept, types


def _numbered(frame: DataFrame) -> DataFrame:
    """Return the rows with their numbers, in the column ROW."""
    return frame.withColumn(ROW, F.monotonically_increasing_id())


class _CachedRows:
    """The numbered rows of a batch, which Spark has cached, by their positions in the batch."""

    def __init__(self, source: DataFrame, numbers: _Numbers, running: Running) -> None:
        self._source, self._numbers, self._running = source, numbers, running
        # The rows that were read last, and the position of the first one.
        self._first, self._held = 0, pa.table({})

    def between(self, start: int, stop: int) -> DataFrame:
        """Return some of the rows, at least one."""
        return self._source.where(F.col(ROW).between(self._numbers.at(start), self._numbers.at(stop - 1)))

    def table(self, start: int, stop: int) -> pa.Table:
        """Return the contents of some rows, in their order.

        The handler requests the refused rows of a part one by one, and a job for each of these rows would take hours.
        So rows within the last part that was read are not read again.
        """
        if not self._first <= start <= stop <= self._first + self._held.num_rows:
            with self._running():
                # `collect` is not used, because Spark pickles its rows.
                rows = _nullable(self.between(start, stop).sort(ROW)).toArrow().combine_chunks()
            self._first, self._held = start, rows
        return self._held.slice(start - self._first, stop - start)

    def only(self, kept: np.ndarray) -> DataFrame:
        """Return the rows at these positions."""
        refused = np.setdiff1d(np.arange(self._numbers.count), kept)
        return _joined(self._source, [self._numbers.at(position) for position in refused.tolist()], "left_anti")


def _isolated(
    numbered: DataFrame, pipeline: Pipeline, errors: ErrorHandler, running: Running, keep: Keep, *, origin: Origin
) -> Transformed | None:
    with running():
        source = numbered if numbered.is_cached else keep(numbered)
        numbers = _Numbers.of(source)
        together = _together(source, numbers.count) if errors.tolerates else 0

    batch = _CachedRows(source, numbers, running)

    def transform(start: int, stop: int) -> Sorted[None] | None:
        part = batch.table(start, stop) if 1 < stop - start <= together else None
        with of_rows(), running():
            transformed, _ = transform_frame(batch.between(start, stop).drop(ROW), pipeline)
            check = None if part is None else RowCheck.of(transformed, source)
            if check is not None and part is not None and (refused := check.refused(part.to_batches()[0])):
                return Sorted(None, refused)
            transformed.write.format("noop").mode("overwrite").save()
        return None

    def contents(start: int, stop: int) -> Sequence[object]:
        return contents_of(batch.table(start, stop).drop_columns([ROW]))

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
    # The rows are cached before the transforms: otherwise Spark would evaluate filters of the transforms before the join,
    # and so for refused rows, too.
    left = source if kept is None else keep(batch.only(kept))
    with running():
        given = left if errors.tolerates and pipeline.may_multiply else left.drop(ROW)
        return _computed(transform_frame(given, pipeline), keep)


def _together(source: DataFrame, count: int) -> int:
    """The number of rows of a cached DataFrame that the driver may hold at once.

    The number depends on the rows' size in the cache, and on the size of the first rows.
    """
    sample = _nullable(source.limit(_SAMPLE)).toArrow()
    cached = source.select("*")._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()  # noqa: SLF001 - pyspark shows no plan
    size = max(1, cached // max(1, count), sample.nbytes // max(1, sample.num_rows))
    return int(min(_TOGETHER, max(_SAMPLE, _TOGETHER_BYTES // size)))


def _joined(source: DataFrame, numbers: Sequence[int], how: str) -> DataFrame:
    """Return the rows with, or without, the given numbers, in order.

    The join broadcasts the numbers, and moves no rows.
    """
    given = source.sparkSession.createDataFrame(pa.table({ROW: pa.array(numbers, pa.int64())}))
    return source.join(F.broadcast(given), ROW, how)


def _nullable(frame: DataFrame) -> DataFrame:
    """Return the rows with types in which all values may be null.

    Arrow refuses to convert a null struct with a required field, because the field's array contains a null there.
    """
    schema = frame.schema.toNullable()
    return frame.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in schema))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers that Spark gave to rows, by the rows' positions among all rows of all partitions."""

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
        """The number of the row at this position."""
        index = bisect_right(self.ends, position)
        first = self.ends[index - 1] if index else 0
        return (self.partitions[index] << _PARTITION_BITS) + position - first
