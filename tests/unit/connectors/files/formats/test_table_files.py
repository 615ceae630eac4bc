"""Parquet, ORC and Avro files: rows, resumes, and files that are not what they were."""

from __future__ import annotations

import io
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from fencepost import ConfigError, DataError, RefusedRow, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.ddl import parse_columns
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content import growing as growing_file
from fencepost.connectors.files.content.compressed import TRUNCATED_SECONDS
from fencepost.connectors.files.content.origin import FileOrigin
from fencepost.connectors.files.formats.tables import avro_table
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.formats.tables.table_file import TableFile, TablePosition
from fencepost.connectors.files.formats.tables.table_reader import open_table
from fencepost.connectors.files.task import FileSourceTask
from tests.support.table_files import WRITE, avro_file
from tests.unit.connectors.files.test_file_source import config, errors_of
from tests.unit.connectors.support import WholeOffsets, errors_in, read, read_to_end, start, start_connector

ROWS = [{"n": number, "t": f"text {number * 7919 % 10007}"} for number in range(5_000)]
formats = pytest.mark.parametrize("form", WRITE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.x"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a poll waits at the end of its files."""
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.1)


def task_of(path: Path, form: str, offsets: WholeOffsets | None = None, **properties: str) -> SourceTask:
    connector, given = FileSourceConnector(), config(path, format=form, **properties)
    assert not errors_in(connector, given)
    start_connector(connector, given)
    [task] = connector.task_configs(1)
    offset_reader: Any = offsets or WholeOffsets()
    return start(FileSourceTask(), task, offset_reader)


def rows_of(path: Path, form: str, **properties: str) -> list[Any]:
    return read_to_end(task_of(path, form, **properties))


@formats
def test_each_row_is_read_once_whatever_the_batches_and_restarts(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    for batch_bytes, restart_after in (("3000", 2), ("20000", 1), ("100000000", 1)):
        offsets, found, batches = WholeOffsets(), [], 0
        task = task_of(path, form, offsets, batch_bytes=batch_bytes)
        while not task.at_end():
            batch = task.poll()
            if batch is None:
                continue
            assert isinstance(batch, SourceBatch)
            # As it is sent to executors.
            sent = pickle.loads(pickle.dumps(batch.reader))  # noqa: S301 - our own
            found += read(SourceBatch(reader=sent, splits=batch.splits, offsets=batch.offsets))
            offsets.commit(batch)
            batches += 1
            if batches % restart_after == 0 and len(found) < len(ROWS):
                task = task_of(path, form, offsets, batch_bytes=batch_bytes)
        assert found == ROWS
        assert (batches == 1) == (batch_bytes == "100000000")
        assert task.lag() == 0


@formats
def test_a_resume_does_not_read_the_groups_before_its_position(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    offsets = WholeOffsets()
    task = task_of(path, form, offsets, batch_bytes="25000")
    read_rows = 0
    while read_rows < 3_000:
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        read_rows += len(read(batch))
        offsets.commit(batch)
    resumed = task_of(path, form, offsets).poll()
    assert isinstance(resumed, SourceBatch)
    split = resumed.splits[0]
    with open_table(str(path), TableFormat(form), ANYWHERE) as table:
        before = [group.rows for group in table.groups(table.first_key) if group.key < split.group]
    assert sum(before) + split.skip == read_rows
    assert len(before) > 1


@formats
def test_key_topic_timestamp_and_headers_come_from_columns(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS[:10]))
    task = task_of(path, form, topic="rows-${n}", key_columns="n", timestamp_column="n", headers_columns="t")
    batch = task.poll()
    assert read(batch, "key") == list(range(10))
    assert read(batch, "topic") == [f"rows-{number}" for number in range(10)]
    assert read(batch, "timestamp") == list(range(10))
    assert read(batch, "headers")[1] == [{"key": "t", "value": ROWS[1]["t"]}]


@formats
def test_a_property_that_names_no_column_of_the_file_is_refused(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS[:10]))
    with pytest.raises(ConfigError, match=r"key\.columns names 'x', which is not a column; there are: n, t"):
        task_of(path, form, key_columns="x").poll()


