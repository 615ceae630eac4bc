"""Decodes the bytes of record keys, values and headers for people: the inverse of the built-in converters.

JsonConverter                    JSON; an envelope of schema and payload gives the payload, with decimals, dates,
                                 times and bytes that the schema names as text
StringConverter                  text in UTF-8
Short-, Integer-, Long-,         numbers and booleans, big-endian
Float-, Double-, BooleanConverter
ByteArrayConverter               `{"base64": ...}`
auto                             JSON if it is valid JSON, else text, else bytes
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.api.foreign_json import parse_json

Decoder = Callable[[bytes], Any]
"""Returns data that JSON can hold, Decimals aside. Raises ValueError for bytes that it cannot decode."""

_ENVELOPE: Final = {"schema", "payload"}
_EPOCH: Final = date(1970, 1, 1)
_LOGICAL: Final = "org.apache.kafka.connect.data."


def decoder(converter: str) -> Decoder:
    """Return the decoder for a converter's alias, its Java class or its dotted path. Raises ConfigError."""
    found = _DECODERS.get(converter.rpartition(".")[2])
    if found is None:
        raise ConfigError(
            f"There is no decoder for the converter {converter}: use one of {', '.join(_DECODERS)}; with "
            "ByteArrayConverter you see the bytes"
        )
    return found


def to_json(value: Any) -> str:
    """Return decoded data as one line of JSON.

    Decimals are numbers with all of their digits. NaN and the infinities, which JSON does not have, are texts, as Kafka
    Connect writes them. Characters that would control a terminal are escaped.
    """
    try:
        text = _rendered(value)
    except RecursionError:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _rendered(value: Any) -> str:
    match value:
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return json.dumps(json.dumps(value))
        case dict():
            return f"{{{', '.join(f'{_rendered(name)}: {_rendered(field)}' for name, field in value.items())}}}"
        case list():
            return f"[{', '.join(map(_rendered, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _auto(data: bytes) -> Any:
    for decode in (_json, _text):
        try:
            return decode(data)
        except ValueError:
            continue
    return _bytes(data)


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

CONVERTERS: Final = tuple(_DECODERS)
"""The names that `decoder` knows."""


def _of_schema(schema: Any, payload: Any) -> Any:
    """The payload of an envelope, with the logical types of its schema resolved."""
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
    logical = _LOGICAL_TYPES.get(str(schema.get("name", "")))
    try:
        return payload if logical is None else logical(schema, payload)
    except (ValueError, TypeError, OverflowError):
        return payload


def _decimal(schema: Mapping[str, Any], payload: Any) -> Any:
    """A decimal: the bytes of its unscaled value in base64 (decimal.format=BASE64), or a number."""
    if not isinstance(payload, str):
        return payload
    scale = int(schema.get("parameters", {}).get("scale", 0))
    unscaled = int.from_bytes(base64.b64decode(payload, validate=True), "big", signed=True)
    return f"{Decimal(unscaled).scaleb(-scale):f}"


def _date(_schema: Mapping[str, Any], days: int) -> str:
    return (_EPOCH + timedelta(days=days)).isoformat()


def _time(_schema: Mapping[str, Any], milliseconds: int) -> str:
    return (datetime.min + timedelta(milliseconds=milliseconds)).time().isoformat()  # noqa: DTZ901 - a time of day


def _timestamp(_schema: Mapping[str, Any], milliseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).isoformat()


_LOGICAL_TYPES: Final[Mapping[str, Callable[[Mapping[str, Any], Any], Any]]] = {
    f"{_LOGICAL}Decimal": _decimal,
    f"{_LOGICAL}Date": _date,
    f"{_LOGICAL}Time": _time,
    f"{_LOGICAL}Timestamp": _timestamp,
}
