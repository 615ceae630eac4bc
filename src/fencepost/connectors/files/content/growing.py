"""A file that is read while it grows, and the part of the file that was not returned yet."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO, FileIO
from typing import Any, Final, Protocol, TypeVar, cast

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError, DataError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.held import held_range
from fencepost.connectors.files.content.identity import FileIdentity, Stamp, stamp_of
from fencepost.connectors.files.content.line_numbers import line_number
from fencepost.connectors.files.content.open_ends import no_end_of_record, warn_of_open_end
from fencepost.connectors.files.content.ranges import FileRange, last_line_end, open_file, split_lines, unreadable
from fencepost.connectors.files.stores.objects import read_at

FILENAME_FIELD: Final = "filename"
POSITION_FIELD: Final = "position"

DEFAULT_BATCH_BYTES: Final = 128 << 20
"""The maximum number of bytes of one poll.

The number is large enough that a Spark job's fixed cost hardly counts, and small enough to be written well within the
default transaction.timeout.ms of one minute.
"""

SPLIT_BYTES: Final = 8 << 20
"""The number of bytes that one Spark task reads at a time."""

SMALL_BYTES: Final = 4_096
"""Up to this size a new file is read as a whole when first opened.

Opening the file a second time would cost more than reading it.
"""

WAIT_SECONDS: Final = 1.0
"""The time that a poll waits for new data before it returns None."""

CHECK_SECONDS: Final = 0.05
"""The interval at which a waiting poll checks the file."""

_LOG: Final = logging.getLogger(__name__)
_Split = TypeVar("_Split")


class Planner(Protocol):
    """Finds the complete records at the start of a part of a file."""

    def __call__(self, file: FileIO | BytesIO, part: FileRange, size: int) -> list[FileRange]:
        """Return the complete records as parts in order.

        Each part ends at the end of a record. The list is empty if no record is complete.
        """


def plan_lines(file: FileIO | BytesIO, part: FileRange, size: int) -> list[FileRange]:
    """Find the complete lines of a part. Only the bytes around the cuts are read."""
    end = last_line_end(file, part, size)
    return split_lines(file, FileRange(part.path, part.start, end), SPLIT_BYTES)


class _Followed:
    """A file that appears to have one byte more than its `size`: then a carriage return at its end ends a record."""

    def __init__(self, file: FileIO | BytesIO, size: int) -> None:
        self._file = file
        self._size = size
        self._position = 0

    def seek(self, position: int) -> None:
        self._position = position

    def readinto(self, view: memoryview) -> int:
        if self._position == self._size:
            view[:1] = b"\0"
            return 1
        self._file.seek(self._position)
        return self._file.readinto(view[: self._size - self._position])


def plan_with_last_return(plan: Planner, file: FileIO | BytesIO, part: FileRange, size: int) -> list[FileRange]:
    """Find the complete records of a part as `plan` does; at the file's end, a carriage return also ends a record.

    If a line feed follows later, it belongs to this carriage return: see `GrowingFile.advance`.
    """
    found = plan(file, part, size)
    if found or part.end < size or read_at(file, 1, size - 1) != b"\r":
        return found
    return plan(cast("FileIO", _Followed(file, size)), part, size + 1)


class Awaited:
    """A file that may not exist yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._missing_was_logged = False

    def is_missing(self, *, whole: bool = False) -> bool:
        """Return whether there is no file at the path, and log it the first time.

        `whole` means that the file must exist: DataError is raised if it is missing.
        """
        if os.path.exists(self.path):  # noqa: PTH110 - called often: spares making a Path each time
            return False
        if whole:
            raise DataError(
                f"The file {self.path} does not exist, but was not read to its end: bring it back, or reset the connector's "
                "offsets if it is not to be read"
            )
        if not self._missing_was_logged:
            _LOG.warning("The file %s does not exist; waiting for it to be created", self.path)
            self._missing_was_logged = True
        return True


