"""A file that is compressed or not in UTF-8, and the part of its content that was not returned yet.

Positions count bytes of the content in UTF-8. The task decompresses and decodes the file in one pass and one thread,
and its batches contain the bytes: an executor could not start in the middle of the file. To start from a position, the
task reads from the last restart point before it (see `restart_point`), or else from the beginning.

    READING --end of the content--> ENDED ------the file grew------> READING, if compressed from the restart point
       |                                                                ^
       +-------end in the middle--> TRUNCATED --the file grew----------+
                                        |
                                        +--did not grow for a minute, or the file is complete--> DataError

    READING --damaged data--> DAMAGED --the content before the damage was returned--> DataError
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError, RetriableError
from fencepost.connectors.files.content.codecs.compression import ContentStream, Form, TruncatedError
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.growing import FILENAME_FIELD, POSITION_FIELD
from fencepost.connectors.files.content.held import HELD_BYTES, HeldRange
from fencepost.connectors.files.content.identity import Stamp
from fencepost.connectors.files.content.open_ends import no_end_of_record, warn_of_open_end
from fencepost.connectors.files.content.origin import END_FIELD, ContentOrigin
from fencepost.connectors.files.content.ranges import PADDING, FileRange, count_lines, record_ends
from fencepost.connectors.files.content.restart_point import RestartPoint, RestartPoints, opened, usable

TRUNCATED_SECONDS: Final = 60.0
"""A truncated file that has not grown for this time is an error.

