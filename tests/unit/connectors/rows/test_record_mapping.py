"""Keys, topics, timestamps and headers that are taken from columns."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.ddl import parse_columns
from fencepost.engine.column_types import column_types
from tests.unit.connectors.files.test_bad_rows import read_tolerant
from tests.unit.connectors.files.test_file_source import config, errors_of, tasks

SCHEMA = {"format": "csv", "schema": "id BIGINT, region STRING, at TIMESTAMP, text STRING, day DATE, ms BIGINT"}
TEXT = """\
1,eu,2013-01-01T00:00:01.2345Z,01/02/2013 03:04:05,2013-01-02,17
2,us,2013-01-01 00:00:02,02/02/2013 03:04:05,2013-01-03,18
"""


def records(path: Path, text: str = TEXT, **properties: str) -> list[dict[str, Any]]:
    """The records of a file without their values, as the engine would read them."""
    path.write_text(text)
    [task] = tasks(config(path) | SCHEMA | {name.replace("_", "."): value for name, value in properties.items()})
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    assert batch.reader is not None
    column_types(parse_columns(batch.reader.schema), where="the batch")
    rows = [row for split in batch.splits for part in batch.reader.read(split) for row in part.to_pylist()]
    return [{name: found for name, found in row.items() if name != "value"} for row in rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_key_of_one_column_is_its_value_and_of_several_a_struct(path: Path) -> None:
    assert records(path, key_columns="id") == [{"key": 1}, {"key": 2}]
    assert records(path, key_columns="region,id") == [
        {"key": {"region": "eu", "id": 1}},
        {"key": {"region": "us", "id": 2}},
    ]


def test_a_topic_is_made_of_columns(path: Path) -> None:
    found = records(path, topic="orders-${region}.${id}")
    assert [row["topic"] for row in found] == ["orders-eu.1", "orders-us.2"]


def test_a_topic_is_the_value_of_a_column_and_null_means_the_connectors_own(path: Path) -> None:
    assert [row["topic"] for row in records(path, "1,eu,,,,\n2,,,,,\n", topic_column="region")] == ["eu", None]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"timestamp_column": "at"}, [1356998401234, 1356998402000]),
        ({"timestamp_column": "day"}, [1357084800000, 1357171200000]),
        ({"timestamp_column": "ms"}, [17, 18]),
        ({"timestamp_column": "text", "timestamp_format": "%d/%m/%Y %H:%M:%S"}, [1359687845000, 1359774245000]),
    ],
)
def test_a_timestamp_is_the_value_of_a_column(path: Path, properties: dict[str, str], expected: list[int]) -> None:
    assert [row["timestamp"] for row in records(path, **properties)] == expected


def test_a_null_timestamp_is_left_to_the_time_of_sending(path: Path) -> None:
    assert records(path, "1,eu,,,,\n", timestamp_column="at") == [{"timestamp": None}]


def test_headers_are_the_texts_of_columns_row_by_row(path: Path) -> None:
    assert records(path, "1,eu,,,,\n2,,,,,\n", headers_columns="region,id") == [
        {"headers": [{"key": "region", "value": "eu"}, {"key": "id", "value": "1"}]},
        {"headers": [{"key": "region", "value": None}, {"key": "id", "value": "2"}]},
    ]


@pytest.mark.parametrize(
    ("properties", "row", "reason"),
    [
        ({"topic": "orders-${region}"}, "1,,,,,", "column region is null, so that there is no topic"),
        (
            {"topic": "orders-${region}"},
            "1,a b,,,,",
            "column region makes 'orders-a b', which is not a name of a topic",
        ),
        ({"timestamp_column": "ms"}, "1,,,,,-5", "column ms: a record cannot have a timestamp before 1970"),
        ({"timestamp_column": "ms"}, "1,,,,,-1", "column ms: a record cannot have a timestamp before 1970"),
        (
            {"timestamp_column": "at"},
            "1,,1969-12-31T23:59:59.999999Z,,,",
            "column at: a record cannot have a timestamp before 1970",
        ),
        (
            {"timestamp_column": "text", "timestamp_format": "%d/%m/%Y %H:%M:%S"},
            "1,,,x,,",
            "column text does not have timestamp.format: Failed to parse string: 'x' as a scalar of type timestamp[us]",
        ),
        (
            {"timestamp_column": "text", "timestamp_format": "%d/%m/%Y %H:%M:%S"},
            "1,,,31/02/2013 03:04:05,,",
            "column text does not have timestamp.format: '31/02/2013 03:04:05' is not a date",
        ),
        ({"topic_column": "region"}, "1,.,,,,", "column region makes '.', which is not a name of a topic"),
        ({"topic_column": "region"}, "1,..,,,,", "column region makes '..', which is not a name of a topic"),
    ],
)
def test_a_row_without_a_topic_or_a_timestamp_is_a_bad_row(
    path: Path, properties: dict[str, str], row: str, reason: str
) -> None:
    path.write_text(f"{TEXT}{row}\n")
    rows, refused = read_tolerant(path, **(SCHEMA | properties))
    assert [row["id"] for row in rows] == [1, 2]
    assert [(bad.raw.decode(), bad.reason) for bad in refused] == [(row, reason)]
    with pytest.raises(DataError, match="line 3, does not fit the schema"):
        records(path, f"{TEXT}{row}\n", **properties)


@pytest.mark.parametrize("text", ["1/3/2013", "01/03/2013", " 1/ 3/2013", "3/12/2013"])
def test_a_time_early_in_a_month_may_be_written_in_any_way_of_its_format(path: Path, text: str) -> None:
    day, month, _ = map(int, text.split("/"))
    [record] = records(path, f"1,,,{text},,\n", timestamp_column="text", timestamp_format="%d/%m/%Y")
    assert record == {"timestamp": int(datetime(2013, month, day, tzinfo=UTC).timestamp() * 1000)}


@pytest.mark.parametrize("name", ["a", ".a", "a.", "..a", "...", "a.b", "ab"])
def test_topics_may_have_dots_in_their_names(path: Path, name: str) -> None:
    assert [row["topic"] for row in records(path, f"1,{name},,,,\n", topic_column="region")] == [name]


@pytest.mark.parametrize(
    ("properties", "blamed", "message"),
    [
        ({"key_columns": "id,nothing"}, "key.columns", "'nothing', which is not a column"),
        ({"headers_columns": "nothing"}, "headers.columns", "'nothing', which is not a column"),
        ({"topic": "orders-${nothing}"}, "topic", "'nothing', which is not a column"),
        (
            {"topic": "orders-${at}"},
            "topic",
            "needs a STRING or a whole number, but the column at is of type TIMESTAMP",
        ),
        ({"topic_column": "nothing"}, "topic.column", "'nothing', which is not a column"),
        ({"topic": "a-${id}", "topic_column": "region"}, "topic.column", "remove one"),
        ({"timestamp_column": "nothing"}, "timestamp.column", "'nothing', which is not a column"),
        ({"timestamp_column": "text"}, "timestamp.column", "or a STRING with timestamp.format"),
        ({"timestamp_column": "at", "timestamp_format": "%Y"}, "timestamp.format", "needs a STRING"),
        ({"timestamp_format": "%Y"}, "timestamp.format", "has no effect without timestamp.column"),
        ({"timestamp_column": "text", "timestamp_format": "%Q"}, "timestamp.format", "cannot be read"),
        ({"timestamp_column": "text", "timestamp_format": "%H:%M:%S.%f"}, "timestamp.format", "no %f"),
        ({"key_columns": "id,id"}, "key.columns", "names a column twice: id, id"),
        ({"headers_columns": "id,id"}, "headers.columns", "names a column twice: id, id"),
    ],
)
def test_columns_that_will_not_do_are_refused(properties: dict[str, str], blamed: str, message: str) -> None:
    errors = errors_of(**(SCHEMA | properties))
    assert list(errors) == [blamed]
    assert message in errors[blamed]


@pytest.mark.parametrize("properties", [{"topic": "a-${b}"}, {"timestamp_column": "b"}, {"headers_columns": "b"}])
def test_lines_of_text_have_no_columns(properties: dict[str, str]) -> None:
    assert list(errors_of(format="text", **properties)) == [next(iter(properties)).replace("_", ".")]
