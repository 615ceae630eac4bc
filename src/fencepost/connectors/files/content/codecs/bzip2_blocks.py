"""The blocks of bzip2 files.

A block begins at any bit, with a magic number of 48 bits; it ends where the next one begins.

A block is decompressed as a separate stream: the header of its stream, the bits of the block, and a stream footer with
the block's checksum. So the checksum of each block is verified before any of its content is returned.

https://github.com/dsnet/compress/blob/master/doc/bzip2-format.pdf
"""

from __future__ import annotations

import bz2
from io import FileIO
from typing import Final

from fencepost.connectors.files.content.codecs.compressed_parts import READ_BYTES, FileBytes, Parts, Place

_BLOCK: Final = 0x314159265359
_END: Final = 0x177245385090
_NUMBER_BITS: Final = 48
_CHECK_BITS: Final = 32
_HEADER_BYTES: Final = 4

_LONGEST_BYTES: Final = 900_000 * 20 // 8 + (1 << 16)
"""A number of bytes that is larger than any block: 900,000 symbols of 20 bits, and the block's tables."""

# A magic number may begin at any bit of a byte. Each entry has such a bit, and the 5 bytes after the byte in which the
# number begins.
_WHOLE_BYTES: Final = [
    (shift, (number >> shift & (1 << 40) - 1).to_bytes(5, "big")) for number in (_BLOCK, _END) for shift in range(8)
]


class Bzip2Blocks(Parts):
    """The blocks of a bzip2 file of any number of streams, with zeros between and after them."""

    def __init__(self, file: FileIO, begin: Place) -> None:
        super().__init__(begin)
        self._bytes = FileBytes(file, begin.byte)
        self._header = bytes.fromhex(begin.header)
        self._check = begin.check
        # The bytes that were read and not decompressed yet. The next block begins at bit `_at` of the first byte.
        self._data = b""
        self._at = begin.bit
        self._content = b""
        self._returned = 0

    def read1(self, size: int) -> bytes:
        """Return the next bytes of a block."""
        while self._returned == len(self._content):
            if not self._header and not self._begins_stream():
                return b""
            self._next()
        data = self._content[self._returned : self._returned + size]
        self._returned += len(data)
        return data

    def _begins_stream(self) -> bool:
        self._bytes.give_back(self._data)
        self._data, self._at = b"", 0
        if not self._bytes.skip_zeros():
            return False
        header = self._bytes.take_all(_HEADER_BYTES)
        if header[:3] != b"BZh" or header[3:] not in b"123456789":
            raise OSError("Invalid data stream")
        self._header, self._check = header, 0
        return True

    def _next(self) -> None:
        """Decompress the next block, or reach the end of a stream."""
        number = self._bits(self._at, _NUMBER_BITS)
        check = self._bits(self._at + _NUMBER_BITS, _CHECK_BITS)
        if number == _END:
            if check != self._check:
                raise OSError("Invalid data stream: the checksum of its blocks differs")
            self._drop(-(-(self._at + _NUMBER_BITS + _CHECK_BITS) // 8) * 8)
            self._header = b""
            return
        if number != _BLOCK:
            raise OSError("Invalid data stream: no block begins where one ends")
        begin = Place(
            self._bytes.position - len(self._data) + self._at // 8, self._at % 8, self._header.hex(), self._check
        )
        self._content, end = self._decompressed(check)
        self._returned = 0
        self._check = (self._check << 1 | self._check >> 31) & 0xFFFFFFFF ^ check
        self.begin = begin
        self._drop(end)

    def _decompressed(self, check: int) -> tuple[bytes, int]:
        """Return the content of the block and the position of its end, in bits."""
        end, damage = self._at + _NUMBER_BITS, None
        while True:
            try:
                end = self._find(end + 1)
            except (EOFError, OSError) as error:
                raise damage or error from None
            length = end - self._at
            bits = (self._bits(self._at, length) << _NUMBER_BITS | _END) << _CHECK_BITS | check
            length += _NUMBER_BITS + _CHECK_BITS
            padding = -length % 8
            try:
                return bz2.decompress(self._header + (bits << padding).to_bytes((length + padding) // 8, "big")), end
            except (OSError, ValueError) as error:
                # Once in some hundred GB the magic number occurs within a block by chance.
                damage = OSError(str(error))

    def _find(self, start: int) -> int:
        """Return the first bit, from `start` on, at which a block or the end of the stream begins."""
        byte = start // 8
        while True:
            if found := self._candidates(byte, start):
                return min(found)
            byte = max(byte, len(self._data) - _NUMBER_BITS // 8 - 1)
            if len(self._data) > _LONGEST_BYTES:
                raise OSError("Invalid data stream: a block has no end")
            self._more()

    def _candidates(self, byte: int, start: int) -> list[int]:
        """Return positions, in bits and not before `start`, at which a magic number begins.

        These are the first position for each magic number and each of the 8 offsets within a byte. The search starts at
        `byte`, a position in bytes, which is never before the byte with the bit `start`.
        """
        found = []
        for shift, whole in _WHOLE_BYTES:
            middle = self._data.find(whole, byte + 1)
            while middle >= 0 and (at := (middle - 1) * 8 + shift) + _NUMBER_BITS <= len(self._data) * 8:
                if at >= start and self._bits(at, _NUMBER_BITS) in (_BLOCK, _END):
                    found.append(at)
                    break
                middle = self._data.find(whole, middle + 1)
        return found

    def _bits(self, at: int, count: int) -> int:
        first, last = at // 8, -(-(at + count) // 8)
        while len(self._data) < last:
            self._more()
        return int.from_bytes(self._data[first:last], "big") >> (last * 8 - at - count) & (1 << count) - 1

    def _more(self) -> None:
        more = self._bytes.take(READ_BYTES)
        if not more:
            raise EOFError
        self._data += more

    def _drop(self, at: int) -> None:
        self._data, self._at = self._data[at // 8 :], at % 8
