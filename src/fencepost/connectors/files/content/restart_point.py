"""Restart points of compressed files: parts that can be decompressed without the preceding bytes.

The last restart point before the position is in the source offset: `{"position": ..., "restart": "{...}"}`. A start at
a restart point checks that the file is the same, by a hash of bytes before the part; the decompressor verifies the
part's checksum. If the offset has no restart point, or its position is before the restart point, the file is read from
its beginning.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.codecs.compressed_parts import Place
from fencepost.connectors.files.content.codecs.compression import Codec, ContentStream, Form
from fencepost.connectors.files.content.codecs.foreign_content import UTF_8
from fencepost.connectors.files.content.growing import position_of
from fencepost.connectors.files.content.held import HeldRange
from fencepost.connectors.files.content.identity import IDENTITY_FIELD
from fencepost.connectors.files.content.ranges import count_lines

RESTART_FIELD: Final = "restart"

RESTART_BYTES: Final = 1 << 20
"""The minimum distance between restart points, in bytes of the content.

Reading this many bytes again takes less than a millisecond.
"""


@dataclass(frozen=True, slots=True)
class RestartPoint:
    """A part, the position of the part's content in the file's content, and the line number at that position.

    `fingerprint` is a hash of bytes of the file before the part.
    """

    place: Place
    position: int
    line: int
    fingerprint: str

    @classmethod
    def of(cls, path: str, offset: Mapping[str, Any] | None) -> Self | None:
        """Return the point in a committed source offset, None if the offset has none.

        Raises DataError if the restart point is invalid.
        """
        text = (offset or {}).get(RESTART_FIELD)
        if text is None:
            return None
        try:
            fields = json.loads(text)
            point = cls(Place(**fields.pop("place")), **fields)
            bytes.fromhex(point.place.header)
        except (TypeError, ValueError, AttributeError, KeyError):
            point = None
        if point is None or not point._is_valid():  # noqa: SLF001 - of this class
            raise DataError(
                f"The offset of the file {path} has the restart point {text!r}, which is invalid: remove the field "
                f"{RESTART_FIELD}, so that the file is read from its start up to the position"
            )
        return point

    def _is_valid(self) -> bool:
        numbers = (self.place.byte, self.place.bit, self.place.check, self.position, self.line)
        return all(type(number) is int and number >= 0 for number in numbers) and isinstance(self.fingerprint, str)

    def in_offset(self) -> dict[str, str]:
        """Return this as a field of a source offset, whose values cannot be nested."""
        return {RESTART_FIELD: json.dumps(asdict(self))}


class RestartPoints:
    """Finds restart points while content is read. `last` is the last one before the end of the returned content."""

    def __init__(self, last: RestartPoint | None) -> None:
        self.last = last
        # Parts whose first bytes were read from the file, but not returned yet.
        self._begun: deque[tuple[int, Place, str]] = deque()
        self._part: Place | None = None
        self._noted = 0

    def start(self, point: RestartPoint | None, stream: ContentStream, position: int) -> None:
        """Start over with a stream that was opened at a restart point. The stream's content begins at `position`."""
        self.last, self._part, self._noted = point, stream.part, position
        self._begun.clear()

    def note(self, stream: ContentStream, position: int) -> None:
        """If a part begins with the bytes read last, remember it: at most one part for each RESTART_BYTES.

        `position` is the position of these bytes in the content.
        """
        place = stream.part
        if place is None or place == self._part:
            return
        self._part = place
        if position >= self._noted + RESTART_BYTES:
            self._noted = position
            self._begun.append((position, place, stream.fingerprint(place)))

    def move(self, returned: HeldRange, following: bytes) -> None:
        """Set the restart point to the last part that begins within the returned range, or right after it.

        `following` is the next byte.
        """
        while self._begun and self._begun[0][0] <= returned.end:
            position, place, fingerprint = self._begun.popleft()
            if position < returned.start:
                # The part begins with the line feed of a line end that was already returned.
                continue
            size = position - returned.start
            before, after = returned.data[:size], returned.data[size : size + 1] or following
            # A line end whose two characters are in two parts counts once.
            cut = before.endswith(b"\r") and after == b"\n"
            self.last = RestartPoint(place, position, returned.line + count_lines(before) - cut, fingerprint)

    def in_offset(self) -> dict[str, str]:
        """Return the last restart point as a field of a source offset."""
        return self.last.in_offset() if self.last is not None else {}


def check_content_offset(path: str, offset: Mapping[str, Any]) -> None:
    """Raise DataError unless `offset` is a source offset of a text file, compressed or not."""
    position_of(path, offset)
    RestartPoint.of(path, offset)


def usable(point: RestartPoint | None, position: int, form: Form) -> RestartPoint | None:
    """Return the point if a file of this form can be read from the point to a position, else None."""
    compressed = form.codec is not None and form.encoding == UTF_8
    # Offsets of earlier versions may name a block of an xz file; now a part of an xz file is a whole stream.
    begins_here = point is not None and (form.codec is not Codec.XZ or not point.place.header)
    return point if point is not None and begins_here and compressed and point.position <= position else None


def opened(path: str, form: Form, allowed: AllowedPaths, point: RestartPoint | None) -> ContentStream:
    """Open a file at a restart point, or at its beginning.

    Raises DataError if the bytes before the point have changed.
    """
    if point is None:
        return ContentStream(path, form, allowed)
    stream = ContentStream(path, form, allowed, point.place, point.position)
    if stream.fingerprint(point.place) != point.fingerprint:
        stream.close()
        raise replaced(path, point)
    return stream


def replaced(path: str, point: RestartPoint) -> DataError:
    """Return the error for a file that does not match a restart point."""
    return DataError(
        f"The file {path} was replaced by another one, or truncated, after it was read up to byte {point.position} of its "
        "content. Give new content a new name. Bring the former file back, or reset the connector's offsets to read the "
        f"file that is there from its start. If it is the same content, compressed again, remove {RESTART_FIELD} and "
        f"{IDENTITY_FIELD} from its offset"
    )
