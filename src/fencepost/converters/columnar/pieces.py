"""Builds rows of bytes from pieces, a column at a time.

A row is a sequence of pieces. Each piece has its bytes for all rows, and its length in each row. The positions in the
result follow from the lengths. Then each piece is copied to its positions, for all rows together:

    lengths        piece 0   piece 1   piece 2     one column of numbers each
    row r          [......|.........|........]     at = sum of the rows before + the pieces before

NumPy copies 16 bytes of a row as fast as one. So a piece of up to 16 bytes is copied together with the bytes that
follow it in its source; the next piece then overwrites the surplus. At the end of a row the surplus would overwrite the
start of the next row: that row's bytes are saved before, and restored afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]

WIDE: Final = 16
"""The number of bytes that are copied together."""

_LADDER: Final = (4096, 256, 16)
"""Long pieces are copied in blocks of these numbers of bytes."""
_EXACT: Final = (8, 4, 2, 1)
_LONGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RowPiece:
    """A part of each row: `lengths` bytes of `source`, from `starts` on.

    `source` has at least WIDE bytes after each start.

    If `starts` is None, the source has WIDE bytes for each row.
    """

    lengths: Array
    source: Array
    starts: Array | None
    least: int
    most: int

    @classmethod
    def of(cls, lengths: Array, source: Array, starts: Array | None = None) -> RowPiece:
        """Return a piece; its lengths may differ from row to row."""
        least = int(lengths.min()) if len(lengths) else 0
        most = int(lengths.max()) if len(lengths) else 0
        return cls(lengths, source, starts, least, most)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows of bytes, one after the other. `data` is WIDE bytes longer than the rows together."""

    data: Array
    offsets: Array

    def as_binary(self, nulls: Array | None) -> pa.Array:
        """Return the rows as a `binary` array, null where `nulls` is true."""
        bitmap = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        offsets = pa.py_buffer(self.offsets.astype(np.int32))
        data = pa.py_buffer(self.data)
        return pa.Array.from_buffers(pa.binary(), len(self.offsets) - 1, [bitmap, offsets, data])


def put_together(pieces: Sequence[RowPiece], rows: int) -> Encoded:
    """Return rows that consist of all pieces, in order. Raises `pa.ArrowCapacityError` for more than 2 GiB."""
    sizes = np.zeros(rows, np.int64)
    for piece in pieces:
        sizes += piece.lengths
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > _LONGEST:
        raise pa.ArrowCapacityError(f"{offsets[-1]} bytes do not fit an array of 32-bit offsets")
    data = np.empty(int(offsets[-1]) + WIDE, np.uint8)
    if rows:
        _Copy(data, offsets).pieces(pieces)
    return Encoded(data, offsets)


class _Copy:
    def __init__(self, data: Array, offsets: Array) -> None:
        self._data = data
        self._ends = offsets[1:]
        self._at = offsets[:-1].copy()
        self._wide = _windows(data, WIDE)

    def pieces(self, pieces: Sequence[RowPiece]) -> None:
        """Copy all pieces.

        A piece is copied in blocks of WIDE bytes if enough bytes come before or after it. The minimum lengths of the
        pieces decide that.
        """
        after = sum(piece.least for piece in pieces)
        before = 0
        kept: Array | None = None
        for piece in pieces:
            after -= piece.least
            # The last bytes of a long piece are copied separately. For them, only the bytes after the piece count.
            wide = (piece.least if piece.most <= WIDE else 0) + after >= WIDE
            if not wide and kept is None and before >= WIDE:
                kept = self._wide[self._ends]
            self._piece(piece, wide=wide or kept is not None)
            self._at += piece.lengths
            before += piece.least
        if kept is not None:
            self._wide[self._ends] = kept

    def _piece(self, piece: RowPiece, *, wide: bool) -> None:
        if piece.most <= WIDE and wide:
            self._wide[self._at] = (
                piece.source.view(f"V{WIDE}") if piece.starts is None else _windows(piece.source, WIDE)[piece.starts]
            )
            return
        starts = np.arange(len(self._at)) * WIDE if piece.starts is None else piece.starts
        self._long(piece, starts, wide=wide)

    def _long(self, piece: RowPiece, starts: Array, *, wide: bool) -> None:
        at, left = self._at.copy(), piece.lengths.copy()
        starts = starts.copy()
        for width in (*_LADDER, *_EXACT):
            if width < WIDE and wide:
                break
            source, target = _windows(piece.source, width), _windows(self._data, width)
            most = int(left.max()) if len(left) else 0
            while most >= width:
                rows = np.flatnonzero(left >= width)
                target[at[rows]] = source[starts[rows]]
                at[rows] += width
                starts[rows] += width
                left[rows] -= width
                most = int(left.max())
        if wide:
            rows = np.flatnonzero(left > 0)
            self._wide[at[rows]] = _windows(piece.source, WIDE)[starts[rows]]


