"""A file of a task with its state.

    NEW --its first bytes say how it is read--> FOLLOWED --its end was returned--> ENDED --committed: taken away--> GONE
     ^                                             |                                                                |
     |                                             +--another file is in its place--> SUSPECT                       |
     +-------------------------------another file has its name-----------------------------------------------------+

A file starts as NEW, as ENDED if its end is committed, or as GONE if it was renamed; an object that was read to its end
starts as FOLLOWED. A suspect is not read any further: either it was renamed, and the task gets another configuration, or
the task fails.
"""

from __future__ import annotations

import logging
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
    FileState.GONE: frozenset({FileState.NEW}),
}


@dataclass(slots=True)
class TrackedFile:
    """One file of a task.

    `begun` if it had a committed offset: others settle first. `track` follows the file's identity; objects have none. `restart` and `identity` come from the committed offset of a
    compressed file or an object. `mark` belongs to an ENDED file, and `ended` is its offset. A SUSPECT raises its `error` at `deadline`, in
    seconds of the monotonic clock. `lag` is the number of bytes that were left at the last check. `found` are records that
    the file has passed, while it could not be checked whether it is still the same. `stale` if it could not be read last.
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
        """Change the state. Raises IllegalStateError for a change that the diagram does not have."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"The file {self.path} is {self.state.name} and cannot become {state.name}")
        self.state = state

    def note_stale(self, error: StaleFileError) -> None:
        """Note that the file could not be read, and log it the first time."""
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
        """Whether all of the file was returned when it was last checked."""
        return self.file.finished and not self.found

    @property
    def end(self) -> int:
        """The position after the returned records; for a table file its size when it was last checked."""
        return self.file.position if isinstance(self.file, GrowingFile) else self.file.looked_at_size

    def fits(self, room: int) -> bool:
        """Return whether about at most `room` bytes are unread; true if that is unknown until the file is checked."""
        return self.file.fits(room) if isinstance(self.file, GrowingFile) else self.file.lag <= room

    def was_read(self, mark: Mark) -> bool:
        """Return whether a mark is of the file that was read, and all of it was read."""
        track = self.track
        return (
            track is not None
            and track.seen == (mark.inode, mark.modified, mark.size)
            and mark.size == self.file.looked_at_size
        )
