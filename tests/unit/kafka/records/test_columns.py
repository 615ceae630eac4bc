"""Columns in the forms that Spark, Arrow and connectors pass, converted for the encoder."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.kafka.records.columns import Records, normalize
from tests.support.tables import Row, Table, tables


def _rows(records: Records) -> list[Row]:
    count = len(records)
    key, timestamp = (c.to_pylist() if c is not None else [None] * count for c in (records.key, records.timestamp))
    headers = [None] * count if records.headers is None else records.headers.to_pylist()
    pairs = [tuple((header["key"], header["value"]) for header in entries or ()) for entries in headers]
    return [Row(*row) for row in zip(key, records.value.to_pylist(), timestamp, pairs, strict=True)]


@given(tables())
def test_normalized_columns_hold_the_rows_that_they_were_made_of(table: Table):
    assert _rows(table.records) == table.rows
    assert table.records.value.type in (pa.binary(), pa.large_binary())


@settings(max_examples=50)
@given(tables(), tables(), st.data())
def test_records_are_sliced_taken_and_joined_by_row(one: Table, other: Table, data: st.DataObject):
    joined, rows = Records.concat([one.records, other.records]), one.rows + other.rows
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    offset = data.draw(st.integers(0, len(rows)))

    assert _rows(joined) == rows
    assert _rows(joined.take(indices)) == [rows[index] for index in indices]
    assert _rows(joined.slice(offset, len(rows) - offset)) == rows[offset:]


@given(st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=20))))
def test_rows_of_keys_and_values_are_records(rows: list[tuple[bytes, bytes | None]]):
    records = Records.of_rows(rows)

    records.value.validate(full=True)
    assert list(zip(records.key.to_pylist(), records.value.to_pylist(), strict=True)) == rows
    backwards = np.arange(len(rows))[::-1]
    assert records.take(backwards).value.to_pylist() == [value for _, value in reversed(rows)]


def test_rows_become_records_without_pandas():
    program = """
import sys
import numpy as np
from fencepost.kafka.records.record_batch import split_by_bytes
from fencepost.kafka.records.columns import Records
from fencepost.kafka.producer.partitioner import partition_for_keys
records = Records.of_rows([(b"key", b"value"), (b"another", b"")])
partition_for_keys(records.key, 3)
list(split_by_bytes(records.take(np.array([1, 0])), 1000))
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_timestamps_are_rounded_down_to_milliseconds():
    microseconds = pa.array([1_500, -1, None, -1_500], pa.timestamp("us", tz="Europe/Berlin"))

    records = normalize(pa.nulls(4), timestamp=microseconds)

    assert records.timestamp is not None
    assert records.timestamp.to_pylist() == [1, -1, None, -2]


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[("a", "1"), ("b", None)], None, []], pa.map_(pa.string(), pa.string())),
        pa.array([[("z", "0")], [("a", "1"), ("b", None)], None, []], pa.map_(pa.string(), pa.string())).slice(1, 3),
        pa.array(
            [[{"key": "a", "value": "1"}, {"key": "b", "value": None}], None, []],
            pa.large_list(pa.struct([("key", pa.string_view()), ("value", pa.string())])),
        ),
    ],
    ids=["map", "sliced map", "large list of text"],
)
def test_headers_of_any_kind_of_list_are_taken(headers: pa.Array):
    records = normalize(pa.array([b"1", b"2", b"3"]), headers=headers)

    assert [row.headers for row in _rows(records)] == [(("a", b"1"), ("b", None)), (), ()]
    assert [row.headers for row in _rows(normalize(pa.nulls(1), headers=headers.slice(0, 1)))] == [
        (("a", b"1"), ("b", None))
    ]
    assert [row.headers for row in _rows(normalize(pa.nulls(2), headers=headers.slice(1, 2)))] == [(), ()]


def test_chunks_with_dictionaries_of_their_own_are_joined():
    words = [pa.array(["a", None, "b", "a"]).dictionary_encode(), pa.array(["c", "c"]).dictionary_encode()]
    views = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["x", "y"], pa.string_view()))

    assert normalize(pa.chunked_array(words)).value.to_pylist() == [b"a", None, b"b", b"a", b"c", b"c"]
    assert normalize(views).value.to_pylist() == [b"y", None, b"x"]
    assert normalize(pa.chunked_array([], pa.string())).value.to_pylist() == []


def test_a_column_of_nulls_alone_fits_everywhere():
    records = normalize(pa.nulls(2), key=pa.nulls(2), timestamp=pa.nulls(2), headers=pa.nulls(2))

    assert _rows(records) == [Row(None, None, None, ())] * 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": pa.array([1])}, "value column is of type int64"),
        ({"value": pa.array([b""]), "key": pa.array([1.0])}, "key column is of type double"),
        ({"value": pa.array([b""]), "timestamp": pa.array(["now"])}, "timestamp column is of type string"),
        ({"value": pa.array([b""]), "headers": pa.array([["a"]])}, "headers column is of type list"),
        ({"value": pa.array([b""]), "key": pa.array([b"", b""])}, "differ in length"),
        ({"value": pa.array([b""]), "headers": pa.array([[{"key": None, "value": b""}]])}, "header without a name"),
        (
            {"value": pa.array([b""]), "headers": pa.array([[None, {"key": "a", "value": b""}]])},
            "header without a name",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, pa.Array], message: str):
    with pytest.raises(DataError, match=message):
        normalize(**columns)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_the_name_of_a_header_is_text_as_clients_fail_at_a_record_with_another(kind: pa.DataType):
    names = pa.array([b"a", b"\xfe"]).cast(pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind)
    pairs = pa.StructArray.from_arrays([names, pa.array([b"1", b"2"])], names=["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs)

    with pytest.raises(DataError, match="a header whose name is not UTF-8"):
        normalize(pa.nulls(2), headers=headers)
    assert len(normalize(pa.nulls(1), headers=headers.slice(0, 1))) == 1
