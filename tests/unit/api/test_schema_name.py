from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fencepost.api.schema_name import SCHEMA_METADATA, NamedStruct, field_identity, named, named_field
from fencepost.api.spark_names import backticked

ROW = StructType([StructField("n", LongType())])


def test_the_name_of_a_struct_is_in_its_columns_metadata() -> None:
    found = named(StructField("value", ROW, metadata={SCHEMA_METADATA: {"version": 2, "name": "a.B"}}))
    assert isinstance(found, NamedStruct)
    assert found.identity == {"name": "a.B", "version": 2}
    assert found.fields == ROW.fields


@pytest.mark.parametrize(
    "field", [StructField("value", ROW), StructField("value", StringType(), metadata={SCHEMA_METADATA: {"name": "a"}})]
)
def test_other_columns_keep_their_type(field: StructField) -> None:
    assert named(field) is field.dataType


def test_the_name_of_a_field_is_in_its_comment() -> None:
    comment = named_field("io.debezium.time.Timestamp").removeprefix("COMMENT '").removesuffix("'")
    field = StructField("ts", LongType(), metadata={"comment": comment})
    assert field_identity(field) == {"name": "io.debezium.time.Timestamp", "version": 1}


@pytest.mark.parametrize("metadata", [None, {}, {"comment": "when it was sold"}, {"comment": "connect.name=a"}])
def test_other_comments_name_no_schema(metadata: dict[str, str] | None) -> None:
    assert field_identity(StructField("ts", LongType(), metadata=metadata)) == {}


@pytest.mark.parametrize(("name", "quoted"), [("a b", "`a b`"), ("a`b", "`a``b`"), ("a.b", "`a.b`")])
def test_a_name_in_backticks_is_one_name_of_spark(name: str, quoted: str) -> None:
    assert backticked(name) == quoted
