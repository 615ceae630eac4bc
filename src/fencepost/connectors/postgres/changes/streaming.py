"""The streaming phase of a task: connects, and makes batches of changes, messages, snapshot chunks and heartbeats.

A read takes these steps, one after the other:

    connect -> check the server -> heartbeat -> read a chunk of a snapshot -> read changes -> note new tables
            -> batches of changes -> batch of a chunk that the stream has passed -> commit, if `CommitPoints` allows it
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fencepost.api.errors import RetriableError
from fencepost.api.record import SourceBatch
from fencepost.connectors.postgres.changes.commit_points import CommitPoints
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.database import LogStatus, SourceDatabase
from fencepost.connectors.postgres.changes.events.batches import TableBatches, batches_of, ready
from fencepost.connectors.postgres.changes.events.envelope import TableEvents
from fencepost.connectors.postgres.changes.events.message_events import message_batch
from fencepost.connectors.postgres.changes.events.transactions import transaction_metadata
from fencepost.connectors.postgres.changes.heartbeats import Heartbeats
from fencepost.connectors.postgres.changes.position import PartialTransaction, Position, SourceState
from fencepost.connectors.postgres.changes.publication import Publication
from fencepost.connectors.postgres.changes.snapshot.incremental_snapshots import IncrementalSnapshots
from fencepost.connectors.postgres.changes.stream.decoder import Changes, Decoded, Decoder
from fencepost.connectors.postgres.changes.stream.relation import Relation
from fencepost.connectors.postgres.changes.stream.stream import ReplicationStream

_WAIT_S: Final = 0.5
_OPEN_WAIT_S: Final = 0.02
# The wait while an incremental snapshot has more to read.
_READING_WAIT_S: Final = 0.05
# With a backlog, changes are collected for this time before a commit, because each commit costs some milliseconds.
_COMMIT_AFTER_S: Final = 0.5
# While chunks of tables are read, changes are collected for this shorter time, because the next chunk is read only
# after the previous changes are committed.
_COMMIT_CHUNKS_AFTER_S: Final = 0.1
_CHECK_INTERVAL_S: Final = 5.0
# The server invalidates the slot once the slot keeps more of the log than the limit allows. A warning is logged when
# less than this number of bytes, and less than half of the limit, is left until then.
_LITTLE_WAL_BYTES: Final = 1 << 30

_log: Final = logging.getLogger(__name__)


def now_ms() -> int:
    """Return the current time in milliseconds since 1970, for `ts_ms` of events."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Piece:
    """The result of a read: batches to write, and whether the Kafka transaction is to be committed after them."""

    batches: tuple[SourceBatch, ...] = ()
    commit: bool = False


