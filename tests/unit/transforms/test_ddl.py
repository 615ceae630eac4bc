"""DDL that is parsed without Spark has the same meaning as in Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, LongType, StructType

from fencepost import ConfigError
from fencepost.api.ddl import parse_columns, parse_ddl
from fencepost.connectors.rows.record_mapping import RecordColumns


@pytest.mark.parametrize(
    "ddl",
    [
        "id BIGINT NOT NULL, name STRING COMMENT 'who it is'",
        "a: int, b: decimal(4, 2), c decimal(7), d dec, e numeric(3,1)",
        "struct<a:array<struct<b:map<string,double>>>,c:timestamp_ntz>",
        "`a b` tinyint, `c``d` smallint, e short, f byte, g long, h integer, i float, j real",
        "d DATE, t TIMESTAMP, u TIMESTAMP_LTZ, raw BINARY, ok BOOLEAN, v VARCHAR(5), w CHAR(3), n VOID",
        "s STRUCT<a: INT NOT NULL COMMENT 'x', b: STRUCT<>>",
        "array<string>",
        "bigint",
    ],
)
def test_the_same_type_is_read_as_spark_reads(spark: SparkSession, ddl: str) -> None:
    assert spark.version
    assert parse_ddl(ddl) == DataType.fromDDL(ddl)


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("id BIGIN", "expected a type such as.*at character 4"),
        ("id INT name STRING", "expected the end at character 8"),
        ("id INT,", "expected the name of a column at character 8"),
        ("a MAP<STRING>", "expected , at character 13"),
        ("a DECIMAL(x)", "expected a number at character 11"),
        ("a INT NOT", "expected NULL after NOT"),
        ("a ; INT", "a mark at character 2"),
        ("", "expected the name of a column at character 1"),
    ],
)
def test_invalid_ddl_is_an_error_that_shows_the_position(ddl: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_ddl(ddl)


def test_columns_are_distinguished_from_a_single_type() -> None:
    assert parse_columns("a BIGINT").fieldNames() == ["a"]
    assert parse_ddl("BIGINT") == LongType()
    with pytest.raises(ConfigError, match="is a type, not columns"):
        parse_columns("BIGINT")


def test_the_ddl_of_a_reader_is_read_back_as_its_columns() -> None:
    columns = parse_columns(
        "`a b` INT NOT NULL, s STRUCT<`x``y`: ARRAY<DECIMAL(4,2)>, m: MAP<STRING, DATE>>, t TIMESTAMP"
    )
    read_back = parse_columns(RecordColumns(keys=("t",)).ddl(columns))
    assert isinstance(read_back, StructType)
    assert read_back["value"].dataType == columns
    assert read_back["key"].dataType == columns["t"].dataType
