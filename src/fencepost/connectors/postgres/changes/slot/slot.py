"""The server's side of the stream: the server's identity, the slot and the publication.

A replication slot makes the server keep its log from the slot's position on, and a publication defines the tables in
the stream. Both are checked before a stream starts, because the server does not report gaps. If a client asks for a
start before the slot's position, the server silently starts at the slot's position. A table that was removed from a
publication and added again has a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes.connection import PositionLostError, PostgresError, command, query
from fencepost.connectors.postgres.changes.position import (
    Position,
    SourceState,
)
from fencepost.connectors.postgres.server.lsn import lsn_text, parse_lsn, timeline_ends
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    import psycopg

PLUGIN: Final = "pgoutput"
_WITH_COLUMN_LISTS: Final = 150_000

_ALL_TABLES: Final = ".*"
"""If a part of a publication stands for all tables of a schema, its name is the schema's name with this suffix."""
_WITH_INVALIDATION_REASON: Final = 170_000
_WITH_GENERATED_COLUMNS: Final = 180_000
# The cause of each pg_replication_slots.invalidation_reason, and how to prevent it.
_INVALIDATIONS: Final = {
    "wal_removed": "the server removed log that it needs. Raise max_slot_wal_keep_size",
    "idle_timeout": "nobody read it for longer than idle_replication_slot_timeout. Raise that, or let the connector run",
    "rows_removed": "the primary removed rows of the catalog that the standby's slot needs. Set hot_standby_feedback=on on "
    "the standby, with a physical slot on the primary",
    "wal_level_insufficient": "the primary's wal_level was less than logical. Set wal_level=logical there, and keep it",
}


@dataclass(frozen=True, slots=True)
class Server:
    """The identity of a database cluster, and the end of its log at the time of the query."""

    system: str
    timeline: int
    lsn: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of pg_replication_slots. `wal_status` is None on servers that do not report it.

    `invalidation_reason` is None for a usable slot, and always before PostgreSQL 17.
    """

    name: str
    plugin: str
    database: str
    active_pid: int | None
    confirmed: int | None
    wal_status: str | None
    safe_wal_size: int | None
    invalidation_reason: str | None = None


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a publication, with its published columns and its size in pages.

    `row_filter` is the SQL condition for the published rows, None if all rows are published.
    """

    oid: int
    schema: str
    table: str
    columns: Sequence[str]
    row_filter: str | None
    pages: int
    partitioned: bool = False

    @property
    def name(self) -> str:
        """The schema and name of the table."""
        return f"{self.schema}.{self.table}"

    def sql(self) -> str:
        """Return the FROM item of a SELECT.

        The item includes the rows of partitions, but not of tables that inherit from the table.
        """
        only = "" if self.partitioned else "ONLY "
        return f"{only}{quoted(self.schema)}.{quoted(self.table)}"


def identify(connection: psycopg.Connection[Any]) -> Server:
    """Return the identity of the server at the other end of a replication connection."""
    ((system, timeline, lsn, *_),) = command(connection, "IDENTIFY_SYSTEM")
    return Server(str(system), int(timeline or 0), parse_lsn(str(lsn)))


def timeline_history(connection: psycopg.Connection[Any], timeline: int) -> str:
    """Return the history file of a timeline of the server, an empty text for the first timeline, which has none."""
    if timeline == 1:
        return ""
    ((_, history),) = command(connection, f"TIMELINE_HISTORY {timeline}")
    return history or ""


def check_primary(connection: psycopg.Connection[Any], address: object) -> None:
    """Raise PostgresError on a standby: it writes no log, and so cannot write the messages after chunks."""
    ((standby,),) = query(connection, "SELECT pg_is_in_recovery()")
    if standby:
        raise PostgresError(
            f"PostgreSQL at {address} is a standby: set database.hostname to the primary's; or, if this server "
            "is to become the primary, promote it and restart the task"
        )


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot | None:
    """Return a replication slot, None if it does not exist."""
    reason = "invalidation_reason" if connection.info.server_version >= _WITH_INVALIDATION_REASON else "NULL"
    rows = query(
        connection,
        "SELECT slot_name, coalesce(plugin, ''), coalesce(database, ''), active_pid, confirmed_flush_lsn - '0/0'::pg_lsn, "  # noqa: S608 - one of two texts
        f"wal_status, safe_wal_size, {reason} FROM pg_replication_slots WHERE slot_name = %s",
        [name],
    )
    for slot, plugin, database, pid, confirmed, status, safe, why in rows:
        return Slot(slot, plugin, database, pid, None if confirmed is None else int(confirmed), status, safe, why)
    return None


