"""From polled SourceRecords to Arrow columns, grouped so that each group has one type a column.

A group is a topic with one schema, or one kind of schemaless value, for its values and its keys. Schemaless mappings
and lists become JSON text (`pa.json_()`), other schemaless values the Arrow type that fits them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.ddl import parse_ddl
from fencepost.api.errors import DataError
from fencepost.api.plugin import HeaderConverter
from fencepost.api.record import SourceRecord
from fencepost.spark.conversion import ROW, ColumnTypes, list_of_headers

JSON: Final = "json"
"""The kind of schemaless mappings and lists."""

_KINDS: Final[dict[type, str]] = {
    type(None): "null", dict: JSON, list: JSON, tuple: JSON, str: "string", bytes: "binary", bytearray: "binary",
    memoryview: "binary", bool: "boolean", int: "int64", float: "double",
}  # fmt: skip
_ARROW: Final[dict[str, pa.DataType]] = {
    "null": pa.string(), "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "int64": pa.int64(),
    "double": pa.float64(),
}  # fmt: skip
_WHOLE: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """What the values, or keys, of a group have in common: a schema, or else a kind. One object for equal ones."""

    schema: t.DataType | None
    kind: str


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """Records of one topic whose columns have one type each; the column ROW has their positions in the batch."""

    topic: str
    types: ColumnTypes
    columns: pa.RecordBatch


def group_records(
    records: Sequence[SourceRecord], header_converter: HeaderConverter, *, structured: bool = False
) -> list[RecordGroup]:
    """Group polled records. Headers are converted already, as each may have a type of its own.

    With `structured`, for transforms, schemaless mappings become structs and not JSON text; those of one group have
    the same fields. Raises DataError that names the first record that does not fit its schema.
    """
    forms = _Forms(structured=structured)
    groups: dict[tuple[str, _Form, _Form], list[int]] = {}
    for row, record in enumerate(records):
        value = forms.of(record.value_schema, record.value)
        key = forms.of(record.key_schema, record.key)
        groups.setdefault((record.topic, value, key), []).append(row)
    return [_group(records, identity, rows, header_converter) for identity, rows in groups.items()]


class _Forms:
    """Remembers the schema objects of one batch, so that each is parsed and compared once."""

    def __init__(self, *, structured: bool) -> None:
        self._kind = signature if structured else kind_of
        self._schemaless: dict[str, _Form] = {}
        self._by_identity: dict[int, _Form] = {}
        self._by_schema: dict[t.DataType, _Form] = {}

    def of(self, schema: t.DataType | str | None, value: Any) -> _Form:
        if schema is None:
            kind = self._kind(value)
            return self._schemaless.get(kind) or self._schemaless.setdefault(kind, _Form(None, kind))
        form = self._by_identity.get(id(schema))
        if form is None:
            parsed = parse_ddl(schema) if isinstance(schema, str) else schema
            form = self._by_identity[id(schema)] = self._by_schema.setdefault(parsed, _Form(parsed, "typed"))
        return form


def kind_of(value: Any) -> str:
    """Name what a schemaless value is."""
    return _KINDS.get(type(value)) or (JSON if isinstance(value, Mapping | list | tuple) else type(value).__name__)


def signature(value: Any) -> str:
    """Name what a schemaless value is, down to the fields of nested mappings."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name!r}:{signature(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(sorted({signature(item) for item in value})) + "]"
    return kind_of(value)


def _group(
    records: Sequence[SourceRecord],
    identity: tuple[str, _Form, _Form],
    rows: list[int],
    header_converter: HeaderConverter,
) -> RecordGroup:
    topic, value, key = identity
    chosen = records if len(rows) == len(records) else [records[row] for row in rows]
    columns = {"value": _column([record.value for record in chosen], value, "value", topic, rows)}
    has_key = key.schema is not None or key.kind != "null"
    if has_key:
        columns["key"] = _column([record.key for record in chosen], key, "key", topic, rows)
    for name, kind in (("partition", pa.int32()), ("timestamp", pa.int64())):
        plain = [getattr(record, name) for record in chosen]
        if any(item is not None for item in plain):
            columns[name] = _array(plain, kind, f"the {name}", topic, rows)
    if any(record.headers for record in chosen):
        columns["headers"] = _headers(topic, [record.headers for record in chosen], header_converter)
    types = ColumnTypes(
        value=value.schema,
        key=key.schema,
        has_key=has_key,
        has_partition="partition" in columns,
        has_timestamp="timestamp" in columns,
        has_headers="headers" in columns,
        raw_headers=True,
    )
    columns[ROW] = pa.array(rows, pa.int64())
    return RecordGroup(topic, types, pa.RecordBatch.from_pydict(columns))


