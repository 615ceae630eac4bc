"""Takes the rows of a small batch to the driver.

A limit of Spark's joins the rows of all partitions, by a shuffle: two jobs, which take longer than all else of a small
batch. A limit of each partition needs one job without one. It takes more rows of a batch that is not small, so it is
used for few partitions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

_FEW_PARTITIONS: Final = 8
_POSITION: Final = "__fencepost_position"


def few_rows(frame: DataFrame, most: int) -> pa.Table | None:
    """Return all rows in their order, None if there are more than `most`. Raises what Spark raises."""
    limited = _each_partition_limited(frame, most + 1)
    if limited is not None:
        # Spark brings them in the order of the partitions.
        rows = limited.toArrow()
        return None if rows.num_rows > most else rows
    # Tasks end in any order, and the limit joins their rows.
    numbered = frame.withColumn(_POSITION, F.monotonically_increasing_id())
    rows = numbered.limit(most + 1).toArrow()
    return None if rows.num_rows > most else rows.sort_by(_POSITION).drop_columns([_POSITION])


def _each_partition_limited(frame: DataFrame, count: int) -> DataFrame | None:
    """The first rows of each partition; None for many partitions, or if Spark's internals are not as expected.

    The partitions of an adaptive plan are known once it has run.
    """
    session = frame.sparkSession
    try:
        limit, literal, integer, of_rows = _internals(session._jvm)  # noqa: SLF001 - pyspark has no such limit
        plan = limit(literal(count, integer), frame._jdf.logicalPlan())  # noqa: SLF001 - see above
        limited = of_rows(session._jsparkSession, plan)  # noqa: SLF001 - see above
        execution = limited.queryExecution()
        if execution.executedPlan().nodeName() == "AdaptiveSparkPlan":
            return None
        return DataFrame(limited, session) if execution.toRdd().getNumPartitions() <= _FEW_PARTITIONS else None
    except Py4JJavaError:
        raise
    except (Py4JError, TypeError):
        return None


@lru_cache(maxsize=1)
def _internals(jvm: Any) -> tuple[Any, Any, Any, Any]:
    """Spark's limit of each partition, its literals and their type, and what makes a DataFrame of a plan.

    The JVM is asked for each part of each name.
    """
    sql = jvm.org.apache.spark.sql
    catalyst, types = sql.catalyst, sql.types.DataTypes
    return (
        catalyst.plans.logical.LocalLimit,
        catalyst.expressions.Literal,
        types.IntegerType,
        sql.classic.Dataset.ofRows,
    )
