"""Spark shows an error of format("fencepost") in a few lines, the last of which is the message."""

from __future__ import annotations

import traceback

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.spark.format.data_source import FencepostDataSource
from fencepost.spark.format.short_errors import with_short_errors

SCHEMA = StructType([StructField("value", StringType())])
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kafka.bootsrap.servers": "x"}, "did you mean bootstrap.servers?"),
        ({"value.converter": "JsnConverter"}, "There is no converter named 'JsnConverter'"),
        ({"kafka.request.timeout.ms": "300"}, "No Kafka broker answers at bootstrap.servers=127.0.0.1:1"),
    ],
)
def test_spark_is_given_no_inner_frames_and_no_causes(options: dict[str, str], told: str):
    with pytest.raises(FencepostError) as raised:
        FencepostDataSource(OPTIONS | options).writer(SCHEMA, overwrite=False)
    lines = "".join(traceback.format_exception(raised.value)).splitlines()
    assert told in lines[-1]
    # The stack has this function, and the method that Spark calls.
    assert len([line for line in lines if line.startswith("  File ")]) == 2


def test_an_error_that_is_not_ours_keeps_its_frames_and_causes():
    def fail() -> None:
        raise ZeroDivisionError from ConfigError("the cause")

    with pytest.raises(ZeroDivisionError) as raised:
        with_short_errors(fail)()
    assert isinstance(raised.value.__cause__, ConfigError)
    assert raised.traceback[-1].name == "fail"
