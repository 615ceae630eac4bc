"""A file that is compressed or not in UTF-8, and the part of its content that was not returned yet.

Positions count bytes of the content in UTF-8. The file is decompressed and decoded by the task, in one pass and one
thread, and its batches hold their bytes: an executor could not begin in the middle. A start from a position reads from
the last restart point before it (see `restart_point`), or else from the begin.

    READING --end of the content--> ENDED ------the file grew------> READING, if compressed from the restart point
       |                                                                ^
       +-------end in the middle--> TRUNCATED --the file grew----------+
                                        |
                                        +--did not grow for a minute, or the file is complete--> DataError

    READING --damaged data--> DAMAGED --all before it was returned--> DataError
"""

from __future__ import annotations

import io
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from io import FileIO
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.codecs.compressed_parts import Place
from fencepost.connectors.files.content.codecs.compression import ContentStream, Form, TruncatedError
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.growing import FILENAME_FIELD, POSITION_FIELD
from fencepost.connectors.files.content.identity import Stamp, stamp_of
from fencepost.connectors.files.content.line_numbers import line_number
from fencepost.connectors.files.content.open_ends import no_end_of_record, warn_of_open_end
from fencepost.connectors.files.content.ranges import (
    PADDING,
    FileRange,
    count_lines,
    open_file,
    record_ends,
    unreadable,
)
from fencepost.connectors.files.content.restart_point import RestartPoint, opened, usable

HELD_BYTES: Final = 4 << 20
"""The maximum size of a batch, if no record is longer. The worker writes a batch of this size without a Spark job."""

HEAD_BYTES: Final = 1 << 20
"""The size of a file's begin, in which its header must be."""

RESTART_BYTES: Final = 1 << 20
"""The least distance of restart points, in bytes of the content: finding them again costs less than a millisecond each."""

TRUNCATED_SECONDS: Final = 60.0
"""How long a truncated file may not have grown before it is an error: it may still be copied."""


@dataclass(frozen=True, slots=True)
class HeldRange(FileRange):
    """Bytes of a file's content, with the bytes. `line` is the number of the line that begins at `start`."""

    data: bytes = b""
    line: int = 1

    def line_at(self, position: int) -> int:
        """Return the number of the line that begins at a position of the range."""
        return self.line + count_lines(self.data[: position - self.start])


def line_at(part: FileRange, position: int, allowed: AllowedPaths) -> int:
    """Return the number, from 1, of the line that begins at a position in a range of a file. Raises as `line_number`."""
    return part.line_at(position) if isinstance(part, HeldRange) else line_number(part.path, position, allowed)


class _HeldFile(io.BytesIO):
    def __init__(self, held: HeldRange) -> None:
        super().__init__(held.data)
        self._start = held.start

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        return super().seek(position - self._start if whence == io.SEEK_SET else position, whence) + self._start


def open_range(part: FileRange, allowed: AllowedPaths) -> FileIO | io.BytesIO:
    """Open what a range is read from, with positions of the file.

    Raises DataError as `open_file`, and if the path has another file than that of the range.
    """
    if isinstance(part, HeldRange):
        return _HeldFile(part)
    file = open_file(part.path, allowed)
    try:
        if part.known is None or part.known.is_in(file):
            return file
    except OSError as error:
        file.close()
        raise unreadable(part.path, error) from error
    file.close()
    raise DataError(
        f"The path {part.path} got another file before bytes {part.start} to {part.end} of the former one were read: it was "
        "renamed or replaced. If it has a new name that the pattern fits, the task goes on with that; otherwise bring it back"
    )


def head_of(path: str, form: Form, allowed: AllowedPaths) -> HeldRange:
    """Return the begin of a file's content, at most HEAD_BYTES. Raises DataError if it cannot be read."""
    data = bytearray()
    with ContentStream(path, form, allowed) as stream:
        try:
            while len(data) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(data))):
                data += more
        except TruncatedError:
            # Whether the header is whole is for its reader to see.
            pass
    return HeldRange(path, 0, len(data), bytes(data))


class _State(Enum):
    READING = auto()
    ENDED = auto()
    TRUNCATED = auto()
    DAMAGED = auto()


