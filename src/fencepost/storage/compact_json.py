"""JSON without spaces. Its bytes are those that Jackson, Java's JSON library, writes into Connect's internal topics.

Names are in the mapping's order. Text is UTF-8 without escapes, except for quotes, backslashes, control characters,
characters beyond 16 bits, and single surrogates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Final, TypeAlias

Json: TypeAlias = "str | int | bool | Mapping[str, Json] | Sequence[Json] | None"
"""The JSON values that Connect's records contain."""

_CONTROL_ESCAPE: Final = re.compile(r"\\(u00[01][0-9a-f]|.)")
_SURROGATES: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
"""Characters that consist of two surrogates in UTF-16, and single surrogates, which Java's texts may contain."""


def text(value: str) -> str:
    """Return a text as a JSON string, with quotes."""
    quoted = _CONTROL_ESCAPE.sub(_upper_case_hex, encode_basestring(value))
    return _SURROGATES.sub(_escaped, quoted)


def compact(value: Json) -> bytes:
    """Return a value as JSON."""
    return _compact(value).encode()


def _compact(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return text(value)
        case Mapping():
            return "{" + ",".join(f"{text(name)}:{_compact(member)}" for name, member in value.items()) + "}"
    return "[" + ",".join(map(_compact, value)) + "]"


def _upper_case_hex(escape: re.Match[str]) -> str:
    code = escape[1]
    return f"\\u{code[1:].upper()}" if len(code) > 1 else escape[0]


def _escaped(character: re.Match[str]) -> str:
    units = character[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
