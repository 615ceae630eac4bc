"""Debezium's EnforceRecordSize: shortens the long texts and bytes of change events that are too large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.validators import at_least, one_of
from fencepost.transforms.base import planned_by_schema
from fencepost.transforms.change_event import ChangeEvent
from fencepost.transforms.event_sides import SIDES, EventSideTransformation, same_nulls

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_CUT: Final = "\ufffd+$"
"""Matches the replacement character that stands for the first part of a character that was cut in two."""


@planned_by_schema
class EnforceRecordSize(EventSideTransformation):
    """Shortens long texts and bytes of before and after, in proportion to their sizes, so that an event is not too large.

    The size counts the key and the value as JSON without a schema, in bytes. If the long columns of an event are
    smaller than the excess, the event stays too large.
    """

    definitions = (
        ConfigDef()
        .define(
            "max.bytes", _Type.INT, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The maximum size of an event's key and value together, as JSON without a schema, in bytes.",
            validator=at_least(1),
        )
        .define(
            "compression.ratio", _Type.DOUBLE, 1.0, _Importance.MEDIUM,
            "A factor above 0 by which the size as JSON is multiplied, such as 0.5 for a format that needs half the "
            "space.",
        )
        .define(
            "min.field.size", _Type.INT, 25_000, _Importance.MEDIUM,
            "Columns of at most this size, in bytes, are not shortened.", validator=at_least(0),
        )
        .define(
            "strategy", _Type.STRING, "truncate", _Importance.LOW,
            "How columns are shortened: only truncate is supported.", validator=one_of(("truncate",))
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for a ratio that is not greater than 0."""
        super().configure(configs)
        if not self.properties["compression.ratio"] > 0:
            raise ConfigError("compression.ratio must be above 0", name="compression.ratio")

    def changes(self, event: ChangeEvent, value: Column) -> Iterator[tuple[tuple[str, str], Column]]:
        """Yield the shortened columns of the rows before and after."""
        columns = {
            (side, field.name): field
            for side in SIDES
            if side in event.sides
            for field in event.sides[side].fields
            if isinstance(field.dataType, t.StringType | t.BinaryType)
        }
        if not columns:
            return
        sizes = {path: self._long_size(value[path[0]][path[1]]) for path in columns}
        total = reduce(Column.__add__, sizes.values())
        excess = self._size(value) - self.properties["max.bytes"]
        for path, field in columns.items():
            content, size = value[path[0]][path[1]], sizes[path]
            left = size - F.ceil(size * excess / F.nullif(total, F.lit(0)))
            shortened = F.when((excess > 0) & (size > 0), _shortened(content, field.dataType, left))
            yield path, same_nulls(field, F.coalesce(shortened, content))

    def _size(self, value: Column) -> Column:
        parts = F.to_json(F.struct(F.col("key").alias("k"), value.alias("v")), {"ignoreNullFields": "false"})
        return F.ceil((F.octet_length(parts) - len('{"k":,"v":}')) * F.lit(self.properties["compression.ratio"]))

    def _long_size(self, content: Column) -> Column:
        size = F.coalesce(F.octet_length(content), F.lit(0))
        return F.when(size > self.properties["min.field.size"], size).otherwise(0)


def _shortened(content: Column, kind: t.DataType, size: Column) -> Column:
    """Return the first bytes of a content. If it is text, a character that would be cut in two is left out."""
    kept = F.greatest(size, F.lit(0)).cast("INT")
    first = F.substring(content.cast("BINARY"), F.lit(1), kept)
    return (
        first
        if isinstance(kind, t.BinaryType)
        else F.regexp_replace(F.make_valid_utf8(first.cast("STRING")), F.lit(_CUT), F.lit(""))
    )
