"""Reads a record's number and source partition from the fields that the user names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from fencepost.cli.row_check import json_value

if TYPE_CHECKING:
    from confluent_kafka import Message

_PLACES: Final = ("key", "value", "header")


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

    def of(self, message: Message) -> Any:
        """Return the field's value; None if there is no such field."""
        if self.place == "header":
            headers = dict(message.headers() or ())
            return _plain(headers.get(self.path[0]))
        found = _plain(message.key() if self.place == "key" else message.value())
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


def _plain(data: Any) -> Any:
    return json_value(data.encode() if isinstance(data, str) else data)
