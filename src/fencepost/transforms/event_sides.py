"""The base of transforms that change the content, but not the types, of rows in change events.

Debezium's TimezoneConverter and EnforceRecordSize are such transforms.
"""

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
    """Changes fields in change events. Other records, and all schemas with their names, stay unchanged.

    Subclasses implement `changes`.
    """

    @property
    def keeps_topics(self) -> bool:
        """Whether records keep their topics: always."""
        return True

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with the fields changed."""
        field = records.schema["value"]
        event = ChangeEvent.of(field.dataType)
        if event is None:
            return records
        value = F.col("value")
        if APPLIES in records.columns:
            # Spark also computes the result for records that are not selected.
            value = F.when(F.col(APPLIES), value)
        changes: dict[FieldPath, Column] = dict(self.changes(event, value))
        if not changes:
            return records
        # withField is not used: for each field within a struct it would double the plan.
        changed = with_fields(value, event.kind, changes)
        # Comments of fields contain schema names. The type of an expression has no comments, so it is cast to the
        # original type.
        return records.withColumn("value", changed.cast(field.dataType).alias("value", metadata=field.metadata))

    @abstractmethod
    def changes(self, event: ChangeEvent, value: Column) -> Iterator[tuple[tuple[str, str], Column]]:
        """Yield the paths of fields in the value, each with its new content.

        The new content may be null only where the old content was null.
        """


def same_nulls(field: t.StructField, new: Column) -> Column:
    """Return the new content of a field, as an expression that is not nullable if the field is not nullable."""
    return new if field.nullable else F.coalesce(new, _non_null_default(field.dataType))


def _non_null_default(kind: t.DataType) -> Column:
    """Return some content of a type, as an expression that is never null according to Spark."""
    if isinstance(kind, t.StructType):
        return F.struct(*(_non_null_default(field.dataType).alias(field.name) for field in kind.fields))
    if isinstance(kind, t.ArrayType | t.MapType):
        return (F.array() if isinstance(kind, t.ArrayType) else F.create_map()).cast(kind)
    default: Any = ""
    if isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        default = _EPOCH
    elif isinstance(kind, t.BooleanType | t.NumericType):
        # For Spark, casting an INT to a DECIMAL may overflow to null.
        default = Decimal(0) if isinstance(kind, t.DecimalType) else 0
    return F.lit(default).cast(kind)
