"""Reads single values of JSON with a JSON Schema, for display and for checks."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from fencepost.api.decimals import scaled
from fencepost.api.foreign_json import parse_json
from fencepost.converters.jsonschema.schema import LOGICAL, without_null
from fencepost.converters.registry.reading import Reader
from fencepost.converters.registry.schemas import RegistrySchema

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def json_reader(schema: RegistrySchema, for_people: bool, referred: Mapping[str, RegistrySchema]) -> Reader:
    """Return a function that reads values of a schema; see MakeReader.

    Values whose Connect types are in `referred` schemas stay as they are in JSON.
    """
    del referred
    try:
        parsed = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a schema that is not JSON: {error}") from error

    def read(data: bytes) -> Any:
        try:
            return _value(parsed, parse_json(data.decode(), parse_float=Decimal), for_people)
        except (ValueError, RecursionError) as error:
            raise ValueError("bytes that are not JSON") from error

    return read


def _value(schema: Any, value: Any, for_people: bool) -> Any:
    """Return a value in which decimals are Decimals and, if `for_people`, dates and times are texts."""
    found = without_null(schema)
    if value is None or not isinstance(found, Mapping):
        return value
    match value:
        case dict():
            fields, others = _mapping(found.get("properties")), found.get("additionalProperties")
            return {name: _value(fields.get(name, others), part, for_people) for name, part in value.items()}
        case list():
            return [_value(found.get("items"), part, for_people) for part in value]
    return _logical(found, value, for_people)


def _logical(schema: Mapping[str, Any], value: Any, for_people: bool) -> Any:
    title = str(schema.get("title", ""))
    if title in _TIMES and not for_people:
        return value
    return logical_value(title, value, _mapping(schema.get("connect.parameters")).get("scale"))


def logical_value(name: str, value: Any, scale: Any) -> Any:
    """Convert a value of Connect's logical type `name` to a Decimal, or to the text of a date or time.

    A decimal is the bytes of its unscaled value in base64 (decimal.format=BASE64), or a number. Values of other types,
    and data that does not fit its schema because another program wrote it, are returned unchanged.
    """
    try:
        if name == f"{LOGICAL}Decimal" and isinstance(value, str):
            return scaled(base64.b64decode(value, validate=True), int(scale))
        return _TIMES[name](value) if name in _TIMES else value
    except (ValueError, TypeError, OverflowError):
        return value


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


_TIMES: Final[Mapping[str, Callable[[int], str]]] = {
    f"{LOGICAL}Date": lambda days: (_EPOCH.date() + dt.timedelta(days=days)).isoformat(),
    f"{LOGICAL}Time": lambda millis: (_EPOCH + dt.timedelta(milliseconds=millis)).time().isoformat(),
    f"{LOGICAL}Timestamp": lambda millis: (_EPOCH + dt.timedelta(milliseconds=millis)).isoformat(),
}
