"""The streaming of a task: connects, reads blocks, and decides where Kafka's transactions may end."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fencepost.api.errors import RetriableError
from fencepost.api.record import SourceBatch
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.database import LogStatus, SourceDatabase
from fencepost.connectors.postgres.changes.events.batches import TableBatches, batches_of, ready
from fencepost.connectors.postgres.changes.events.envelope import TableEvents
from fencepost.connectors.postgres.changes.events.message_events import message_batch
from fencepost.connectors.postgres.changes.events.transactions import tell
from fencepost.connectors.postgres.changes.heartbeats import Heartbeats
from fencepost.connectors.postgres.changes.known_types import SeenTypes
from fencepost.connectors.postgres.changes.position import PartialTransaction, Position, SourceState
from fencepost.connectors.postgres.changes.snapshot.incremental_snapshots import IncrementalSnapshots
from fencepost.connectors.postgres.changes.stream.decoder import Changes, Decoder
from fencepost.connectors.postgres.changes.stream.relation import Relation
from fencepost.connectors.postgres.changes.stream.stream import ReplicationStream

_WAIT_S: Final = 0.5
_OPEN_WAIT_S: Final = 0.02
# While an incremental snapshot has more to read.
_READING_WAIT_S: Final = 0.05
# With a backlog, so much is collected before a commit: each costs some milliseconds.
_COMMIT_AFTER_S: Final = 0.5
# While chunks of tables are read, the same: the next one waits until the changes before it are committed.
_COMMIT_CHUNKS_AFTER_S: Final = 0.1
# How old the position of a quiet slot may be: the server keeps its log from there on.
_ADVANCE_S: Final = 5.0
_STATUS_S: Final = 5.0
# The slot is invalidated once no such log is left: less than this, and than half of the limit, is said.
_LITTLE_WAL_BYTES: Final = 1 << 30

_log: Final = logging.getLogger(__name__)


def now_ms() -> int:
    """Return the time that events have, in milliseconds since 1970."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Piece:
    """What a read gives: batches to write, and whether the Kafka transaction is to be committed after them."""

    batches: tuple[SourceBatch, ...] = ()
    commit: bool = False


