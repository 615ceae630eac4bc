"""Lays out the bytes of records one after the other, in one of two ways. This is the core of the record batch encoder.

If all records have the same length, they are the rows of a matrix. A row consists of strips, each of which has the same
width in every row. One strided copy writes a strip of all rows. That takes a fraction of the time of views and their
cast (bench/encoder.py), which read the length of each record.

Other records are rows of binary views. Without headers, all rows have the same number of pieces:

    [0] body length, attributes, deltas, key length | key | value length | value
     ^ the previous record's header count: this saves a piece. The first count is cut off, and one is added at the end

(Without keys, the key length and the value length share the first piece.) With headers, the rows differ in length:

    body length, attributes, deltas, key length | key | value length | value | header count | headers, four pieces each
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.kafka.records import varints
from fencepost.kafka.records.columns import Records, byte_offsets
from fencepost.kafka.records.varints import Field, InlineViews, Lengths, Words

_NULL = -1
_NULL_KEY = b"\1"
_NO_HEADERS = b"\0"
_ATTRIBUTES = b"\0"
_VIEW_BYTES = 16
_PIECES_OF_A_HEADER = 4

# Numpy copies numbers faster than byte strings of the same width.
_NUMBERS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}

Rows = slice | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Strip:
    """`width` bytes of every row.

    In the first row they begin at `start` of `data`, in each further row `step` later.
    """

    data: Any
    start: int
    width: int
    step: int


@dataclass(frozen=True, slots=True)
class Run:
    """`count` rows, beginning with the row `first` of the strips. `row` has the parts of a row, from left to right.

    Parts that are bytes are the same in every row.
    """

    first: int
    count: int
    row: Sequence[Strip | bytes]


def laid_out(runs: Sequence[Run]) -> memoryview:
    """Return the bytes of all rows, one after the other."""
    matrices = [(run, list(_strips(run.row)), row_width(run.row)) for run in runs]
    data = pa.allocate_buffer(sum(run.count * row_bytes for run, _, row_bytes in matrices))
    position = 0
    for run, strips, row_bytes in matrices:
        for strip in strips:
            kind = _NUMBERS.get(strip.width, f"V{strip.width}")
            start = strip.start + run.first * strip.step
            source = np.ndarray(run.count, kind, strip.data, start, (strip.step,))
            np.ndarray(run.count, kind, data, position, (row_bytes,))[:] = source
            position += strip.width
        position += (run.count - 1) * row_bytes
    return memoryview(data)


def row_width(row: Iterable[Strip | bytes]) -> int:
    """Return the number of bytes in a row."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.width for piece in row)


def _strips(row: Iterable[Strip | bytes]) -> Iterator[Strip]:
    """Yield the parts of a row. Adjacent constant bytes become one strip."""
    constant = b""
    for piece in row:
        if isinstance(piece, bytes):
            constant += piece
        else:
            yield from _repeated(constant)
            constant = b""
            yield piece
    yield from _repeated(constant)


def _repeated(constant: bytes) -> Iterator[Strip]:
    if constant:
        yield Strip(constant, 0, len(constant), 0)


