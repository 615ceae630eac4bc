"""The files of a task whose end is returned: they are deleted or moved once it is committed. See `discovery.ended`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.record import SourcePartition
from fencepost.connectors.files.config import AFTER_END, MOVE_TO, SETTLE
from fencepost.connectors.files.content.ranges import StaleFileError
from fencepost.connectors.files.discovery.ended import AfterEnd, Mark, take_away
from fencepost.connectors.files.tracked import FileState, TrackedFile


class Ends:
    """What a connector's properties say is done with files that were read to their end."""

    def __init__(self, parsed: Mapping[str, Any], allowed: AllowedPaths) -> None:
        self._allowed = allowed
        self._after_end = AfterEnd(parsed[AFTER_END].lower())
        self._folder: str | None = parsed[MOVE_TO]
        self._settle_ns = parsed[SETTLE] * 1_000_000
        # Files whose end is in the offsets returned so far.
        self._ended: list[TrackedFile] = []
        # Some of these, whose offsets are to be committed once more: otherwise there may be no further commit, which takes all away.
        self._again: list[TrackedFile] = []

    @property
    def are_left(self) -> bool:
        """Whether the files stay where they are."""
        return self._after_end is AfterEnd.LEAVE

    def resume(self, files: Iterable[TrackedFile]) -> list[TrackedFile]:
        """Go on with files of a new task; return those whose end was committed before it started."""
        ended = [tracked for tracked in files if tracked.state is FileState.ENDED]
        self._ended += ended
        self._again += ended
        return ended

    def again(self) -> list[TrackedFile]:
        """Return files whose marks were committed, and that are still to be taken away."""
        again, self._again = self._again, []
        return [tracked for tracked in again if tracked.state is FileState.ENDED]

    def mark(self, files: Sequence[TrackedFile], most: int) -> list[tuple[TrackedFile, Mark]]:
        """Mark the ends of at most as many files, and return these."""
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
        """Delete or move the marked files, once their marks are committed; yield the source partition of each.

        Raises DataError if that fails, or if a file has grown.
        """
        while self._ended:
            tracked = self._ended[0]
            try:
                is_there = tracked.mark is not None and tracked.mark.is_at(tracked.path, self._allowed)
                if is_there:
                    take_away(tracked.path, self._after_end, self._folder)
            except StaleFileError as error:
                tracked.note_stale(error)
                self._again = [tracked]
                return
            if is_there:
                yield tracked.partition
            tracked.become(FileState.GONE)
            del self._ended[0]