class Streaming:
    """The stream from a state on. For one thread."""

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
        """The position after all batches that were returned. A decoder that failed may be further."""
        self._offered = position
        """The position of the last offset that was returned."""
        self._committed = position
        self._offered_state = state
        """What that offset said beside its position."""
        self._snapshots = IncrementalSnapshots(config, database)
        self._seen_types: SeenTypes | None = None
        """The types that the catalog had, until the stream is past them."""
        self._new_table = False
        """Whether the stream described a table since the publication was last looked at."""
        self._open_since: float | None = None
        """When the first batch was returned since the last offset."""
        self._advanced = time.monotonic()
        # Between two heartbeats a read returns nothing, and the worker can ask for the end.
        self._wait_s = min(_WAIT_S, config.heartbeat_s / 2) if config.heartbeat_s else _WAIT_S
        self._heartbeats = Heartbeats(config, database)
        self._status: LogStatus | None = None
        self._next_status = 0.0
        self._end: int | None = None
        """Where the log ended when the stream first began: a run to the end reads up to there, however it grows."""
        self._end_shown = False

    def read(self) -> Piece:
        """Wait a moment for changes and return them. Raises RetriableError, after which it may be called again."""
        try:
            return self._read()
        except RetriableError:
            self.close()
            if self._open_since is not None and not self._position.changes:
                # The returned batch is whole, and is committed before the failure shows.
                return self._piece([], commit=True)
            raise

    def committed(self) -> None:
        """Let the server forget what is committed: all that was returned."""
        self._committed = self._offered
        if self._stream is not None:
            try:
                self._stream.confirm(self._committed)
            except RetriableError as error:
                _log.info("The slot %s could not be advanced; retrying later: %s", self._config.slot, error)

    def lag(self) -> float | None:
        """Return how many bytes of the server's log are behind the position, None if that is not known yet."""
        return None if self._status is None else max(0, self._status.end - self._position.lsn)

    def at_end(self) -> bool:
        """Return whether everything is returned that was in the log when the stream first began.

        If it is not, the server is asked how far it is.
        """
        if self._has_ended():
            return True
        if self._stream is not None:
            try:
                self._stream.ping()
            except RetriableError as error:
                # The next read connects again, and tells of it if that fails.
                _log.info("The end of the log of PostgreSQL is asked for later: %s", error)
                self.close()
        return False

    def _has_ended(self) -> bool:
        reading = self._state.incremental.active or self._has_news
        whole = self._open_since is None and not self._position.changes
        return self._end is not None and self._position.lsn >= self._end and whole and not reading

    @property
    def _has_news(self) -> bool:
        """Whether the state has something to commit also where the position stays the same."""
        state, offered = self._state, self._offered_state
        return state.incremental != offered.incremental or state.types != offered.types

    def close(self) -> None:
        """End the stream. A later read continues at the position."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._snapshots.reset()
        self._database.close()

    def _read(self) -> Piece:
        if self._stream is None:
            self._connect()
        assert self._stream is not None  # noqa: S101 - just connected
        self._look_at_log()
        self._heartbeats.act()
        shown, self._end_shown = self._end_shown, self._has_ended()
        if self._end_shown and not shown:
            # A worker asks for the end after a read without changes, and there may never be another.
            return Piece()
        progress = self._snapshots.read(self._state.incremental, self._position)
        self._state = replace(self._state, incremental=progress)
        if self._snapshots.waiting:
            # Without changes, only the answer tells how far the stream is.
            self._stream.ping()
        decoded = self._stream.read(self._wait())
        if self._new_table:
            # With the first change of a table, the offset says that the table is published.
            self._look_at_catalog()
            self._database.check_topics()
            self._new_table = False
        batches, transaction = self._events(decoded.changes)
        if messages := [message for message in decoded.messages if self._config.captures_message(message.prefix)]:
            batches.append(message_batch(self._config.envelope, messages, now_ms()))
        position = self._decoder.position
        progress, rows = self._snapshots.follow(self._state, decoded.changes, position, now_ms())
        self._position = position
        self._state = replace(self._state, transaction=transaction, incremental=progress)
        self._forget_types()
        if rows is not None:
            batches.append(rows)
        if batches and self._open_since is None:
            self._open_since = time.monotonic()
        chunk_follows = self._snapshots.waiting or (rows is not None and progress.active)
        after_s = _COMMIT_AFTER_S if self._stream.backlog else _COMMIT_CHUNKS_AFTER_S if chunk_follows else 0.0
        return self._piece(batches, commit=self._may_commit(after_s if batches else 0.0))

    def _events(self, changes: Sequence[Changes]) -> tuple[list[SourceBatch], PartialTransaction | None]:
        """Return the batches of changes, and the transaction that they leave open if events of transactions are wanted."""
        drafts = self._tables.drafts(changes)
        topic = self._config.transaction_topic
        if topic is None:
            return batches_of(drafts, now_ms(), [None] * len(drafts)), None
        position = self._decoder.position
        told = tell(drafts, self._state.transaction, position.commit_lsn if position.changes else None)
        batches, boundaries = batches_of(drafts, now_ms(), told.blocks), told.batch(topic)
        return [*batches, boundaries] if boundaries is not None else batches, told.after

    def _wait(self) -> float:
        """Return how many seconds to wait for changes."""
        if self._open_since is not None:
            return _OPEN_WAIT_S
        return _READING_WAIT_S if self._state.incremental.active else self._wait_s

    def _connect(self) -> None:
        self._state = self._database.checked_state(self._state.at(self._offered))
        # A new session describes all relations again.
        self._decoder = Decoder(self._position, self._tables.learn)
        self._stream = self._database.stream(self._decoder, self._committed)
        if self._end is None:
            self._end = self._database.log_status().end

    def _may_commit(self, after_s: float) -> bool:
        """Return whether the Kafka transaction may be committed; one that is younger than `after_s` may collect more."""
        now, position = time.monotonic(), self._position
        if self._open_since is None:
            # Nothing to write: only the position of a quiet slot is committed, from time to time.
            moved = not position.changes and position.lsn > self._offered.lsn
            offered = self._offered_state
            altered = self._state.publication != offered.publication
            if not position.changes and (self._has_news or self._heartbeats.due):
                return True
            return moved and (altered or now >= self._advanced + _ADVANCE_S)
        if position.changes:
            split_s = self._config.split_after_s
            return split_s is not None and now >= self._open_since + split_s
        return now >= self._open_since + after_s

    def _piece(self, batches: list[SourceBatch], *, commit: bool) -> Piece:
        if not commit:
            return Piece(tuple(batches))
        if self._heartbeats.due:
            batches = [*batches, self._heartbeats.batch(now_ms())]
        offsets = [(self._partition, self._state.at(self._position).offset())]
        last = replace(batches[-1], offsets=offsets) if batches else ready("topic STRING, value STRING", [], offsets)
        self._offered, self._offered_state = self._position, self._state
        self._open_since = None
        self._advanced = time.monotonic()
        return Piece((*batches[:-1], last), commit=True)

    def _table_events(self, relation: Relation) -> TableEvents | None:
        self._new_table = True
        return self._database.table_events(relation, self._state.types)

    def _look_at_catalog(self) -> None:
        """Take note of what is published, and of the types of its columns."""
        parts = self._database.published_parts(self._state)
        self._seen_types = seen = self._database.user_types()
        # Changes that are still to be read may have types that are dropped.
        self._state = replace(self._state, publication=parts, types={**seen.types, **self._state.types})

    def _forget_types(self) -> None:
        """Forget the dropped types, once the stream is past all changes that have them."""
        seen = self._seen_types
        if seen is not None and self._position.lsn >= seen.lsn:
            self._state, self._seen_types = replace(self._state, types=seen.types), None

    def _look_at_log(self) -> None:
        if time.monotonic() < self._next_status:
            return
        self._next_status = time.monotonic() + _STATUS_S
        self._look_at_catalog()
        self._database.tell_unpublished()
        self._status = status = self._database.log_status()
        little = min(_LITTLE_WAL_BYTES, status.kept_wal_size // 2)
        if status.safe_wal_size is not None and status.safe_wal_size < little:
            _log.warning(
                "The slot %s (%s) will be invalidated when the server has written %d more bytes of its log, and changes "
                "will be lost: raise max_slot_wal_keep_size, or find out what keeps the connector behind",
                self._config.slot, status.wal_status, max(0, status.safe_wal_size),
            )  # fmt: skip
