"""How Debezium represents PostgreSQL's dates and times, for each value of `time.precision.mode`.

| | adaptive | adaptive_time_microseconds | microseconds | connect | isostring |
|---|---|---|---|---|---|
| date | Date | Date | Date | Connect's Date | IsoDate |
| time(0) to time(3) | Time | MicroTime | MicroTime | Connect's Time | IsoTime |
| time(4) to time(6), time | MicroTime | MicroTime | MicroTime | Connect's Time | IsoTime |
| timestamp(0) to timestamp(3) | Timestamp | Timestamp | MicroTimestamp | Connect's Timestamp | IsoTimestamp |
| timestamp(4) to timestamp(6), timestamp | MicroTimestamp | MicroTimestamp | MicroTimestamp | Connect's Timestamp | IsoTimestamp |
| timetz | ZonedTime | ZonedTime | ZonedTime | ZonedTime | ZonedTime |
| timestamptz | ZonedTimestamp | ZonedTimestamp | ZonedTimestamp | ZonedTimestamp | ZonedTimestamp |

The names are from `io.debezium.time`, except for Connect's own types. Date is days since 1970 (INT). Time and Timestamp
are milliseconds (INT, BIGINT). MicroTime and MicroTimestamp are microseconds (BIGINT). The other types are ISO 8601
texts in UTC, but in keys a timetz keeps its zone.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-temporal-types
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

from fencepost.connectors.postgres.types import values
from fencepost.connectors.postgres.types.value_types import ValueType, unrounded

DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ = 1082, 1083, 1114, 1184, 1266
# The number of digits after the decimal point in seconds with milliseconds.
_MILLIS: Final = 3
_NAME: Final = "io.debezium.time."


class TimePrecision(StrEnum):
    """The values of `time.precision.mode`."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    MICROSECONDS = "microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"


_DATE: Final = ValueType("INT", pa.int32(), values.dates, semantic=f"{_NAME}Date")
_TIME: Final = ValueType("INT", pa.int32(), values.times_ms, semantic=f"{_NAME}Time")
_MICRO_TIME: Final = ValueType("BIGINT", pa.int64(), values.times, semantic=f"{_NAME}MicroTime")
_TIMESTAMP: Final = ValueType("BIGINT", pa.int64(), values.timestamps_ms, semantic=f"{_NAME}Timestamp")
_MICRO_TIMESTAMP: Final = ValueType("BIGINT", pa.int64(), values.timestamps, semantic=f"{_NAME}MicroTimestamp")
_ZONED: Final = {
    TIMESTAMPTZ: ValueType("STRING", pa.string(), values.zoned, semantic=f"{_NAME}ZonedTimestamp"),
    TIMETZ: ValueType("STRING", pa.string(), values.zoned_times, semantic=f"{_NAME}ZonedTime"),
}
_ZONED_TIME_KEY: Final = ValueType("STRING", pa.string(), values.zoned_keys, semantic=f"{_NAME}ZonedTime")
_ISO: Final = {
    DATE: ValueType("STRING", pa.string(), values.iso, semantic=f"{_NAME}IsoDate"),
    TIME: ValueType("STRING", pa.string(), values.iso, semantic=f"{_NAME}IsoTime"),
    TIMESTAMP: ValueType("STRING", pa.string(), values.iso, semantic=f"{_NAME}IsoTimestamp"),
}
# Spark's DATE and TIMESTAMP_NTZ stand for Connect's Date and Timestamp. Transforms have no type for times of day.
_CONNECT: Final = {
    DATE: ValueType("DATE", pa.date32(), lambda texts: values.dates(texts).view(pa.date32())),
    TIME: ValueType("INT", pa.int32(), values.times_ms, semantic="org.apache.kafka.connect.data.Time"),
    TIMESTAMP: ValueType("TIMESTAMP_NTZ", pa.timestamp("us"), values.timestamps_to_ms),
}


def temporal_type(oid: int, modifier: int, precision: TimePrecision) -> ValueType | None:
    """Return how values of a date or time are represented, None for other types.

    `modifier` is the column's atttypmod: the number of digits of its seconds; a negative modifier means 6 digits.
    """
    if precision is TimePrecision.ISOSTRING:
        return (_ZONED | _ISO).get(oid)
    if precision is TimePrecision.CONNECT:
        return (_ZONED | _CONNECT).get(oid)
    short = 0 <= modifier <= _MILLIS
    times = _TIME if short and precision is TimePrecision.ADAPTIVE else _MICRO_TIME
    timestamps = _TIMESTAMP if short and precision is not TimePrecision.MICROSECONDS else _MICRO_TIMESTAMP
    return (_ZONED | {DATE: _DATE, TIME: times, TIMESTAMP: timestamps}).get(oid)


def temporal_key(oid: int, precision: TimePrecision) -> ValueType | None:
    """Return how a date or time is represented in keys, None if in the same way as in rows."""
    if oid == TIMETZ:
        return _ZONED_TIME_KEY
    if precision is TimePrecision.CONNECT and oid in (TIME, TIMESTAMP):
        return unrounded(_CONNECT[oid], values.within_milliseconds, "has microseconds, which are cut off")
    return None
