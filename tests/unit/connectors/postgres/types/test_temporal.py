"""Dates and times by `time.precision.mode`; tests/broker compares the meaning of each text with the server."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import DataError
from fencepost.connectors.postgres.changes.events.envelope import EnvelopeSettings, TableColumn, TableEvents
from fencepost.connectors.postgres.changes.stream.relation import Relation, ReplicaIdentity
from fencepost.connectors.postgres.types import values
from fencepost.connectors.postgres.types.temporal import DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ, TimePrecision
from fencepost.connectors.postgres.types.types import JSONB, UUID, DecimalHandling, PostgresType, value_type
from fencepost.connectors.postgres.types.value_types import ValueType, read_column
from fencepost.converters.json_schema import connect_schema

ADAPTIVE, ADAPTIVE_TIME_MICROSECONDS, MICROSECONDS, CONNECT, ISOSTRING = TimePrecision


def kind_of(oid: int, mode: TimePrecision, digits: int = -1) -> ValueType:
    return value_type(PostgresType(oid, digits), DecimalHandling.PRECISE, mode)


def read(oid: int, mode: TimePrecision, *texts: str | None, digits: int = -1) -> list[Any]:
    """The values of texts; for Spark's DATE and TIMESTAMP_NTZ, days and microseconds since 1970."""
    found = kind_of(oid, mode, digits)
    array = read_column(found, pa.array(texts, pa.string()), "public.t.c")
    assert array.type == found.arrow
    stored = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}.get(array.type, array.type)
    return array.view(stored).to_pylist()


@pytest.mark.parametrize("digits", range(-1, 7))
def test_adaptive_counts_milliseconds_where_the_column_has_no_more_digits(digits: int):
    short = 0 <= digits <= 3
    assert read(TIME, ADAPTIVE, "00:00:01.5", digits=digits) == [1500 if short else 1_500_000]
    assert read(TIME, ADAPTIVE_TIME_MICROSECONDS, "00:00:01.5", digits=digits) == [1_500_000]
    for mode in (ADAPTIVE, ADAPTIVE_TIME_MICROSECONDS):
        assert read(TIMESTAMP, mode, "1970-01-01 00:00:01.5", digits=digits) == [1500 if short else 1_500_000]
    assert read(TIMESTAMP, MICROSECONDS, "1970-01-01 00:00:01.5", digits=digits) == [1_500_000]


