"""Connect's ByteArrayConverter: bytes pass through unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.base import BuiltinConverter, describe

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


class ByteArrayConverter(BuiltinConverter):
    """Passes BINARY values through; a null stays null."""

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return the values themselves. Raises DataError for a type other than BINARY."""
        kind = values.type.value_type if pt.is_dictionary(values.type) else values.type
        if pt.is_null(kind):
            return values.cast(pa.binary())
        if pt.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pt.is_binary(kind) or pt.is_large_binary(kind):
            return values
        if pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
            return values.cast(pa.large_binary())
        raise DataError(
            f"ByteArrayConverter takes BINARY only, but a record of the topic {topic} is of type "
            f"{describe(schema, values)}: use StringConverter for text, JsonConverter for structured data"
        )
