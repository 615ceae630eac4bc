"""Resolves the types of columns: from the server's catalog, from the source offset, or from the stream.

The catalog does not contain types that were dropped after a change. These are taken from the offset (see known_types).
Types that were created and dropped while no task ran are in neither. The stream contains their names; for a domain, it
contains the name of the base type, without the precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from fencepost.connectors.postgres.changes.connection import PostgresError, query
from fencepost.connectors.postgres.changes.known_types import FIRST_USER_OID, KnownTypes, SeenTypes
from fencepost.connectors.postgres.changes.slot.slot import RESYNC
from fencepost.connectors.postgres.changes.stream.relation import Column, Relation
from fencepost.connectors.postgres.types.temporal import TIME, TIMESTAMP
from fencepost.connectors.postgres.types.type_rows import SELECT_TYPES, type_rows
from fencepost.connectors.postgres.types.types import NUMERIC, PostgresType, TypeInfo, resolved

if TYPE_CHECKING:
    import psycopg

_BUILT_IN: Final = "pg_catalog"
# PostgreSQL gives the array type of each type a name with this prefix, and array types cannot be renamed.
_ARRAY_PREFIX: Final = "_"
# The representation of these types depends on precision and scale, which the type's name does not contain.
_BY_MODIFIER: Final = frozenset({NUMERIC, TIME, TIMESTAMP})


def column_types(
    connection: psycopg.Connection[Any], relation: Relation, columns: Sequence[Column], remembered: KnownTypes
) -> list[PostgresType]:
    """Return the types of a relation's columns. `remembered` are the types in the source offset.

    Raises PostgresError for an unknown type.
    """
    known = type_infos(connection, {column.type_oid for column in columns}, remembered)
    kinds = []
    for column in columns:
        if column.type_oid not in known:
            known |= _named_by_stream(connection, column)
        try:
            kinds.append(resolved(column.type_oid, column.modifier, known))
        except KeyError as error:
            name = f"{'.'.join(column.type_name)}, " if column.type_name else ""
            raise PostgresError(
                f"The column {relation.name}.{column.name} had a type ({name}OID {error}) that was dropped before the change "
                "was read, and the source offset does not have it: nobody knows what its values are. If you do, add it to "
                "the field types of the connector's offset. If the column is not needed, leave it out with "
                f"column.exclude.list. Otherwise: {RESYNC}"
            ) from None
    return kinds


def type_infos(connection: psycopg.Connection[Any], oids: Iterable[int], remembered: KnownTypes) -> dict[int, TypeInfo]:
    """Return the definitions of types and of their component types, from pg_type, or else from `remembered`.

    Raises PostgresError if pg_type and `remembered` contradict each other.
    """
    known: dict[int, TypeInfo] = {}
    wanted = set(oids)
    while wanted:
        rows = type_rows(lambda asked: query(connection, SELECT_TYPES, [asked]), wanted, {})
        found = {
            oid: TypeInfo(row.base, row.base_modifier, 0 if row.base else row.element) for oid, row in rows.items()
        }
        if reused := [oid for oid, info in found.items() if remembered.get(oid, info) != info]:
            raise PostgresError(
                f"The OID {reused[0]} belonged to another type at the connector's offset than it does now, so changes may be of "
                "either. To read all as of the present type, remove the field types from the connector's offset. "
                f"Otherwise: {RESYNC}"
            )
        # A dropped type may have components that are still in the catalog.
        dropped = {oid: remembered[oid] for oid in wanted & remembered.keys() - found.keys()}
        known |= found | dropped
        wanted = {part for info in dropped.values() for part in (info.base, info.element) if part} - known.keys()
    return known


def user_types(connection: psycopg.Connection[Any], captures: Callable[[str], bool]) -> SeenTypes:
    """Return the user-defined types of the columns of captured tables, with their component types."""
    rows = query(
        connection,
        "SELECT DISTINCT n.nspname || '.' || c.relname, a.atttypid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE a.atttypid >= %s AND a.attnum > 0 AND c.relkind IN ('r', 'p')",
        [FIRST_USER_OID],
    )
    known = type_infos(connection, {oid for table, oid in rows if captures(table)}, {})
    # The position is determined after the types. It includes WAL that is not flushed yet: with synchronous_commit=off,
    # commits are visible before they are flushed.
    ((lsn,),) = query(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    return SeenTypes({oid: info for oid, info in known.items() if oid >= FIRST_USER_OID}, int(lsn))


def _named_by_stream(connection: psycopg.Connection[Any], column: Column) -> dict[int, TypeInfo]:
    """Return the definition that follows from a type's name in the stream, empty if the name is not sufficient."""
    if column.type_name is None:
        return {}
    schema, name = column.type_name
    if schema != _BUILT_IN:
        # The type is a domain over a user-defined type: the stream contains the base type's name.
        return {} if name.startswith(_ARRAY_PREFIX) else {column.type_oid: TypeInfo()}
    rows = query(
        connection, "SELECT oid FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typname = %s", [name]
    )
    known = type_infos(connection, {oid for (oid,) in rows}, {})
    if not rows or known.keys() & _BY_MODIFIER:
        return {}
    return known | {column.type_oid: TypeInfo(base=rows[0][0])}