@dataclass(frozen=True, slots=True)
class Bytes:
    """A column of byte strings that go into the batch unchanged, each with its length in front.

    `prefixes` are the lengths in the batch, -1 for null. If all are equal, there is one element, which applies to all
    rows.
    """

    column: pa.Array
    prefixes: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.Array) -> Bytes:
        """Return the object for a binary, large_binary or string column, sliced or not."""
        offsets = byte_offsets(column)
        lengths = offsets[1:] - offsets[:-1]
        if column.null_count:
            lengths[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
        if len(lengths) and (lengths == lengths[0]).all():
            lengths = lengths[:1]
        return cls(column, lengths.astype(np.int64))

    @property
    def even(self) -> bool:
        """Whether all rows are known to have the same length."""
        return len(self.prefixes) == 1

    def encoded_lengths(self) -> NDArray[np.int64]:
        """Return the size in bytes of each value, including the length in front of it."""
        lengths: NDArray[np.int64] = varints.signed_varint_lengths(self.prefixes) + np.maximum(self.prefixes, 0)
        return lengths

    def strips(self) -> list[Strip | bytes]:
        """Return the parts of the column in every row, for values of equal length: the encoded length, and a strip."""
        length = int(self.prefixes[0])
        prefix = varints.signed_varint(length)
        if length <= 0:
            return [prefix]
        return [prefix, Strip(self.column.buffers()[2], int(byte_offsets(self.column)[0]), length, length)]

    def views(self) -> tuple[Words, pa.Buffer | None]:
        """Return the column as binary views, two words in each row, and the buffer into which the long views point."""
        column = _narrow(self.column).cast(pa.binary_view())
        buffers = column.buffers()
        words = np.frombuffer(buffers[1], np.uint64).reshape(-1, 2)[column.offset : column.offset + len(column)]
        if column.null_count:
            words = np.where((self.prefixes < 0)[:, np.newaxis], np.uint64(0), words)
        return words, buffers[2] if len(buffers) > 2 else None


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of all records in order, and the number of headers of each record."""

    counts: NDArray[np.int64]
    names: Bytes
    values: Bytes

    @classmethod
    def of(cls, column: pa.Array) -> Headers:
        """Return the object for a column of the type `records.HEADERS`."""
        counts = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
        entries = column.flatten()
        return cls(counts, Bytes.of(entries.field(0)), Bytes.of(entries.field(1)))

    def before(self) -> NDArray[np.int64]:
        """Return, for each record, the number of headers of all records before it."""
        return np.cumsum(self.counts) - self.counts

    def encoded_lengths(self) -> NDArray[np.int64]:
        """Return the number of bytes that the header count and the headers of each record take."""
        total = int(self.counts.sum())
        lengths = varints.signed_varint_lengths(self.counts)
        if not total:
            return np.broadcast_to(lengths, len(self.counts))
        each = np.broadcast_to(self.names.encoded_lengths() + self.values.encoded_lengths(), total)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])
        before = self.before()
        of_record: NDArray[np.int64] = lengths + ends[before + self.counts] - ends[before]
        return of_record


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of records, whose lengths are known."""

    count: int
    key: Bytes | None
    value: Bytes
    headers: Headers | None

    @classmethod
    def of(cls, records: Records) -> Columns:
        """Return the columns of records. There must be at least one record."""
        return cls(
            len(records),
            None if records.key is None else Bytes.of(records.key),
            Bytes.of(records.value),
            None if records.headers is None else Headers.of(records.headers),
        )

    def body_lengths(self, deltas: Lengths) -> NDArray[np.int64]:
        """Return the records' lengths, given the lengths of their two deltas; only one element if all are equal."""
        attributes = 1
        key = 1 if self.key is None else self.key.encoded_lengths()
        headers = 1 if self.headers is None else self.headers.encoded_lengths()
        return attributes + deltas + key + self.value.encoded_lengths() + headers

    def concatenated(self, timestamp_deltas: Sequence[Field]) -> memoryview:
        """Return the bytes of all records, one after the other."""
        if self._even(timestamp_deltas):
            return self._laid_out(timestamp_deltas)
        offset_deltas = varints.offset_deltas(self.count)
        deltas = offset_deltas.length + sum(field.length for field in timestamp_deltas)
        body_lengths = varints.signed_varints(self.body_lengths(deltas))
        first = [*body_lengths, varints.constant(_ATTRIBUTES), *timestamp_deltas]
        if self.headers is None:
            return self._without_headers([varints.constant(_NO_HEADERS), *first])
        return self._with_headers(first, self.headers)

    def _even(self, timestamp_deltas: Sequence[Field]) -> bool:
        """Whether the records' lengths differ at most by the lengths of their offset deltas."""
        columns = [self.value] if self.key is None else [self.key, self.value]
        even = all(column.even for column in columns) and all(
            isinstance(field.length, int) for field in timestamp_deltas
        )
        return even and self.headers is None

    def _laid_out(self, timestamp_deltas: Sequence[Field]) -> memoryview:
        before = [_ATTRIBUTES, *(_strip(field, field.longest) for field in timestamp_deltas)]
        after = [_NULL_KEY] if self.key is None else self.key.strips()
        after += [*self.value.strips(), _NO_HEADERS]
        offset_deltas = varints.offset_deltas(self.count)
        runs = []
        for first, count, width in varints.offset_delta_runs(self.count):
            body = [*before, _strip(offset_deltas, width), *after]
            runs.append(Run(first, count, [varints.signed_varint(row_width(body)), *body]))
        return laid_out(runs)

    def _row(self, first: list[Field]) -> list[InlineViews | Bytes]:
        """Return the pieces of a record up to its value. `first` are the fields before the offset delta."""
        value_length = varints.signed_varints(self.value.prefixes)
        if self.key is None:
            fields = [*first, varints.offset_deltas(self.count, _NULL_KEY), *value_length]
            return [*varints.inline_views(fields), self.value]
        fields = [*first, varints.offset_deltas(self.count), *varints.signed_varints(self.key.prefixes)]
        return [*varints.inline_views(fields), self.key, *varints.inline_views(value_length), self.value]

    def _without_headers(self, first: list[Field]) -> memoryview:
        row = self._row(first)
        width = len(row)
        cells = _Cells(self.count * width + 1)
        for position, piece in enumerate(row):
            cells.put(slice(position, self.count * width, width), piece)
        cells.put(slice(self.count * width, None), InlineViews(np.ones(1, np.uint64), np.zeros(1, np.uint64)))
        return cells.concatenated()[1:]

    def _with_headers(self, first: list[Field], headers: Headers) -> memoryview:
        row = [*self._row(first), *varints.inline_views(varints.signed_varints(headers.counts))]
        width, before, total = len(row), headers.before(), int(headers.counts.sum())
        cells = _Cells(self.count * width + total * _PIECES_OF_A_HEADER)
        starts = np.arange(self.count) * width + before * _PIECES_OF_A_HEADER
        for position, piece in enumerate(row):
            cells.put(starts + position, piece)
        if total:
            rank = np.arange(total) - np.repeat(before, headers.counts)
            starts = np.repeat(starts + width, headers.counts) + rank * _PIECES_OF_A_HEADER
            for position, column in ((0, headers.names), (2, headers.values)):
                (length,) = varints.inline_views(varints.signed_varints(column.prefixes))
                cells.put(starts + position, length)
                cells.put(starts + position + 1, column)
        return cells.concatenated()


def _strip(field: Field, width: int) -> Strip | bytes:
    """Return a field with `width` bytes in each row: a strip, or constant bytes."""
    if len(field.words) == 1:
        return field.words.tobytes()[:width]
    return Strip(field.words, 0, width, field.words.itemsize)


class _Cells:
    """The pieces of a batch, in the order in which they are sent."""

    def __init__(self, count: int) -> None:
        # Arrow's allocator keeps freed memory. The C library's allocator would fault the pages in again for every
        # batch.
        self._views = pa.allocate_buffer(count * _VIEW_BYTES)
        self._words = np.frombuffer(self._views, np.uint64).reshape(-1, 2)
        self._buffers: list[pa.Buffer] = []

    def put(self, rows: Rows, piece: InlineViews | Bytes) -> None:
        """Put one piece of each record into the cells of `rows`."""
        if isinstance(piece, InlineViews):
            self._words[rows, 0] = piece.first
            self._words[rows, 1] = piece.second
            return
        words, buffer = piece.views()
        self._words[rows] = words
        if buffer is None:
            return
        if self._buffers:
            # In a long view, the lower half of the second word is the number of the buffer that the view points into.
            is_long = piece.prefixes > varints.INLINE_BYTES
            self._words[rows, 1] += is_long.astype(np.uint64) * np.uint64(len(self._buffers))
        self._buffers.append(buffer)

    def concatenated(self) -> memoryview:
        """Return the bytes of all pieces, one after the other."""
        buffers = [None, self._views, *self._buffers]
        views = pa.Array.from_buffers(pa.binary_view(), len(self._words), buffers)
        _, offsets, data = views.cast(pa.binary()).buffers()
        return memoryview(data)[: int(np.frombuffer(offsets, np.int32)[len(self._words)])]


def _narrow(column: pa.Array) -> pa.Array:
    """Return the column with 32-bit offsets, which views need, and without a null bitmap."""
    if not pa.types.is_large_binary(column.type):
        return column
    offsets = byte_offsets(column)
    start, end = int(offsets[0]), int(offsets[-1])
    buffer = column.buffers()[2]
    data = None if buffer is None else buffer.slice(start, end - start)
    return pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer((offsets - start).astype(np.int32)), data]
    )
