"""The frames of zstd and lz4 files. The sizes of a frame's blocks show where the frame ends; pyarrow decompresses it.

https://datatracker.ietf.org/doc/html/rfc8878#section-3
https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from typing import Any, Final, cast

import pyarrow as pa

from fencepost.connectors.files.content.codecs.compressed_parts import READ_BYTES, FileBytes, Parts, Place

_MAGIC_BYTES: Final = 4
_MAGIC: Final = {"zstd": 0xFD2FB528, "lz4": 0x184D2204}
_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
_SIZE_BYTES: Final = 4

SKIPPABLE_HEAD: Final = _MAGIC_BYTES + _SIZE_BYTES
"""The number of bytes before the content of a skippable frame."""
_LAST_SIZES: Final = (0, 2, 4, 8)
_DICTIONARY_SIZES: Final = (0, 1, 2, 4)


def is_skippable(head: bytes) -> bool:
    """Return whether a frame with these first bytes, at least 4, is skippable."""
    return len(head) >= _MAGIC_BYTES and int.from_bytes(head[:_MAGIC_BYTES], "little") in _SKIPPABLE


def skippable_size(head: bytes) -> int:
    """Return the size of a skippable frame from its first SKIPPABLE_HEAD bytes."""
    return SKIPPABLE_HEAD + int.from_bytes(head[_MAGIC_BYTES:SKIPPABLE_HEAD], "little")


class _Frame:
    """One frame, as a file that pyarrow reads. `pieces` are the frame's bytes."""

    closed = False

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int) -> bytes:
        # pyarrow itself detects a truncated frame.
        with suppress(EOFError):
            while not self._left and (piece := next(self._pieces, None)) is not None:
                self._left = piece
        data, self._left = self._left[:size], self._left[size:]
        return data

    def close(self) -> None:
        """Do nothing: the owner of the file closes it."""


class Frames(Parts):
    """The frames of a file. `codec` is pyarrow's name of the codec."""

    def __init__(self, file: FileIO, begin: Place, codec: str) -> None:
        super().__init__(begin)
        self._file = file
        self._codec = codec
        self._bytes = FileBytes(file, begin.byte)
        self._stream: Any = None
        self._read = 0
        self._failure: EOFError | OSError | None = None

    def read1(self, size: int) -> bytes:
        """Return the next bytes of a frame."""
        if self._failure is not None:
            raise self._failure
        while self._stream is not None or self._begins_next():
            try:
                data = cast("bytes", self._stream.read(size))
            except OSError as error:
                # After an error pyarrow returns memory that does not contain content, so the stream is not read again.
                self._failure = EOFError() if "Truncated" in str(error) else error
                if data := self._read_before_error():
                    return data
                raise self._failure from None
            if data:
                self._read += len(data)
                return data
            self._stream = None
        return b""

    def _begins_next(self) -> bool:
        """Open the next frame that is not skippable; False at the end of the file."""
        while True:
            begin = self._bytes.position
            magic = self._bytes.take(_MAGIC_BYTES)
            if not magic:
                return False
            number = int.from_bytes(magic, "little")
            if number not in _SKIPPABLE:
                break
            self._skip(int.from_bytes(self._bytes.take_all(_SIZE_BYTES), "little"))
        if len(magic) < _MAGIC_BYTES:
            raise EOFError
        if number != _MAGIC[self._codec]:
            raise OSError(f"no frame begins where one ends, but {magic!r}")
        self.begin, self._read = Place(begin), 0
        self._stream = self._opened(magic)
        return True

    def _skip(self, count: int) -> None:
        while count:
            count -= len(self._bytes.take_all(min(count, READ_BYTES)))

    def _opened(self, magic: bytes) -> Any:
        pieces = self._zstd(magic) if self._codec == "zstd" else self._lz4(magic)
        return pa.CompressedInputStream(pa.PythonFile(_Frame(pieces), "r"), self._codec)

    def _zstd(self, magic: bytes) -> Iterator[bytes]:
        descriptor = yield from self._some(1, magic)
        single = descriptor >> 5 & 1
        size = _LAST_SIZES[descriptor >> 6] or single
        yield from self._piece(1 - single + _DICTIONARY_SIZES[descriptor & 3] + size)
        last = 0
        while not last:
            header = yield from self._some(3)
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            yield from self._piece(1 if kind == 1 else size)
        if descriptor >> 2 & 1:
            yield from self._piece(4)

    def _lz4(self, magic: bytes) -> Iterator[bytes]:
        flags = yield from self._some(1, magic)
        # The rest of the header: the maximum size of a block, the size of the content, the ID of the dictionary, and a
        # checksum.
        yield from self._piece(1 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0) + 1)
        while size := (yield from self._some(4)):
            yield from self._piece((size & 0x7FFFFFFF) + (4 if flags & 16 else 0))
        if flags & 4:
            yield from self._piece(4)

    def _some(self, count: int, before: bytes = b"") -> Any:
        """Yield the next bytes, and return their value as an integer.

        If the file ends within these bytes, no more pieces follow.
        """
        data = self._bytes.take(count)
        yield before + data
        if len(data) < count:
            raise EOFError
        return int.from_bytes(data, "little")

    def _piece(self, count: int) -> Iterator[bytes]:
        while count:
            data = self._bytes.take(min(count, READ_BYTES))
            yield data
            if not data:
                raise EOFError
            count -= len(data)

    def _read_before_error(self) -> bytes:
        """Return the content that can be decompressed before the end or the damage of a frame.

        When a call fails, pyarrow discards the content that this call decompressed. So the frame is read again up to
        the content returned so far, and then byte by byte.
        """
        self._bytes = FileBytes(self._file, self.begin.byte)
        self._stream = self._opened(self._bytes.take(_MAGIC_BYTES))
        left = self._read
        while left:
            left -= len(self._stream.read(min(left, READ_BYTES)))
        data = bytearray()
        with suppress(OSError):
            while byte := self._stream.read(1):
                data += byte
        return bytes(data)
