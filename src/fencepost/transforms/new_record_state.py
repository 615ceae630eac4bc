"""Debezium's ExtractNewRecordState: change events become the rows that they leave.

https://debezium.io/documentation/reference/stable/transformations/event-flattening.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import StructType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import one_of
from fencepost.transforms.base import RecordTransformation, planned_by_schema

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_ENVELOPE: Final = ("before", "after", "source", "op")
_DELETED: Final = "__deleted"


@planned_by_schema
class ExtractNewRecordState(RecordTransformation):
    """Replaces change events by the row after the change; records that are no change events stay as they are.

    Events of truncates, which have no row, are dropped.
    """

    definitions = (
        ConfigDef()
        .define(
            "delete.tombstone.handling.mode", _Type.STRING, "tombstone", _Importance.MEDIUM,
            "What becomes of deletes and their tombstones: drop removes both; tombstone keeps the tombstones; rewrite "
            f"keeps the deletes as the former row, with the field {_DELETED}, which all records get; "
            "rewrite-with-tombstone keeps both so; delete-to-tombstone makes tombstones of deletes, and removes others.",
            validator=one_of(_MODES),
        )
        .define(
            "add.fields", _Type.LIST, "", _Importance.LOW,
            "Fields of the event to add to the row: op, ts_ms, those of source (table, lsn, or source.ts_ms), each "
            "possibly with another name, as in 'op:operation'.",
        )
        .define("add.fields.prefix", _Type.STRING, "__", _Importance.LOW, "What the names of added fields begin with.")
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for a property that Debezium has and this does not."""
        for name in (
            "drop.tombstones",
            "delete.handling.mode",
            "route.by.field",
            "add.headers",
            "drop.fields.keep.schema.compatible",
        ):
            if name in configs:
                raise ConfigError(
                    f"{name} is not supported: use delete.tombstone.handling.mode and add.fields, and other transforms "
                    "for topics and headers", name=name,
                )  # fmt: skip
        super().configure(configs)

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the rows."""
        kind = records.schema["value"].dataType
        if not isinstance(kind, StructType) or not set(_ENVELOPE) <= set(kind.names):
            return records
        row = kind["after"].dataType
        if not isinstance(row, StructType):
            return records
        mode, event = self.properties["delete.tombstone.handling.mode"].lower(), F.col("value")
        deleted = event["op"] == "d"
        fields = [
            F.when(deleted, event["before"][name]).otherwise(event["after"][name]).alias(name) for name in row.names
        ]
        if mode.startswith("rewrite"):
            fields.append(F.when(deleted, "true").otherwise("false").alias(_DELETED))
        fields += [self._added(event, kind, name) for name in self.properties["add.fields"] if name]
        has_row = event.isNotNull() & ~deleted if mode == "delete-to-tombstone" else event.isNotNull()
        kept = records.filter(_kept(mode, event))
        return kept.withColumn("value", F.when(has_row, F.struct(*fields)))

    def _added(self, event: Column, kind: StructType, given: str) -> Column:
        path, _, name = (part.strip() for part in given.partition(":"))
        alias = self.properties["add.fields.prefix"] + (name or path.replace(".", "_"))
        parent, _, field = path.rpartition(".")
        if not parent and path not in kind.names:
            parent, field = "source", path
        within = kind[parent].dataType if parent in kind.names else kind
        if not isinstance(within, StructType) or field not in within.names or (parent and parent not in kind.names):
            raise DataError(
                f"The transform ExtractNewRecordState is to add {path}, which change events do not have: correct add.fields"
            )
        return (event[parent][field] if parent else event[field]).alias(alias)


def _kept(mode: str, event: Column) -> Column:
    """Return which records are kept: op is null for tombstones, whose whole value is null."""
    operation = event["op"]
    changed = operation.isNotNull() & (operation != "t")
    match mode:
        case "drop":
            return changed & (operation != "d")
        case "tombstone":
            return event.isNull() | (changed & (operation != "d"))
        case "rewrite-with-tombstone":
            return event.isNull() | changed
        case _:
            return changed
