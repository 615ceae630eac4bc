r"""Finds where records end in a file: blocks of complete records, and ranges of a file that end at a record's end.

A record ends at `\n`, `\r` or `\r\n`. A `\r` that is the last available byte does not end a record yet, because a `\n`
may follow. With `quoting`, a line end within quotes, or after an escape character, is part of a field: see
`csv_quotes`.

Memory is bounded by the longest record; a file is never read as a whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO, FileIO
from typing import Final, Protocol, cast

import numpy as np

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.connectors.files.content.csv_quotes import (
    BYTE_ORDER_MARK,
    Bytes,
    Positions,
    Quoting,
    outside_quotes,
    positions_of,
    without_escaped,
)
from fencepost.connectors.files.stores.objects import ObjectFile, is_object

BLOCK_BYTES: Final = 1 << 20
"""The size of one read. It fits into a processor's second-level cache together with its result."""

PADDING: Final = 16
"""The number of readable but meaningless bytes after a block's data."""

_BACKWARD_BYTES: Final = 1 << 16
_LF: Final = 10
_CR: Final = 13


class KnownFile(Protocol):
    """The identity of a file."""

    def is_in(self, file: FileIO) -> bool:
        """Return whether an open file is the file of this identity. Raises OSError."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """The bytes of a file from `start` to `end`; a split of a batch.

    `known` identifies the file; None accepts any file at the path.
    """

    path: str
    start: int
    end: int
    known: KnownFile | None = field(default=None, kw_only=True)

    @property
    def size(self) -> int:
        """The number of bytes in the range."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Block:
    """Complete records. `data` is reused for the next block; PADDING more bytes follow it.

    Record i reaches from `starts[i]` to `ends[i]`, without its terminator; all positions count from the start of
    `data`. `offset` is the position of the start of `data` in the file. `length` is the end of the last record
    including its terminator.
    """

    offset: int
    data: bytearray
    starts: Positions
    ends: Positions
    length: int

    @classmethod
    def of(cls, record: bytes) -> Block:
        """Return a block of a single record."""
        data = bytearray(record) + bytes(PADDING)
        return cls(0, data, np.zeros(1, np.int64), np.full(1, len(record), np.int64), len(record))


def record_ends(
    data: bytearray, length: int, *, quoting: Quoting | None = None, position: int = 0
) -> tuple[Positions, Positions]:
    """Return the ends of the records in the first `length` bytes, and for each end the start of the next record.

    `data` begins at the start of a record, at `position` of the file. A record whose end is not certain yet is omitted.
    """
    plain = np.frombuffer(data, np.uint8, length)
    quote, escape = (quoting.quote, quoting.escape) if quoting is not None else (None, None)
    if escape is not None:
        plain = without_escaped(plain, escape)
    if data.find(b"\r", 0, length) < 0:
        ends = positions_of(plain, _LF)
        nexts = ends + 1
    else:
        ends, nexts = _ends_with_returns(plain)
    if quoting is not None and quote is not None and data.find(quote, 0, length) >= 0:
        outside = outside_quotes(plain, ends, quoting, after_mark(data, position))
        ends, nexts = ends[outside], nexts[outside]
    return ends, nexts


def after_mark(data: bytes | bytearray, position: int) -> int:
    """Return where the text in `data` starts: after the byte order mark, if the file has one, and `position` is 0."""
    return len(BYTE_ORDER_MARK) if position == 0 and data.startswith(BYTE_ORDER_MARK) else 0


def _ends_with_returns(array: Bytes) -> tuple[Positions, Positions]:
    terminators = positions_of(array, _LF, _CR)
    returns = array[terminators] == _CR
    followed = np.zeros(len(terminators), np.bool_)
    followed[:-1] = returns[:-1] & ~returns[1:] & (np.diff(terminators) == 1)
    keep = np.ones(len(terminators), np.bool_)
    keep[1:] = ~followed[:-1]
    if len(terminators) and returns[-1] and terminators[-1] == len(array) - 1:
        keep[-1] = False
    return terminators[keep], (terminators + 1 + followed)[keep]


def count_lines(data: bytes | bytearray) -> int:
    """Return the number of line ends in `data`. No line end may be split at the start or the end of `data`."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def open_file(path: str, allowed: AllowedPaths) -> FileIO:
    """Open a file for reading, or an object by its URL. The result has the methods of FileIO that are used here.

    Raises DataError if there is no file, or if it cannot be read or is not allowed. Raises StaleFileError if a file
    server has removed the file, and RetriableError if an object store does not answer.
    """
    if is_object(path):
        return cast("FileIO", open_object(path, allowed))
    try:
        return allowed.open(path)
    except ConfigError as error:
        raise DataError(str(error)) from error
    except FileNotFoundError:
        raise DataError(
            f"The file {path} does not exist on {os.uname().nodename}. It must be at this path on the worker and on "
            "every Spark executor, for example on a shared file system"
        ) from None
    except OSError as error:
        raise unreadable(path, error) from error


def open_object(url: str, allowed: AllowedPaths) -> ObjectFile:
    """Open an object by its URL. Raises the errors of `open_file`."""
    try:
        allowed.check_url(url)
        return ObjectFile(url)
    except ConfigError as error:
        raise DataError(str(error)) from error
    except FileNotFoundError:
        raise DataError(
            f"The object {url} does not exist: bring it back, or reset the connector's offsets if it is not to be read"
        ) from None
    except OSError as error:
        raise unreadable(url, error) from error


class StaleFileError(RetriableError):
    """The server of a network file system removed or replaced a file during a check.

    A later check shows which file is at the path.
    """


def unreadable(path: str, error: OSError) -> DataError | StaleFileError:
    """Return the error for an existing file that cannot be read."""
    if error.errno == errno.ESTALE:
        return StaleFileError(
            f"The file {path} was removed or replaced on its file server while it was read ({error.strerror}): it is looked "
            "at again"
        )
    return DataError(
        f"The file {path} cannot be read: {error.strerror}. "
        "Give the worker's operating system user the right to read it, and make sure that it is a regular file"
    )


def read_blocks(
    file: FileIO | BytesIO,
    part: FileRange,
    *,
    quoting: Quoting | None = None,
    finished: bool,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yield the complete records of a part of a file that begins at the start of a record.

    `finished` means that the part ends at the end of a record, even without a terminator. Raises DataError if the file
    is too short to contain the part.
    """
    data = bytearray(min(block_bytes, part.size) + PADDING)
    begin, filled = part.start, 0
    while begin + filled < part.end:
        wanted = min(len(data) - PADDING, part.end - begin)
        _fill(file, memoryview(data)[filled:wanted], begin + filled, part)
        filled = wanted
        last = finished and begin + filled == part.end
        block = _whole_records(data, filled, begin, quoting=quoting, last=last)
        if block is None:
            data = _grown(data)
            continue
        yield block
        rest = filled - block.length
        data[:rest] = data[block.length : filled]
        begin, filled = begin + block.length, rest


