"""Single values in Avro's binary encoding, outside of columns: defaults, and JSON without a schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from fencepost.converters.avro.schema import ANYTHING_FIELDS, Avro

_NULL: Final = b"\0"


def long_bytes(number: int) -> bytes:
    """Encode an int or long."""
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while zigzag > 0x7F:
        found.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    found.append(zigzag)
    return bytes(found)


def sized(data: bytes) -> bytes:
    """Encode bytes, or a text in UTF-8: the length, then the bytes."""
    return long_bytes(len(data)) + data


def default_bytes(  # noqa: C901, PLR0911, PLR0912 - one case for each type
    schema: Avro, value: Any, named: Mapping[str, Avro]
) -> bytes:
    """Encode a default, given as in a schema's JSON. Raises ValueError for a default that does not fit the schema."""
    if isinstance(schema, list):
        # The default of a union is a value of its first branch.
        return _NULL + default_bytes(schema[0], value, named)
    if isinstance(schema, str) and schema in named:
        return default_bytes(named[schema], value, named)
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case "int" | "long", int():
            return long_bytes(value)
        case "float", int() | float():
            return struct.pack("<f", value)
        case "double", int() | float():
            return struct.pack("<d", value)
        case "string", str():
            return sized(value.encode())
        case "bytes", str():
            return sized(value.encode("latin-1"))
        case "fixed", str():
            return value.encode("latin-1")
        case "enum", str():
            return long_bytes(schema["symbols"].index(value))
        case "array", list():
            items = b"".join(default_bytes(schema["items"], item, named) for item in value)
            return (long_bytes(len(value)) + items if value else b"") + _NULL
        case "map", dict():
            entries = b"".join(
                sized(name.encode()) + default_bytes(schema["values"], item, named) for name, item in value.items()
            )
            return (long_bytes(len(value)) + entries if value else b"") + _NULL
        case "record", dict():
            return b"".join(
                default_bytes(part["type"], value[part["name"]] if part["name"] in value else part["default"], named)
                for part in schema["fields"]
            )
    raise ValueError(f"the default {value!r} does not fit {kind}")


def anything_bytes(value: Any) -> bytes:  # noqa: PLR0911 - one case for each type
    """Encode JSON data without a schema as a record `Anything`."""
    match value:
        case None:
            return _NULL * len(ANYTHING_FIELDS)
        case bool():
            return around("boolean", bytes([value]))
        case int():
            # Java's Long has 64 bits.
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"the number {value} has more than 64 bits")
            return around("long", long_bytes(value))
        case float():
            return around("double", struct.pack("<d", value))
        case str():
            return around("string", sized(value.encode()))
        case list():
            items = b"".join(map(anything_bytes, value))
            return around("array", (long_bytes(len(value)) + items if value else b"") + _NULL)
        case dict():
            entries = b"".join(anything_bytes(name) + anything_bytes(item) for name, item in value.items())
            return around("map", (long_bytes(len(value)) + entries if value else b"") + _NULL)
    raise ValueError(f"{type(value).__name__} has no form in JSON")


def around(field: str, data: bytes) -> bytes:
    """Return an `Anything` record in which only this field is set; `data` is the field's content."""
    before, after = parts_around(field)
    return before + data + after


def parts_around(field: str) -> tuple[bytes, bytes]:
    """Return the bytes before and after the content of the only field that is set in an `Anything` record."""
    position = ANYTHING_FIELDS.index(field)
    return _NULL * position + b"\2", _NULL * (len(ANYTHING_FIELDS) - position - 1)