def create_slot(
    connection: psycopg.Connection[Any], name: str, waiting: Callable[[], object], *, failover: bool
) -> tuple[int, str]:
    """Create a slot. Return its position, and the name of a snapshot of the database at that position.

    The server waits for transactions to end. Meanwhile `waiting` is called each second; an error that `waiting` raises
    cancels the creation.

    The snapshot can be used as long as the connection is not used for anything else. With `failover` (PostgreSQL 17 and
    later) the slot is synchronized to standbys.
    """
    options = "(SNAPSHOT 'export', FAILOVER true)" if failover else "EXPORT_SNAPSHOT"
    ((_, point, snapshot, _),) = command(
        connection, f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL {PLUGIN} {options}", waiting
    )
    return parse_lsn(str(point)), str(snapshot)


def drop_slot(connection: psycopg.Connection[Any], found: Slot) -> None:
    """Drop an unused slot. Raises RetriableError if the slot is in use, or has changed since it was last seen.

    A new slot always has another position, because the creation of a slot writes to the log.
    """
    dropped = query(
        connection,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        "WHERE slot_name = %s AND confirmed_flush_lsn - '0/0'::pg_lsn IS NOT DISTINCT FROM %s::numeric",
        [found.name, found.confirmed],
    )
    if not dropped:
        raise RetriableError(
            f"The replication slot {found.name} was replaced or dropped by somebody else: it will be checked again"
        )


def check_slot(slot: Slot | None, name: str, database: str) -> Slot:
    """Return the slot, if a stream can start from it. Raises PositionLostError or PostgresError."""
    if slot is None:
        raise PositionLostError(
            f"The replication slot {name} does not exist, so the server did not keep the changes since the connector's "
            f"offset. {RESYNC}"
        )
    if slot.plugin != PLUGIN or slot.database != database:
        raise PostgresError(
            f"The replication slot {name} is for the database {slot.database!r} and the plugin {slot.plugin!r}, not for "
            f"{database!r} and {PLUGIN}: choose another slot.name"
        )
    if slot.wal_status == "lost" or slot.confirmed is None or slot.invalidation_reason is not None:
        reason = slot.invalidation_reason or "wal_removed"
        happened = _INVALIDATIONS.get(reason, f"pg_replication_slots has {reason} as the reason. Remove its cause")
        raise PositionLostError(f"The replication slot {name} was invalidated: {happened}. {RESYNC}")
    return slot


def check_state(state: SourceState, slot: Slot, server: Server, history: str | None) -> None:
    """Check that the slot and the server can continue at an offset. Raises PositionLostError.

    `history` is the history file of the server's timeline, None if the offset is on the same timeline.
    """
    position = state.position or Position(0)
    if server.system != state.system:
        raise PositionLostError(
            f"The offset is of the database system {state.system}, but the server is {server.system}: it was restored "
            f"or is another one. Correct database.hostname; or, if it is to replace the former one: {RESYNC}"
        )
    if history is not None and timeline_ends(history).get(state.timeline, -1) < position.lsn:
        raise PositionLostError(
            f"The offset {lsn_text(position.lsn)} of timeline {state.timeline} is not part of the server's timeline "
            f"{server.timeline}: the server lost changes that are in Kafka, as after a failover to a standby that was "
            f"behind. {RESYNC}"
        )
    if server.lsn < position.lsn:
        raise PositionLostError(
            f"The server's log ends at {lsn_text(server.lsn)}, before the connector's offset {lsn_text(position.lsn)} of the "
            "same timeline: it lost changes that are in Kafka, for example because its volume was restored to an earlier "
            f"state, and new changes would get the same positions. {RESYNC}"
        )
    if slot.confirmed is not None and slot.confirmed > position.lsn:
        raise PositionLostError(
            f"The replication slot {slot.name} is at {lsn_text(slot.confirmed)}, past the connector's offset "
            f"{lsn_text(position.lsn)}: something else read or moved it, and the changes between are lost. To accept the "
            f"gap, set lsn in the connector's offset to {lsn_text(slot.confirmed)}. Otherwise: {RESYNC}"
        )


RESYNC: Final = (
    "To resync, stop the connector, delete its offsets (DELETE /connectors/NAME/offsets) and the slot, and start it: it "
    "takes a new snapshot"
)


