"""Converts polled SourceRecords to Arrow columns, in groups in which each column has one type.

All records of a group have the same topic. Their values have one schema or one kind of schemaless value, and so have
their keys. Schemaless mappings and lists become JSON text (`pa.json_()`); other schemaless values become values of the
corresponding Arrow type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.ddl import parse_ddl
from fencepost.api.errors import DataError
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
from fencepost.engine.schemaless_json import json_texts

JSON: Final = "json"
"""The kind of schemaless mappings and lists."""

_REFUSED: Final = "refused"
"""The kind of a RefusedRow: an item of a source that is not a row. Its record is refused."""

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
"""The number that stands for no timestamp in a record, as in Connect.

In columns it is a time in 1969, which is refused.
"""
_INT64_END: Final = 1 << 63
_NOTHING: Final = frozenset({type(None)})
_TEXTS: Final = frozenset({str})


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """The common form of a group's values or keys: a schema, or else a kind. Equal forms are the same object."""

    schema: t.DataType | None
    kind: str


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """Records of one topic, in columns that have one type each.

    The column ROW has the records' positions in the batch.
    """

    topic: str
    types: ColumnTypes
    columns: pa.RecordBatch


def group_records(
    records: Sequence[SourceRecord], pipeline: Pipeline, errors: ErrorHandler, *, structured: bool = False
) -> list[RecordGroup]:
    """Group polled records. Headers are converted here, because each header may have another type.

    Transforms need `structured`: schemaless mappings then become structs instead of JSON text, and all structs in a
    group have the same fields. A record is refused if it does not fit its schema, or stands for a RefusedRow. If
    `errors` tolerates refused records, they are skipped. Otherwise RecordRefusedError is raised for the first one.
    Raises DataError for a record without a topic.
    """
    # SimpleHeaderConverter itself writes texts unchanged. A subclass may do something else.
    may_change = structured and type(pipeline.header_converter) is not SimpleHeaderConverter
    texts_pass = may_change and pipeline.takes_header_texts

    def converted(record: SourceRecord) -> bool:
        """Whether a record's headers are converted before the transforms. Other headers stay texts until after them."""
        return may_change and not (texts_pass and _TEXTS.issuperset(type(value) for _, value in record.headers))

    groups = _rows_by_form(records, _Forms(structured=structured), converted)
    record_groups = []
    for (named, value, key, headers_converted), rows in groups.items():
        topic = pipeline.default_topic if named is None else named
        if topic is None:
            raise without_topic(records[rows[0]])
        if value.kind == _REFUSED:
            _refuse(records, topic, rows, errors)
        else:
            record_groups.append(
                _group(records, (topic, value, key), rows, pipeline, errors, texts=may_change and not headers_converted)
            )
    return [group for group in record_groups if group.columns.num_rows]


def _rows_by_form(
    records: Sequence[SourceRecord], forms: _Forms, converts_headers: Callable[[SourceRecord], bool]
) -> dict[tuple[str | None, _Form, _Form, bool], list[int]]:
    """Return the rows of each group, in order. A group has one topic, one form of values and one form of keys.

    Records with headers for which `converts_headers` is true have groups of their own, because a group has either
    converted headers, or texts that are converted after the transforms.
    """
    groups: dict[tuple[str | None, _Form, _Form, bool], list[int]] = {}
    # Many records have the same schemas and Python types. The forms of each combination are determined only once.
    known: dict[tuple[Any, ...], list[int]] = {}
    for row, record in enumerate(records):
        value, key = record.value, record.key
        converted = bool(record.headers) and converts_headers(record)
        combination = (record.topic, type(value), type(key), id(record.value_schema), id(record.key_schema), converted)
        rows = known.get(combination)
        if rows is None:
            form_of_value, form_of_key = forms.of(record.value_schema, value), forms.of(record.key_schema, key)
            rows = groups.setdefault((record.topic, form_of_value, form_of_key, converted), [])
            if forms.by_type and not isinstance(value, Decimal) and not isinstance(key, Decimal):
                known[combination] = rows
        rows.append(row)
    return groups


