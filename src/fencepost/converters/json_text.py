"""JSON texts of Arrow columns, in the form of Connect's JsonConverter."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from fencepost.api.errors import DataError
from fencepost.converters.binary import base64, base64_decimals
from fencepost.converters.numbers import json_floats
from fencepost.converters.render import Renderer, fields_of, plain
from fencepost.converters.text import Escape, Text, bytes_of, is_constant, join_columns

_ESCAPES = (
    Escape("\\", {'"': '"', "\\": "\\", "\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r"}),
    Escape("\\u000", {chr(code): f"{code:X}" for code in range(0x10) if chr(code) not in "\b\t\n\f\r"}),
    Escape("\\u001", {chr(code): f"{code & 15:X}" for code in range(0x10, 0x20)}),
)


@dataclass(frozen=True)
class JsonRenderer(Renderer):
    """Writes JSON. If `numeric_decimals`, decimals are numbers instead of the base64 of their unscaled bytes."""

    numeric_decimals: bool = False

    def string(self, values: pa.Array) -> Text:
        """Write texts in quotes, with the escapes that RFC 8259 demands; other characters are unchanged, in UTF-8.

        Raises DataError for bytes that are not UTF-8, which would break the document: Spark casts BINARY to STRING
        unchecked.
        """
        try:
            if bytes_of(values).max(initial=0) >= 0x80:
                values.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError("A STRING has bytes that are not UTF-8: leave it BINARY, or decode it") from error
        return Text(escape(values), '"', '"')

    def floating(self, values: pa.Array) -> Text:
        """Write numbers with a fraction or an exponent; NaN and the infinities become strings."""
        return Text(json_floats(values))

    def binary(self, values: pa.Array) -> Text:
        """Write bytes as base64."""
        return Text(base64(values), '"', '"')

    def decimal(self, values: pa.Array) -> Text:
        """Write decimals as the base64 of their unscaled bytes, or as numbers with all digits."""
        if self.numeric_decimals:
            return Text(values.cast(pa.string()))
        return Text(base64_decimals(values), '"', '"')

    def date(self, values: pa.Array) -> Text:
        """Write dates as days since the epoch."""
        return Text(values.view(pa.int32()).cast(pa.string()))

    def timestamp(self, millis: pa.Array) -> Text:
        """Write times as milliseconds since the epoch."""
        return Text(millis.cast(pa.string()))

    def time(self, millis: pa.Array) -> Text:
        """Write times of day as milliseconds since midnight."""
        return Text(millis.cast(pa.string()))

    def struct(self, values: pa.Array, path: str) -> pa.Array:
        """Write structs as objects with all fields, including null ones."""
        pieces = self._object(values, path)
        if all(isinstance(piece, str) for piece in pieces):
            return pa.repeat("".join(map(str, pieces)), len(values))
        return join_columns(pieces)

    def _object(self, values: pa.Array, path: str) -> list[str | Text]:
        """Return the pieces of objects.

        Objects within them are returned as pieces, too: everything is joined only once.
        """
        pieces: list[str | Text] = []
        for name, field, place in fields_of(values, path):
            pieces.append(("," if pieces else "{") + quote(name) + ":")
            pieces += self._member(plain(field), place)
        return [*pieces, "}"] if pieces else ["{}"]

    def _member(self, values: pa.Array, path: str) -> list[str | Text]:
        if is_constant(values):
            text = self.render(values.slice(0, 1), path)
            first = text.body[0].as_py()
            return ["null" if first is None else f"{text.prefix}{first}{text.suffix}"]
        if pa.types.is_struct(values.type) and not values.null_count:
            return self._object(values, path)
        return [self.render(values, path)]

    def map(self, keys: Text, values: Text, *, string_keys: bool) -> tuple[pa.Array, tuple[str, str, str]]:
        """Write maps as objects if their keys are strings, else as arrays of `[key, value]`."""
        if string_keys:
            return join_columns([keys, ":", values]), ("{", ",", "}")
        return join_columns(["[", keys, ",", values, "]"]), ("[", ",", "]")


def escape(strings: pa.Array) -> pa.Array:
    """Escape the characters that are not allowed in a JSON string; columns without them are returned unchanged."""
    data = bytes_of(strings)
    if len(data) and (data.min() < ord(" ") or (data == ord('"')).any() or (data == ord("\\")).any()):
        for group in _ESCAPES if data.min() < ord(" ") else _ESCAPES[:1]:
            strings = group.apply(strings)
    return strings


def quote(name: str) -> str:
    """Return a JSON string."""
    return json.dumps(name, ensure_ascii=False)
