"""Converters: from Arrow columns of Connect data to bytes for Kafka."""

from fencepost.converters.byte_array_converter import ByteArrayConverter
from fencepost.converters.json_converter import JsonConverter
from fencepost.converters.number_converters import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.converters.string_converter import StringConverter

__all__ = [
    "BooleanConverter",
    "ByteArrayConverter",
    "DoubleConverter",
    "FloatConverter",
    "IntegerConverter",
    "JsonConverter",
    "LongConverter",
    "ShortConverter",
    "SimpleHeaderConverter",
    "StringConverter",
]
