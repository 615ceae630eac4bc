"""Data without a schema, written as Java's `Anything` records: the type of the value decides which field is set."""

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
from fencepost.converters.avro.steps import AvroStep, BytesStep, RealStep, TextStep, TruthStep, WholeStep
from fencepost.converters.columnar.pieces import Array, RowPiece, constant
from fencepost.converters.render import UnsupportedTypeError

_FIELDS: Final[tuple[tuple[Callable[[Any], bool], str, AvroStep], ...]] = (
    (pt.is_boolean, "boolean", TruthStep()),
    (pt.is_binary, "bytes", BytesStep()),
    (pt.is_float64, "double", RealStep(8)),
    (pt.is_float32, "float", RealStep(4)),
    (pt.is_int64, "long", WholeStep()),
    (lambda kind: pt.is_int8(kind) or pt.is_int16(kind) or pt.is_int32(kind), "int", WholeStep()),
    (pt.is_string, "string", TextStep()),
)


@dataclass(frozen=True)
class AnythingStep(AvroStep):
    """Writes values without a schema. All values of an array have the same type, or are JSON texts."""

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the pieces: the fields before the value's field, the value, and the fields after it."""
        if isinstance(values.type, pa.JsonType):
            return [self._json(values.storage, rows)]
        for matches, field, step in _FIELDS:
            if matches(values.type):
                before, after = parts_around(field)
                count = len(values)
                return [constant(before, count, rows), *step.pieces(values, rows, place), constant(after, count, rows)]
        raise UnsupportedTypeError(values.type, place)

    @staticmethod
    def _json(texts: pa.Array, rows: Array | None) -> RowPiece:
        """Write JSON values one by one, because structures without a schema differ from record to record."""
        try:
            found = [b"" if text is None else anything_bytes(parse_json(text)) for text in texts.to_pylist()]
        except ValueError as error:
            raise DataError(f"A record without a schema cannot be written: {error}. Give it a schema") from error
        lengths = np.array([len(data) for data in found], np.int64)
        starts = np.cumsum(lengths) - lengths
        source = np.frombuffer(b"".join(found) + bytes(16), np.uint8)
        return RowPiece.of(lengths if rows is None else lengths * rows, source, starts)
