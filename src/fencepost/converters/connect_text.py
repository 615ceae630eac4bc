"""Connect's text formats outside of JSON: Java's `toString`, and `Values.convertToString` for headers.

Java prints dates and times in the JVM's locale and time zone; here they are written in ISO 8601, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.time_texts import time_texts
from fencepost.converters.binary import base64
from fencepost.converters.json_text import quote
from fencepost.converters.numbers import java_floats
from fencepost.converters.render import Renderer, UnsupportedTypeError
from fencepost.converters.text import Escape, Text, join_columns, wrap

_QUOTES = Escape("\\", {'"': '"', "\\": "\\"})


@dataclass(frozen=True)
class _IsoRenderer(Renderer):
    """The common part of the two formats."""

    def floating(self, values: pa.Array) -> Text:
        """Write numbers as Java's Float.toString and Double.toString do."""
        return Text(java_floats(values))

    def decimal(self, values: pa.Array) -> Text:
        """Write decimals as Java's BigDecimal.toString does."""
        return Text(values.cast(pa.string()))

    def date(self, values: pa.Array) -> Text:
        """Write dates as `2013-01-31`."""
        return Text(time_texts(values))

    def timestamp(self, millis: pa.Array) -> Text:
        """Write times as `2013-01-31T12:30:00.000Z`."""
        spaced = time_texts(millis.view(pa.timestamp("ms")))
        return Text(pc.replace_substring(spaced, " ", "T"), "", "Z")

    def time(self, millis: pa.Array) -> Text:
        """Write times of day as `12:30:00.000Z`."""
        return Text(millis.cast(pa.int32()).view(pa.time32("ms")).cast(pa.string()), "", "Z")


@dataclass(frozen=True)
class JavaRenderer(_IsoRenderer):
    """Java's `toString`: `Struct{a=1,b=x}` without the fields that are null, `[1, 2]`, `{k=v}`."""

    LIST: ClassVar[tuple[str, str, str]] = ("[", ", ", "]")

    def string(self, values: pa.Array) -> Text:
        """Return the text unchanged."""
        return Text(values)

    def binary(self, values: pa.Array) -> Text:
        """Raises UnsupportedTypeError: Java would print the object's address."""
        raise UnsupportedTypeError(values.type, "")

    def struct(self, values: pa.Array, path: str) -> pa.Array:
        """Write structs as `Struct{a=1,b=x}`."""
        if not values.type.num_fields:
            return pa.repeat("Struct{}", len(values))
        pieces = [Text(wrap(text.column(), f",{name}=", "")) for name, text in self.fields(values, path)]
        joined = join_columns(pieces, null="")
        return wrap(pc.binary_replace_slice(joined, 0, 1, "Struct{"), "", "}")

    def map(self, keys: Text, values: Text, *, string_keys: bool) -> tuple[pa.Array, tuple[str, str, str]]:  # noqa: ARG002
        """Write maps as `{k=v, l=w}`."""
        return join_columns([keys, "=", values]), ("{", ", ", "}")


@dataclass(frozen=True)
class HeaderRenderer(_IsoRenderer):
    """Connect's `Values.convertToString`, for values inside a structure: `{"a":1,"b":"x"}`, `[1,2]`, `{"k":"v"}`."""

    def string(self, values: pa.Array) -> Text:
        """Put texts in quotes, with quotes and backslashes escaped."""
        return Text(_QUOTES.apply(values) if len(values) else values, '"', '"')

    def binary(self, values: pa.Array) -> Text:
        """Write bytes as base64 in quotes."""
        return Text(base64(values), '"', '"')

    def struct(self, values: pa.Array, path: str) -> pa.Array:
        """Write structs as `{"a":1,"b":"x"}`, with all fields."""
        if not values.type.num_fields:
            return pa.repeat("{}", len(values))
        pieces: list[str | Text] = []
        for name, text in self.fields(values, path):
            pieces += [("," if pieces else "{") + quote(name) + ":", text]
        return join_columns([*pieces, "}"])

    def map(self, keys: Text, values: Text, *, string_keys: bool) -> tuple[pa.Array, tuple[str, str, str]]:  # noqa: ARG002
        """Write maps as `{"k":"v"}`."""
        return join_columns([keys, ":", values]), ("{", ",", "}")
