"""Connect's converters of single numbers and booleans, in the bytes of Kafka's own serializers: big-endian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.base import BuiltinConverter, describe

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


class _FixedWidthConverter(BuiltinConverter):
    spark_name: ClassVar[str]
    arrow_type: ClassVar[Any]
    wire_type: ClassVar[str]

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return big-endian bytes; a null stays null. Raises DataError for values of another type."""
        if pt.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pt.is_null(values.type):
            return values.cast(pa.binary())
        if values.type != self.arrow_type:
            raise DataError(
                f"{type(self).__name__} takes {self.spark_name} only, but a record of the topic {topic} is of type "
                f"{describe(schema, values)}: cast it, or use JsonConverter"
            )
        filled = values.fill_null(pa.scalar(0).cast(self.arrow_type)) if values.null_count else values
        data = filled.to_numpy(zero_copy_only=False).astype(self.wire_type)
        fixed = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(data.itemsize), len(values), [None, pa.py_buffer(data.tobytes())]
        ).cast(pa.binary())
        if values.null_count == 0:
            return fixed
        valid = np.packbits(values.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        return pa.Array.from_buffers(pa.binary(), len(values), [pa.py_buffer(valid), *fixed.buffers()[1:]])


class ShortConverter(_FixedWidthConverter):
    """Writes SMALLINT values as two bytes."""

    spark_name, arrow_type, wire_type = "SMALLINT", pa.int16(), ">i2"


class IntegerConverter(_FixedWidthConverter):
    """Writes INT values as four bytes."""

    spark_name, arrow_type, wire_type = "INT", pa.int32(), ">i4"


class LongConverter(_FixedWidthConverter):
    """Writes BIGINT values as eight bytes."""

    spark_name, arrow_type, wire_type = "BIGINT", pa.int64(), ">i8"


class FloatConverter(_FixedWidthConverter):
    """Writes FLOAT values as four bytes, IEEE 754."""

    spark_name, arrow_type, wire_type = "FLOAT", pa.float32(), ">f4"


class DoubleConverter(_FixedWidthConverter):
    """Writes DOUBLE values as eight bytes, IEEE 754."""

    spark_name, arrow_type, wire_type = "DOUBLE", pa.float64(), ">f8"


class BooleanConverter(_FixedWidthConverter):
    """Writes BOOLEAN values as one byte, 1 or 0."""

    spark_name, arrow_type, wire_type = "BOOLEAN", pa.bool_(), "u1"
