"""The blocks of xz files. `xz -T` writes blocks of about 24 MiB, which is its default since version 5.6.

The sizes of its chunks show where a block ends. It is decompressed as a separate stream: the header of its stream, the
block, and an index and a footer for this block alone. So the decompressor compares its sizes and checksum. The index of
the file is compared with the blocks that were read.

https://tukaani.org/xz/xz-file-format.txt
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from io import FileIO
from typing import Final

from fencepost.connectors.files.content.codecs.compressed_parts import FileBytes, Parts, Place

_HEADER_BYTES: Final = 12
_FOOTER_MAGIC: Final = b"YZ"
# By the number of the check in the stream's header.
_CHECK_BYTES: Final = (0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64)
_VLI_BYTES: Final = 9


class XzBlocks(Parts):
    """The blocks of an xz file of any number of streams, with zeros between and after them."""

    def __init__(self, file: FileIO, begin: Place) -> None:
        super().__init__(begin)
        self._bytes = FileBytes(file, begin.byte)
        self._header = bytes.fromhex(begin.header)
        self._blocks = begin.check
        # The sizes of the stream's blocks that were read: without padding, and of the content.
        self._sizes: list[tuple[int, int]] = []
        self._decompressor: lzma.LZMADecompressor | None = None
        self._pieces: Iterator[bytes] = iter(())

    def read1(self, size: int) -> bytes:
        """Return the next bytes of a block."""
        while True:
            if self._decompressor is None:
                if not self._header and not self._begins_stream():
                    return b""
                if not self._begins_block():
                    continue
            data = self._of_block(size)
            if data:
                return data
            self._decompressor = None

    def _of_block(self, size: int) -> bytes:
        decompressor = self._decompressor
        while decompressor is not None and not decompressor.eof:
            piece = next(self._pieces) if decompressor.needs_input else b""
            if data := decompressor.decompress(piece, size):
                return data
        return b""

    def _begins_stream(self) -> bool:
        if not self._bytes.skip_zeros():
            return False
        header = self._bytes.take_all(_HEADER_BYTES)
        lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(header)
        self._header, self._blocks = header, 0
        self._sizes.clear()
        return True

    def _begins_block(self) -> bool:
        """Begin the next block; False after the last one of a stream, whose end is read."""
        place = Place(self._bytes.position, header=self._header.hex(), check=self._blocks)
        first = self._bytes.take_all(1)
        if first == b"\0":
            self._end_stream()
            self._header = b""
            return False
        self.begin = place
        self._blocks += 1
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        self._pieces = self._stream_of_block(first)
        return True

    def _stream_of_block(self, first: bytes) -> Iterator[bytes]:
        header = first + self._bytes.take_all((first[0] + 1) * 4 - 1)
        yield self._header + header
        compressed = content = 0
        while control := self._bytes.take_all(1)[0]:
            head, of_data, of_content = self._chunk_sizes(control)
            data = self._bytes.take(of_data)
            compressed, content = compressed + len(head) + len(data), content + of_content
            yield head + data
            if len(data) < of_data:
                # The available bytes of the chunk were decompressed.
                raise EOFError
        compressed += 1
        check = _CHECK_BYTES[self._header[7] & 15]
        unpadded = len(header) + compressed + check
        self._sizes.append((unpadded, content))
        yield b"\0" + self._bytes.take_all(-(len(header) + compressed) % 4 + check)
        index = b"\0\1" + _vli(unpadded) + _vli(content)
        index += bytes(-len(index) % 4)
        index += zlib.crc32(index).to_bytes(4, "little")
        ending = (len(index) // 4 - 1).to_bytes(4, "little") + self._header[6:8]
        yield index + zlib.crc32(ending).to_bytes(4, "little") + ending + _FOOTER_MAGIC

    def _chunk_sizes(self, control: int) -> tuple[bytes, int, int]:
        """Return the head of a chunk of LZMA2, and the sizes of its data and of its content."""
        if control < 0x80:
            sizes = self._bytes.take_all(2)
            content = int.from_bytes(sizes, "big") + 1
            return bytes([control]) + sizes, content, content
        sizes = self._bytes.take_all(5 if control >= 0xC0 else 4)
        content = ((control & 0x1F) << 16 | int.from_bytes(sizes[:2], "big")) + 1
        return bytes([control]) + sizes, int.from_bytes(sizes[2:4], "big") + 1, content

    def _end_stream(self) -> None:
        """Read the index and the footer of a stream. Raises LZMAError if they do not match its blocks."""
        index = bytearray(b"\0")

        def take(count: int) -> bytes:
            taken = self._bytes.take_all(count)
            index.extend(taken)
            return taken

        count = _read_vli(take)
        if count != self._blocks:
            raise lzma.LZMAError("Corrupt input data: the index has another number of blocks")
        sizes = [(_read_vli(take), _read_vli(take)) for _ in range(count)]
        take(-len(index) % 4)
        if sizes[count - len(self._sizes) :] != self._sizes or zlib.crc32(index) != _number(self._bytes.take_all(4)):
            raise lzma.LZMAError("Corrupt input data: the index is not that of the blocks")
        footer = self._bytes.take_all(_HEADER_BYTES)
        ending = (len(index) // 4).to_bytes(4, "little") + self._header[6:8]
        if footer != zlib.crc32(ending).to_bytes(4, "little") + ending + _FOOTER_MAGIC:
            raise lzma.LZMAError("Corrupt input data: the footer of a stream is not that of its header")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _vli(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def _read_vli(take: Callable[[int], bytes]) -> int:
    number = 0
    for place in range(_VLI_BYTES):
        byte = take(1)[0]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number
    raise lzma.LZMAError("Corrupt input data: a number in the index is too long")
