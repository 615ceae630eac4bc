"""Bytes in text: base64, and the unscaled bytes of decimals, for whole columns at once."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.converters.text import bytes_of, lengths_of, offsets_of, strings_from

_ALPHABET = np.frombuffer((string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode(), np.uint8)
_PAIRS = np.stack([np.repeat(_ALPHABET, 64), np.tile(_ALPHABET, 64)], axis=1).copy().view(np.uint16).ravel()
"""Two base64 characters for each 12 bits."""

# Built from buffers: to convert a list Arrow imports pandas, which takes a third of a second.
_PADDING = pa.Array.from_buffers(
    pa.binary(), 3, [None, pa.py_buffer(np.array([0, 0, 2, 3], np.int32)), pa.py_buffer(bytes(3))]
)
"""The padding of a group of three bytes, by the length modulo 3: nothing, two zeros, or one."""


def base64(values: pa.Array) -> pa.Array:
    """The base64 texts (RFC 4648, padded) of a `binary` array."""
    # Null slots may have bytes; an empty value instead keeps slots and groups aligned.
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


def unscaled_bytes(decimals: pa.Array) -> pa.Array:
    """The unscaled values of a decimal array as `binary`: two's complement, big-endian, as short as possible.

    That is the layout of Connect's logical type Decimal, and of Java's BigInteger.
    """
    width = decimals.type.byte_width
    raw = np.frombuffer(decimals.buffers()[1], np.uint8).reshape(-1, width)
    number = raw[decimals.offset : decimals.offset + len(decimals), ::-1]
    sign = np.where(number[:, :1] >= 128, 255, 0).astype(np.uint8)
    significant = number != sign
    first = np.where(significant.any(axis=1), significant.argmax(axis=1), width - 1)
    rows = np.arange(len(number))
    # The leading byte must show the sign; otherwise one more byte is kept.
    first -= (number[rows, first] >= 128) != (sign[:, 0] >= 128)
    lengths = width - first
    kept: np.ndarray[Any, Any] = np.arange(width) >= first[:, None]
    return strings_from(decimals, lengths, number[kept]).view(pa.binary())
