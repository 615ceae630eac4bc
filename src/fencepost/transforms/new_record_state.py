"""Debezium's ExtractNewRecordState: change events are replaced by the rows after the change.

https://debezium.io/documentation/reference/stable/transformations/event-flattening.html
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import ArrayType, BinaryType, DataType, NullType, StringType, StructField, StructType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.api.schema_name import NULLS_METADATA
from fencepost.api.spark_names import backticked
from fencepost.config.validators import one_of
from fencepost.transforms.base import DroppingTransformation, define_null_default, is_json, planned_by_schema, text
from fencepost.transforms.change_event import ChangeEvent, EventColumns
from fencepost.transforms.event_fields import OPERATION, event_fields
from fencepost.transforms.event_sides import same_nulls

_log: Final = logging.getLogger(__name__)

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_DELETED: Final = "__deleted"
_MODE: Final = "delete.tombstone.handling.mode"
_COMPATIBLE: Final = "drop.fields.keep.schema.compatible"


@planned_by_schema
class ExtractNewRecordState(DroppingTransformation):
    """Replaces change events by the row after the change; other records stay as they are.

    Truncate events, which have no row, are dropped. A null value counts as the tombstone of a delete.
    """

    definitions = define_null_default(
        ConfigDef()
        .define(
            _MODE, _Type.STRING, "tombstone", _Importance.MEDIUM,
            "What happens to deletes, and to the tombstones that may follow them. drop: both are dropped. tombstone: the "
            "delete becomes a record with a null value, and the tombstone is dropped. delete-to-tombstone: as tombstone, "
            "but the null never has a schema, even if a connector polls records one by one. rewrite: "
            f"the delete becomes the row before it, and the tombstone is dropped; all records get the field {_DELETED} "
            "with the text true or false. rewrite-with-tombstone: as rewrite, but the tombstone stays.",
            validator=one_of(_MODES),
        )
        .define(
            "add.fields", _Type.LIST, "", _Importance.LOW,
            "Fields of the event to add to the row: op, ts_ms, fields of transaction (id, total_order) and of source "
            "(table, lsn), or a path such as before.id. A new name may follow a colon, as in 'op:operation'. Fields "
            "that the events lack are left out.",
        )
        .define("add.fields.prefix", _Type.STRING, "__", _Importance.LOW, "The prefix of the names of added fields.")
        .define(
            "add.headers", _Type.LIST, "", _Importance.LOW,
            "Fields of the event to add as headers, in the form of add.fields; their values are written as text. A "
            "tombstone that stays gets only the header for op, with the value d.",
        )
        .define("add.headers.prefix", _Type.STRING, "__", _Importance.LOW, "The prefix of the names of added headers.")
        .define(
            "route.by.field", _Type.STRING, "", _Importance.LOW,
            "The column whose value becomes the topic; it must be a STRING. For a delete, the row before it counts. "
            "If the column is null, the topic stays.",
        )
        .define(
            "drop.fields.header.name", _Type.STRING, None, _Importance.LOW,
            "The header that lists the fields to drop from a record, as a list of strings, or as a string with a list "
            "in JSON. The rows of a batch share their schema, so dropped fields stay in the schema, and are null.",
        )
        .define(
            "drop.fields.from.key", _Type.BOOLEAN, False, _Importance.LOW,
            "Whether the fields in the header drop.fields.header.name are dropped from the key as well.",
        )
        .define(
            _COMPATIBLE, _Type.BOOLEAN, True, _Importance.LOW,
            "Whether a listed field is dropped only if its schema allows null.",
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an invalid property."""
        super().configure(configs)
        given = self.properties
        self._mode: str = given[_MODE].lower()
        self._fields, self._headers = (
            event_fields(given[name], prefix=given[f"{name}.prefix"], property_name=name)
            for name in ("add.fields", "add.headers")
        )

    @property
    def keeps_topics(self) -> bool:
        """Whether records keep their topics."""
        return not self.properties["route.by.field"]

    def kept(self, records: DataFrame) -> Column:
        """Return which records are not dropped."""
        event = ChangeEvent.of(records.schema["value"].dataType)
        tombstones = F.lit(self._mode == "rewrite-with-tombstone")
        changes = F.lit(True)
        if event is not None:
            changes = event.has_row & ~event.deleted if self._mode == "drop" else event.has_row
        return F.when(F.col("value").isNull(), tombstones).otherwise(changes)

    def log_dropped(self, records: pa.RecordBatch, whose: str) -> None:
        """Log how many events of a batch, except truncates, have no row."""
        events = EventColumns.of(records)
        if events is None:
            return
        has_row = pc.or_(pc.or_(events.before, events.after), pc.is_in(events.operation, pa.array(["d", "t"])))
        if lost := len(has_row) - has_row.true_count:
            _log.warning(
                "%s: %d events, other than truncates, were dropped, as they have no row before or after the change",
                whose,
                lost,
            )

    def changed_records(self, records: DataFrame) -> DataFrame:
        """Return the rows for events. Raises DataError for columns that do not fit the properties."""
        event = ChangeEvent.of(records.schema["value"].dataType)
        columns = {"headers": self._with_headers(records, event)} if self._headers else {}
        if event is not None:
            dropped = _DropList.from_header(records, self.properties)
            metadata = {NULLS_METADATA: True} if self._mode == "delete-to-tombstone" else {}
            row = _with_names(records, event, self._row(event, dropped))
            columns["value"] = row.alias("value", metadata=metadata)
            if self.properties["route.by.field"]:
                columns["topic"] = self._topic(event)
            if dropped is not None and self.properties["drop.fields.from.key"]:
                columns["key"] = F.when(event.value.isNotNull(), dropped.from_key(records)).otherwise(F.col("key"))
        return records.withColumns(columns) if columns else records

    def _row(self, event: ChangeEvent, dropped: _DropList | None) -> Column:
        rewritten = self._mode.startswith("rewrite")
        named = {name: event.column(name) for name in event.names}
        names = [*named, *([_DELETED] if rewritten else [])]
        for field in self._fields:
            found = field.of(event.value, event.kind)
            if found is not None:
                names.append(field.name)
                named[field.name] = found
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise DataError(
                f"The transform {type(self).__name__} is to add fields that the rows have already: {', '.join(twice)}. "
                "Correct add.fields, or set add.fields.prefix"
            )
        fields = {name: column for name, (column, _) in named.items()}
        fields |= {field.name: same_nulls(field, fields[field.name]) for field in event.never_null(deletes=rewritten)}
        if dropped is not None:
            kept = event.required if dropped.compatible else ()
            fields |= {name: dropped.without(name, column) for name, column in fields.items() if name not in kept}
        if rewritten:
            fields[_DELETED] = F.when(event.deleted, "true").otherwise("false")
        has_row = event.value.isNotNull() if rewritten else event.value.isNotNull() & ~event.deleted
        return F.when(has_row, F.struct(*(fields[name].alias(name) for name in names)))

    def _topic(self, event: ChangeEvent) -> Column:
        name = self.properties["route.by.field"]
        if name not in event.names:
            raise DataError(
                f"The transform {type(self).__name__} needs the column {name!r} for the topic, which the rows do not "
                f"have; they have: {', '.join(event.names)}. Correct route.by.field"
            )
        column, kind = event.column(name)
        if not isinstance(kind, StringType | NullType):
            raise DataError(
                f"The transform {type(self).__name__} needs a text for the topic, but the column {name} is of type "
                f"{kind.simpleString()}: name another column in route.by.field"
            )
        return F.coalesce(column.cast(StringType()), F.col("topic"))

    def _with_headers(self, records: DataFrame, event: ChangeEvent | None) -> Column:
        """Return the existing headers, followed by the added headers."""
        kind, value = records.schema["headers"].dataType, F.col("value")
        found = [] if event is None else [(field.name, field.of(event.value, event.kind)) for field in self._headers]
        of_event = [_header(name, text(*copied)) for name, copied in found if copied is not None]
        of_tombstone = [_header(field.name, F.lit("d")) for field in self._headers if field.field == OPERATION]
        known = F.coalesce(F.col("headers"), F.array().cast(kind))
        return F.when(value.isNull(), _joined(known, of_tombstone, kind)).otherwise(_joined(known, of_event, kind))


