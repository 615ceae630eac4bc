"""Converts polled SourceRecords to Arrow columns, grouped so that each group has one type per column.

A group is a topic with one schema, or one kind of schemaless value, for its values and its keys. Schemaless mappings
and lists become JSON text (`pa.json_()`), other schemaless values the matching Arrow type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # of CPython
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.ddl import parse_ddl
from fencepost.api.errors import DataError
from fencepost.api.plain_values import why_no_json
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.record import RefusedRow, SourceRecord, without_topic
from fencepost.api.required_fields import check_required
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.conversion import ROW, header_converted_by, list_of_headers
from fencepost.engine.error_handler import ErrorHandler, StageRows
from fencepost.engine.errors import AllRowsRefusedError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.preparation import prepare_headers
from fencepost.engine.refused_records import Stage
from fencepost.engine.schema_fit import check_fields, check_kept

JSON: Final = "json"
"""The kind of schemaless mappings and lists."""

_REFUSED: Final = "refused"
"""The kind of an item that is not a row."""

_KINDS: Final[dict[type, str]] = {
    type(None): "null", dict: JSON, list: JSON, tuple: JSON, str: "string", bytes: "binary", bytearray: "binary",
    memoryview: "binary", bool: "boolean", int: "int64", float: "double", RefusedRow: _REFUSED,
}  # fmt: skip
_ARROW: Final[dict[str, pa.DataType]] = {
    "null": pa.null(), "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "int64": pa.int64(),
    "double": pa.float64(),
}  # fmt: skip

TEXT_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_NO_TIMESTAMP: Final = -1
"""A record's number for no timestamp, as in Connect. In columns it is a time of 1969, which is refused."""
_NOTHING: Final = frozenset({type(None)})
_DICTS: Final = frozenset({dict})
_TEXTS: Final = frozenset({str})
_PRIMITIVES: Final = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """The common form of the values, or keys, of a group: a schema, or else a kind. One object for equal ones."""

    schema: t.DataType | None
    kind: str


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """Records of one topic whose columns have one type each; the column ROW has their positions in the batch."""

    topic: str
    types: ColumnTypes
    columns: pa.RecordBatch


def group_records(
    records: Sequence[SourceRecord], pipeline: Pipeline, errors: ErrorHandler, *, structured: bool = False
) -> list[RecordGroup]:
    """Group polled records. Headers are already converted, because each may have another type.

    With `structured`, for transforms, schemaless mappings become structs instead of JSON text; all in one group have
    the same fields. Records that do not fit their schema, or stand for a RefusedRow, are skipped if `errors` tolerates
    them. Raises RecordRefusedError that names the first one if it does not, and DataError for a record without a topic.
    """
    # SimpleHeaderConverter writes texts unchanged, which a subclass may not do.
    may_change = structured and type(pipeline.header_converter) is not SimpleHeaderConverter
    texts_pass = may_change and pipeline.takes_header_texts

    def converted(record: SourceRecord) -> bool:
        """Whether a record's headers are converted, unlike texts that transforms add to others."""
        return may_change and not (texts_pass and _TEXTS.issuperset(type(value) for _, value in record.headers))

    groups = _rows_by_form(records, _Forms(structured=structured), converted)
    made = []
    for (named, value, key, apart), rows in groups.items():
        topic = pipeline.default_topic if named is None else named
        if topic is None:
            raise without_topic(records[rows[0]])
        if value.kind == _REFUSED:
            _refuse(records, topic, rows, errors)
        else:
            made.append(_group(records, (topic, value, key), rows, pipeline, errors, texts=may_change and not apart))
    return [group for group in made if group.columns.num_rows]


def _rows_by_form(
    records: Sequence[SourceRecord], forms: _Forms, apart: Callable[[SourceRecord], bool]
) -> dict[tuple[str | None, _Form, _Form, bool], list[int]]:
    """The rows of each topic, form of values and form of keys, in order.

    Records with headers that are `apart` have groups of their own. In a group with converted headers, the converter does not get a text
    that a transform adds.
    """
    groups: dict[tuple[str | None, _Form, _Form, bool], list[int]] = {}
    # Most records have the schemas and the Python types of many others: their forms are found once.
    known: dict[tuple[Any, ...], list[int]] = {}
    for row, record in enumerate(records):
        value, key = record.value, record.key
        is_apart = bool(record.headers) and apart(record)
        alike = (record.topic, type(value), type(key), id(record.value_schema), id(record.key_schema), is_apart)
        rows = known.get(alike)
        if rows is None:
            form_of_value, form_of_key = forms.of(record.value_schema, value), forms.of(record.key_schema, key)
            rows = groups.setdefault((record.topic, form_of_value, form_of_key, is_apart), [])
            if forms.by_type:
                known[alike] = rows
        rows.append(row)
    return groups


