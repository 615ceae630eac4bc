"""Decompresses the records of a batch, optionally up to a limit: a small batch can contain any amount of data.

`records.compression` describes the formats. Brokers accept every batch that Java's streams can read. These streams
ignore bytes after the last complete member of gzip or block of snappy, so this module ignores them, too.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam
from kafka.record.default_records import DefaultRecordBatch

from fencepost.api.errors import DataError

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">i")
_GZIP_FORMAT: Final = zlib.MAX_WBITS | 16
_GZIP_MAGIC: Final = b"\x1f\x8b"

_NO_ROOM: Final = "failed to write whole buffer"
"""Cramjam's message for a buffer that is too small. All of cramjam's errors have one class, so only messages differ."""


def decompressed(codec: int, data: bytes, most_bytes: int | None = None) -> bytes | None:
    """Return the content of `data`.

    The result is None if the content has more than `most_bytes`. Content that is too large is not kept in memory.

    `codec` is the number in the attributes of a record batch. Raises DataError for an unknown codec, and for data that
    it cannot decompress.
    """
    if codec not in _CODECS:
        raise DataError(f"A record batch is compressed with codec {codec}, which is unknown: upgrade fencepost")
    whole, limited = _CODECS[codec]
    try:
        return whole(data) if most_bytes is None else limited(data, most_bytes)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise DataError(f"A record batch cannot be decompressed: {error}") from error


def _gunzip(data: bytes, most_bytes: int | None = None) -> bytes | None:
    content = bytearray()
    while True:
        member = zlib.decompressobj(_GZIP_FORMAT)
        content += member.decompress(data, 0 if most_bytes is None else most_bytes + 1 - len(content))
        if most_bytes is not None and len(content) > most_bytes:
            return None
        if not member.eof:
            raise DataError("A record batch cannot be decompressed: a member of gzip has no end")
        data = member.unused_data
        if not data.startswith(_GZIP_MAGIC):
            return bytes(content)


def _unsnappy(data: bytes) -> bytes:
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in _snappy_blocks(data))


def _unsnappy_up_to(data: bytes, most_bytes: int) -> bytes | None:
    size = sum(cramjam.snappy.decompress_raw_len(block) for block in _snappy_blocks(data))
    return None if size > most_bytes else _unsnappy(data)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """Yield the blocks.

    Java's clients write xerial's framing: a header, then blocks with lengths. Other clients write one block without
    framing.
    """
    if not data.startswith(_XERIAL_MAGIC):
        yield data
        return
    position = _XERIAL_HEADER_BYTES
    while position + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        if length < 0:
            raise DataError(f"A record batch cannot be decompressed: a block of snappy has {length} bytes")
        position += _LENGTH.size
        yield data[position : position + length]
        position += length


def _in_room(into: Callable[[bytes, Any], int]) -> Callable[[bytes, int], bytes | None]:
    def limited(data: bytes, most_bytes: int) -> bytes | None:
        # The buffer is an anonymous mapping: its pages take memory only when they are written.
        with mmap.mmap(-1, most_bytes) as room:
            try:
                return room[: into(data, room)]
            except cramjam.DecompressionError as error:
                if _NO_ROOM in str(error):
                    return None
                raise

    return limited


_CODECS: Final[dict[int, tuple[Callable[[bytes], bytes | None], Callable[[bytes, int], bytes | None]]]] = {
    DefaultRecordBatch.CODEC_GZIP: (_gunzip, _gunzip),
    DefaultRecordBatch.CODEC_SNAPPY: (_unsnappy, _unsnappy_up_to),
    DefaultRecordBatch.CODEC_LZ4: (
        lambda data: bytes(cramjam.lz4.decompress(data)),
        _in_room(cramjam.lz4.decompress_into),
    ),
    DefaultRecordBatch.CODEC_ZSTD: (
        lambda data: bytes(cramjam.zstd.decompress(data)),
        _in_room(cramjam.zstd.decompress_into),
    ),
}
