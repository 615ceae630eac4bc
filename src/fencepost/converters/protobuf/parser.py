"""Reads the .proto texts that the converter itself writes, in whatever layout a registry returns them.

That is proto3 with messages, nested messages, plain fields, maps and options. Enums, oneofs, groups and extensions are
refused by name: a text with them was not made from Connect's data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.api.errors import DataError
from fencepost.converters.protobuf.schema import ProtoField, ProtoFile, ProtoMessage

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|[^\w\s"'])""", re.DOTALL
)
_LABELS: Final = ("repeated", "optional")
_REFUSED: Final = ("enum", "oneof", "group", "extend", "extensions", "required")
_DEEPEST: Final = 100
_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}


def parsed_file(text: str) -> ProtoFile:
    """Return the schema of a text. Raises DataError for a text outside of this subset."""
    parser = _Parser(_tokens(text))
    parser.file()
    messages = tuple(parser.resolved(message, ()) for message in parser.messages)
    if not messages:
        raise DataError("The registry's schema has no message")
    return ProtoFile(parser.package, messages)


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise DataError(f"The registry's schema is not one of Protobuf: {text[at : at + 20]!r}")
        if match["token"]:
            found.append(match["token"])
        at = match.end()
    return found


@dataclass(frozen=True)
class _Parsed:
    """A message before the types of its fields are found."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    nested: list[_Parsed] = field(default_factory=list)


@dataclass
class _Parser:
    tokens: list[str]
    at: int = 0
    package: str = ""
    messages: list[_Parsed] = field(default_factory=list)

    def file(self) -> None:
        while self.at < len(self.tokens):
            match self.next():
                case "syntax":
                    self.expect("=")
                    if self.next()[1:-1] != "proto3":
                        raise DataError("The registry's schema is not of proto3, which is what the converter writes")
                    self.expect(";")
                case "package":
                    self.package = self.next()
                    self.expect(";")
                case "import" | "option":
                    self.skip_to(";")
                case "message":
                    self.messages.append(self.message())
                case ";":
                    pass
                case other:
                    raise _refused(other)

    def message(self, depth: int = 1) -> _Parsed:
        if depth > _DEEPEST:
            raise DataError(f"The registry's schema has messages nested more than {_DEEPEST} deep")
        found = _Parsed(self.next())
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "message" and self.peek(1) == "{":
                found.nested.append(self.message(depth + 1))
            elif word in ("option", "reserved"):
                self.skip_to(";")
            elif word in _REFUSED:
                raise _refused(word)
            elif word != ";":
                self.field(found, word)
        return found

    def field(self, message: _Parsed, first: str) -> None:
        label = first if first in _LABELS else ""
        kind = self.type(self.next() if label else first, message)
        if isinstance(kind, _Parsed):
            # A map is a repeated message of its entries.
            message.nested.append(kind)
            label, name = "repeated", kind.name
        else:
            name = kind
        field_name = self.next()
        self.expect("=")
        number = self.next()
        if not number.isdigit():
            raise DataError(f"The registry's schema has no number for the field {field_name}")
        if self.peek() == "[":
            self.next()
            self.skip_to("]")
        self.expect(";")
        message.fields.append(ProtoField(field_name, int(number), name, label))

    def type(self, first: str, message: _Parsed) -> str | _Parsed:
        if first == "map" and self.peek() == "<":
            self.next()
            key = self.next()
            self.expect(",")
            value = self.name(self.next())
            self.expect(">")
            entry = _Parsed(f"{message.name}.map{len(message.nested)}")
            entry.fields.extend([ProtoField("key", 1, key), ProtoField("value", 2, value)])
            return entry
        return self.name(first)

    def name(self, first: str) -> str:
        # With a dot in front it is a full name.
        return first.removeprefix(".")

    def resolved(self, message: _Parsed, around: tuple[_Parsed, ...]) -> ProtoMessage:
        """Find the messages that are types of fields: the innermost one with the name."""
        scopes = (*around, message)
        return ProtoMessage(message.name, tuple(self._resolved(part, scopes) for part in message.fields))

    def _resolved(self, part: ProtoField, scopes: tuple[_Parsed, ...]) -> ProtoField:
        for depth in range(len(scopes), 0, -1):
            scope = scopes[depth - 1]
            path = ".".join([*([self.package] if self.package else []), *(each.name for each in scopes[:depth])])
            for inner in scope.nested:
                if part.type in (inner.name, f"{scope.name}.{inner.name}", f"{path}.{inner.name}"):
                    if inner in scopes:
                        raise DataError(f"The registry's schema has a message in itself: {inner.name}")
                    return replace(part, message=self.resolved(inner, scopes[:depth]))
        for message in self.messages:
            if part.type in (message.name, f"{self.package}.{message.name}"):
                if message in scopes:
                    raise DataError(f"The registry's schema has a message in itself: {message.name}")
                return replace(part, message=self.resolved(message, ()))
        return part

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise DataError("The registry's schema ends too early: it is not one of Protobuf")
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

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


def _refused(word: str) -> DataError:
    return DataError(
        f"The registry's schema has {word!r}, which this converter neither writes nor reads: messages of plain fields, maps "
        "and nested messages only. Register such a schema, or set auto.register.schemas=true"
    )
