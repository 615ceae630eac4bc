"""Applies transforms that are functions of Python to polled records in the worker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.conversion import ROW
from fencepost.engine.grouping import RecordGroup, json_text
from fencepost.transforms.chain import Step
from fencepost.transforms.function_transform import FunctionTransformation


def is_function(step: Step) -> bool:
    """Whether a step is a function that applies to all records."""
    return isinstance(step.transform, FunctionTransformation) and step.predicate is None


def segments(chain: Sequence[Step]) -> Iterator[tuple[bool, tuple[Step, ...]]]:
    """Yield the parts of a chain in order: whether the steps of a part are functions, and the steps."""
    for functions, steps in groupby(chain, key=is_function):
        yield functions, tuple(steps)


def apply_functions(group: RecordGroup, chain: Sequence[Step]) -> RecordGroup:
    """Return records as functions make them. Their columns are all that records have.

    What a function makes has the function's schema. Raises what the functions raise, and DataError and PluginError for
    what they return.
    """
    columns, types = group.columns, group.types
    for step in chain:
        assert isinstance(step.transform, FunctionTransformation)  # noqa: S101 - as `is_function` says
        rows = step.transform.rows()
        columns = rows.applied(columns)
        made = rows.replaced()
        types = replace(
            types,
            value=made.get("value", types.value),
            key=made.get("key", types.key),
            has_key=types.has_key or "key" in made,
            raw_headers=types.raw_headers and "headers" not in made,
            has_headers=types.has_headers and "headers" not in made,
        )
    return replace(group, columns=columns, types=types)


def finished(group: RecordGroup) -> tuple[list[pa.RecordBatch], ColumnTypes]:
    """Return records with all columns, transformed, as the converters take them: schemaless structures are JSON texts."""
    columns = {name: group.columns[name] for name in group.columns.schema.names}
    types = replace(group.types, has_topic=True, has_partition=True, has_timestamp=True, has_headers=True, has_key=True)
    types = replace(types, raw_headers=group.types.has_headers, header=_header_type(columns["headers"]))
    for name, declared in (("value", types.value), ("key", types.key)):
        if declared is None and pa.types.is_nested(columns[name].type):
            where = f"The transformed {name} of a record for topic {group.topic}"
            texts = pa.array([json_text(value, where) for value in columns[name].to_pylist()], pa.string())
            columns[name] = pa.ExtensionArray.from_storage(pa.json_(), texts)
        elif pa.types.is_null(columns[name].type):
            columns[name] = columns[name].cast(pa.string())
    return [pa.RecordBatch.from_pydict(columns)] if len(columns[ROW]) else [], types


def _header_type(headers: pa.Array) -> t.DataType:
    return t.BinaryType() if pa.types.is_binary(headers.type.value_type.field("value").type) else t.StringType()
