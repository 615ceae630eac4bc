"""Encodes and decodes source offsets as records, in Kafka Connect's format.

The key is `["<connector>",{<source partition>}]`, where the source partition may be null, and the value
`{<source offset>}`, or null for one that was removed, both as JSON without spaces. Byte equality of keys matters: it decides which partition of the offsets topic a record goes
to, and what compaction replaces. So the text is exactly what Jackson, Java's JSON library, makes of the same map:
names in the map's order, UTF-8 without escapes but for quotes, backslashes, control characters and characters beyond
16 bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.secrets import SECRETS
from fencepost.storage.compact_json import text
from fencepost.storage.errors import UnstorableOffsetError

_INT64: Final = range(-(1 << 63), 1 << 63)
# Java writes numbers from 1e-3 to 1e7 with plain digits, others as 1.5E10.
_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7

_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The decoded key of an offset record. `identity` is `identity_of` the source partition."""

    connector: str
    partition: dict[str, Any] | None
    identity: str


def identity_of(partition: SourcePartition | None) -> str:
    """Return a text that is the same for equal source partitions, with any order of their names.

    1, 1.0, true and "1" differ, as they do in JSON.
    """
    return json.dumps(partition, sort_keys=True)


def encode_key(connector: str, partition: SourcePartition | None) -> bytes:
    """Return the key of a source partition's offset records. None is a source partition, too.

    Raises UnstorableOffsetError unless the partition maps text to text, numbers, booleans and None.
    """
    encoded = "null" if partition is None else _object(connector, "partition", partition)
    return _utf8(connector, "partition", f"[{text(connector)},{encoded}]")


def encode_value(connector: str, offset: SourceOffset | None) -> bytes | None:
    """Return the value for a source offset, None to remove it. Raises as `encode_key`."""
    return None if offset is None else _utf8(connector, "offset", _object(connector, "offset", offset))


def decode_key(key: bytes | None) -> OffsetKey | None:
    """Return the decoded key, of any writer and with any spaces; None if it is not an offset record's."""
    try:
        decoded = parse_json(key or b"")
    except ValueError:
        return None
    match decoded:
        case [str() as connector, dict() | None as partition]:
            return OffsetKey(connector, partition, identity_of(partition))
    return None


def decode_value(value: bytes | None) -> dict[str, Any] | None:
    """Return a source offset, None for a tombstone. Raises DataError for a value that is not a JSON object."""
    if value is None:
        return None
    try:
        decoded = parse_json(value)
    except ValueError:
        decoded = value
    if decoded is not None and not isinstance(decoded, dict):
        shown = SECRETS.excerpt(repr(value), _SHOWN)
        raise DataError(f'{shown} is not a source offset: it should be a JSON object such as {{"position":42}}')
    return decoded


def _object(connector: str, what: str, data: Mapping[str, Any]) -> str:
    if not isinstance(data, Mapping):
        raise UnstorableOffsetError(
            f"Connector {connector}: a source {what} must be a mapping such as {{'file': 'a.csv'}}, "
            f"not {type(data).__name__}"
        )
    return "{" + ",".join(_member(connector, what, name, value) for name, value in data.items()) + "}"


def _member(connector: str, what: str, name: Any, value: Any) -> str:
    if not isinstance(name, str):
        raise UnstorableOffsetError(
            f"Connector {connector}: the source {what} has the name {name!r} of type {type(name).__name__}; names must "
            "be text"
        )
    return f"{text(name)}:{_primitive(connector, what, name, value)}"


def _primitive(connector: str, what: str, name: str, value: Any) -> str:
    problem = None
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return text(value)
        case int() if value in _INT64:
            return int.__repr__(value)
        case float() if math.isfinite(value):
            return _java_double(value)
        case int():
            problem = f"a number of {value.bit_length() + 1} bits, of which 64 can be stored: give it as text"
        case float():
            problem = f"{value}, which JSON has no number for: give it as text, or leave it out"
        case _:
            problem = (
                f"a value of type {type(value).__name__}; only text, numbers, booleans and None can be stored: convert "
                "it, and put the parts of nested values under names of their own"
            )
    raise UnstorableOffsetError(f"Connector {connector}: {name!r} in the source {what} is {problem}")


def _java_double(value: float) -> str:
    """Like Java's Double.toString: the shortest digits that parse to the same number."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        # Python's repr uses exponents only far outside of this range.
        return repr(float(value))
    sign, digits, exponent = _shortest(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest(value: float) -> tuple[str, str, int]:
    """Sign, digits without leading or trailing zeros, and the exponent of the first digit."""
    mantissa, _, exponent = f"{float(value)!r}".lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    first = len(whole) - 1 - leading + int(exponent or 0)
    return "-" if value < 0 else "", digits.strip("0"), first


def _utf8(connector: str, what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnstorableOffsetError(
            f"Connector {connector}: the source {what} has text that is not valid Unicode ({error.reason}): decode the "
            "bytes that it was made of with errors='replace', or store them in hexadecimal"
        ) from error
