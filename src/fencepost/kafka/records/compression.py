"""The codecs of record batches (https://kafka.apache.org/documentation/#recordbatch, attributes, bits 0-2).

The formats that every Kafka client can read:

- gzip: RFC 1952.
- snappy: the stream of the xerial library that Java's client uses: a header of 16 bytes, then blocks of at most 32 KiB
  of input, each preceded by its compressed length as an int32.
- lz4: a frame whose blocks are independent: Java's client refuses linked ones.
- zstd: a frame (KIP-110).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import StrEnum

import cramjam

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_GZIP_FORMAT = zlib.MAX_WBITS | 16
_KAFKA_LZ4_LEVEL = 1
_KAFKA_ZSTD_LEVEL = 3


class Compression(StrEnum):
    """The values of `compression.type`."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def code(self) -> int:
        """The number of the codec in the attributes of a record batch."""
        return list(Compression).index(self)

    @property
    def levels(self) -> range | None:
        """The configurable levels (`compression.<type>.level`, KIP-390); None for a codec without levels."""
        return _LEVELS.get(self)


_LEVELS = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}


def compress(data: memoryview, compression: Compression, level: int | None = None) -> memoryview:
    """Compress `data`. `level` must be one of the codec's `levels`; None means the level that Kafka prefers."""
    return memoryview(_CODECS[compression](data, level))


def _gzip(data: memoryview, level: int | None) -> bytes:
    # For the same level, zlib takes a third of the CPU time of cramjam's gzip.
    return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_FORMAT)


def _snappy(data: memoryview, _level: int | None) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _lz4(data: memoryview, level: int | None) -> cramjam.Buffer:
    compressor = cramjam.lz4.Compressor(
        level=_KAFKA_LZ4_LEVEL if level is None else level, content_checksum=False, block_linked=False
    )
    compressor.compress(bytes(data))
    return compressor.finish()


def _zstd(data: memoryview, level: int | None) -> cramjam.Buffer:
    return cramjam.zstd.compress(data, level=_KAFKA_ZSTD_LEVEL if level is None else level)


_CODECS: dict[Compression, Callable[[memoryview, int | None], memoryview | cramjam.Buffer | bytes]] = {
    Compression.NONE: lambda data, _level: data,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