class Streaming:
    """The stream, starting from a state. Only one thread may use it."""

    def __init__(
        self, config: PostgresConfig, database: SourceDatabase, state: SourceState, position: Position
    ) -> None:
        self._config = config
        self._database = database
        self._state = state
        self._partition = {"server": config.prefix}
        self._tables = TableBatches(self._table_events)
        self._stream: ReplicationStream | None = None
        self._decoder = Decoder(position, self._tables.learn)
        self._position = position
        """The position after all batches that were returned. After a failure, the decoder's position may be further."""
        self._committed = position
        self._commits = CommitPoints(state, position, config.split_after_s)
        self._snapshots = IncrementalSnapshots(config, database)
        self._publication = Publication(database)
        # A read waits for at most half of the heartbeat interval. So without changes, a read between two heartbeats
        # returns nothing, and the worker calls `at_end`.
        self._wait_s = min(_WAIT_S, config.heartbeat_s / 2) if config.heartbeat_s else _WAIT_S
        self._heartbeats = Heartbeats(config, database)
        self._status: LogStatus | None = None
        self._next_check = 0.0
        self._end: int | None = None
        """The end of the log when the stream first started.

        A run to the end reads up to this position, even if the log grows.
        """
        self._end_shown = False

    def read(self) -> Piece:
        """Wait a moment for changes, and return them. Raises RetriableError; the method may then be called again."""
        try:
            return self._read()
        except RetriableError:
            self.close()
            if self._commits.open and not self._position.changes:
                # The returned batches are complete, so they are committed. The next read reports the failure.
                return self._commit([])
            raise

    def committed(self) -> None:
        """Report to the server that all returned changes are committed, so that the server may discard them."""
        self._committed = self._commits.offered
        if self._stream is not None:
            try:
                self._stream.confirm(self._committed)
            except RetriableError as error:
                _log.info("The slot %s could not be advanced; retrying later: %s", self._config.slot, error)

    def lag(self) -> float | None:
        """Return how many bytes of the server's log are after the position, None if that is not known yet."""
        return None if self._status is None else max(0, self._status.end - self._position.lsn)

    def at_end(self) -> bool:
        """Return whether all changes that were in the log when the stream first began were returned.

        If not, ask the server for its progress.
        """
        if self._has_ended():
            return True
        if self._stream is not None:
            try:
                self._stream.ping()
            except RetriableError as error:
                # The next read connects again, and reports the error if that fails.
                _log.info("PostgreSQL was not asked for the end of its log; retrying later: %s", error)
                self.close()
        return False

    def _has_ended(self) -> bool:
        reading = self._state.incremental.active or self._commits.has_changed_state(self._state)
        whole = not self._commits.open and not self._position.changes
        return self._end is not None and self._position.lsn >= self._end and whole and not reading

    def close(self) -> None:
        """End the stream. A later read continues at the position."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._snapshots.reset()
        self._database.close()

    def _read(self) -> Piece:
        stream = self._stream or self._connect()
        self._check_server()
        self._heartbeats.act()
        if self._shows_end():
            return Piece()
        self._read_chunk(stream)
        decoded = stream.read(self._wait())
        self._state = self._publication.refresh_for_new_table(self._state)
        batches, transaction = self._batches(decoded)
        rows = self._follow(decoded.changes, transaction)
        self._state = self._publication.forget_types(self._state, self._position)
        return self._piece(
            batches if rows is None else [*batches, rows], self._collect_s(stream, chunk=rows is not None)
        )

    def _shows_end(self) -> bool:
        """Return whether the end has just been reached.

        If so, the read returns nothing, because a worker calls `at_end` only after such a read, and all later reads may
        return changes.
        """
        shown, self._end_shown = self._end_shown, self._has_ended()
        return self._end_shown and not shown

    def _read_chunk(self, stream: ReplicationStream) -> None:
        progress = self._snapshots.read(self._state.incremental, self._position)
        self._state = replace(self._state, incremental=progress)
        if self._snapshots.waiting:
            # If there are no changes, only the server's answer shows how far the stream is.
            stream.ping()

    def _batches(self, decoded: Decoded) -> tuple[list[SourceBatch], PartialTransaction | None]:
        """Return the batches of changes and messages, and the transaction that they leave open, as `_events` does."""
        batches, transaction = self._events(decoded.changes)
        if messages := [message for message in decoded.messages if self._config.captures_message(message.prefix)]:
            batches.append(message_batch(self._config.envelope, messages, now_ms()))
        return batches, transaction

    def _events(self, changes: Sequence[Changes]) -> tuple[list[SourceBatch], PartialTransaction | None]:
        """Return the batches of changes, and the transaction that they leave open, None without transaction events."""
        drafts = self._tables.drafts(changes)
        topic = self._config.transaction_topic
        if topic is None:
            return batches_of(drafts, now_ms(), [None] * len(drafts)), None
        position = self._decoder.position
        metadata = transaction_metadata(
            drafts, self._state.transaction, position.commit_lsn if position.changes else None
        )
        batches, boundaries = batches_of(drafts, now_ms(), metadata.blocks), metadata.batch(topic)
        return [*batches, boundaries] if boundaries is not None else batches, metadata.after

    def _follow(self, changes: Sequence[Changes], transaction: PartialTransaction | None) -> SourceBatch | None:
        """Move the position after the changes. Return the rows of a chunk that are to be written at this position."""
        position = self._decoder.position
        progress, rows = self._snapshots.follow(self._state, changes, position, now_ms())
        self._position = position
        self._state = replace(self._state, transaction=transaction, incremental=progress)
        return rows

    def _collect_s(self, stream: ReplicationStream, *, chunk: bool) -> float:
        """Return how many seconds a Kafka transaction collects changes."""
        if stream.backlog:
            return _COMMIT_AFTER_S
        follows = self._snapshots.waiting or (chunk and self._state.incremental.active)
        return _COMMIT_CHUNKS_AFTER_S if follows else 0.0

    def _wait(self) -> float:
        """Return how many seconds to wait for changes."""
        if self._commits.open:
            return _OPEN_WAIT_S
        return _READING_WAIT_S if self._state.incremental.active else self._wait_s

    def _connect(self) -> ReplicationStream:
        self._state = self._database.checked_state(self._state.at(self._commits.offered))
        # A new session describes all relations again, so the decoder is a new one.
        self._decoder = Decoder(self._position, self._tables.learn)
        self._stream = stream = self._database.stream(self._decoder, self._committed)
        if self._end is None:
            self._end = self._database.log_status().end
        return stream

    def _piece(self, batches: list[SourceBatch], collect_s: float) -> Piece:
        """Return the batches, and end the Kafka transaction with them if it may end here."""
        if batches:
            self._commits.begin()
        after_s = collect_s if batches else 0.0
        due = self._heartbeats.due
        if self._commits.may_commit(self._state, self._position, after_s=after_s, heartbeat_due=due):
            return self._commit(batches)
        return Piece(tuple(batches))

    def _commit(self, batches: list[SourceBatch]) -> Piece:
        if self._heartbeats.due:
            batches = [*batches, self._heartbeats.batch(now_ms())]
        offsets = [(self._partition, self._state.at(self._position).offset())]
        last = replace(batches[-1], offsets=offsets) if batches else ready("topic STRING, value STRING", [], offsets)
        self._commits.offer(self._state, self._position)
        return Piece((*batches[:-1], last), commit=True)

    def _table_events(self, relation: Relation) -> TableEvents | None:
        self._publication.note_table()
        return self._database.table_events(relation, self._state.types)

    def _check_server(self) -> None:
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_INTERVAL_S
        self._state = self._publication.refresh(self._state)
        self._database.warn_of_unpublished()
        self._status = self._database.log_status()
        _warn_of_little_wal(self._config.slot, self._status)


def _warn_of_little_wal(slot: str, status: LogStatus) -> None:
    little = min(_LITTLE_WAL_BYTES, status.kept_wal_size // 2)
    if status.safe_wal_size is not None and status.safe_wal_size < little:
        _log.warning(
            "The slot %s (%s) will be invalidated when the server has written %d more bytes of its log, and changes "
            "will be lost: raise max_slot_wal_keep_size, or find out what keeps the connector behind",
            slot, status.wal_status, max(0, status.safe_wal_size),
        )  # fmt: skip