def _windows(data: Array, width: int) -> Array:
    """Return a view of `data`: one run of `width` bytes for each start position."""
    return np.ndarray((max(0, len(data) - width + 1),), f"V{width}", data, 0, (1,))


def padded(data: Array, first: int, end: int) -> tuple[Array, int]:
    """Return an array with the bytes from `first` to `end` and WIDE more bytes, and its start as a position in `data`.

    Most calls need no copy: they return `data` itself and 0.
    """
    if end + WIDE <= len(data):
        return data, 0
    copy = np.empty(end - first + WIDE, np.uint8)
    copy[: end - first] = data[first:end]
    return copy, first


_CONTINUED: Final = np.array([0, *((0x8080808080808080 & ((1 << 8 * n) - 1)) for n in range(8))], np.uint64)
"""The continuation bits of the bytes of a varint, by its length of up to 8 bytes."""


def varints(numbers: Array, rows: Array | None) -> RowPiece:
    """Encode 64-bit numbers as Avro's int and long: zigzag, 7 bits in a byte. Rows outside of `rows` get no bytes."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return unsigned_varints(zigzag, rows)


def unsigned_varints(numbers: Array, rows: Array | None, before: bytes = b"") -> RowPiece:
    """Encode unsigned 64-bit numbers, 7 bits in a byte, the lowest bits first. Up to 6 constant bytes come `before`."""
    most = int(numbers.max()) if len(numbers) else 0
    width = max(1, (most.bit_length() + 6) // 7)
    lengths = np.ones(len(numbers), np.int64)
    for count in range(1, width):
        lengths += numbers >= np.uint64(1 << 7 * count)
    words = np.zeros((len(numbers), 2), np.uint64)
    spread = _spread(numbers, width)
    if width <= 8:
        words[:, 0] = spread | _CONTINUED[lengths]
    else:
        words[:, 0] = spread | _CONTINUED[np.minimum(lengths, 8)]
        long = lengths > 8
        words[long, 0] |= np.uint64(1 << 63)
        top = numbers >> np.uint64(56)
        words[:, 1] = (top & np.uint64(0x7F)) | ((top >> np.uint64(7)) << np.uint64(8))
        words[lengths > 9, 1] |= np.uint64(0x80)
    return _of_words(words, lengths, rows, before)


def _spread(numbers: Array, width: int) -> Array:
    """Spread the lowest 56 bits: 7 bits in each byte, with a zero as its highest bit."""
    if width == 1:
        return numbers
    found = numbers
    if width > 4:
        low, high = np.uint64((1 << 28) - 1), np.uint64(((1 << 28) - 1) << 28)
        found = (found & low) | ((found & high) << np.uint64(4))
    if width > 2:
        low, high = np.uint64(0x00003FFF00003FFF), np.uint64(0x0FFFC0000FFFC000)
        found = (found & low) | ((found & high) << np.uint64(2))
    low, high = np.uint64(0x007F007F007F007F), np.uint64(0x3F803F803F803F80)
    return (found & low) | ((found & high) << np.uint64(1))


def fixed_width(values: Array, rows: Array | None, before: bytes = b"") -> RowPiece:
    """Encode numbers of up to 8 bytes in their own width, little-endian. Up to 6 constant bytes come `before`."""
    words = np.zeros((len(values), WIDE // values.itemsize), values.dtype)
    words[:, 0] = values
    return _of_words(words, np.full(len(values), values.itemsize, np.int64), rows, before)


def constant(data: bytes, count: int, rows: Array | None) -> RowPiece:
    """Return a piece with the same bytes in each row."""
    source = np.frombuffer(data + bytes(WIDE), np.uint8)
    return RowPiece.of(_only(np.full(count, len(data), np.int64), rows), source, np.zeros(count, np.int64))


def _of_words(words: Array, lengths: Array, rows: Array | None, before: bytes = b"") -> RowPiece:
    if before:
        shift = np.uint64(8 * len(before))
        halves = words.view(np.uint64)
        if len(lengths) and len(before) + int(lengths.max()) > 8:
            halves[:, 1] = halves[:, 1] << shift | halves[:, 0] >> (np.uint64(64) - shift)
        halves[:, 0] = halves[:, 0] << shift | np.uint64(int.from_bytes(before, "little"))
        lengths = lengths + len(before)
    return RowPiece.of(_only(lengths, rows), words.view(np.uint8).ravel(), None)


def _only(lengths: Array, rows: Array | None) -> Array:
    return lengths if rows is None else lengths * rows
