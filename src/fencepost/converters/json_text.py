"""JSON texts of Arrow columns, in the form in which Connect's JsonConverter writes payloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from fencepost.converters.binary import base64, unscaled_bytes
from fencepost.converters.numbers import json_floats
from fencepost.converters.render import Renderer
from fencepost.converters.text import Escape, Text, bytes_of, join_columns

_ESCAPES = (
    Escape("\\", {'"': '"', "\\": "\\", "\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r"}),
    Escape("\\u000", {chr(code): f"{code:X}" for code in range(0x10) if chr(code) not in "\b\t\n\f\r"}),
    Escape("\\u001", {chr(code): f"{code & 15:X}" for code in range(0x10, 0x20)}),
)


@dataclass(frozen=True)
class JsonRenderer(Renderer):
    """JSON. `numeric_decimals` writes decimals as numbers instead of base64 of their unscaled bytes."""

    numeric_decimals: bool = False

    def string(self, values: pa.Array) -> Text:
        """Quoted, with the escapes that RFC 8259 demands; other characters stay as they are, in UTF-8."""
        return Text(escape(values), '"', '"')

    def floating(self, values: pa.Array) -> Text:
        """Numbers with a fraction or an exponent; NaN and the infinities are strings."""
        return Text(json_floats(values))

    def binary(self, values: pa.Array) -> Text:
        """Base64."""
        return Text(base64(values), '"', '"')

    def decimal(self, values: pa.Array) -> Text:
        """Base64 of the unscaled bytes, or a number with all its digits."""
        return Text(values.cast(pa.string())) if self.numeric_decimals else self.binary(unscaled_bytes(values))

    def date(self, values: pa.Array) -> Text:
        """Days since the epoch."""
        return Text(values.view(pa.int32()).cast(pa.string()))

    def timestamp(self, millis: pa.Array) -> Text:
        """Milliseconds since the epoch."""
        return Text(millis.cast(pa.string()))

    def time(self, millis: pa.Array) -> Text:
        """Milliseconds since midnight."""
        return Text(millis.cast(pa.string()))

    def struct(self, size: int, fields: Sequence[tuple[str, Text]]) -> pa.Array:
        """Objects with all fields, null or not."""
        if not fields:
            return pa.repeat("{}", size)
        pieces: list[str | Text] = []
        for name, text in fields:
            pieces += [("," if pieces else "{") + quote(name) + ":", text]
        return join_columns([*pieces, "}"])

    def map(self, keys: Text, values: Text, *, string_keys: bool) -> tuple[pa.Array, tuple[str, str, str]]:
        """Objects where keys are strings, else arrays of `[key, value]`."""
        if string_keys:
            return join_columns([keys, ":", values]), ("{", ",", "}")
        return join_columns(["[", keys, ",", values, "]"]), ("[", ",", "]")


def escape(strings: pa.Array) -> pa.Array:
    """Escape the characters that are not allowed in a JSON string; columns without them are returned unchanged."""
    data = bytes_of(strings)
    if len(data) and (data.min() < ord(" ") or (data == ord('"')).any() or (data == ord("\\")).any()):
        for group in _ESCAPES:
            strings = group.apply(strings)
    return strings


def quote(name: str) -> str:
    """One JSON string."""
    return json.dumps(name, ensure_ascii=False)
