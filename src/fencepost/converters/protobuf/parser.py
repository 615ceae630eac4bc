"""Reads .proto texts, in whatever layout a registry returns them.

    parsed_text    the declarations of a text: proto2 and proto3 with imports, messages, enums, oneofs and maps
    parsed_file    the messages that the converter writes, with the types of their fields resolved

Options and services are skipped. Groups and extensions are refused with an error that names them: without them no value
could be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.api.errors import DataError
from fencepost.converters.protobuf.schema import ProtoField, ProtoFile, ProtoMessage

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|[^\w\s"'])""", re.DOTALL
)
_LABELS: Final = ("repeated", "optional", "required")
_REFUSED: Final = ("group", "extend", "extensions")
_DEEPEST: Final = 100
_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}


def parsed_text(text: str) -> ParsedFile:
    """Return the declarations in a text. Raises DataError if the text is not Protobuf."""
    parser = _Parser(_tokens(text))
    parser.file()
    return parser.found


def parsed_file(text: str, imported: Iterable[str] = ()) -> ProtoFile:
    """Return the schema for writing values. The text may import the `imported` texts. Raises DataError."""
    found = parsed_text(text)
    if not found.messages:
        raise DataError("The registry's schema has no message")
    if found.syntax != "proto3":
        raise DataError("The registry's schema is not of proto3, which is what the converter writes")
    types = _Types(found, [parsed_text(part) for part in imported])
    messages = tuple(types.message(message, ()) for message in found.messages)
    return ProtoFile(found.package, messages)


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise DataError(f"The registry's schema is not one of Protobuf: {text[position : position + 20]!r}")
        if match["token"]:
            found.append(match["token"])
        position = match.end()
    return found


