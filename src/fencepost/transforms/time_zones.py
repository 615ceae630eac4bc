"""Debezium's TimezoneConverter: it converts the times in change events to another time zone.

https://debezium.io/documentation/reference/stable/transformations/timezone-converter.html
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.api.schema_name import field_identity
from fencepost.transforms.base import divided, formatted, planned_by_schema
from fencepost.transforms.change_event import ChangeEvent
from fencepost.transforms.event_sides import EventSideTransformation, same_nulls

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_OFFSET: Final = re.compile(r"[+-]\d{2}:\d{2}(:\d{2})?")
_TIME: Final = "io.debezium.time."
_UNITS: Final = {
    f"{_TIME}Timestamp": 1_000,
    f"{_TIME}MicroTimestamp": 1_000_000,
    f"{_TIME}NanoTimestamp": 1_000_000_000,
}
"""The number of units per second, for each type of column."""
_ZONED: Final = r"^(-?\d{4,})-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d(:\d\d)?)$"
_PREFIXES: Final = ("topic", "source")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the events of a topic or table. `kind` is topic or source; None means both.

    `field` is a field of the events, as `before.x` or `x`; None means all times in before and after.
    """

    kind: str | None
    name: str
    field: str | None


@planned_by_schema
class TimezoneConverter(EventSideTransformation):
    """Converts the times of change events to a time zone.

    A ZonedTimestamp stays the same instant, and gets the offset that the zone has at that instant. Timestamps without a
    zone are numbers, written as if in UTC. They are treated as local times of the zone, and become instants. If the
    clock skips such a time, it is moved forward; if the clock shows it twice, the first of the two is meant. Dates and
    times of day are not converted.
    """

    definitions = (
        ConfigDef()
        .define(
            "converted.timezone", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The time zone to convert to: a name such as America/New_York, or an offset such as +08:00.",
        )
        .define(
            "include.list", _Type.LIST, "", _Importance.HIGH,
            "Rules that select the events and fields to convert, comma-separated. topic:NAME or source:TABLE converts "
            "all times in before and after of a topic's or table's events; topic:NAME:FIELD or source:TABLE:FIELD "
            "converts this field only: a column, such as created, or a path, such as after.created. In NAME:FIELD "
            "without such a prefix, the prefix of the previous rule applies; in a first rule, NAME is a topic or a "
            "table. Empty: all times in before and after of all events. Not allowed together with exclude.list.",
        )
        .define(
            "exclude.list", _Type.LIST, "", _Importance.HIGH,
            "Rules that select the events and fields not to convert, in the form of include.list. All other times in "
            "before and after are converted.",
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an unknown zone, a malformed rule, and both lists."""
        super().configure(configs)
        zone = self.properties["converted.timezone"]
        if not _OFFSET.fullmatch(zone) and zone not in zoneinfo.available_timezones():
            raise ConfigError(
                f"converted.timezone={zone} is not known: write a name of the tz database, such as America/New_York, or "
                "an offset as +08:00",
                name="converted.timezone",
            )
        if self.properties["include.list"] and self.properties["exclude.list"]:
            raise ConfigError("Set include.list or exclude.list, not both", name="exclude.list")
        self._includes = not self.properties["exclude.list"]
        name = "include.list" if self._includes else "exclude.list"
        self._rules = _rules(name, self.properties[name])

    def changes(self, event: ChangeEvent, value: Column) -> Iterator[tuple[tuple[str, str], Column]]:
        """Yield the times in the rows before and after, and in `source` if rules name them."""
        source = event.kind["source"].dataType
        has_table = isinstance(source, t.StructType) and "table" in source.names
        table = value["source"]["table"] if has_table else F.lit(None).cast("STRING")
        sides: dict[str, t.DataType] = {**event.sides, "source": source}
        for side, kind in sides.items():
            for field in kind.fields if isinstance(kind, t.StructType) else ():
                wanted = self._wanted(side, field.name, table)
                if wanted is None:
                    continue
                content = value[side][field.name]
                converted = self._converted(content, field, f"{side}.{field.name}")
                if converted is not None:
                    # A value that cannot be converted, such as infinity, is unchanged.
                    new = F.coalesce(F.when(wanted, converted), content)
                    yield (side, field.name), same_nulls(field, new)

    def _wanted(self, side: str, name: str, table: Column) -> Column | None:
        """Return whether a field of an event is converted; None if it never is.

        Only the first rules that match an event apply: rules for its topic, else for its table, else for either.
        """
        if not self._rules:
            return None if side == "source" else F.lit(True)
        found: Column | None = None
        for kind, of in (("topic", "topic"), ("source", "table"), (None, "topic"), (None, "table")):
            for subject in dict.fromkeys(rule.name for rule in self._rules if rule.kind == kind):
                fields = {rule.field for rule in self._rules if (rule.kind, rule.name) == (kind, subject)} - {None}
                matches = (F.col("topic") if of == "topic" else table) == F.lit(subject)
                wanted = F.lit(self._of_rules(side, name, {field for field in fields if field}))
                found = F.when(matches, wanted) if found is None else found.when(matches, wanted)
        otherwise = F.lit(not self._includes and side != "source")
        return otherwise if found is None else found.otherwise(otherwise)

    def _of_rules(self, side: str, name: str, fields: set[str]) -> bool:
        """Return whether the rules for an event's topic or table convert a field.

        `fields` are the fields that these rules name, if any.
        """
        named = f"{side}.{name}" in fields or (name in fields and side != "source")
        if self._includes:
            return named or (not fields and side != "source")
        return bool(fields) and not named and side != "source"

    def _converted(self, content: Column, field: t.StructField, where: str) -> Column | None:
        """Return the time in the zone; None if the field has another type."""
        semantic = field_identity(field).get("name", "")
        zone = F.lit(self.properties["converted.timezone"])
        match field.dataType:
            case t.TimestampType():
                return F.to_utc_timestamp(content, zone)
            case t.TimestampNTZType():
                return F.convert_timezone(zone, F.lit("UTC"), content)
            case t.LongType() if semantic in _UNITS:
                return _as_local(content, _UNITS[semantic], zone)
            case t.StringType() if semantic == f"{_TIME}ZonedTimestamp":
                return _with_offset(content, zone)
            case t.StringType() if semantic == f"{_TIME}ZonedTime":
                raise DataError(
                    f"TimezoneConverter cannot convert {where}: the offset of a time of day without a date is not known. "
                    "Name it in exclude.list"
                )
        return None


def _as_local(content: Column, per_second: int, zone: Column) -> Column:
    """Convert a local time, in units since the epoch as if it were UTC, to its instant in the same units."""
    rest = F.pmod(content, F.lit(per_second))
    local = F.timestamp_seconds(divided(content - rest, per_second))
    return F.unix_seconds(F.to_utc_timestamp(local, zone)) * F.lit(per_second) + rest


def _with_offset(content: Column, zone: Column) -> Column:
    """Return the same instant as a text with the zone's offset; null for a text that is not a time with an offset."""
    # Offsets are whole seconds, so the fraction of a second is unchanged, up to nanoseconds.
    fraction = F.regexp_extract(content, r"(\.\d+)", 1)

    def written(instant: Column) -> Column:
        local = F.from_utc_timestamp(instant, zone)
        text = formatted(F.unix_millis(local), "yyyy-MM-dd'T'HH:mm:ss")
        return F.concat(text, fraction, _let(F.unix_seconds(local) - F.unix_seconds(instant), _ending))

    return _let(F.when(content.rlike(_ZONED), content).try_cast("TIMESTAMP"), written)


def _ending(offset: Column) -> Column:
    """Return an offset in seconds as a text."""
    size = F.abs(offset)
    signed = F.format_string(
        "%s%02d:%02d", F.when(offset < 0, "-").otherwise("+"), divided(size, 3600), F.pmod(divided(size, 60), F.lit(60))
    )
    seconds = F.pmod(size, F.lit(60))
    with_seconds = F.concat(signed, F.format_string(":%02d", seconds))
    return F.when(offset == 0, "Z").when(seconds == 0, signed).otherwise(with_seconds)


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return an expression in which `value` is evaluated once.

    Without this, each use of `value` would be a copy of its expression, and Java's compiler would run out of memory.
    """
    return F.transform(F.array(value), body)[0]


def _rules(name: str, given: Sequence[Any]) -> tuple[Rule, ...]:
    """Return the rules in a list.

    A rule that does not begin with source or topic has the same kind as the previous one.
    """
    rules: list[Rule] = []
    for text in (str(item).strip() for item in given):
        parts = [part.strip() for part in text.split(":")]
        kind = parts.pop(0).lower() if parts[0].lower() in _PREFIXES and len(parts) > 1 else None
        inherited = rules[-1].kind if rules else None
        if not all(parts) or len(parts) > 2 or (kind is None and inherited is None and len(parts) < 2):
            raise ConfigError(
                f"{name} has the rule {text!r}: write source:table, source:table:field, topic:name, topic:name:field or "
                "name:field",
                name=name,
            )
        rules.append(Rule(kind or inherited, parts[0], parts[1] if len(parts) > 1 else None))
    return tuple(rules)
