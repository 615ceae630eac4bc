"""Protobuf schemas for Connect's schemas, as Confluent's ProtobufData makes them.

| Connect | Protobuf (proto3) |
|---|---|
| int8 int16 int32 int64 | int32 with connect.type in confluent.field_meta, int32, int64 |
| float double boolean string bytes | float double bool string bytes |
| Decimal | confluent.type.Decimal |
| Date Time Timestamp | google.type.Date, google.type.TimeOfDay, google.protobuf.Timestamp |
| array | repeated; none in an array |
| map | repeated message XEntry with key and value; none in an array |
| struct | nested message |
| no name | ConnectDefault1, ConnectDefault2 ... in the order of visit |
| optional | the plain field; `optional` or a wrapper message if the options say so |
| a whole value that is not a struct | the wrapper message of its type |

Fields are numbered in their order. Connect's schemas are given in the JSON form of JsonConverter. Pure: this module has
no side effects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.converters.registry.schema_names import scrubbed_part

Connect = Mapping[str, Any]

_LOGICAL: Final = "org.apache.kafka.connect.data."
DECIMAL: Final = "confluent.type.Decimal"
DATE: Final = "google.type.Date"
TIME: Final = "google.type.TimeOfDay"
TIMESTAMP: Final = "google.protobuf.Timestamp"
LOGICALS: Final = {
    f"{_LOGICAL}Decimal": ("bytes", DECIMAL),
    f"{_LOGICAL}Date": ("int32", DATE),
    f"{_LOGICAL}Time": ("int32", TIME),
    f"{_LOGICAL}Timestamp": ("int64", TIMESTAMP),
}
"""For the name of each logical type: its type in Connect, and its message in Protobuf."""
SCALARS: Final = {
    "int8": "int32", "int16": "int32", "int32": "int32", "int64": "int64", "float": "float", "double": "double",
    "boolean": "bool", "string": "string", "bytes": "bytes",
}  # fmt: skip
WRAPPERS: Final = {
    "double": "DoubleValue", "float": "FloatValue", "int64": "Int64Value", "uint64": "UInt64Value", "int32": "Int32Value",
    "uint32": "UInt32Value", "bool": "BoolValue", "string": "StringValue", "bytes": "BytesValue",
}  # fmt: skip
"""For each scalar, the message that wraps it, in the order of google/protobuf/wrappers.proto."""
WRAPPER_PACKAGE: Final = "google.protobuf"
_WRAPPER_OPTIONS: Final = (
    'csharp_namespace = "Google.Protobuf.WellKnownTypes"', "cc_enable_arenas = true",
    'go_package = "google.golang.org/protobuf/types/known/wrapperspb"', 'java_package = "com.google.protobuf"',
    'java_outer_classname = "WrappersProto"', "java_multiple_files = true", 'objc_class_prefix = "GPB"',
)  # fmt: skip
_META: Final = "confluent/meta.proto"
_IMPORTS: Final = {
    DECIMAL: "confluent/type/decimal.proto",
    DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
} | {f"{WRAPPER_PACKAGE}.{name}": "google/protobuf/wrappers.proto" for name in WRAPPERS.values()}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCRUBBED_BEFORE: Final = "_0123456789"
_SMALL: Final = ("int8", "int16")


@dataclass(frozen=True, slots=True)
class ProtobufOptions:
    """The settings of ProtobufData that concern writing."""

    scrub: bool = False
    optional: bool = False
    """Whether nullable fields have the label `optional`."""
    wrappers: bool = False
    """Whether nullable fields are wrapper messages."""


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message. `source` is its name in Connect's schema."""

    name: str
    number: int
    type: str
    label: str = ""
    message: ProtoMessage | None = None
    """The message that is the field's type, if it is in the same file."""
    params: tuple[tuple[str, str], ...] = ()
    source: str | None = None
    required: bool = False
    oneof: str = ""
    """The name of the oneof that the field is in; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message."""

    name: str
    fields: tuple[ProtoField, ...]
    is_map: bool = False

    @property
    def nested(self) -> tuple[ProtoMessage, ...]:
        """The messages that are types of the fields, each once."""
        found: dict[str, ProtoMessage] = {}
        for part in self.fields:
            if part.message is not None:
                found.setdefault(part.message.name, part.message)
        return tuple(found.values())


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """A .proto file, and the path of the message of its values."""

    package: str
    messages: tuple[ProtoMessage, ...]
    root_index: int = 0
    options: tuple[str, ...] = ()

    @property
    def root(self) -> ProtoMessage:
        """The message of the values."""
        return self.messages[self.root_index]

    @property
    def full_name(self) -> str:
        """The full name of the root message."""
        return f"{self.package}.{self.root.name}" if self.package else self.root.name


