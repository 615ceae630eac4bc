"""Field numbers that stay with the names of fields over the versions of a schema.

If numbers followed positions, dropping or inserting a column would change the numbers of all columns after it, and data
that was written before would be read wrongly. Here a name keeps the number that it had in the newest version with this
name, and a new name gets a number that no version has used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.converters.protobuf.parser import ParsedFile, ParsedMessage
from fencepost.converters.protobuf.schema import ProtoField, ProtoFile, ProtoMessage

_OF_PROTOBUF: Final = range(19_000, 20_000)
"""The range of numbers that Protobuf reserves for itself."""

_Path = tuple[str, ...]


@dataclass
class EarlierNumbers:
    """The field numbers in all versions of a subject, by the path of the message's name."""

    numbers: dict[_Path, dict[str, int]] = field(default_factory=dict)
    highest: dict[_Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, newest_first: Iterable[ParsedFile]) -> EarlierNumbers:
        """Collect the numbers of all versions. A name has the number that the newest version with this name gave it."""
        found = cls()
        for file in newest_first:
            for message in file.messages:
                found._add((file.package, message.name), message)
        return found

    def applied(self, file: ProtoFile) -> ProtoFile:
        """Return the file with new field numbers: known names get their earlier numbers, new names get unused ones."""
        messages = (self._message((file.package, message.name), message) for message in file.messages)
        return replace(file, messages=tuple(messages))

    def _add(self, path: _Path, message: ParsedMessage) -> None:
        known = self.numbers.setdefault(path, {})
        for part in message.fields:
            known.setdefault(part.name, part.number)
        used = (*(part.number for part in message.fields), *message.reserved)
        self.highest[path] = max(self.highest.get(path, 0), *used, 0)
        for inner in message.nested:
            self._add((*path, inner.name), inner)

    def _message(self, path: _Path, message: ProtoMessage) -> ProtoMessage:
        known, highest = self.numbers.get(path, {}), self.highest.get(path, 0)
        fields: list[ProtoField] = []
        for part in message.fields:
            number = known.get(part.name)
            if number is None:
                highest = number = _next(highest)
            inner = part.message and self._message((*path, part.message.name), part.message)
            fields.append(replace(part, number=number, message=inner))
        return replace(message, fields=tuple(fields))


def _next(number: int) -> int:
    return _OF_PROTOBUF.stop if number + 1 in _OF_PROTOBUF else number + 1
