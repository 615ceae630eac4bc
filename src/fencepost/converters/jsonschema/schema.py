"""JSON Schemas for Connect's schemas, as Confluent's JsonSchemaData makes them, and checks of values against them.

| Connect | JSON Schema (draft 7) |
|---|---|
| int8 int16 int32 int64 | integer with connect.type |
| float double | number with connect.type float32, float64 |
| boolean string | boolean, string |
| bytes | string with connect.type bytes: base64 |
| Decimal | as bytes; a number with decimal.format=NUMERIC |
| Date Time Timestamp | integer, with the name as title |
| array | array |
| map with keys of string | object with additionalProperties and connect.type map |
| map with other keys | array of objects with key and value, and connect.type map |
| struct | object, without `required`; each property has its place as connect.index |
| optional | oneOf null and the type |
| no schema | {}, which every value fits |

The name of a schema becomes the title; parameters and version become connect.parameters and connect.version. Connect's
schemas are given in the JSON form of JsonConverter. Pure: this module has no side effects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.errors import DataError

Connect = Mapping[str, Any]

LOGICAL: Final = "org.apache.kafka.connect.data."
"""The prefix of the names of Connect's decimals, dates and times."""
_DECIMAL: Final = f"{LOGICAL}Decimal"
_SIMPLE: Final[Mapping[str, tuple[str, str | None]]] = {
    "int8": ("integer", "int8"),
    "int16": ("integer", "int16"),
    "int32": ("integer", "int32"),
    "int64": ("integer", "int64"),
    "float": ("number", "float32"),
    "double": ("number", "float64"),
    "boolean": ("boolean", None),
    "string": ("string", None),
    "bytes": ("string", "bytes"),
}


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    """The converter's properties that the schema depends on."""

    additional_properties: bool = True
    numeric_decimals: bool = False


def json_schema(connect: Connect | None, options: JsonSchemaOptions) -> dict[str, Any]:
    """Return the JSON Schema of a Connect schema. For None, return a JSON Schema that allows any value."""
    return {} if connect is None else _schema(connect, options, None)


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as text for the registry."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def missing_properties(connect: Connect | None, written: Any, path: str = "") -> Iterator[str]:
    """Return the names of the fields of a Connect schema for which the other JSON Schema has no property."""
    found = without_null(written)
    if connect is None or not isinstance(found, Mapping) or "$ref" in found:
        return
    match connect["type"]:
        case "struct":
            properties = found.get("properties", {})
            for field in connect["fields"]:
                place = f"{path}.{field['field']}" if path else str(field["field"])
                if field["field"] not in properties:
                    yield place
                else:
                    yield from missing_properties(field, properties[field["field"]], place)
        case "array":
            yield from missing_properties(connect["items"], found.get("items", {}), f"{path}[]")
        case "map" if connect["keys"]["type"] == "string":
            yield from missing_properties(connect["values"], found.get("additionalProperties", {}), f"{path}[value]")


def check_kind(connect: Connect | None, written: Any, options: JsonSchemaOptions, path: str = "") -> None:
    """Raise DataError if the other JSON Schema has another type for a value or field, or requires a missing field.

    Other constraints, such as ranges and patterns, are not checked.
    """
    found = without_null(written)
    if connect is None or not isinstance(found, Mapping) or "$ref" in found:
        return
    if "type" in found:
        ours, theirs = _parts(connect, options)[0], found["type"]
        kinds = theirs if isinstance(theirs, list) else [theirs]
        if ours not in kinds and not (ours == "integer" and "number" in kinds):
            raise DataError(
                f"{path or 'it'} is for values of the type {', '.join(map(str, kinds))}, and these are of {ours}"
            )
    match connect["type"]:
        case "struct":
            fields, properties = {field["field"]: field for field in connect["fields"]}, found.get("properties")
            if missing := [str(name) for name in found.get("required") or () if name not in fields]:
                raise DataError(f"{path or 'it'} requires {', '.join(missing)}, which the records do not have")
            for name, part in properties.items() if isinstance(properties, Mapping) else ():
                check_kind(fields.get(name), part, options, f"{path}.{name}" if path else str(name))
        case "array":
            check_kind(connect["items"], found.get("items"), options, f"{path}[]")
        case "map" if connect["keys"]["type"] == "string":
            check_kind(connect["values"], found.get("additionalProperties"), options, f"{path}[value]")


def _schema(connect: Connect, options: JsonSchemaOptions, index: int | None) -> dict[str, Any]:
    place = {} if index is None else {"connect.index": index}
    if not connect.get("optional"):
        return {**_of_type(connect, options), **place}
    return {"oneOf": [{"type": "null"}, _of_type(connect, options)], **place}


def _of_type(connect: Connect, options: JsonSchemaOptions) -> dict[str, Any]:
    kind, connect_type, rest = _parts(connect, options)
    described = {
        "type": kind,
        "title": connect.get("name"),
        "description": connect.get("doc"),
        "connect.type": connect_type,
        "connect.version": connect.get("version"),
        "connect.parameters": connect.get("parameters"),
    }
    return {name: value for name, value in described.items() if value is not None} | rest


def _parts(connect: Connect, options: JsonSchemaOptions) -> tuple[str, str | None, dict[str, Any]]:
    kind = connect["type"]
    if connect.get("name") == _DECIMAL:
        return "number" if options.numeric_decimals else "string", "bytes", {}
    if kind in _SIMPLE:
        return *_SIMPLE[kind], {}
    if kind == "array":
        return "array", None, {"items": _schema(connect["items"], options, None)}
    if kind == "map":
        if connect["keys"]["type"] == "string" and not connect["keys"].get("optional"):
            return "object", "map", {"additionalProperties": _schema(connect["values"], options, None)}
        entry = {
            "key": _schema(connect["keys"], options, 0),
            "value": _schema(connect["values"], options, 1),
        }
        return "array", "map", {"items": {"type": "object", "properties": entry}}
    properties = {field["field"]: _schema(field, options, at) for at, field in enumerate(connect["fields"])}
    return (
        "object",
        None,
        {"properties": properties} | ({} if options.additional_properties else {"additionalProperties": False}),
    )


def without_null(schema: Any) -> Any:
    """Return the schema of non-null values if a schema allows null or one other schema.

    Other schemas are returned unchanged.
    """
    if not isinstance(schema, Mapping):
        return schema
    for name in ("oneOf", "anyOf"):
        parts = schema.get(name)
        if isinstance(parts, list) and len(parts) == 2:
            others = [part for part in parts if not (isinstance(part, Mapping) and part.get("type") == "null")]
            if len(others) == 1:
                return others[0]
    return schema
