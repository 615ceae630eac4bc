"""Reads the types and primary keys of tables from the server's catalog, because the stream does not contain them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import PostgresError, query
from fencepost.connectors.postgres.changes.events.envelope import KEY_REMEDY, TableColumn, TableEvents
from fencepost.connectors.postgres.changes.known_types import NO_TYPES, KnownTypes
from fencepost.connectors.postgres.changes.slot.slot import PublishedTable
from fencepost.connectors.postgres.changes.stream.relation import Column, Relation, ReplicaIdentity
from fencepost.connectors.postgres.changes.type_catalog import column_types
from fencepost.connectors.postgres.types.types import key_type, value_type

if TYPE_CHECKING:
    import psycopg


def table_events(
    connection: psycopg.Connection[Any], relation: Relation, config: PostgresConfig, remembered: KnownTypes = NO_TYPES
) -> TableEvents | None:
    """Return the event maker of a table, None if the table or all of its columns are not captured.

    `remembered` are the types in the source offset; they are used for types that were dropped.

    The key columns are `message.key.columns`, else the replica identity. If the replica identity is the full row or
    nothing, the key columns are the primary key. Raises PostgresError for unknown types, and if the events cannot have
    the key.
    """
    if not config.captures(relation.name):
        return None
    kept = captured_columns(relation, config)
    if not kept:
        return None
    identity = {column.name for column in relation.columns if column.identity}
    chosen = config.chosen_key(relation.name)
    keys: Collection[str] = identity
    if chosen is not None:
        _check_chosen(chosen, relation, identity, {column.name for _, column in kept})
        keys = chosen
    elif relation.primary_key_counts:
        keys = primary_key(connection, relation.oid)
        if relation.identity is ReplicaIdentity.FULL and (later := sorted(keys - identity)):
            raise PostgresError(
                f"The primary key of {relation.name} has {', '.join(later)} now, but rows to be read were written before there "
                f"was such a column. {KEY_REMEDY}"
            )
    names = {column.name for _, column in kept}
    if (hidden := sorted(set(keys) - names)) and names & set(keys):
        raise PostgresError(
            f"Events of {relation.name} lack {', '.join(hidden)}, which column.exclude.list or the publication leaves out: "
            "different rows would have one key. Leave out all columns of the key, or none, or choose others with "
            "message.key.columns"
        )
    kinds = column_types(connection, relation, [column for _, column in kept], remembered)
    columns = [
        TableColumn(
            column.name,
            position,
            value_type(kind, config.decimals, config.times, config.intervals),
            column.name in keys,
            nullable_key=chosen is not None,
            key_type=key_type(kind, config.decimals, config.times, config.intervals),
        )
        for (position, column), kind in zip(kept, kinds, strict=True)
    ]
    return TableEvents(config.envelope, relation, columns, topic=config.topic(relation.name))


def captured_columns(relation: Relation, config: PostgresConfig) -> list[tuple[int, Column]]:
    """Return the columns of a table that its events contain, with their indexes in the relation."""
    return [
        (position, column)
        for position, column in enumerate(relation.columns)
        if config.has_column(f"{relation.name}.{column.name}")
    ]


def _check_chosen(
    chosen: Collection[str], relation: Relation, identity: Collection[str], kept: Collection[str]
) -> None:
    named = f"message.key.columns makes {', '.join(sorted(chosen))} the key of {relation.name}"
    if missing := sorted(set(chosen) - set(kept)):
        raise PostgresError(f"{named}, whose events have no column {', '.join(missing)}: correct the property")
    if unsent := sorted(set(chosen) - set(identity)):
        raise PostgresError(
            f"{named}, but the server does not send {', '.join(unsent)} of deleted rows, so deletes would have no key: run "
            f"ALTER TABLE {relation.name} REPLICA IDENTITY FULL, or choose columns of its replica identity"
        )


def primary_key(connection: psycopg.Connection[Any], table: int) -> set[str]:
    """Return the columns of a table's primary key, empty if it has none."""
    return set(_index_columns(connection, table, "indisprimary"))


def unique_key(connection: psycopg.Connection[Any], relation: Relation) -> tuple[str, ...]:
    """Return the key columns that identify a row, in index order; empty if the table has no key.

    Deletes have these columns, too. They are the columns of the replica identity's index if it has one, else the
    columns of the primary key.
    """
    flag = "indisreplident" if relation.identity is ReplicaIdentity.INDEX else "indisprimary"
    return tuple(_index_columns(connection, relation.oid, flag))


def table_shape(connection: psycopg.Connection[Any], table: int) -> str | None:
    """Return a text that changes with a table's name, columns, replica identity and key, None for a missing table."""
    ((shape,),) = query(
        connection,
        "SELECT max(concat_ws('.', c.oid::regclass, c.relreplident, (SELECT string_agg(concat_ws('.', indexrelid, indkey), ',' "
        "ORDER BY indexrelid) FROM pg_index WHERE indrelid = c.oid AND (indisprimary OR indisreplident)))) || "
        "string_agg(concat_ws('.', attnum, attname, atttypid, atttypmod, attcollation), ',' ORDER BY attnum) "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.oid = %s AND attnum > 0 AND NOT attisdropped",
        [table],
    )
    return None if shape is None else str(shape)


def relation_of(connection: psycopg.Connection[Any], table: PublishedTable) -> Relation:
    """Return a published table in the form in which the stream would describe it."""
    ((identity,),) = query(connection, "SELECT relreplident FROM pg_class WHERE oid = %s", [table.oid])
    replica = ReplicaIdentity(identity.decode() if isinstance(identity, bytes) else identity)
    flag = {ReplicaIdentity.DEFAULT: "indisprimary", ReplicaIdentity.INDEX: "indisreplident"}.get(replica)
    keys = [] if flag is None else _index_columns(connection, table.oid, flag)
    rows = query(
        connection,
        "SELECT attname, atttypid, atttypmod FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND attname = ANY(%s) "
        "ORDER BY attnum",
        [table.oid, list(table.columns)],
    )
    columns = tuple(
        Column(name, kind, modifier, replica is ReplicaIdentity.FULL or name in keys) for name, kind, modifier in rows
    )
    return Relation(table.oid, table.schema, table.table, replica, columns)


def _index_columns(connection: psycopg.Connection[Any], table: int, flag: str) -> list[str]:
    # INCLUDE columns are at the end of the index, and are not part of the key.
    rows = query(
        connection,
        "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY k(attnum, place) "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        "WHERE i.indrelid = %s AND place <= i.indnkeyatts "
        "AND CASE %s WHEN 'indisprimary' THEN i.indisprimary ELSE i.indisreplident END ORDER BY place",
        [table, flag],
    )
    return [name for (name,) in rows]
