from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.rows.arrow_columns import spark_columns


@pytest.mark.parametrize(
    ("kind", "ddl"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(4), "binary"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.list_(pa.struct([("a", pa.int8())])), "array<struct<a:tinyint>>"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.null(), "string"),
    ],
)
def test_arrow_types_have_the_smallest_type_that_holds_all_values(kind: pa.DataType, ddl: str) -> None:
    assert spark_columns(pa.schema([("c", kind)]), "the file f")["c"].dataType.simpleString() == ddl


def test_columns_keep_whether_they_may_be_null() -> None:
    columns = spark_columns(pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.int32())]), "the file f")
    assert [field.nullable for field in columns] == [False, True]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("a", pa.int8()), ("", pa.int8())]), "The column number 2 of the file f has no name"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "The column a is twice in the file f"),
        (pa.schema([("a", pa.struct([("b", pa.decimal256(76, 2))]))]), r"The column a.b of the file f .*no form"),
    ],
)
def test_columns_without_a_form_are_named(schema: pa.Schema, said: str) -> None:
    with pytest.raises(DataError, match=said):
        spark_columns(schema, "the file f")
