"""The task of PostgresSource: a snapshot, then the stream of changes.

A connector has one task, one replication slot and one source partition, `{"server": topic.prefix}`. A task without an
offset goes through these phases; a task whose offset has a position starts with STREAMING.

    START ----> CLAIMED ----> SNAPSHOT ----> STREAMING
      |  commits an   | drops a slot left    | commits all rows
      |  offset       | by an attempt, see   | and the slot's
      |               | below, creates one   | position
      +---- snapshot.mode=no_data -----------> STREAMING

The offset of CLAIMED means that only the connector uses the slot. All rows of the snapshot, and the offset with the
slot's position, are in one Kafka transaction. So an interrupted attempt leaves only the slot behind. The next attempt
finds the same offset, replaces the slot and starts over. Before it drops the slot, it commits the offset again, and
then drops only the slot that it saw before the commit. So an instance that was replaced without noticing it cannot
commit, and does not touch the newer instance's slot.

While streaming, a Kafka transaction contains one or more whole transactions of the database, and the offset is the
position after them. The slot is advanced to a position only after the position is committed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from fencepost.api.record import SourceBatch
from fencepost.api.source import Config, SourceTask
from fencepost.connectors.postgres.changes.catalog import relation_of
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.changes.database import SlotSnapshot, SourceDatabase
from fencepost.connectors.postgres.changes.definitions import SnapshotMode
from fencepost.connectors.postgres.changes.events.batches import ready
from fencepost.connectors.postgres.changes.position import Position, SourceState
from fencepost.connectors.postgres.changes.slot.slot import Slot, check_slot
from fencepost.connectors.postgres.changes.snapshot.first_snapshot import PAGE_BYTES, SnapshotRangeReader, table_ranges
from fencepost.connectors.postgres.changes.streaming import Streaming

SERVER: Final = "server"
"""The name of the field in the source partition."""

_log: Final = logging.getLogger(__name__)


class Phase(Enum):
    """The phases of a task. The phase decides what the next poll does."""

    START = auto()
    CLAIMED = auto()
    SNAPSHOT = auto()
    STREAMING = auto()


class PostgresSourceTask(SourceTask):
    """Returns the rows of the tables, and then the changes of the tables."""

    def start(self, config: Config) -> None:
        """Read the configuration and the offset. The first contact with the server is in `poll`."""
        self._config = PostgresConfig.parse(config)
        self._config.check_files(self.context.allowed_paths)
        self._partition = {SERVER: self._config.prefix}
        self._database = SourceDatabase(self._config)
        self._queue: deque[SourceBatch] = deque()
        self._commit_at_end = False
        self._polling = threading.Lock()
        self._stopping = threading.Event()
        self._snapshot: SlotSnapshot | None = None
        self._slot_at_start: Slot | None = None
        """A slot that existed when the last offset of CLAIMED was returned."""
        self._abandoned_slot: Slot | None = None
        """A slot that existed before a successful commit, so an instance that has ended left it behind."""
        self._own_thread: int | None = None
        self._streaming: Streaming | None = None
        self._phase = Phase.START
        offset = self.context.offset_reader.offset(self._partition)
        if offset is not None:
            self._state = SourceState.of(offset)
            self._phase = Phase.CLAIMED
            if self._state.position is not None:
                self._stream_from(self._state.position)

    def poll(self) -> SourceBatch | None:
        """Return the next batch, None if there are no changes. The last batch of a read may commit the transaction."""
        with self._polling:
            self._own_thread = threading.get_ident()
            if not self._queue:
                self._advance()
            batch = self._queue.popleft() if self._queue else None
            if not self._queue:
                self._request_commit()
            return batch

    def commit(self) -> None:
        """Advance the slot to the last returned offset, unless batches up to this offset are still in the queue."""
        with self._polling:
            if self._queue:
                return
            self._close_snapshot()
            self._abandoned_slot = self._slot_at_start
            if self._streaming is not None:
                self._streaming.committed()

    def lag(self) -> float | None:
        """Return how many bytes of the server's log are left to read."""
        return None if self._streaming is None else self._streaming.lag()

    def at_end(self) -> bool:
        """Return whether all changes that were in the log when the stream first began were returned."""
        return self._streaming is not None and not self._queue and self._streaming.at_end()

    def stop(self) -> None:
        """Close the connections as soon as no poll is running, which takes at most a second.

        If another thread calls this method during the snapshot, the snapshot's connections stay open, because the rows
        may still be read through them. The task's own thread calls this method later, also after a failure, and closes
        these connections. The tables are then free for sessions that wait for them.
        """
        self._stopping.set()
        with self._polling:
            if self._phase is not Phase.SNAPSHOT or threading.get_ident() == self._own_thread:
                self._close_snapshot()
            if self._streaming is not None:
                self._streaming.close()
            self._database.close()

    def _request_commit(self) -> None:
        transactions = self.context.transaction_context
        if self._commit_at_end and transactions is not None:
            transactions.commit_transaction()
        self._commit_at_end = False

    def _advance(self) -> None:
        match self._phase:
            case Phase.START:
                self._claim()
            case Phase.CLAIMED:
                self._begin_snapshot()
            case Phase.SNAPSHOT:
                # All batches of the snapshot are committed, or are in the transaction that is now being committed.
                self._close_snapshot()
                assert self._state.position is not None  # noqa: S101 - of the new slot
                self._stream_from(self._state.position)
            case Phase.STREAMING:
                assert self._streaming is not None  # noqa: S101 - with this phase
                piece = self._streaming.read()
                self._queue.extend(piece.batches)
                self._commit_at_end = piece.commit

    def _claim(self) -> None:
        config, slot = self._config, self._database.slot()
        if config.snapshot_mode is SnapshotMode.NO_DATA:
            self._begin_without_data()
            return
        if slot is not None:
            raise PostgresError(
                f"There is a replication slot {config.slot} already, but the connector has no offset, so it may be somebody "
                "else's. Choose another slot.name, or drop it with pg_drop_replication_slot, or continue "
                "from it with snapshot.mode=no_data"
            )
        server = self._database.server()
        self._state = SourceState(config.slot, server.system, server.timeline, None)
        self._return_offset(self._state)
        self._phase = Phase.CLAIMED

    def _begin_without_data(self) -> None:
        config, database = self._config, self._database
        server, parts = database.server(), database.prepare_publication()
        if database.slot() is None:
            SlotSnapshot(config, self._stopping.is_set).close()
        slot = check_slot(database.slot(), config.slot, config.connection.database)
        position = Position(slot.confirmed or 0)
        types = database.user_types().types
        self._state = SourceState(config.slot, server.system, server.timeline, position, parts, types=types)
        self._return_offset(self._state)
        self._stream_from(position)

    def _begin_snapshot(self) -> None:
        config, database = self._config, self._database
        if self._state.slot != config.slot:
            raise PostgresError(
                f"slot.name was changed from {self._state.slot} to {config.slot} before the first snapshot was complete: "
                "delete the connector's offsets and the former slot, and start it again"
            )
        self._close_snapshot()
        server, parts = database.server(), database.prepare_publication()
        if (slot := database.slot()) is not None:
            if self._must_commit_before_drop(slot):
                self._slot_at_start = slot
                self._return_offset(self._state)
                return
            database.drop_slot(slot)
        self._snapshot = snapshot = SlotSnapshot(config, self._stopping.is_set)
        tables = database.hold(snapshot, parts)
        _log.info("Reading %d tables as they were at the position of the slot %s", len(tables), config.slot)
        version = database.connection().info.server_version
        types = database.user_types().types
        batches, topics = [], []
        for table in tables:
            events = database.table_events(relation_of(database.connection(), table))
            if events is not None:
                reader = SnapshotRangeReader(snapshot.session(), snapshot.lsn, table, events)
                splits, size = table_ranges(table, version), table.pages * PAGE_BYTES
                batches.append(SourceBatch(reader=reader, splits=splits, bytes=size))
                if size:
                    topics.append(events.topic)
        if batches:
            # The topics are created before the transaction: creating thousands of topics would use up much of its time.
            batches[0] = replace(batches[0], topics=topics)
        # The queue is filled only now: after a failure before this line, the next poll starts with another slot.
        self._queue.extend(batches)
        self._state = SourceState(
            config.slot, server.system, server.timeline, Position(snapshot.lsn), parts, types=types
        )
        self._return_offset(self._state)
        self._phase = Phase.SNAPSHOT

    def _must_commit_before_drop(self, slot: Slot) -> bool:
        # Only exactly-once tasks fence each other. So the commit of an at-least-once task would not show whether
        # another instance exists.
        known = self._abandoned_slot is not None and self._abandoned_slot.confirmed == slot.confirmed
        return not known and self.context.transaction_context is not None

    def _return_offset(self, state: SourceState) -> None:
        self._queue.append(ready("topic STRING, value STRING", [], [(self._partition, state.offset())]))
        self._commit_at_end = True

    def _stream_from(self, position: Position) -> None:
        self._streaming = Streaming(self._config, self._database, self._state, position)
        self._phase = Phase.STREAMING

    def _close_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        self._snapshot = None
