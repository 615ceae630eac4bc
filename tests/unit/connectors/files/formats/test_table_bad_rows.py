"""Rows of Parquet, ORC and Avro files with values that their columns cannot hold."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql.types import StructType

from fencepost import DataError
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.content.origin import FileOrigin
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.formats.tables.table_file import TableFile, TablePosition
from fencepost.connectors.files.formats.tables.table_reader import TableReader
from tests.support.table_files import avro_file
from tests.unit.connectors.files.formats.test_table_files import rows_of, task_of, tolerated


def decimals(values: list[int]) -> pa.Array:
    """A DECIMAL(20,2) column of unscaled values with any number of digits."""
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(pa.decimal128(20, 2), len(values), [None, pa.py_buffer(raw)])


@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_decimal_with_more_digits_than_its_column_has_is_a_bad_row(path: Path, form: str, nested: bool) -> None:
    prices: pa.Array = decimals([150, 10**20, -(10**20), 10**20 - 1])
    if nested:
        prices = pa.StructArray.from_arrays([prices], ["inner"])
    write: Any = parquet.write_table if form == "parquet" else orc.write_table
    write(pa.table({"n": [1, 2, 3, 4], "price": prices}), str(path))
    rows, refused = tolerated(path, form)
    assert [row["n"] for row in rows] == [1, 4]
    assert [row.place["row"] for row in refused] == ["1", "2"]
    assert refused[0].reason == "column price: Decimal value does not fit in precision 20"
    with pytest.raises(
        DataError, match=r"row 1 of the group 0, makes no record: column price: Decimal value does not fit"
    ):
        rows_of(path, form)


def test_a_bad_row_of_a_later_group_is_placed_in_its_own_group(path: Path) -> None:
    prices = decimals([10**20 if number in {3, 15, 29} else number for number in range(30)])
    parquet.write_table(pa.table({"n": range(30), "price": prices}), str(path), row_group_size=10)
    _, refused = tolerated(path, "parquet")
    assert [(row.place["group"], row.place["row"]) for row in refused] == [("0", "3"), ("1", "5"), ("2", "9")]


def test_rows_after_an_offset_within_a_group_keep_their_places(path: Path) -> None:
    parquet.write_table(pa.table({"n": range(30)}), str(path), row_group_size=10)
    position = TablePosition(group=0, row=4)
    [split] = TableFile(FileOrigin(str(path)), TableFormat.PARQUET, position, 1 << 20, ANYWHERE).advance()
    reader = TableReader(TableFormat.PARQUET, StructType())
    places = [reader.place(split, row) for row in (0, 5, 6, 25)]
    assert [(place["group"], place["row"]) for place in places] == [("0", "4"), ("0", "9"), ("1", "0"), ("2", "9")]


def test_a_bad_value_in_a_list_refuses_its_own_row_only(path: Path) -> None:
    prices = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), decimals([150, 10**20, 7, 8]))
    parquet.write_table(pa.table({"n": [1, 2, 3, 4], "prices": prices}), str(path))
    rows, refused = tolerated(path, "parquet")
    assert [row["n"] for row in rows] == [1, 3, 4]
    assert [row.place["row"] for row in refused] == ["1"]


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_text_that_is_not_utf_8_is_a_bad_row(path: Path, form: str) -> None:
    texts = pa.array([b"a", b"b\xff", "é".encode()], pa.binary()).view(pa.string())
    write: Any = parquet.write_table if form == "parquet" else orc.write_table
    write(pa.table({"t": texts}), str(path))
    rows, [refused] = tolerated(path, form)
    assert [row["t"] for row in rows] == ["a", "é"]
    assert (refused.raw, refused.reason) == (b'{"t": "b\'b\\\\xff\'"}', "column t: Invalid UTF8 payload")


def test_avro_values_beyond_their_types_are_bad_rows_and_not_rounded(path: Path) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "p", "type": price}, {"name": "n", "type": "int"}]}
    path.write_bytes(avro_file([], schema))
    with path.open("ab") as file:
        block = io.BytesIO()
        plain: Any = {
            "type": "record",
            "name": "Row",
            "fields": [{"name": "p", "type": "bytes"}, {"name": "n", "type": "long"}],
        }
        for unscaled, number in ((1234, 1), (123456, 2), (1234, 2**31), (-9999, -(2**31))):
            fastavro.schemaless_writer(block, plain, {"p": unscaled.to_bytes(4, "big", signed=True), "n": number})
        head = io.BytesIO()
        for size in (4, len(block.getvalue())):
            fastavro.schemaless_writer(head, {"type": "long"}, size)  # type: ignore[arg-type]
        file.write(head.getvalue() + block.getvalue() + path.read_bytes()[-16:])
    rows, refused = tolerated(path, "avro")
    assert rows == [{"p": Decimal("12.34"), "n": 1}, {"p": Decimal("-99.99"), "n": -(2**31)}]
    assert [row.place["row"] for row in refused] == ["1", "2"]
    assert [row.raw for row in refused] == [b'{"p": "1234.56", "n": 2}', b'{"p": "12.34", "n": 2147483648}']


def test_nanoseconds_are_cut_off_downwards_before_1970_and_wherever_they_are(path: Path) -> None:
    times = pa.array([-1, 1_999, None, -1_001], pa.timestamp("ns", "UTC"))
    ends = pa.array([0, 1, 1, 4, 4], pa.int32())
    table = pa.table({
        "flat": times,
        "inner": pa.StructArray.from_arrays([times], ["at"]),
        "list": pa.ListArray.from_arrays(ends, times),
        "map": pa.MapArray.from_arrays(ends, pa.array(["a", "b", "c", "d"]), times),
    })  # fmt: skip
    parquet.write_table(table, path)
    cut = [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None,
           datetime(1969, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC)]  # fmt: skip
    lists = [[0], [], [1, 2, 3], []]
    assert rows_of(path, "parquet") == [
        {
            "flat": cut[row],
            "inner": {"at": cut[row]},
            "list": [cut[n] for n in lists[row]],
            "map": [("abcd"[n], cut[n]) for n in lists[row]],
        }
        for row in range(4)
    ]


def test_a_time_that_microseconds_cannot_hold_is_a_bad_row(path: Path) -> None:
    seconds = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("ms"))
    inner = pa.StructArray.from_arrays([seconds, pa.array([1, 1], pa.timestamp("ns"))], ["far", "near"])
    parquet.write_table(pa.table({"at": inner}), path)
    rows, [refused] = tolerated(path, "parquet")
    assert len(rows) == 1
    assert refused.reason.startswith("column at: Casting from timestamp[ms]")


def test_the_first_and_last_times_of_files_make_no_timestamps_that_they_are_not(path: Path) -> None:
    parquet.write_table(
        pa.table({"at": pa.array([-(2**63) + 1, -1, 0, 1_999], pa.int64()).view(pa.timestamp("us"))}), path
    )
    task = task_of(path, "parquet", timestamp_column="at")
    batch: Any = task.poll()
    [split] = batch.splits
    parts = list(batch.reader.read_tolerant(split))
    assert [row.reason for part in parts if isinstance(part, list) for row in part] == [
        "column at: a record cannot have a timestamp before 1970"
    ] * 2
    assert [t for part in parts if isinstance(part, pa.RecordBatch) for t in part["timestamp"].to_pylist()] == [0, 1]