class ContentFile:
    """One file and the position in its content up to which it was returned.

    The end of compressed content is the end of a record; a file that is not compressed may grow. `clock` returns seconds.
    """

    def __init__(  # noqa: PLR0917 - as GrowingFile, with what is more
        self,
        path: str,
        position: int,
        form: Form,
        quoting: Quoting | None,
        batch_bytes: int,
        allowed: AllowedPaths,
        restart: RestartPoint | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.position = position
        self.form = form
        self._quoting = quoting
        self._batch_bytes = batch_bytes
        self._allowed = allowed
        self._clock = clock
        self._state = _State.READING
        self._damage: DataError | None = None
        self._stream: ContentStream | None = None
        self._restart = restart
        # Of parts whose begin was read, but not returned yet.
        self._begun: deque[tuple[int, Place, str]] = deque()
        self._data = bytearray()
        self._line = 1
        # Whether the last byte before the position is a return, and no line feed was there after it.
        self._returned = False
        self._part: Place | None = None
        self._noted = 0
        self.looked_at_size = 0
        """The size of the compressed file when it was opened last."""
        self.seen: Stamp | None = None
        """What the last look at the file saw. Objects have none."""
        self._grew_at = clock()

    @property
    def finished(self) -> bool:
        """Whether nothing at all was left after the position at the last look."""
        return self._state is _State.ENDED and not self._data and not self._within_character

    @property
    def lag(self) -> int:
        """About how many bytes of the content are left: as if the rest of the file were as compressible."""
        read = self._stream.compressed_position if self._stream is not None else 0
        left = 0 if self._state is _State.ENDED else max(0, self.looked_at_size - read)
        return len(self._data) + (left * (self.position + len(self._data)) // read if read else left)

    @property
    def partition(self) -> dict[str, Any]:
        """The file's source partition."""
        return {FILENAME_FIELD: self.path}

    @property
    def offset(self) -> dict[str, Any]:
        """The source offset of the position, with the restart point before it."""
        return {POSITION_FIELD: self.position} | (self._restart.in_offset() if self._restart else {})

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def advance(self, *, whole: bool = False) -> list[FileRange]:
        """Return the next complete records and move the position after them; nothing if there are none.

        `whole` means that the file is complete. Raises DataError for a file that is damaged, truncated or replaced, once
        all that is whole before was returned.
        """
        if self._state is not _State.READING and not self._has_grown():
            if self._state is _State.TRUNCATED:
                self._check_waiting(whole=whole)
            self._check_damage()
            held = self._take(whole=whole) if self._state is _State.ENDED else None
            return [held] if held else []
        stream = self._start() if self._stream is None and self._state is _State.READING else self._stream
        limit = min(self._batch_bytes, HELD_BYTES)
        while True:
            if stream is not None and self._state is _State.READING:
                self._fill(stream, limit)
            if held := self._take(whole=whole):
                return [held]
            self._check_damage()
            if self._state is not _State.READING:
                return []
            if limit >= self._batch_bytes:
                part = FileRange(self.path, self.position, self.position + limit)
                raise no_end_of_record(part, self._data, self._quoting, self._line, of_content=True)
            limit = min(2 * limit, self._batch_bytes)

    def reopen(self, position: int, restart: RestartPoint | None) -> None:
        """Go back to a position, and to the restart point that was before it."""
        self.close()
        self._state, self.position, self._restart = _State.READING, position, restart

    def _has_grown(self) -> bool:
        size = self._file_size()
        if size == self.looked_at_size:
            return False
        self._state, self._grew_at = _State.READING, self._clock()
        if self.form.codec is not None or size < self.looked_at_size:
            self.close()
        self.looked_at_size = size
        return True

    def _file_size(self) -> int:
        try:
            status = os.stat(self.path)  # noqa: PTH116 - called often: spares making a Path each time
        except FileNotFoundError:
            # Removed after it was read; if not, opening it says so.
            return self.looked_at_size
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.seen = stamp_of(status)
        return status.st_size

    def _check_waiting(self, *, whole: bool) -> None:
        if whole or self._clock() - self._grew_at >= TRUNCATED_SECONDS:
            raise DataError(
                f"The file {self.path} is truncated: its {self.looked_at_size} bytes end in the middle of compressed data "
                f"({self.form.codec}). The records up to byte {self.position} of its content are delivered. Bring the whole "
                "file and restart the task: it goes on from there"
            )

    def _start(self) -> ContentStream:
        """Open the file, and read its content up to the position, from the restart point on if there is one."""
        self.looked_at_size = self._file_size()
        point = self._restart = usable(self._restart, self.position, self.form)
        self._stream = stream = opened(self.path, self.form, self._allowed, point)
        self._data.clear()
        self._begun.clear()
        start = point.position if point is not None else 0
        left, self._line, returned = self.position - start, point.line if point is not None else 1, False
        while left:
            try:
                data = stream.read(left)
            except TruncatedError:
                data = b""
            if not data:
                self.close()
                raise DataError(
                    f"The content of the file {self.path} has {self.position - left} bytes, but was read up to byte "
                    f"{self.position}: it was truncated or replaced. Bring the former file back, or reset the "
                    "connector's offsets to read the file that is there from its start"
                )
            left -= len(data)
            # The two characters of one line end, in two reads.
            self._line += count_lines(data) - (returned and data.startswith(b"\n"))
            returned = data.endswith(b"\r")
        self._returned = returned
        self._part, self._noted = stream.part, start
        return stream

    def _fill(self, stream: ContentStream, limit: int) -> None:
        try:
            while len(self._data) < limit:
                data = stream.read(limit - len(self._data))
                if not data:
                    self._state = _State.ENDED
                    if self.form.codec is not None:
                        self._check_character()
                        self.close()
                    return
                self._note_part(stream)
                self._data += data
        except TruncatedError:
            self._state = _State.TRUNCATED
            self.close()
        except DataError as error:
            # What is whole before the damage is returned first.
            self._state, self._damage = _State.DAMAGED, error
            self.close()

    def _note_part(self, stream: ContentStream) -> None:
        """Note where a part begins whose first bytes follow what was read."""
        place = stream.part
        if place is None or place == self._part:
            return
        self._part = place
        position = self.position + len(self._data)
        if position >= self._noted + RESTART_BYTES:
            self._noted = position
            self._begun.append((position, place, stream.fingerprint(place)))

    def _check_damage(self) -> None:
        if self._state is _State.DAMAGED and self._damage is not None:
            raise self._damage

    @property
    def _within_character(self) -> bool:
        return self._stream is not None and self._stream.ends_within_character

    def _check_character(self) -> None:
        if self._within_character:
            self.close()
            raise DataError(
                f"The file {self.path} ends within a character of the encoding {self.form.encoding}: bring the whole file, "
                "or set the property encoding to the file's"
            )

    def _take(self, *, whole: bool) -> HeldRange | None:
        """Return the complete records of what was read."""
        if self._returned and self._data:
            # A line feed belongs to the return.
            self.position += self._data.startswith(b"\n")
            self._data = self._data.removeprefix(b"\n")
            self._returned = False
        length = len(self._data)
        # At the end of a file, the byte of padding after a return tells that the record ends.
        seen = length + (self._state is _State.ENDED and self._data.endswith(b"\r"))
        _, nexts = record_ends(self._data + bytes(PADDING), seen, quoting=self._quoting, position=self.position)
        complete = self._state is _State.ENDED and (whole or self.form.codec is not None)
        if complete:
            self._check_character()
        certain = int(nexts[-1]) if len(nexts) else 0
        end = length if complete else certain
        if not end:
            return None
        if certain < end:
            line = self._line + count_lines(self._data[:certain])
            rest = FileRange(self.path, self.position + certain, self.position + end)
            warn_of_open_end(rest, self._data[certain:], self._quoting, line)
        data = bytes(self._data[:end])
        held = HeldRange(self.path, self.position, self.position + end, data, self._line)
        self._move_restart(held)
        self._returned = end == length and data.endswith(b"\r")
        del self._data[:end]
        self.position += end
        self._line += count_lines(data)
        return held

    def _move_restart(self, held: HeldRange) -> None:
        """Restart from the last part that begins in what is returned, or right after it."""
        while self._begun and self._begun[0][0] <= held.end:
            position, place, fingerprint = self._begun.popleft()
            if position < held.start:
                # It begins with the line feed of a line end that was returned.
                continue
            before = held.data[: position - held.start]
            # A line end in two parts is one.
            cut = before.endswith(b"\r") and self._data[len(before) : len(before) + 1] == b"\n"
            self._restart = RestartPoint(place, position, held.line + count_lines(before) - cut, fingerprint)
