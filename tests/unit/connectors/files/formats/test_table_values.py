"""Values of Parquet, ORC and Avro files at the limits of their types: accepted, or refused as single rows."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from fencepost import DataError
from fencepost.connectors.files.content import growing as growing_file
from fencepost.connectors.files.formats.tables import orc_table
from tests.support.table_files import avro_file
from tests.unit.connectors.files.formats.test_table_files import ROWS, rows_of, task_of, tolerated
from tests.unit.connectors.support import read

TOO_LATE = 2**62
"""More milliseconds than microseconds can hold."""

LATE = "+146140482-04-24 15:36:27.904"

MOMENTS = pa.timestamp("ms")

ORC_OF_NUMBERS = (
    "4f52430a120a020000120c0802120608021004180650004601240a060806100018140a060801100018031204080210001a035554430a0e0a0c08"
    "0212060802100418065000080310321a0a080310141803201b28022208080320002800300030023a0c08021206080210041806500040904e4801"
    "6205322e332e3108361000188080042202000c2810300682f403034f524317"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.x"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait of a poll at the end of its files."""
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.1)


def appended(path: Path, written: Any, rows: list[Any], declared: Any) -> None:
    """Write an Avro file whose column v is declared with one type and has rows of another one."""
    schema, sync = json.dumps(record_of(declared)).encode(), b"sixteen bytes..."
    data = b"".join(_encoded(record_of(written), {"v": row}) for row in rows)
    meta = _encoded({"type": "map", "values": "bytes"}, {"avro.schema": schema, "avro.codec": b"null"})
    block = _encoded("long", len(rows)) + _encoded("bytes", data) + sync
    path.write_bytes(b"Obj\x01" + meta + sync + block)


def record_of(kind: Any) -> Any:
    return {"type": "record", "name": "Row", "fields": [{"name": "v", "type": kind}]}


def _encoded(schema: Any, value: Any) -> bytes:
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, schema, value)
    return encoded.getvalue()


