"""Keeps, deletes or moves a task's files whose records were all returned, once the offset of their end is committed.

See `discovery.ended`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.record import SourcePartition
from fencepost.connectors.files.config import AFTER_END, MOVE_TO, SETTLE
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.content.ranges import StaleFileError
from fencepost.connectors.files.discovery.ended import AfterEnd, Mark, take_away
from fencepost.connectors.files.tracked import FileState, TrackedFile


class Ends:
    """Keeps, deletes or moves files that were read to their end, as the connector's properties say."""

    def __init__(self, parsed: Mapping[str, Any], allowed: AllowedPaths) -> None:
        self._allowed = allowed
        self._after_end = AfterEnd(parsed[AFTER_END].lower())
        self._folder: str | None = parsed[MOVE_TO]
        self._settle_ns = parsed[SETTLE] * 1_000_000
        # Files for which an offset of their end was already returned.
        self._ended: list[TrackedFile] = []
        # Ended files whose offsets are to be committed once more: files are deleted or moved after a commit, and there
        # may be no other commit.
        self._to_recommit: list[TrackedFile] = []

    @property
    def are_left(self) -> bool:
        """Whether ended files stay where they are."""
        return self._after_end is AfterEnd.LEAVE

    def resume(self, files: Iterable[TrackedFile]) -> list[TrackedFile]:
        """Take over the ENDED files of a starting task, and return them: their end was committed before the start."""
        ended = [tracked for tracked in files if tracked.state is FileState.ENDED]
        self._ended += ended
        self._to_recommit += ended
        return ended

    def to_recommit(self) -> list[TrackedFile]:
        """Return files whose marks were committed, but that are not deleted or moved yet."""
        to_recommit, self._to_recommit = self._to_recommit, []
        return [tracked for tracked in to_recommit if tracked.state is FileState.ENDED]

    def is_back(self, tracked: TrackedFile) -> bool:
        """Return whether a file that disappeared before its deletion or move is back; it is then deleted or moved.

        A file may seem to disappear because its directory was missing, for example because a file system was not
        mounted. Raises the same errors as `Mark.is_at`.
        """
        if tracked.mark is None or inode_at(tracked.path) != tracked.mark.inode:
            return False
        if not tracked.mark.is_at(tracked.path, self._allowed):
            return False
        tracked.become(FileState.ENDED)
        self._ended.append(tracked)
        self._to_recommit.append(tracked)
        return True

    def mark(self, files: Sequence[TrackedFile], most: int) -> list[tuple[TrackedFile, Mark]]:
        """Mark up to `most` files that are at their end, and return them with their marks; none if `are_left`."""
        if self.are_left:
            return []
        ended = list(islice(self._new(files), most))
        for tracked, mark in ended:
            tracked.mark = mark
            tracked.become(FileState.ENDED)
            self._ended.append(tracked)
        return ended

    def _new(self, files: Sequence[TrackedFile]) -> Iterator[tuple[TrackedFile, Mark]]:
        latest = time.time_ns() - self._settle_ns
        for tracked in files:
            if tracked.state is FileState.FOLLOWED and tracked.finished:
                try:
                    mark = Mark.of(tracked.path, self._allowed)
                except StaleFileError as error:
                    tracked.note_stale(error)
                    continue
                if mark is not None and tracked.was_read(mark) and mark.modified <= latest:
                    yield tracked, mark

    def take_away(self) -> Iterator[SourcePartition]:
        """Delete or move the marked files, and yield the source partition of each. Their marks must be committed.

        Raises DataError if the deletion or move fails, or if a file has grown.
        """
        while self._ended:
            tracked = self._ended[0]
            try:
                is_there = tracked.mark is not None and tracked.mark.is_at(tracked.path, self._allowed)
                taken = is_there and take_away(tracked.path, self._after_end, self._folder)
            except StaleFileError as error:
                tracked.note_stale(error)
                self._to_recommit = [tracked]
                return
            if taken:
                tracked.mark = tracked.ended = None
                yield tracked.partition
            tracked.become(FileState.GONE)
            del self._ended[0]
