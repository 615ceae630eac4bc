"""Transforms that change fields of the rows in change events, and keep the types: Debezium's TimezoneConverter, EnforceRecordSize."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.spark_names import backticked
from fencepost.transforms.base import APPLIES, RecordTransformation
from fencepost.transforms.change_event import ChangeEvent

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
        changed = value
        for path, content in self.changes(event, value):
            changed = changed.withField(".".join(backticked(name) for name in path), content)
        if changed is value:
            return records
        # An expression has its own type, without the names of schemas in its fields' comments.
        return records.withColumn("value", changed.cast(field.dataType).alias("value", metadata=field.metadata))

    @abstractmethod
    def changes(self, event: ChangeEvent, value: Column) -> Iterator[tuple[tuple[str, str], Column]]:
        """Yield the paths of fields in the value, and their new content, which is null only where it was."""


def same_nulls(field: t.StructField, new: Column) -> Column:
    """Return the new content of a field, with a type that excludes null if the field's type does."""
    if field.nullable:
        return new
    if isinstance(field.dataType, t.StringType | t.BinaryType):
        never = F.lit("")
    else:
        never = F.lit(0) if isinstance(field.dataType, t.LongType) else F.lit(_EPOCH)
    return F.coalesce(new, never.cast(field.dataType))
