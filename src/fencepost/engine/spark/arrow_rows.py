"""Moves rows between Arrow and Spark's driver JVM without a Spark job.

The rows are passed in files that only this user can read. Through py4j, an answer above 8 KiB would wait 40 ms for a
delayed acknowledgement. The classes used here are internals of Spark. If one of them is not as expected, TypeError or
Py4JError is raised.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fencepost.api.required_fields import with_schema

_ONE_BATCH: Final = 2**31 - 1
_LENGTH_BYTES: Final = 4

TIME_ZONE: Final = "UTC"
"""The time zone label of Arrow columns. Spark's timestamps are microseconds since the epoch, whatever the label is."""


class _Jvm(NamedTuple):
    """Spark's encoder and decoder, its writer of length-prefixed items, and Java's streams."""

    read_file: Any
    to_frame: Any
    decode: Any
    encode: Any
    write_items: Any
    data_output: Any
    file_output: Any


@lru_cache(maxsize=1)
def _jvm(jvm: Any) -> _Jvm:
    """Look up Spark's internals. This asks the JVM once for each part of each name."""
    spark = jvm.org.apache.spark
    converters = getattr(getattr(spark.sql.execution.arrow, "ArrowConverters$"), "MODULE$")
    return _Jvm(
        spark.sql.api.python.PythonSQLUtils.readArrowStreamFromFile,
        spark.sql.api.python.PythonSQLUtils.toDataFrame,
        converters.fromBatchIterator,
        converters.toBatchWithSchemaIterator,
        spark.api.python.PythonRDD.writeIteratorToStream,
        jvm.java.io.DataOutputStream,
        jvm.java.io.FileOutputStream,
    )


def may_use_files(session: SparkSession) -> bool:
    """Return whether rows may be stored in a file for a short time. Returns False if Spark encrypts its files."""
    return not session.sparkContext._encryption_enabled  # noqa: SLF001 - pyspark's own question


def frame_from_arrow(session: SparkSession, batch: pa.RecordBatch, schema: StructType) -> DataFrame:
    """Return a DataFrame with the rows of a batch, as `createDataFrame` does.

    Columns that Spark can read are not cast (see `with_schema`).
    """
    expected = to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=True, timezone=TIME_ZONE)
    if batch.schema.types != expected.types or not may_use_files(session):
        return session.createDataFrame(pa.Table.from_batches([batch]), schema=schema)
    jvm = _jvm(session._jvm)  # noqa: SLF001 - rows are the JVM's
    java = jvm.to_frame(_stored(jvm, batch), schema.json(), session._jsparkSession)  # noqa: SLF001 - likewise
    return ClassicFrame(java, session)


def _stored(jvm: _Jvm, batch: pa.RecordBatch) -> Any:
    with tempfile.NamedTemporaryFile(prefix="fencepost-", suffix=".arrow") as file:
        with pa.ipc.new_stream(file, batch.schema) as stream:
            stream.write_batch(batch)
        file.flush()
        return jvm.read_file(file.name)


def rows_from_arrow(session: SparkSession, batch: pa.RecordBatch, schema: Any) -> Any:
    """Return a Scala iterator over Spark's rows. `schema` is Java's StructType for the columns of the batch.

    A row is valid until the next row is taken. The iterator holds memory until its last row is taken.
    """
    jvm = _jvm(session._jvm)  # noqa: SLF001 - rows are the JVM's
    return jvm.decode(_stored(jvm, batch), schema, TIME_ZONE, True, False, None)


def rows_to_arrow(session: SparkSession, rows: Any, schema: Any, arrow_schema: pa.Schema) -> pa.Table:
    """Return the rows of a Scala iterator. `schema` is Java's StructType for the rows.

    Raises Spark's error if the iterator fails to compute a row.
    """
    jvm = _jvm(session._jvm)  # noqa: SLF001 - rows are the JVM's
    batches = jvm.encode(rows, schema, _ONE_BATCH, _ONE_BATCH, TIME_ZONE, True, False)
    with tempfile.NamedTemporaryFile(prefix="fencepost-", suffix=".arrow") as file:
        output = jvm.data_output(jvm.file_output(file.name))
        try:
            jvm.write_items(batches, output)
        except Exception:
            with suppress(Py4JError):
                batches.close()
            raise
        finally:
            output.close()
        tables = []
        while length := file.read(_LENGTH_BYTES):
            tables.append(pa.ipc.open_stream(file.read(int.from_bytes(length, "big"))).read_all())
    if not tables:
        return arrow_schema.empty_table()
    # The types differ only in the names inside map types and in time zone labels.
    return with_schema(pa.concat_tables(tables), arrow_schema)


def collected(frame: DataFrame) -> pa.Table:
    """Run a Spark job, and return the rows of a DataFrame. Spark's own `toArrow` refuses some null structs.

    Raises Spark's error for a row that an expression refuses.
    """
    schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone=TIME_ZONE)
    batches = frame._collect_as_arrow(empty_list_if_zero_records=False)  # type: ignore[operator]  # noqa: SLF001 - `toArrow` casts
    # The types differ only in time zone labels.
    return with_schema(pa.Table.from_batches(batches), schema)
