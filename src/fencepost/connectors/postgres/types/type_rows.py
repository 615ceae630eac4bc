"""Reads the server's catalog of types: finds the types of columns by their OIDs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Some types, such as int2vector, have an element type but are not arrays, and box[] separates items by semicolons.
# These types are read as texts.
SELECT_TYPES: Final = """
select t.oid, t.typname, t.typtype::text, t.typbasetype, t.typtypmod, t.typnotnull,
       coalesce(e.oid, 0), t.typnamespace = 'pg_catalog'::regnamespace
from pg_type t left join pg_type e on e.typarray = t.oid and e.typdelim = ','
where t.oid = any(%s::oid[])
"""

_ENUM: Final = "e"


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A row of pg_type.

    `base` is the OID of a domain's base type, `element` is the OID of an array's item type; 0 for other types. `kind`
    is the column `typtype`. `base_modifier` and `not_null` belong to a domain.
    """

    name: str
    kind: str
    base: int
    base_modifier: int
    not_null: bool
    element: int
    built_in: bool

    @property
    def is_enum(self) -> bool:
        """Whether the values are the labels of an enum."""
        return self.kind == _ENUM


def type_rows(
    ask: Callable[[list[int]], Sequence[tuple[Any, ...]]], oids: Iterable[int], known: Mapping[int, TypeRow]
) -> dict[int, TypeRow]:
    """Return the rows of types and of their component types, except for the `known` types.

    `ask` returns the rows of SELECT_TYPES for OIDs. Types that are not in the catalog are not in the result.
    """
    found: dict[int, TypeRow] = {}
    asked = {0, *known}
    wanted = set(oids) - asked
    while wanted:
        asked |= wanted
        rows = {oid: TypeRow(*rest) for oid, *rest in ask(sorted(wanted))}
        found |= rows
        wanted = {part for row in rows.values() for part in (row.base, row.element)} - asked
    return found
