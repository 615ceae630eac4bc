"""Decompresses the records of a batch, if wanted up to a limit: a small batch can hold any amount of data.

`records.compression` describes the forms. Brokers accept a batch that Java's streams read, and these streams ignore bytes
after the last whole member of gzip or block of snappy: so does this module.
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
"""The message of cramjam for a buffer that is too small: its errors have one class."""


def decompressed(codec: int, data: bytes, most_bytes: int | None = None) -> bytes | None:
    """Return the content of `data`, None if it has more than `most_bytes`, which then take no memory.

    `codec` is the number in the attributes of a record batch. Raises DataError for an unknown one, and for data that is
    not of the codec.
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
    """Java's clients write xerial's framing (a header, then blocks with their lengths), others one raw block."""
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
        # Pages of the mapping take memory once they are written to.
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
