"""Makes descriptors of google.protobuf from a registry's schemas, which are texts.

A file and its imports go into their own descriptor pool, because schemas of two registries may have the same name.
Registries do not store the well-known files of Google and Confluent: these files come from the library, or from short
texts in this module.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from fencepost.converters.protobuf.parser import ParsedEnum, ParsedFile, ParsedMessage, parsed_text
from fencepost.converters.protobuf.schema import ProtoField
from fencepost.converters.registry.schemas import RegistrySchema

_Proto: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _Proto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_LABELS: Final = {"repeated": _Proto.LABEL_REPEATED, "required": _Proto.LABEL_REQUIRED}
_OF_LIBRARY: Final = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
"""Files of google/protobuf/ with messages that values may have. The library provides these files."""
_OPTIONS_ONLY: Final = ("confluent/meta.proto", "google/protobuf/descriptor.proto")
"""Files that only define options. Options are not read."""
_TEXTS: Final[Mapping[str, str]] = {
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "google/type/date.proto": 'syntax = "proto3"; package google.type; '
    "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/timeofday.proto": 'syntax = "proto3"; package google.type; '
    "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}


class MessageClasses:
    """The classes of a schema's messages."""

    def __init__(self, text: str, referred: Mapping[str, RegistrySchema]) -> None:
        """`referred` has the schemas that the text imports, by name.

        Raises DataError, or ValueError if an imported schema is missing.
        """
        self._pool = descriptor_pool.DescriptorPool()
        self._referred = referred
        self._added: set[str] = set()
        self._file = parsed_text(text)
        try:
            self._add("fencepost/schema.proto", self._file)
        except (TypeError, KeyError) as error:
            raise ValueError(f"a schema that is not one of Protobuf: {error}") from error

    def message_class(self, path: Sequence[int]) -> Any:
        """Return the class of the message at a path of indexes. Raises ValueError if there is none."""
        names, messages = [self._file.package] if self._file.package else [], self._file.messages
        for index in path:
            if not 0 <= index < len(messages):
                raise ValueError(f"bytes of the message {list(path)}, which the schema does not have")
            names.append(messages[index].name)
            messages = messages[index].nested
        return GetMessageClass(self._pool.FindMessageTypeByName(".".join(names)))

    def _add(self, name: str, file: ParsedFile) -> None:
        self._added.add(name)
        proto = descriptor_pb2.FileDescriptorProto(name=name, package=file.package, syntax=file.syntax)
        for imported in file.imports:
            if imported not in _OPTIONS_ONLY:
                self._require(imported)
                proto.dependency.append(imported)
        for message in file.messages:
            _fill_message(proto.message_type.add(), message)
        for enum in file.enums:
            _fill_enum(proto.enum_type.add(), enum)
        self._pool.Add(proto)

    def _require(self, name: str) -> None:
        if name in self._added:
            return
        folder, _, stem = name.removesuffix(".proto").rpartition("/")
        if name in self._referred:
            self._add(name, parsed_text(self._referred[name].text))
        elif name in _TEXTS:
            self._add(name, parsed_text(_TEXTS[name]))
        elif folder == "google/protobuf" and stem in _OF_LIBRARY:
            self._added.add(name)
            proto = descriptor_pb2.FileDescriptorProto()
            importlib.import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(proto)
            self._pool.Add(proto)
        else:
            raise ValueError(f"a schema that imports {name}, which the registry does not name as its reference")


def _fill_message(proto: Any, message: ParsedMessage) -> None:
    proto.name = message.name
    proto.options.map_entry = message.is_entry
    entries = {each.name: each for each in message.nested if each.is_entry}
    oneofs: dict[str, int] = {}
    for part in message.fields:
        made = proto.field.add(name=part.name, number=part.number, label=_LABELS.get(part.label, _Proto.LABEL_OPTIONAL))
        if part.oneof:
            if part.oneof not in oneofs:
                oneofs[part.oneof] = len(proto.oneof_decl)
                proto.oneof_decl.add(name=part.oneof)
            made.oneof_index = oneofs[part.oneof]
        if part.type in _SCALARS:
            made.type = _SCALARS[part.type]
        else:
            made.type_name = _entry_name(part) if part.type in entries else part.type
    _fill_optional(proto, message)
    names = {part.type: _entry_name(part) for part in message.fields if part.type in entries}
    for inner in message.nested:
        nested = proto.nested_type.add()
        _fill_message(nested, inner)
        nested.name = names.get(inner.name, inner.name)
    for enum in message.enums:
        _fill_enum(proto.enum_type.add(), enum)


def _fill_optional(proto: Any, message: ParsedMessage) -> None:
    """Put each `optional` field into its own oneof, after the other oneofs, as compilers do."""
    for made, part in zip(proto.field, message.fields, strict=True):
        if part.label == "optional":
            made.proto3_optional = True
            made.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_{part.name}")


def _entry_name(part: ProtoField) -> str:
    return "".join(word[:1].upper() + word[1:] for word in part.name.split("_")) + "Entry"


def _fill_enum(proto: Any, enum: ParsedEnum) -> None:
    proto.name = enum.name
    for name, number in enum.symbols:
        proto.value.add(name=name, number=number)
    # The parser skips options. So the option that allows two names for a number is set where an enum has such names.
    proto.options.allow_alias = len({number for _, number in enum.symbols}) < len(enum.symbols)