def proto_file(schema: Connect | None, options: ProtobufOptions = ProtobufOptions()) -> ProtoFile:
    """Return the Protobuf schema of a Connect schema. Raises DataError that names the invalid part."""
    if schema is None:
        raise DataError(
            "Protobuf has no form for values without a schema: give the records one, or use another converter"
        )
    if schema["type"] != "struct":
        return _wrapped(schema)
    messages = _Messages(options)
    package, _, name = messages.full_name(schema, "the record").rpartition(".")
    return ProtoFile(package, (messages.message(name, schema, ""),))


def schema_text(file: ProtoFile) -> str:
    """Return a schema as .proto text, in the form that Java writes."""
    lines = ['syntax = "proto3";', *([f"package {file.package};"] if file.package else []), ""]
    if imports := sorted({path for message in file.messages for path in _imports(message)}):
        lines += [*(f'import "{path}";' for path in imports), ""]
    if file.options:
        lines += [*(f"option {option};" for option in file.options), ""]
    # Protobuf looks up a type of Google or Confluent in the innermost package or message that has its first name.
    names = (name for message in file.messages for name in _names(message))
    hidden = frozenset((*file.package.split(".")[1:], *names))
    for message in file.messages:
        lines += _text(message, hidden)
    return "\n".join(lines) + "\n"


def _wrapped(schema: Connect) -> ProtoFile:
    """Return the file of all of Google's wrappers, because Java registers the whole file."""
    kind = schema["type"]
    if kind not in SCALARS:
        raise DataError(
            f"Protobuf has no form for a whole value that is {kind}: put it into a field of a struct (HoistField does that)"
        )
    if schema.get("name") in LOGICALS:
        raise DataError(
            f"Protobuf has no form for a whole value that is {schema['name']}: put it into a field of a struct (HoistField "
            "does that)"
        )
    messages = tuple(ProtoMessage(name, (ProtoField("value", 1, scalar),)) for scalar, name in WRAPPERS.items())
    index = list(WRAPPERS).index(SCALARS[kind])
    value = replace(messages[index].fields[0], required=True)
    root = replace(messages[index], fields=(value,))
    return ProtoFile(WRAPPER_PACKAGE, (*messages[:index], root, *messages[index + 1 :]), index, _WRAPPER_OPTIONS)