@pytest.mark.parametrize(
    ("oid", "mode", "digits", "text", "value"),
    [
        (DATE, MICROSECONDS, -1, "1970-01-02", 1),
        (DATE, CONNECT, -1, "1969-12-31", -1),
        (DATE, CONNECT, -1, "infinity", 2**31 - 1),
        (DATE, ISOSTRING, -1, "2024-05-01", "2024-05-01Z"),
        (DATE, ISOSTRING, -1, "0044-03-15 BC", "-0043-03-15Z"),
        (DATE, ISOSTRING, -1, "12024-05-01", "12024-05-01Z"),
        (DATE, ISOSTRING, -1, "-infinity", "-infinity"),
        (TIME, ADAPTIVE, 3, "24:00:00", 86_400_000),
        (TIME, CONNECT, -1, "12:30:00.999999", 45_000_999),
        (TIME, ISOSTRING, -1, "12:30:00.25", "12:30:00.25Z"),
        (TIMESTAMP, ADAPTIVE, 3, "1969-12-31 23:59:59.999", -1),
        (TIMESTAMP, ADAPTIVE, 3, "0044-03-15 12:00:00 BC", -63_517_780_800_000),
        (TIMESTAMP, ADAPTIVE, 3, "294276-12-31 00:00:00", 9_224_318_016_000 * 1000 - 86_400_000),
        (TIMESTAMP, ADAPTIVE, 3, "infinity", 2**63 - 1),
        (TIMESTAMP, ADAPTIVE, 3, "-infinity", -(2**63)),
        (TIMESTAMP, CONNECT, -1, "1969-12-31 23:59:59.999999", -1000),
        (TIMESTAMP, CONNECT, -1, "10000-01-01 00:00:00.999999", 253_402_300_800_999_000),
        (TIMESTAMP, CONNECT, -1, "infinity", 9_223_372_036_854_775_000),
        (TIMESTAMP, CONNECT, -1, "-infinity", -9_223_372_036_854_775_000),
        (TIMESTAMP, ISOSTRING, -1, "1969-12-31 23:59:59.123456", "1969-12-31T23:59:59.123456Z"),
        (TIMESTAMP, ISOSTRING, -1, "0001-01-01 00:00:00 BC", "0000-01-01T00:00:00Z"),
        (TIMESTAMPTZ, CONNECT, -1, "2024-05-01 12:30:00.25+00", "2024-05-01T12:30:00.25Z"),
        (TIMETZ, ADAPTIVE, -1, "12:30:00.5+00", "12:30:00.5Z"),
        (TIMETZ, ADAPTIVE, -1, "24:00:00+00", "24:00:00Z"),
        (TIMETZ, ISOSTRING, -1, "12:30:00.5-08", "20:30:00.5Z"),
        (TIMETZ, CONNECT, -1, "01:00:00+05:45", "19:15:00Z"),
        (TIMETZ, CONNECT, -1, "20:00:00-15:59:59", "11:59:59Z"),
    ],
)
def test_a_text_is_read_as_its_mode_says(oid: int, mode: TimePrecision, digits: int, text: str, value: object):
    assert read(oid, mode, text, None, digits=digits) == [value, None]
    # A value that needs Python's slow path must not affect the others of its column.
    unusual = {DATE: "0001-01-01 BC", TIMETZ: "01:00:00+01"}.get(oid, "infinity")
    if oid != TIME:
        assert read(oid, mode, unusual, text, digits=digits)[1] == value


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001 - as the server writes them
def test_moments_in_and_outside_the_usual_range_are_rounded_the_same_way(moment: datetime):
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
    text = moment.isoformat(sep=" ")
    for texts in ([text], [text, "infinity"]):
        found = values.timestamps_to_ms(pa.array(texts)).view(pa.int64())
        assert found.to_pylist()[0] == micros // 1000 * 1000


@pytest.mark.parametrize("mode", [ADAPTIVE, MICROSECONDS, CONNECT])
def test_a_moment_beyond_64_bits_of_microseconds_is_refused_by_name(mode: TimePrecision):
    with pytest.raises(DataError, match=r"column public\.t\.c .*time\.precision\.mode=isostring"):
        read(TIMESTAMP, mode, "294276-12-31 00:00:00")


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        (ADAPTIVE, ["io.debezium.time.Date", "io.debezium.time.Time", "io.debezium.time.MicroTimestamp"]),
        (ISOSTRING, ["io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.IsoTimestamp"]),
        (CONNECT, [f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp")]),
    ],
)
def test_schemas_have_the_names_of_debezium_and_connect(mode: TimePrecision, names: list[str]):
    kinds = [(DATE, -1), (TIME, 3), (TIMESTAMP, 6), (TIMESTAMPTZ, -1), (TIMETZ, -1), (JSONB, -1), (UUID, -1), (25, -1)]
    columns = [
        TableColumn(f"c{position}", position, kind_of(oid, mode, digits), position == 0)
        for position, (oid, digits) in enumerate(kinds)
    ]
    relation = Relation(1, "public", "t", ReplicaIdentity.DEFAULT, ())
    schema = parse_columns(TableEvents(EnvelopeSettings("p", "d"), relation, columns, "t").schema)
    value = schema["value"].dataType
    assert isinstance(value, spark.StructType)
    found = connect_schema(value["after"].dataType, optional=True)["fields"]

    assert [field.get("name") for field in found] == [
        *names, "io.debezium.time.ZonedTimestamp", "io.debezium.time.ZonedTime", "io.debezium.data.Json",
        "io.debezium.data.Uuid", None,
    ]  # fmt: skip
    assert {field["version"] for field in found if "name" in field} == {1}
    assert connect_schema(schema["key"].dataType, optional=False)["fields"][0]["name"] == names[0]
