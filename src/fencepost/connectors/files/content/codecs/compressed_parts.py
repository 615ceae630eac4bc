"""The independently decompressible parts of a compressed file: where they begin, and their content in order.

A part is a member (gzip), a stream (xz), a block (bzip2) or a frame (zstd, lz4). A reader that knows where a part
begins can start there, without the bytes before it. The content of a file is the content of all its parts in order.
"""

from __future__ import annotations

import lzma
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from io import FileIO
from typing import Any, Final

READ_BYTES: Final = 1 << 16

_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Place:
    """The beginning of a part: a bit of a byte of the file, where bit 0 is the highest.

    For bzip2, two values from before the block are needed: `header`, the header of the block's stream in hexadecimal,
    and `check`, the checksum of the stream's blocks so far, which is compared at the end of the stream.
    """

    byte: int
    bit: int = 0
    header: str = ""
    check: int = 0


BEGIN: Final = Place(0)


class Parts(ABC):
    """The content of a file, starting at a part.

    `begin` is the beginning of the part that contains the bytes returned last.
    """

    def __init__(self, begin: Place) -> None:
        self.begin = begin

    @abstractmethod
    def read1(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, all from one part; an empty result at the end.

        Raises EOFError if the file ends within a part, and OSError, zlib.error or lzma.LZMAError for damaged data.
        """


class FileBytes:
    """The bytes of a file from a position on, for readers that take them in small pieces."""

    def __init__(self, file: FileIO, position: int) -> None:
        file.seek(position)
        self._file = file
        self._data = b""
        self._used = 0
        self.position = position
        """The position of the next byte."""

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer than `count` only at the end of the file."""
        if self._used + count > len(self._data):
            self._fill(count)
        taken = self._data[self._used : self._used + count]
        self._used += len(taken)
        self.position += len(taken)
        return taken

    def take_all(self, count: int) -> bytes:
        """Return the next bytes. Raises EOFError if there are fewer."""
        taken = self.take(count)
        if len(taken) < count:
            raise EOFError
        return taken

    def give_back(self, unused: bytes) -> None:
        """Take back the last bytes that were returned."""
        self._data, self._used = unused + self._data[self._used :], 0
        self.position -= len(unused)

    def skip_zeros(self) -> bool:
        """Skip padding zeros, and return whether any bytes follow them."""
        while self._used < len(self._data) or self._fill(1):
            rest = self._data[self._used :]
            left = len(rest.lstrip(b"\0"))
            self._used += len(rest) - left
            self.position += len(rest) - left
            if left:
                return True
        return False

    def _fill(self, count: int) -> bool:
        parts = [self._data[self._used :]]
        while sum(map(len, parts)) < count and (more := self._file.read(READ_BYTES)):
            parts.append(more)
        self._data, self._used = b"".join(parts), 0
        return bool(self._data)


class _Members(Parts):
    """Members in sequence, with zeros between and after them."""

    def __init__(self, file: FileIO, begin: Place) -> None:
        super().__init__(begin)
        self._bytes = FileBytes(file, begin.byte)
        self._decompressor = self._new()

    @abstractmethod
    def _new(self) -> Any:
        """Return a decompressor of one member."""

    @abstractmethod
    def _decompress(self, size: int) -> bytes:
        """Return at most `size` bytes, none if more input is needed first."""

    def read1(self, size: int) -> bytes:
        """Return the next bytes of a member. At the end of a member its checksum is verified."""
        while not self._decompressor.eof or self._begins_next():
            if data := self._decompress(size):
                return data
        return b""

    def _input(self) -> bytes:
        data = self._bytes.take(READ_BYTES)
        if not data:
            raise EOFError
        return data

    def _begins_next(self) -> bool:
        self._bytes.give_back(self._decompressor.unused_data)
        if not self._bytes.skip_zeros():
            return False
        self.begin = Place(self._bytes.position)
        self._decompressor = self._new()
        return True


class GzipMembers(_Members):
    """The members of a gzip file (RFC 1952)."""

    def _new(self) -> Any:
        self._pending = b""
        return zlib.decompressobj(_GZIP_WINDOW_BITS)

    def _decompress(self, size: int) -> bytes:
        data: bytes = self._decompressor.decompress(self._pending, size)
        self._pending = self._decompressor.unconsumed_tail
        if not data and not self._pending and not self._decompressor.eof:
            self._pending = self._input()
        return data


class XzStreams(_Members):
    """The streams of an xz file (https://tukaani.org/xz/xz-file-format.txt).

    `lzma.open` is not used, because it ignores damage between streams.
    """

    def _new(self) -> Any:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ)

    def _decompress(self, size: int) -> bytes:
        data: bytes = self._decompressor.decompress(self._input() if self._decompressor.needs_input else b"", size)
        return data
