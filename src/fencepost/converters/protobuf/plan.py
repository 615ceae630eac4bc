"""Finds how values are written with a Protobuf schema: their own, or another one from the registry.

Fields are matched by name, never by position: the other schema has its own numbers. It may have fields that the values
lack: these fields are absent in the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.api.errors import DataError
from fencepost.converters.protobuf.logical import DateStep, DecimalStep, TimestampStep, TimeStep
from fencepost.converters.protobuf.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    WRAPPER_PACKAGE,
    WRAPPERS,
    ProtoField,
    ProtoFile,
    ProtoMessage,
)
from fencepost.converters.protobuf.steps import (
    LENGTH,
    BoolStep,
    DoubleStep,
    EntriesStep,
    FieldStep,
    FloatStep,
    LengthDelimitedStep,
    MessageStep,
    RepeatedStep,
    SingleStep,
    StringStep,
    ValueStep,
    VarintStep,
    WrapperStep,
    tag,
)

_SCALARS: Final[Mapping[str, ValueStep]] = {
    "int32": VarintStep(),
    "int64": VarintStep(),
    "float": FloatStep(),
    "double": DoubleStep(),
    "bool": BoolStep(),
    "string": StringStep(),
    "bytes": LengthDelimitedStep(),
}
_LOGICAL: Final[Mapping[str, ValueStep]] = {
    DECIMAL: DecimalStep(),
    DATE: DateStep(),
    TIME: TimeStep(),
    TIMESTAMP: TimestampStep(),
}
_WRAPPED: Final = {f"{WRAPPER_PACKAGE}.{name}": scalar for scalar, name in WRAPPERS.items()}


def plan(derived: ProtoFile, written: ProtoFile, *, strict: bool) -> tuple[MessageStep | WrapperStep, int]:
    """Return the step for whole records, and the index of their message in the file.

    Raises DataError if the schemas do not fit.

    If `strict`, `written` must have all fields of the values; else fields that it lacks are not written.
    """
    names = [message.name for message in written.messages]
    if written.package != derived.package or derived.root.name not in names:
        raise DataError(
            f"The schema has no message {derived.full_name}, which the records are: it has "
            f"{', '.join(f'{written.package}.{name}'.lstrip('.') for name in names)}"
        )
    index = names.index(derived.root.name)
    value = derived.root.fields[0] if derived.root.fields else None
    if value is not None and value.source is None:
        return _wrapper(value.type), index
    return _message(derived.root, written.messages[index], "", strict=strict), index


def _message(derived: ProtoMessage, written: ProtoMessage, place: str, *, strict: bool) -> MessageStep:
    numbered = {part.name: part for part in written.fields}
    fields: list[tuple[int, str, FieldStep]] = []
    for part in derived.fields:
        inner = f"{place}.{part.name}" if place else part.name
        other = numbered.get(part.name)
        if other is not None:
            fields.append((other.number, part.source or part.name, _field(part, other, inner, strict=strict)))
        elif strict:
            raise DataError(
                f"The schema lacks {inner}, which the records have: register a newer version, or set "
                "latest.compatibility.strict=false (id.compatibility.strict=false for use.schema.id) to drop such fields"
            )
    # Serializers write fields in the order of their numbers.
    return MessageStep(
        tuple((source, step) for _, source, step in sorted(fields, key=lambda each: each[0])), derived.is_map
    )


def _field(derived: ProtoField, written: ProtoField, place: str, *, strict: bool) -> FieldStep:
    if written.oneof:
        raise DataError(f"{place} is in the oneof {written.oneof} of the schema, of which a record has one field only")
    repeated = written.label == "repeated"
    if (derived.label == "repeated") != repeated:
        raise _misfit(derived, written, place)
    value = _value(derived, written, place, strict=strict)
    if repeated:
        # Each item that is a message, text or bytes has its own length. Other items are packed, with one length for
        # all.
        number = tag(written.number, LENGTH)
        is_map = derived.message is not None and derived.message.is_map
        return (EntriesStep if is_map else RepeatedStep)(number, value, required=derived.required)
    number = tag(written.number, value.wire_type)
    return SingleStep(number, value, presence=written.label == "optional", required=derived.required)


def _value(derived: ProtoField, written: ProtoField, place: str, *, strict: bool) -> ValueStep:
    if derived.message is not None and written.message is not None:
        return _message(derived.message, written.message, place, strict=strict)
    ours, theirs = derived.type, written.type
    if derived.message is not None or written.message is not None or not _fits(ours, theirs):
        raise _misfit(derived, written, place)
    if theirs in _WRAPPED:
        return _wrapper(_WRAPPED[theirs])
    return _LOGICAL[theirs] if theirs in _LOGICAL else _SCALARS[theirs]


def _fits(ours: str, theirs: str) -> bool:
    """Whether type `ours` can be written as `theirs`: the same type, with or without a wrapper, or a wider number."""
    if ours in _LOGICAL or theirs in _LOGICAL:
        return ours == theirs
    given, wanted = _WRAPPED.get(ours, ours), _WRAPPED.get(theirs, theirs)
    return wanted in _SCALARS and (given == wanted or (given, wanted) in {("int32", "int64"), ("float", "double")})


def _wrapper(scalar: str) -> WrapperStep:
    value = _SCALARS[scalar]
    return WrapperStep(SingleStep(tag(1, value.wire_type), value))


def _misfit(derived: ProtoField, written: ProtoField, place: str) -> DataError:
    shown = [f"{part.label} {part.type}".strip() for part in (derived, written)]
    return DataError(f"{place} is {shown[0]}, and the schema has {shown[1]} for it: cast it")
