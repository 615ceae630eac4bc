"""Debezium's outbox EventRouter: the rows of an outbox table become messages.

https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html

    a row is inserted into the table outbox        what consumers see
    id            7f9c...                          header id: 7f9c...
    aggregatetype order                            topic outbox.event.order
    aggregateid   42                               key 42
    type          OrderCreated                     (a header, with additional.placement)
    payload       {"id": 42, ...}                  value {"id": 42, ...}

A PostgresSource keeps all rows of a transaction in one Kafka transaction, even for several topics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.api.schema_name import IDENTITY, JSON_METADATA, NULLS_METADATA, field_identity
from fencepost.config.java_regex import check_replacement, java_pattern, java_regex
from fencepost.config.validators import not_blank, one_of
from fencepost.transforms.base import DroppingTransformation, divided, is_json, planned_by_schema, text
from fencepost.transforms.change_event import ChangeEvent, EventColumns
from fencepost.transforms.event_fields import OLD_KEY, OPERATION

_log: Final = logging.getLogger(__name__)

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_FIELD: Final = "table.field.event."
_INVALID: Final = "table.op.invalid.behavior"
_PLACEMENT: Final = "table.fields.additional.placement"
_MILLISECONDS: Final = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
"""The number of units of a column's type in one millisecond."""
_ZONED: Final = "io.debezium.time.ZonedTimestamp"


class FieldPlace(Enum):
    """Where an additional column is put."""

    HEADER = "header"
    ENVELOPE = "envelope"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Additional:
    """A column of the outbox table, with its place and name in the message."""

    column: str
    place: FieldPlace
    alias: str


