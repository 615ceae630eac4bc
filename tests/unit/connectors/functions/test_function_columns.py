"""Keys, topics, timestamps and headers from columns of the rows that functions yield."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from fencepost import ConfigError, DataError, SourceRecord, source
from fencepost.api.config_def import ConfigDef
from fencepost.connectors.rows.python_rows import Misfit, PythonRows, RecordParts
from fencepost.connectors.rows.record_mapping import RecordColumns, define_record_columns
from fencepost.connectors.rows.row_types import row_as_json
from fencepost.testing import run_task
from tests.unit.connectors.support import errors_in

BERLIN = timezone(timedelta(hours=2))


def parts(rows: list[Any], **properties: str) -> list[RecordParts | Misfit]:
    config = {"topic": "rows", **{name.replace("_", "."): value for name, value in properties.items()}}
    record = RecordColumns.from_values(define_record_columns(ConfigDef()).parse(config))
    return PythonRows(record).parts(rows)


def reasons(rows: list[Any], **properties: str) -> list[str | None]:
    return [part.reason if isinstance(part, Misfit) else None for part in parts(rows, **properties)]


def part(value: Any, **properties: str) -> RecordParts:
    [found] = parts([{"c": value}], **properties)
    assert isinstance(found, RecordParts), found
    return found


def test_a_key_of_one_column_is_its_value_and_of_several_a_struct() -> None:
    rows = [{"id": 1, "tags": ["a"], "at": None}, {"at": BERLIN, "tags": None, "id": "x"}]
    assert [each.key for each in parts(rows, key_columns="tags")] == [["a"], None]  # type: ignore[union-attr]
    assert [each.key for each in parts(rows, key_columns="id,at")] == [  # type: ignore[union-attr]
        {"id": 1, "at": None},
        {"id": "x", "at": BERLIN},
    ]


def test_a_topic_is_made_of_columns() -> None:
    rows = [{"region": "eu", "id": 1}, {"region": "us", "id": np.int32(2)}]
    assert [each.topic for each in parts(rows, topic="orders-${region}.${id}")] == [  # type: ignore[union-attr]
        "orders-eu.1",
        "orders-us.2",
    ]


def test_a_topic_is_the_value_of_a_column_and_null_means_the_connectors_own() -> None:
    assert [part(value, topic_column="c").topic for value in ("a", 7, None)] == ["a", "7", None]


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        (17, "", 17),
        (None, "", None),
        (None, "%Y-%m-%d", None),
        ("2013-01-02", "%Y-%m-%d", 1357084800000),
        (date(2013, 1, 2), "", 1357084800000),
        (datetime(2013, 1, 2, 1, 2, 3, 999999), "", 1357088523999),  # noqa: DTZ001 - without a zone
        (datetime(2013, 1, 2, 1, 2, 3, tzinfo=UTC), "", 1357088523000),
        (datetime(2013, 1, 2, 3, 2, 3, tzinfo=BERLIN), "", 1357088523000),
        (np.datetime64("2013-01-02T01:02:03"), "", 1357088523000),
        (np.datetime64("2013-01-02T01:02:03.123456789"), "", 1357088523123),
        (pd.Timestamp("2013-01-02T01:02:03.123456789"), "", 1357088523123),
    ],
)
def test_a_timestamp_is_the_value_of_a_column(value: Any, form: str, expected: int | None) -> None:
    assert part(value, timestamp_column="c", timestamp_format=form).timestamp == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("caf\u00e9", "caf\u00e9"),
        (True, "true"),
        (-7, "-7"),
        (0.5, "0.5"),
        (Decimal("1.50"), "1.50"),
        (date(2013, 1, 2), "2013-01-02"),
        (datetime(2013, 1, 2, 3, tzinfo=BERLIN), "2013-01-02 01:00:00.000000Z"),
    ],
)
def test_a_header_is_the_text_of_a_column(value: Any, expected: str | None) -> None:
    assert part(value, headers_columns="c").headers == [("c", expected)]


def test_a_rows_record_does_not_depend_on_other_rows() -> None:
    values = [1, "a", None, Decimal("1.5"), Decimal("2.25"), 0.1, True, date(2013, 1, 2), Decimal("1E+2"), 2]
    together = parts([{"c": value} for value in values], headers_columns="c")
    assert together == [part(value, headers_columns="c") for value in values]


def test_columns_may_have_any_names() -> None:
    row = {"a.b": 1, "größe": "x", "topic": "named", "value": 2, "key": 3}
    [found] = parts([row], key_columns="a.b", headers_columns="größe,value", topic_column="topic")
    assert found == RecordParts(1, "named", None, [("größe", "x"), ("value", "2")])


def test_any_mapping_is_a_row() -> None:
    assert parts([MappingProxyType({"id": 1})], key_columns="id") == [RecordParts(1)]


@pytest.mark.parametrize(
    ("row", "properties", "reason"),
    [
        ({"id": 1}, {"key_columns": "no"}, "key.columns names 'no', which is not a column; there are: id"),
        ({"id": 1, 5: 2}, {"key_columns": "5"}, "key.columns names '5', which is not a column; there are: id"),
        ({"id": 1}, {"topic": "o-${no}"}, "topic names 'no', which is not a column; there are: id"),
        ({"id": 1}, {"topic_column": "no"}, "topic.column names 'no', which is not a column; there are: id"),
        ({"id": 1}, {"timestamp_column": "no"}, "timestamp.column names 'no', which is not a column; there are: id"),
        ({"id": 1}, {"headers_columns": "no"}, "headers.columns names 'no', which is not a column; there are: id"),
        ({}, {"key_columns": "id"}, "key.columns names 'id', which is not a column"),
        (["id"], {"key_columns": "id"}, "it is a list, which has no columns: yield a dict"),
        ({"c": 0.5}, {"topic_column": "c"}, "needs a STRING or a whole number, but the column c is of type DOUBLE"),
        ({"c": None}, {"topic": "o-${c}"}, "column c is null, so that there is no topic"),
        ({"c": "a b"}, {"topic": "o-${c}"}, "column c makes 'o-a b', which is not a name of a topic"),
        (
            {"c": "1"},
            {"timestamp_column": "c"},
            "or a STRING with timestamp.format, but the column c is of type STRING",
        ),
        ({"c": -1}, {"timestamp_column": "c"}, "column c: a record cannot have a timestamp before 1970"),
        ({"c": 1}, {"timestamp_column": "c", "timestamp_format": "%Y"}, "timestamp.format needs a STRING"),
        ({"c": {"d": 1}}, {"headers_columns": "c"}, "headers.columns needs a simple type, but the column c is of type"),
        ({"c": b"x"}, {"headers_columns": "c"}, "needs a simple type, but the column c is of type BINARY"),
        ({"c": 1 << 70}, {"headers_columns": "c"}, "column c: Python int too large"),
        ({"c": "\ud800"}, {"headers_columns": "c"}, "column c: 'utf-8' codec can't encode"),
        ({"c": object()}, {"headers_columns": "c"}, "column c: Could not convert"),
        ({"c": timedelta(1)}, {"headers_columns": "c"}, "needs a simple type, but the column c is of type INTERVAL"),
        (
            {"c": np.datetime64("300000-01-01T00:00:00")},
            {"timestamp_column": "c"},
            "column c: Casting from timestamp[s] to timestamp[us] would result in out of bounds timestamp",
        ),
        *(
            (
                {"c": value},
                properties,
                f"column c has {what}, of which nothing can be made. Give {instead} in its place",
            )
            for value, what, instead in [
                (pd.NaT, "a NaTType", "None"),
                (pd.NA, "a NAType", "None"),
                (np.datetime64("NaT"), "a datetime64", "None"),
                (np.datetime64("2013-01-02"), "a datetime64", "value.astype('datetime64[us]').item()"),
                (np.uint64(5), "an uint64", "value.item()"),
                (UUID(int=1), "an UUID", "str(value)"),
            ]
            for properties in [{"headers_columns": "c"}, {"timestamp_column": "c"}, {"topic": "o-${c}"}]
        ),
    ],
)
def test_a_row_that_makes_no_record_is_refused_by_name(row: Any, properties: dict[str, str], reason: str) -> None:
    [found] = reasons([row], **properties)
    assert reason in str(found)


def test_a_refused_row_keeps_text_that_is_not_unicode() -> None:
    row = {"id": "\udc80"}
    assert json.loads(row_as_json(row)) == row


def test_only_the_rows_that_make_no_record_are_refused() -> None:
    rows: list[Any] = [{"c": number} for number in range(1, 1001)]
    for bad in (0, 17, 18, 999):
        rows[bad] = {"c": -1}
    rows[500] = {"d": 1}
    refused = [position for position, reason in enumerate(reasons(rows, timestamp_column="c")) if reason]
    assert refused == [0, 17, 18, 500, 999]


@source(key="id")
def orders(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Three orders; with `bad`, the second one has no region."""
    for number in range((cursor or 0) + 1, 4):
        row = {"id": number, "region": "eu", "at": number * 1000}
        if "bad" in config and number == 2:
            del row["region"]
        yield row, number


