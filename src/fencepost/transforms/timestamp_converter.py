"""Converts times between texts, numbers, and the types for dates and times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.spark_patterns import check_datetime_pattern
from fencepost.config.validators import one_of
from fencepost.transforms.base import (
    PartTransformation,
    define_null_default,
    divided,
    for_keys,
    formatted,
    planned_by_schema,
)
from fencepost.transforms.field_paths import Change, define_syntax, field_path, with_changes

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance

_TARGETS: Final = ("string", "unix", "Date", "Time", "Timestamp")
_PER_SECOND: Final = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_DAY: Final = 86_400_000
_TIME_SETTING: Final = "spark.sql.timeType.enabled"
_QUOTED: Final = re.compile("'[^']*'")


def _target(name: str, value: Any) -> None:
    if value not in _TARGETS:
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be one of {', '.join(_TARGETS)}", name=name
        )


@planned_by_schema
class TimestampConverter(PartTransformation):
    """Converts between texts, numbers, DATE, TIME and TIMESTAMP, in UTC and to the millisecond.

    `format` is a datetime pattern of Spark. Its usual letters mean the same as in Java's SimpleDateFormat. Its letters
    for week years, weeks and numbers of weekdays (Y, w, W, u) are refused. If a text does not match the pattern
    completely, the task fails. A text without an offset is in UTC. TIME needs `spark.sql.timeType.enabled=true`.
    """

    definitions = define_syntax(define_null_default(
        ConfigDef()
        .define("field", _Type.STRING, "", _Importance.HIGH, "The field to convert. Empty: the whole key or value.")
        .define(
            "target.type", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            f"The type to convert to: {', '.join(_TARGETS)}.", validator=_target,
        )
        .define(
            "format", _Type.STRING, "", _Importance.MEDIUM,
            "The format of strings that are read or written, as one of Spark's datetime patterns.",
        )
        .define(
            "unix.precision", _Type.STRING, "milliseconds", _Importance.LOW,
            f"The unit of numbers, counted from 1970: {', '.join(_PER_SECOND)}.", validator=one_of(tuple(_PER_SECOND)),
        )
    ))  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties.

        Raises ConfigError for texts without a format, and for a format that Spark reads differently.
        """
        super().configure(configs)
        field_path(self.properties["field"], self.properties, "field")
        self._pattern: str = self.properties["format"]
        self._letters = _QUOTED.sub("", self._pattern)
        self._per_second = _PER_SECOND[self.properties["unix.precision"].lower()]
        if self.properties["target.type"] == "string" and not self._pattern.strip():
            raise ConfigError("The target.type string needs a format: set it, to yyyy-MM-dd for example", name="format")
        if refused := sorted(set(self._letters) & set("YwWu")):
            raise ConfigError(
                f"The format {self._pattern!r} has {', '.join(refused)}, which Spark's datetime patterns do not have or "
                "use differently: write the year as yyyy, and no weeks",
                name="format",
            )
        check_datetime_pattern("format", self._pattern, parses=self.properties["target.type"] != "string")

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with the time converted."""
        enabled = str(records.sparkSession.conf.get(_TIME_SETTING)).lower() == "true"
        if self.properties["target.type"] == "Time" and not enabled:
            raise ConfigError(
                f"The target.type Time of {type(self).__name__} needs Spark's type TIME: set {_TIME_SETTING}=true for "
                "the worker",
                name="target.type",
            )
        return super().apply(records)

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the part with the time converted."""
        name = self.properties["field"]
        if not name:
            return self._converted(column, kind, self.part)
        path = field_path(name, self.properties, "field")
        self.field(kind, path)
        change: Change = lambda content, field: {field.name: self._converted(content, field.dataType, name)}  # noqa: E731
        return with_changes(column, self.struct(kind), {path: change})

    def _converted(self, column: Column, kind: t.DataType, name: str) -> Column:
        milliseconds = self._milliseconds(column, kind, name)
        in_day = F.pmod(milliseconds, F.lit(_DAY))
        match self.properties["target.type"]:
            case "string":
                return formatted(milliseconds, self._pattern)
            case "unix":
                return _scaled(milliseconds, 1_000, self._per_second)
            case "Date":
                return F.date_from_unix_date(divided(milliseconds - in_day, _DAY).cast("INT"))
            case "Time":
                return F.call_function("time_from_millis", in_day)
        return F.timestamp_millis(milliseconds)

    def _milliseconds(self, column: Column, kind: t.DataType, name: str) -> Column:
        """Return milliseconds since the epoch as BIGINT. Raises DataError for a type that cannot be read as a time."""
        match kind:
            case t.StringType():
                return F.unix_millis(self._parsed(column, name))
            case t.LongType():
                return _scaled(column, self._per_second, 1_000)
            case t.DateType():
                return F.unix_date(column).cast("BIGINT") * _DAY
            case t.TimeType():
                return F.call_function("time_to_millis", column)
            case t.TimestampType() | t.TimestampNTZType():
                return utc_millis(column, kind)
        raise DataError(
            f"The transform {type(self).__name__} cannot read a time from {name}, which is of type "
            f"{kind.simpleString()}: it must be STRING, BIGINT, DATE, TIME or TIMESTAMP. Put Cast before it"
        )

    def _parsed(self, column: Column, name: str) -> Column:
        if not self._pattern.strip():
            raise DataError(f"The transform {type(self).__name__} needs a format to read the text {name}: set format")
        if set(self._letters) & set("XxZzVO"):
            return F.to_timestamp(column, self._pattern)
        # UTC is appended, because a text without an offset would be read in the session's time zone.
        return F.to_timestamp(F.concat(column, F.lit(" Z")), f"{self._pattern} X")


def utc_millis(column: Column, kind: t.TimestampType | t.TimestampNTZType) -> Column:
    """Return milliseconds since the epoch as BIGINT.

    A time without a zone counts as UTC, whatever the session's zone.
    """
    if isinstance(kind, t.TimestampType):
        return F.unix_millis(column)
    seconds = F.hour(column) * 3_600 + F.minute(column) * 60 + F.date_part(F.lit("SECOND"), column)
    return F.unix_date(column.cast("DATE")).cast("BIGINT") * _DAY + F.floor(seconds * 1_000).cast("BIGINT")


def _scaled(column: Column, before: int, after: int) -> Column:
    return column * F.lit(after // before) if after >= before else divided(column, before // after)


TimestampConverterKey = for_keys(TimestampConverter)
