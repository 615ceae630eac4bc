"""Makes varints for whole columns at once, packed into Arrow's inline binary views.

A field of a Kafka record is a varint: groups of seven bits, the lowest group first. In each byte except the last, the
high bit is set. Signed numbers are zigzag-encoded first (https://kafka.apache.org/documentation/#recordbatch, "varint"
and "varlong"). Nothing here works byte by byte. A column of varints is a column of 64-bit words that hold their bytes,
the first byte lowest. Consecutive fields are combined by shift and `or` into the 12 bytes that a binary view holds
inline (https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout):

    bytes 0-3      4 ... 15                     as two words:  first = length | bytes 0-3 << 32
    length         the bytes, when length <= 12                second = bytes 4-11

Arrow's arrays have the machine's byte order. This layout requires that it is little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Lengths = NDArray[np.int64] | int

INLINE_BYTES = 12
_WORD_BYTES = 8
_BYTES_IN_FIRST = 4
_SMALL_TABLE = 64


@dataclass(frozen=True, slots=True)
class Field:
    """A field of up to eight bytes in every row.

    `words` holds the bytes, the first byte lowest. `length` is the number of bytes, an int if it is the same in all
    rows; it is between `shortest` and `longest`. Arrays have one element for each row, or a single one that stands for
    all rows.
    """

    words: Words
    length: Lengths
    shortest: int
    longest: int


@dataclass(frozen=True, slots=True)
class InlineViews:
    """A column of binary views, each of which contains consecutive fields of one row inline.

    `first` and `second` are the two 64-bit words of each view.
    """

    first: Words
    second: Words


def constant(data: bytes) -> Field:
    """Return a field with the same bytes (at most eight) in every row."""
    return Field(np.array([int.from_bytes(data, "little")], np.uint64), len(data), len(data), len(data))


def zigzag(numbers: NDArray[np.int64]) -> Words:
    """Map signed numbers to unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def unsigned_varint(number: int) -> bytes:
    """Return the varint of one unsigned number."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def signed_varint(number: int) -> bytes:
    """Return the zigzag varint of one number."""
    return unsigned_varint(_zigzag(number))


def byte_length(number: int) -> int:
    """Return the number of bytes of an unsigned number's varint."""
    return max(1, (number.bit_length() + 6) // 7)


def signed_varint_length(number: int) -> int:
    """Return the number of bytes of a number's zigzag varint."""
    return byte_length(_zigzag(number))


def _zigzag(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def signed_varint_lengths(numbers: NDArray[np.int64]) -> Lengths:
    """Return the number of bytes of each number's zigzag varint."""
    unsigned = zigzag(numbers)
    low, high = byte_length(int(unsigned.min())), byte_length(int(unsigned.max()))
    length: Lengths = low
    for group in range(low, high):
        length = length + (unsigned >= np.uint64(1 << 7 * group))
    return length


def signed_varints(numbers: NDArray[np.int64]) -> tuple[Field, ...]:
    """Return zigzag varints: one field, or two if some varints have more than eight bytes."""
    unsigned = zigzag(numbers)
    low, high = byte_length(int(unsigned.min())), byte_length(int(unsigned.max()))
    head, length = _groups(unsigned, low, min(high, _WORD_BYTES), continued=high > _WORD_BYTES)
    if high <= _WORD_BYTES:
        return (Field(head, length, low, high),)
    rest = unsigned >> np.uint64(7 * _WORD_BYTES)
    tail, tail_length = _groups(rest, 1, high - _WORD_BYTES, continued=False)
    tail_length = np.where(rest > 0, tail_length, 0)
    return (
        Field(head, length, min(low, _WORD_BYTES), _WORD_BYTES),
        Field(tail, tail_length, max(0, low - _WORD_BYTES), high - _WORD_BYTES),
    )


def _groups(unsigned: Words, low: int, high: int, *, continued: bool) -> tuple[Words, Lengths]:
    """Return the lowest `high` 7-bit groups of each number, and how many groups each number needs, at least `low`."""
    words = unsigned & np.uint64(0x7F)
    for group in range(1, high):
        words |= (unsigned & np.uint64(0x7F << 7 * group)) << np.uint64(group)
    always = sum(0x80 << 8 * byte for byte in range(min(low - 1, high if continued else high - 1)))
    if always:
        words |= np.uint64(always)
    length: Lengths = min(low, high)
    for group in range(low, high + continued):
        more = unsigned >= np.uint64(1 << 7 * group)
        words |= more.astype(np.uint64) << np.uint64(8 * group - 1)
        if group < high:
            length = length + more
    return words, length


def offset_deltas(count: int, then: bytes = b"") -> Field:
    """Return the varints of 0, 1, 2 ... count - 1, each followed by the bytes `then`."""
    # Every batch counts from zero, so a table whose size is the next power of two serves all batches up to this size.
    table = _offset_delta_table(max(_SMALL_TABLE, 1 << (count - 1).bit_length()), then)
    length = table.length if isinstance(table.length, int) else table.length[:count]
    return Field(table.words[:count], length, table.shortest, signed_varint_length(count - 1) + len(then))


def offset_delta_runs(count: int) -> Iterator[tuple[int, int, int]]:
    """Yield runs of offset deltas with the same length: the first delta, the number of deltas, and their length."""
    first, length = 0, 1
    while first < count:
        end = min(count, 1 << 7 * length - 1)
        yield first, end - first, length
        first, length = end, length + 1


@lru_cache(maxsize=8)
def _offset_delta_table(count: int, then: bytes) -> Field:
    (field,) = signed_varints(np.arange(count, dtype=np.int64))
    words = field.words | np.uint64(int.from_bytes(then, "little")) << np.asarray(8 * field.length).astype(np.uint64)
    return Field(words, field.length + len(then), field.shortest + len(then), field.longest + len(then))


def inline_views(fields: Iterable[Field]) -> Iterator[InlineViews]:
    """Pack consecutive fields into as few columns of inline views as possible."""
    group: list[Field] = []
    room = INLINE_BYTES
    for field in fields:
        if field.longest > room:
            yield _concatenated(group)
            group, room = [], INLINE_BYTES
        group.append(field)
        room -= field.longest
    yield _concatenated(group)


def _concatenated(fields: list[Field]) -> InlineViews:
    first: Words | None = None
    second: Words | None = None
    start: Lengths = 0
    earliest = latest = 0
    for field in fields:
        earliest, latest = earliest + field.shortest, latest + field.longest
        # A field of zero bytes changes only the length.
        if len(field.words) > 1 or field.words[0]:
            if earliest - field.shortest < _BYTES_IN_FIRST:
                first = _or(first, _shifted(field.words, start))
            if latest > _BYTES_IN_FIRST:
                second = _or(second, _shifted(field.words, start - _WORD_BYTES))
        start = start + field.length
    lengths = np.atleast_1d(start).astype(np.uint64)
    return InlineViews(_or(first, lengths), np.zeros(1, np.uint64) if second is None else second)


def _shifted(words: Words, start: Lengths) -> Words:
    """Return `words` shifted to byte `start` of a view's inline bytes.

    The result is for the view's first word, in which the inline bytes begin at the fifth byte. For the second word,
    `start` is given minus 8. Bytes outside of the word are cut off.
    """
    bits = 8 * (start + _BYTES_IN_FIRST)
    if isinstance(bits, int):
        return words << np.uint64(bits) if bits >= 0 else words >> np.uint64(-bits)
    up = words << bits.view(np.uint64)
    if int(bits.min()) >= 0:
        return up
    # numpy shifts by 64 or more give zero. A negative shift, read as an unsigned number, is more than 64.
    return _or(up, words >> (-bits).view(np.uint64))


def _or(words: Words | None, more: Words) -> Words:
    """Return the bitwise `or` of both. `words` may be overwritten."""
    if words is None or len(words) < len(more):
        return more if words is None else words | more
    words |= more
    return words