class _Forms:
    """Remembers the schema objects of one batch, so that each schema is parsed and compared only once.

    `by_type` says that the form of a value without a schema depends only on the value's Python type, except for Decimal.
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
    """Return the kind of a schemaless value. The kind of a Decimal has its scale.

    Decimals of one column have one scale, so a Decimal's bytes would depend on the records beside it.
    """
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        # The exponent of NaN is a letter.
        return f"Decimal of scale {max(0, -exponent) if isinstance(exponent, int) else exponent}"
    return _KINDS.get(type(value)) or (JSON if isinstance(value, Mapping | list | tuple) else type(value).__name__)


def signature(value: Any) -> str:
    """Return the kind of a schemaless value. For a mapping, it includes the fields of nested mappings."""
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
    """Make a group.

    With `texts`, headers stay texts, which are converted after the transforms.
    """
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
    """Refuse records whose value is a RefusedRow: an item of a source that is not a row."""

    def attempt(start: int, stop: int) -> None:
        first, *others = dict.fromkeys(records[row].value.reason.removesuffix(".") for row in rows[start:stop])
        raise DataError(first) if others else AllRowsRefusedError(DataError(first))

    given = StageRows(Stage.TASK_POLL, "SourceTask", topic, len(rows), row=lambda position: rows[position])
    errors.apply(given, attempt)


class _Fitting:
    """The records of a group that have passed so far: their positions in the batch, and the columns made of them."""

    def __init__(self, records: Sequence[SourceRecord], rows: list[int], topic: str, errors: ErrorHandler) -> None:
        self.rows = rows
        self.columns: dict[str, pa.Array] = {}
        self._records = records
        self._topic = topic
        self._errors = errors

    def add(
        self, name: str, stage: Stage, plugin: Converter | HeaderConverter, column: Callable[[list[Any]], pa.Array]
    ) -> None:
        """Add a column that contains one attribute of the records. Refused records are removed."""
        arrays = self._passing(name, stage, plugin, column)
        if len({array.type for array in arrays}) > 1:
            # Arrow chose different types for the parts, for example decimals of several precisions.
            arrays = self._passing(name, stage, plugin, _with_those_before(column))[-1:]
        if arrays:
            self.columns[name] = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        else:
            self.columns[name] = column([])

    def _passing(
        self, name: str, stage: Stage, plugin: Converter | HeaderConverter, column: Callable[[list[Any]], pa.Array]
    ) -> list[pa.Array]:
        """Return the results of the parts that pass. Remove the records that do not pass."""
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
    """Convert each part together with the earlier parts that passed. So values that have no common type are refused."""
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
    wanted = f"one type with the others of its kind; give it a {name}_schema"
    if form.kind == JSON:
        texts = json_texts(values, f"The {name} of a record for topic {topic}")
        return pa.ExtensionArray.from_storage(pa.json_(), _array(texts, pa.string(), wanted, topic))
    return _array(values, _ARROW.get(form.kind), wanted, topic)


def _checked_column(values: list[Any], form: _Form, name: str, topic: str) -> pa.Array:
    """Refuse nulls that the schema does not allow.

    Spark does not check that. Without transforms, the converters check it.
    """
    array = _column(values, form, name, topic)
    if form.schema is not None:
        check_required(array, pa.field(name, array.type), name)
    return array


def _array(values: list[Any], kind: pa.DataType | None, wanted: str, topic: str) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except UnicodeEncodeError as error:
        raise DataError(
            f"A record of a polled batch, for topic {topic}, has a text with {error.object[error.start]!a}, which is half of a "
            "surrogate pair and cannot be written in UTF-8: give text.encode(errors='replace').decode() in its place"
        ) from error
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        beyond = next(
            (value for value in values if isinstance(value, int) and not -_INT64_END <= value < _INT64_END), None
        )
        if beyond is not None:
            raise DataError(
                f"A record of a polled batch, for topic {topic}, has the number {beyond}, which is beyond 64 bits: give str(value) "
                "in its place"
            ) from error
        no_number = next((value for value in values if isinstance(value, Decimal) and not value.is_finite()), None)
        if no_number is not None:
            raise DataError(
                f"A record of a polled batch, for topic {topic}, has the Decimal {no_number}, which is not a number: give None in "
                "its place"
            ) from error
        raise DataError(
            f"A record of a polled batch, for topic {topic}, does not fit {wanted}: {error}. "
            "Correct the record or its schema in the source task"
        ) from error


@lru_cache(maxsize=512)
def arrow_type(schema: t.DataType) -> pa.DataType:
    """The Arrow type that Spark itself uses for a Spark type; timestamps are in UTC."""
    return to_arrow_type(schema, timezone="UTC")


def _headers(topic: str, headers: Sequence[Sequence[tuple[str, Any]]], converter: HeaderConverter) -> pa.Array:
    """Convert the headers of records.

    The headers' values are grouped by kind, converted, and put back into the original order.
    """
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
