"""The fields of a record's value: their names, and the value without some of them. Pure: no I/O.

The name of a field within a field consists of both names, with a dot between them. The fields of a list's elements have
the list's name. A value may also be a text that contains a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any


def named_fields(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each field, at any depth: its dotted name, and its content as a text."""
    yield from _named(_object_of(value), "")


def without(value: Any, ignored: Collection[str]) -> Any:
    """Return the value without the fields that have these dotted names."""
    return _without(_object_of(value), ignored, "") if ignored else value


def _object_of(value: Any) -> Any:
    """Return the object in a JSON text. Other values are returned unchanged."""
    if isinstance(value, str | bytes) and value[:1] in ("{", b"{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _named(value: Any, outer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            path = f"{outer}.{name}" if outer else str(name)
            yield path, repr(part)
            yield from _named(part, path)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _named(part, outer)


def _without(value: Any, ignored: Collection[str], outer: str) -> Any:
    if isinstance(value, Mapping):
        paths = {name: f"{outer}.{name}" if outer else str(name) for name in value}
        return {
            name: _without(part, ignored, paths[name]) for name, part in value.items() if paths[name] not in ignored
        }
    if isinstance(value, list | tuple):
        return [_without(part, ignored, outer) for part in value]
    return value
