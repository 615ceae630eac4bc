"""Names for structs that have none: after the topic and the field that they are in (`fencepost.schema.names=topic`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_BAD: Final = re.compile(r"[^A-Za-z0-9_.]")
_SUFFIXES: Final = {"key": "Key", "value": "Value", "header": "Header"}


def with_names(schema: Mapping[str, Any], topic: str, role: str) -> dict[str, Any]:
    """Return a Connect schema where all structs, and maps whose keys are not text, have a name.

    The name is `<topic>.Value`, or `<topic>.Key`, and a part for each field on the way; characters that languages of schemas
    do not allow become `_`.
    """
    return _named(schema, f"{_valid(topic)}.{_SUFFIXES[role]}")


def _named(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = dict(schema)
    match schema["type"]:
        case "struct":
            found.setdefault("name", name)
            found["fields"] = [_named(part, f"{name}.{_part(str(part['field']))}") for part in schema["fields"]]
        case "array":
            found["items"] = _named(schema["items"], name)
        case "map":
            if schema["keys"]["type"] != "string":
                found.setdefault("name", name)
                name = f"{name}.Entry"
            found["keys"] = _named(schema["keys"], f"{name}.key")
            found["values"] = _named(schema["values"], f"{name}.value")
    return found


def _valid(name: str) -> str:
    return ".".join(_part(part) for part in _BAD.sub("_", name).split(".") if part)


def _part(name: str) -> str:
    part = _BAD.sub("_", name).replace(".", "_")
    return f"_{part}" if part[:1].isdigit() else part
