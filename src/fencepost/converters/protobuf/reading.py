"""Reads single values of Protobuf, for display and for checks.

Known messages of dates, times and decimals are shown like Connect's types, and wrappers like their content. A field
that is not set is null if the schema can express that, else zero, false or the empty text.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.decimals import scaled
from fencepost.api.errors import DataError
from fencepost.converters.protobuf.schema import DATE, DECIMAL, TIME, TIMESTAMP, WRAPPER_PACKAGE, WRAPPERS
from fencepost.converters.registry.reading import Reader, needs
from fencepost.converters.registry.schemas import RegistrySchema

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WRAPPERS: Final = frozenset(f"{WRAPPER_PACKAGE}.{name}" for name in WRAPPERS.values())
_LONGEST_VARINT: Final = 5
_DEEPEST_INDEX: Final = 100


def protobuf_reader(schema: RegistrySchema, for_people: bool, referred: Mapping[str, RegistrySchema]) -> Reader:
    """Return a function that reads values of a schema; see MakeReader."""
    try:
        from fencepost.converters.protobuf.descriptors import MessageClasses  # noqa: PLC0415 - optional
    except ImportError:
        raise needs("protobuf", "registry") from None
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - optional

    try:
        classes = MessageClasses(schema.text, referred)
    except DataError as error:
        raise ValueError(str(error)) from error

    def read(data: bytes) -> Any:
        path, start = _indexes(data)
        message = classes.message_class(path)()
        try:
            message.ParseFromString(data[start:])
        except DecodeError as error:
            raise ValueError("bytes that do not fit their schema") from error
        return _value(message, for_people)

    return read


def _indexes(data: bytes) -> tuple[list[int], int]:
    """Return the path of the message, and the position where its bytes begin. See the converter's `message_indexes`."""
    count, position = _zigzag(data, 0)
    if not 0 <= count <= _DEEPEST_INDEX:
        raise ValueError("bytes without the index of a message")
    path = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        path.append(index)
    return path or [0], position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), position + index + 1
    raise ValueError("bytes without the index of a message")


def _value(message: Any, for_people: bool) -> Any:
    match message.DESCRIPTOR.full_name:
        case name if name in _WRAPPERS:
            return _scalar(message.DESCRIPTOR.fields_by_name["value"], message.value, for_people)
        case name if name == DECIMAL:
            return scaled(message.value, message.scale)
        case name if name in _TIMES:
            return _TIMES[name](message, for_people)
    return {field.name: _field(message, field, for_people) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any, for_people: bool) -> Any:
    found = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        return {_key(key): _scalar(value, item, for_people) for key, item in found.items()}
    if field.is_repeated:
        return [_scalar(field, item, for_people) for item in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _scalar(field, found, for_people)


def _scalar(field: Any, value: Any, for_people: bool) -> Any:
    if field.message_type is not None:
        return _value(value, for_people)
    if field.enum_type is not None:
        symbol = field.enum_type.values_by_number.get(value)
        return value if symbol is None else symbol.name
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _timestamp(message: Any, for_people: bool) -> Any:
    if not for_people:
        return message.seconds * 1000 + message.nanos // 1_000_000
    try:
        return (_EPOCH + dt.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)).isoformat()
    except OverflowError:
        return message.seconds


def _date(message: Any, for_people: bool) -> Any:
    try:
        date = dt.date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        return f"{message.year:04}-{message.month:02}-{message.day:02}"
    return date.isoformat() if for_people else (date - _EPOCH.date()).days


def _time(message: Any, for_people: bool) -> Any:
    millis = ((message.hours * 60 + message.minutes) * 60 + message.seconds) * 1000 + message.nanos // 1_000_000
    if not for_people:
        return millis
    try:
        return (dt.datetime.min + dt.timedelta(milliseconds=millis)).time().isoformat()  # noqa: DTZ901 - a time of day
    except OverflowError:
        return millis


_TIMES: Final = {TIMESTAMP: _timestamp, DATE: _date, TIME: _time}