class GrowingFile(Awaited):
    """A file with the position up to which its records were returned.

    A file may only grow. If it is shorter than the position, it was truncated or replaced, and reading on would lose or
    mix up records. If the file does not exist yet, a poll waits for it. `quoting` is the quoting that `plan` uses to
    find records.
    """

    def __init__(  # noqa: PLR0917 - as ContentFile
        self,
        path: str,
        position: int,
        plan: Planner,
        batch_bytes: int,
        allowed: AllowedPaths,
        quoting: Quoting | None = None,
    ) -> None:
        super().__init__(path)
        self._allowed = allowed
        # The device and inode of the file that last passed the check of allowed paths.
        self._found_allowed: tuple[int, int] | None = None
        self.position = position
        self._plan = plan
        self._quoting = quoting
        self._batch_bytes = batch_bytes
        self.looked_at_size = -1
        """The size at the last check of the file, -1 before the first."""
        self.seen: Stamp | None = None
        """The state of the file at its last check."""
        self.read: FileIdentity | None = None
        """The file's identity up to the position, taken when the position was reached; None at the beginning."""
        self._known_size: int | None = None
        # The status and content of a small file, kept from its opening until the next check.
        self._held: tuple[os.stat_result, bytes] | None = None
        self.exhausted = False
        """Whether no complete record was left after the position at the last check of the file."""

    @property
    def finished(self) -> bool:
        """Whether the position was the end of the file when the file was last checked."""
        return self.position == self.looked_at_size

    @property
    def lag(self) -> int:
        """The number of bytes left after the position at the last check of the file.

        Raises DataError if the file was not checked before, and the check fails now.
        """
        if self._known_size is None:
            small = self._small_size()
            self._known_size = (self.size() or 0) if small is None else small
        return max(0, self._known_size - self.position)

    def _small_size(self) -> int | None:
        """Return the file's size if it is small, else None.

        The file is not opened, so a lag is reported even if the process may not read the file.
        """
        try:
            status = os.lstat(self.path)
        except OSError:
            return None
        small = stat.S_ISREG(status.st_mode) and self.position <= status.st_size <= SMALL_BYTES
        return status.st_size if small else None

    @property
    def partition(self) -> dict[str, Any]:
        """The file's source partition."""
        return {FILENAME_FIELD: self.path}

    @property
    def offset(self) -> dict[str, Any]:
        """The source offset of the position."""
        return {POSITION_FIELD: self.position}

    def fits(self, room: int) -> bool:
        """Return whether at most `room` bytes follow the position, by the size known now."""
        size = self._held[0].st_size if self._held is not None else _size_at(self.path)
        if size - self.position > room:
            # The file may change before it is read next.
            self._held = None
            return False
        return True

    def size(self) -> int | None:
        """Return the file's size in bytes, None if there is no file.

        Raises DataError if the file cannot be read, or is not allowed.
        """
        try:
            status = self._status()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.seen = stamp_of(status)
        if status.st_size < self.position:
            raise DataError(
                f"The file {self.path} has {status.st_size} bytes, but its offset says that it is to be read on from byte "
                f"{self.position}: it was truncated or replaced, or the offset was set for another file. Bring the file of "
                f"the offset, set the offset {{'{POSITION_FIELD}': <bytes>}} to a byte of the file with PATCH "
                "/connectors/NAME/offsets, or reset the connector's offsets to read the file that is there from its start"
            )
        return status.st_size

    def was_opened(self, file: FileIO) -> FileIO | BytesIO:
        """Record that the open file passed the check of allowed paths, and keep the content if the file is small.

        Return the object to read from: the file itself, or its content in memory.
        """
        status = os.fstat(file.fileno())
        self._found_allowed = (status.st_dev, status.st_ino)
        # Discard content that was kept while the first bytes were too few to decide how to read the file.
        self._held = None
        if self.position or status.st_size > SMALL_BYTES:
            return file
        try:
            data = read_at(file, status.st_size, 0)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self._held = (status, data) if len(data) == status.st_size else None
        return BytesIO(data)

    def is_unchanged(self, identity: FileIdentity | None) -> bool:
        """Return whether the whole file was read, and not written to since. Such a file need not be opened."""
        if identity is None or self.position != identity.end:
            return False
        try:
            status = os.stat(self.path)  # noqa: PTH116 - as below
        except OSError:
            return False
        if not identity.is_whole(status):
            return False
        self.looked_at_size = self._known_size = status.st_size
        return True

    def _status(self) -> os.stat_result:
        if self._held is not None:
            return self._held[0]
        status = os.stat(self.path)  # noqa: PTH116 - called often: spares making a Path each time
        if stat.S_ISDIR(status.st_mode):
            raise DataError(f"{self.path} is a directory: name a file")
        if self._allowed.restricted and (status.st_dev, status.st_ino) != self._found_allowed:
            with open_file(self.path, self._allowed) as file:
                status = os.fstat(file.fileno())
            self._found_allowed = (status.st_dev, status.st_ino)
        return status

    def advance(self, *, whole: bool = False) -> list[FileRange]:
        """Return the next complete records and move the position after them; nothing if there are none.

        `whole` means that the file is complete, so that its end is also the end of a record. A line feed is skipped if
        the previous record ended with its carriage return.
        """
        if whole:
            # The kept content may be older than the complete file, which may have grown since its last check.
            self._held = None
        size = self.size()
        if size is None:
            self.is_missing(whole=whole and not self.finished)
            return []
        unchanged = size == self.looked_at_size and self.exhausted
        splits = [] if size == self.position or (unchanged and not whole) else self._next(size, whole=whole)
        if splits:
            self.position = splits[-1].end
        self._held = None
        self.looked_at_size = self._known_size = size
        self.exhausted = not splits or self.position == size
        return splits

    def _next(self, size: int, *, whole: bool) -> list[FileRange]:
        held = self._held
        with open_file(self.path, self._allowed) if held is None else BytesIO(held[1]) as file:
            if self.position and read_at(file, 2, self.position - 1) == b"\r\n":
                # The previous record ended with the carriage return, which was then the last byte.
                self.position += 1
            part = FileRange(self.path, self.position, min(size, self.position + self._batch_bytes))
            splits = self._plan(file, part, size) if part.size else []
            if splits:
                self.read = self._identity(file, splits[-1].end, None if held is None else held[0])
        if splits and held is not None:
            return [held_range(part, held[1]) for part in splits]
        if splits or not part.size or (part.end == size and not whole):
            return splits
        line, data = 1, b""
        if self._quoting is not None:
            line = line_number(self.path, part.start, self._allowed)
            data = self._bytes_of(part)
        if part.end == size:
            warn_of_open_end(part, data, self._quoting, line)
            return [part]
        raise no_end_of_record(part, data, self._quoting, line)

    def _identity(self, file: FileIO | BytesIO, end: int, status: os.stat_result | None) -> FileIdentity:
        try:
            return FileIdentity.at(status or os.fstat(file.fileno()), file, end, plain=True)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _bytes_of(self, part: FileRange) -> bytes:
        with open_file(self.path, self._allowed) as file:
            return read_at(file, part.size, part.start)


