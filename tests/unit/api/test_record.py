from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from fencepost import DataError, SourceBatch, SourceRecord
from fencepost.api.own_pipeline import OwnPipeline

_PARTITION = {"file": "f"}
_OFFSET = {"position": 1}


class _Reader:
    schema = "value STRING"

    def read(self, split: Any) -> Any:
        raise AssertionError(split)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((_PARTITION, 7, "t"), "SourceRecord(source_offset=...) was given an int: it takes a dict, such as "),
        ((_PARTITION, None, "t"), "SourceRecord(source_offset=...) was given None: it takes a dict, such as "),
        (("f", _OFFSET, "t"), "SourceRecord(source_partition=...) was given a str: it takes a dict, such as "),
        ((_PARTITION, _OFFSET, 7), "SourceRecord(topic=...) was given an int: it takes a str"),
    ],
)
def test_a_record_is_refused_where_it_is_made(arguments: tuple[Any, ...], message: str):
    with pytest.raises(DataError) as raised:
        SourceRecord(*arguments)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("headers", [{"a": 1}, "a", [("a",)], ["ab", 1], [(None, 1)], [("a", 1), (b"b", 2)]])
def test_headers_are_pairs_whose_names_are_texts(headers: Any):
    with pytest.raises(
        DataError, match=r"SourceRecord\(headers=...\).* takes a list of \(name, value\) pairs, with names"
    ):
        SourceRecord(_PARTITION, _OFFSET, "t", headers=headers)


def test_mappings_and_pairs_of_other_types_are_accepted():
    record = SourceRecord(MappingProxyType(_PARTITION), MappingProxyType(_OFFSET), "t", headers=(["a", 1], ("b", None)))
    assert record.source_offset == _OFFSET


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataframe": [1]}, r"SourceBatch\(dataframe=...\) was given a list: it takes a DataFrame of Spark"),
        ({"reader": "csv"}, r"SourceBatch\(reader=...\) was given a str: it takes an ArrowReader"),
        (
            {"reader": _Reader(), "offsets": _OFFSET},
            r"SourceBatch\(offsets=...\) was given a dict: it takes a list of \(",
        ),
        (
            {"reader": _Reader(), "offsets": [_OFFSET]},
            r"SourceBatch\(offsets=...\) has an item that is a dict: it takes",
        ),
        (
            {"reader": _Reader(), "offsets": [(_PARTITION, 7)]},
            r"SourceBatch\(offsets=...\) was given an int: it takes a",
        ),
        ({"reader": _Reader(), "topics": "t"}, r"SourceBatch\(topics=...\) was given a str: it takes a list of topics"),
        ({}, r"make it with SourceBatch.of_dataframe\(\), SourceBatch.of_reader\(\) or"),
    ],
)
def test_a_batch_is_refused_where_it_is_made(arguments: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        SourceBatch(**arguments)


@pytest.mark.parametrize("rows", [0, 2, 3, "1"])
def test_a_boundary_is_between_rows_of_columns(rows: Any):
    columns = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    SourceBatch.of_columns(columns, boundaries=[(1, [])])
    with pytest.raises(DataError, match=f"a boundary after {rows} rows: it takes boundaries between rows"):
        SourceBatch.of_columns(columns, boundaries=[(rows, [])])
    with pytest.raises(DataError, match="a boundary after 1 rows"):
        SourceBatch.of_columns(columns, boundaries=[(1, []), (1, [])])


def test_boundaries_are_refused_beside_an_own_pipeline():
    columns = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    with pytest.raises(DataError, match="both pipeline= and boundaries="):
        SourceBatch.of_columns(columns, pipeline=OwnPipeline(3), boundaries=[(1, [])])


@pytest.mark.parametrize("boundaries", [5, "12", [1], [(1,)], [(1, [], [])]])
def test_boundaries_are_pairs_of_rows_and_offsets(boundaries: Any):
    with pytest.raises(DataError, match="boundaries"):
        SourceBatch.of_columns(pa.RecordBatch.from_pydict({"a": [1, 2, 3]}), boundaries=boundaries)


def test_a_batch_of_a_reader_has_its_splits_offsets_and_topic():
    reader, offsets = _Reader(), [(_PARTITION, _OFFSET)]
    batch = SourceBatch.of_reader(reader, [1, 2], offsets, bytes=10, topic="rows", topics=["other"])
    assert batch == SourceBatch(reader=reader, splits=[1, 2], offsets=offsets, bytes=10, topic="rows", topics=["other"])
    with pytest.raises(DataError, match="it takes an ArrowReader"):
        SourceBatch.of_reader("csv", [1])  # type: ignore[arg-type]


def test_a_batch_of_a_dataframe_has_its_offsets_and_topic():
    frame: Any = type("Frame", (), {"mapInArrow": None})()
    batch = SourceBatch.of_dataframe(frame, [(_PARTITION, _OFFSET)], topic="rows")
    assert (batch.dataframe, batch.offsets, batch.topic) == (frame, [(_PARTITION, _OFFSET)], "rows")
    with pytest.raises(DataError, match="it takes a DataFrame of Spark"):
        SourceBatch.of_dataframe([1])  # type: ignore[arg-type]