@source
def records(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the records that a task would return."""
    del config, cursor
    yield SourceRecord({}, {}, "rows"), 1


CONFIG = {"topic": "rows", "batch.rows": "5", "poll.interval.ms": "20"}


def test_a_function_has_keys_topics_timestamps_and_headers_from_its_rows() -> None:
    columns = {"topic": "o-${region}", "timestamp.column": "at", "headers.columns": "region,id"}
    with run_task(orders, CONFIG | columns) as task:
        first = task.poll().records[0]
    assert (first.key, first.topic, first.timestamp) == (1, "o-eu", 1000)
    assert first.headers == [("region", "eu"), ("id", "1")]
    assert first.value == {"id": 1, "region": "eu", "at": 1000}


@pytest.mark.parametrize(("given", "key"), [({}, 1), ({"key.columns": "region"}, "eu"), ({"key.columns": ""}, None)])
def test_the_configuration_takes_the_place_of_the_decorators_key(given: dict[str, str], key: Any) -> None:
    with run_task(orders, CONFIG | given) as task:
        assert task.poll().records[0].key == key


def test_a_tested_function_whose_row_lacks_a_column_fails() -> None:
    expected = rf"orders, defined at {__file__}:\d+, yielded a row .*: The property topic names 'region', which is not"
    with (
        run_task(orders, CONFIG | {"topic": "o-${region}", "bad": ""}) as task,
        pytest.raises(DataError, match=expected),
    ):
        task.poll()


def test_a_record_in_place_of_a_row_is_refused() -> None:
    with (
        run_task(records, CONFIG) as task,
        pytest.raises(DataError, match="yielded a SourceRecord: it must yield the row"),
    ):
        task.poll()


@pytest.mark.parametrize(
    ("properties", "blamed", "message"),
    [
        ({"topic": "a-${id}", "topic.column": "id"}, "topic.column", "remove one"),
        ({"topic": "a b-${id}"}, "topic", "a column is a part of it as in"),
        ({"timestamp.format": "%Y"}, "timestamp.format", "has no effect without timestamp.column"),
        ({"timestamp.column": "at", "timestamp.format": "%Q"}, "timestamp.format", "cannot be read"),
        ({"key.columns": "id,id"}, "key.columns", "names a column twice: id, id"),
    ],
)
def test_properties_that_contradict_each_other_are_refused(
    properties: dict[str, str], blamed: str, message: str
) -> None:
    ((name, (error,)),) = errors_in(orders(), CONFIG | properties).items()
    assert name == blamed
    assert message in error
    with pytest.raises(ConfigError):
        run_task(orders, CONFIG | properties)


def test_the_properties_are_listed_with_their_documentation() -> None:
    keys = orders().config().keys()
    assert list(keys)[:6] == [
        "topic", "topic.column", "key.columns", "timestamp.column", "timestamp.format", "headers.columns",
    ]  # fmt: skip
    assert keys["key.columns"].default == ["id"]
    assert all(key.documentation for key in keys.values())
