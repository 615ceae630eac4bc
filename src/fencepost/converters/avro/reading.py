"""Reads single values in Avro's binary encoding, for people and checks."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fencepost.converters.registry.reading import Reader, needs
from fencepost.converters.registry.schemas import RegistrySchema


def avro_reader(schema: RegistrySchema, for_people: bool, referred: Mapping[str, RegistrySchema]) -> Reader:
    """Return the reader of a schema, as MakeReader."""
    try:
        import fastavro  # noqa: PLC0415 - optional
        from fastavro import _read_py  # noqa: PLC0415 - see _is_recursive
    except ImportError:
        raise needs("fastavro", "registry") from None
    named: dict[str, Any] = {}
    try:
        for part in referred.values():
            fastavro.parse_schema(_wanted(json.loads(part.text), for_people), named)
        given = json.loads(schema.text)
        parsed = _found(fastavro.parse_schema(_wanted(given, for_people), named), named)
    except Exception as error:
        raise ValueError(f"a schema that is not one of Avro: {error}") from error
    if given == "bytes" or (isinstance(given, dict) and given.get("type") == "bytes" and "logicalType" not in given):
        return _plain

    schemaless_reader = _read_py.schemaless_reader if _is_recursive(parsed, named) else fastavro.schemaless_reader

    def read(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            found = _plain(schemaless_reader(stream, parsed, None))
        except Exception as error:
            raise ValueError(f"bytes that do not fit their schema: {type(error).__name__}") from error
        if stream.tell() != len(data):
            raise ValueError("bytes that do not fit their schema: more than a value")
        return found

    return read


def _is_recursive(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether values of a schema may have any depth.

    fastavro's compiled reader ends the process where such values are deeper than its stack; the one in Python raises.
    """
    finite: set[str] = set()

    def found(part: Any, around: tuple[str, ...]) -> bool:
        if isinstance(part, list):
            return any(found(branch, around) for branch in part)
        if isinstance(part, str):
            return part in around or (part in named and part not in finite and found(named[part], around))
        kind, name = part["type"], part.get("name")
        if kind not in ("record", "error"):
            return found(part.get("items", part.get("values", "null")), around)
        if name in around or any(found(field["type"], (*around, name)) for field in part["fields"]):
            return True
        finite.add(name)
        return False

    return found(schema, ())


def _found(parsed: Any, named: Mapping[str, Any]) -> Any:
    """A schema that is the name of another one, or a union of names: fastavro knows those within records only."""
    if isinstance(parsed, list):
        return [_found(branch, named) for branch in parsed]
    return named.get(parsed, parsed) if isinstance(parsed, str) else parsed


def _wanted(schema: Any, for_people: bool) -> Any:
    return schema if for_people else _without_times(schema)


def _without_times(schema: Any) -> Any:
    """A schema without the logical types that fastavro converts to dates and times."""
    if isinstance(schema, list):
        return [_without_times(branch) for branch in schema]
    if isinstance(schema, dict):
        kept = {name: _without_times(part) for name, part in schema.items()}
        return kept if kept.get("logicalType") == "decimal" else {n: p for n, p in kept.items() if n != "logicalType"}
    return schema


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case dict():
            return {name: _plain(part) for name, part in value.items()}
        case list():
            return [_plain(item) for item in value]
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case None | bool() | int() | float() | str() | Decimal():
            return value
    return str(value)
