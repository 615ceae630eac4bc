"""Relations: the tables, as the server describes them in the stream before their first change.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# The server sends the name of this schema as an empty text.
_CATALOG: Final = "pg_catalog"

TypeName = tuple[str, str]
"""The schema and name of a type."""


class ReplicaIdentity(StrEnum):
    """The part of a row's previous state that the server sends."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class Column:
    """A published column. `type_oid` and `modifier` are atttypid and atttypmod in pg_attribute.

    `type_name` is the schema and name of a user-defined type. For a domain, the base type is named. For other types
    it is None.
    """

    name: str
    type_oid: int
    modifier: int
    identity: bool
    """Whether the column is part of the replica identity."""
    type_name: TypeName | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as it is at one place in the stream."""

    oid: int
    schema: str
    table: str
    identity: ReplicaIdentity
    columns: tuple[Column, ...]

    @property
    def primary_key_counts(self) -> bool:
        """Whether the key of the table's events is its primary key, which the stream does not contain."""
        return self.identity in (ReplicaIdentity.FULL, ReplicaIdentity.NOTHING)

    @property
    def name(self) -> str:
        """The schema and name, as in `table.include.list`."""
        return f"{self.schema}.{self.table}"


def parse_type(message: bytes) -> tuple[int, TypeName]:
    """Return the OID and the name of the type that a message of type Y describes.

    For a domain, the name is the base type's.
    """
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, at = _text(message, 5)
    name, _ = _text(message, at)
    return oid, (schema or _CATALOG, name)


def parse_relation(message: bytes, type_names: Mapping[int, TypeName]) -> Relation:
    """Return the relation that a message of type R describes. `type_names` are the names of the user-defined types."""
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, at = _text(message, 5)
    table, at = _text(message, at)
    identity = ReplicaIdentity(chr(message[at]))
    (count,) = struct.unpack_from(">H", message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        name, at = _text(message, at + 1)
        type_oid, modifier = struct.unpack_from(">Ii", message, at)
        at += 8
        columns.append(Column(name, type_oid, modifier, bool(flags & 1), type_names.get(type_oid)))
    return Relation(oid, schema or _CATALOG, table, identity, tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1
