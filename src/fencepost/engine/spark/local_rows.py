"""Takes rows that Catalyst's optimizer has already computed from the JVM, without a Spark job.

A small Arrow table becomes a LocalRelation in Spark. If deterministic expressions select from it, the optimizer
computes the result as another LocalRelation (its rule ConvertToLocalRelation). So the planned query already has its
rows in the driver's JVM. `toArrow` would still run a job for them, which takes several times as long as all other work
on a small batch.

If Spark's internals are not as expected, `local_rows` returns None, and the caller runs the job.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.engine.spark.arrow_rows import TIME_ZONE, may_use_files, rows_to_arrow

_FOLDED: Final = "LocalTableScan"


def local_rows(frame: DataFrame) -> pa.Table | None:
    """Return the result of `frame.toArrow()`, or None if it needs a job or if Spark's internals are not as expected.

    Raises Spark's errors for the plan, and for a row that an expression refuses.
    """
    plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - pyspark shows no plan
    if plan.nodeName() != _FOLDED or not may_use_files(frame.sparkSession):
        return None
    schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone=TIME_ZONE)
    try:
        return rows_to_arrow(frame.sparkSession, plan.rows().iterator(), frame._jdf.schema(), schema)  # noqa: SLF001
    except Py4JJavaError:
        raise
    except (Py4JError, TypeError):
        return None