def wait_for(read: Callable[[], Sequence[_Split]], stopping: threading.Event) -> Sequence[_Split]:
    """Call `read` until it returns something, for at most WAIT_SECONDS, or until `stopping` is set."""
    for _ in range(round(WAIT_SECONDS / CHECK_SECONDS)):
        if found := read():
            return found
        if stopping.wait(CHECK_SECONDS):
            break
    return ()


def check_file(path: str, property_name: str, allowed: AllowedPaths) -> None:
    """Raise ConfigError, naming the property, if the file at the path may not be read."""
    try:
        allowed.check(path)
    except ConfigError as error:
        raise ConfigError(f"The property {property_name} is refused. {error}", name=property_name) from None


def check_offsets(
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    check: Callable[[str, SourceOffset], object] | None = None,
) -> None:
    """Raise DataError unless all source partitions and offsets are valid for files. Removing an offset is always valid.

    `check` raises DataError for an invalid offset of a file; by default the offset must be a position in bytes.
    """
    for partition, offset in offsets:
        if offset is None:
            continue
        if partition is None or set(partition) != {FILENAME_FIELD}:
            raise DataError(f"The source partition {partition} is not of the form {{'{FILENAME_FIELD}': <path>}}")
        path = partition[FILENAME_FIELD]
        if not isinstance(path, str) or not path:
            raise DataError(
                f"The {FILENAME_FIELD} of the source partition {partition} is no path: give a text, as GET "
                "/connectors/NAME/offsets shows it"
            )
        (check or position_of)(path, offset)


def position_of(path: str, offset: Mapping[str, Any] | None) -> int:
    """Return the position in a committed source offset of a file, 0 if there is none.

    Raises DataError for an offset that was not written by a file source.
    """
    if offset is None:
        return 0
    position = offset.get(POSITION_FIELD)
    if isinstance(position, bool) or not isinstance(position, int) or position < 0:
        raise DataError(
            f"The offset {dict(offset)} of the file {path} is not of the form {{'{POSITION_FIELD}': <bytes>}} "
            "with a whole number of at least 0: correct it, or reset the connector's offsets"
        )
    return position


def _size_at(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - called often: spares making a Path each time
    except OSError:
        return 0
