"""Fetches the rows of a small batch to the driver, but never more than some megabytes of rows.

Spark's limit merges the rows of all partitions in a shuffle. That needs two jobs, which take longer than everything
else in a small batch. A limit for each partition needs only one job, without a shuffle. But if the batch is not small,
it fetches more rows, so it is used only for few partitions.

Spark cannot limit the number of bytes. So executors add up the sizes of the rows, and replace rows beyond the limit by
null:

    rows -> a limit for each partition -> running total of sizes -> null if the total is too large -> driver
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.spark_names import backticked
from fencepost.spark.frame.row_size import row_size

_FEW_PARTITIONS: Final = 8
_POSITION: Final = "__fencepost_position"
_IN_PARTITION: Final = "__fencepost_bytes_in_partition"
_IN_ALL: Final = "__fencepost_bytes"


def few_rows(frame: DataFrame, most: int, most_bytes: int) -> pa.Table | None:
    """Return all rows in their order; None if there are more than `most`, or if they may take more than `most_bytes`.

    If there are few partitions, each one gets an equal share of the bytes. Also returns None if Spark cannot compute a
    column's size, and if Spark's internals are not as expected. Raises Spark's errors.
    """
    try:
        return _few_rows(frame, most, most_bytes)
    except Py4JJavaError:
        raise
    except (Py4JError, TypeError, pa.ArrowInvalid):
        # ArrowInvalid: a row was beyond the limit, and Arrow refuses its null for a struct with a field that is not
        # nullable. The other errors show that Spark's internals are not as expected.
        return None


def _few_rows(frame: DataFrame, most: int, most_bytes: int) -> pa.Table | None:
    size = row_size(frame.schema)
    if size is None:
        return None
    columns = frame.columns
    partitions = _partitions(_each_partition_limited(frame, most + 1))
    if partitions is not None and partitions <= _FEW_PARTITIONS:
        share = most_bytes // max(1, partitions)
        limited = _within(_each_partition_limited(frame, most + 1), columns, size, share, _IN_PARTITION)
        # Spark returns the rows in the order of the partitions.
        rows = None if limited is None else limited.toArrow()
        return None if rows is None else _all_of(rows, most, {_IN_PARTITION: share})
    # Tasks end in any order, and the limit merges their rows, so each row gets its position.
    numbered = frame.withColumn(_POSITION, F.monotonically_increasing_id())
    few = _within(_each_partition_limited(numbered, most + 1), columns, size, most_bytes, _IN_PARTITION)
    # A limit merges the partitions, but Spark removes a limit that can have no effect. In that case, `coalesce` merges
    # them.
    joined = None if few is None else _within(few.limit(most + 1).coalesce(1), columns, size, most_bytes, _IN_ALL)
    if joined is None:
        return None
    rows = _all_of(joined.toArrow(), most, {_IN_PARTITION: most_bytes, _IN_ALL: most_bytes})
    return None if rows is None else rows.sort_by(_POSITION).drop_columns([_POSITION])


def _all_of(rows: pa.Table, most: int, limits: dict[str, int]) -> pa.Table | None:
    """Return the rows without the sums of their bytes; None if there are too many rows, or a sum exceeds its limit."""
    if rows.num_rows > most or any((pc.max(rows[name]).as_py() or 0) > limit for name, limit in limits.items()):
        return None
    return rows.drop_columns([*limits])


def _each_partition_limited(frame: DataFrame, count: int) -> DataFrame:
    """Return the first `count` rows of each partition."""
    session = frame.sparkSession
    spark = _internals(session._jvm)  # noqa: SLF001 - pyspark has no such limit
    plan = spark.limit(spark.literal(count, spark.integer), frame._jdf.logicalPlan())  # noqa: SLF001 - see above
    return DataFrame(spark.of_rows(session._jsparkSession, plan), session)  # noqa: SLF001 - see above


def _partitions(frame: DataFrame) -> int | None:
    """Return the number of partitions; None for an adaptive plan, whose number is known only after it was run."""
    execution = frame._jdf.queryExecution()  # noqa: SLF001 - pyspark shows no plan
    if execution.executedPlan().nodeName() == "AdaptiveSparkPlan":
        return None
    return int(execution.toRdd().getNumPartitions())


def _within(frame: DataFrame, columns: Sequence[str], size: str, most_bytes: int, name: str) -> DataFrame | None:
    """Return the frame with a column `name`: the running total of the row sizes in the partition.

    If the total exceeds `most_bytes`, the row's `columns` are null.

    Return None if Spark cannot name a column in an expression, for example because the names of two fields of a struct
    differ only in case.
    """
    session = frame.sparkSession
    spark = _internals(session._jvm)  # noqa: SLF001 - pyspark has no sum so far without a shuffle
    try:
        # Each task gets its own copy of the array, in which it adds up the sizes.
        arguments = spark.nil.prepended(spark.expression(F.expr(size)._jc)).prepended(spark.literal(0, spark.integer))  # noqa: SLF001
        kinds = spark.nil.prepended(spark.long).prepended(spark.integer)
        sums = spark.sums(1)
        target = spark.literal(sums, spark.object_type(sums.getClass()))
        added = spark.invoke(target, "addAndGet", spark.long, arguments, kinds, True, False, False)
        summed = DataFrame(frame._jdf.withColumn(name, spark.column(added)), session)  # noqa: SLF001
    except AnalysisException:
        return None
    fits = F.col(name) <= most_bytes
    quoted = {column: F.col(backticked(column)) for column in columns}
    kept = [F.when(fits, quoted[column]).alias(column) for column in columns]
    return summed.select(*kept, *(column for column in summed.columns if column not in quoted))


class _Internals(NamedTuple):
    """Spark's classes for a limit for each partition, and for a call of a Java method for each row."""

    limit: Any
    literal: Any
    integer: Any
    long: Any
    object_type: Any
    of_rows: Any
    invoke: Any
    expression: Any
    column: Any
    nil: Any
    sums: Any


@lru_cache(maxsize=1)
def _internals(jvm: Any) -> _Internals:
    """Find the internals. They are cached, because py4j asks the JVM for each part of each name."""
    sql = jvm.org.apache.spark.sql
    catalyst, types = sql.catalyst, sql.types
    return _Internals(
        limit=catalyst.plans.logical.LocalLimit,
        literal=catalyst.expressions.Literal,
        integer=types.DataTypes.IntegerType,
        long=types.DataTypes.LongType,
        object_type=types.ObjectType,
        of_rows=sql.classic.Dataset.ofRows,
        invoke=catalyst.expressions.objects.Invoke,
        expression=sql.classic.ExpressionUtils.expression,
        column=sql.classic.ExpressionUtils.column,
        nil=getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$"),
        # An AtomicLong is not used, because py4j would convert it to a number.
        sums=jvm.java.util.concurrent.atomic.AtomicLongArray,
    )
