"""The place of the schema's id in a record: in front of the data, or in a header.

Prefix: 0, the id in 4 bytes, [message indexes], data. Header: 1, the GUID in 16 bytes, [message indexes].
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format; headers
are read as in SchemaId.java of confluentinc/schema-registry 8.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PREFIX_MAGIC: Final = 0
HEADER_MAGIC: Final = 1
PREFIX_SIZE: Final = 5
HEADER_NAMES: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}


@dataclass(frozen=True, slots=True)
class Framing:
    """Where the id is: `prefix` are the bytes before each payload, `header` belongs to each record with a payload."""

    prefix: bytes
    header: tuple[str, bytes] | None = None


def prefix_framing(schema_id: int, indexes: bytes = b"") -> Framing:
    """Return the framing with the id in front of the data."""
    return Framing(bytes([PREFIX_MAGIC]) + schema_id.to_bytes(4, "big") + indexes)


def header_framing(role: str, guid: bytes, indexes: bytes = b"") -> Framing:
    """Return the framing with the GUID in a header, which belongs to the key or to the value."""
    return Framing(b"", (HEADER_NAMES[role], bytes([HEADER_MAGIC]) + guid + indexes))
