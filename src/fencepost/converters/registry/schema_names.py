"""Names in schemas. Unnamed structs are named after the topic and the field, with only allowed characters."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import DataType

from fencepost.converters.json_schema import connect_schema

_BAD: Final = re.compile(r"[^A-Za-z0-9_.]")
_NOT_IN_PARTS: Final = re.compile(r"[^A-Za-z0-9_]")
_SUFFIXES: Final = {"key": "Key", "value": "Value", "header": "Header"}


def scrubbed_part(part: str, *, before: str = "0123456789") -> str:
    """Return a part of a name in which characters are replaced in the same way as in Java.

    The part is URL-encoded. Characters that are still not allowed become `_`. An `x` is put before a part whose first
    character is in `before`.
    """
    if not _NOT_IN_PARTS.search(part) and part[:1] not in set(before):
        return part
    encoded = urllib.parse.quote_plus(part, safe="*-._").replace("~", "%7E")
    return ("x" if encoded[:1] in set(before) else "") + _NOT_IN_PARTS.sub("_", encoded)


def schema_in_topic(
    schema: DataType | None, topic: str, role: str, names: str, *, all_maps: bool = False
) -> dict[str, Any] | None:
    """Return the Connect schema of values that are written to a topic; None for values without one. Raises DataError.

    `names` is the value of `fencepost.schema.names`. If it is "topic", structs and maps get names as in `with_names`.
    """
    if schema is None:
        return None
    found = connect_schema(schema, optional=False)
    return with_names(found, topic, role, all_maps=all_maps) if names == "topic" else found


def with_names(schema: Mapping[str, Any], topic: str, role: str, *, all_maps: bool = False) -> dict[str, Any]:
    """Return a Connect schema in which all structs are named, and so are maps with keys other than texts.

    With `all_maps`, all other maps are named as well. Existing names of structs and maps are kept. A new name is
    `<topic>.Value`, `<topic>.Key` or `<topic>.Header`, followed by the name of each field on the path. Characters that
    schema languages do not allow become `_`.
    """
    return _named(schema, f"{_valid(topic)}.{_SUFFIXES[role]}", all_maps)


def _named(schema: Mapping[str, Any], name: str, all_maps: bool) -> dict[str, Any]:
    found = dict(schema)
    match schema["type"]:
        case "struct":
            found.setdefault("name", name)
            found["fields"] = [
                _named(part, f"{name}.{_part(str(part['field']))}", all_maps) for part in schema["fields"]
            ]
        case "array":
            found["items"] = _named(schema["items"], name, all_maps)
        case "map":
            if all_maps or schema["keys"]["type"] != "string":
                found.setdefault("name", name)
                name = f"{name}.Entry"
            found["keys"] = _named(schema["keys"], f"{name}.key", all_maps)
            found["values"] = _named(schema["values"], f"{name}.value", all_maps)
    return found


def _valid(name: str) -> str:
    return ".".join(_part(part) for part in _BAD.sub("_", name).split(".") if part)


def _part(name: str) -> str:
    part = _BAD.sub("_", name).replace(".", "_")
    return f"_{part}" if part[:1].isdigit() else part