class _Forms:
    """Remembers the schema objects of one batch, so that each is parsed and compared once.

    `by_type`: the form of a value without a schema depends on nothing but its Python type.
    """

    def __init__(self, *, structured: bool) -> None:
        self.by_type = not structured
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
    """Return the kind of a schemaless value."""
    return _KINDS.get(type(value)) or (JSON if isinstance(value, Mapping | list | tuple) else type(value).__name__)


def signature(value: Any) -> str:
    """Return the kind of a schemaless value, including the fields of nested mappings."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name!r}:{signature(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(sorted({signature(item) for item in value})) + "]"
    return kind_of(value)


def _group(
    records: Sequence[SourceRecord],
    identity: tuple[str, _Form, _Form],
    rows: list[int],
    pipeline: Pipeline,
    errors: ErrorHandler,
    *,
    texts: bool,
) -> RecordGroup:
    """With `texts` headers are texts that are converted after the transforms, as if these had added them."""
    topic, value, key = identity
    fitting = _Fitting(records, rows, topic, errors)
    column = _checked_column if pipeline.transforms else _column
    if any(records[row].headers for row in rows):
        header = SimpleHeaderConverter() if texts else pipeline.header_converter
        if not texts:
            prepare_headers(pipeline, topic)
        fitting.add("headers", Stage.HEADER_CONVERTER, header, lambda part: _headers(topic, part, header))
    has_key = key.schema is not None or key.kind != "null"
    if has_key:
        fitting.add("key", Stage.KEY_CONVERTER, pipeline.key_converter, lambda part: column(part, key, "key", topic))
    fitting.add(
        "value", Stage.VALUE_CONVERTER, pipeline.value_converter, lambda part: column(part, value, "value", topic)
    )
    columns = fitting.columns
    if texts and "headers" in columns:
        columns["headers"] = columns["headers"].cast(TEXT_HEADERS)
    for name, kind in (("partition", pa.int32()), ("timestamp", pa.int64())):
        plain = [getattr(records[row], name) for row in fitting.rows]
        if not _NOTHING.issuperset(map(type, plain)):
            check_kept(plain, t.LongType(), f"{name} of a record for topic {topic}")
            columns[name] = _array(plain, kind, f"the {name}", topic)
    if "timestamp" in columns:
        times = columns["timestamp"]
        columns["timestamp"] = pc.if_else(pc.equal(times, _NO_TIMESTAMP), pa.scalar(None, pa.int64()), times)
    types = ColumnTypes(
        value=value.schema,
        key=key.schema,
        has_key=has_key,
        has_partition="partition" in columns,
        has_timestamp="timestamp" in columns,
        has_headers="headers" in columns and not texts,
        raw_headers=True,
    )
    columns[ROW] = pa.array(fitting.rows, pa.int64())
    return RecordGroup(topic, types, pa.RecordBatch.from_pydict(columns))


def _refuse(records: Sequence[SourceRecord], topic: str, rows: list[int], errors: ErrorHandler) -> None:
    """Refuse the records that stand for items that are not rows."""

    def attempt(start: int, stop: int) -> None:
        first, *others = dict.fromkeys(records[row].value.reason.removesuffix(".") for row in rows[start:stop])
        raise DataError(first) if others else AllRowsRefusedError(DataError(first))

    given = StageRows(Stage.TASK_POLL, "SourceTask", topic, len(rows), row=lambda position: rows[position])
    errors.apply(given, attempt)


class _Fitting:
    """The records of a group that have passed so far: their positions in the batch, and their columns."""

    def __init__(self, records: Sequence[SourceRecord], rows: list[int], topic: str, errors: ErrorHandler) -> None:
        self.rows = rows
        self.columns: dict[str, pa.Array] = {}
        self._records = records
        self._topic = topic
        self._errors = errors

    def add(
        self, name: str, stage: Stage, plugin: Converter | HeaderConverter, column: Callable[[list[Any]], pa.Array]
    ) -> None:
        """Add a column of one attribute of the records; refused records are removed."""
        arrays = self._passing(name, stage, plugin, column)
        if len({array.type for array in arrays}) > 1:
            # Arrow found another type for each part, such as decimals of several precisions.
            arrays = self._passing(name, stage, plugin, _with_those_before(column))[-1:]
        if arrays:
            self.columns[name] = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        else:
            self.columns[name] = column([])

    def _passing(
        self, name: str, stage: Stage, plugin: Converter | HeaderConverter, column: Callable[[list[Any]], pa.Array]
    ) -> list[pa.Array]:
        """Return the results of the parts that pass, and remove the records of all others."""
        rows = self.rows
        given = StageRows(stage, type(plugin).__name__, self._topic, len(rows), row=lambda position: rows[position])
        passed, kept = self._errors.apply(
            given, lambda start, stop: column([getattr(self._records[row], name) for row in rows[start:stop]])
        )
        if kept is not None:
            self.rows = [rows[position] for position in kept]
            self.columns = {done: array.take(pa.array(kept)) for done, array in self.columns.items()}
        return [part.result for part in passed]


def _with_those_before(column: Callable[[list[Any]], pa.Array]) -> Callable[[list[Any]], pa.Array]:
    """Combine each part with the previous ones that passed; a column refuses values without a common type."""
    passed: list[Any] = []

    def joined(values: list[Any]) -> pa.Array:
        array = column(passed + values)
        passed.extend(values)
        return array

    return joined


def _column(values: list[Any], form: _Form, name: str, topic: str) -> pa.Array:
    if form.schema is not None:
        check_fields(values, form.schema, name, topic)
        check_kept(values, form.schema, f"{name} of a record for topic {topic}")
        return _array(values, arrow_type(form.schema), f"{name}_schema {form.schema.simpleString()}", topic)
    if form.kind == JSON:
        where = f"The {name} of a record for topic {topic}"
        storage = pa.array(json_texts(values, where), pa.string())
        return pa.ExtensionArray.from_storage(pa.json_(), storage)
    wanted = f"one type with the others of its kind; give it a {name}_schema"
    return _array(values, _ARROW.get(form.kind), wanted, topic)


def _checked_column(values: list[Any], form: _Form, name: str, topic: str) -> pa.Array:
    """Refuse nulls where the schema has none: Spark does not look for them. Without transforms the converters do."""
    array = _column(values, form, name, topic)
    if form.schema is not None:
        check_required(array, pa.field(name, array.type), name)
    return array


def _array(values: list[Any], kind: pa.DataType | None, wanted: str, topic: str) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"A record of a polled batch, for topic {topic}, does not fit {wanted}: {error}. "
            "Correct the record or its schema in the source task"
        ) from error


@lru_cache(maxsize=512)
def arrow_type(schema: t.DataType) -> pa.DataType:
    """The Arrow type of a Spark type, as Spark itself chooses it; timestamps are in UTC."""
    return to_arrow_type(schema, timezone="UTC")


def json_texts(values: Sequence[Any], where: str) -> list[str | None]:
    """Schemaless structures as JSON text; bytes become base64, as in Connect. Raises DataError."""
    flat = _are_flat(values)
    return [_json_text(value, where, flat=flat) for value in values]


def _are_flat(values: Sequence[Any]) -> bool:
    """Whether all are dicts of primitive values, whose names are text; without a step of Python for each of them."""
    return (
        _DICTS.issuperset(map(type, values))
        and _TEXTS.issuperset(map(type, chain.from_iterable(values)))
        and _PRIMITIVES.issuperset(map(type, chain.from_iterable(map(dict.values, values))))
    )


def _json_text(value: Any, where: str, *, flat: bool) -> str | None:
    if value is None:
        return None
    try:
        if not flat and isinstance(value, dict | list | tuple):
            _check_names(value)
        return "".join(_COMPACT(value, 0))
    except (TypeError, ValueError, RecursionError) as error:
        why = why_no_json(value)
        told = f"{error}. Give the record" if why is None else f"{why}, or the record"
        raise DataError(f"{where} cannot be written without a schema: {told} a value_schema or key_schema") from error


def _check_names(value: Mapping[Any, Any] | Sequence[Any]) -> None:
    """Raise TypeError for keys of one dict that JSON would give the same name, such as 1 and "1"."""
    if isinstance(value, Mapping):
        if not _TEXTS.issuperset(map(type, value)):
            found: dict[str, Any] = {}
            for name in value:
                (text,) = json.loads("".join(_COMPACT({name: None}, 0)))
                if text in found:
                    raise TypeError(
                        f"{found[text]!r} and {name!r} are keys of one dict, and both have the name {text!r} in JSON"
                    )
                found[text] = name
        value = tuple(value.values())
    for part in value:
        if isinstance(part, dict | list | tuple):
            _check_names(part)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


# json.JSONEncoder makes one of these for each value, which takes as long as to encode a small one. The arguments are no
# search for circles (`_check_names` finds them), default, encoder, indent, separators, sort_keys, skipkeys, allow_nan.
_COMPACT: Final = c_make_encoder(None, _plain, encode_basestring, None, ":", ",", False, False, False)


def _headers(topic: str, headers: Sequence[Sequence[tuple[str, Any]]], converter: HeaderConverter) -> pa.Array:
    """Convert the headers of records: their values are grouped by kind, converted, and put back in order."""
    lengths = np.array([len(pairs) for pairs in headers], dtype=np.int32)
    flat = list(chain.from_iterable(headers))
    by_kind: dict[str, list[int]] = {}
    for position, (_, value) in enumerate(flat):
        by_kind.setdefault(kind_of(value), []).append(position)
    parts, order = [], []
    for kind, positions in by_kind.items():
        values = _column([flat[p][1] for p in positions], _Form(None, kind), "header", topic)
        found = header_converted_by(converter, topic, None, values)
        parts.append(found.cast(pa.binary()))
        order.extend(positions)
    converted = pa.concat_arrays(parts or [pa.nulls(0, pa.binary())]).take(pa.array(np.argsort(np.array(order))))
    names = _array([name for name, _ in flat], pa.string(), "a header name", topic)
    return list_of_headers(lengths, names, converted)
