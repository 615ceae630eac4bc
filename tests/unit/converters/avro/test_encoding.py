"""Avro's bytes, compared with fastavro's record by record."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from fencepost import DataError
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.avro.plan import plan
from fencepost.converters.avro.schema import AvroOptions, avro_schema, parsed_schema, schema_text
from fencepost.converters.json_schema import connect_schema

pytestmark = pytest.mark.unit

PREFIX = b"\0\0\0\1\2"
OPTIONS = AvroOptions()
NUMBERS = [0, 1, -1, 63, -64, 64, 8191, -8192, 8192, 2**20, 2**27, 2**28, -(2**28), 2**31 - 1, -(2**31)]
LONGS = [*NUMBERS, 2**34, 2**35, 2**48, 2**49, 2**55, -(2**55), 2**56, 2**62, -(2**62), 2**63 - 1, -(2**63)]


def written(kind: spark.DataType, values: pa.Array, schema: str | None = None) -> list[bytes | None]:
    """The encoded rows, each without the schema id prefix."""
    connect = connect_schema(kind, optional=False)
    avro = avro_schema(connect) if schema is None else parsed_schema(schema)
    rows = AvroConverter().encode(plan(connect, avro, OPTIONS, strict=True), PREFIX, values).to_pylist()
    assert all(row is None or row.startswith(PREFIX) for row in rows)
    return [None if row is None else row.removeprefix(PREFIX) for row in rows]


def expected(kind: spark.DataType, rows: list[Any], schema: str | None = None) -> list[bytes | None]:
    parsed = fastavro.parse_schema(json.loads(schema or schema_text(avro_schema(connect_schema(kind, optional=False)))))
    return [None if row is None else one(parsed, row) for row in rows]


def one(parsed: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, row)
    return out.getvalue()


def check(kind: spark.DataType, rows: list[Any]) -> None:
    values = pa.array(rows, to_arrow_type(kind, timezone="UTC"))
    assert written(kind, values) == expected(kind, rows)
    assert written(kind, values.slice(1)) == expected(kind, rows[1:])


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (spark.ByteType(), [0, 1, -128, 127, None]),
        (spark.ShortType(), [0, -32768, 32767]),
        (spark.IntegerType(), [*NUMBERS, None]),
        (spark.LongType(), [None, *LONGS]),
        (spark.FloatType(), [0.0, -0.0, 1.5, float("inf"), None]),
        (spark.DoubleType(), [0.0, 0.1, -1e300, float("inf"), None]),
        (spark.BooleanType(), [True, False, None]),
        (spark.StringType(), ["", "a", "ä" * 40, "x" * 16, "y" * 17, None, "z" * 70_000]),
        (spark.DateType(), [dt.date(1969, 12, 31), dt.date(2026, 11, 24), None]),
    ],
    ids=lambda part: part.simpleString() if isinstance(part, spark.DataType) else "",
)
def test_scalars_are_written_as_fastavro_writes_them(kind: spark.DataType, rows: list[Any]):
    check(kind, rows)


def test_bytes_alone_are_written_without_their_length():
    rows = [b"", b"\0\1", None, b"x" * 300]
    assert written(spark.BinaryType(), pa.array(rows)) == rows


def test_times_are_in_milliseconds_rounded_down():
    stamps = pa.array([-1, 0, 1_234_567_890_123_456, None], pa.timestamp("us", "UTC"))
    found = written(spark.TimestampType(), stamps)
    assert found == expected(spark.LongType(), [-1, 0, 1_234_567_890_123, None])


@pytest.mark.parametrize("kind", [pa.decimal128(20, 2), pa.decimal256(60, 2), pa.decimal32(5, 2), pa.decimal64(10, 2)])
def test_decimals_are_their_unscaled_bytes(kind: Any):
    rows = [
        Decimal("0.00"),
        Decimal("1.27"),
        Decimal("1.28"),
        Decimal("-1.28"),
        Decimal("-1.29"),
        Decimal("655.36"),
        None,
    ]
    struct = spark.StructType([spark.StructField("d", spark.DecimalType(20, 2))])
    values = pa.array([{"d": row} for row in rows], pa.struct([("d", kind)]))
    # For -128, fastavro writes a byte more than necessary; Java's BigInteger does not.
    unscaled = [None if row is None else int(row.scaleb(2)) for row in rows]
    fewest = [None if number is None else _fewest(number) for number in unscaled]
    assert written(struct, values) == [
        b"\0" if data is None else b"\2" + bytes([2 * len(data)]) + data for data in fewest
    ]


def _fewest(number: int) -> bytes:
    return number.to_bytes((number if number >= 0 else -number - 1).bit_length() // 8 + 1, "big", signed=True)


def _struct(*fields: tuple[str, spark.DataType, bool]) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind, nullable) for name, kind, nullable in fields])


INNER = _struct(("x", spark.IntegerType(), False), ("s", spark.StringType(), True))
ROW = _struct(
    ("id", spark.LongType(), False),
    ("flag", spark.BooleanType(), True),
    ("name", spark.StringType(), True),
    ("inner", INNER, True),
    ("tags", spark.ArrayType(spark.StringType()), True),
    ("matrix", spark.ArrayType(spark.ArrayType(spark.IntegerType(), False), True), False),
    ("parts", spark.ArrayType(INNER), True),
    ("sizes", spark.MapType(spark.StringType(), spark.DoubleType()), True),
    ("raw", spark.BinaryType(), True),
    ("small", spark.ShortType(), True),
)


def random_row(seed: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if seed.random() < 0.3 else value

    def text() -> str:
        return "äb€𝄞"[: seed.randrange(5)] * seed.choice([1, 1, 1, 9, 200])

    def inner() -> dict[str, Any]:
        return {"x": seed.choice(NUMBERS), "s": maybe(text())}

    def several(make: Any) -> list[Any]:
        return [make() for _ in range(seed.choice([0, 0, 1, 2, 7]))]

    return {
        "id": seed.choice(LONGS), "flag": maybe(seed.random() < 0.5), "name": maybe(text()), "inner": maybe(inner()),
        "tags": maybe(several(lambda: maybe(text()))),
        "matrix": several(lambda: maybe(several(lambda: seed.choice(NUMBERS)))),
        "parts": maybe(several(lambda: maybe(inner()))),
        "sizes": maybe([(str(number), maybe(seed.random())) for number in several(lambda: seed.randrange(100))]),
        "raw": maybe(text().encode()), "small": maybe(seed.randrange(-300, 300)),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_any_nesting_are_written_as_fastavro_writes_them(seed: int):
    chance = random.Random(seed)
    rows = [None if chance.random() < 0.05 else random_row(chance) for _ in range(chance.choice([1, 3, 100, 700]))]
    values = pa.array(rows, to_arrow_type(ROW))
    plain = [
        None if row is None else row | {"sizes": None if row["sizes"] is None else dict(row["sizes"])} for row in rows
    ]
    unique = [
        None if row is None else row | {"sizes": None if row["sizes"] is None else list(dict(row["sizes"]).items())}
        for row in rows
    ]
    assert written(ROW, pa.array(unique, values.type)) == expected(ROW, plain)
    start = chance.randrange(len(rows))
    assert written(ROW, pa.array(unique, values.type).slice(start)) == expected(ROW, plain[start:])


def test_values_under_a_null_parent_are_not_written():
    kind = _struct(("a", spark.ArrayType(spark.IntegerType()), False), ("n", spark.LongType(), False))
    items = pa.ListArray.from_arrays(pa.array([0, 2, 5, 6], pa.int32()), pa.array([1, 2, 3, 4, 5, 6], pa.int32()))
    inner = pa.StructArray.from_arrays(
        [items, pa.array([1, 2, 3], pa.int64())], names=["a", "n"], mask=pa.array([False, True, False])
    )
    outer = _struct(("s", kind, True))
    rows = [{"s": {"a": [1, 2], "n": 1}}, {"s": None}, {"s": {"a": [6], "n": 3}}]
    assert written(outer, pa.StructArray.from_arrays([inner], names=["s"])) == expected(outer, rows)


@pytest.mark.parametrize("width", [1, 2, 5, 11, 15, 16, 17, 255, 256, 4095, 4097, 9000])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_texts_of_any_width_are_encoded_in_their_fields(width: int, count: int):
    kind = _struct(*((f"t{number}", spark.StringType(), False) for number in range(count)))
    rows = [
        {f"t{number}": chr(97 + (row + number) % 26) * max(0, width - row % 3) for number in range(count)}
        for row in range(40)
    ]
    check(kind, rows)


def test_many_rows_are_written_in_blocks():
    rows = [{"id": number, "name": str(number)} for number in range(20_000)]
    check(_struct(("id", spark.LongType(), False), ("name", spark.StringType(), True)), rows)


def test_arrow_types_that_are_not_plain_are_written_as_the_plain_ones():
    rows = [{"t": "a"}, {"t": None}, {"t": "b"}, {"t": "a"}]
    kind = _struct(("t", spark.StringType(), True))
    for arrow in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        values = pa.StructArray.from_arrays([pa.array([row["t"] for row in rows], arrow)], names=["t"])
        assert written(kind, values) == expected(kind, rows)


def test_a_null_where_the_schema_has_none_is_refused():
    with pytest.raises(DataError, match=r"field a is null.*declare it nullable"):
        written(
            _struct(("a", spark.LongType(), False)), pa.array([{"a": 1}, {"a": None}], pa.struct([("a", pa.int64())]))
        )


def test_text_that_is_not_utf8_is_refused():
    text = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(DataError, match="not UTF-8"):
        written(_struct(("a", spark.StringType(), True)), pa.StructArray.from_arrays([text], names=["a"]))


def _record(*fields: str) -> str:
    return f'{{"type":"record","name":"R","fields":[{",".join(fields)}]}}'


def test_another_schema_is_written_by_name_with_wider_types_and_defaults():
    kind = _struct(("b", spark.IntegerType(), False), ("a", spark.FloatType(), True))
    schema = _record(
        '{"name":"a","type":["string","null","double"]}',
        '{"name":"new","type":{"type":"array","items":"int"},"default":[1,-1]}',
        '{"name":"b","type":["null","long"],"default":null}',
        '{"name":"inner","type":{"type":"record","name":"I","fields":[{"name":"x","type":"string","default":"d"}]},'
        '"default":{}}',
    )
    rows = [{"b": 5, "a": 1.5}, {"b": -5, "a": None}]
    full = [row | {"new": [1, -1], "inner": {"x": "d"}} for row in rows]
    values = pa.array(rows, pa.struct([("b", pa.int32()), ("a", pa.float32())]))
    assert written(kind, values, schema) == expected(kind, full, schema)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ('{"name":"a","type":"string"}', "a is int64, and the schema has string"),
        ('{"name":"a","type":"int"}', "a is int64, and the schema has int"),
        ('{"name":"a","type":"long"},{"name":"b","type":"int"}', "field b without a default"),
        ('{"name":"b","type":"int","default":1}', "lacks a"),
        ('{"name":"a","type":"long"},{"name":"b","type":"int","default":"x"}', "default of the field b"),
    ],
)
def test_a_schema_that_cannot_have_the_values_is_refused(field: str, reason: str):
    connect = connect_schema(_struct(("a", spark.LongType(), False)), optional=False)
    with pytest.raises(DataError, match=reason):
        plan(connect, parsed_schema(_record(field)), OPTIONS, strict=True)


def test_enums_and_fixed_bytes_of_a_registered_schema_are_written():
    kind = _struct(("e", spark.StringType(), True), ("f", spark.BinaryType(), False))
    schema = _record(
        '{"name":"e","type":["null",{"type":"enum","name":"E","symbols":["A","B"]}]}',
        '{"name":"f","type":{"type":"fixed","name":"F","size":2}}',
    )
    rows = [{"e": "B", "f": b"xy"}, {"e": None, "f": b"zz"}]
    assert written(kind, pa.array(rows, to_arrow_type(kind)), schema) == expected(kind, rows, schema)
    with pytest.raises(DataError, match="'C', which is not a symbol"):
        written(kind, pa.array([{"e": "C", "f": b"xy"}], to_arrow_type(kind)), schema)
    with pytest.raises(DataError, match="3 bytes"):
        written(kind, pa.array([{"e": "A", "f": b"xyz"}], to_arrow_type(kind)), schema)


def test_times_are_written_in_the_units_of_a_registered_schema():
    kind = _struct(("t", spark.TimestampType(), False))
    schema = _record('{"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}}')
    values = pa.array([{"t": 1_234_567}], pa.struct([("t", pa.timestamp("us", "UTC"))]))
    assert written(kind, values, schema) == [b"\x8e\xda\x96\x01"]


@pytest.mark.parametrize("kind", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 8}])
def test_a_decimal_of_more_digits_than_a_registered_schema_has_is_refused(kind: dict[str, Any]):
    """Without the error, readers would round the value to the schema's digits."""
    schema = spark.StructType([spark.StructField("d", spark.DecimalType(10, 2))])
    connect = connect_schema(schema, optional=False)
    field = {"name": "d", "type": {**kind, "logicalType": "decimal", "precision": 4, "scale": 2}}
    steps = plan(connect, {"type": "record", "name": "R", "fields": [field]}, AvroOptions(), strict=True)
    values = [{"d": Decimal(text)} for text in ("99.99", "-99.99", "100.00")]
    column = pa.array(values, to_arrow_type(schema))
    assert len(AvroConverter().encode(steps, b"", column.slice(0, 2))) == 2
    with pytest.raises(DataError, match="d has a decimal of more than the 4 digits that the schema allows"):
        AvroConverter().encode(steps, b"", column)


