"""Transforms of whole records: RegexRouter, TimestampRouter, ValueToKey, InsertHeader, DropHeaders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import ArrayType, DataType, NullType, StructType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.java_regex import check_replacement, java_pattern, java_regex
from fencepost.config.spark_patterns import check_datetime_pattern
from fencepost.config.validators import not_blank, not_empty
from fencepost.transforms.base import (
    PartTransformation,
    RecordTransformation,
    define_null_default,
    formatted,
    planned_by_schema,
    reads_no_content,
    refused,
)
from fencepost.transforms.field_paths import content_at, define_syntax, field_path

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_NO_KEY = "has no fields for the key of this record: apply it to other records alone, with a negated predicate RecordIsTombstone"
_PLACE = re.compile(r"\$\{(topic|timestamp)\}")


def _time_format(name: str, value: Any) -> None:
    not_blank(name, value)
    check_datetime_pattern(name, str(value))


@planned_by_schema
@reads_no_content
class RegexRouter(RecordTransformation):
    """Renames topics whose whole name matches a regular expression (Java's)."""

    definitions = (
        ConfigDef()
        .define(
            "regex", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The regular expression (Java's) that the whole name of the topic must match.",
            validator=java_pattern,
        )
        .define(
            "replacement", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The new name of the topic. $1 stands for a group, ${name} for a named group; a backslash before a "
            "character removes its special meaning, as in \\$.",
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an invalid expression or replacement."""
        super().configure(configs)
        regex, replacement = java_regex("regex", self.properties["regex"]), self.properties["replacement"]
        try:
            check_replacement(regex, replacement)
        except ValueError as error:
            raise ConfigError(f"The replacement {replacement!r} {error}", name="replacement") from None

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with their new topic."""
        regex = java_regex("regex", self.properties["regex"]).whole
        return records.withColumn(
            "topic", F.regexp_replace(F.col("topic"), F.lit(regex), F.lit(self.properties["replacement"]))
        )


@reads_no_content
class TimestampRouter(RecordTransformation):
    """Adds the record's time, in UTC, to its topic's name.

    If a record has no timestamp, the current time is used.
    """

    definitions = (
        ConfigDef()
        .define(
            "topic.format", _Type.STRING, "${topic}-${timestamp}", _Importance.HIGH,
            "The new name of the topic, in which ${topic} stands for the old name and ${timestamp} for the time.",
            validator=not_blank,
        )
        .define(
            "timestamp.format", _Type.STRING, "yyyyMMdd", _Importance.HIGH,
            "The format of ${timestamp}, as one of Spark's datetime patterns.", validator=_time_format,
        )
    )  # fmt: skip

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with their new topic."""
        milliseconds = F.coalesce(F.col("timestamp"), F.unix_millis(F.current_timestamp()))
        time = formatted(milliseconds, self.properties["timestamp.format"])
        # Every second part is the name of a placeholder; the others are text.
        parts: list[Column] = []
        for index, part in enumerate(_PLACE.split(self.properties["topic.format"])):
            parts.append(F.lit(part) if index % 2 == 0 else F.col("topic") if part == "topic" else time)
        return records.withColumn("topic", F.concat(*parts))


@planned_by_schema
class ValueToKey(PartTransformation):
    """Sets the key to a struct of fields of the value. A record with a null value has no fields, and is refused.

    The key of a tombstone already names the deleted row. So exclude tombstones with a negated RecordIsTombstone.
    """

    definitions = define_syntax(
        define_null_default(
            ConfigDef().define(
                "fields",
                _Type.LIST,
                ConfigDef.NO_DEFAULT,
                _Importance.HIGH,
                "The fields of the value that become the fields of the key, comma-separated.",
                validator=not_empty,
            )
        )
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError if two fields would have the same name in the key."""
        super().configure(configs)
        self._paths = [field_path(name, self.properties, "fields") for name in self.properties["fields"]]
        if len({path[-1] for path in self._paths}) < len(self._paths):
            raise ConfigError("fields has several fields of one name: a key cannot hold them all", name="fields")

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with their new key."""
        value, kind = F.col("value"), records.schema["value"].dataType
        refusal = refused(records, F.lit(f"The value is null, so {type(self).__name__} {_NO_KEY}"))
        given = (
            refusal
            if isinstance(kind, NullType)
            else F.when(value.isNull(), refusal).otherwise(self.changed(value, kind))
        )
        return records.withColumn("key", given)

    def changed(self, column: Column, kind: DataType) -> Column:
        """Return the key for a value that is not null."""
        return F.struct(*(content_at(column, path).alias(self.field(kind, path).name) for path in self._paths))


@planned_by_schema
class InsertHeader(RecordTransformation):
    """Adds a header with a fixed text."""

    definitions = (
        ConfigDef()
        .define(
            "header",
            _Type.STRING,
            ConfigDef.NO_DEFAULT,
            _Importance.MEDIUM,
            "The name of the header.",
            validator=not_blank,
        )
        .define(
            "value.literal",
            _Type.STRING,
            ConfigDef.NO_DEFAULT,
            _Importance.MEDIUM,
            "The value of the header, a fixed text.",
        )
    )

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with the header after the existing headers."""
        kind = records.schema["headers"].dataType
        header = F.struct(
            F.lit(self.properties["header"]).alias("key"), F.lit(self.properties["value.literal"]).alias("value")
        )
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
            header = header.cast(kind.elementType)
        added = F.array(header)
        return records.withColumn("headers", F.concat(F.coalesce(F.col("headers"), F.array().cast(kind)), added))


@planned_by_schema
@reads_no_content
class DropHeaders(RecordTransformation):
    """Removes headers by their names."""

    definitions = ConfigDef().define(
        "headers",
        _Type.LIST,
        ConfigDef.NO_DEFAULT,
        _Importance.HIGH,
        "The names of the headers to remove, comma-separated.",
        validator=not_empty,
    )

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with the remaining headers."""
        dropped = self.properties["headers"]
        return records.withColumn("headers", F.filter("headers", lambda header: ~header["key"].isin(dropped)))
