"""Applies transforms that are Python functions: to polled records in the worker, and to rows where they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.engine.batch_columns import completed
from fencepost.engine.column_types import COLUMNS, ColumnTypes
from fencepost.engine.conversion import ROW
from fencepost.engine.dead_letters import contents_of
from fencepost.engine.error_handler import ErrorHandler, StageRows
from fencepost.engine.grouping import RecordGroup
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.refused_records import Stage
from fencepost.engine.routing import contiguous_run
from fencepost.engine.row_origin import origin_in_splits
from fencepost.engine.schemaless_json import json_texts
from fencepost.engine.write_stage import SplitRows
from fencepost.transforms.chain import Step
from fencepost.transforms.function_rows import FunctionRows
from fencepost.transforms.function_transform import FunctionTransformation


def is_function(step: Step) -> bool:
    """Whether a step is a Python function that applies to all records."""
    return isinstance(step.transform, FunctionTransformation) and step.predicate is None


def only_functions(pipeline: Pipeline) -> bool:
    """Whether records pass no transforms, or only transforms that are Python functions, which need no Spark."""
    return all(is_function(step) for step in pipeline.transforms)


def segments(chain: Sequence[Step]) -> Iterator[tuple[bool, tuple[Step, ...]]]:
    """Yield the parts of a chain in order. A part is a pair: whether its steps are functions, and the steps."""
    for functions, steps in groupby(chain, key=is_function):
        yield functions, tuple(steps)


def apply_functions(group: RecordGroup, chain: Sequence[Step]) -> RecordGroup:
    """Apply functions to the records of a group, and return the resulting records.

    The group must have all columns that records have.

    The result of a function has the function's schema. Raises the errors of the functions, and DataError and
    PluginError for their results.
    """
    columns, types = group.columns, group.types
    for rows in _functions(chain):
        columns = rows.applied(columns)
        replaced = rows.replaced()
        # If header values are bytes, header.converter has already converted them, and must not convert them again.
        raw = types.raw_headers and isinstance(_made_header(replaced.get("headers")), t.BinaryType | None)
        types = replace(
            types,
            value=replaced.get("value", types.value),
            key=replaced.get("key", types.key),
            has_key=types.has_key or "key" in replaced,
            raw_headers=raw,
            has_headers=raw and (types.has_headers or "headers" in replaced),
        )
    return replace(group, columns=columns, types=types)


def _functions(chain: Sequence[Step]) -> list[FunctionRows]:
    found = []
    for step in chain:
        assert isinstance(step.transform, FunctionTransformation)  # noqa: S101 - as `is_function` says
        found.append(step.transform.rows())
    return found


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a SourceBatch that transforms change in the stage that writes them: the rows never leave Python.

    `change` returns the transformed rows. If `multiplies` is true, one row may become several rows. `names` are the
    transforms, in messages; `place` is the property that messages point to; and `topic` is used for rows that name no
    topic.
    """

    source: SplitRows
    change: Callable[[pa.RecordBatch], pa.RecordBatch]
    names: str
    topic: str | None
    place: str = ""
    multiplies: bool = False

    def batches(self, given: Iterator[pa.RecordBatch], errors: ErrorHandler) -> Iterator[pa.RecordBatch]:
        """Yield the transformed rows. Rows that a transform refuses are skipped if `errors` tolerates them."""
        asked = list(given)
        runs = [run for batch in asked for run in batch["id"].to_pylist()]
        return self._all_changed(self.source.batches(iter(asked), errors), errors, runs)

    def read(self, runs: Sequence[int], errors: ErrorHandler, *, ahead: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the transformed rows of splits that the worker reads itself."""
        return self._all_changed(self.source.read(runs, errors, ahead=ahead), errors, runs)

    def _all_changed(
        self, batches: Iterator[pa.RecordBatch], errors: ErrorHandler, runs: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            numbered = batch
            if self.multiplies and errors.tolerates:
                errors.add_inputs(first, batch)
                numbered = batch.append_column(ROW, pa.array(range(first, first + batch.num_rows), pa.int64()))
            yield from self._changed(numbered, batch, errors, partial(self._origin, runs, first))
            first += batch.num_rows

    def _origin(self, runs: Sequence[int], first: int, position: int) -> str:
        splits, count = self.source.splits, self.source.runs
        read = [splits[split] for run in runs for split in contiguous_run(len(splits), run, count)]
        return origin_in_splits(self.source.reader, read, first + position)

    def _changed(
        self, numbered: pa.RecordBatch, batch: pa.RecordBatch, errors: ErrorHandler, origin: Callable[[int], str]
    ) -> Iterator[pa.RecordBatch]:
        def attempt(start: int, stop: int) -> pa.RecordBatch:
            return self.change(numbered.slice(start, stop - start))

        def contents(start: int, stop: int) -> Sequence[object]:
            return contents_of(pa.Table.from_batches([batch.slice(start, stop - start)]))

        rows = StageRows(
            Stage.TRANSFORMATION, self.names, self.topic, batch.num_rows, contents=contents, origin=origin,
            place=lambda _: self.place,
        )  # fmt: skip
        passed, _ = errors.apply(rows, attempt)
        yield from (part.result for part in passed)


@dataclass(frozen=True, slots=True)
class FunctionChain:
    """Functions that are applied to a reader's rows in one step. `given` has the types of the reader's rows."""

    functions: Sequence[FunctionRows]
    given: ColumnTypes
    topic: str | None

    @classmethod
    def of(cls, pipeline: Pipeline, given: ColumnTypes) -> FunctionChain:
        """Return the chain of a pipeline whose transforms are all functions."""
        return cls(_functions(pipeline.transforms), given, pipeline.default_topic)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the functions to a reader's rows."""
        if self._whole:
            batch = completed(batch, self.topic)
        for rows in self.functions:
            batch = rows.applied(batch)
        kept = [name for name in batch.schema.names if name == ROW or (name in COLUMNS and self._has(name))]
        return batch.select(kept)

    @property
    def types(self) -> ColumnTypes:
        """The types of the rows that the functions return."""
        types = self.given
        if self._whole:
            types = replace(types, has_topic=True, has_partition=True, has_timestamp=True)
        for rows in self.functions:
            replaced = rows.replaced()
            types = replace(
                types,
                value=replaced.get("value", types.value),
                key=replaced.get("key", types.key),
                has_key=types.has_key or "key" in replaced,
                header=_made_header(replaced["headers"]) if "headers" in replaced else types.header,
                has_headers=types.has_headers or "headers" in replaced,
                null_values=types.null_values and "value" not in replaced,
                json_values=types.json_values and "value" not in replaced,
            )
        return types

    @property
    def _whole(self) -> bool:
        return any(rows.plugin.on != "value" for rows in self.functions)

    def _has(self, name: str) -> bool:
        return name == "value" or bool(getattr(self.types, "has_headers" if name == "headers" else f"has_{name}"))


def _made_header(kind: t.DataType | None) -> t.DataType | None:
    pair = kind.elementType if isinstance(kind, t.ArrayType) else None
    return pair["value"].dataType if isinstance(pair, t.StructType) else None


def finished(group: RecordGroup) -> tuple[list[pa.RecordBatch], ColumnTypes]:
    """Return transformed records with all columns, in the form for converters: schemaless structures are JSON texts."""
    columns = {name: group.columns[name] for name in group.columns.schema.names}
    types = replace(group.types, has_topic=True, has_partition=True, has_timestamp=True, has_headers=True, has_key=True)
    types = replace(types, raw_headers=group.types.has_headers, header=_header_type(columns["headers"]))
    for name, declared in (("value", types.value), ("key", types.key)):
        if declared is None and pa.types.is_nested(columns[name].type):
            where = f"The transformed {name} of a record for topic {group.topic}"
            texts = pa.array(json_texts(columns[name].to_pylist(), where), pa.string())
            columns[name] = pa.ExtensionArray.from_storage(pa.json_(), texts)
        elif pa.types.is_null(columns[name].type):
            columns[name] = columns[name].cast(pa.string())
    return [pa.RecordBatch.from_pydict(columns)] if len(columns[ROW]) else [], types


def _header_type(headers: pa.Array) -> t.DataType:
    return t.BinaryType() if pa.types.is_binary(headers.type.value_type.field("value").type) else t.StringType()