def test_a_decimal_of_another_scale_is_refused():
    kind = _struct(("d", spark.DecimalType(10, 2), True))
    schema = _record('{"name":"d","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}]}')
    with pytest.raises(DataError, match="scale 2, and the schema has one of scale 3"):
        plan(connect_schema(kind, optional=False), parsed_schema(schema), OPTIONS, strict=True)


@pytest.mark.parametrize(
    "value", [None, True, 7, -(2**40), 1.5, "text", [1, "a", None], {"a": {"b": [1.5]}, "c": None}, [], {}]
)
def test_schemaless_json_is_written_with_the_anything_schema(value: Any):
    text = schema_text(avro_schema(None))
    values = pa.ExtensionArray.from_storage(pa.json_(), pa.array([json.dumps(value)]))
    (row,) = AvroConverter().encode(plan(None, avro_schema(None), OPTIONS, strict=True), PREFIX, values).to_pylist()
    found = fastavro.schemaless_reader(
        io.BytesIO(row.removeprefix(PREFIX)), fastavro.parse_schema(json.loads(text)), None
    )
    assert _plain(found) == value


def _plain(anything: Any) -> Any:
    for name, value in anything.items():
        if value is not None:
            if name == "array":
                return [_plain(item) for item in value]
            return {_plain(entry["key"]): _plain(entry["value"]) for entry in value} if name == "map" else value
    return None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (pa.array([1, None, 3], pa.int32()), "int"), (pa.array([1], pa.int64()), "long"),
        (pa.array([True]), "boolean"), (pa.array(["x", ""]), "string"), (pa.array([b"x"]), "bytes"),
        (pa.array([1.5]), "double"), (pa.array([1.5], pa.float32()), "float"),
    ],
)  # fmt: skip
def test_schemaless_scalars_are_written_with_the_anything_schema(values: pa.Array, field: str):
    parsed = fastavro.parse_schema(json.loads(schema_text(avro_schema(None))))
    rows = AvroConverter().encode(plan(None, avro_schema(None), OPTIONS, strict=True), PREFIX, values).to_pylist()
    for row, value in zip(rows, values.to_pylist(), strict=True):
        if value is None:
            assert row is None
        else:
            found = fastavro.schemaless_reader(io.BytesIO(row.removeprefix(PREFIX)), parsed, None)
            assert {name: part for name, part in found.items() if part is not None} == {field: value}