@planned_by_schema
class EventRouter(DroppingTransformation):
    """Converts the rows that are inserted into an outbox table to messages; other records stay as they are.

    Deletes, tombstones and truncates are dropped, so rows may be deleted as soon as they were inserted.
    """

    definitions = (
        ConfigDef()
        .define(_FIELD + "id", _Type.STRING, "id", _Importance.LOW,
            "The column that becomes the message's header id.", validator=not_blank)
        .define(_FIELD + "key", _Type.STRING, "aggregateid", _Importance.LOW,
            "The column that becomes the message's key.", validator=not_blank)
        .define(
            _FIELD + "type", _Type.STRING, "type", _Importance.LOW,
            "Accepted for compatibility: Debezium does not use it either. To write the column, use "
            "table.fields.additional.placement.",
        )
        .define(_FIELD + "payload", _Type.STRING, "payload", _Importance.LOW,
            "The column that becomes the message's value.", validator=not_blank)
        .define(
            _FIELD + "timestamp", _Type.STRING, None, _Importance.LOW,
            "The column that becomes the message's timestamp: a TIMESTAMP, or a column whose schema is Debezium's "
            "Timestamp, MicroTimestamp, NanoTimestamp or ZonedTimestamp. Unset, or if the column is null: ts_ms of "
            "the event.",
        )
        .define(
            _FIELD + "schema.version", _Type.STRING, None, _Importance.LOW,
            "The column that becomes the version of the value's schema, a whole number. It applies only if "
            "table.fields.additional.placement adds fields to the value.",
        )
        .define(
            _PLACEMENT, _Type.LIST, "", _Importance.LOW,
            "More columns of the table to write, as column:place or column:place:alias. The places are header, "
            "envelope (the value becomes a struct of payload and this column) and partition (a whole number).",
        )
        .define(
            "table.field.additional.missing", _Type.STRING, "error", _Importance.LOW,
            "What happens if the table lacks a column of table.fields.additional.placement. error: the records are "
            "refused (see errors.tolerance). ignore: the column is left out.",
            validator=one_of(("error", "ignore")),
        )
        .define(
            _INVALID, _Type.STRING, "warn", _Importance.LOW,
            "What happens to updates: rows of an outbox must only be inserted or deleted. warn, error: updates are "
            "dropped. A message of this level logs their number per batch, except behind a transform that drops "
            "records, and for DataFrames or files above 2 MiB, which Spark's executors transform. fatal: updates are "
            "refused (see errors.tolerance).", validator=one_of(("warn", "error", "fatal")),
        )
        .define(
            "table.expand.json.payload", _Type.BOOLEAN, False, _Importance.LOW,
            "Whether a payload that contains a JSON object or array is written as JSON by JsonConverter, without a "
            "schema, and not as a quoted string. Other strings stay strings.",
        )
        .define(
            "table.json.payload.null.behavior", _Type.STRING, "ignore", _Importance.LOW,
            "Accepted for compatibility: nulls in expanded JSON stay, as they need no schema.",
            validator=one_of(("ignore", "optional_bytes")),
        )
        .define(
            "table.json.payload.empty.array.behavior", _Type.STRING, "ignore", _Importance.LOW,
            "Accepted for compatibility: empty arrays in expanded JSON stay, as they need no schema.",
            validator=one_of(("ignore", "optional_string")),
        )
        .define("route.by.field", _Type.STRING, "aggregatetype", _Importance.HIGH,
            "The column from which the topic is derived, by route.topic.regex and route.topic.replacement.",
            validator=not_blank)
        .define(
            "route.topic.regex", _Type.STRING, "(?<routedByValue>.*)", _Importance.LOW,
            "A regular expression (Java's) for the whole content of the column route.by.field. If it does not match, "
            "the content itself is the topic.",
            validator=java_pattern,
        )
        .define(
            "route.topic.replacement", _Type.STRING, "outbox.event.${routedByValue}", _Importance.HIGH,
            "The topic, if route.topic.regex matches. $1 or ${name} stands for a group of it.",
        )
        .define(
            "route.tombstone.on.empty.payload", _Type.BOOLEAN, False, _Importance.LOW,
            "Whether a message whose payload is null or blank becomes a tombstone, a message with a null value.",
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an additional column without a known place."""
        super().configure(configs)
        regex, replacement = self.properties["route.topic.regex"], self.properties["route.topic.replacement"]
        try:
            check_replacement(java_regex("route.topic.regex", regex), replacement)
        except ValueError as error:
            name = "route.topic.replacement"
            raise ConfigError(f"The replacement {replacement!r} {error}", name=name) from None
        if traced := sorted(name for name in configs if name.startswith("tracing.")):
            _log.info(
                "EventRouter ignores %s: it writes no tracing spans, like Debezium without OpenTelemetry",
                ", ".join(traced),
            )
        self._additional = [_additional(given) for given in self.properties[_PLACEMENT] if given.strip()]
        _check_places(self._additional)

    def kept(self, records: DataFrame) -> Column:
        """Return which records are kept: inserted rows, and records that are not change events."""
        event = ChangeEvent.of(records.schema["value"].dataType)
        if event is None:
            return F.col("value").isNotNull()
        renamed = F.exists("headers", lambda header: header["key"] == F.lit(OLD_KEY))
        operation = F.when(renamed, "u").otherwise(F.col("value")[OPERATION])
        if self.properties[_INVALID].lower() == "fatal":
            why = "A row of the outbox was updated, which table.op.invalid.behavior=fatal refuses: only insert rows"
            operation = F.when(operation == "u", F.raise_error(F.lit(why)).cast("STRING")).otherwise(operation)
        return F.coalesce(operation.isin("c", "r"), F.lit(False)) & F.col("value")["after"].isNotNull()

    def log_dropped(self, records: pa.RecordBatch, whose: str) -> None:
        """Log how many events of a batch are updates, and how many are not changes of a row."""
        events, behavior = EventColumns.of(records), self.properties[_INVALID].lower()
        if events is None:
            return
        updates = pc.equal(events.operation, "u").true_count
        if updates and behavior != "fatal":
            _log.log(
                logging.ERROR if behavior == "error" else logging.WARNING,
                "%s: %d updates of rows of the outbox were dropped: a service must only insert rows, or delete them (%s=%s)",
                whose, updates, _INVALID, behavior,
            )  # fmt: skip
        inserts = pc.and_(pc.is_in(events.operation, pa.array(["c", "r"])), events.after)
        others = len(inserts) - updates - inserts.true_count - pc.equal(events.operation, "d").true_count
        if others:
            _log.warning(
                "%s: %d events of the outbox were dropped that are not inserts, updates or deletes of a row: truncates, or "
                "events without a row or a known op",
                whose, others,
            )  # fmt: skip

    def changed_records(self, records: DataFrame) -> DataFrame:
        """Return the messages for rows. Raises DataError for a table without the columns that the properties name."""
        event = ChangeEvent.of(records.schema["value"].dataType)
        row = None if event is None else event.sides.get("after")
        if row is None:
            return records
        messages = _Messages(type(self).__name__, self.properties, self._additional, row)
        value, metadata = messages.value()
        columns = {
            "topic": messages.topic(),
            "key": messages.column(_FIELD + "key"),
            "value": value.alias("value", metadata=metadata),
            "timestamp": messages.timestamp(records.schema["value"].dataType),
            "headers": messages.headers(records.schema["headers"].dataType),
        }
        more = {"partition": messages.partition(), IDENTITY: messages.identity()}
        return records.withColumns(columns | {name: column for name, column in more.items() if column is not None})


@dataclass(frozen=True, slots=True)
class _Messages:
    """Makes the messages from the rows of a table. `row` is the type of the rows."""

    plugin: str
    properties: Mapping[str, Any]
    additional: list[Additional]
    row: t.StructType

    def column(self, name: str) -> Column:
        """Return the content of the column that a property names."""
        self._require(self.properties[name], name)
        return self._after(self.properties[name])

    def topic(self) -> Column:
        routed = self.column("route.by.field")
        why = F.lit(f"A row of the outbox has no {self.properties['route.by.field']}, which says the topic: fill it in")
        # A reused plan evaluates this for dropped rows, too. If each delete caused an error, each batch would need a
        # new plan.
        refusal = F.when(F.col("value")["after"].isNotNull(), F.raise_error(why).cast("STRING"))
        given = F.coalesce(routed.cast("STRING"), refusal)
        regex = java_regex("route.topic.regex", self.properties["route.topic.regex"]).whole
        return F.regexp_replace(given, F.lit(regex), F.lit(self.properties["route.topic.replacement"]))

    def value(self) -> tuple[Column, dict[str, Any]]:
        """Return the value, and the metadata of its column."""
        payload = self.column(_FIELD + "payload")
        kind = self.row[self.properties[_FIELD + "payload"]].dataType
        fields = [given for given in self._present_fields() if given.place is FieldPlace.ENVELOPE]
        metadata: dict[str, Any] = {}
        expanded = bool(self.properties["table.expand.json.payload"]) and isinstance(kind, t.StringType)
        if expanded:
            metadata[JSON_METADATA] = True
        beside = F.struct(*(self._after(given.column).alias(given.alias) for given in fields)) if fields else None
        if expanded:
            value = _expanded(payload, beside)
        elif beside is None:
            value = payload
        else:
            more = (self._after(given.column).alias(given.alias) for given in fields)
            value = F.struct(payload.alias("payload"), *more)
        if self.properties["route.tombstone.on.empty.payload"]:
            metadata[NULLS_METADATA] = True
            blank = payload.isNull()
            if isinstance(kind, t.StringType):
                blank |= F.trim(payload) == ""
            value = F.when(~blank, value)
        return value, metadata

    def timestamp(self, event: t.DataType) -> Column:
        name = self.properties[_FIELD + "timestamp"]
        has_time = isinstance(event, t.StructType) and "ts_ms" in event.names
        of_event = F.col("value")["ts_ms"].cast("BIGINT") if has_time else F.col("timestamp")
        return F.coalesce(self._own_timestamp(name), of_event) if name else of_event

    def _own_timestamp(self, name: str) -> Column:
        self._require(name, _FIELD + "timestamp")
        field, column = self.row[name], self._after(name)
        if isinstance(field.dataType, t.TimestampType):
            return F.unix_millis(column)
        kind = field_identity(field).get("name", "")
        if kind == _ZONED:
            return F.unix_millis(column.cast("TIMESTAMP"))
        divisor = _MILLISECONDS.get(kind)
        if divisor is None:
            raise DataError(
                f"{self.plugin} needs a timestamp in {_FIELD}timestamp, but the column {name} is of type "
                f"{field.dataType.simpleString()}: name a column of a timestamp type"
            )
        # Rounded down, so that a time shortly before 1970 does not become 0, but is refused.
        return divided(column - F.pmod(column, F.lit(divisor)), divisor)

    def headers(self, kind: t.DataType) -> Column:
        """Return the existing headers, `id`, and additional columns. All headers are texts."""
        named = [(self.properties[_FIELD + "id"], "id")]
        self._require(named[0][0], _FIELD + "id")
        named += [(given.column, given.alias) for given in self._present_fields() if given.place is FieldPlace.HEADER]
        pair = kind.elementType if isinstance(kind, t.ArrayType) else kind
        if not (isinstance(pair, t.StructType) and isinstance(pair["value"].dataType, t.BinaryType)):
            # With another type, headers could not hold the texts that other transforms add.
            kind = t.ArrayType(t.StructType().add("key", t.StringType()).add("value", t.StringType()))
        contents = ((alias, text(self._after(column), self.row[column].dataType)) for column, alias in named)
        added = F.array(*(F.struct(F.lit(alias).alias("key"), content.alias("value")) for alias, content in contents))
        return F.concat(F.coalesce(F.col("headers").cast(kind), F.array().cast(kind)), added.cast(kind))

    def partition(self) -> Column | None:
        placed = [given for given in self._present_fields() if given.place is FieldPlace.PARTITION]
        return self._whole(placed[0].column, _PLACEMENT) if placed else None

    def identity(self) -> Column | None:
        """Return the name and version of a struct value's schema as JSON; None for other values.

        The name is the original topic, the content of `route.by.field` and `Value`, joined by dots.
        """
        if all(given.place is not FieldPlace.ENVELOPE for given in self._present_fields()):
            return None
        routed = self.column("route.by.field").cast("STRING")
        parts = [F.concat_ws(".", "topic", routed, F.lit("Value")).alias("name")]
        if self.properties[_FIELD + "schema.version"]:
            name = _FIELD + "schema.version"
            parts.append(self._whole(self.properties[name], name).alias("version"))
        return F.to_json(F.struct(*parts))

    def _present_fields(self) -> list[Additional]:
        if self.properties["table.field.additional.missing"].lower() == "ignore":
            return [given for given in self.additional if given.column in self.row.names]
        for given in self.additional:
            self._require(given.column, _PLACEMENT)
        return self.additional

    def _whole(self, name: str, property_name: str) -> Column:
        """Return the content of a column that must have whole numbers, because a cast would cut off fractions."""
        self._require(name, property_name)
        kind = self.row[name].dataType
        if isinstance(kind, t.FractionalType) and not (isinstance(kind, t.DecimalType) and kind.scale == 0):
            raise DataError(
                f"{self.plugin} needs whole numbers in the column {name}, as {property_name} says, but it is of type "
                f"{kind.simpleString()}: name another column"
            )
        return self._after(name).cast("INT")

    def _after(self, name: str) -> Column:
        return F.col("value")["after"][name]

    def _require(self, name: str, property_name: str) -> None:
        if name not in self.row.names:
            raise DataError(
                f"{self.plugin} needs the column {name!r} of the outbox table, as {property_name} says; it has: "
                f"{', '.join(self.row.names)}. Correct {property_name}, or capture the outbox table with a connector of its "
                "own"
            )


def _expanded(payload: Column, beside: Column | None) -> Column:
    """Return a payload as JSON: objects and arrays unchanged, other texts in quotes. Fields `beside` it are added."""
    in_struct = F.to_json(F.struct(payload.alias("a")), {"ignoreNullFields": "false"})
    json = F.when(is_json(payload), payload).otherwise(_inner(in_struct))
    if beside is None:
        return F.when(payload.isNotNull(), json)
    more = F.to_json(beside, {"ignoreNullFields": "false"})
    return F.concat(F.lit('{"payload":'), json, F.lit(","), F.substring(more, F.lit(2), F.length(more)))


def _inner(json: Column) -> Column:
    """Return the JSON of v from the text {"a":v}."""
    return F.substring(json, F.lit(len('{"a":') + 1), F.length(json) - len('{"a":}'))


def _additional(given: str) -> Additional:
    column, _, rest = given.strip().partition(":")
    place, _, alias = rest.partition(":")
    try:
        found = FieldPlace(place.strip().lower() if column.strip() else "")
    except ValueError:
        raise ConfigError(
            f"{_PLACEMENT} has {given.strip()!r}: write column:place or column:place:alias, where place is header, "
            "envelope or partition",
            name=_PLACEMENT,
        ) from None
    return Additional(column.strip(), found, alias.strip() or column.strip())


def _check_places(additional: list[Additional]) -> None:
    """Raise ConfigError if two columns are placed in the same field of the value, or if two choose the partition."""
    fields = ["payload", *(given.alias for given in additional if given.place is FieldPlace.ENVELOPE)]
    if twice := next((name for name in fields if fields.count(name) > 1), None):
        raise ConfigError(
            f"{_PLACEMENT} gives the value the field {twice} twice: give each another alias", name=_PLACEMENT
        )
    if sum(given.place is FieldPlace.PARTITION for given in additional) > 1:
        raise ConfigError(f"{_PLACEMENT} has several columns for the partition: leave one", name=_PLACEMENT)