def _grown(data: bytearray) -> bytearray:
    """Return a buffer of twice the size. The old one cannot be extended because a view of it may be in use."""
    return data[:-PADDING] + bytearray(len(data))


def _fill(file: FileIO | BytesIO, view: memoryview, position: int, part: FileRange) -> None:
    """Read from `position` of the file into `view` until it is full."""
    filled = 0
    while filled < len(view):
        try:
            file.seek(position + filled)
            count = file.readinto(view[filled:])
        except OSError as error:
            raise unreadable(part.path, error) from error
        if not count:
            raise DataError(
                f"The file {part.path} ended at byte {position + filled} while bytes {part.start} to {part.end} were "
                "read: it was truncated or replaced. Files that are read may only grow"
            )
        filled += count


def _whole_records(data: bytearray, filled: int, begin: int, *, quoting: Quoting | None, last: bool) -> Block | None:
    seen = filled
    if last:
        # No line feed follows a carriage return at the end of the part.
        data[filled] = 0
        seen += 1
    ends, nexts = record_ends(data, seen, quoting=quoting, position=begin)
    length = int(nexts[-1]) if len(nexts) else 0
    if last and length < filled:
        ends = np.append(ends, filled)
        nexts = np.append(nexts, filled)
        length = filled
    if not len(ends):
        return None
    starts = np.empty(len(ends), np.int64)
    starts[0] = 0
    starts[1:] = nexts[:-1]
    return Block(begin, data, starts, ends, length)


def last_line_end(file: FileIO | BytesIO, part: FileRange, size: int) -> int:
    """Return the last position in a part at which a line has just ended. `size` is the file's size in bytes.

    The result is `part.start` if no line ends in the part. Reads backwards, starting with the byte after the part, if
    any.
    """
    high = part.end
    while high > part.start:
        low = max(part.start, high - _BACKWARD_BYTES)
        length = min(high + 1, size) - low
        data = bytearray(length)
        _fill(file, memoryview(data), low, part)
        if b"\r" not in data:
            end = data.rfind(b"\n", 0, high - low) + 1
            if end:
                return low + end
            high = low
            continue
        nexts = record_ends(data, length)[1]
        nexts = nexts[nexts <= high - low]
        if len(nexts):
            return low + int(nexts[-1])
        high = low
    return part.start


def split_lines(file: FileIO | BytesIO, part: FileRange, split_bytes: int) -> list[FileRange]:
    """Cut a part, which ends at a line end, at other line ends into parts of about `split_bytes`, in order."""
    splits, start = [], part.start
    for target in range(part.start + split_bytes, part.end, split_bytes):
        end = last_line_end(file, FileRange(part.path, start, target), part.end)
        if end > start:
            splits.append(FileRange(part.path, start, end))
            start = end
    if start < part.end:
        splits.append(FileRange(part.path, start, part.end))
    return splits


def scan_records(
    file: FileIO | BytesIO,
    part: FileRange,
    size: int,
    *,
    quoting: Quoting | None,
    split_bytes: int,
    most: int | None = None,
) -> list[FileRange]:
    """Return up to `most` complete records of a part, in ranges as in `split_lines`. `size` is the size of the file.

    Reads forward from the part's start, because finding quotes and counting records require it.
    """
    splits: list[FileRange] = []
    start = end = part.start
    peeked = FileRange(part.path, part.start, min(part.end + 1, size))
    for block in read_blocks(file, peeked, quoting=quoting, finished=False):
        bounds = block.offset + np.append(block.starts[1:], block.length)
        bounds = bounds[bounds <= part.end][:most]
        if most is not None:
            most -= len(bounds)
        for bound in _cuts(bounds, start, split_bytes):
            splits.append(FileRange(part.path, start, bound))
            start = bound
        end = int(bounds[-1]) if len(bounds) else end
        if most == 0:
            break
    if start < end:
        splits.append(FileRange(part.path, start, end))
    return splits


def _cuts(bounds: Positions, start: int, split_bytes: int) -> Iterator[int]:
    """Yield the bounds of the splits: each bound is the first record end at which the split has reached its size."""
    index = 0
    while (index := int(np.searchsorted(bounds, start + split_bytes))) < len(bounds):
        start = int(bounds[index])
        yield start
