"""Data without a schema, as Java's records `Anything`: one field is set, by the type of the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json
from fencepost.converters.avro.datum import anything_bytes, parts_around
from fencepost.converters.avro.pieces import Array, Piece, constant
from fencepost.converters.avro.steps import Binary, Real, Step, Text, Truth, Whole
from fencepost.converters.render import UnsupportedTypeError

_FIELDS: Final[tuple[tuple[Callable[[Any], bool], str, Step], ...]] = (
    (pt.is_boolean, "boolean", Truth()),
    (pt.is_binary, "bytes", Binary()),
    (pt.is_float64, "double", Real(8)),
    (pt.is_float32, "float", Real(4)),
    (pt.is_int64, "long", Whole()),
    (lambda kind: pt.is_int8(kind) or pt.is_int16(kind) or pt.is_int32(kind), "int", Whole()),
    (pt.is_string, "string", Text()),
)


@dataclass(frozen=True)
class Anything(Step):
    """Values of one type each time, or JSON texts."""

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[Piece]:
        """The fields before, the value, the fields after."""
        if isinstance(values.type, pa.JsonType):
            return [self._json(values.storage, rows)]
        for matches, field, step in _FIELDS:
            if matches(values.type):
                before, after = parts_around(field)
                count = len(values)
                return [constant(before, count, rows), *step.pieces(values, rows, place), constant(after, count, rows)]
        raise UnsupportedTypeError(values.type, place)

    @staticmethod
    def _json(texts: pa.Array, rows: Array | None) -> Piece:
        """Structures without a schema differ from record to record, so they are written one by one."""
        try:
            found = [b"" if text is None else anything_bytes(parse_json(text)) for text in texts.to_pylist()]
        except ValueError as error:
            raise DataError(f"A record without a schema cannot be written: {error}. Give it a schema") from error
        lengths = np.array([len(data) for data in found], np.int64)
        starts = np.cumsum(lengths) - lengths
        source = np.frombuffer(b"".join(found) + bytes(16), np.uint8)
        return Piece.of(lengths if rows is None else lengths * rows, source, starts)