@formats
def test_rows_without_a_topic_are_refused_with_their_place(path: Path, form: str) -> None:
    rows = [row | {"t": "no topic" if row["n"] % 1000 == 7 else "topic"} for row in ROWS]
    path.write_bytes(WRITE[form](rows))
    task = task_of(path, form, topic_column="t", batch_bytes="30000")
    with pytest.raises(DataError, match=r"row 7 of the group \d+, makes no record: column t makes 'no topic'"):
        read(task.poll())
    task, found, refused = task_of(path, form, topic_column="t", batch_bytes="30000"), [], []
    while not task.at_end():
        batch: Any = task.poll()
        for split in batch.splits if batch is not None else ():
            for part in batch.reader.read_tolerant(split):
                if isinstance(part, pa.RecordBatch):
                    found += part["value"].to_pylist()
                else:
                    refused += part
    assert [row.raw.decode() for row in refused] == [
        f'{{"n": {number}, "t": "no topic"}}' for number in range(7, 5000, 1000)
    ]
    assert len(found) + len(refused) == len(ROWS)
    first = refused[0]
    assert isinstance(first, RefusedRow)
    assert first.place["row"] == "7"
    assert first.place["file"] == str(path)


@formats
def test_a_file_that_is_still_copied_is_waited_for(path: Path, form: str) -> None:
    whole = WRITE[form](ROWS)
    now, rows = 0.0, 0
    file = TableFile(FileOrigin(str(path)), TableFormat(form), TablePosition(), 1 << 20, ANYWHERE, clock=lambda: now)
    assert file.advance() == []
    for size in (2, 4, len(whole) // 3, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:size])
        while splits := file.advance():
            rows += sum(split.rows for split in splits)
        now += TRUNCATED_SECONDS - 1
        assert file.finished == (size == len(whole))
    assert rows == len(ROWS)


@formats
def test_a_file_that_stays_truncated_fails(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS)[:-1])
    with pytest.raises(DataError, match=rf"is truncated, or no {form} file: .*; the rows before are delivered"):
        rows_of(path, form)
    now = 0.0
    file = TableFile(FileOrigin(str(path)), TableFormat(form), TablePosition(), 1 << 30, ANYWHERE, clock=lambda: now)
    while file.advance():
        pass
    now = TRUNCATED_SECONDS
    with pytest.raises(DataError, match="is truncated"):
        file.advance()


@formats
@pytest.mark.parametrize("restarted", [True, False])
def test_another_file_in_its_place_is_reported(path: Path, form: str, restarted: bool) -> None:
    path.write_bytes(WRITE[form](ROWS))
    offsets = WholeOffsets()
    task = task_of(path, form, offsets)
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    # A file of the same size.
    path.write_bytes(WRITE[form]([row | {"n": row["n"] + 1} for row in ROWS]))
    with pytest.raises(DataError, match="was replaced by another one, after it was read up to row"):
        (task_of(path, form, offsets) if restarted else task).poll()


@formats
def test_the_same_file_copied_to_its_place_continues(path: Path, form: str) -> None:
    whole = WRITE[form](ROWS)
    path.write_bytes(whole)
    offsets = WholeOffsets()
    batch = task_of(path, form, offsets, batch_bytes="20000").poll()
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    path.unlink()
    path.write_bytes(whole)
    assert [*read(batch), *read_to_end(task_of(path, form, offsets))] == ROWS


@formats
def test_a_file_of_another_format_is_reported(path: Path, form: str) -> None:
    path.write_text("id,name\n1,a\n")
    with pytest.raises(DataError, match=rf"is no {form} file: it begins with b'id"):
        task_of(path, form).poll()


@formats
def test_a_file_without_rows_is_read(path: Path, form: str) -> None:
    sink = io.BytesIO()
    schema = pa.schema([("n", pa.int64())])
    if form == "parquet":
        parquet.write_table(schema.empty_table(), sink)
    elif form == "orc":
        orc.write_table(schema.empty_table(), sink)
    else:
        sink.write(avro_file([]))
    path.write_bytes(sink.getvalue())
    assert rows_of(path, form) == []


