"""The columns of records in Arrow batches of a DataFrame's rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType

from fencepost.engine.conversion import column_types, convert
from fencepost.engine.error_handler import ErrorHandler
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.frame.record_columns import SinkColumns
from fencepost.spark.frame.rows import pipeline_for


def test_each_row_without_columns_is_a_record():
    options = {"topic": "t", "value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
    config = SinkConfig.from_options({"bootstrap.servers": "127.0.0.1:1", **options})
    columns = SinkColumns.of([], config)
    schema = columns.schema(StructType([]))
    pipeline = pipeline_for(schema, config)
    given = pa.RecordBatch.from_struct_array(pa.array([{}, {}, {}], pa.struct([])))

    types = column_types(schema, where="the DataFrame")
    (found,) = convert(columns.batch(given), types, pipeline, ErrorHandler(pipeline.errors))

    assert found.records.value.to_pylist() == [b"{}"] * 3
