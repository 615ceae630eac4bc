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

    def read(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            found = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as error:
            raise ValueError(f"bytes that do not fit their schema: {type(error).__name__}") from error
        if stream.tell() != len(data):
            raise ValueError("bytes that do not fit their schema: more than a value")
        return _plain(found)

    return read


def _found(parsed: Any, named: Mapping[str, Any]) -> Any:
    """A schema that is the name of another one, or a union of names: fastavro knows those within records only."""
    if isinstance(parsed, list):
        return [_found(branch, named) for branch in parsed]
    return named.get(parsed, parsed) if isinstance(parsed, str) else parsed


def _wanted(schema: Any, for_people: bool) -> Any:
    return schema if for_people else _without_times(schema)


def _without_times(schema: Any) -> Any:
    """A schema without the logical types that fastavro makes dates and times of."""
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
