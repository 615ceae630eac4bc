"""Calls the function of a transform on columns of records, and joins its results with the other columns.

records ──> the part's fields and `__row` ──> the function ──> new fields and `__row`
   │                                                               │
   └──> records that are left out, and all other columns ──────────┴──> records, in their order
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from fencepost.api.ddl import parse_ddl
from fencepost.api.declared_columns import fields_in_order
from fencepost.api.errors import DataError
from fencepost.api.fitted_columns import fitted_column
from fencepost.api.map_keys import has_key_twice
from fencepost.api.plugin_calls import call_plugin, kind_of, refuse_answer
from fencepost.api.required_fields import relabelled
from fencepost.api.traces import plugin_location
from fencepost.transforms.base import APPLIES
from fencepost.transforms.declared_function import ROW_INDEX, DeclaredFunction

_FIRST_LABEL: Final = 1 << 40
"""The first label of a pandas index. A function that renumbers rows returns smaller labels, which are not positions."""


@dataclass(frozen=True, slots=True)
class FunctionRows:
    """Calls the function of one transform, in the worker or on executors. Pickle stores only the class's name."""

    plugin: type[DeclaredFunction]

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return f"The transform {self.plugin.__module__}.{self.plugin.__qualname__}"

    def replaced(self) -> dict[str, t.DataType]:
        """Return the columns of records that the function returns, with their types."""
        kind = parse_ddl(self.plugin.schema)
        if self.plugin.on == "record" and isinstance(kind, t.StructType):
            return {field.name: field.dataType for field in kind.fields}
        return {self.plugin.on: kind}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Apply the function to the batches of a Spark partition."""
        for batch in batches:
            yield self.applied(batch)

    def applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return records with the function's columns. Records that the function has dropped are missing.

        Raises the errors of the function, DataError for values that do not fit the schema, and PluginError for a result
        that is not valid according to `transform`.
        """
        selected = self._selected(batch)
        fields, kept = self._answered(batch, selected) if len(selected) else (self._nothing(), selected)
        others = np.setdiff1d(np.arange(batch.num_rows), selected)
        source = np.concatenate([kept, others]).astype(np.int64)
        order = pa.array(np.argsort(source, kind="stable"))
        places = pa.array(source).take(order)
        columns = {
            name: _joined(fields[name], batch[name].take(pa.array(others))).take(order)
            if name in fields
            else batch[name].take(places)
            for name in batch.schema.names
        }
        return pa.RecordBatch.from_pydict(columns)

    def _selected(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the positions of the records that are passed to the function."""
        selected = pa.repeat(pa.scalar(True), batch.num_rows)
        if self.plugin.on != "record":
            selected = pc.and_(selected, batch[self.plugin.on].is_valid())
        if APPLIES in batch.schema.names:
            selected = pc.and_(selected, batch[APPLIES])
        return np.flatnonzero(selected.to_numpy(zero_copy_only=False))

    def _nothing(self) -> dict[str, pa.Array]:
        return {name: pa.nulls(0, _arrow(kind)) for name, kind in self.replaced().items()}

    def _answered(self, batch: pa.RecordBatch, selected: np.ndarray) -> tuple[dict[str, pa.Array], np.ndarray]:
        """Return the function's result for some records, by column, and the positions of the records that it kept."""
        input_rows = self._input_rows(batch, selected)
        rows = self._as_arrow(self._called(_as_form(input_rows, self.plugin.form)))
        kept = self._kept(rows, len(selected))
        kind = parse_ddl(self.plugin.schema)
        if not isinstance(kind, t.StructType):
            return {self.plugin.on: self._field(rows, t.StructField(self.plugin.on, kind))}, selected[kept]
        extra = [name for name in rows.schema.names if name not in (*kind.names, ROW_INDEX)]
        if extra:
            self._refuse(f"columns that its schema does not list: {', '.join(extra)}")
        fields = {field.name: self._field(rows, field) for field in kind.fields}
        if self.plugin.on == "record":
            return fields, selected[kept]
        struct = pa.StructArray.from_arrays(list(fields.values()), fields=list(_arrow(kind)))
        return {self.plugin.on: struct}, selected[kept]

    def _called(self, given: Any) -> Any:
        try:
            return call_plugin(self.name, self.plugin.function, given)
        except DataError as error:
            # The messages of other errors already contain the line.
            place = plugin_location(error)
            if place is None or type(error) is not DataError:
                raise
            raise DataError(f"{str(error).removesuffix('.')} ({place})") from error

    def _input_rows(self, batch: pa.RecordBatch, selected: np.ndarray) -> pa.RecordBatch:
        positions = pa.array(selected)
        if self.plugin.on == "record":
            columns = {name: batch[name] for name in batch.schema.names if not name.startswith("__fencepost")}
        else:
            part = batch[self.plugin.on]
            is_struct = pa.types.is_struct(part.type)
            names = [field.name for field in part.type] if is_struct else [self.plugin.on]
            columns = dict(zip(names, part.flatten() if is_struct else [part], strict=True))
        if ROW_INDEX in columns:
            raise DataError(f"{self.name} cannot be given a field named {ROW_INDEX}: rename it before")
        given = {name: column.take(positions) for name, column in columns.items()}
        return pa.RecordBatch.from_pydict({**given, ROW_INDEX: pa.array(np.arange(len(selected)))})

    def _as_arrow(self, answer: Any) -> pa.RecordBatch:
        if self.plugin.form == "pandas" and kind_of(answer).endswith("DataFrame"):
            labels = np.asarray(answer.index)
            answer = pa.Table.from_pandas(answer.drop(columns=ROW_INDEX, errors="ignore"), preserve_index=False)
            if labels.dtype.kind in "iu":
                answer = answer.append_column(ROW_INDEX, pa.array(labels - _FIRST_LABEL))
        elif self.plugin.form == "polars" and kind_of(answer).endswith("DataFrame"):
            answer = answer.to_arrow()
        if isinstance(answer, pa.Table):
            columns = {name: _one(answer[name]) for name in answer.column_names}
            answer = pa.RecordBatch.from_pydict(columns)
        if not isinstance(answer, pa.RecordBatch):
            self._refuse(kind_of(answer))
        return answer

    def _kept(self, rows: pa.RecordBatch, count: int) -> np.ndarray:
        if ROW_INDEX not in rows.schema.names:
            if rows.num_rows != count or self.plugin.multiplies:
                self._refuse(
                    f"{rows.num_rows} rows for {count} without the column {ROW_INDEX}, so it is unknown which records they are"
                )
            return np.arange(count)
        index = rows[ROW_INDEX]
        if index.null_count or not pa.types.is_integer(index.type):
            self._refuse(f"a column {ROW_INDEX} of {index.type} with {index.null_count} nulls")
        kept = index.cast(pa.int64()).to_numpy()
        steps = np.diff(kept)
        if len(kept) and (kept.min() < 0 or kept.max() >= count):
            self._refuse(f"a {ROW_INDEX} that it was not given")
        if (steps < 0).any():
            self._refuse(f"rows in another order than by {ROW_INDEX}")
        if (steps == 0).any() and not self.plugin.multiplies:
            self._refuse(f"several rows with one {ROW_INDEX}, without multiplies=True")
        return np.asarray(kept)

    def _field(self, rows: pa.RecordBatch, field: t.StructField) -> pa.Array:
        if field.name not in rows.schema.names:
            self._refuse(f"no column {field.name}; it returned {', '.join(rows.schema.names)}")
        column = fields_in_order(rows[field.name], field.dataType, field.name, self.name)
        fitted = fitted_column(column, field, self.name)
        if has_key_twice(fitted):
            raise DataError(
                f"{self.name} gives {field.name} a map with a key twice, of which readers would see one: give each key of "
                "its schema's map once"
            )
        return relabelled(fitted, _arrow(field.dataType))

    def _refuse(self, found: str) -> None:
        expected = f"the columns {self.plugin.schema}, and {ROW_INDEX} unless there is a row for each that it was given"
        refuse_answer(self.name, self.plugin.function, found, expected)


def applied_frame(rows: FunctionRows, records: DataFrame) -> DataFrame:
    """Return the records after executors have applied the function. The records keep their order."""
    replaced = rows.replaced()
    fields = [
        t.StructField(field.name, replaced.get(field.name, field.dataType), True) for field in records.schema.fields
    ]
    changed = records.mapInArrow(rows, t.StructType(fields))
    metadata = {
        field.name: field.metadata for field in records.schema.fields if field.metadata and field.name not in replaced
    }
    return changed.withColumns({name: F.col(name).alias(name, metadata=kept) for name, kept in metadata.items()})


def _as_form(rows: pa.RecordBatch, form: str) -> Any:
    if form == "pandas":
        import pandas as pd  # noqa: PLC0415 - only functions that want it need it

        # The columns keep Arrow's types: with numpy's types, a null would turn a column's integers into floating-point
        # numbers.
        frame = rows.drop_columns([ROW_INDEX]).to_pandas(types_mapper=pd.ArrowDtype)
        frame.index = pd.RangeIndex(_FIRST_LABEL, _FIRST_LABEL + rows.num_rows)
        return frame
    if form == "polars":
        import polars as pl  # noqa: PLC0415 - likewise

        return pl.from_arrow(rows)
    return rows


def _arrow(kind: t.DataType) -> pa.DataType:
    if isinstance(kind, t.StructType):
        return pa.struct(list(to_arrow_schema(kind, error_on_duplicated_field_names_in_struct=True, timezone="UTC")))
    return to_arrow_type(kind, error_on_duplicated_field_names_in_struct=True, timezone="UTC")


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.nulls(0, combined.type)
    return combined


def _joined(made: pa.Array, left_out: pa.Array) -> pa.Array:
    """Join the function's values with values of records that it did not get: these are null or of the same type."""
    if left_out.null_count == len(left_out):
        left_out = pa.nulls(len(left_out), made.type)
    return pa.concat_arrays([made, left_out.cast(made.type)])
