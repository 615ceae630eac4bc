"""Transforms that change fields of the rows in change events, and keep the types: Debezium's TimezoneConverter, EnforceRecordSize."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.transforms.base import APPLIES, RecordTransformation
from fencepost.transforms.change_event import ChangeEvent
from fencepost.transforms.field_paths import FieldPath, with_fields

SIDES: Final = ("before", "after")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EventSideTransformation(RecordTransformation):
    """Changes fields of change events; other records stay as they are. Schemas stay, with their names.

    Subclasses implement `changes`.
    """

    @property
    def keeps_topics(self) -> bool:
        """Whether records stay in the topics that they have."""
        return True

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with the fields changed."""
        field = records.schema["value"]
        event = ChangeEvent.of(field.dataType)
        if event is None:
            return records
        value = F.col("value")
        if APPLIES in records.columns:
            # Spark computes the result for other records as well.
            value = F.when(F.col(APPLIES), value)
        changes: dict[FieldPath, Column] = dict(self.changes(event, value))
        if not changes:
            return records
        # Not withField: with each field within a struct it would double the plan.
        changed = with_fields(value, event.kind, changes)
        # An expression has its own type, without the names of schemas in its fields' comments.
        return records.withColumn("value", changed.cast(field.dataType).alias("value", metadata=field.metadata))

    @abstractmethod
    def changes(self, event: ChangeEvent, value: Column) -> Iterator[tuple[tuple[str, str], Column]]:
        """Yield the paths of fields in the value, and their new content, which is null only where it was."""


def same_nulls(field: t.StructField, new: Column) -> Column:
    """Return the new content of a field, with a type that excludes null if the field's type does."""
    return new if field.nullable else F.coalesce(new, _never(field.dataType))


def _never(kind: t.DataType) -> Column:
    """Return some content of a type, which Spark knows not to be null."""
    if isinstance(kind, t.StructType):
        return F.struct(*(_never(field.dataType).alias(field.name) for field in kind.fields))
    if isinstance(kind, t.ArrayType | t.MapType):
        return (F.array() if isinstance(kind, t.ArrayType) else F.create_map()).cast(kind)
    never: Any = ""
    if isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        never = _EPOCH
    elif isinstance(kind, t.BooleanType | t.NumericType):
        # Spark takes the cast of an INT to a DECIMAL for one that may overflow to null.
        never = Decimal(0) if isinstance(kind, t.DecimalType) else 0
    return F.lit(never).cast(kind)
