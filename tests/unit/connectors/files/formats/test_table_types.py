"""The types of columns of Parquet, ORC and Avro files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fencepost import DataError, SourceBatch
from fencepost.api.ddl import parse_columns
from tests.support.table_files import avro_file
from tests.unit.connectors.files.formats.test_table_files import rows_of, task_of
from tests.unit.connectors.support import read

MOMENT = datetime(2013, 1, 1, 8, 0, 0, 123456, tzinfo=UTC)
TYPES: dict[str, tuple[pa.Array, str, Any]] = {
    "small": (pa.array([200], pa.uint8()), "SMALLINT", 200),
    "int": (pa.array([-1], pa.int32()), "INT", -1),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), "DECIMAL(20,0)", Decimal(2**64 - 1)),
    "half": (pa.array([1.5], pa.float32()), "FLOAT", 1.5),
    "text": (pa.array(["é"], pa.large_string()), "STRING", "é"),
    "coded": (pa.array(["a"]).dictionary_encode(), "STRING", "a"),
    "bytes": (pa.array([b"ab"], pa.binary(2)), "BINARY", b"ab"),
    "at": (pa.array([MOMENT], pa.timestamp("ns", "Europe/Berlin")), "TIMESTAMP", MOMENT),
    "local": (pa.array([MOMENT], pa.timestamp("ms")), "TIMESTAMP_NTZ", MOMENT.replace(microsecond=123000, tzinfo=None)),
    "day": (pa.array([date(2013, 2, 3)]), "DATE", date(2013, 2, 3)),
    "price": (pa.array([Decimal("12.50")], pa.decimal128(6, 2)), "DECIMAL(6,2)", Decimal("12.50")),
    "list": (pa.array([["a", None]], pa.list_(pa.large_string())), "ARRAY<STRING>", ["a", None]),
    "map": (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int16())), "MAP<STRING,SMALLINT>", [("a", 1)]),
    "inner": (
        pa.array([{"x": 1, "at": MOMENT}], pa.struct([("x", pa.uint16()), ("at", pa.timestamp("ns", "UTC"))])),
        "STRUCT<x: INT, at: TIMESTAMP>", {"x": 1, "at": MOMENT},
    ),
    "nothing": (pa.nulls(1), "STRING", None),
}  # fmt: skip


def test_types_of_parquet_become_types_of_spark(path: Path) -> None:
    parquet.write_table(pa.table({name: array for name, (array, _, _) in TYPES.items()}), path)
    task = task_of(path, "parquet")
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    reader: Any = batch.reader
    expected = parse_columns(", ".join(f"{name} {ddl}" for name, (_, ddl, _) in TYPES.items()))
    assert reader.columns == expected
    assert read(batch) == [{name: value for name, (_, _, value) in TYPES.items()}]


def test_nanoseconds_are_cut_off(path: Path) -> None:
    parquet.write_table(pa.table({"at": pa.array([1_000_000_001_999], pa.timestamp("ns", "UTC"))}), path)
    assert rows_of(path, "parquet") == [{"at": datetime(1970, 1, 1, 0, 16, 40, 1, tzinfo=UTC)}]


def test_int96_holds_times_that_nanoseconds_cannot(path: Path) -> None:
    table = pa.table({"at": pa.array([datetime(1500, 1, 1)], pa.timestamp("us"))})  # noqa: DTZ001 - INT96 has no zone
    parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert rows_of(path, "parquet") == [{"at": datetime(1500, 1, 1)}]  # noqa: DTZ001 - as above


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (pa.time64("us"), "c"),
        (pa.decimal256(50, 2), "c"),
        (pa.struct([("x", pa.list_(pa.time32("ms")))]), r"c\.x\[\]"),
        (pa.duration("s"), "c"),
    ],
    ids=str,
)
def test_a_type_without_a_form_in_connect_is_refused_by_its_column(path: Path, kind: pa.DataType, place: str) -> None:
    parquet.write_table(pa.table({"a": [1], "c": pa.nulls(1, kind)}), path)
    with pytest.raises(DataError, match=f"The column {place} of the file .* has no form in Kafka Connect's data"):
        task_of(path, "parquet").poll()


def test_required_columns_stay_required(path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    parquet.write_table(pa.table({"n": [1]}, schema=schema), path)
    batch: Any = task_of(path, "parquet").poll()
    assert not batch.reader.columns["n"].nullable


def test_types_of_avro_become_types_of_spark(path: Path) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
    fields: dict[str, tuple[Any, Any, Any]] = {
        "a": ("boolean", True, True),
        "b": (["null", "double"], None, None),
        "c": ({"type": "enum", "name": "E", "symbols": ["S", "T"]}, "T", "T"),
        "d": ("E", "S", "S"),
        "e": ({"type": "int", "logicalType": "date"}, date(2013, 2, 3), date(2013, 2, 3)),
        "f": ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT, MOMENT),
        "g": ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, Decimal("1.5"), Decimal("1.50")),
        "h": ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
        "i": ({"type": "array", "items": ["null", "long"]}, [1, None], [1, None]),
        "j": ({"type": "map", "values": "string"}, {"k": "v"}, [("k", "v")]),
        "k": (inner, {"x": 1}, {"x": 1}),
        "l": (["null", "Inner"], {"x": 2}, {"x": 2}),
        "m": ({"type": "string", "logicalType": "uuid"}, "7" * 8, "7" * 8),
    }
    schema = {
        "type": "record", "name": "Row", "namespace": "a.b",
        "fields": [{"name": name, "type": kind} for name, (kind, _, _) in fields.items()],
    }  # fmt: skip
    path.write_bytes(avro_file([{name: given for name, (_, given, _) in fields.items()}], schema, "snappy"))
    assert rows_of(path, "avro") == [{name: expected for name, (_, _, expected) in fields.items()}]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (["int", "string"], r"The column c of the file .* is a union of several types"),
        (["null", "Row"], r"The column c of the file .* has a type that contains itself, 'Row'"),
        ({"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}, r"The column c\[\] .* time32"),
    ],
    ids=["union", "itself", "time"],
)
def test_a_type_of_avro_that_is_not_read_is_refused_by_its_column(path: Path, kind: Any, told: str) -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": kind}]}
    path.write_bytes(avro_file([], schema))
    with path.open("ab") as file:
        # This is a block with one row.
        file.write(b"\x02\x02\x00" + path.read_bytes()[-16:])
    with pytest.raises(DataError, match=told):
        task_of(path, "avro").poll()
