"""Values cross between Python and Spark as one column for each of their fields.

Spark makes objects of a struct in every row, copies it twice, and measures it again for each row that it adds to a batch.
Columns it copies straight. Its optimizer replaces a field of a struct that is made of columns by the column.

    reader -> fields -> Spark: struct -> transforms -> fields -> value -> converters
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.errors import PluginError
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.write_stage import StageSource

_VALUE: Final = "value"
_FIELD: Final = "__fencepost_value_"
_VALID: Final = "__fencepost_valid"


@dataclass(frozen=True, slots=True)
class FlatReader:
    """The rows of a reader whose values are structs and never null."""

    schema: t.StructType

    @classmethod
    def of(cls, schema: t.StructType) -> FlatReader | None:
        """Return how rows with these columns are made flat. None if they may not, as a null would be a struct of nulls."""
        value = schema[_VALUE] if _VALUE in schema.names else None
        if value is None or value.nullable or value.metadata or not _has_fields(value.dataType):
            return None
        # Spark would lose what fields say beside their types.
        return None if any(field.metadata for field in value.dataType.fields) else cls(schema)  # type: ignore[attr-defined]

    @property
    def columns(self) -> t.StructType:
        """The columns of the flat rows."""
        fields: list[t.StructField] = []
        for column in self.schema.fields:
            fields += self._fields() if column.name == _VALUE else [column]
        return t.StructType(fields)

    def _fields(self) -> list[t.StructField]:
        kind = self.schema[_VALUE].dataType
        assert isinstance(kind, t.StructType)  # noqa: S101 - as `of` says
        return [
            t.StructField(f"{_FIELD}{number}", field.dataType, field.nullable)
            for number, field in enumerate(kind.fields)
        ]

    def flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the fields of their values in the place of the values. Raises PluginError for a null value."""
        columns, names = [], []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name != _VALUE:
                names.append(name)
                columns.append(column)
                continue
            if column.null_count:
                raise PluginError("A reader yields a null in the column 'value', which its schema declares NOT NULL")
            fields = column.flatten()
            names += [f"{_FIELD}{number}" for number in range(len(fields))]
            columns += fields
        return pa.RecordBatch.from_arrays(columns, names)

    def frame(self, flat: DataFrame) -> DataFrame:
        """Return the rows with their values, of the type that Spark gives to rows that are not flat."""
        kind = self.schema[_VALUE].dataType
        assert isinstance(kind, t.StructType)  # noqa: S101 - as `of` says
        struct = F.struct(*(F.col(f"{_FIELD}{number}").alias(name) for number, name in enumerate(kind.names)))
        columns = {name: F.col(name) for name in self.schema.names if name != _VALUE}
        return flat.select(*(columns.get(name, struct.alias(name)) for name in self.schema.names))


@dataclass(frozen=True, slots=True)
class FlatRows:
    """The rows of a DataFrame of `flat_frame`, with their values: structs of fields with these names and nullabilities."""

    source: StageSource
    fields: Sequence[tuple[str, bool]]

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for batch in self.source.batches(given, errors):
            yield self._nested(batch)

    def _nested(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[f"{_FIELD}{number}"] for number in range(len(self.fields))]
        fields = [
            pa.field(name, column.type, nullable) for (name, nullable), column in zip(self.fields, columns, strict=True)
        ]
        absent = pc.invert(batch[_VALID]) if _VALID in batch.schema.names else None
        value = pa.StructArray.from_arrays(columns, fields=fields, mask=absent)
        others = {name: batch[name] for name in batch.schema.names if not name.startswith((_FIELD, _VALID))}
        return pa.RecordBatch.from_pydict({_VALUE: value, **others})


def flat_frame(frame: DataFrame, source: StageSource) -> tuple[DataFrame, StageSource]:
    """Return the rows of a DataFrame with the fields of their values as columns, and the source that joins them again."""
    value = frame.schema[_VALUE]
    if not _has_fields(value.dataType):
        return frame, source
    fields = [(field.name, field.nullable) for field in value.dataType.fields]  # type: ignore[attr-defined]
    names = [f"{_FIELD}{number}" for number in range(len(fields))]
    others = [name for name in frame.columns if name != _VALUE]
    valid = [F.col(_VALUE).isNotNull().alias(_VALID)] if value.nullable else []
    # By position: names of fields may differ in case alone, or be there twice.
    flat = frame.select(f"{_VALUE}.*", *valid, *others).toDF(*names, *([_VALID] if valid else []), *others)
    return flat, FlatRows(source, fields)


def _has_fields(kind: t.DataType) -> bool:
    return isinstance(kind, t.StructType) and bool(kind.fields)