@formats
def test_a_file_is_deleted_after_its_rows_are_committed(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    offsets = WholeOffsets()
    task = task_of(path, form, offsets, files_after_end="delete")
    found = []
    while not task.at_end():
        batch = task.poll()
        if batch is not None:
            assert isinstance(batch, SourceBatch)
            found += read(batch)
            offsets.commit(batch)
            task.commit()
    assert found == ROWS
    assert not path.exists()
    # Another file of the name is a new one.
    path.write_bytes(WRITE[form](ROWS[:7]))
    assert read(task.poll()) == ROWS[:7]


@formats
def test_offsets_are_checked_before_they_are_set(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    connector, given = FileSourceConnector(), config(path, format=form)
    partition = {"filename": str(path)}
    assert connector.alter_offsets(given, [(partition, {"group": 3, "row": 5}), (partition, None)])
    for wrong in ({"position": 7}, {"group": -1}, {"group": "1"}, {"group": True}, {"group": 1, "file": 7}):
        with pytest.raises(DataError, match="is not of the form"):
            connector.alter_offsets(given, [(partition, wrong)])
    with pytest.raises(DataError, match=r"has no group of rows|has no sound block"):
        task_of(path, form, WholeOffsets({str(path): {"group": 77, "row": 0}})).poll()


def test_properties_of_texts_are_refused() -> None:
    assert "has its columns in the file" in errors_of(format="parquet", schema="n INT")["schema"]
    assert "has its columns in the file" in errors_of(format="orc", header="true")["header"]
    assert "has no encoding" in errors_of(format="avro", encoding="latin-1")["encoding"]


def test_avro_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_table, "fastavro", None)
    assert "pip install 'fastavro[zstandard]>=" in errors_of(format="avro")["format"]


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
        # A block with one row.
        file.write(b"\x02\x02\x00" + path.read_bytes()[-16:])
    with pytest.raises(DataError, match=told):
        task_of(path, "avro").poll()


def test_rows_that_are_appended_to_an_avro_file_are_read(path: Path) -> None:
    path.write_bytes(avro_file(ROWS[:10]))
    task = task_of(path, "avro")
    assert read(task.poll()) == ROWS[:10]
    with path.open("a+b") as file:
        fastavro.writer(file, None, ROWS[10:20])  # type: ignore[arg-type]
    assert read(task.poll()) == ROWS[10:20]


@formats
def test_damaged_data_is_reported(path: Path, form: str) -> None:
    data = bytearray(WRITE[form](ROWS))
    middle = len(data) // 3
    data[middle : middle + 6_000] = bytes(6_000)
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"{path} (cannot be read|has no sound block|has a value)"):
        rows_of(path, form)


def refused_of(path: Path, form: str, **properties: str) -> tuple[list[Any], list[RefusedRow]]:
    """The rows of a file, and those that are refused."""
    task, found, refused = task_of(path, form, **properties), [], []
    while not task.at_end():
        batch: Any = task.poll()
        for split in batch.splits if batch is not None else ():
            for part in batch.reader.read_tolerant(split):
                if isinstance(part, pa.RecordBatch):
                    found += part["value"].to_pylist()
                else:
                    refused += part
    return found, refused


def decimals(values: list[int]) -> pa.Array:
    """A DECIMAL(20,2) of unscaled values, of any number of digits."""
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
    rows, refused = refused_of(path, form)
    assert [row["n"] for row in rows] == [1, 4]
    assert [row.place["row"] for row in refused] == ["1", "2"]
    assert refused[0].reason == "column price: Decimal value does not fit in precision 20"
    with pytest.raises(
        DataError, match=r"row 1 of the group 0, makes no record: column price: Decimal value does not fit"
    ):
        rows_of(path, form)


def test_a_bad_value_in_a_list_refuses_its_own_row_only(path: Path) -> None:
    prices = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), decimals([150, 10**20, 7, 8]))
    parquet.write_table(pa.table({"n": [1, 2, 3, 4], "prices": prices}), str(path))
    rows, refused = refused_of(path, "parquet")
    assert [row["n"] for row in rows] == [1, 3, 4]
    assert [row.place["row"] for row in refused] == ["1"]


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_text_that_is_not_utf_8_is_a_bad_row(path: Path, form: str) -> None:
    texts = pa.array([b"a", b"b\xff", "é".encode()], pa.binary()).view(pa.string())
    write: Any = parquet.write_table if form == "parquet" else orc.write_table
    write(pa.table({"t": texts}), str(path))
    rows, [refused] = refused_of(path, form)
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
    rows, refused = refused_of(path, "avro")
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
    rows, [refused] = refused_of(path, "parquet")
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
