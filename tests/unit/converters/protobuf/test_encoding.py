"""Protobuf's bytes, compared with google.protobuf's record by record."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from fencepost import DataError
from fencepost.api.ddl import parse_columns
from fencepost.converters.json_schema import connect_schema
from fencepost.converters.protobuf.converter import ProtobufConverter, message_indexes
from fencepost.converters.protobuf.parser import parsed_file
from fencepost.converters.protobuf.plan import plan
from fencepost.converters.protobuf.schema import ProtobufOptions, ProtoFile, proto_file, schema_text
from tests.support.protobuf_messages import expected, message_class
from tests.unit.converters.generated import SCALARS, values

pytestmark = pytest.mark.unit

PREFIX = b"\0\0\0\1\2\0"
PLAIN = ProtobufOptions()
OPTIONS = [
    PLAIN,
    ProtobufOptions(optional=True),
    ProtobufOptions(wrappers=True),
    ProtobufOptions(optional=True, wrappers=True),
]
INTS = [0, 1, -1, 127, 128, 2**14 - 1, 2**14, 2**31 - 1, -(2**31), None]


def written(file: ProtoFile, array: pa.Array, other: ProtoFile | None = None) -> list[bytes | None]:
    """The encoded rows, each without the schema id prefix."""
    steps, _ = plan(file, other or file, strict=True)
    rows = ProtobufConverter().encode(steps, PREFIX, array).to_pylist()
    assert all(row is None or row.startswith(PREFIX) for row in rows)
    return [None if row is None else row.removeprefix(PREFIX) for row in rows]


def check(kind: spark.DataType, rows: list[Any], options: ProtobufOptions = PLAIN) -> None:
    file = proto_file(connect_schema(kind, optional=False), options)
    made = message_class(file)
    wanted = [None if row is None else expected(made, file, kind, row) for row in rows]
    array = pa.array(rows, to_arrow_type(kind, timezone="UTC"))
    assert written(file, array) == wanted
    if len(rows) > 1:
        assert written(file, array.slice(1)) == wanted[1:]
    # The schema in the form in which a registry returns it.
    assert written(file, array, parsed_file(schema_text(file))) == wanted


def struct_of(kind: spark.DataType, *, nullable: bool = True) -> spark.StructType:
    return spark.StructType([spark.StructField("f", kind, nullable), spark.StructField("g", kind)])


SINGLE: list[tuple[spark.DataType, list[Any]]] = [
    (spark.ByteType(), [0, 1, -128, 127, None]),
    (spark.ShortType(), [0, -32768, 32767]),
    (spark.IntegerType(), INTS),
    (spark.LongType(), [*INTS, 2**35, 2**56, 2**62, 2**63 - 1, -(2**63)]),
    (spark.FloatType(), [0.0, -0.0, 1.5, float("inf"), None]),
    (spark.DoubleType(), [0.0, -0.0, 0.1, -1e300, float("inf"), None]),
    (spark.BooleanType(), [True, False, None]),
    (spark.StringType(), ["", "a", "ä" * 40, "x" * 16, "y" * 17, None, "z" * 70_000]),
    (spark.BinaryType(), [b"", b"\0\1", None, b"x" * 300]),
    (spark.DateType(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31), None]),
    (spark.TimeType(), [dt.time(0), dt.time(23, 59, 59, 999_000), dt.time(1, 0, 0, 1_500), None]),
    (
        spark.TimestampType(),
        [
            dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC),
            dt.datetime(2026, 11, 24, 12, 30, 0, 123_456, dt.UTC), None,
        ],
    ),
    (spark.DecimalType(20, 2), [Decimal(n).scaleb(-2) for n in (0, 127, 128, -128, -129, 65536, 10**18, -(10**19))]),
    (spark.DecimalType(9, 0), [Decimal(0), Decimal(9), Decimal(10), Decimal(-100), Decimal(999_999_999), None]),
    (spark.DecimalType(38, 10), [Decimal(f"-{'9' * 28}.{'9' * 10}"), Decimal("1e-10"), Decimal(2**63).scaleb(-10), None]),
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("kind", "rows"), SINGLE, ids=lambda part: part.simpleString() if isinstance(part, spark.DataType) else ""
)
def test_fields_are_written_as_google_writes_them(kind: spark.DataType, rows: list[Any], options: ProtobufOptions):
    whole = [{"f": row, "g": other} for row, other in zip(rows, reversed(rows), strict=True)]
    check(struct_of(kind), [*whole, None], options)
    given_rows = [row for row in rows if row is not None]
    check(struct_of(kind, nullable=False), [{"f": row, "g": None} for row in given_rows], options)
    lists = [{"f": given_rows, "g": []}, {"f": None, "g": given_rows[:1]}, None, {"f": [], "g": given_rows * 3}]
    check(struct_of(spark.ArrayType(kind)), lists, options)


@pytest.mark.parametrize(
    "kind",
    [
        spark.ByteType(), spark.IntegerType(), spark.LongType(), spark.FloatType(), spark.DoubleType(),
        spark.BooleanType(), spark.StringType(), spark.BinaryType(),
    ],
)  # fmt: skip
def test_whole_values_are_wrapper_messages(kind: spark.DataType):
    rows = next(rows for other, rows in SINGLE if other == kind)
    check(kind, rows)


ROW = parse_columns(
    "b TINYINT, s SMALLINT, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, t BOOLEAN, text STRING, raw BINARY, day DATE, "
    "at TIMESTAMP, price DECIMAL(20, 2), tags ARRAY<STRING>, sizes MAP<STRING, INT>, codes MAP<INT, STRING>, "
    "inner STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: STRING>>>, many MAP<STRING, STRUCT<p: ARRAY<INT>>>, "
    "lists MAP<INT, ARRAY<BIGINT>>"
)
FULL = {
    "b": -1, "s": 300, "i": 2**31 - 1, "l": -(2**63), "f": 1.5, "d": 0.1, "t": True, "text": "ä€", "raw": b"\0\1",
    "day": dt.date(2026, 11, 24), "at": dt.datetime(2026, 11, 24, 12, 30, 0, 123000, dt.UTC), "price": Decimal("-1.28"),
    "tags": ["a", ""], "sizes": [("k", 1), ("", 0), ("n", None)], "codes": [(7, "seven"), (0, "")],
    "inner": {"x": 1, "y": [{"z": "deep"}, {"z": None}]}, "many": [("a", {"p": [1, -1]}), ("b", None), ("c", {"p": []})],
    "lists": [(1, [1, 2]), (2, []), (0, None)],
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_rows_of_all_types_are_written_as_google_writes_them(options: ProtobufOptions):
    nothing = dict.fromkeys(FULL) | {"l": 0}
    defaults = FULL | {"inner": {"x": 0, "y": []}, "tags": [], "price": Decimal("0.00"), "text": "", "l": 0}
    check(ROW, [FULL, nothing, None, defaults, nothing, FULL], options)


def test_many_rows_are_written_in_blocks():
    kind = parse_columns("id BIGINT NOT NULL, name STRING")
    check(kind, [{"id": number, "name": str(number) * (number % 7)} for number in range(20_000)])


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> spark.StructType:
    """Structs that Protobuf can represent."""
    scalars = st.sampled_from(list(SCALARS))
    fields = []
    for number in range(draw(st.integers(0, 4))):
        inner = scalars if not depth else st.one_of(scalars, structs(depth=depth - 1))
        keys = st.sampled_from([spark.StringType(), spark.IntegerType(), spark.DateType()])
        kind = draw(
            st.one_of(
                inner,
                inner.map(lambda item: spark.ArrayType(item, containsNull=False)),
                st.builds(spark.MapType, keys, inner),
            )
        )
        fields.append(spark.StructField(f"c{number}", kind, draw(st.booleans())))
    return spark.StructType(fields)


def fitting(kind: spark.DataType) -> st.SearchStrategy[Any]:
    """The values without nulls where the type does not allow them."""
    match kind:
        case spark.ArrayType():
            return st.lists(fitting(kind.elementType), max_size=4)
        case spark.MapType():
            entries = st.dictionaries(SCALARS[kind.keyType], st.none() | fitting(kind.valueType), max_size=4)
            return entries.map(lambda found: list(found.items()))
        case spark.StructType():
            return st.fixed_dictionaries(
                {
                    part.name: fitting(part.dataType) | st.none() if part.nullable else fitting(part.dataType)
                    for part in kind
                }
            )
    return values(kind).filter(lambda value: value is not None)


@st.composite
def cases(draw: st.DrawFn) -> tuple[spark.StructType, list[Any], ProtobufOptions]:
    kind = draw(structs())
    rows = draw(st.lists(st.none() | fitting(kind), min_size=1, max_size=6))
    return kind, rows, draw(st.sampled_from(OPTIONS))


@settings(deadline=None, max_examples=150)
@given(cases())
def test_any_values_are_written_as_google_writes_them(case: tuple[spark.StructType, list[Any], ProtobufOptions]):
    check(*case)


@pytest.mark.parametrize(
    ("path", "data"),
    [([0], "00"), ([1], "0202"), ([1, 0], "040200"), ([4], "0208"), ([0, 0], "040000"), ([64], "028001")],
)
def test_message_indexes_are_zigzag_varints_and_the_first_message_one_zero(path: list[int], data: str):
    assert message_indexes(path).hex() == data


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        ("tags ARRAY<STRING>", {"tags": ["a", None]}, "The array tags has a null"),
        ("a STRUCT<b: ARRAY<INT>>", {"a": {"b": [None]}}, "The array a.b has a null"),
        ("a MAP<STRING, ARRAY<INT>>", {"a": [("k", [None])]}, r"The array a\[value\] has a null"),
    ],
)
def test_a_null_in_an_array_is_refused_with_its_place(columns: str, row: dict[str, Any], message: str):
    kind = parse_columns(columns)
    with pytest.raises(DataError, match=message):
        written(proto_file(connect_schema(kind, optional=False)), pa.array([row], to_arrow_type(kind)))


def test_a_null_that_the_schema_does_not_allow_is_refused():
    kind = parse_columns("a STRUCT<id: BIGINT NOT NULL>")
    array = pa.array([{"a": None}, {"a": {"id": None}}], to_arrow_type(parse_columns("a STRUCT<id: BIGINT>")))
    file = proto_file(connect_schema(kind, optional=False))
    assert written(file, array.slice(0, 1)) == [b""]
    with pytest.raises(DataError, match=r"The field a\.id is null"):
        written(file, array)


@pytest.mark.parametrize(
    ("kind", "column", "far"),
    [
        ("DATE", pa.date32(), 2**30),
        ("DATE", pa.date32(), -719_163),
        ("TIMESTAMP", pa.timestamp("us", "UTC"), 2**62),
        ("TIMESTAMP", pa.timestamp("us", "UTC"), -62_135_596_800_000_001),
    ],
)
def test_dates_and_times_outside_of_the_messages_years_are_refused(kind: str, column: Any, far: int):
    stored = pa.array([far], pa.int32() if kind == "DATE" else pa.int64())
    array = pa.StructArray.from_arrays([stored.view(column)], names=["at"])
    with pytest.raises(DataError, match=r"at has a .* outside of the years 1 to 9999"):
        written(proto_file(connect_schema(parse_columns(f"at {kind}"), optional=False)), array)


def test_text_that_is_not_utf_8_is_refused():
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    array = pa.StructArray.from_arrays([broken], names=["name"])
    with pytest.raises(DataError, match="not UTF-8"):
        written(proto_file(connect_schema(parse_columns("name STRING"), optional=False)), array)
