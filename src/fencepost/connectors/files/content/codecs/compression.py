"""Files as streams of their content in UTF-8: decompressed, and converted from other encodings.

gzip, bzip2, xz, zstd and lz4 are detected by content, not by file name.

A file may have several members (gzip), streams (bzip2, xz) or frames (zstd, lz4): its content is their concatenated
content. A file can be read from the beginning of each of its parts (see `compressed_parts`).
"""

from __future__ import annotations

import codecs
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from io import BytesIO, FileIO
from typing import Final, Self

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.codecs.bzip2_blocks import Bzip2Blocks
from fencepost.connectors.files.content.codecs.compressed_parts import (
    BEGIN,
    READ_BYTES,
    GzipMembers,
    Parts,
    Place,
    XzStreams,
)
from fencepost.connectors.files.content.codecs.compression_frames import (
    SKIPPABLE_HEAD,
    Frames,
    is_skippable,
    skippable_size,
)
from fencepost.connectors.files.content.codecs.foreign_content import HEAD_BYTES, UTF_8, check_text, may_become_foreign
from fencepost.connectors.files.content.ranges import open_file, unreadable
from fencepost.connectors.files.stores.objects import read_at

_HASHED_BYTES: Final = 4_096
_MOST_SKIPPED: Final = 1_000


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
"""The first bytes of files in each format.

For bzip2 they include the magic number of the first block or, for an empty file, of the stream's end, because the bytes
BZh alone may be the start of a word.
"""


_PARTS: Final[dict[Codec, Callable[[FileIO, Place], Parts]]] = {
    Codec.GZIP: GzipMembers,
    Codec.BZ2: Bzip2Blocks,
    Codec.XZ: XzStreams,
    Codec.ZSTD: lambda file, begin: Frames(file, begin, Codec.ZSTD.value),
    Codec.LZ4: lambda file, begin: Frames(file, begin, Codec.LZ4.value),
}


def codec_of(path: str, encoding: str, allowed: AllowedPaths) -> tuple[bool, Codec | None]:
    """Detect the codec of a file by its first bytes; None stands for an uncompressed file.

    The first result says whether the codec is certain. It is uncertain while the file has too few bytes. Raises
    DataError if the file cannot be read, or is certainly not text in the encoding.
    """
    with open_file(path, allowed) as file:
        return codec_in(file, path, encoding)


def codec_in(file: FileIO | BytesIO, path: str, encoding: str) -> tuple[bool, Codec | None]:
    """Return the same as `codec_of` for an open file, from its start."""
    try:
        head = file.read(HEAD_BYTES)
        if is_skippable(head):
            return _codec_after_skipped(file, head)
    except OSError as error:
        raise unreadable(path, error) from error
    for magic, codec in _MAGIC.items():
        if head.startswith(magic):
            return True, codec
    check_text(path, head, encoding)
    return not may_become_foreign(head) and not any(magic.startswith(head) for magic in _MAGIC), None


def _codec_after_skipped(file: FileIO | BytesIO, head: bytes) -> tuple[bool, Codec]:
    """Return the same as `codec_of` for a file that begins with skippable frames, which both zstd and lz4 have."""
    place = 0
    for _ in range(_MOST_SKIPPED):
        if len(head) < SKIPPABLE_HEAD:
            return False, Codec.ZSTD
        place += skippable_size(head)
        head = read_at(file, SKIPPABLE_HEAD, place)
        if len(head) == SKIPPABLE_HEAD and not is_skippable(head):
            break
    return True, _MAGIC.get(head[:4], Codec.ZSTD)


class TruncatedError(Exception):
    """Compressed data ends too early. All complete data before its end was already read."""


@dataclass(frozen=True, slots=True)
class Form:
    """The encoding of a file's content. `codec` is None for an uncompressed file, `encoding` is a Python codec name."""

    codec: Codec | None
    encoding: str = UTF_8


class ContentStream:
    """The content of a file, read once from the beginning of a part. Use it as a context manager.

    `position` is the position in the file's content at which the part's content begins.
    """

    def __init__(self, path: str, form: Form, allowed: AllowedPaths, begin: Place = BEGIN, position: int = 0) -> None:
        self._path = path
        self._allowed = allowed
        self._codec = form.codec
        self._encoding = form.encoding
        self._decoder = None if form.encoding == UTF_8 else codecs.getincrementaldecoder(form.encoding)()
        self._decoded = b""
        self._position = position
        self._file = open_file(path, allowed)
        # After `rest` closed an uncompressed file, reading continues at this position.
        self._rests_at = 0
        self._parts = None if form.codec is None else _PARTS[form.codec](self._file, begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The stop of a task does not close the stream, because another thread may still read it.
        with suppress(AttributeError):
            self.close()

    @property
    def compressed_position(self) -> int:
        """The number of bytes read from the file. All content that was returned so far comes from these bytes."""
        return self._rests_at if self._file.closed else self._file.tell()

    @property
    def identity(self) -> str:
        """The identity of an object."""
        return str(getattr(self._file, "identity", ""))

    @property
    def part(self) -> Place | None:
        """The part that contains the bytes read last.

        The value is None if the file is not in UTF-8: then positions in the content of the parts differ from positions
        in the content in UTF-8.
        """
        return None if self._parts is None or self._decoder is not None else self._parts.begin

    def fingerprint(self, place: Place) -> str:
        """Return a hash of some of the bytes before a part. Raises DataError if they cannot be read."""
        ends = min(place.byte, _HASHED_BYTES)
        try:
            before = [read_at(self._file, ends, at) for at in (0, place.byte - ends)]
        except OSError as error:
            raise unreadable(self._path, error) from error
        return blake2b(b"".join(before), digest_size=8).hexdigest()

    @property
    def ends_within_character(self) -> bool:
        """Whether the bytes that were read last end within a character."""
        return self._decoder is not None and bool(self._decoder.getstate()[0])

    def read(self, size: int) -> bytes:
        """Return the next bytes of the content, at most `size`, all from one part; no bytes at the end of the content.

        Raises TruncatedError if the file ends in the middle of its compressed data, and DataError for damaged data.
        """
        if self._decoder is None:
            return self._read_decompressed(size)
        while not self._decoded and (data := self._read_decompressed(READ_BYTES)):
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
        size = min(size, READ_BYTES)
        if self._file.closed:
            self._file = open_file(self._path, self._allowed)
            self._file.seek(self._rests_at)
        try:
            data = self._file.read(size) if self._parts is None else self._parts.read1(size)
        except EOFError as error:
            raise TruncatedError from error
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise DataError(
                f"The file {self._path} cannot be read ({self._codec or 'not compressed'}) after byte {self._position} of its "
                f"content: {error}. Bring the right file, or remove this one; the content before it is delivered"
            ) from error
        if self._position == 0 and self._codec is not None:
            self._check_begin(data)
        self._position += len(data)
        return data

    def _check_begin(self, data: bytes) -> None:
        inside = next((codec for magic, codec in _MAGIC.items() if data.startswith(magic)), None)
        inside = Codec.ZSTD if is_skippable(data) else inside
        if inside is not None:
            raise DataError(
                f"The file {self._path} is compressed twice, as {inside} in {self._codec}. Decompress it once"
            )
        check_text(self._path, data, self._encoding)

    def rest(self) -> None:
        """Close an uncompressed file until the next read.

        The next read continues in the file that is then at the path.
        """
        self._rests_at = self._file.tell()
        self._file.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