def check_publication(state: SourceState, name: str, now: Mapping[str, str], dropped: Collection[str] = ()) -> None:
    """Check that the publication still has, unaltered, all parts that it had at an offset. Raises PositionLostError.

    A renamed table or schema still counts as the same part. `dropped` are parts in the offset that do not exist any
    more; they had no further changes.
    """
    if altered := sorted(altered_parts(state, now).keys() - dropped):
        raise PositionLostError(
            f"The publication {name} was changed ({', '.join(part or 'its settings' for part in altered)}): changes of "
            "tables that were taken out of it may be missing. To accept that, remove the field publication from the "
            f"connector's offset. Otherwise: {RESYNC}"
        )


def altered_parts(state: SourceState, now: Mapping[str, str]) -> dict[str, str]:
    """Return the publication's parts in an offset that are now missing or changed, with their marks."""
    # An old version of fencepost did not store the oid of a schema.
    marks = {*now.values(), *(f"{mark.partition('.')[0]}." for part, mark in now.items() if part.endswith(_ALL_TABLES))}
    altered = {part: mark for part, mark in (state.publication or {}).items() if mark not in marks}
    if "" in altered and _same_settings(altered[""], now.get("", "")):
        del altered[""]
    return altered


def _same_settings(before: str, now: str) -> bool:
    """Return whether two marks of a publication show the same settings, without a change in between.

    Each change of the settings writes a new row in the catalog, but so does a change of the owner. A mark from an old
    version of fencepost contains neither the row's transaction nor the owner.
    """
    former, present = before.split("."), now.split(".")
    if former[:2] != present[:2]:
        return False
    return len(former) == 2 or former[2] != present[2] or former[3] == present[3]


def dropped_parts(connection: psycopg.Connection[Any], parts: Mapping[str, str]) -> set[str]:
    """Return the parts of a publication whose table or schema was dropped and has no successor of the same name."""
    tables = {part: mark.split(".")[2] for part, mark in parts.items() if mark.count(".") == 2}
    schemas = {part: mark.split(".")[1] or None for part, mark in parts.items() if part.endswith(_ALL_TABLES)}
    rows = query(
        connection,
        "SELECT name FROM unnest(%s::text[], %s::oid[]) AS t(name, id) "
        "WHERE to_regclass(name) IS NULL AND NOT EXISTS (SELECT FROM pg_class WHERE oid = id) "
        "UNION ALL SELECT name || %s FROM unnest(%s::text[], %s::oid[]) AS s(name, id) "
        "WHERE id IS NOT NULL AND to_regnamespace(name) IS NULL AND NOT EXISTS (SELECT FROM pg_namespace WHERE oid = id)",
        [
            list(tables), list(tables.values()),
            _ALL_TABLES, [part.removesuffix(_ALL_TABLES) for part in schemas], list(schemas.values()),
        ],
    )  # fmt: skip
    return {part for (part,) in rows}


def publication_parts(connection: psycopg.Connection[Any], publication: str) -> dict[str, str] | None:
    """Return the parts of a publication with marks that show when it was altered, None if it does not exist.

    One part is the publication itself, under an empty name; its mark has the owner and the transaction that wrote its
    row. The other parts are the tables and schemas that it lists. The mark of a table or schema has the oid of its row
    in the publication's catalog, for tables also a digest of this row, and the oid of the table or schema itself. A
    part that was removed and added again has another row.
    """
    rows = query(
        connection,
        "SELECT oid, concat_ws('.', concat(puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot), "
        "pubowner, xmin) FROM pg_publication WHERE pubname = %s",
        [publication],
    )
    if not rows:
        return None
    ((oid, settings),) = rows
    parts = {"": f"{oid}.{settings}"}
    tables = query(
        connection,
        "SELECT prrelid::regclass::text, concat_ws('.', r.oid, left(md5(r::text), 8), prrelid) FROM pg_publication_rel r "
        "WHERE prpubid = %s ORDER BY r.oid",
        [oid],
    )
    schemas: list[tuple[Any, ...]] = []
    if connection.info.server_version >= _WITH_COLUMN_LISTS:
        schemas = query(
            connection,
            "SELECT pnnspid::regnamespace::text || %s, concat_ws('.', n.oid, pnnspid) FROM pg_publication_namespace n "
            "WHERE pnpubid = %s",
            [_ALL_TABLES, oid],
        )
    return parts | dict([*tables, *schemas])