def _with_names(records: DataFrame, event: ChangeEvent, row: Column) -> Column:
    """Return the row with the schema names of its columns, which an expression does not keep."""
    named = {field.name: field.metadata for side in event.sides.values() for field in side.fields if field.metadata}
    kind = records.select(row.alias("row")).schema["row"].dataType if named else None
    if not isinstance(kind, StructType):
        return row
    return row.cast(
        StructType([StructField(one.name, one.dataType, one.nullable, named.get(one.name)) for one in kind])
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def _joined(known: Column, more: list[Column], kind: DataType) -> Column:
    return F.concat(known, F.array(*more).cast(kind)) if more else known


@dataclass(frozen=True, slots=True)
class _DropList:
    """The fields to drop, which a header of each record lists. With `compatible`, only nullable fields are dropped."""

    listed: Column
    compatible: bool

    @classmethod
    def from_header(cls, records: DataFrame, properties: Mapping[str, object]) -> _DropList | None:
        """Return the fields to drop; None if no header for them is configured.

        Raises DataError if the headers' type cannot hold lists.
        """
        header = properties["drop.fields.header.name"]
        if not header:
            return None
        headers = records.schema["headers"].dataType
        pair = headers.elementType if isinstance(headers, ArrayType) else headers
        kind = pair["value"].dataType if isinstance(pair, StructType) else pair
        value = F.get(F.filter("headers", lambda given: given["key"] == F.lit(header)), F.lit(0))["value"]
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType):
            listed = value
        elif isinstance(kind, StringType | BinaryType):
            json = value.cast(StringType())
            parsed = F.when(is_json(json), F.from_json(json, ArrayType(StringType())))
            why = F.concat(
                F.lit(f"The header {header} must be a list of fields to drop, as a list in JSON, but is: "),
                json,
            )
            malformed = F.raise_error(why).cast(ArrayType(StringType()))
            listed = F.when(value.isNull() | parsed.isNotNull(), parsed).otherwise(malformed)
        else:
            raise DataError(
                f"The header {header} cannot list the fields to drop, because headers are of type {kind.simpleString()}: "
                "they must be texts or lists of texts. Correct drop.fields.header.name or the source"
            )
        return cls(F.coalesce(listed, F.array().cast(ArrayType(StringType()))), bool(properties[_COMPATIBLE]))

    def without(self, name: str, column: Column) -> Column:
        """Return a nullable field. It is null if the header lists it."""
        return F.when(~F.coalesce(F.array_contains(self.listed, name), F.lit(False)), column)

    def from_key(self, records: DataFrame) -> Column:
        """Return the key without the listed fields. If a key is not a struct, it is unchanged."""
        key, kind = F.col("key"), records.schema["key"].dataType
        if not isinstance(kind, StructType):
            return key
        for field in kind.fields:
            if field.nullable or not self.compatible:
                quoted = backticked(field.name)
                key = key.withField(quoted, self.without(field.name, F.col("key")[field.name]))
        return key