def _column(values: list[Any], form: _Form, name: str, topic: str, rows: Sequence[int]) -> pa.Array:
    if form.schema is not None:
        _check_whole(values, form.schema, f"{name} of a record for topic {topic}")
        return _array(values, arrow_type(form.schema), f"{name}_schema {form.schema.simpleString()}", topic, rows)
    if form.kind == JSON:
        storage = pa.array([json_text(value, f"The {name} of a record for topic {topic}") for value in values])
        return pa.ExtensionArray.from_storage(pa.json_(), storage)
    wanted = f"one type with the others of its kind; give it a {name}_schema"
    return _array(values, _ARROW.get(form.kind), wanted, topic, rows)


def _array(values: list[Any], kind: pa.DataType | None, wanted: str, topic: str, rows: Sequence[int]) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        row, cause = _first_misfit(values, kind, error)
        raise DataError(
            f"Record {rows[row]} of a polled batch, for topic {topic}, does not fit {wanted}: {cause}. "
            "Correct the record or its schema in the source task"
        ) from error


def _first_misfit(values: list[Any], kind: pa.DataType | None, error: Exception) -> tuple[int, Exception]:
    for row, value in enumerate(values):
        try:
            pa.array([value], type=kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as single:
            return row, single
    return 0, error


def _check_whole(values: Iterable[Any], schema: t.DataType, where: str) -> None:
    """Refuse fractions where the schema has whole numbers: Arrow would cut them off in silence."""
    if isinstance(schema, _WHOLE):
        for value in values:
            if isinstance(value, float):
                raise DataError(f"The {where} is {value!r} where its schema has {schema.simpleString()}: round it")
    elif isinstance(schema, t.StructType):
        for position, field in enumerate(schema.fields):
            if _has_whole(field.dataType):
                _check_whole([_member(v, field.name, position) for v in values], field.dataType, where)
    elif isinstance(schema, t.ArrayType) and _has_whole(schema.elementType):
        _check_whole(chain.from_iterable(v for v in values if v is not None), schema.elementType, where)
    elif isinstance(schema, t.MapType) and _has_whole(schema.valueType):
        _check_whole(chain.from_iterable(dict(v).values() for v in values if v is not None), schema.valueType, where)


def _member(value: Any, name: str, position: int) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    return value[position] if isinstance(value, tuple) and position < len(value) else None


@lru_cache(maxsize=512)
def _has_whole(schema: t.DataType) -> bool:
    if isinstance(schema, t.StructType):
        return any(_has_whole(field.dataType) for field in schema.fields)
    if isinstance(schema, t.ArrayType):
        return _has_whole(schema.elementType)
    return _has_whole(schema.valueType) if isinstance(schema, t.MapType) else isinstance(schema, _WHOLE)


@lru_cache(maxsize=512)
def arrow_type(schema: t.DataType) -> pa.DataType:
    """The Arrow type of a Spark type, as Spark itself chooses it; timestamps are in UTC."""
    return to_arrow_type(schema, timezone="UTC")


def json_text(value: Any, where: str) -> str | None:
    """A schemaless structure as JSON text; bytes become base64, as in Connect. Raises DataError."""
    if value is None:
        return None
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where} cannot be written without a schema: {error}. Give it a value_schema or key_schema"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _headers(topic: str, headers: Sequence[Sequence[tuple[str, Any]]], converter: HeaderConverter) -> pa.Array:
    """Convert the headers of records: their values are grouped by kind, converted, and put back in order."""
    lengths = np.array([len(pairs) for pairs in headers], dtype=np.int32)
    flat = list(chain.from_iterable(headers))
    by_kind: dict[str, list[int]] = {}
    for position, (_, value) in enumerate(flat):
        by_kind.setdefault(kind_of(value), []).append(position)
    parts, order = [], []
    for kind, positions in by_kind.items():
        values = _column([flat[p][1] for p in positions], _Form(None, kind), "header", topic, positions)
        parts.append(converter.from_connect_header(topic, None, values).cast(pa.binary()))
        order.extend(positions)
    converted = pa.concat_arrays(parts).take(pa.array(np.argsort(np.array(order))))
    names = _array([name for name, _ in flat], pa.string(), "a header name", topic, range(len(flat)))
    return list_of_headers(lengths, names, converted)
