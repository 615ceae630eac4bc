"""A file of a task, with its state.

    NEW --its first bytes say how to read it--> FOLLOWED --its end was returned--> ENDED --committed: taken away--> GONE
     ^                                             |                                                               |
     |                                             +--another file is in its place--> SUSPECT                      |
     +-------------------------------another file has its name-----------------------------------------------------+

"Taken away" means deleted, moved, or found missing. If a file disappeared before the task deleted or moved it, and
comes back, its state goes from GONE to ENDED again.

A file starts as NEW, as ENDED if its end is committed, or as GONE if it was renamed. An object that was read to its end
starts as FOLLOWED. A SUSPECT file is not read any further. If it was renamed, the task gets another configuration;
otherwise the task fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from fencepost.api.errors import DataError, IllegalStateError
from fencepost.api.record import SourceOffset
from fencepost.connectors.files.content.compressed import ContentFile
from fencepost.connectors.files.content.growing import FILENAME_FIELD, GrowingFile
from fencepost.connectors.files.content.identity import FileTrack
from fencepost.connectors.files.content.ranges import FileRange, StaleFileError
from fencepost.connectors.files.content.restart_point import RestartPoint
from fencepost.connectors.files.discovery.ended import Mark
from fencepost.connectors.files.formats.tables.table_file import TableFile
from fencepost.connectors.files.formats.tables.table_reader import RowRange

ReadFile = GrowingFile | ContentFile | TableFile


class FileState(Enum):
    """The states of a file of a task."""

    NEW = auto()
    FOLLOWED = auto()
    SUSPECT = auto()
    ENDED = auto()
    GONE = auto()


_log: Final = logging.getLogger(__name__)

TRANSITIONS: Final[Mapping[FileState, frozenset[FileState]]] = {
    FileState.NEW: frozenset({FileState.FOLLOWED}),
    FileState.FOLLOWED: frozenset({FileState.SUSPECT, FileState.ENDED}),
    FileState.SUSPECT: frozenset(),
    FileState.ENDED: frozenset({FileState.GONE}),
    FileState.GONE: frozenset({FileState.NEW, FileState.ENDED}),
}


@dataclass(slots=True)
class TrackedFile:
    """One file of a task.

    `begun` says that the file had a committed offset; other files must settle first. `track` follows the file's
    identity; objects have no `track`. `restart` and `identity` come from the committed offset of a compressed file or
    an object. `mark` is the mark of an ENDED file, and of a GONE file that the task did not delete or move itself.
    `ended` is the offset with this mark. A SUSPECT file raises its `error` at `deadline`, in seconds of the monotonic
    clock. `lag` is the number of bytes that were left at the last check. `found` are records before the file's position
    that are not returned yet, because the check of the file's identity failed. `stale` says that the file could not be
    read at the last attempt.
    """

    path: str
    file: ReadFile
    begun: bool
    state: FileState = FileState.NEW
    track: FileTrack | None = None
    restart: RestartPoint | None = None
    identity: str | None = None
    mark: Mark | None = None
    ended: SourceOffset | None = None
    error: DataError | None = None
    deadline: float = 0.0
    lag: int = 0
    found: Sequence[FileRange | RowRange] = ()
    stale: bool = False

    def become(self, state: FileState) -> None:
        """Change the state. Raises IllegalStateError for a change that is not in the diagram."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"The file {self.path} is {self.state.name} and cannot become {state.name}")
        self.state = state

    def suspect(self, error: DataError, wait_s: float) -> None:
        """Stop reading: the path now has another file, or none. `check_suspect` raises `error` after `wait_s`."""
        self.become(FileState.SUSPECT)
        self.error, self.deadline = error, time.monotonic() + wait_s
        _log.info(
            "The path %s has another file now, or none. Waiting %g seconds in case the earlier file was renamed",
            self.path,
            wait_s,
        )

    def check_suspect(self, *, whole: bool) -> None:
        """Raise the error of a SUSPECT file after its deadline, or at once if the files are complete (`whole`)."""
        if self.error is not None and (whole or time.monotonic() >= self.deadline):
            raise self.error

    def note_stale(self, error: StaleFileError) -> None:
        """Record that the file could not be read, and log the error the first time."""
        if not self.stale:
            self.stale = True
            _log.warning("%s", error)

    @property
    def partition(self) -> dict[str, Any]:
        """The source partition."""
        return {FILENAME_FIELD: self.path}

    @property
    def offset(self) -> dict[str, Any]:
        """The source offset of the returned records, with the identity of the file."""
        return {**self.file.offset, **(self.track.offset if self.track is not None else {})}

    @property
    def finished(self) -> bool:
        """Whether the whole file had been returned when it was last checked."""
        return self.file.finished and not self.found

    @property
    def end(self) -> int:
        """The position after the returned records; for a decoded file or a table, the file's size at its last check."""
        return self.file.position if isinstance(self.file, GrowingFile) else self.file.looked_at_size

    def fits(self, room: int) -> bool:
        """Return whether at most `room` bytes are unread, approximately.

        If the number of unread bytes is unknown until the file is checked, the result is True.
        """
        return self.file.fits(room) if isinstance(self.file, GrowingFile) else self.file.lag <= room

    def was_read(self, mark: Mark) -> bool:
        """Return whether a mark belongs to the file that was read, and the whole file was read."""
        track = self.track
        return (
            track is not None
            and track.seen == (mark.inode, mark.modified, mark.size)
            and mark.size == self.file.looked_at_size
        )
