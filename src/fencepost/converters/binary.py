"""Bytes as text for whole columns: base64, and the unscaled bytes of decimals."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.converters.text import bytes_of, lengths_of, offsets_of, strings_from

_ALPHABET = np.frombuffer((string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode(), np.uint8)
_PAIRS = np.stack([np.repeat(_ALPHABET, 64), np.tile(_ALPHABET, 64)], axis=1).copy().view(np.uint16).ravel()
"""The two base64 characters for each number of 12 bits."""

_GROUP_BITS = 24
_TOP_GROUP = 64 - _GROUP_BITS
# Masks for the last four characters of a text, as a little-endian number: the characters to keep, and the padding. The
# index is the number of bytes modulo 3.
_KEPT = np.array([0xFFFFFFFF, 0x0000FFFF, 0x00FFFFFF], np.uint32)
_PADDED = np.array([0, 0x3D3D0000, 0x3D000000], np.uint32)

# The array is built from buffers, because Arrow would import pandas to convert a Python list, which takes a third of a
# second.
_PADDING = pa.Array.from_buffers(
    pa.binary(), 3, [None, pa.py_buffer(np.array([0, 0, 2, 3], np.int32)), pa.py_buffer(bytes(3))]
)
"""The bytes that complete a group of three, by the length modulo 3: nothing, two zeros, or one zero."""


def base64(values: pa.Array) -> pa.Array:
    """The base64 texts (RFC 4648, padded) of a `binary` array."""
    # The slot of a null may contain bytes. Making it an empty value keeps values and groups of bytes aligned.
    filled = values.fill_null(b"") if values.null_count else values
    lengths = lengths_of(filled)
    remainders = lengths % 3
    if remainders.any():
        padded = pc.binary_join_element_wise(filled, _PADDING.take(pa.array(remainders)), b"")
    else:
        padded = filled
    groups = bytes_of(padded).reshape(-1, 3).astype(np.uint16)
    coded = np.empty((len(groups), 2), np.uint16)
    coded[:, 0] = _PAIRS[(groups[:, 0] << 4) | (groups[:, 1] >> 4)]
    coded[:, 1] = _PAIRS[((groups[:, 1] & 15) << 8) | groups[:, 2]]
    text = coded.view(np.uint8).ravel()
    sizes = (lengths + 2) // 3 * 4
    ends = offsets_of(sizes)[1:]
    text[ends[remainders != 0] - 1] = ord("=")
    text[ends[remainders == 1] - 2] = ord("=")
    return strings_from(values, sizes, text)


def base64_decimals(decimals: pa.Array) -> pa.Array:
    """The base64 texts of the unscaled bytes of a decimal array.

    Unscaled values of 64 bits are encoded as numbers, in a third of the time that encoding their bytes would take.
    """
    if not pa.types.is_decimal128(decimals.type):
        return base64(unscaled_bytes(decimals))
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)[decimals.offset :][: len(decimals)]
    numbers = words[:, 0]
    if not (words[:, 1] == numbers >> 63).all():
        return base64(unscaled_bytes(decimals))
    lengths = _twos_complement_lengths(numbers)
    groups = (lengths + 2) // 3
    # Shift each number so that its first byte is the highest byte of the word.
    aligned = numbers.astype(np.uint64) << (64 - 8 * lengths).astype(np.uint64)
    coded = np.empty((len(numbers), int(groups.max(initial=1))), np.uint32)
    for position in range(coded.shape[1]):
        group = (aligned >> np.uint64(_TOP_GROUP)).astype(np.uint32)
        first, second = _PAIRS[group >> 12], _PAIRS[group & 0xFFF]
        coded[:, position] = first.astype(np.uint32) | second.astype(np.uint32) << np.uint32(16)
        aligned = aligned << np.uint64(_GROUP_BITS)
    rows, last, remainders = np.arange(len(numbers)), groups - 1, lengths % 3
    coded[rows, last] = coded[rows, last] & _KEPT[remainders] | _PADDED[remainders]
    text = coded if (groups == coded.shape[1]).all() else coded[np.arange(coded.shape[1]) < groups[:, None]]
    return strings_from(decimals, groups * 4, np.ascontiguousarray(text).view(np.uint8).ravel())


def _twos_complement_lengths(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the smallest number of bytes that hold each 64-bit number with its sign."""
    sizes = numbers ^ (numbers >> 63)
    lengths = np.ones(len(numbers), np.int64)
    most = int(sizes.max(initial=0))
    for bits in range(7, 63, 8):
        if most >> bits:
            lengths += sizes >> bits != 0
    return lengths


def unscaled_bytes(decimals: pa.Array) -> pa.Array:
    """Return the unscaled values of a decimal array as `binary`: two's complement, big-endian, as short as possible.

    Connect's logical type Decimal and Java's BigInteger have the same layout.
    """
    width = decimals.type.byte_width
    raw = np.frombuffer(decimals.buffers()[1], np.uint8).reshape(-1, width)
    number = raw[decimals.offset : decimals.offset + len(decimals), ::-1]
    sign = np.where(number[:, :1] >= 128, 255, 0).astype(np.uint8)
    significant = number != sign
    first = np.where(significant.any(axis=1), significant.argmax(axis=1), width - 1)
    rows = np.arange(len(number))
    # The first kept byte must show the sign; if it does not, one more byte is kept.
    first -= (number[rows, first] >= 128) != (sign[:, 0] >= 128)
    lengths = width - first
    kept: np.ndarray[Any, Any] = np.arange(width) >= first[:, None]
    return strings_from(decimals, lengths, number[kept]).view(pa.binary())