@dataclass
class _Messages:
    """Makes the messages of one file."""

    options: ProtobufOptions
    unnamed: int = 0

    def message(self, name: str, schema: Connect, place: str) -> ProtoMessage:
        fields: list[ProtoField] = []
        for number, part in enumerate(schema["fields"], 1):
            source = str(part["field"])
            inner = f"{place}.{source}" if place else source
            found = self.field(part, self.name(source, inner), inner)
            label = "optional" if self.options.optional and part.get("optional") and not found.label else found.label
            fields.append(replace(found, number=number, label=label, source=source, required=not part.get("optional")))
        return self.checked(ProtoMessage(name, tuple(fields)), place)

    def field(self, schema: Connect, name: str, place: str) -> ProtoField:
        """Return the field for a schema, without number and presence."""
        item = schema["items"] if schema["type"] == "array" else schema
        if item["type"] == "array" or (item is not schema and item["type"] == "map"):
            raise DataError(
                f"Protobuf has no form for {place}, {'an array' if item['type'] == 'array' else 'a map'} in an array: put the "
                "inner one into a struct, or use another converter"
            )
        repeated = "repeated" if "array" in (schema["type"], item["type"]) or item["type"] == "map" else ""
        if item["type"] == "map":
            message = self.entry(item, place)
            return ProtoField(name, 0, message.name, repeated, message)
        if item["type"] == "struct":
            kind = self.full_name(item, place).rpartition(".")[2]
            # A message cannot have the same name as a field beside it.
            message = self.message(f"{kind}Message" if kind == name else kind, item, place)
            return ProtoField(name, 0, message.name, repeated, message)
        kind, params = self.scalar(item, place)
        return ProtoField(name, 0, kind, repeated, None, params)

    def scalar(self, schema: Connect, place: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        connect_type, logical = LOGICALS.get(str(schema.get("name")), ("", ""))
        if connect_type == schema["type"]:
            parameters = schema.get("parameters") or {}
            given = (("precision", "connect.decimal.precision"), ("scale", "scale"))
            params = tuple((name, str(parameters[key])) for name, key in given if key in parameters)
            return logical, params if logical == DECIMAL else ()
        if schema["type"] not in SCALARS:
            raise DataError(f"Protobuf has no form for the type {schema['type']} of {place}")
        kind = SCALARS[schema["type"]]
        params = (("connect.type", schema["type"]),) if schema["type"] in _SMALL else ()
        wrapped = self.options.wrappers and schema.get("optional")
        return f"{WRAPPER_PACKAGE}.{WRAPPERS[kind]}" if wrapped else kind, params

    def entry(self, schema: Connect, place: str) -> ProtoMessage:
        """Return the message of a map's entries, without `optional` labels and metadata, as in Java."""
        name = _entry_name(self.full_name(schema, place).rpartition(".")[2])
        key = replace(self.field(schema["keys"], "key", f"{place}[key]"), number=1, required=True, params=())
        value = replace(
            self.field(schema["values"], "value", f"{place}[value]"),
            number=2,
            required=not schema["values"].get("optional"),
            params=(),
        )
        return self.checked(ProtoMessage(name, (key, value), is_map=True), place)

    def full_name(self, schema: Connect, place: str) -> str:
        name = schema.get("name")
        if not name:
            self.unnamed += 1
            return f"ConnectDefault{self.unnamed}"
        return ".".join(self.name(part, place) for part in str(name).split("."))

    def name(self, name: str, place: str) -> str:
        if self.options.scrub:
            return scrubbed_part(name, before=_SCRUBBED_BEFORE)
        if not _NAME.fullmatch(name):
            raise DataError(
                f"Protobuf does not allow the name {name!r} of {place}: rename it, or set scrub.invalid.names=true, which "
                "replaces characters"
            )
        return name

    def checked(self, message: ProtoMessage, place: str) -> ProtoMessage:
        """Return the message. Raises DataError if it has a name twice, which Protobuf does not allow."""
        names: dict[str, ProtoMessage | None] = {}
        in_json: dict[str, str] = {}
        for part in message.fields:
            if part.name in names:
                raise _twice(part.name, place)
            names[part.name] = None
            other = in_json.setdefault(_json_name(part.name), part.name)
            if other != part.name:
                raise DataError(
                    f"{place or 'The record'} has the fields {other!r} and {part.name!r}, which Protobuf's compilers refuse in "
                    f"one message: both are called {_json_name(part.name)!r} in its JSON. Rename one of them"
                )
        for part in message.fields:
            inner = part.message
            if inner is None:
                continue
            if inner.name == message.name or (inner.name in names and _shape(names[inner.name]) != _shape(inner)):
                raise _twice(inner.name, place)
            names[inner.name] = inner
        return message


def _json_name(name: str) -> str:
    """The name of a field in Protobuf's JSON. Compilers of proto3 allow each such name only once in a message.

    https://protobuf.dev/programming-guides/json/
    """
    first, *parts = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in parts)


def _twice(name: str, place: str) -> DataError:
    return DataError(
        f"{place or 'The record'} would have the name {name!r} twice in Protobuf, which allows it once: rename a column or "
        "schema, or set fencepost.schema.names=topic, which names each after its place"
    )


def _shape(message: ProtoMessage | None) -> object:
    return None if message is None else _text(message, frozenset())


def _entry_name(name: str) -> str:
    if "_" in name:
        name = "".join(part.capitalize() for part in name.split("_"))
    return f"{name}Entry"


def _imports(message: ProtoMessage) -> Iterator[str]:
    for part in message.fields:
        if part.params:
            yield _META
        if part.message is not None:
            yield from _imports(part.message)
        elif part.type in _IMPORTS:
            yield _IMPORTS[part.type]


def _names(message: ProtoMessage) -> Iterator[str]:
    yield message.name
    for inner in message.nested:
        yield from _names(inner)


def _text(message: ProtoMessage, hidden: frozenset[str]) -> list[str]:
    lines = [f"message {message.name} {{"]
    for part in message.fields:
        label = f"{part.label} " if part.label else ""
        kind = f".{part.type}" if part.type in _IMPORTS and part.type.partition(".")[0] in hidden else part.type
        lines += _with_params(f"  {label}{kind} {part.name} = {part.number}", part.params)
    for inner in message.nested:
        lines += ["", *(f"  {line}" if line else line for line in _text(inner, hidden))]
    return [*lines, "}"]


def _with_params(line: str, params: tuple[tuple[str, str], ...]) -> list[str]:
    if not params:
        return [f"{line};"]
    entries = [[f'        key: "{name}",', f'        value: "{value}"'] for name, value in params]
    listed: list[str] = []
    for index, entry in enumerate(entries):
        listed += ["      {", *entry, "      }," if index < len(entries) - 1 else "      }"]
    return [f"{line} [(confluent.field_meta) = {{", "    params: [", *listed, "    ]", "  }];"]
