"""The task of FileSource: reads its files one after the other, and deletes or moves the finished ones if configured.

A poll continues where the previous poll ended: it reads a file to its current end before the next file, and continues
with the first file after the last one. Small files share a batch. Once all files were checked, a poll checks
CHECKED_FILES files every 50 ms, so that many idle files take little CPU time.
"""

from __future__ import annotations

import os
import threading
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

SCANS_FOR_RENAMED: Final = 3
"""A replaced file is an error if this number of the connector's scans do not find it under a new name."""

LEAST_WAIT_SECONDS: Final = 10.0
"""The minimum time to wait for these scans.

Tasks get new configurations only after the scan that finds the new name.
"""

CHECKED_FILES: Final = 200
"""The number of files that are checked between two waits: 4,000 files in a second, in 20 ms of CPU time."""


class FileSourceTask(SourceTask):
    """Returns the complete records of its files."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._are_complete = False
        self._files: list[TrackedFile] = []
        # The index in `_files` of the file to read next.
        self._next = 0
        self._had_more = False
        self._all_checked = False
        self._inodes = SeenInodes({}, 0.0)
        # None if the task's configuration lists its files by name.
        self._listing: OwnListing | None = None
        # Files that the listing found, kept until their offsets are read, because reading the offsets may fail.
        self._found: tuple[list[str], Mapping[str, int]] | None = None
        self._characters_taken = 0
        # Offsets to commit before all others: offsets of renamed files, and None for a name that no longer has a file.
        self._changed: list[tuple[SourcePartition, SourceOffset | None]] = []
        # A file with its next records. The file's position is already after these records, but they are not in a batch
        # yet.
        self._pending: tuple[TrackedFile, Splits] | None = None
        # The error that the next poll raises.
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
        self._rename_wait_s = SCANS_FOR_RENAMED * self._parsed[POLL_INTERVAL] / 1000
        self._inodes = SeenInodes({}, self._rename_wait_s)
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
        """Start to read the files that the listing has found since the last call."""
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
        self._all_checked, self._lag = False, None
        self._track(replace(self._share, files=files, inodes=inodes))
        self._found = None

    def _take_additions(self, config: Config) -> None:
        """Start to read the files that the task got since the last call."""
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
        # The old name of a renamed file may have another file by now.
        gone = {path for path in resumed.abandoned if inode_at(path) is None}
        offsets_of, opening = resumed.offsets, self._opening
        new = [opening.gone(path) if path in gone else opening.started(path, offsets_of[path]) for path in share.files]
        # If all files were already checked, the new files are read next.
        at = self._next if self._all_checked else len(self._files)
        self._files[at:at] = new
        for tracked in self._ends.resume(new):
            tracked.ended = offsets_of[tracked.path]

    def _resumed(
        self, share: Share, committed: Mapping[str, SourceOffset | None], spellings: Mapping[str, list[str]]
    ) -> Resumed:
        """Decide at which offsets the files start. Decide again if some files were renamed meanwhile."""
        # A renamed file takes over the offset of its old name only if the connector has seen it under its new name.
        seen = {file: (self._share.inodes or {}).get(file) for file in share.renamed}
        unsure = {file: inode for file, inode in seen.items() if self._inodes.is_unsure(file)}
        resumed = resume(share.files, share.renamed, committed, self.context.allowed_paths, spellings, unsure=unsure)
        self._inodes.add({file: inode for file, inode in seen.items() if inode is not None})
        if all(file in unsure for file in seen if self._inodes.is_unsure(file)):
            return resumed
        return self._resumed(share, committed, spellings)

    def poll(self) -> PollResult:
        """Return a batch of records of some files, or None if no records came within a second."""
        self._track_listed()
        self._take_additions(self.context.configs())
        if self._changed:
            changed, self._changed = self._changed, []
            return SourceBatch(reader=self._readers.of_nothing, offsets=changed, bytes=0)
        found = wait_for(self._next_batch, self._stopping)
        if not found:
            # After files were deleted or moved, the next poll removes their offsets.
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
        """Delete or move the files whose end is committed. If an attempt fails, the next poll raises the error."""
        try:
            for partition in self._ends.take_away():
                # The offset is removed because another file may get the name or the inode.
                self._changed.append((partition, None))
        except DataError as error:
            self._error = error

    def _next_ends(self) -> SourceBatch | None:
        """Return a batch that marks the ends of files that are to be deleted or moved."""
        recommitted = self._ends.to_recommit()
        new = self._ends.mark(self._files, MOST_FILES)
        for tracked, mark in new:
            tracked.ended = {**self._offset(tracked), ENDED_FIELD: mark.in_json()}
        offsets = [(tracked.partition, tracked.ended) for tracked in (*recommitted, *(tracked for tracked, _ in new))]
        return SourceBatch(reader=self._readers.of_nothing, offsets=offsets, bytes=0) if offsets else None

    def _next_batch(self) -> list[FileBatch]:
        """Return a batch of the next records, an empty list if there are none.

        After an error, the records before the error are returned first; the next call raises the error.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        batch: FileBatch | None = None
        try:
            for tracked in self._files_to_read():
                if self._pending is None:
                    found = self._visit(tracked, None if batch is None else batch.room)
                    if found is None:
                        break
                    if found:
                        self._pending = (tracked, found)
                batch = self._with_pending(batch)
                if self._pending is not None:
                    break
        except FencepostError as error:
            if batch is None:
                raise
            # The file's position may already be after records that are only in this batch, so the batch is returned
            # first.
            self._error = error
        return [] if batch is None else [batch]

    def _files_to_read(self) -> Iterator[TrackedFile]:
        """Yield the files in order, each file again while it has more records.

        One call goes through all files, or through CHECKED_FILES of them if all files were already checked once.
        """
        count = len(self._files)
        left = min(count, CHECKED_FILES) if self._all_checked and not self._are_complete else count
        while left and not self._stopping.is_set():
            self._had_more = False
            yield self._files[self._next]
            if self._had_more:
                continue
            left -= 1
            self._next = (self._next + 1) % count
            self._all_checked = self._all_checked or self._next == 0

    def _with_pending(self, batch: FileBatch | None) -> FileBatch | None:
        """Return the batch with the records in `_pending`, if there are any and the batch's reader can read them."""
        if self._pending is None:
            return batch
        tracked, splits = self._pending
        reader = self._readers.of(tracked)
        if batch is None:
            batch = FileBatch(reader, self._parsed[BATCH_BYTES])
        if batch.reader == reader:
            batch.add(tracked, splits, self._offset(tracked))
            self._pending, self._had_more = None, not tracked.finished
        return batch

    def _visit(self, tracked: TrackedFile, room: int | None) -> Splits | None:
        """Return the next records of a file, None if they take more bytes than `room`."""
        if room == 0:
            return None
        another = self._inodes.has_another(tracked.path)
        try:
            if tracked.state is FileState.GONE and not self._comes_anew(tracked):
                return ()
            if tracked.state is FileState.NEW and not another:
                self._identify(tracked)
            if tracked.state is FileState.SUSPECT:
                tracked.check_suspect(whole=self._are_complete)
            found = self._advance(tracked, room) if tracked.state is FileState.FOLLOWED and not another else ()
            # An ENDED file is not read in this method, so it stays stale.
            tracked.stale = tracked.stale and tracked.state is FileState.ENDED
        except StaleFileError as error:
            if self._are_complete:
                raise
            tracked.note_stale(error)
            found = ()
        if self._lag is not None:
            self._note_lag(tracked, unsure=another or self._inodes.was_unsure(tracked.path))
        return found

    def _comes_anew(self, tracked: TrackedFile) -> bool:
        """If a new file has appeared at the path of a file that is GONE, start to read it.

        Return whether a new file has appeared.
        """
        if not os.path.exists(tracked.path) or self._ends.is_back(tracked):  # noqa: PTH110 - spares making a Path each time
            return False
        tracked.become(FileState.NEW)
        new = self._opening.new(tracked.path, None)
        tracked.file, tracked.track = new.file, new.track
        tracked.restart = tracked.identity = tracked.mark = tracked.ended = None
        tracked.begun = False
        return True

    def _identify(self, tracked: TrackedFile) -> None:
        if not (tracked.begun or self._discovery.has_settled(tracked.path)):
            return
        try:
            self._opening.identify(tracked, whole=self._are_complete)
        except DataError:
            # A file that disappeared just now is not an error: like other missing files, it is waited for.
            if self._are_complete or tracked.track is None or inode_at(tracked.path) is not None:
                raise

    def _advance(self, tracked: TrackedFile, room: int | None) -> Splits | None:
        """Return the next records of a file if it is the same file as before; None if the records do not fit.

        Before this call, the path had the file that the connector saw. If the file was renamed, a task soon gets its
        new name. Until then, another file at the old name is not an error.
        """
        track = tracked.track
        try:
            if track is not None:
                self._inodes.check_start(tracked.path, track)
            if room is not None and not tracked.fits(room):
                return None
            splits: Splits = tracked.found or tracked.file.advance(whole=self._are_complete)
            tracked.found = splits
            if track is not None:
                self._inodes.check_seen(tracked.path, tracked.file.seen)
                plain = isinstance(tracked.file, GrowingFile)
                read = tracked.file.read if isinstance(tracked.file, GrowingFile) else None
                # An offset that a user set before its file existed is bound to the first file that appears.
                unbound = tracked.begun and track.identity is None and tracked.end > 0
                changed = track.follow(tracked.file.seen, tracked.end if splits or unbound else None, read, plain=plain)
                if changed and not splits:
                    # The changed identity must be committed, because a rename is found by the committed identity.
                    self._pending = (tracked, splits)
                splits = [
                    replace(split, known=track.identity) if type(split) is FileRange else split for split in splits
                ]
            tracked.found = ()
        except DataError as error:
            if track is None or not (
                self._inodes.is_unsure(tracked.path) or (track.was_moved and not self._are_complete)
            ):
                raise
            tracked.suspect(error, max(LEAST_WAIT_SECONDS, self._rename_wait_s))
            return ()
        return splits

    def lag(self) -> float:
        """Return how many bytes of the files are left to poll, not counting files that were replaced.

        The number for each file is from its last check.
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
        """Return whether all records of every file were returned.

        From the first call on, the task treats the files as complete.

        Raises DataError if no file was found: a pattern without matches is probably wrong, unless files are deleted or
        moved.
        """
        self._are_complete = True
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
        return not self._changed and self._pending is None and all(tracked.finished for tracked in there)
