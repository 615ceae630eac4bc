"""The database that a task captures: all requests to it, except for the stream."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes import held_tables
from fencepost.connectors.postgres.changes.catalog import captured_columns, table_events
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import PostgresError, driver_error, query, translated
from fencepost.connectors.postgres.changes.definitions import Autocreate
from fencepost.connectors.postgres.changes.events.envelope import TableEvents
from fencepost.connectors.postgres.changes.known_types import NO_TYPES, KnownTypes, SeenTypes
from fencepost.connectors.postgres.changes.left_out import left_out, refusal
from fencepost.connectors.postgres.changes.position import Position, SourceState
from fencepost.connectors.postgres.changes.slot import slot as slots
from fencepost.connectors.postgres.changes.slot.slot_wait import SlotWait
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.relation import Relation
from fencepost.connectors.postgres.changes.stream.stream import ReplicationStream
from fencepost.connectors.postgres.changes.type_catalog import user_types
from fencepost.connectors.table_topics import same_name, shared_topic

if TYPE_CHECKING:
    import psycopg

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The end of the server's log as an LSN, and how much log the slot may still keep.

    `wal_status` and `safe_wal_size` are the slot's columns in pg_replication_slots. `safe_wal_size` is the number of
    bytes until the slot is invalidated, None for no limit. `kept_wal_size` is max_slot_wal_keep_size in bytes; it is
    negative if there is no limit.
    """

    end: int
    wal_status: str | None
    safe_wal_size: int | None
    kept_wal_size: int


