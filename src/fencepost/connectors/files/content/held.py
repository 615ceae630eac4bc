"""Ranges of a file whose bytes are in memory, next to ranges whose bytes are read from the file."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from itertools import groupby
from typing import Final, TypeVar, cast

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError, RetriableError
from fencepost.api.record import ArrowReader
from fencepost.connectors.files.content.codecs.compression import ContentStream, Form, TruncatedError
from fencepost.connectors.files.content.line_numbers import line_number
from fencepost.connectors.files.content.ranges import FileRange, count_lines, open_file, unreadable

AnySplit = TypeVar("AnySplit")

HELD_BYTES: Final = 4 << 20
"""The maximum number of bytes in memory of one batch, unless a record is longer.

The worker writes a batch of this size without a Spark job.
"""

GROUP_BYTES: Final = 1 << 20
"""The maximum size of a group of ranges, unless one range is larger. Lines are read in blocks of this size, too."""

HEAD_BYTES: Final = 1 << 20
"""The header of a file must be within this number of bytes at its start."""


@dataclass(frozen=True, slots=True)
class HeldRange(FileRange):
    """A range of a file's content, in memory as `data`. `line` is the number of the line that begins at `start`."""

    data: bytes = b""
    line: int = 1

    def line_at(self, position: int) -> int:
        """Return the number of the line that begins at a position of the range."""
        return self.line + count_lines(self.data[: position - self.start])


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """Ranges of small files in memory. They are read together because each read has a fixed cost, whatever its size."""

    parts: tuple[HeldRange, ...]

    def whole(self) -> HeldRange:
        """Return all of the parts' records as one range. Positions in this range are not positions in any file."""
        data = b"".join(part.data if part.data.endswith(b"\n") else part.data + b"\n" for part in self.parts)
        return HeldRange(self.parts[0].path, 0, len(data), data)

    def part_of(self, row: int, reader: ArrowReader) -> tuple[HeldRange, int]:
        """Return the part that contains a row, given the row's number from 0, and the row's number in the part.

        Raises DataError if no part contains the row.
        """
        for part in self.parts:
            count = sum(batch.num_rows for batch in reader.read(part))
            if row < count:
                return part, row
            row -= count
        raise DataError("The files of a batch have fewer rows than before")


def grouped(splits: Iterable[AnySplit]) -> Iterator[AnySplit | HeldRange | HeldGroup]:
    """Yield splits in their order; neighbouring splits in memory are joined to groups of at most GROUP_BYTES."""
    for in_memory, run in groupby(splits, lambda split: isinstance(split, HeldRange)):
        if in_memory:
            yield from _groups(cast("Iterator[HeldRange]", run))
        else:
            yield from run


def _groups(parts: Iterable[HeldRange]) -> Iterator[HeldRange | HeldGroup]:
    group: list[HeldRange] = []
    size = 0
    for part in parts:
        if group and size + part.size > GROUP_BYTES:
            yield _group(group)
            group, size = [], 0
        group.append(part)
        size += part.size
    yield _group(group)


def _group(parts: list[HeldRange]) -> HeldRange | HeldGroup:
    return HeldGroup(tuple(parts)) if len(parts) > 1 else parts[0]


def held_range(part: FileRange, content: bytes) -> HeldRange:
    """Return a range of a file whose whole content is in memory."""
    line = 1 + count_lines(content[: part.start])
    return HeldRange(part.path, part.start, part.end, content[part.start : part.end], line)


def line_at(part: FileRange, position: int, allowed: AllowedPaths) -> int:
    """Return the number, from 1, of the line that begins at a position in a range of a file.

    Raises the same errors as `line_number`.
    """
    return part.line_at(position) if isinstance(part, HeldRange) else line_number(part.path, position, allowed)


class FileMovedError(DataError, RetriableError):
    """Another file came to a path before a range of the old file was read.

    After a restart, the task may find the old file under a new name.
    """


class _HeldFile(io.BytesIO):
    def __init__(self, held: HeldRange) -> None:
        super().__init__(held.data)
        self._start = held.start

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        return super().seek(position - self._start if whence == io.SEEK_SET else position, whence) + self._start


def open_range(part: FileRange, allowed: AllowedPaths) -> FileIO | io.BytesIO:
    """Open the file or the memory that holds a range's bytes. In both cases, positions are positions in the file.

    Raises DataError as `open_file` does, and FileMovedError if another file is now at the path.
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
    raise FileMovedError(
        f"The path {part.path} got another file before bytes {part.start} to {part.end} of the former one were read: it was "
        "renamed or replaced. If it has a new name that the pattern fits, the task goes on with that; otherwise bring it back"
    )


def head_of(path: str, form: Form, allowed: AllowedPaths) -> HeldRange:
    """Return the first bytes of a file's content, at most HEAD_BYTES. Raises DataError if it cannot be read."""
    data = bytearray()
    with ContentStream(path, form, allowed) as stream:
        try:
            while len(data) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(data))):
                data += more
        except TruncatedError:
            # The caller, which parses the header, finds out whether these bytes contain the whole header.
            pass
    return HeldRange(path, 0, len(data), bytes(data))
