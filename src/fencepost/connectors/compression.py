"""Files as streams of their content in UTF-8: decompressed, and decoded from another encoding.

gzip, bzip2, xz, zstd and lz4 are told by content and not by name.

A file may have several members (gzip), streams (bzip2, xz) or frames (zstd, lz4): its content is all of theirs.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from io import FileIO
from typing import Any, Final, Self, cast

import pyarrow as pa

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.scan import open_file, unreadable

UTF_8: Final = "utf-8"

_READ_BYTES: Final = 1 << 16


class Codec(StrEnum):
    """A format of compressed files."""

    GZIP = "gzip"
    BZ2 = "bz2"
    XZ = "xz"
    ZSTD = "zstd"
    LZ4 = "lz4"


_MAGIC: Final = {
    b"\x1f\x8b\x08": Codec.GZIP,
    **{b"BZh%d%b" % (level, begin): Codec.BZ2 for level in range(1, 10) for begin in (b"1AY&SY", b"\x17rE8P\x90")},
    b"\xfd7zXZ\x00": Codec.XZ,
    b"\x28\xb5\x2f\xfd": Codec.ZSTD,
    b"\x04\x22\x4d\x18": Codec.LZ4,
}
"""What files begin with. Of bzip2 with the begin of its first block or, if it is empty, of its end, because BZh alone may be a word."""

_LONGEST: Final = max(map(len, _MAGIC))


class _Streams:
    """The content of a file of several bzip2 or xz streams, with zeros between and after them.

    Python's BZ2File and LZMAFile take a stream that does not begin properly for the end of the file, and zeros, too: the
    streams after that would be lost without an error.
    """

    def __init__(self, file: FileIO, decompressor: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> None:
        self._file = file
        self._new = decompressor
        self._decompressor = decompressor()
        self._pending = b""

    def read1(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end. Raises EOFError if the end is within a stream."""
        while not self._decompressor.eof or self._begins_next():
            if self._decompressor.needs_input and not self._pending:
                self._pending = self._file.read(_READ_BYTES)
                if not self._pending:
                    raise EOFError
            data = self._decompressor.decompress(self._pending, size)
            self._pending = b""
            if data:
                return data
        return b""

    def _begins_next(self) -> bool:
        data = self._decompressor.unused_data.lstrip(b"\0")
        while not data:
            more = self._file.read(_READ_BYTES)
            if not more:
                return False
            data = more.lstrip(b"\0")
        self._decompressor, self._pending = self._new(), data
        return True

    def close(self) -> None:
        """Do nothing: the file is closed by its owner."""


_STREAMS: Final[dict[Codec, Callable[[FileIO], Any]]] = {
    Codec.GZIP: lambda file: gzip.GzipFile(fileobj=file),
    Codec.BZ2: lambda file: _Streams(file, bz2.BZ2Decompressor),
    Codec.XZ: lambda file: _Streams(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
}


def codec_of(path: str, allowed: AllowedPaths) -> tuple[bool, Codec | None]:
    """Return whether a file's first bytes tell if it is compressed, and how: None if it is not.

    A file with too few bytes for that may be the begin of either. Raises DataError if it cannot be read.
    """
    with open_file(path, allowed) as file:
        try:
            head = file.read(_LONGEST)
        except OSError as error:
            raise unreadable(path, error) from error
    for magic, codec in _MAGIC.items():
        if head.startswith(magic):
            return True, codec
    return not any(magic.startswith(head) for magic in _MAGIC), None


class TruncatedError(Exception):
    """Compressed data ends in the middle. What is whole was read before."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a file holds its content. `codec` is None for a file that is not compressed, `encoding` one of Python's."""

    codec: Codec | None
    encoding: str = UTF_8


class ContentStream:
    """The content of a file, read once from its begin. Use it as a context manager."""

    def __init__(self, path: str, form: Form, allowed: AllowedPaths) -> None:
        self._path = path
        self._codec = form.codec
        self._encoding = form.encoding
        self._decoder = None if form.encoding == UTF_8 else codecs.getincrementaldecoder(form.encoding)()
        self._decoded = b""
        self._allowed = allowed
        self._position = 0
        self._failure: EOFError | OSError | None = None
        self._stream: Any = io.BytesIO()
        self._file: FileIO | io.BytesIO = io.BytesIO()
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A task is stopped by another thread than the one that reads.
        self.close()

    @property
    def compressed_position(self) -> int:
        """How many bytes of the file were read: the content up to here is in them."""
        return self._file.tell()

    @property
    def ends_within_character(self) -> bool:
        """Whether the bytes that were read last do not make a character yet."""
        return self._decoder is not None and bool(self._decoder.getstate()[0])

    def read(self, size: int) -> bytes:
        """Return the next bytes of the content, at most `size`; none at its end.

        Raises TruncatedError at the end of a file in the middle of its data, and DataError for damaged data.
        """
        if self._decoder is None:
            return self._read_decompressed(size)
        while not self._decoded and (data := self._read_decompressed(_READ_BYTES)):
            try:
                self._decoded = self._decoder.decode(data).encode()
            except UnicodeError as error:
                raise DataError(
                    f"The file {self._path} is not in the encoding {self._encoding}, before its byte {self._position}: "
                    f"{error}. Set the property encoding to the file's"
                ) from error
        data, self._decoded = self._decoded[:size], self._decoded[size:]
        return data

    def _read_decompressed(self, size: int) -> bytes:
        try:
            data = self._read(min(size, _READ_BYTES))
        except EOFError as error:
            raise TruncatedError from error
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise DataError(
                f"The file {self._path} cannot be read ({self._codec or 'not compressed'}) after byte {self._position} of its "
                f"content: {error}. Bring the right file, or remove this one; what came before is delivered"
            ) from error
        self._position += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        # pyarrow reports a truncated file again.
        with suppress(OSError):
            self._stream.close()
        self._file.close()

    def _open(self) -> None:
        self._file = file = open_file(self._path, self._allowed)
        if self._codec is None:
            self._stream = file
        elif self._codec in _STREAMS:
            self._stream = _STREAMS[self._codec](file)
        else:
            self._stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), self._codec.value)

    def _read(self, size: int) -> bytes:
        if self._codec is None:
            return self._file.read(size)
        if self._codec in _STREAMS:
            return cast("bytes", self._stream.read1(size))
        if self._failure is not None:
            raise self._failure
        try:
            return cast("bytes", self._stream.read(size))
        except OSError as error:
            # After an error pyarrow returns memory that holds no content, so the stream is not read again.
            self._failure = EOFError() if "Truncated" in str(error) else error
            if data := self._read_before_error():
                return data
            raise self._failure from None

    def _read_before_error(self) -> bytes:
        """Return what is whole before the end of a truncated file, or before damage.

        pyarrow drops what a call has decompressed before its error: so read again up to here, and then by the byte.
        """
        self.close()
        self._open()
        left = self._position
        while left:
            left -= len(self._stream.read(min(left, _READ_BYTES)))
        data = bytearray()
        with suppress(OSError):
            while byte := self._stream.read(1):
                data += byte
        return bytes(data)