class SourceDatabase:
    """A connection for statements, which is opened when needed. Only one thread may use it.

    All methods raise RetriableError for temporary errors, after which they may be called again, and PostgresError.
    """

    def __init__(self, config: PostgresConfig) -> None:
        self._config = config
        self._open: psycopg.Connection[Any] | None = None
        self._seen: set[str] = set()
        self._left_out: set[str] = set()
        self._missing: set[str] = set()
        self._empty: set[str] = set()

    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection."""
        if self._open is None or self._open.closed:
            connection = self._config.connection.connect()
            try:
                slots.check_primary(connection, self._config.connection)
                held_tables.limit_lock_waits(connection)
            except BaseException:
                connection.close()
                raise
            self._open = connection
        return self._open

    def close(self) -> None:
        """Close the connection; the next call of a method opens another one."""
        if self._open is not None:
            with suppress(Exception):
                self._open.close()
        self._open = None

    def server(self) -> slots.Server:
        """Return the identity of the server."""
        with closing(_Replication(self._config)) as replication:
            return slots.identify(replication.connection)

    def slot(self) -> slots.Slot | None:
        """Return the connector's slot, None if it does not exist."""
        return slots.find_slot(self.connection(), self._config.slot)

    def drop_slot(self, found: slots.Slot) -> None:
        """Drop the connector's slot, if it is still as it was last seen.

        Raises RetriableError if the slot was replaced meanwhile, or is in use.
        """
        slots.drop_slot(self.connection(), found)

    def prepare_publication(self) -> dict[str, str]:
        """Create the publication, or add tables to it, as the configuration says; return the publication's parts."""
        config, connection = self._config, self.connection()
        found = slots.publication_parts(connection, config.publication)
        try:
            if found is None:
                self._create_publication(connection)
            elif config.autocreate is Autocreate.FILTERED:
                self._add_missing_tables(connection)
        except PostgresError as error:
            if slots.publication_parts(connection, config.publication) == found:
                raise
            raise RetriableError(
                f"The publication {config.publication} was changed by somebody else, for example another connector, at the same "
                "time: it will be checked again"
            ) from error
        if left_out := slots.unpublished_operations(connection, config.publication):
            _log.warning(
                "The publication %s leaves out %s: such changes do not get to Kafka. If they should, run ALTER PUBLICATION "
                "with SET (publish = 'insert, update, delete, truncate')",
                config.publication,
                ", ".join(left_out),
            )
        self._check_signals(connection)
        self._check_uncapturable(connection)
        self.check_topics()
        return slots.publication_parts(connection, config.publication) or {}

    def _add_missing_tables(self, connection: psycopg.Connection[Any]) -> None:
        name = self._config.publication
        published = set(slots.member_tables(connection, name))
        wanted = self._captured_tables(connection)
        if missing := [table for table in wanted if ".".join(table) not in published]:
            _log.info("Adding %d tables to the publication %s", len(missing), name)
            slots.add_tables(connection, name, missing)

    def _check_signals(self, connection: psycopg.Connection[Any]) -> None:
        config, table = self._config, self._config.signal_table
        if table is not None and table not in slots.member_tables(connection, config.publication):
            raise PostgresError(
                f"The publication {config.publication} lacks the table {table} of signal.data.collection: "
                "run ALTER PUBLICATION ... ADD TABLE, or correct the property"
            )

    def _check_uncapturable(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse tables that are listed by name but cannot be captured; warn once if a pattern matches such tables."""
        found = left_out(connection, self._config)
        if (refused := refusal(found)) is not None:
            raise PostgresError(refused)
        for relation in found:
            if relation.name not in self._left_out:
                _log.warning("The connector captures no changes of %s", relation)
        self._left_out = {relation.name for relation in found}

    def published(self) -> list[slots.PublishedTable]:
        """Return the captured tables of the publication."""
        tables = slots.published_tables(self.connection(), self._config.publication)
        return [table for table in tables if self._config.captures(table.name)]

    def member_tables(self) -> list[str]:
        """Return the names of the publication's captured tables, without waiting for table locks."""
        names = slots.member_tables(self.connection(), self._config.publication)
        return [name for name in names if self._config.captures(name)]

    def check_topics(self) -> None:
        """Raise PostgresError if several captured tables have the same name, or would write to the same topic."""
        names = self.member_tables()
        self._check_names(names)
        shared = shared_topic((name, self._config.topic(name)) for name in names)
        if shared is not None:
            raise PostgresError(
                f"{shared}, since characters that it cannot have become _: leave one of them out with table.exclude.list, "
                "and capture it by a connector with another topic.prefix; or rename it"
            )

    @staticmethod
    def _check_names(names: Sequence[str]) -> None:
        if (same := same_name(names)) is not None:
            raise PostgresError(f"{same}: rename one of them, or leave both out with table.exclude.list")

    def hold(self, snapshot: SlotSnapshot, parts: Mapping[str, str]) -> Sequence[slots.PublishedTable]:
        """Keep the captured tables unchanged until `snapshot` is closed; return the tables to read.

        `parts` are the publication's parts from before the slot was created. Raises RetriableError if the publication
        or its tables have changed since then.
        """
        before = self.published()
        try:
            held = snapshot.hold(before)
        except PostgresError as error:
            self._check_unchanged(before, parts, error)
            raise
        self._check_unchanged(before, parts, None)
        return held

    def _check_unchanged(
        self, before: Sequence[slots.PublishedTable], parts: Mapping[str, str], cause: Exception | None
    ) -> None:
        now = slots.publication_parts(self.connection(), self._config.publication)
        if now != parts or _definitions(before) != _definitions(self.published()):
            raise RetriableError(
                f"The publication {self._config.publication} or one of its tables was altered while the first snapshot began: "
                "the task begins with another one"
            ) from cause

    def table_events(self, relation: Relation, remembered: KnownTypes = NO_TYPES) -> TableEvents | None:
        """Return the event maker of a table, None if the table has no events.

        `remembered` are types that may have been dropped meanwhile.
        """
        config = self._config
        if (
            config.captures(relation.name)
            and relation.name not in self._empty
            and not captured_columns(relation, config)
        ):
            self._empty.add(relation.name)
            _log.warning(
                "The table %s has no columns to capture, so changes of its rows cause no events: add a column, correct "
                "column.exclude.list, or leave the table out with table.exclude.list",
                relation.name,
            )
        return table_events(self.connection(), relation, config, remembered)

    def user_types(self) -> SeenTypes:
        """Return the user-defined types of the columns of captured tables."""
        return user_types(self.connection(), self._config.captures)

    def checked_state(self, state: SourceState) -> SourceState:
        """Check that the server can continue at an offset; return the offset's state, updated to the present.

        Raises PositionLostError if the server cannot continue there.
        """
        config = self._config
        found = slots.check_slot(self.slot(), config.slot, config.connection.database)
        with closing(_Replication(config)) as replication:
            server = slots.identify(replication.connection)
            same = server.timeline == state.timeline
            history = None if same else slots.timeline_history(replication.connection, server.timeline)
        slots.check_state(state, found, server, history)
        before = self.published_parts(state)
        after = self.prepare_publication()
        if added := sorted(after.keys() - before.keys()):
            _log.warning(
                "The publication %s has %s from now on. Rows that %s had before do not get to Kafka by themselves: a signal "
                "execute-snapshot reads them",
                config.publication,
                ", ".join(added),
                ", ".join(added),
            )
        return replace(state, timeline=server.timeline, publication=after)

    def warn_of_unpublished(self) -> None:
        """Warn about new captured tables that are not in the publication: their changes are not sent."""
        config, connection = self._config, self.connection()
        self._check_uncapturable(connection)
        if config.autocreate is not Autocreate.FILTERED and not config.included:
            # Without an include list, only the publication defines the captured tables, so it lacks none of them.
            return
        present = {".".join(name) for name in slots.user_tables(connection)}
        created = {name for name in present - self._seen if config.captures(name)}
        self._warn_of_missing(present)
        self._seen = present
        # The publication's tables are requested only when new tables exist: for thousands of tables the request takes
        # long.
        unpublished = created and created - set(slots.member_tables(connection, config.publication))
        if not unpublished:
            return
        remedy = (
            "Restart the task, which adds them"
            if config.autocreate is Autocreate.FILTERED
            else "Add them with ALTER PUBLICATION ... ADD TABLE, or correct table.include.list"
        )
        _log.warning(
            "The publication %s lacks %s, which the connector captures: their changes do not get to Kafka. %s. A signal "
            "execute-snapshot reads the rows that they have by then",
            config.publication,
            ", ".join(sorted(unpublished)),
            remedy,
        )

    def _warn_of_missing(self, present: Collection[str]) -> None:
        """Warn once about entries of the include list that match no table: they may be misspelled."""
        names = [*present, *self._left_out, *self.member_tables()]
        missing = {entry.pattern for entry in self._config.included if not any(entry.fullmatch(name) for name in names)}
        if missing - self._missing:
            _log.warning(
                "No table is matched by %s of table.include.list: correct the property, unless the table is created later",
                ", ".join(sorted(missing)),
            )
        self._missing = missing

    def published_parts(self, state: SourceState) -> dict[str, str]:
        """Return the parts of the publication.

        Raises PositionLostError if the publication lacks a part that it had when the offset was written.
        """
        name, connection = self._config.publication, self.connection()
        parts = slots.publication_parts(connection, name)
        if parts is None:
            raise PostgresError(f"The publication {name} does not exist: create it, or correct publication.name")
        if altered := slots.altered_parts(state, parts):
            slots.check_publication(state, name, parts, slots.dropped_parts(connection, altered))
        return parts

    def stream(self, decoder: Decoder, committed: Position) -> ReplicationStream:
        """Start streaming from the decoder's position.

        Report to the server that all changes up to `committed` are in Kafka.
        """
        config = self._config
        _log.info("Reading the slot %s from %s", config.slot, decoder.position)
        return ReplicationStream(config.connection, config.slot, config.publication, decoder, committed)

    def act(self, statement: str, timeout_s: float) -> None:
        """Run a user's statement in a transaction. Its search path is the user's own schema, and then public."""
        connection = self.connection()
        try:
            with connection.transaction():
                query(connection, "SELECT set_config('search_path', '\"$user\", public', true)")
                query(connection, "SELECT set_config('row_security', 'on', true)")
                query(connection, "SELECT set_config('statement_timeout', %s, true)", [str(int(timeout_s * 1000))])
                # The text may contain several statements, which cannot be prepared.
                connection.execute(statement.encode(), prepare=False)
        except driver_error() as error:
            raise translated(error, "The statement could not be run") from error

    def log_status(self) -> LogStatus:
        """Return the end of the server's log, and how much log the slot may still keep."""
        ((end, status, safe, kept),) = query(
            self.connection(),
            "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn, s.wal_status, s.safe_wal_size, o.setting::bigint << 20 "
            "FROM pg_settings o LEFT JOIN pg_replication_slots s ON slot_name = %s "
            "WHERE o.name = 'max_slot_wal_keep_size'",
            [self._config.slot],
        )
        return LogStatus(int(end), status, safe, kept)

    def _create_publication(self, connection: psycopg.Connection[Any]) -> None:
        config = self._config
        match config.autocreate:
            case Autocreate.DISABLED:
                raise PostgresError(
                    f"The publication {config.publication} does not exist, and publication.autocreate.mode is disabled: "
                    "create it, or correct publication.name"
                )
            case Autocreate.ALL_TABLES:
                slots.create_publication(connection, config.publication, None)
            case Autocreate.FILTERED:
                slots.create_publication(connection, config.publication, self._captured_tables(connection))

    def _captured_tables(self, connection: psycopg.Connection[Any]) -> Sequence[tuple[str, str]]:
        config = self._config
        names = {name: ".".join(name) for name in slots.user_tables(connection)}
        tables = [name for name, full in names.items() if config.captures(full) or full == config.signal_table]
        if not any(config.captures(names[name]) for name in tables):
            raise PostgresError(
                "The database has no table that table.include.list and table.exclude.list capture: correct them"
            )
        self._check_names([names[name] for name in tables])
        return tables


class SlotSnapshot:
    """A new slot, and a view of the database at the slot's position, until this object is closed."""

    def __init__(self, config: PostgresConfig, stopping: Callable[[], bool]) -> None:
        """Create the slot.

        Raises PostgresError, and RetriableError for temporary errors and when `stopping` returns True.
        """
        self._config = config
        self._holder: psycopg.Connection[Any] | None = None
        self._replication = _Replication(config)
        try:
            self.lsn, self.name = slots.create_slot(
                self._replication.connection,
                config.slot,
                SlotWait(config.connection, config.slot, stopping),
                failover=config.slot_failover,
            )
        except BaseException:
            self.close()
            raise

    def hold(self, tables: Sequence[slots.PublishedTable]) -> Sequence[slots.PublishedTable]:
        """Keep tables unchanged until this object is closed. Return the tables that existed at the slot's position."""
        self._holder = self._config.connection.connect()
        return held_tables.hold(self._holder, self.name, tables)

    def session(self) -> held_tables.SnapshotSession:
        """Return a session that reads the snapshot. Sessions can also be used on executors."""
        return held_tables.SnapshotSession(self._config.connection, self.name, self._holder)

    def close(self) -> None:
        """Release the snapshot and the tables; the slot stays."""
        self._replication.close()
        if self._holder is not None:
            self._holder.close()


def _definitions(tables: Sequence[slots.PublishedTable]) -> list[slots.PublishedTable]:
    return [replace(table, pages=0) for table in tables]


class _Replication:
    """A connection for replication commands."""

    def __init__(self, config: PostgresConfig) -> None:
        self.connection = config.connection.connect_for_replication()

    def close(self) -> None:
        self.connection.close()
