"""Change events of databases, as Debezium and PostgresSource write them: envelopes with the row before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import DataType, NullType, StructField, StructType

from fencepost.transforms.event_fields import OLD_KEY, OPERATION

_ENVELOPE: Final = ("before", "after", "source", OPERATION)


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """The change events in the value column. `sides` has the types of `before` and `after`, if they have fields."""

    value: Column
    kind: StructType
    sides: Mapping[str, StructType]

    @classmethod
    def of(cls, kind: DataType) -> ChangeEvent | None:
        """Return the change events of a type; None if the type is not an envelope.

        If the events have no schema, a side that is always null has no fields.
        """
        if not isinstance(kind, StructType) or not set(_ENVELOPE) <= set(kind.names):
            return None
        sides = {name: kind[name].dataType for name in ("after", "before")}
        if not all(isinstance(side, StructType | NullType) for side in sides.values()):
            return None
        return cls(F.col("value"), kind, {name: side for name, side in sides.items() if isinstance(side, StructType)})

    @property
    def names(self) -> list[str]:
        """The names of the columns of the row."""
        return list(dict.fromkeys(name for side in self.sides.values() for name in side.names))

    @property
    def required(self) -> set[str]:
        """The names of the columns of the row that may not be null."""
        return {field.name for side in self.sides.values() for field in side.fields if not field.nullable}

    def never_null(self, *, deletes: bool) -> list[StructField]:
        """Return the columns that are never null in the row after an event.

        With `deletes`, the columns are also never null in the row before a delete.
        """
        sides = [
            self.sides.get("after", StructType()),
            *([self.sides["before"]] if deletes and "before" in self.sides else []),
        ]
        return [
            field
            for field in sides[0].fields
            if not any(side[field.name].nullable for side in sides if field.name in side.names)
        ]

    @property
    def deleted(self) -> Column:
        """Whether an event is a delete."""
        leaves_nothing = self.value["after"].isNull() & self.value["before"].isNotNull()
        return self.value[OPERATION].eqNullSafe("d") | leaves_nothing

    @property
    def has_row(self) -> Column:
        """Whether an event has a row before or after the change. A truncate has none."""
        return self.deleted | self.value["after"].isNotNull()

    def column(self, name: str) -> tuple[Column, DataType]:
        """Return a column of the row after the event (for a delete, before it), and the column's type."""
        either = [
            self.value[side][name] if side in self.sides and name in self.sides[side].names else F.lit(None)
            for side in ("before", "after")
        ]
        kind = next(side[name].dataType for side in self.sides.values() if name in side.names)
        return F.when(self.deleted, either[0]).otherwise(either[1]), kind


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The change events among the records of a batch: their `operation`, and whether they have a row before and after.

    A source turns the update of a key into a delete and a create. Here, such a create has the operation u.
    """

    operation: pa.Array
    before: pa.Array
    after: pa.Array

    @classmethod
    def of(cls, records: pa.RecordBatch) -> EventColumns | None:
        """Return the events in the column `value`; None if the column has no events. Tombstones do not count."""
        kind = records["value"].type
        if not pa.types.is_struct(kind) or not {field.name for field in kind}.issuperset(_ENVELOPE):
            return None
        given = records["value"]
        operation = pc.struct_field(given, OPERATION)
        if not pa.types.is_string(operation.type) and not pa.types.is_null(operation.type):
            return None
        operation = pc.if_else(_has_old_key(records), "u", pc.fill_null(operation.cast(pa.string()), ""))
        sides = (pc.struct_field(given, side).is_valid() for side in ("before", "after"))
        return cls(*(column.filter(given.is_valid()) for column in (operation, *sides)))


def _has_old_key(records: pa.RecordBatch) -> pa.Array:
    found = np.zeros(records.num_rows, dtype=bool)
    if "headers" in records.schema.names:
        headers = records["headers"]
        # list_parent_indices would also count items that a null list hides.
        rows = np.repeat(np.arange(len(headers)), pc.fill_null(pc.list_value_length(headers), 0))
        named = pc.equal(pc.struct_field(pc.list_flatten(headers), "key"), OLD_KEY)
        found[rows[pc.fill_null(named, False).to_numpy(zero_copy_only=False)]] = True
    return pa.array(found)
