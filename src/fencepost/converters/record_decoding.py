"""Decodes the bytes of record keys, values and headers for people: the inverse of the built-in converters.

JsonConverter                    JSON; an envelope of schema and payload gives the payload, with decimals, dates,
                                 times and bytes that the schema names as text
StringConverter                  text in UTF-8
Short-, Integer-, Long-,         numbers and booleans, big-endian
Float-, Double-, BooleanConverter
ByteArrayConverter               `{"base64": ...}`
AvroConverter, ProtobufConverter, by the schema whose id is before the data, or in a header
JsonSchemaConverter
auto                             by the schema if there is a registry and the data has the id of a schema; else as JSON
                                 if it is valid; else as text; else as bytes. Data with a NUL is shown as bytes,
                                 because it is probably a binary number
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.api.foreign_json import parse_json
from fencepost.converters.jsonschema.reading import logical_value
from fencepost.converters.registry.reading import RegistryReader, is_framed

Decoder = Callable[[bytes], Any]
"""Returns data that JSON can hold, except for Decimals. Raises ValueError for bytes that it cannot decode."""

_ENVELOPE: Final = {"schema", "payload"}


def decoder(converter: str) -> Decoder:
    """Return the decoder for a converter's alias, its Java class or its dotted path. Raises ConfigError."""
    found = _DECODERS.get(converter.rpartition(".")[2])
    if found is None:
        raise ConfigError(
            f"There is no decoder for the converter {converter}: use one of {', '.join(CONVERTERS)}; with "
            "ByteArrayConverter you see the bytes"
        )
    return found


class RecordDecoder:
    """Decodes the keys or values of records, by the name of a converter, and by a registry if there is one."""

    def __init__(self, converter: str, registry: RegistryReader | None, *, is_key: bool) -> None:
        """Raises ConfigError for an unknown converter, and if a converter that needs a registry has none."""
        name = converter.rpartition(".")[2]
        if name in REGISTRY_CONVERTERS and registry is None:
            raise ConfigError(
                f"{name} needs a schema registry, whose address is not known: give it with --schema-registry-url, or the "
                "connector's file, which has it as schema.registry.url, with --connector-config"
            )
        self._only_registry = name in REGISTRY_CONVERTERS
        self.guesses = name == "auto" and registry is None
        """Whether the converter that wrote the data is unknown."""
        self._registry = registry if self._only_registry or name == "auto" else None
        self._plain = decoder("auto" if self._only_registry else converter)
        self._is_key = is_key

    def __call__(self, data: bytes, headers: Mapping[str, bytes | None]) -> Any:
        """Return decoded data.

        Raises ValueError, and the errors of RegistryReader if the registry cannot be reached.
        """
        if self._registry is not None:
            try:
                return self._registry.read(data, is_key=self._is_key, headers=headers)
            except ValueError:
                if self._only_registry:
                    raise
        return self._plain(data)


def advice(data: bytes, part: str) -> str | None:
    """Return which converter may decode data that `auto` shows as bytes; None for JSON and text.

    `part` is key or value.
    """
    if not isinstance(shown := _auto(data), dict) or shown != _bytes(data):
        return None
    fitting = [f"--{part}-converter {name}" for name, size in _SIZES.items() if size == len(data)]
    if is_framed(data):
        fitting.append("--schema-registry-url URL")
    options = " or ".join(fitting) or f"--{part}-converter NAME, one of {', '.join(CONVERTERS)},"
    return f"{options} decodes it, depending on the converter that wrote it"


def _auto(data: bytes) -> Any:
    for decode in (_json, _printed):
        try:
            return decode(data)
        except ValueError:
            continue
    return _bytes(data)


def _printed(data: bytes) -> str:
    if b"\0" in data:
        raise ValueError("a NUL is not text")
    return _text(data)


def _text(data: bytes) -> str:
    return data.decode()


def _json(data: bytes) -> Any:
    value = parse_json(data.decode(), parse_float=Decimal)
    if isinstance(value, dict) and value.keys() == _ENVELOPE:
        return _of_schema(value["schema"], value["payload"])
    return value


def _bytes(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}


def _packed(layout: str) -> Decoder:
    packed = struct.Struct(f">{layout}")

    def decode(data: bytes) -> Any:
        if len(data) != packed.size:
            raise ValueError(f"{len(data)} bytes, not {packed.size}")
        return packed.unpack(data)[0]

    return decode


_DECODERS: Final[Mapping[str, Decoder]] = {
    "auto": _auto,
    "JsonConverter": _json,
    "StringConverter": _text,
    "ByteArrayConverter": _bytes,
    "BooleanConverter": _packed("?"),
    "ShortConverter": _packed("h"),
    "IntegerConverter": _packed("i"),
    "LongConverter": _packed("q"),
    "FloatConverter": _packed("f"),
    "DoubleConverter": _packed("d"),
}

_SIZES: Final[Mapping[str, int]] = {
    "BooleanConverter": 1,
    "ShortConverter": 2,
    "IntegerConverter": 4,
    "FloatConverter": 4,
    "LongConverter": 8,
    "DoubleConverter": 8,
}

REGISTRY_CONVERTERS: Final = ("AvroConverter", "ApicurioAvroConverter", "ProtobufConverter", "JsonSchemaConverter")
"""Converters whose records are decoded by a schema registry."""

CONVERTERS: Final = (*_DECODERS, *REGISTRY_CONVERTERS)
"""The names of converters that RecordDecoder knows."""


def _of_schema(schema: Any, payload: Any) -> Any:
    """Return the payload of an envelope, with the logical types of its schema resolved."""
    if payload is None or not isinstance(schema, dict):
        return payload
    match schema.get("type"), payload:
        case "struct", dict():
            kinds = {field.get("field"): field for field in schema.get("fields", ())}
            return {name: _of_schema(kinds.get(name), value) for name, value in payload.items()}
        case "array", list():
            return [_of_schema(schema.get("items"), value) for value in payload]
        case "map", dict():
            return {name: _of_schema(schema.get("values"), value) for name, value in payload.items()}
    scale = (schema.get("parameters") or {}).get("scale", 0)
    found = logical_value(str(schema.get("name", "")), payload, scale)
    return f"{found:f}" if isinstance(found, Decimal) and isinstance(payload, str) else found
