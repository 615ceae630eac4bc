"""Incremental snapshots: tables are read in chunks when signals request this, while the stream continues.

At any time, at most one chunk has been read but not written yet. It is written when the stream has passed the chunk's
end, between transactions of the database. Until then the stream's changes of the table are kept; see `chunks`.

The state of this module belongs to one session of the stream. If the session breaks, the table's next chunk is read
again, starting at the progress in the source offset.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from fencepost.api.errors import DataError, RetriableError
from fencepost.api.record import SourceBatch
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.changes.database import SourceDatabase
from fencepost.connectors.postgres.changes.events.batches import ready
from fencepost.connectors.postgres.changes.incremental import SnapshotProgress, TableRead
from fencepost.connectors.postgres.changes.position import Position, SourceState
from fencepost.connectors.postgres.changes.snapshot.chunk_reader import (
    NotYetError,
    TableAlteredError,
    TableRun,
    begin_table,
    greatest_key,
    read_chunk,
)
from fencepost.connectors.postgres.changes.snapshot.chunks import Chunk, KeyChanges, key_changes, settle, unseen_changes
from fencepost.connectors.postgres.changes.snapshot.signals import (
    Signal,
    SignalType,
    execute_request,
    log_message,
    signals_in,
    stop_request,
)
from fencepost.connectors.postgres.changes.stream.decoder import Changes

# If a chunk cannot be read yet, the next attempt follows after _PAUSE_S seconds, or after _PAUSE_SHARE times the
# duration of the failed attempt if that is longer. The stream waits during attempts, so they must take only a small
# part of the time.
_PAUSE_S: Final = 0.05
_PAUSE_SHARE: Final = 9
# While a chunk cannot be read, a warning is logged after this number of seconds, and then at this interval.
_LONG_S: Final = 10.0
# If a chunk could not be read this many times in a row, it is not tried again. Otherwise the stream, and a signal to
# stop, would wait forever. For example, a condition may end its own connection, or take too long.
_MAX_FAILED_READS: Final = 5

_log: Final = logging.getLogger(__name__)


class IncrementalSnapshots:
    """Reads chunks, and follows the signals and changes in the stream. Only one thread may use it."""

    def __init__(self, config: PostgresConfig, database: SourceDatabase) -> None:
        self._config = config
        self._database = database
        self._run: TableRun | None = None
        self._changes: list[KeyChanges] = []
        """The table's changes since its reading began, without the changes that the last chunk saw."""
        self._chunk: Chunk | None = None
        self._next_attempt = 0.0
        self._next_notice = 0.0
        self._failed_reads = 0
        """How many reads in a row failed with a RetriableError. The count is kept when a session of the stream ends."""

    @property
    def waiting(self) -> bool:
        """Whether a chunk is waiting until the stream has passed the chunk's end."""
        return self._chunk is not None

    def reset(self) -> None:
        """Forget rows that were read but not written.

        Call this when the stream starts, because the changes that were kept before may be incomplete.
        """
        self._run, self._chunk, self._changes = None, None, []
        self._next_attempt = 0.0
        self._next_notice = time.monotonic() + _LONG_S

    def read(self, progress: SnapshotProgress, position: Position) -> SnapshotProgress:
        """Read the next chunk, if one is due, while the stream is at `position`. Return the progress.

        Raises RetriableError. If a table cannot be read, it is given up, an error is logged, and the stream continues.
        """
        if self._run is not None and progress.tables[:1] != (self._run.read,):
            self.reset()
        if self._chunk is not None or not progress.active or time.monotonic() < self._next_attempt:
            return progress
        read, started = progress.tables[0], time.monotonic()
        # If the server cannot be reached, no read begins, so this is not counted as a failed read.
        self._database.connection()
        try:
            return self._read(progress, position)
        except NotYetError as error:
            if error.snapshot is not None:
                # The changes that the snapshot saw are dropped: later attempts see them as well, and the wait may be
                # long.
                self._changes = unseen_changes(error.snapshot, self._changes)
            self._wait(read, error, time.monotonic() - started)
        except TableAlteredError:
            _log.info("The table %s was altered: reading continues with its present columns", read.table)
            self.reset()
        except (PostgresError, DataError) as error:
            return self._give_up(progress, error)
        except RetriableError as error:
            self._failed_reads += 1
            if self._failed_reads < _MAX_FAILED_READS:
                raise
            return self._give_up(progress, error)
        return progress

    def follow(
        self, state: SourceState, changes: Sequence[Changes], position: Position, now_ms: int
    ) -> tuple[SnapshotProgress, SourceBatch | None]:
        """Process the stream's changes and signals up to `position`. Return the progress, and the rows to write there.

        Raises RetriableError.
        """
        if self._run is not None:
            self._note(self._run, changes)
        progress = state.incremental
        for signal in signals_in(changes, self._config.signal_table or ""):
            progress = self._apply(signal, replace(state, position=position, incremental=progress))
        chunk, run = self._chunk, self._run
        if chunk is None or run is None or progress.tables[:1] != (run.read,):
            return progress, None
        if position.changes or position.lsn < chunk.high:
            return progress, None
        self._chunk = None
        try:
            return self._write(run, chunk, progress, position, now_ms)
        except DataError as error:
            return self._give_up(progress, error), None

    def _read(self, progress: SnapshotProgress, position: Position) -> SnapshotProgress:
        run = self._run
        if run is None:
            self._changes = []
            self._run = run = begin_table(self._database, progress.tables[0])
        order = run.order.described()
        if progress.key != order:
            end = greatest_key(self._database, run)
            if end is None:
                return self._done(progress)
            _log.info("Reading the table %s for the signal %r", run.read.table, run.read.signal)
            progress = progress.began(order, end)
        self._chunk = chunk = read_chunk(self._database, run, progress, self._config.chunk_size, position.lsn)
        self._changes = unseen_changes(chunk.snapshot, self._changes)
        self._next_notice = time.monotonic() + _LONG_S
        self._failed_reads = 0
        return progress

    def _note(self, run: TableRun, changes: Iterable[Changes]) -> None:
        wanted = [column.name for column in run.events.columns]
        for part in changes:
            if part.relation.oid == run.table.oid:
                noted = key_changes(part, run.key, run.events.relation, wanted, run.events.settings.skipped)
                self._changes += [noted] if self._chunk is None else unseen_changes(self._chunk.snapshot, [noted])

    def _write(
        self, run: TableRun, chunk: Chunk, progress: SnapshotProgress, position: Position, now_ms: int
    ) -> tuple[SnapshotProgress, SourceBatch | None]:
        settled = settle(chunk, self._changes)
        batch = None
        if len(settled.rows):
            texts = [column.take(settled.rows) for column in chunk.columns]
            batch = ready(run.events.schema, [run.events.snapshot(texts, position.lsn, now_ms, "incremental")])
        if settled.count == len(chunk) and chunk.complete:
            return self._done(progress), batch
        if settled.count:
            progress = progress.advanced(chunk.key_at(settled.count - 1))
        return progress, batch

    def _done(self, progress: SnapshotProgress) -> SnapshotProgress:
        read = progress.tables[0]
        _log.info("The table %s was read to its end for the signal %r", read.table, read.signal)
        self.reset()
        return progress.table_done()

    def _give_up(self, progress: SnapshotProgress, error: Exception) -> SnapshotProgress:
        read = progress.tables[0]
        _log.error(
            "The table %s is not read any further for the signal %r: %s. After the cause is fixed, send another signal",
            read.table, read.signal, error,
        )  # fmt: skip
        self.reset()
        self._failed_reads = 0
        return progress.table_done()

    def _wait(self, read: TableRead, error: NotYetError, spent_s: float) -> None:
        now = time.monotonic()
        self._next_attempt = now + max(_PAUSE_S, _PAUSE_SHARE * spent_s)
        if now >= self._next_notice:
            self._next_notice = now + _LONG_S
            _log.warning("The reading of the table %s for the signal %r waits: %s", read.table, read.signal, error)

    def _apply(self, signal: Signal, state: SourceState) -> SnapshotProgress:
        """Return the progress after a signal.

        A signal for tables that do not exist is logged, and has no other effect.
        """
        progress = state.incremental
        try:
            match signal.type:
                case SignalType.EXECUTE:
                    return progress.requested(self._requested(signal))
                case SignalType.STOP:
                    stopped = progress.stopped(stop_request(signal).names)
                    # The rows that were read for the stopped request are dropped: a later request for the same table
                    # may be equal to it, and would otherwise use them.
                    self.reset()
                    _log.info("%s stops the reading of %d tables", signal, len(progress.tables) - len(stopped.tables))
                    return stopped
                case SignalType.PAUSE | SignalType.RESUME:
                    if progress.tables:
                        _log.info("%s is carried out", signal)
                        # The chunk that was read is dropped: as long as it waits, the table's changes are kept, and the
                        # pause may be long.
                        self.reset()
                        return progress.with_pause(paused=signal.type == SignalType.PAUSE)
                    _log.warning("%s has no effect: no table is being read", signal)
                case SignalType.LOG:
                    _log.info("%s", log_message(signal, state.offset()))
                case _:
                    types = ", ".join(SignalType)
                    _log.warning("%s is ignored: the types that are supported are %s", signal, types)
        except DataError as error:
            _log.warning("A signal is ignored: %s", error)
        return progress

    def _requested(self, signal: Signal) -> list[TableRead]:
        request = execute_request(signal)
        names = [name for name in self._database.member_tables() if request.names(name)]
        if names:
            _log.info("%s requests %s", signal, ", ".join(names))
        else:
            _log.warning("%s is ignored: it names no table that is captured and in the publication", signal)
        return [TableRead(name, signal.id, request.condition(name)) for name in names]