@dataclass(frozen=True, slots=True)
class ParsedEnum:
    """An enum: its symbols and their numbers."""

    name: str
    symbols: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message whose field types are not resolved yet.

    An entry of a `map<>` is a message with a unique name.
    """

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    nested: list[ParsedMessage] = field(default_factory=list)
    enums: list[ParsedEnum] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    """Numbers that no field may have: single numbers, and both ends of each range."""
    is_entry: bool = False


@dataclass(slots=True)
class ParsedFile:
    """The declarations of a text."""

    syntax: str = "proto2"
    package: str = ""
    imports: list[str] = field(default_factory=list)
    messages: list[ParsedMessage] = field(default_factory=list)
    enums: list[ParsedEnum] = field(default_factory=list)


@dataclass
class _Parser:
    tokens: list[str]
    position: int = 0
    found: ParsedFile = field(default_factory=ParsedFile)

    def file(self) -> None:
        while self.position < len(self.tokens):
            match self.next():
                case "syntax":
                    self.expect("=")
                    self.found.syntax = self.next()[1:-1]
                    self.expect(";")
                case "package":
                    self.found.package = self.next()
                    self.expect(";")
                case "import":
                    self.found.imports.append(self.imported())
                case "option":
                    self.skip_to(";")
                case "message":
                    self.found.messages.append(self.message())
                case "enum":
                    self.found.enums.append(self.enum())
                case "service":
                    self.next()
                    self.expect("{")
                    self.skip_to("}")
                case ";":
                    pass
                case other:
                    raise _refused(other)

    def imported(self) -> str:
        name = self.next()
        if name in ("public", "weak"):
            name = self.next()
        self.expect(";")
        return name[1:-1]

    def message(self, depth: int = 1) -> ParsedMessage:
        if depth > _DEEPEST:
            raise DataError(f"The registry's schema has messages nested more than {_DEEPEST} deep")
        found = ParsedMessage(self.next())
        self.expect("{")
        while (word := self.next()) != "}":
            # These words may also be the first word of a field's type.
            if word == "message" and self.peek(1) == "{":
                found.nested.append(self.message(depth + 1))
            elif word == "enum" and self.peek(1) == "{":
                found.enums.append(self.enum())
            elif word == "oneof" and self.peek(1) == "{":
                self.oneof(found)
            elif word == "reserved":
                found.reserved.extend(self.reserved())
            elif word == "option":
                self.skip_to(";")
            elif word in _REFUSED:
                raise _refused(word)
            elif word != ";":
                self.field(found, word)
        return found

    def reserved(self) -> list[int]:
        found = []
        while (word := self.next()) != ";":
            if word.isdigit():
                found.append(int(word))
        return found

    def enum(self) -> ParsedEnum:
        found = ParsedEnum(self.next())
        self.expect("{")
        while (word := self.next()) != "}":
            if word in ("option", "reserved") and self.peek() != "=":
                self.skip_to(";")
            elif word != ";":
                self.expect("=")
                sign = -1 if self.peek() == "-" and self.next() else 1
                found.symbols.append((word, sign * self.number(word)))
                self.end_of_field()
        return found

    def oneof(self, message: ParsedMessage) -> None:
        name = self.next()
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "option":
                self.skip_to(";")
            elif word in _REFUSED:
                raise _refused(word)
            elif word != ";":
                self.field(message, word, name)

    def field(self, message: ParsedMessage, first: str, oneof: str = "") -> None:
        label = first if first in _LABELS else ""
        kind = self.type(self.next() if label else first, message)
        if kind == "group":
            raise _refused(kind)
        if isinstance(kind, ParsedMessage):
            # A map is a repeated message of its entries.
            message.nested.append(kind)
            label, name = "repeated", kind.name
        else:
            name = kind
        field_name = self.next()
        self.expect("=")
        number = self.number(field_name)
        self.end_of_field()
        message.fields.append(ProtoField(field_name, number, name, label, oneof=oneof))

    def number(self, name: str) -> int:
        try:
            return int(self.next(), 0)
        except ValueError:
            raise DataError(f"The registry's schema has no number for the field {name}") from None

    def end_of_field(self) -> None:
        if self.peek() == "[":
            self.next()
            self.skip_to("]")
        self.expect(";")

    def type(self, first: str, message: ParsedMessage) -> str | ParsedMessage:
        if first == "map" and self.peek() == "<":
            self.next()
            key = self.next()
            self.expect(",")
            value = self.next()
            self.expect(">")
            entry = ParsedMessage(f"{message.name}.map{len(message.nested)}", is_entry=True)
            entry.fields.extend([ProtoField("key", 1, key), ProtoField("value", 2, value)])
            return entry
        return first

    def next(self) -> str:
        if self.position >= len(self.tokens):
            raise DataError("The registry's schema ends too early: it is not one of Protobuf")
        self.position += 1
        return self.tokens[self.position - 1]

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.position + ahead] if self.position + ahead < len(self.tokens) else ""

    def expect(self, token: str) -> None:
        found = self.next()
        if found != token:
            raise DataError(f"The registry's schema is not one of Protobuf: {found!r} where {token!r} is to be")

    def skip_to(self, end: str) -> None:
        waiting = [end]
        while waiting:
            token = self.next()
            if token == waiting[-1]:
                waiting.pop()
            elif token in _CLOSING:
                waiting.append(_CLOSING[token])


@dataclass(frozen=True)
class _Types:
    """Finds the messages that are the types of a file's fields."""

    file: ParsedFile
    imported: list[ParsedFile]

    def message(
        self, message: ParsedMessage, around: tuple[ParsedMessage, ...], users: tuple[ParsedMessage, ...] = ()
    ) -> ProtoMessage:
        """Return the message with its types.

        `around` are the enclosing messages, from the outermost to the innermost. `users` are the messages on the path
        of fields from the root message to this one.

        Raises DataError for a message that contains itself, directly or not: its values could be nested to any depth.
        """
        if any(message is user for user in users):
            names = " -> ".join(user.name for user in (*users, message))
            raise DataError(
                f"The registry's schema has a message that contains itself, {names}, and columns have a limited depth: write with "
                "another schema, or under another subject"
            )
        scopes, users = (*around, message), (*users, message)
        return ProtoMessage(message.name, tuple(self.field(part, scopes, users) for part in message.fields))

    def field(
        self, part: ProtoField, scopes: tuple[ParsedMessage, ...], users: tuple[ParsedMessage, ...]
    ) -> ProtoField:
        # A type with a dot in front is a full name.
        part = replace(part, type=part.type.removeprefix("."))
        # The innermost message with that name counts.
        for depth in range(len(scopes), 0, -1):
            scope = scopes[depth - 1]
            package = [self.file.package] if self.file.package else []
            path = ".".join([*package, *(each.name for each in scopes[:depth])])
            for inner in scope.nested:
                if part.type in (inner.name, f"{scope.name}.{inner.name}", f"{path}.{inner.name}"):
                    return replace(part, message=self.message(inner, scopes[:depth], users))
        for message in self.file.messages:
            if part.type in (message.name, f"{self.file.package}.{message.name}"):
                return replace(part, message=self.message(message, (), users))
        return self.of_imported(part, users)

    def of_imported(self, part: ProtoField, users: tuple[ParsedMessage, ...]) -> ProtoField:
        """Return the field with its message if that is in another file.

        The type's name may omit packages that both files share. A field of another type is returned unchanged.
        """
        around = self.file.package.split(".")
        names = [".".join([*around[:depth], part.type]) for depth in range(len(around), -1, -1)]
        for name in names:
            for file in self.imported:
                for message in file.messages:
                    if name == (f"{file.package}.{message.name}" if file.package else message.name):
                        return replace(part, message=_Types(file, self.imported).message(message, (), users))
        return part


def _refused(word: str) -> DataError:
    return DataError(
        f"The registry's schema has {word!r}, which is not supported: it is proto2's, or not Protobuf at all"
    )