Before this time has passed, another program may still be copying the file.
"""


class _State(Enum):
    READING = auto()
    ENDED = auto()
    TRUNCATED = auto()
    DAMAGED = auto()


class ContentFile:
    """One file, and the position in its content up to which the content was returned.

    The end of compressed content, and of an object, is also the end of a record; an uncompressed file may still grow.
    `clock` returns seconds.
    """

    def __init__(  # noqa: PLR0917 - as GrowingFile, with what is more
        self,
        origin: ContentOrigin,
        position: int,
        form: Form,
        quoting: Quoting | None,
        batch_bytes: int,
        allowed: AllowedPaths,
        restart: RestartPoint | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._origin = origin
        self.path = origin.path
        self.position = position
        self.form = form
        self._quoting = quoting
        self._batch_bytes = batch_bytes
        self._allowed = allowed
        self._clock = clock
        self._state = _State.READING
        self._damage: DataError | None = None
        self._stream: ContentStream | None = None
        self._points = RestartPoints(restart)
        self._data = bytearray()
        self._line = 1
        # Whether the last byte before the position is a carriage return that may still be followed by a line feed.
        self._returned = False
        self.looked_at_size = 0
        """The size of the compressed file when it was last opened."""
        self.seen: Stamp | None = None
        """The state of the file when it was last checked."""
        self._grew_at = clock()

    def skip(self) -> None:
        """Regard the file as read to its end, without reading the file."""
        self._state = _State.ENDED

    @property
    def finished(self) -> bool:
        """Whether the position was the end of the content when the file was last checked."""
        return self._state is _State.ENDED and not self._data and not self._within_character

    @property
    def lag(self) -> int:
        """About how many bytes of the content are left, if the rest of the file is as compressible as the start."""
        read = self._stream.compressed_position if self._stream is not None else 0
        left = 0 if self._state is _State.ENDED else max(0, self.looked_at_size - read)
        return len(self._data) + (left * (self.position + len(self._data)) // read if read else left)

    @property
    def partition(self) -> dict[str, Any]:
        """The file's source partition."""
        return {FILENAME_FIELD: self.path}

    @property
    def offset(self) -> dict[str, Any]:
        """The source offset of the position.

        The offset includes the last restart point, and for objects their identity and end.
        """
        end = {END_FIELD: self.position} if self._origin.whole and self.finished else {}
        return {POSITION_FIELD: self.position} | self._points.in_offset() | self._origin.offset | end

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def advance(self, *, whole: bool = False) -> list[FileRange]:
        """Return the next complete records and move the position after them; nothing if there are none.

        `whole` means that the file is complete. Raises DataError for a file that is damaged, truncated or replaced,
        after all complete records before the damage or the end were returned. Raises RetriableError if an object store
        does not answer: the next call then reads again.
        """
        position, restart = self.position, self._points.last
        try:
            found = self._next(whole=whole or self._origin.whole)
            if found:
                self._check_origin()
        except RetriableError:
            self._reopen(position, restart)
            raise
        return found

    def _next(self, *, whole: bool) -> list[FileRange]:
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

    def _check_origin(self, opened_identity: str | None = None) -> None:
        try:
            self._origin.check(self.position, opened_identity)
        except DataError:
            self.close()
            raise

    def _reopen(self, position: int, restart: RestartPoint | None) -> None:
        """Go back to a position, and to the last restart point before it."""
        self.close()
        self._state, self.position, self._points.last = _State.READING, position, restart

    def _has_grown(self) -> bool:
        if self._origin.whole:
            return False
        size = self._file_size()
        if size == self.looked_at_size:
            return False
        self._state, self._grew_at = _State.READING, self._clock()
        if self.form.codec is not None or size < self.looked_at_size:
            self.close()
        self.looked_at_size = size
        return True

    def _file_size(self) -> int:
        stamp = self._origin.stamp()
        if stamp is None:
            # A file that was removed after it was read keeps its last known size. If the file was not read yet, opening
            # it raises the error.
            return self.looked_at_size
        self.seen = stamp
        return stamp[2]

    def _check_waiting(self, *, whole: bool) -> None:
        if whole or self._clock() - self._grew_at >= TRUNCATED_SECONDS:
            raise DataError(
                f"The file {self.path} is truncated: its {self.looked_at_size} bytes end in the middle of compressed data "
                f"({self.form.codec}). The records up to byte {self.position} of its content are delivered. Bring the whole "
                "file and restart the task: it goes on from there"
            )

    def _start(self) -> ContentStream:
        """Open the file, and read its content up to the position, starting at the restart point if there is one."""
        self.looked_at_size = self._file_size()
        point = usable(self._points.last, self.position, self.form)
        self._stream = stream = opened(self.path, self.form, self._allowed, point)
        self._data.clear()
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
                    f"The content of the file {self.path} has {self.position - left} bytes, but its offset says that it is "
                    f"to be read on from byte {self.position}: it was truncated or replaced, or the offset was set for "
                    f"other content. Bring the file of the offset, set the offset {{'{POSITION_FIELD}': <bytes>}} to a byte "
                    "of the content with PATCH /connectors/NAME/offsets, or reset the connector's offsets to read the file "
                    "that is there from its start"
                )
            left -= len(data)
            # The two characters of one line end may be in two reads.
            self._line += count_lines(data) - (returned and data.startswith(b"\n"))
            returned = data.endswith(b"\r")
        self._returned = returned
        self._points.start(point, stream, start)
        self._check_origin(stream.identity)
        return stream

    def _fill(self, stream: ContentStream, limit: int) -> None:
        try:
            while len(self._data) < limit:
                data = stream.read(limit - len(self._data))
                if not data:
                    self._state = _State.ENDED
                    if self.form.codec is None and not self._origin.whole:
                        stream.rest()
                    else:
                        self._check_character()
                        self.close()
                    return
                self._points.note(stream, self.position + len(self._data))
                self._data += data
        except TruncatedError:
            self._state = _State.TRUNCATED
            self.close()
        except DataError as error:
            # Complete records before the damage are returned first.
            self._state, self._damage = _State.DAMAGED, error
            self.close()

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
        """Return the complete records among the bytes that were read."""
        if self._returned and self._data:
            # A line feed here belongs to the carriage return before it.
            self.position += self._data.startswith(b"\n")
            self._data = self._data.removeprefix(b"\n")
            self._returned = False
        length = len(self._data)
        # At the end of a file, a padding byte after a carriage return shows that the record ends.
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
        self._points.move(held, bytes(self._data[end : end + 1]))
        self._returned = end == length and data.endswith(b"\r")
        del self._data[:end]
        self.position += end
        self._line += count_lines(data)
        return held