def unpublished_operations(connection: psycopg.Connection[Any], publication: str) -> list[str]:
    """Return the kinds of changes that a publication does not contain, by their names in its parameter `publish`."""
    rows = query(
        connection,
        "SELECT operation FROM pg_publication, LATERAL (VALUES ('insert', pubinsert), ('update', pubupdate), "
        "('delete', pubdelete), ('truncate', pubtruncate)) o(operation, published) WHERE pubname = %s AND NOT published",
        [publication],
    )
    return [operation for (operation,) in rows]


def published_tables(connection: psycopg.Connection[Any], publication: str) -> list[PublishedTable]:
    """Return the tables of a publication, ordered by name."""
    lists = connection.info.server_version >= _WITH_COLUMN_LISTS
    columns = "t.attnames::text[], t.rowfilter" if lists else "NULL::text[], NULL::text"
    # Generated columns may be published, too; then they are among attnames.
    sent = "true" if connection.info.server_version >= _WITH_GENERATED_COLUMNS else "attgenerated = ''"
    rows = query(
        connection,
        f"SELECT c.oid, t.schemaname, t.tablename, {columns}, c.relkind = 'p', "  # noqa: S608 - texts of this function
        "pg_relation_size(c.oid) / current_setting('block_size')::int, "
        "(SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 "
        f"AND NOT attisdropped AND {sent}) "
        "FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname "
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = %s ORDER BY 2, 3",
        [publication],
    )
    return [
        PublishedTable(
            oid, schema, table, [c for c in own or () if listed is None or c in listed], condition, pages, partitioned
        )
        for oid, schema, table, listed, condition, partitioned, pages, own in rows
    ]


def tables_to_publish(connection: psycopg.Connection[Any], publication: str) -> list[PublishedTable]:
    """Return a publication's tables, and then all other tables, as if they were published with all their columns."""
    published = published_tables(connection, publication)
    generated = "true" if connection.info.server_version >= _WITH_GENERATED_COLUMNS else "attgenerated = ''"
    rows = query(
        connection,
        "SELECT c.oid, n.nspname, c.relname, (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute "  # noqa: S608 - texts of this function
        f"WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND {generated}) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
        "AND n.nspname NOT LIKE 'pg\\_%%' AND c.oid <> ALL(%s) ORDER BY 2, 3",
        [[table.oid for table in published]],
    )
    others = [PublishedTable(oid, schema, table, own or (), None, 0) for oid, schema, table, own in rows]
    return [*published, *others]


def member_tables(connection: psycopg.Connection[Any], publication: str) -> list[str]:
    """Return the tables of a publication as SCHEMA.TABLE, by name, with the partitions of its partitioned tables.

    Unlike `published_tables`, this does not wait for table locks.
    """
    schemas = connection.info.server_version >= _WITH_COLUMN_LISTS
    in_schema = "EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"
    rows = query(
        connection,
        "SELECT n.nspname || '.' || c.relname FROM pg_publication p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "  # noqa: S608 - one of two texts
        "WHERE p.pubname = %s AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' "
        "AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND (p.puballtables OR EXISTS (SELECT FROM "
        "pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = c.oid OR r.prrelid IN "
        f"(SELECT relid FROM pg_partition_ancestors(c.oid)))) OR {in_schema if schemas else 'false'}) ORDER BY 1",
        [publication],
    )
    return [name for (name,) in rows]


def create_publication(
    connection: psycopg.Connection[Any], name: str, tables: Sequence[tuple[str, str]] | None
) -> None:
    """Create a publication of some tables; None stands for all tables."""
    query(connection, f"CREATE PUBLICATION {quoted(name)} FOR {_listed(tables)}")


def add_tables(connection: psycopg.Connection[Any], name: str, tables: Sequence[tuple[str, str]]) -> None:
    """Add tables to a publication."""
    query(connection, f"ALTER PUBLICATION {quoted(name)} ADD {_listed(tables)}")


def user_tables(connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    """Return the schema and name of each permanent table that does not belong to the system."""
    return query(
        connection,
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
        "AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2",
    )


def _listed(tables: Sequence[tuple[str, str]] | None) -> str:
    if tables is None:
        return "ALL TABLES"
    return "TABLE " + ", ".join(f"{quoted(schema)}.{quoted(table)}" for schema, table in tables)
