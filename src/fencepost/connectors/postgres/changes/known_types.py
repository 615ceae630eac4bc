"""The user-defined types, as the source offset stores them: a change may be read after its types were dropped.

The stream contains a column's type as a number (OID), and the server's catalog defines only the types that still exist.
So the offset stores the definitions of the types of all captured tables. PostgreSQL's own types are not stored, because
they cannot be dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from fencepost.connectors.postgres.types.types import TypeInfo

FIRST_USER_OID: Final = 16384
"""Types with a lower OID are part of PostgreSQL."""

KnownTypes = Mapping[int, TypeInfo]
"""Definitions of types by their OIDs."""

NO_TYPES: Final[KnownTypes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SeenTypes:
    """The user-defined types of captured tables.

    Transactions that commit after the WAL position `lsn` use only these types, and types that were created later.
    """

    types: KnownTypes
    lsn: int


def types_text(types: KnownTypes) -> str:
    """Return the JSON that a source offset stores: `{OID: [base, modifier of the base, element]}`."""
    kept = {str(oid): [info.base, info.base_modifier, info.element] for oid, info in sorted(types.items())}
    return json.dumps(kept, separators=(",", ":"))


def parse_types(text: str) -> dict[int, TypeInfo]:
    """Return the types in the JSON of a source offset. Raises ValueError if the text is invalid."""
    try:
        return {int(oid): _info(*parts) for oid, parts in json.loads(text).items()}
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{text!r} has no types") from error


def _info(base: int, base_modifier: int, element: int) -> TypeInfo:
    if not all(type(number) is int for number in (base, base_modifier, element)):
        raise ValueError("the parts of a type are whole numbers")
    return TypeInfo(base, base_modifier, element)
