"""Rows that Catalyst's optimizer has computed already, taken from the JVM without a Spark job.

A small Arrow table becomes a LocalRelation in Spark, and the optimizer folds a select of deterministic expressions over
it into another one (its rule ConvertToLocalRelation). Its rows are in the driver's JVM when the plan is made. `toArrow`
runs a job for them all the same, which takes several times as long as everything else that a small batch needs.

The classes used here are internals of Spark. Where one of them is not as expected, `local_rows` returns None, and the
caller runs the job.
"""

from __future__ import annotations

import io
import tempfile
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

_FOLDED: Final = "LocalTableScan"
_ONE_BATCH: Final = 2**31 - 1
_LENGTH_BYTES: Final = 4
_TIME_ZONE: Final = "UTC"
"""A label of the Arrow columns: Spark's timestamps are microseconds since the epoch, whatever it says."""


def local_rows(frame: DataFrame) -> pa.Table | None:
    """Return what `frame.toArrow()` would, or None if that needs a job or Spark's internals are not as expected.

    Raises what Spark raises for the plan, and for a row that an expression refuses.
    """
    plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - pyspark shows no plan
    if plan.nodeName() != _FOLDED:
        return None
    schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone=_TIME_ZONE)
    try:
        stream = _arrow_stream(frame, plan)
    except Py4JJavaError:
        raise
    except (Py4JError, TypeError):
        return None
    if not stream:
        return schema.empty_table()
    return pa.ipc.open_stream(stream).read_all().cast(schema)


def _arrow_stream(frame: DataFrame, plan: Any) -> bytes:
    """The rows as an Arrow stream; nothing if there are no rows.

    They travel in a file of this user's own: an answer of py4j above 8 KiB waits 40 ms for a delayed acknowledgement.
    """
    to_stream, write, data_output, file_output = _spark_internals(frame.sparkSession._jvm)  # noqa: SLF001
    schema = frame._jdf.schema()  # noqa: SLF001
    stream = to_stream(plan.rows().iterator(), schema, _ONE_BATCH, _ONE_BATCH, _TIME_ZONE, True, False)
    with tempfile.NamedTemporaryFile(prefix="fencepost-", suffix=".arrow") as file:
        output = data_output(file_output(file.name))
        try:
            write(stream, output)
        finally:
            output.close()
        return _only_item(file)


@lru_cache(maxsize=1)
def _spark_internals(jvm: Any) -> tuple[Any, Any, Any, Any]:
    """Spark's encoder, its writer of length-prefixed items, and Java's streams; each look-up asks the JVM.

    Raises TypeError or Py4JError if one of Spark's does not exist.
    """
    spark = jvm.org.apache.spark
    converters = getattr(getattr(spark.sql.execution.arrow, "ArrowConverters$"), "MODULE$")
    return (
        converters.toBatchWithSchemaIterator,
        spark.api.python.PythonRDD.writeIteratorToStream,
        jvm.java.io.DataOutputStream,
        jvm.java.io.FileOutputStream,
    )


def _only_item(file: io.BufferedIOBase | Any) -> bytes:
    length = file.read(_LENGTH_BYTES)
    return bytes(file.read(int.from_bytes(length, "big")))
