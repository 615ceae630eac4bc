"""Message classes of google.protobuf for the converter's schemas, and separately computed bytes of values."""

from __future__ import annotations

import datetime as dt
from decimal import Context
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.type import date_pb2, timeofday_pb2
from pyspark.sql import types as spark

from fencepost.converters.protobuf.schema import DECIMAL, ProtoField, ProtoFile, ProtoMessage

_Proto: Final = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "int32": _Proto.TYPE_INT32, "int64": _Proto.TYPE_INT64, "float": _Proto.TYPE_FLOAT, "double": _Proto.TYPE_DOUBLE,
    "bool": _Proto.TYPE_BOOL, "string": _Proto.TYPE_STRING, "bytes": _Proto.TYPE_BYTES, "uint32": _Proto.TYPE_UINT32,
    "uint64": _Proto.TYPE_UINT64,
}  # fmt: skip
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def message_class(file: ProtoFile) -> Any:
    """The class of a file's root message, whose descriptor is built here."""
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2, date_pb2, timeofday_pb2):
        proto = descriptor_pb2.FileDescriptorProto()
        known.DESCRIPTOR.CopyToProto(proto)
        pool.Add(proto)
    pool.Add(_decimal())
    if file.package == "google.protobuf":
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(file.full_name))
    proto = descriptor_pb2.FileDescriptorProto(name="test.proto", package=file.package, syntax="proto3")
    proto.dependency.extend([known.DESCRIPTOR.name for known in (timestamp_pb2, wrappers_pb2, date_pb2, timeofday_pb2)])
    proto.dependency.append("confluent/type/decimal.proto")
    for message in file.messages:
        _fill(proto.message_type.add(), message, f".{file.package}" if file.package else "")
    pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(file.full_name))


def _decimal() -> descriptor_pb2.FileDescriptorProto:
    proto = descriptor_pb2.FileDescriptorProto(
        name="confluent/type/decimal.proto", package="confluent.type", syntax="proto3"
    )
    message = proto.message_type.add(name="Decimal")
    for number, (name, kind) in enumerate((("value", "bytes"), ("precision", "uint32"), ("scale", "int32")), 1):
        message.field.add(name=name, number=number, type=_TYPES[kind], label=_Proto.LABEL_OPTIONAL)
    return proto


def _fill(proto: Any, message: ProtoMessage, around: str) -> None:
    proto.name = message.name
    full = f"{around}.{message.name}"
    for part in message.fields:
        made = proto.field.add(name=part.name, number=part.number)
        made.label = _Proto.LABEL_REPEATED if part.label == "repeated" else _Proto.LABEL_OPTIONAL
        if part.message is not None:
            made.type, made.type_name = _Proto.TYPE_MESSAGE, f"{full}.{part.message.name}"
        elif part.type in _TYPES:
            made.type = _TYPES[part.type]
        else:
            made.type, made.type_name = _Proto.TYPE_MESSAGE, f".{part.type}"
        if part.label == "optional":
            made.proto3_optional = True
            made.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_{part.name}")
    for inner in message.nested:
        _fill(proto.nested_type.add(), inner, full)


def expected(made: Any, file: ProtoFile, kind: spark.DataType, value: Any) -> bytes:
    """The bytes of a value, as google.protobuf would write them."""
    message = made()
    if isinstance(kind, spark.StructType):
        _set_fields(message, file.root, kind, value)
    else:
        message.value = value
    return bytes(message.SerializeToString(deterministic=True))


def _set_fields(message: Any, schema: ProtoMessage, kind: spark.StructType, value: Any) -> None:
    for part, given in zip(schema.fields, kind.fields, strict=True):
        _set(message, part, given.dataType, value[given.name])


def _set(message: Any, part: ProtoField, kind: spark.DataType, value: Any) -> None:
    if value is None:
        return
    match kind:
        case spark.ArrayType():
            for item in value:
                if part.message is None and part.type in _TYPES:
                    getattr(message, part.name).append(item)
                else:
                    _set_message(getattr(message, part.name).add(), part, kind.elementType, item)
        case spark.MapType():
            for key, item in value:
                entry = getattr(message, part.name).add()
                assert part.message is not None
                _set(entry, part.message.fields[0], kind.keyType, key)
                _set(entry, part.message.fields[1], kind.valueType, item)
        case _ if part.message is None and part.type in _TYPES:
            setattr(message, part.name, value)
        case _:
            inner = getattr(message, part.name)
            inner.SetInParent()
            _set_message(inner, part, kind, value)


def _set_message(message: Any, part: ProtoField, kind: spark.DataType, value: Any) -> None:
    match kind:
        case spark.StructType():
            assert part.message is not None
            _set_fields(message, part.message, kind, value)
        case spark.DecimalType():
            assert part.type == DECIMAL
            unscaled = int(value.scaleb(kind.scale, Context(prec=80)))
            bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
            message.value = unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
            message.precision = len(str(abs(unscaled)))
            message.scale = kind.scale
        case spark.DateType():
            message.year, message.month, message.day = value.year, value.month, value.day
        case spark.TimestampType() | spark.TimestampNTZType():
            millis = (value.replace(tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)
            message.seconds, message.nanos = millis // 1000, millis % 1000 * 1_000_000
        case spark.TimeType():
            message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
            message.nanos = value.microsecond // 1000 * 1_000_000
        case _:
            message.value = value