def _lists(inner: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([[value] for value in inner], pa.list_(kind))


def _maps(inner: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([[("k", value)] for value in inner], pa.map_(pa.string(), kind))


def _lists_of_structs(inner: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([[{"x": value}] for value in inner], pa.list_(pa.struct([("x", kind)])))


@pytest.mark.parametrize("nested", [_lists, _maps, _lists_of_structs])
@pytest.mark.parametrize("bad", range(5))
def test_a_value_in_a_list_that_does_not_fit_refuses_its_row_alone(path: Path, nested: Any, bad: int) -> None:
    moments = [TOO_LATE if number == bad else number for number in range(5)]
    parquet.write_table(pa.table({"n": range(5), "v": nested(moments, MOMENTS)}), str(path))
    rows, refused = tolerated(path, "parquet")
    assert [row["n"] for row in rows] == [number for number in range(5) if number != bad]
    assert [row.place["row"] for row in refused] == [str(bad)]


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_batch_of_one_row_is_not_refused_for_the_row_after_it(
    path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orc_table, "BATCH_BYTES", 1)
    prices = pa.array([1, 2, 10**20], pa.decimal128(38, 0)).cast(pa.decimal128(38, 0))
    lists = _lists([Decimal(1), Decimal(2), Decimal(3)], pa.decimal128(20, 0))
    bad = pa.ListArray.from_arrays(lists.offsets, pa.Array.from_buffers(pa.decimal128(20, 0), 3, prices.buffers()))
    write: Any = parquet.write_table if form == "parquet" else orc.write_table
    write(pa.table({"n": [1, 2, 3], "v": bad}), str(path))
    # With batches of two bytes, each row has its own batch.
    for batch_bytes in ("2", "1000000"):
        rows, refused = tolerated(path, form, batch_bytes=batch_bytes)
        assert [row["n"] for row in rows] == [1, 2]
        assert [row.place["row"] for row in refused] == ["2"]


def test_a_dead_letter_has_all_values_of_a_nested_column(path: Path) -> None:
    kind = pa.struct([("x", pa.int64()), ("texts", pa.list_(pa.string())), ("at", MOMENTS)])
    value = {"x": 1, "texts": [f"text {number}" for number in range(30)], "at": TOO_LATE}
    parquet.write_table(pa.table({"v": pa.array([value], kind)}), str(path))
    _, [refused] = tolerated(path, "parquet")
    assert json.loads(refused.raw) == {"v": value | {"at": LATE}}


def test_a_dead_letter_of_maps_and_lists_has_all_entries(path: Path) -> None:
    kind = pa.map_(pa.string(), pa.list_(MOMENTS))
    parquet.write_table(pa.table({"v": pa.array([[("a", [TOO_LATE]), ("b", None)]], kind)}), str(path))
    _, [refused] = tolerated(path, "parquet")
    assert json.loads(refused.raw) == {"v": [["a", [LATE]], ["b", None]]}


def test_a_page_whose_checksum_is_wrong_is_damaged(path: Path) -> None:
    table = pa.table({"n": range(1_000)})
    parquet.write_table(table, str(path), compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[data.index((500).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"cannot be read: .*CRC checksum verification failed.*Bring the right file"):
        rows_of(path, "parquet")


@pytest.mark.parametrize("size", [2, 5, 16, 40])
def test_decimals_of_avro_on_fixed_bytes_are_exact(path: Path, size: int) -> None:
    digits = min(38, {2: 4, 5: 11, 16: 38, 40: 38}[size])
    kind = {"type": "fixed", "name": "D", "size": size, "logicalType": "decimal", "precision": digits, "scale": 2}
    largest = 10**digits - 1
    written = {"type": "fixed", "name": "D", "size": size}
    numbers = [0, 125, -125, largest, -largest]
    appended(path, written, [number.to_bytes(size, "big", signed=True) for number in numbers], kind)
    assert [row["v"] for row in rows_of(path, "avro")] == [Decimal(f"{number}E-2") for number in numbers]


def test_a_decimal_of_avro_with_more_digits_than_fixed_bytes_promise_is_a_bad_row(path: Path) -> None:
    kind = {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 0}
    appended(path, {"type": "fixed", "name": "D", "size": 2}, [b"\x00\x01", b"\x7f\xff"], kind)
    rows, [refused] = tolerated(path, "avro")
    assert [row["v"] for row in rows] == [1]
    assert json.loads(refused.raw) == {"v": "32767"}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, r"is a DECIMAL with the precision None and the scale 0"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, r"with the precision 0 and the scale 0"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5}, r"the precision 4 and the scale 5"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, r"is a duration"),
        ({"type": "record", "name": "S", "fields": [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal"}}]},
         r"\.d of the file .* is a DECIMAL"),
    ],
    ids=["no precision", "no digits", "scale", "duration", "nested"],
)  # fmt: skip
def test_a_logical_type_of_avro_that_is_not_sound_is_refused_by_its_column(path: Path, kind: Any, told: str) -> None:
    appended(path, {"type": "bytes"}, [b"\x01" * 12], kind)
    with pytest.raises(DataError, match=rf"The column v.*{told}.*, which is not read: write it in another type"):
        rows_of(path, "avro")


@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: {"type": "array", "items": kind}])
def test_a_text_of_avro_that_is_not_utf_8_is_a_bad_row(path: Path, wrap: Any) -> None:
    texts = [b"a", b"b\xff", "é".encode(), b"\xed\xa0\x80"]
    nested = wrap("string") != "string"
    appended(path, wrap("bytes"), [[text] if nested else text for text in texts], wrap("string"))
    rows, refused = tolerated(path, "avro")
    assert [row["v"] for row in rows] == ([["a"], ["é"]] if nested else ["a", "é"])
    assert [(row.place["row"], row.reason) for row in refused] == [
        ("1", "column v: Invalid UTF8 payload"),
        ("3", "column v: Invalid UTF8 payload"),
    ]
    assert b"b\\\\xff" in refused[0].raw


def test_an_orc_file_of_other_things_than_structs_is_refused(path: Path) -> None:
    # The bytes that pyorc 0.12 writes for the numbers 1 and 2 with the schema "int".
    path.write_bytes(bytes.fromhex(ORC_OF_NUMBERS))
    with pytest.raises(DataError, match=r"The file .* cannot be read: .*top-level struct.*Bring the right file"):
        rows_of(path, "orc")


@pytest.mark.parametrize(
    ("names", "told"),
    [(["a", ""], r"The column v of the file .* has a field without a name"), (["a", "a"], r"has the field a twice")],
)
def test_a_struct_whose_fields_cannot_be_distinguished_is_refused(path: Path, names: list[str], told: str) -> None:
    struct = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names)
    parquet.write_table(pa.table({"v": struct}), str(path))
    with pytest.raises(DataError, match=told):
        rows_of(path, "parquet")


def test_headers_have_dates_and_times_of_any_year(path: Path) -> None:
    days = pa.array([-(2**31), 2_932_897], pa.int32()).view(pa.date32())
    moments = pa.array([-(2**63), 2**63 - 1]).view(pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"d": days, "t": moments}), str(path))
    batch = task_of(path, "parquet", headers_columns="d,t").poll()
    assert [[header["value"] for header in headers] for headers in read(batch, "headers")] == [
        ["-5877641-06-23", "-290308-12-21 19:59:05.224192Z"],
        ["+10000-01-01", "+294247-01-10 04:00:54.775807Z"],
    ]


def test_an_encrypted_file_of_parquet_is_reported(path: Path) -> None:
    path.write_bytes(b"PARE" + bytes(100) + b"PARE")
    with pytest.raises(DataError, match="is a Parquet file with an encrypted footer, which is not read"):
        rows_of(path, "parquet")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_each_codec_of_the_specification_of_avro_is_read(path: Path, codec: str) -> None:
    path.write_bytes(avro_file(ROWS[:10], codec=codec))
    assert rows_of(path, "avro") == ROWS[:10]


def test_rows_that_a_dictionary_makes_small_do_not_make_one_large_split(path: Path) -> None:
    same = pa.table({"n": [7] * 1_000_000, "d": pa.array([Decimal("1.50")] * 1_000_000, pa.decimal128(20, 2))})
    parquet.write_table(same, str(path), row_group_size=100_000)
    batch: Any = task_of(path, "parquet").poll()
    assert path.stat().st_size < 100_000
    assert {split.rows for split in batch.splits} == {400_000, 200_000}
    small: Any = task_of(path, "parquet", batch_bytes="3000000").poll()
    assert sum(split.rows for split in small.splits) == 100_000
