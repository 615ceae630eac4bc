"""Writes schemaless structures as JSON text. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # of CPython
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.api.plain_values import why_no_json

_DICTS: Final = frozenset({dict})
_TEXTS: Final = frozenset({str})
_PRIMITIVES: Final = frozenset({str, int, float, bool, type(None)})


def json_texts(values: Sequence[Any], where: str) -> list[str | None]:
    """Return schemaless structures as JSON text. Bytes become base64, as in Connect. Raises DataError."""
    flat = _are_flat(values)
    return [_json_text(value, where, flat=flat) for value in values]


def _are_flat(values: Sequence[Any]) -> bool:
    """Whether all values are dicts of primitive values with texts as names. This check has no Python code per value."""
    return (
        _DICTS.issuperset(map(type, values))
        and _TEXTS.issuperset(map(type, chain.from_iterable(values)))
        and _PRIMITIVES.issuperset(map(type, chain.from_iterable(map(dict.values, values))))
    )


def _json_text(value: Any, where: str, *, flat: bool) -> str | None:
    if value is None:
        return None
    try:
        if not flat and isinstance(value, dict | list | tuple):
            _check_names(value)
        return "".join(_COMPACT(value, 0))
    except (TypeError, ValueError, RecursionError) as error:
        why = why_no_json(value)
        reason = f"{error}. Give the record" if why is None else f"{why}, or the record"
        raise DataError(f"{where} cannot be written without a schema: {reason} a value_schema or key_schema") from error


def _check_names(value: Mapping[Any, Any] | Sequence[Any]) -> None:
    """Raise TypeError if two keys of one dict would have the same name in JSON, such as 1 and "1"."""
    if isinstance(value, Mapping):
        if not _TEXTS.issuperset(map(type, value)):
            found: dict[str, Any] = {}
            for name in value:
                (text,) = json.loads("".join(_COMPACT({name: None}, 0)))
                if text in found:
                    raise TypeError(
                        f"{found[text]!r} and {name!r} are keys of one dict, and both have the name {text!r} in JSON"
                    )
                found[text] = name
        value = tuple(value.values())
    for part in value:
        if isinstance(part, dict | list | tuple):
            _check_names(part)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


# json.JSONEncoder creates such an encoder for each value, which takes as long as encoding a small value. The arguments
# are: markers (None, because `_check_names` finds circular references), default, encoder, indent, separators,
# sort_keys, skipkeys, allow_nan.
_COMPACT: Final = c_make_encoder(None, _plain, encode_basestring, None, ":", ",", False, False, False)
