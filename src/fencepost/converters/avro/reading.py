"""Reads single values in Avro's binary encoding, for display and for checks."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from fencepost.api.decimals import scaled
from fencepost.converters.registry.reading import Reader, needs
from fencepost.converters.registry.schemas import RegistrySchema

_DECIMAL: Final = "fencepost-exact-decimal"
"""The logical type for decimals that fastavro gets instead of its own."""
_TIMES: Final = frozenset(
    {
        "date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
        "local-timestamp-millis", "local-timestamp-micros",
    }
)  # fmt: skip


def avro_reader(schema: RegistrySchema, for_people: bool, referred: Mapping[str, RegistrySchema]) -> Reader:
    """Return a function that reads values of a schema. See MakeReader."""
    try:
        import fastavro  # noqa: PLC0415 - optional
        from fastavro import _read_py  # noqa: PLC0415 - see _is_recursive
    except ImportError:
        raise needs("fastavro", "registry") from None
    for kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS[f"{kind}-{_DECIMAL}"] = _decimal
    named: dict[str, Any] = {}
    try:
        for part in referred.values():
            fastavro.parse_schema(_wanted(json.loads(part.text), for_people), named)
        given = json.loads(schema.text)
        parsed = _found(fastavro.parse_schema(_wanted(given, for_people), named), named)
    except Exception as error:
        raise ValueError(f"a schema that is not one of Avro: {error}") from error
    if _has_items_without_bytes(parsed, named):
        raise ValueError(
            "a schema with an array of items that take no bytes: ten bytes would be more of them than fit in memory"
        )
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
            raise ValueError("bytes that do not fit their schema: bytes follow the value")
        return found

    return read


def _is_recursive(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether values of a schema may be nested to any depth.

    If a value is nested too deeply for the stack, fastavro's compiled reader ends the process, but its Python reader
    raises an error.
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


def _has_items_without_bytes(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether an array's items may take no bytes, so that the size of a value does not limit their number."""
    seen: set[str] = set()

    def found(part: Any) -> bool:
        if isinstance(part, list):
            return any(found(branch) for branch in part)
        if isinstance(part, str):
            if part not in named or part in seen:
                return False
            seen.add(part)
            return found(named[part])
        items = part.get("items", part.get("values"))
        if "items" in part and _takes_no_bytes(items, named, ()):
            return True
        within = [field["type"] for field in part.get("fields", ())] if items is None else [items]
        return any(found(inner) for inner in within)

    return found(schema)


def _takes_no_bytes(part: Any, named: Mapping[str, Any], around: tuple[str, ...]) -> bool:
    if isinstance(part, str):
        if part in named and part not in around:
            return _takes_no_bytes(named[part], named, (*around, part))
        return part == "null"
    if not isinstance(part, dict):
        # A union's item takes at least one byte: the number of its branch.
        return False
    if part["type"] in ("record", "error"):
        return all(_takes_no_bytes(field["type"], named, (*around, part["name"])) for field in part["fields"])
    return bool(part["type"] == "null" or (part["type"] == "fixed" and part["size"] == 0))


def _found(parsed: Any, named: Mapping[str, Any]) -> Any:
    """Resolve a schema that is a name or a union of names: fastavro resolves names only within records."""
    if isinstance(parsed, list):
        return [_found(branch, named) for branch in parsed]
    return named.get(parsed, parsed) if isinstance(parsed, str) else parsed


def _wanted(schema: Any, for_people: bool) -> Any:
    """Return the schema with only the logical types that are converted: decimals and, if `for_people`, dates and times.

    Other logical types are left out, because other programs may write texts that are not a UUID. Decimals get a logical
    type of this module: fastavro would round decimals with more digits than their precision.
    """
    if isinstance(schema, list):
        return [_wanted(branch, for_people) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _wanted(part, for_people) for name, part in schema.items()}
    logical = found.pop("logicalType", None)
    if logical == "decimal":
        return found | {"logicalType": _DECIMAL}
    return found | {"logicalType": logical} if for_people and logical in _TIMES else found


def _decimal(data: bytes, schema: Any, _reader_schema: Any = None) -> Decimal:
    return scaled(data, schema.get("scale", 0))


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
