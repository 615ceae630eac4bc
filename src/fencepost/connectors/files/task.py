"""The task of FileSource: reads its files one after the other, and deletes or moves the finished ones if configured.

A poll continues where the previous one ended: it reads a file to its current end before the next one, and after the
last file the first one. Small files share a batch. Once all files were checked, a poll checks LOOK_FILES every 50 ms,
so that many idle files take little time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from fencepost.api.errors import DataError, FencepostError
from fencepost.api.record import PollResult, SourceBatch, SourceOffset, SourcePartition
from fencepost.api.source import TASK_ADDITIONS, Config, SourceTask
from fencepost.connectors.files.config import (
    BATCH_BYTES,
    FILE_SOURCE_CONFIG,
    INFER,
    ORDER,
    POLL_INTERVAL,
    SCHEMA,
    SETTLE,
    declared_columns,
    inferred_in,
)
from fencepost.connectors.files.content.growing import FILENAME_FIELD, GrowingFile, wait_for
from fencepost.connectors.files.content.held import grouped
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.content.ranges import FileRange, StaleFileError
from fencepost.connectors.files.discovery.additions import additions_in
from fencepost.connectors.files.discovery.begun import check_unread
from fencepost.connectors.files.discovery.ended import ENDED_FIELD
from fencepost.connectors.files.discovery.file_rule import FileRule
from fencepost.connectors.files.discovery.find import FILES, Discovery
from fencepost.connectors.files.discovery.own_listing import OwnListing
from fencepost.connectors.files.discovery.renames import Resumed, resume
from fencepost.connectors.files.discovery.seen_inodes import SeenInodes
from fencepost.connectors.files.discovery.shares import Share
from fencepost.connectors.files.discovery.spellings import other_spellings
from fencepost.connectors.files.ends import Ends
from fencepost.connectors.files.file_batch import MOST_FILES, FileBatch, Splits
from fencepost.connectors.files.opening import Opening
from fencepost.connectors.files.readers import Readers
from fencepost.connectors.files.tracked import FileState, TrackedFile

LOOKS_FOR_RENAMED: Final = 3
"""The number of scans to wait for until a file that was replaced is an error."""

LEAST_WAIT_SECONDS: Final = 10.0
"""The minimum time for these scans: after a scan that finds the new name, tasks get new configurations."""

LOOK_FILES: Final = 200
"""The number of files checked between two waits: 4,000 in a second, in 20 ms of CPU time."""

_log: Final = logging.getLogger(__name__)


class FileSourceTask(SourceTask):
    """Returns the complete records of its files."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._whole = False
        self._files: list[TrackedFile] = []
        # The index of the file whose turn it is.
        self._next = 0
        self._had_more = False
        self._all_looked_at = False
        self._inodes = SeenInodes({}, 0.0)
        # None if the task's configuration has names.
        self._listing: OwnListing | None = None
        # What it found until the offsets of these files are read, which may fail.
        self._found: tuple[list[str], Mapping[str, int]] | None = None
        self._characters_taken = 0
        # Offsets to commit before anything else: for renamed files, None for a name that has no file any more.
        self._changed: list[tuple[SourcePartition, SourceOffset | None]] = []
        # Records that their file has already passed, but that are not in a batch yet.
        self._ahead: tuple[TrackedFile, Splits] | None = None
        # The next poll raises it.
        self._error: FencepostError | None = None
        self._lag: int | None = None

    def start(self, config: Config) -> None:
        """Start in each file after the last committed record."""
        allowed = self.context.allowed_paths
        self._parsed = FILE_SOURCE_CONFIG.parse(config)
        inferred = inferred_in(config)
        self._inferred = {} if inferred is None else {SCHEMA: inferred}
        self._readers = Readers(self._parsed, declared_columns({**self._parsed, **self._inferred}), allowed)
        self._opening = Opening(self._parsed, allowed)
        self._ends = Ends(self._parsed, allowed)
        self._share = Share.of(config)
        self._looks_s = LOOKS_FOR_RENAMED * self._parsed[POLL_INTERVAL] / 1000
        self._inodes = SeenInodes({}, self._looks_s)
        self._track(self._share)
        by_time, settle_s = self._parsed[ORDER].lower() == "time", self._parsed[SETTLE] / 1000
        self._discovery = Discovery(tuple(self._parsed[FILES]), allowed, by_time=by_time, settle_s=settle_s)
        if (rule := FileRule.from_config(config)) is not None:
            self._listing = OwnListing(rule, self._discovery, self._parsed[POLL_INTERVAL] / 1000)
            self._track_listed()
        self._take_additions(config)
        renamed = self._share.renamed
        unread = [tracked.path for tracked in self._files if not tracked.begun and tracked.path not in renamed]
        check_unread(unread, self.context.offset_reader, allowed, self._inodes)

    def _track_listed(self) -> None:
        """Take up files of the rule that are found now."""
        if self._found is None and self._listing is not None:
            self._found = self._listing.look()
        if self._found is None:
            return
        files, inodes = self._found
        renamed = {*self._share.renamed, *chain(*self._share.renamed.values())}
        if self._files and not renamed.isdisjoint(files):
            raise DataError(
                f"The file {next(file for file in files if file in renamed)}, which was renamed or has the name of a renamed "
                "file, was not there when the task started, and came since. Restart the task"
            )
        self._all_looked_at, self._lag = False, None
        self._track(replace(self._share, files=files, inodes=inodes))
        self._found = None

    def _take_additions(self, config: Config) -> None:
        """Take up the files that the task got since the last call."""
        text = config.get(TASK_ADDITIONS, "")
        if len(text) > self._characters_taken:
            added = additions_in(text[self._characters_taken :])
            inodes = {file: inode for file, inode in added.items() if inode is not None}
            self._track(replace(self._share, files=list(added), inodes=inodes, renamed={}))
            self._characters_taken = len(text)

    def _track(self, share: Share) -> None:
        self._inodes.add(share.inodes or {})
        spellings = {file: other_spellings(file, share.spellings) for file in share.files} if share.spellings else {}
        names = list(dict.fromkeys([*share.files, *chain(*share.renamed.values(), *spellings.values())]))
        offsets = self.context.offset_reader.offsets([{FILENAME_FIELD: name} for name in names])
        committed = dict(zip(names, offsets, strict=True))
        resumed = self._resumed(share, committed, spellings)
        self._changed += resumed.changed
        # An old name may be used again.
        gone = {path for path in resumed.abandoned if inode_at(path) is None}
        offsets_of, opening = resumed.offsets, self._opening
        new = [opening.gone(path) if path in gone else opening.started(path, offsets_of[path]) for path in share.files]
        # Once all files were checked, new ones have the next turn.
        at = self._next if self._all_looked_at else len(self._files)
        self._files[at:at] = new
        for tracked in self._ends.resume(new):
            tracked.ended = offsets_of[tracked.path]

    def _resumed(
        self, share: Share, committed: Mapping[str, SourceOffset | None], spellings: Mapping[str, list[str]]
    ) -> Resumed:
        """Decide where the files start; once more if some were renamed meanwhile."""
        # An offset is adopted only if the connector knows where the file went that had the name before.
        seen = {file: (self._share.inodes or {}).get(file) for file in share.renamed}
        unsure = {file: inode for file, inode in seen.items() if self._inodes.is_unsure(file)}
        resumed = resume(share.files, share.renamed, committed, self.context.allowed_paths, spellings, unsure=unsure)
        self._inodes.add({file: inode for file, inode in seen.items() if inode is not None})
        if all(file in unsure for file in seen if self._inodes.is_unsure(file)):
            return resumed
        return self._resumed(share, committed, spellings)

    def poll(self) -> PollResult:
        """Return a batch of records of some files, or None after a second without any."""
        self._track_listed()
        self._take_additions(self.context.configs())
        if self._changed:
            changed, self._changed = self._changed, []
            return SourceBatch(reader=self._readers.of_nothing, offsets=changed, bytes=0)
        found = wait_for(self._look, self._stopping)
        if not found:
            # The poll after the one that takes a file away removes its offset.
            return None if self._stopping.is_set() else self._next_ends()
        [batch] = found
        return SourceBatch(
            reader=batch.reader,
            splits=list(grouped(chain(*batch.splits.values()))),
            offsets=[(tracked.partition, batch.offsets[path]) for path, tracked in batch.files.items()],
            bytes=batch.bytes,
        )

    def _offset(self, tracked: TrackedFile) -> dict[str, Any]:
        return {**tracked.offset, **self._inferred}

    def commit(self) -> None:
        """Delete or move the files whose end is committed. The next poll raises an error of that."""
        try:
            for partition in self._ends.take_away():
                # Another file may get its name or its inode.
                self._changed.append((partition, None))
        except DataError as error:
            self._error = error

    def _next_ends(self) -> SourceBatch | None:
        """Return a batch that marks the ends of files that will be deleted or moved."""
        again = self._ends.again()
        new = self._ends.mark(self._files, MOST_FILES)
        for tracked, mark in new:
            tracked.ended = {**self._offset(tracked), ENDED_FIELD: mark.in_json()}
        offsets = [(tracked.partition, tracked.ended) for tracked in (*again, *(tracked for tracked, _ in new))]
        return SourceBatch(reader=self._readers.of_nothing, offsets=offsets, bytes=0) if offsets else None

    def _look(self) -> list[FileBatch]:
        """Return the next records, empty if there are none.

        An error is raised after the records before it were returned.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        batch: FileBatch | None = None
        try:
            for tracked in self._in_turn():
                if self._ahead is None:
                    found = self._visit(tracked, None if batch is None else batch.room)
                    if found is None:
                        break
                    if found:
                        self._ahead = (tracked, found)
                batch = self._with_ahead(batch)
                if self._ahead is not None:
                    break
        except FencepostError as error:
            if batch is None:
                raise
            # The file may have passed records that are not in the batch.
            self._error = error
        return [] if batch is None else [batch]

    def _in_turn(self) -> Iterator[TrackedFile]:
        """Yield each file until it has no more records: all of them once, or some if all were checked before."""
        count = len(self._files)
        left = min(count, LOOK_FILES) if self._all_looked_at and not self._whole else count
        while left and not self._stopping.is_set():
            self._had_more = False
            yield self._files[self._next]
            if self._had_more:
                continue
            left -= 1
            self._next = (self._next + 1) % count
            self._all_looked_at = self._all_looked_at or self._next == 0

    def _with_ahead(self, batch: FileBatch | None) -> FileBatch | None:
        """Return the batch with the records ahead, if there are any and its reader is theirs."""
        if self._ahead is None:
            return batch
        tracked, splits = self._ahead
        reader = self._readers.of(tracked)
        if batch is None:
            batch = FileBatch(reader, self._parsed[BATCH_BYTES])
        if batch.reader == reader:
            batch.add(tracked, splits, self._offset(tracked))
            self._ahead, self._had_more = None, not tracked.finished
        return batch

    def _visit(self, tracked: TrackedFile, room: int | None) -> Splits | None:
        """Return the next records of a file, None if they need more bytes than `room`."""
        if room == 0:
            return None
        if tracked.state is FileState.GONE:
            if not os.path.exists(tracked.path):  # noqa: PTH110 - spares making a Path each time
                return ()
            # Another file with the same name.
            tracked.become(FileState.NEW)
            new = self._opening.new(tracked.path, None)
            tracked.file, tracked.track = new.file, new.track
            tracked.restart = tracked.identity = tracked.mark = tracked.ended = None
            tracked.begun = False
        another = self._inodes.has_another(tracked.path)
        try:
            if tracked.state is FileState.NEW and not another:
                self._identify(tracked)
            if tracked.state is FileState.SUSPECT:
                self._check_suspect(tracked)
            found = self._advance(tracked, room) if tracked.state is FileState.FOLLOWED and not another else ()
            # An ended file is not looked at here.
            tracked.stale = tracked.stale and tracked.state is FileState.ENDED
        except StaleFileError as error:
            if self._whole:
                raise
            tracked.note_stale(error)
            found = ()
        if self._lag is not None:
            self._note_lag(tracked, unsure=another or self._inodes.was_unsure(tracked.path))
        return found

    def _identify(self, tracked: TrackedFile) -> None:
        if not (tracked.begun or self._discovery.has_settled(tracked.path)):
            return
        try:
            self._opening.identify(tracked, whole=self._whole)
        except DataError:
            # A file that went away just then is missing, as one that went away before.
            if self._whole or tracked.track is None or inode_at(tracked.path) is not None:
                raise

    def _check_suspect(self, tracked: TrackedFile) -> None:
        if tracked.error is not None and (self._whole or time.monotonic() >= tracked.deadline):
            raise tracked.error

    def _advance(self, tracked: TrackedFile, room: int | None) -> Splits | None:
        """Return the next records of a file if it is the same as before; None if they do not fit.

        Its name has the file that the connector saw. A task soon gets a renamed file under its new name. Until then
        another file in its place is not an error.
        """
        track = tracked.track
        try:
            if track is not None:
                self._inodes.check_start(tracked.path, track)
            if room is not None and not tracked.fits(room):
                return None
            splits: Splits = tracked.found or tracked.file.advance(whole=self._whole)
            tracked.found = splits
            if track is not None:
                self._inodes.check_seen(tracked.path, tracked.file.seen)
                plain = isinstance(tracked.file, GrowingFile)
                read = tracked.file.read if isinstance(tracked.file, GrowingFile) else None
                changed = track.follow(tracked.file.seen, tracked.end if splits else None, read, plain=plain)
                if changed and not splits:
                    # A rename is found by the committed identity.
                    self._ahead = (tracked, splits)
                splits = [
                    replace(split, known=track.identity) if type(split) is FileRange else split for split in splits
                ]
            tracked.found = ()
        except DataError as error:
            if track is None or not (self._inodes.is_unsure(tracked.path) or (track.was_moved and not self._whole)):
                raise
            self._suspect(tracked, error)
            return ()
        return splits

    def _suspect(self, tracked: TrackedFile, error: DataError) -> None:
        wait_s = max(LEAST_WAIT_SECONDS, self._looks_s)
        tracked.become(FileState.SUSPECT)
        tracked.error, tracked.deadline = error, time.monotonic() + wait_s
        _log.info(
            "The path %s has another file now, or none. Waiting %g seconds in case the earlier file was renamed",
            tracked.path,
            wait_s,
        )

    def lag(self) -> float:
        """Return how many bytes of the files are left to poll, without files that were replaced.

        Each file counts as of its last check.
        """
        if self._lag is None:
            self._lag = 0
            for tracked in self._files:
                self._note_lag(tracked, unsure=self._inodes.was_unsure(tracked.path))
        return self._lag

    def _note_lag(self, tracked: TrackedFile, *, unsure: bool) -> None:
        try:
            lag = 0 if unsure or tracked.state in {FileState.SUSPECT, FileState.GONE} else tracked.file.lag
        except StaleFileError:
            return
        self._lag = (self._lag or 0) + lag - tracked.lag
        tracked.lag = lag

    def stop(self) -> None:
        """Wake a blocked poll."""
        self._stopping.set()

    def at_end(self) -> bool:
        """Return whether all records of every file were returned. The call itself means that the files are complete.

        Raises DataError if no file was found: a pattern without matches is probably wrong, unless files are deleted or
        moved.
        """
        self._whole = True
        if self._listing is not None and self._listing.missing:
            self._listing.check_end()
            return False
        there = [tracked for tracked in self._files if tracked.state is not FileState.GONE]
        if not self._ends.are_left:
            return not self._changed and not there
        if not there:
            rows = " with a row" if self._parsed[SCHEMA] == INFER else ""
            raise DataError(
                f"No file{rows} fits {', '.join(self._parsed[FILES])}, so there is nothing to read: correct the property "
                f"{FILES}, or put the files there. Relative paths start at the worker's working directory"
            )
        return not self._changed and self._ahead is None and all(tracked.finished for tracked in there)
