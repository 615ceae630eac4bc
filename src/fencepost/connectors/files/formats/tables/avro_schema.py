"""The Arrow types for Avro types. https://avro.apache.org/docs/1.12.0/specification/#schema-declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError

_PRIMITIVE: Final = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DECIMAL: Final = "decimal"
_MOST_DIGITS: Final = 76
_DURATION: Final = "duration"

EXACT_DECIMAL: Final = "fencepost-decimal"
"""Replaces the logical type decimal in schemas for fastavro: fastavro would round decimals to their precision."""
_NAMED: Final = ("record", "error", "enum", "fixed")


def arrow_schema(path: str, schema: Any) -> pa.Schema:
    """Return the columns of a file's rows.

    Raises DataError, naming the column, for a type that Arrow cannot represent.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataError(f"The rows of the file {path} are not records, but {schema!r}: there are no columns to read")
    types = _Types(path)
    namespace = types.define(schema, "")
    return pa.schema([types.field(field, namespace, "", (id(schema),)) for field in schema["fields"]])


class _Types:
    """Converts Avro types to Arrow types, and remembers the named types."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}

    def define(self, schema: Mapping[str, Any], namespace: str) -> str:
        """Remember a named type, and return the namespace of the names inside it."""
        name = str(schema["name"])
        namespace = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", namespace))
        self._named[_full_name(name, namespace)] = (schema, namespace)
        return namespace

    def field(self, field: Mapping[str, Any], namespace: str, parent: str, around: tuple[int, ...]) -> pa.Field:
        """Return a field of a record as an Arrow field."""
        place = f"{parent}{field['name']}"
        data_type, nullable = self._type(field["type"], namespace, place, around)
        return pa.field(field["name"], data_type, nullable)

    def _type(self, schema: Any, namespace: str, place: str, around: tuple[int, ...]) -> tuple[pa.DataType, bool]:
        """Return the Arrow type of an Avro type, and whether the type accepts null.

        `around` are the enclosing records.
        """
        if isinstance(schema, list):
            others = [branch for branch in schema if branch != "null"]
            if len(others) > 1:
                raise self._refused(place, f"is a union of several types, {others}")
            found = self._type(others[0], namespace, place, around)[0] if others else pa.null()
            return found, len(others) < len(schema)
        if isinstance(schema, str):
            return self._by_name(schema, namespace, place, around), schema == "null"
        return self._complex(schema, namespace, place, around), False

    def _by_name(self, name: str, namespace: str, place: str, around: tuple[int, ...]) -> pa.DataType:
        if name in _PRIMITIVE:
            return _PRIMITIVE[name]
        for full in (_full_name(name, namespace), name):
            if full in self._named:
                schema, inside = self._named[full]
                return self._named_type(schema, inside, place, around)
        raise self._refused(place, f"has a type that is not defined, {name!r}")

    def _complex(self, schema: Mapping[str, Any], namespace: str, place: str, around: tuple[int, ...]) -> pa.DataType:
        kind = schema["type"]
        if isinstance(kind, Mapping | list):
            return self._type(kind, namespace, place, around)[0]
        if kind in _NAMED:
            return self._named_type(schema, self.define(schema, namespace), place, around)
        if kind == "array":
            items, nullable = self._type(schema["items"], namespace, f"{place}[]", around)
            return pa.list_(pa.field("element", items, nullable))
        if kind == "map":
            values, nullable = self._type(schema["values"], namespace, f"{place}[]", around)
            return pa.map_(pa.string(), pa.field("value", values, nullable))
        if kind == "bytes" and schema.get("logicalType") == _DECIMAL:
            return self._decimal(schema, place)
        return _LOGICAL.get((kind, schema.get("logicalType", ""))) or self._by_name(kind, namespace, place, around)

    def _named_type(
        self, schema: Mapping[str, Any], namespace: str, place: str, around: tuple[int, ...]
    ) -> pa.DataType:
        match schema["type"]:
            case "enum":
                return pa.string()
            case "fixed":
                if schema.get("logicalType") == _DURATION:
                    raise self._refused(place, "is a duration")
                return self._decimal(schema, place) if schema.get("logicalType") == _DECIMAL else pa.binary()
            case _:
                if id(schema) in around:
                    raise self._refused(place, f"has a type that contains itself, {schema['name']!r}")
                fields = schema["fields"]
                return pa.struct([self.field(field, namespace, f"{place}.", (*around, id(schema))) for field in fields])

    def _decimal(self, schema: Mapping[str, Any], place: str) -> pa.DataType:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
            raise self._refused(place, f"is a DECIMAL with the precision {precision} and the scale {scale}")
        # `spark_columns` later refuses a precision above 38, like all other types that Spark does not have.
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)

    def _refused(self, place: str, what: str) -> DataError:
        return DataError(
            f"The column {place} of the file {self._path} {what}, which is not read: write it in another type"
        )


def without_logical_types(schema: Any) -> Any:
    """Return a schema whose only logical types are decimals: Arrow converts the other logical types itself."""
    match schema:
        case list():
            return [without_logical_types(branch) for branch in schema]
        case dict():
            kept = {name: value for name, value in schema.items() if name != "logicalType" or value == _DECIMAL}
            if "logicalType" in kept:
                kept["logicalType"] = EXACT_DECIMAL
            inner = {name: without_logical_types(kept[name]) for name in ("type", "items", "values") if name in kept}
            fields = [{**field, "type": without_logical_types(field["type"])} for field in kept.get("fields", ())]
            return kept | inner | ({"fields": fields} if fields else {})
        case _:
            return schema


def wide(kind: pa.DataType, *, texts: pa.DataType = _PRIMITIVE["string"]) -> pa.DataType:
    """Return a wider type, because a file may contain numbers that do not fit the original type.

    `texts` is the Arrow type for texts.
    """
    if pt.is_struct(kind):
        return pa.struct([field.with_type(wide(field.type, texts=texts)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(kind.key_field.with_type(texts), kind.item_field.with_type(wide(kind.item_type, texts=texts)))
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(wide(kind.value_type, texts=texts)))
    if pt.is_string(kind):
        return texts
    if pt.is_decimal(kind):
        return pa.decimal256(_MOST_DIGITS, kind.scale)
    return pa.int64() if pt.is_int32(kind) else kind


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
