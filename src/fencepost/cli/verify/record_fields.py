"""Reads a record's number and source partition from the fields that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from fencepost.cli.verify.row_check import json_value

if TYPE_CHECKING:
    from confluent_kafka import Message

_PLACES: Final = ("key", "value", "header")
_SHOWN_NAMES: Final = 20


@dataclass(frozen=True, slots=True)
class RecordField:
    """A place in a record: `place` is one of key, value and header, `path` is the path below it."""

    place: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `value.a.b`, `key`, `header.h`. Raises ValueError."""
        place, *path = text.split(".")
        if place not in _PLACES or not all(path) or (place == "header" and not path):
            raise ValueError(
                f"{text!r} is not a field of a record: give value, value.NAME, key, key.NAME or header.NAME"
            )
        return cls(place, (".".join(path),) if place == "header" else tuple(path))

    def __str__(self) -> str:
        return ".".join((self.place, *self.path))

    def shown_place(self, message: Message) -> str:
        """Describe the value of a record at the field's place."""
        if self.place == "header":
            return _shown_names("header", dict(message.headers() or ()))
        found = _decoded(message.key() if self.place == "key" else message.value())
        if isinstance(found, dict):
            return _shown_names(self.place, found)
        return f"no {self.place}" if found is None else f"no JSON object as its {self.place}"

    def of(self, message: Message) -> Any:
        """Return the field's value; None if the record lacks it."""
        if self.place == "header":
            headers = dict(message.headers() or ())
            return _decoded(headers.get(self.path[0]))
        found = _decoded(message.key() if self.place == "key" else message.value())
        for name in self.path:
            if not isinstance(found, dict):
                return None
            found = found.get(name)
        return found

    def integer_of(self, message: Message) -> int | None:
        """Return the field's integer, from a number or digits; None if there is none."""
        found = self.of(message)
        if isinstance(found, bool):
            return None
        try:
            return int(found) if isinstance(found, int | str) else None
        except ValueError:
            return None


def _shown_names(place: str, fields: Mapping[str, Any]) -> str:
    names = [f"{place}.{name}" for name in list(fields)[:_SHOWN_NAMES]]
    return ", ".join(names) + (", ..." if len(fields) > _SHOWN_NAMES else "") if names else f"no field in its {place}"


def _decoded(data: Any) -> Any:
    return json_value(data.encode() if isinstance(data, str) else data)
