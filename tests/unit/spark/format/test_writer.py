"""Writes that format("fencepost") refuses before it asks a broker."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from fencepost.api.errors import ConfigError
from fencepost.spark.format.writer import begin_write


def test_a_dataframe_without_columns_is_refused_as_no_task_gets_its_rows():
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "value.converter": "JsonConverter"}
    with pytest.raises(ConfigError, match=r"has no columns, .*: give it a column, or use write_kafka"):
        begin_write(options, StructType([]), overwrite=False)
